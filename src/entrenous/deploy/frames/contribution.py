"""Contributions of a node's devices to a round, as the body of a frame, and the checks they must
pass before they come near a model.

`update`: one device sends its Update as it is. `sum`: several devices of one node are added up on
the node, in the integers that the server adds in, so that the server sees no device of a gateway by
itself, but for what the algorithm shows singly; the total is the same to the bit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NoReturn

import numpy as np

from ...core.contract.declared import Contract, bound
from ...core.contract.protocols import Catalogue, FederatedAlgorithm, State, arrays_of
from ...core.contract.update import (
    LIMIT,
    NO_GROUPS,
    ShownArrays,
    Total,
    Update,
    add_update,
    by_item,
    merge_totals,
)
from ...core.types import Array, Int32Array, Int64Array
from ...kernels.arrays import all_below, has_repeats
from ...privacy.in_force import ProtectionInForce
from ...privacy.protection import Protection
from ..wire import tensors
from ..wire.tensors import Malformed, Schema, TensorField
from .codes import Code, FrameRefused
from .totals import check_total

HEAD_ROOM = 1 << 16  # bytes of a body beside its numbers
WIDEST = 1 << 24  # a dimension of an array, at most


def agreed(
    algorithm: FederatedAlgorithm, catalogue: Catalogue, protection: Protection | None = None
) -> Contract:
    """The contract of a configured algorithm in this federation, by which contributions are read
    and checked: under a protection with as many rows as that has devices send."""
    contract = bound(algorithm, catalogue)
    if protection is None or not ProtectionInForce(protection, contract).wide:
        return contract
    return replace(contract, sizes={**contract.sizes, "rows": catalogue.items})


def _width(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))


def _widths(contract: Contract, way: str) -> int:
    """Numbers in all arrays that are sent in one way: of one row, or of one device."""
    return sum(_width(shape) for shape in contract.way(way).values())


def largest_body(contract: Contract, asked: Mapping[str, Int64Array]) -> int:
    """Bytes of the longest body there can be among the contributions of some nodes, by the users
    each was asked for.
    """
    most = max((len(users) for users in asked.values()), default=0)
    rows = min(contract.sizes["items"], most * _rows(contract)) * (
        12 + 8 * _widths(contract, "rows")
    )
    dense = 8 * contract.groups * (1 + _widths(contract, "dense"))
    shown = most * (8 + 4 * _widths(contract, "shown"))
    return rows + dense + shown + HEAD_ROOM


def _rows(contract: Contract) -> int:
    """The most rows that one device may send."""
    return contract.sizes["rows"] if contract.way("rows") else 0


# ---- on the node ---------------------------------------------------------------------------------


def of_update(update: Update) -> bytes:
    """Encodes the update of one device as the body of an `update`, its rows by item: the order in
    which an algorithm makes them tells positives from negatives (FPL: the first is always a
    negative).
    """
    update = by_item(update)
    group = {"group": update.group} if update.groups > 1 else {}
    return tensors.write(
        {
            "item": update.item,
            "weight": update.weight,
            **group,
            **_named("row", update.rows),
            **_named("dense", update.dense),
            **_show(update),
        }
    )


def of_total(total: Total) -> bytes:
    """Encodes a sum as the body of a `sum`, with the items that anybody sent a row for."""
    return tensors.write(_summed(total))


def _summed(total: Total) -> dict[str, Array]:
    item = np.flatnonzero(total.senders).astype(np.int32)
    rows = {name: row[item] for name, row in total.rows.items()}
    return {
        "item": item,
        "senders": total.senders[item],
        "weight": total.weight,
        **_named("row", rows),
        **_named("dense", total.dense),
        **shown_of(total),
    }


def check_numbers(devices: State, found: Update | Total, contract: Contract) -> None:
    """Raise FrameRefused for private numbers (float32) or a contribution beyond what an update can
    say: its server would refuse it, and every one after it."""
    arrays = [
        (name, array) for name, array in arrays_of(devices).items() if array.dtype == np.float32
    ]
    if isinstance(found, Total):
        check_total(found, contract, found.devices)
        arrays += [named for part in found.shown for named in part.arrays.items()]
    else:
        arrays += [
            *found.rows.items(),
            *found.dense.items(),
            *found.shown.items(),
            ("weight", found.weight),
        ]
    for name, array in arrays:
        _check_numbers(name, array, Code.TOO_LARGE)


def of_part(total: Total, users: Int64Array) -> bytes:
    """Encodes a sum as the body of a `part`: with the users whose devices are in it, int64
    ascending.
    """
    return tensors.write({**_summed(total), "users": users})


def shown_of(total: Total) -> dict[str, Array]:
    """The arrays that devices show singly, by the names under which they travel."""
    if not total.shown:
        return {}
    arrays = {
        name: np.concatenate([part.arrays[name] for part in total.shown])
        for name in total.shown[0].arrays
    }
    return {
        "sender": np.concatenate([part.sender for part in total.shown]),
        **_named("shown", arrays),
    }


def _show(update: Update) -> dict[str, Array]:
    return {"sender": update.sender, **_named("shown", dict(update.shown))} if update.shown else {}


def _named(kind: str, arrays: dict[str, Array]) -> dict[str, Array]:
    return {f"{kind}.{name}": array for name, array in arrays.items()}


# ---- on the server -------------------------------------------------------------------------------


def read_update(body: memoryview, contract: Contract, user: int) -> Update:
    """Reads the update of one device, that of `user`. Raises FrameRefused."""
    arrays = _read(body, _schema(contract, 1, "f4", _rows(contract)))
    item = arrays["item"]
    _check_items(item, contract)
    _check_shapes(arrays, contract, len(item), 1)
    for name, array in arrays.items():
        if array.dtype.kind == "f":
            _check_numbers(name, array, Code.WRONG_WEIGHT if name == "weight" else Code.TOO_LARGE)
    if not 0 <= float(arrays["weight"][0]) < LIMIT:
        _refuse(Code.WRONG_WEIGHT, "a weight below 0")
    if not contract.weighs and arrays["weight"][0] != 1:
        _refuse(Code.WRONG_WEIGHT, "a weight where every device weighs 1")
    groups = contract.groups
    if groups > 1 and not 0 <= int(arrays["group"][0]) < groups:
        _refuse(Code.WRONG_GROUP)
    shown = _checked_shown(arrays, contract, np.array([user]))
    rows, dense = (_part(arrays, kind) for kind in ("row", "dense"))
    own = arrays["group"] if groups > 1 else NO_GROUPS
    ptr = np.array([0, len(item)], np.int64)
    return Update(ptr, item, rows, dense, arrays["weight"], own, groups, shown.arrays, shown.sender)


def read_total(body: memoryview, contract: Contract, users: Int64Array) -> Total:
    """Reads the sum of the devices of `users`. Raises FrameRefused."""
    return _total(_read(body, _total_schema(contract, len(users))), contract, users)


def read_part(
    body: memoryview, contract: Contract, asked: Int64Array, heard: int
) -> tuple[Total, Int64Array]:
    """Reads the sum of `heard` of the devices that were asked for, and whose they are. asked: int64
    ascending. Raises FrameRefused.
    """
    if not 1 <= heard <= len(asked):
        _refuse(Code.WRONG_COUNT, "of devices")
    arrays = _read(body, {**_total_schema(contract, heard), "users": TensorField("i8", (heard,))})
    users = arrays.pop("users")
    if np.any(np.diff(users) <= 0) or not np.isin(users, asked).all():
        _refuse(Code.WRONG_SENDER, "other users than those who were asked")
    return _total(arrays, contract, users), users


def read_sum(
    body: bytes,
    contract: Contract,
    asked: Mapping[str, Int64Array],
    names: Iterable[str],
    heard: int,
) -> tuple[Total, Int64Array]:
    """Reads the sum that another process made of the answers of some nodes, as `read_part`. asked:
    the users that each was asked for.
    """
    return read_part(
        memoryview(body), contract, np.sort(np.concatenate([asked[name] for name in names])), heard
    )


def _total_schema(contract: Contract, m: int) -> dict[str, TensorField]:
    return _schema(contract, m, "i8", min(contract.sizes["items"], m * _rows(contract)))


def _total(arrays: dict[str, Array], contract: Contract, users: Int64Array) -> Total:
    m = len(users)
    item, senders = arrays["item"], arrays["senders"]
    _check_items(item, contract)
    _check_shapes(arrays, contract, len(item), contract.groups)
    if len(item) and int(senders.min()) < 1:
        _refuse(Code.WRONG_COUNT, "an item that nobody sends")
    shown = checked_shown(arrays, contract, users)
    total = contract.empty_total()
    for name, rows in _part(arrays, "row").items():
        total.rows[name][item] = rows
    total.senders[item] = senders
    total = total._replace(
        dense=_part(arrays, "dense"), weight=arrays["weight"], devices=m, shown=shown
    )
    check_total(total, contract, m)
    return total


def add(total: Total, contribution: Update | Total) -> Total:
    """Adds a contribution that was read to `total`, in place."""
    return (
        add_update(total, contribution)
        if isinstance(contribution, Update)
        else merge_totals(total, contribution)
    )


def checked_shown(
    arrays: dict[str, Array], contract: Contract, users: Int64Array
) -> tuple[ShownArrays, ...]:
    """The arrays that the devices of `users` show, checked. Raises FrameRefused."""
    found = _checked_shown(arrays, contract, users)
    return (found,) if found.arrays else ()


def shown_schema(contract: Contract, m: int) -> dict[str, TensorField]:
    """The expected arrays of what m devices show."""
    shown = contract.way("shown")
    fields = {f"shown.{name}": TensorField("f4", (m, *shape)) for name, shape in shown.items()}
    return {"sender": TensorField("i8", (m,)), **fields} if shown else {}


def _schema(contract: Contract, m: int, kind: str, most: int) -> dict[str, TensorField]:
    """Names and types of either form, and how many items at most; of the other shapes
    `_check_shapes` says better what is wrong.
    """
    parts = {f"row.{name}": shape for name, shape in contract.way("rows").items()}
    parts |= {f"dense.{name}": shape for name, shape in contract.way("dense").items()}
    free = {
        name: TensorField(kind, ((0, WIDEST),) * (1 + len(shape))) for name, shape in parts.items()
    }
    alone = {"group": TensorField("i4", (m,))} if kind == "f4" and contract.groups > 1 else {}
    summed = {"senders": TensorField("i8", ((0, WIDEST),))} if kind == "i8" else {}
    weights = m if kind == "f4" else contract.groups
    return {
        "item": TensorField("i4", ((0, most),)),
        "weight": TensorField(kind, (weights,)),
        **alone,
        **summed,
        **free,
        **shown_schema(contract, m),
    }


def _read(body: memoryview, schema: Schema) -> dict[str, Array]:
    try:
        return tensors.read(body, schema)
    except Malformed as bad:
        codes = {
            "dtype": Code.WRONG_TYPE,
            "names": Code.WRONG_ARRAYS,
            "bounds": Code.TOO_MANY_ROWS,
            "shape": Code.WRONG_COUNT,
        }
        raise FrameRefused(codes.get(bad.code, Code.MALFORMED), bad.code) from None


def _check_shapes(arrays: dict[str, Array], contract: Contract, n: int, m: int) -> None:
    """One row of the agreed width for each of n items, one array for each of m devices or
    groups.
    """
    agreed = {f"row.{name}": (n, *shape) for name, shape in contract.way("rows").items()}
    agreed |= {f"dense.{name}": (m, *shape) for name, shape in contract.way("dense").items()}
    agreed |= {"senders": (n,)} if "senders" in arrays else {}
    for name, expected in agreed.items():
        got = arrays[name].shape
        if got == expected:
            continue
        if got == expected[::-1]:
            _refuse(Code.TRANSPOSED, f"'{name}'")
        if got[1:] != expected[1:]:
            _refuse(
                Code.WRONG_FACTORS, f"'{name}' has rows of {got[1:]}, agreed was {expected[1:]}"
            )
        _refuse(
            Code.BROADCAST if got[0] == 1 else Code.WRONG_COUNT,
            f"'{name}' has {got[0]} rows, expected {expected[0]}",
        )


def _check_items(item: Int32Array, contract: Contract) -> None:
    if not len(item):
        return
    if int(item.min()) < 0:
        _refuse(Code.NEGATIVE_ITEM)
    if int(item.max()) >= contract.sizes["items"]:
        _refuse(Code.UNKNOWN_ITEM)
    if has_repeats(item, contract.sizes["items"]):
        _refuse(Code.DUPLICATE_ITEM)


def _check_numbers(name: str, array: Array, beyond: Code) -> None:
    """Finite, and such as the fixed point can hold; denormals are numbers too."""
    if all_below(array.reshape(-1), LIMIT):
        return
    if np.isnan(array).any():
        _refuse(Code.NAN, f"'{name}'")
    if np.isposinf(array).any():
        _refuse(Code.INF, f"'{name}'")
    if np.isneginf(array).any():
        _refuse(Code.MINUS_INF, f"'{name}'")
    _refuse(beyond, f"'{name}': a value beyond +-{LIMIT:.0f}")


def _checked_shown(arrays: dict[str, Array], contract: Contract, users: Int64Array) -> ShownArrays:
    if not contract.way("shown"):
        return ShownArrays(users[:0], {})
    sender = arrays["sender"]
    if not np.array_equal(np.sort(sender), users):
        _refuse(Code.WRONG_SENDER, "other users than those who were asked")
    shown = _part(arrays, "shown")
    for name, array in shown.items():
        _check_numbers(name, array, Code.TOO_LARGE)
    if wrong := contract.misplaced(shown):  # a server takes some for places in its arrays
        _refuse(Code.WRONG_PLACE, wrong)
    return ShownArrays(sender, shown)


def _part(arrays: dict[str, Array], kind: str) -> dict[str, Array]:
    return {
        name.removeprefix(f"{kind}."): array
        for name, array in arrays.items()
        if name.startswith(f"{kind}.")
    }


def _refuse(code: Code, text: str = "") -> NoReturn:
    raise FrameRefused(code, text)
