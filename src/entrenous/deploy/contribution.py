"""What a node's devices contribute to a round, as the body of a frame, and the checks it must pass before it comes near a model.

`update`: one device sends its Update as it is. `sum`: several devices of one node are added up on the node, in the integers that the
server adds in, so that the server sees no device of a gateway by itself; the total is the same to the bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn, final

import numpy as np

from ..core.protocols import Catalogue, FederatedAlgorithm, Histories
from ..core.types import Array, Int32Array, Int64Array
from ..core.update import LIMIT, STEP, Shown, Total, Update, add_update, empty_total, merge_totals
from ..federation.shard import Shard
from ..wire import tensors
from ..wire.tensors import Field, Malformed, Schema
from .codes import Code, Refused

MOST = int(LIMIT / STEP)  # one value of one device, in steps of the fixed point
HEAD_ROOM = 1 << 16  # bytes of a body beside its numbers
WIDEST = 1 << 24  # a dimension of an array, at most


class Shape(NamedTuple):
    """What contributions to an algorithm look like. like: an Update of nobody; items: of the catalogue; rows: the most that one device
    may send."""

    like: Update
    items: int
    rows: int

    def empty(self) -> Total:
        """The sum of nothing."""
        return empty_total(self.like, self.items)


def shape_of(like: Update, items: int, update_bytes: int) -> Shape:
    """The shape of contributions, from what nobody would send and the most bytes a device sends in a round."""
    row = like.item.itemsize + sum(array[0:0].itemsize * _width(array) for array in like.rows.values())
    once = sum(array.itemsize * _width(array) for array in (*like.dense.values(), *like.shown.values()))
    return Shape(like, items, min(items, max(0, update_bytes - once) // row) if like.rows else 0)


def _width(array: Array) -> int:
    return int(np.prod(array.shape[1:], dtype=np.int64))


def agreed(algorithm: FederatedAlgorithm, catalogue: Catalogue) -> Shape:
    """The shape of contributions to a configured algorithm."""
    like = Shard(algorithm, catalogue, _Nobody(catalogue.items), np.empty(0, np.int64)).empty()
    return shape_of(like, catalogue.items, algorithm.update_bytes(catalogue))


@final
class _Nobody:
    """Histories of no users. items: of the catalogue."""

    def __init__(self, items: int) -> None:
        self._items = items

    def histories(self, users: Int64Array, avoid: Any = None) -> Histories:
        """Of none."""
        ptr, item, none = np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.int64)
        return Histories(ptr, item, np.empty(0, np.float32), ptr, item, none, none, np.zeros((self._items, 2)))


def largest_body(shape: Shape, asked: Mapping[str, Int64Array]) -> int:
    """Bytes of the longest body there can be among the contributions of some nodes, by the users each was asked for."""
    like, most = shape.like, max((len(users) for users in asked.values()), default=0)
    rows = min(shape.items, most * shape.rows) * (12 + 8 * sum(_width(row) for row in like.rows.values()))
    dense = 8 * max(like.groups, 1) * (1 + sum(_width(array) for array in like.dense.values()))
    shown = most * (8 + 4 * sum(_width(array) for array in like.shown.values()))
    return rows + dense + shown + HEAD_ROOM


# ---- on the node -------------------------------------------------------------------------------------------------------------------


def of_update(update: Update) -> bytes:
    """The body of an `update`: of one device."""
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
    """The body of a `sum`: of the items that anybody sent a row for."""
    item = np.flatnonzero(total.senders).astype(np.int32)
    rows = {name: row[item] for name, row in total.rows.items()}
    return tensors.write(
        {"item": item, "senders": total.senders[item], "weight": total.weight, **_named("row", rows), **_named("dense", total.dense),
         **shown_of(total)}
    )  # fmt: skip


def shown_of(total: Total) -> dict[str, Array]:
    """What devices show singly, by the names it travels under."""
    if not total.shown:
        return {}
    arrays = {name: np.concatenate([part.arrays[name] for part in total.shown]) for name in total.shown[0].arrays}
    return {"sender": np.concatenate([part.sender for part in total.shown]), **_named("shown", arrays)}


def _show(update: Update) -> dict[str, Array]:
    return {"sender": update.sender, **_named("shown", dict(update.shown))} if update.shown else {}


def _named(kind: str, arrays: dict[str, Array]) -> dict[str, Array]:
    return {f"{kind}.{name}": array for name, array in arrays.items()}


# ---- on the server -----------------------------------------------------------------------------------------------------------------


def read_update(body: memoryview, shape: Shape, user: int) -> Update:
    """The Update of one device, that of `user`. Raises Refused."""
    arrays = _read(body, _schema(shape, 1, "f4", shape.rows))
    item = arrays["item"]
    _check_items(item, shape)
    _check_shapes(arrays, shape, len(item), 1)
    for name, array in arrays.items():
        if array.dtype.kind == "f":
            _check_numbers(name, array, Code.WRONG_WEIGHT if name == "weight" else Code.TOO_LARGE)
    if not 0 <= float(arrays["weight"][0]) < LIMIT:
        _refuse(Code.WRONG_WEIGHT, "a weight below 0")
    groups = shape.like.groups
    if groups > 1 and not 0 <= int(arrays["group"][0]) < groups:
        _refuse(Code.WRONG_GROUP)
    shown = _checked_shown(arrays, shape, np.array([user]))
    rows, dense = (_part(arrays, kind) for kind in ("row", "dense"))
    own = arrays["group"] if groups > 1 else shape.like.group[:0]
    ptr = np.array([0, len(item)], np.int64)
    return Update(ptr, item, rows, dense, arrays["weight"], own, groups, shown.arrays, shown.sender)


def read_total(body: memoryview, shape: Shape, users: Int64Array) -> Total:
    """The sum of the devices of `users`. Raises Refused."""
    m = len(users)
    arrays = _read(body, _schema(shape, m, "i8", min(shape.items, m * shape.rows)))
    item, senders = arrays["item"], arrays["senders"]
    _check_items(item, shape)
    _check_shapes(arrays, shape, len(item), shape.like.groups)
    if len(item) and not (int(senders.min()) >= 1 and int(senders.max()) <= m):
        _refuse(Code.WRONG_COUNT, "an item with fewer than one or more than all senders")
    for name, array in arrays.items():
        if name.startswith(("row.", "dense.")) and array.size and max(int(array.max()), -int(array.min())) > m * MOST:
            _refuse(Code.TOO_LARGE, f"'{name}'")
    weight = arrays["weight"]
    if len(weight) and not (int(weight.min()) >= 0 and int(weight.max()) < m * MOST):
        _refuse(Code.WRONG_WEIGHT, "a weight below 0, or more than the devices can have")
    shown = checked_shown(arrays, shape, users)
    total = shape.empty()
    for name, rows in _part(arrays, "row").items():
        total.rows[name][item] = rows
    total.senders[item] = senders
    return total._replace(dense=_part(arrays, "dense"), weight=weight, devices=m, shown=shown)


def add(total: Total, contribution: Update | Total) -> Total:
    """`total` with a contribution that was read, in place."""
    return add_update(total, contribution) if isinstance(contribution, Update) else merge_totals(total, contribution)


def checked_shown(arrays: dict[str, Array], shape: Shape, users: Int64Array) -> tuple[Shown, ...]:
    """What the devices of `users` show, of arrays that were read. Raises Refused."""
    found = _checked_shown(arrays, shape, users)
    return (found,) if found.arrays else ()


def shown_schema(shape: Shape, m: int) -> dict[str, Field]:
    """What m devices show."""
    if not shape.like.shown:
        return {}
    shown = _named("shown", dict(shape.like.shown))
    return {"sender": Field("i8", (m,)), **{name: Field("f4", (m, *array.shape[1:])) for name, array in shown.items()}}


def _schema(shape: Shape, m: int, kind: str, most: int) -> dict[str, Field]:
    """Names and types of either form, and how many items at most; of the other shapes `_check_shapes` says better what is wrong."""
    like = shape.like
    parts = {**_named("row", like.rows), **_named("dense", like.dense)}
    free = {name: Field(kind, ((0, WIDEST),) * array.ndim) for name, array in parts.items()}
    alone = {"group": Field("i4", (m,))} if kind == "f4" and like.groups > 1 else {}
    summed = {"senders": Field("i8", ((0, WIDEST),))} if kind == "i8" else {}
    weights = m if kind == "f4" else like.groups
    return {
        "item": Field("i4", ((0, most),)),
        "weight": Field(kind, (weights,)),
        **alone,
        **summed,
        **free,
        **shown_schema(shape, m),
    }


def _read(body: memoryview, schema: Schema) -> dict[str, Array]:
    try:
        return tensors.read(body, schema)
    except Malformed as bad:
        codes = {"dtype": Code.WRONG_TYPE, "names": Code.WRONG_ARRAYS, "bounds": Code.TOO_MANY_ROWS, "shape": Code.WRONG_COUNT}
        raise Refused(codes.get(bad.code, Code.MALFORMED), bad.code) from None


def _check_shapes(arrays: dict[str, Array], shape: Shape, n: int, m: int) -> None:
    """One row of the agreed width for each of n items, one array for each of m devices or groups."""
    agreed = {f"row.{name}": (n, *row.shape[1:]) for name, row in shape.like.rows.items()}
    agreed |= {f"dense.{name}": (m, *array.shape[1:]) for name, array in shape.like.dense.items()}
    agreed |= {"senders": (n,)} if "senders" in arrays else {}
    for name, expected in agreed.items():
        got = arrays[name].shape
        if got == expected:
            continue
        if got == expected[::-1]:
            _refuse(Code.TRANSPOSED, f"'{name}'")
        if got[1:] != expected[1:]:
            _refuse(Code.WRONG_FACTORS, f"'{name}' has rows of {got[1:]}, agreed was {expected[1:]}")
        _refuse(Code.BROADCAST if got[0] == 1 else Code.WRONG_COUNT, f"'{name}' has {got[0]} rows, expected {expected[0]}")


def _check_items(item: Int32Array, shape: Shape) -> None:
    if not len(item):
        return
    if int(item.min()) < 0:
        _refuse(Code.NEGATIVE_ITEM)
    if int(item.max()) >= shape.items:
        _refuse(Code.UNKNOWN_ITEM)
    if int(np.bincount(item).max()) > 1:
        _refuse(Code.DUPLICATE_ITEM)


def _check_numbers(name: str, array: Array, beyond: Code) -> None:
    """Finite, and such as the fixed point can hold; denormals are numbers too."""
    if np.isnan(array).any():
        _refuse(Code.NAN, f"'{name}'")
    if np.isposinf(array).any():
        _refuse(Code.INF, f"'{name}'")
    if np.isneginf(array).any():
        _refuse(Code.MINUS_INF, f"'{name}'")
    if array.size and float(np.abs(array).max()) >= LIMIT:
        _refuse(beyond, f"'{name}': a value beyond +-{LIMIT:.0f}")


def _checked_shown(arrays: dict[str, Array], shape: Shape, users: Int64Array) -> Shown:
    if not shape.like.shown:
        return Shown(users[:0], {})
    sender = arrays["sender"]
    if not np.array_equal(np.sort(sender), users):
        _refuse(Code.WRONG_SENDER, "other users than those who were asked")
    shown = _part(arrays, "shown")
    for name, array in shown.items():
        _check_numbers(name, array, Code.TOO_LARGE)
    return Shown(sender, shown)


def _part(arrays: dict[str, Array], kind: str) -> dict[str, Array]:
    return {name.removeprefix(f"{kind}."): array for name, array in arrays.items() if name.startswith(f"{kind}.")}


def _refuse(code: Code, text: str = "") -> NoReturn:
    raise Refused(code, text)
