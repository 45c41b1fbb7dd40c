"""Contributions of a node's devices to a round, as the body of a frame, and the checks they must
pass before they come near a model.

`update`: one device sends its Update as it is. `sum`: several devices of one node are added up on
the node, in the integers that the server adds in, so that the server sees no device of a gateway by
itself, but for what the algorithm shows singly; the total is the same to the bit.

A contribution that is well-formed and signed may still be a lie. `Caps` do not find out who lies;
they bound how far a device may push and how much it may weigh. `halted` bounds how far a round may
move the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, NoReturn

import numpy as np

from ...core.contract.declared import Contract, bound
from ...core.contract.protocols import Catalogue, FederatedAlgorithm, State, arrays_of
from ...core.contract.update import (
    LIMIT,
    NO_GROUPS,
    STEP,
    ShownArrays,
    Total,
    Update,
    add_update,
    by_item,
    fixed,
    merge_totals,
    real,
)
from ...core.errors import InputError
from ...core.types import Array, Int32Array, Int64Array
from ...kernels.arrays import all_below, has_repeats, squares
from ...privacy.in_force import ProtectionInForce
from ...privacy.protection import Protection
from ..wire import tensors
from ..wire.tensors import Malformed, Schema, TensorField
from .frames import Code, FrameRefused

HEAD_ROOM = 1 << 16  # bytes of a body besides its numbers
WIDEST = 1 << 24  # a dimension of an array, at most
ONE = int(1 / STEP)  # the weight of a device, in steps of the fixed point
MOST = int(LIMIT / STEP)  # one value of one device, in steps of the fixed point
ALIKE = 256.0  # weight of a device in algorithms that count all alike (kernels/averaging.py)
ROUNDING = 1 + 1e-6  # a sum of numbers on a grid may be a little longer than its parts
NAMED = 3  # nodes that a reason names


def agreed(
    algorithm: FederatedAlgorithm, catalogue: Catalogue, protection: Protection | None = None
) -> Contract:
    """Returns the contract of a configured algorithm in this federation, by which contributions are
    read and checked; under a protection, with as many rows as that has devices send."""
    contract = bound(algorithm, catalogue)
    if protection is None or not ProtectionInForce(protection, contract).wide:
        return contract
    return replace(contract, sizes={**contract.sizes, "rows": catalogue.items})


def _widths(contract: Contract, way: str) -> int:
    """Returns the numbers in all arrays that are sent in one way: of one row, or of one device."""
    shapes = contract.way(way).values()
    return sum(int(np.prod(shape, dtype=np.int64)) for shape in shapes)


def _rows(contract: Contract) -> int:
    """Returns the most rows that one device may send."""
    return contract.sizes["rows"] if contract.way("rows") else 0


def largest_body(contract: Contract, asked: Mapping[str, Int64Array]) -> int:
    """Returns the bytes of the longest body that a node may send, by the users each was asked
    for.
    """
    most = max((len(users) for users in asked.values()), default=0)
    rows = min(contract.sizes["items"], most * _rows(contract))
    # item int32, senders int64 and the rows in int64; shown arrays are float32.
    row_bytes = 12 + 8 * _widths(contract, "rows")
    dense = 8 * contract.groups * (1 + _widths(contract, "dense"))
    shown = most * (8 + 4 * _widths(contract, "shown"))
    return rows * row_bytes + dense + shown + HEAD_ROOM


# ---- on the node ---------------------------------------------------------------------------------


def of_update(update: Update) -> bytes:
    """Encodes the update of one device as the body of an `update`, its rows by item: the order in
    which an algorithm makes them tells positives from negatives (FPL: the first is always a
    negative).
    """
    update = by_item(update)
    arrays: dict[str, Array] = {"item": update.item, "weight": update.weight}
    if update.groups > 1:
        arrays["group"] = update.group
    arrays |= _named("row", update.rows)
    arrays |= _named("dense", update.dense)
    if update.shown:
        arrays["sender"] = update.sender
        arrays |= _named("shown", update.shown)
    return tensors.write(arrays)


def of_total(total: Total) -> bytes:
    """Encodes a sum as the body of a `sum`, with the items that anybody sent a row for."""
    return tensors.write(_summed(total))


def of_part(total: Total, users: Int64Array) -> bytes:
    """Encodes a sum as the body of a `part`: with the users whose devices are in it, int64
    ascending.
    """
    return tensors.write({**_summed(total), "users": users})


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


def shown_of(total: Total) -> dict[str, Array]:
    """Returns the arrays that devices show singly, by the names under which they travel."""
    if not total.shown:
        return {}
    sender = np.concatenate([part.sender for part in total.shown])
    arrays = {}
    for name in total.shown[0].arrays:
        arrays[name] = np.concatenate([part.arrays[name] for part in total.shown])
    return {"sender": sender, **_named("shown", arrays)}


def _named(kind: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {f"{kind}.{name}": array for name, array in arrays.items()}


def check_numbers(devices: State, sent: Update | Total, contract: Contract) -> None:
    """Raises FrameRefused for private numbers (float32) or a contribution beyond what an update can
    say: the server would refuse it, and every one after it."""
    private = arrays_of(devices)
    parts = [{name: private[name] for name in private if private[name].dtype == np.float32}]
    if isinstance(sent, Total):
        check_total(sent, contract, sent.devices)
        parts += [dict(part.arrays) for part in sent.shown]
    else:
        parts += [sent.rows, sent.dense, dict(sent.shown), {"weight": sent.weight}]
    for arrays in parts:
        for name, array in arrays.items():
            _check_numbers(name, array, Code.TOO_LARGE)


# ---- on the server -------------------------------------------------------------------------------


def read_update(body: memoryview, contract: Contract, user: int) -> Update:
    """Reads the update of one device, that of `user`. Raises FrameRefused."""
    arrays = _read(body, _schema(contract, 1, "f4", _rows(contract)))
    item, weight = arrays["item"], arrays["weight"]
    _check_items(item, contract)
    _check_shapes(arrays, contract, len(item), 1)
    for name, array in arrays.items():
        if array.dtype.kind == "f":
            _check_numbers(name, array, Code.WRONG_WEIGHT if name == "weight" else Code.TOO_LARGE)
    # A negative weight would take other devices' updates back.
    if not 0 <= float(weight[0]) < LIMIT:
        _refuse(Code.WRONG_WEIGHT, "a weight below 0")
    if not contract.weighs and weight[0] != 1:
        _refuse(Code.WRONG_WEIGHT, "a weight where every device weighs 1")
    groups = contract.groups
    if groups > 1 and not 0 <= int(arrays["group"][0]) < groups:
        _refuse(Code.WRONG_GROUP)
    shown = _checked_shown(arrays, contract, np.array([user]))
    return Update(
        ptr=np.array([0, len(item)], np.int64),
        item=item,
        rows=_part(arrays, "row"),
        dense=_part(arrays, "dense"),
        weight=weight,
        group=arrays["group"] if groups > 1 else NO_GROUPS,
        groups=groups,
        shown=shown.arrays,
        sender=shown.sender,
    )


def read_total(body: memoryview, contract: Contract, users: Int64Array) -> Total:
    """Reads the sum of the devices of `users`. Raises FrameRefused."""
    return _total(_read(body, _total_schema(contract, len(users))), contract, users)


def read_part(
    body: memoryview, contract: Contract, asked: Int64Array, heard: int
) -> tuple[Total, Int64Array]:
    """Reads the sum of `heard` of the devices that were asked for, and their users. asked: int64
    ascending. Raises FrameRefused.
    """
    if not 1 <= heard <= len(asked):
        _refuse(Code.WRONG_COUNT, "of devices")
    arrays = _read(body, {**_total_schema(contract, heard), "users": TensorField("i8", (heard,))})
    users = arrays.pop("users")
    # A user who is named twice, or was not asked, would count more than once.
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
    the users that each node was asked for.
    """
    users = np.sort(np.concatenate([asked[name] for name in names]))
    return read_part(memoryview(body), contract, users, heard)


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
    dense = _part(arrays, "dense")
    total = total._replace(dense=dense, weight=arrays["weight"], devices=m, shown=shown)
    check_total(total, contract, m)
    return total


def add(total: Total, contribution: Update | Total) -> Total:
    """Adds a contribution that was read to `total`, in place."""
    if isinstance(contribution, Update):
        return add_update(total, contribution)
    return merge_totals(total, contribution)


def shown_schema(contract: Contract, m: int) -> dict[str, TensorField]:
    """Returns the expected arrays of what m devices show."""
    shown = contract.way("shown")
    if not shown:
        return {}
    fields = {f"shown.{name}": TensorField("f4", (m, *shape)) for name, shape in shown.items()}
    return {"sender": TensorField("i8", (m,)), **fields}


def _schema(contract: Contract, m: int, kind: str, most: int) -> dict[str, TensorField]:
    """Returns the names and types of an update (kind f4) or a sum (kind i8), with `most` items at
    most. Other shapes are free here: `_check_shapes` says better what is wrong with them.
    """
    schema = {"item": TensorField("i4", ((0, most),))}
    if kind == "f4":
        schema["weight"] = TensorField(kind, (m,))
        if contract.groups > 1:
            schema["group"] = TensorField("i4", (m,))
    else:
        schema["weight"] = TensorField(kind, (contract.groups,))
        schema["senders"] = TensorField("i8", ((0, WIDEST),))
    for name, shape in _shapes(contract).items():
        schema[name] = TensorField(kind, ((0, WIDEST),) * (1 + len(shape)))
    return {**schema, **shown_schema(contract, m)}


def _shapes(contract: Contract) -> dict[str, tuple[int, ...]]:
    """Returns the shape of one row or of one device's array, by the name under which it travels."""
    shapes = {f"row.{name}": shape for name, shape in contract.way("rows").items()}
    shapes |= {f"dense.{name}": shape for name, shape in contract.way("dense").items()}
    return shapes


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
    """Raises FrameRefused unless there is one row of the agreed width for each of n items, and one
    array for each of m devices or groups.
    """
    # Without this numpy would broadcast one row over all items, or take a transposed array.
    shapes = _shapes(contract)
    expected = {name: (n if name.startswith("row.") else m, *shapes[name]) for name in shapes}
    if "senders" in arrays:
        expected["senders"] = (n,)
    for name, agreed in expected.items():
        shape = arrays[name].shape
        if shape == agreed:
            continue
        if shape == agreed[::-1]:
            _refuse(Code.TRANSPOSED, f"'{name}'")
        if shape[1:] != agreed[1:]:
            text = f"'{name}' has rows of {shape[1:]}, agreed was {agreed[1:]}"
            _refuse(Code.WRONG_FACTORS, text)
        code = Code.BROADCAST if shape[0] == 1 else Code.WRONG_COUNT
        _refuse(code, f"'{name}' has {shape[0]} rows, expected {agreed[0]}")


def _check_items(item: Int32Array, contract: Contract) -> None:
    if not len(item):
        return
    # numpy takes a negative number as a place from the end.
    if int(item.min()) < 0:
        _refuse(Code.NEGATIVE_ITEM)
    if int(item.max()) >= contract.sizes["items"]:
        _refuse(Code.UNKNOWN_ITEM)
    # Of an item that is there twice only the last row would count.
    if has_repeats(item, contract.sizes["items"]):
        _refuse(Code.DUPLICATE_ITEM)


def _check_numbers(name: str, array: Array, beyond: Code) -> None:
    """Raises FrameRefused for numbers that are not finite, or that the fixed point cannot hold;
    denormals are numbers too."""
    if all_below(array.reshape(-1), LIMIT):
        return
    if np.isnan(array).any():
        _refuse(Code.NAN, f"'{name}'")
    if np.isposinf(array).any():
        _refuse(Code.INF, f"'{name}'")
    if np.isneginf(array).any():
        _refuse(Code.MINUS_INF, f"'{name}'")
    _refuse(beyond, f"'{name}': a value beyond +-{LIMIT:.0f}")


def checked_shown(
    arrays: dict[str, Array], contract: Contract, users: Int64Array
) -> tuple[ShownArrays, ...]:
    """Returns the arrays that the devices of `users` show, checked. Raises FrameRefused."""
    shown = _checked_shown(arrays, contract, users)
    return (shown,) if shown.arrays else ()


def _checked_shown(arrays: dict[str, Array], contract: Contract, users: Int64Array) -> ShownArrays:
    if not contract.way("shown"):
        return ShownArrays(users[:0], {})
    sender = arrays["sender"]
    # A node speaks for its own users alone, and once for each.
    if not np.array_equal(np.sort(sender), users):
        _refuse(Code.WRONG_SENDER, "other users than those who were asked")
    shown = _part(arrays, "shown")
    for name, array in shown.items():
        _check_numbers(name, array, Code.TOO_LARGE)
    # The server takes some of these numbers for places in its arrays.
    wrong = contract.misplaced(shown)
    if wrong:
        _refuse(Code.WRONG_PLACE, wrong)
    return ShownArrays(sender, shown)


def _part(arrays: dict[str, Array], kind: str) -> dict[str, Array]:
    prefix = f"{kind}."
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


# ---- what a sum of so many devices can be --------------------------------------------------------


def check_total(total: Total, contract: Contract, m: int) -> None:
    """Raises FrameRefused for a sum that m devices cannot have, whether one node sent it or it is
    that of a secure sum."""
    if int(total.senders.min(initial=0)) < 0 or int(total.senders.max(initial=0)) > m:
        _refuse(Code.WRONG_COUNT, "an item with fewer than no or more than all senders")
    for name, array in (*total.rows.items(), *total.dense.items()):
        # Not by abs: the abs of the least int64 is the least int64, and so below any bound.
        if max(int(array.max(initial=0)), -int(array.min(initial=0))) > m * MOST:
            _refuse(Code.TOO_LARGE, f"'{name}'")
    if int(total.weight.min(initial=0)) < 0 or int(total.weight.max(initial=0)) >= m * MOST:
        _refuse(Code.WRONG_WEIGHT, "a weight below 0, or more than the devices can have")
    if not contract.weighs and int(total.weight.sum()) != m * ONE:
        _refuse(Code.WRONG_WEIGHT, "weights where every device weighs 1")


def check_sent(total: Total) -> None:
    """Raises FrameRefused for a sum with rows that nobody has sent: a member that lies about
    senders would have its rows measured by nobody, and they count where noise hides who sent
    what."""
    nobody = total.senders == 0
    if any(rows[nobody].any() for rows in total.rows.values()):
        _refuse(Code.WRONG_COUNT, "rows that nobody has sent")


# ---- what a contribution and a round may do to the model -----------------------------------------


class Caps(NamedTuple):
    """The limits of what one device sends in a round."""

    weight: float
    """Weight of a device, at most."""
    norm: float | None = None
    """Euclidean length of all rows and arrays of a device together, at most; None = any."""

    @classmethod
    def of(cls, contract: Contract, norm: float | None = None, weight: float | None = None) -> Caps:
        """Returns the limits that terms set; where they set no weight, as many as a device can have
        items, or the weight of all alike.
        """
        return cls(max(float(contract.sizes["items"]), ALIKE) if weight is None else weight, norm)

    def check(self, sent: Update | Total) -> float:
        """Returns the Euclidean length of a contribution. Raises FrameRefused for more than its
        devices may send or weigh.
        """
        length, m = norm(sent), sent.devices
        # In the fixed point, as the weight counts: half a step is nothing.
        weight = fixed(sent.weight) if isinstance(sent, Update) else sent.weight
        if float(weight.sum()) * STEP > m * self.weight:
            _refuse(Code.WRONG_WEIGHT, "more than these devices can have")
        # Without a weight they would move the sum, and nothing would divide them.
        if not weight.any() and length > 0:
            _refuse(Code.WRONG_WEIGHT, "rows without a weight")
        if isinstance(sent, Total):
            unweighed = weight == 0
            if any(array[unweighed].any() for array in sent.dense.values()):
                _refuse(Code.WRONG_WEIGHT, "a sum without a weight")
        if self.norm is not None and length > m * self.norm * ROUNDING:
            _refuse(Code.TOO_LARGE, f"longer than {self.norm:g} a device")
        return length


def norm(sent: Update | Total) -> float:
    """Returns the Euclidean length of all rows and dense arrays of a contribution together."""
    arrays = [*sent.rows.values(), *sent.dense.values()]
    if isinstance(sent, Total):
        some = sent.senders > 0
        arrays = [real(rows[some]) for rows in sent.rows.values()]
        arrays += [real(array) for array in sent.dense.values()]
    return float(np.sqrt(sum(squares(np.ascontiguousarray(array).reshape(-1)) for array in arrays)))


def moved(before: State, after: State) -> float:
    """Returns the most that any number of a model has moved; infinite where one has ceased to be
    finite."""
    most = 0.0
    for old, new in zip(arrays_of(before).values(), arrays_of(after).values(), strict=True):
        if new.dtype.kind != "f" or not new.size or not np.isfinite(old).all():
            continue
        if not np.isfinite(new).all():
            return np.inf
        if new.shape == old.shape:
            most = max(most, float(np.abs(new.astype(np.float64) - old).max()))
    return most


class RoundHalted(InputError):
    """Raised when a round would leave the model not finite, or moved further than the terms allow.
    The round was not counted.
    """


def halted(
    number: int, far: float, most: float | None, lengths: Mapping[str, float]
) -> RoundHalted | None:
    """Returns why a round does not count; None if it does.

    far: how far the round would move the model. most: how far it may, None = anywhere finite.
    lengths: of each node's answer, where they were seen."""
    if np.isfinite(far) and (most is None or far <= most):
        return None
    problem = "would leave numbers in the model that are not finite"
    if np.isfinite(far):
        problem = f"would move the model by {far:.6g}"
    longest = sorted(lengths, key=lambda name: -lengths[name])[:NAMED]
    who = f", largest answers first: {', '.join(longest)}" if longest else ""
    return RoundHalted(
        f"round {number}",
        problem,
        expected="finite numbers" if most is None else f"at most {most:g}, as the terms say",
        fix=(
            f"the round is not counted{who}; shut out who lies, or `entrenous federation rewind`,"
            " and start again"
        ),
    )


def _refuse(code: Code, text: str = "") -> NoReturn:
    raise FrameRefused(code, text)
