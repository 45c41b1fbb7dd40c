"""Contributions of a node's devices to a round, as the body of a frame, and the checks they must
pass before they come near a model.

`update`: one device sends its Update as it is. `sum`: several devices of one node are added up on
the node, in the integers that the server adds in, so that the server sees no device of a gateway by
itself, but for what the algorithm shows singly; the total is the same to the bit.

A contribution that is well-formed and signed may still be a lie. `Caps` do not find out who lies;
they bound how far a device may push and how much it may weigh. `halted` bounds how far a round may
move the model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, NoReturn

import numpy as np

from entrenous.core.contract.declared import Contract, bound
from entrenous.core.contract.protocols import Catalogue, FederatedAlgorithm, State, arrays_of
from entrenous.core.contract.update import (
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
from entrenous.core.errors import InputError
from entrenous.core.types import Array, Int32Array, Int64Array
from entrenous.kernels.arrays import all_below, has_repeats, squares
from entrenous.privacy.protection import Protection, ProtectionInForce

from ..agreement.terms import FederationTerms
from ..wire import tensors
from ..wire.tensors import Malformed, Schema, TensorField
from . import row_tests
from .frames import Code, FrameRefused

HEAD_ROOM = 1 << 16  # bytes of a body besides its numbers
WIDEST = 1 << 24  # a dimension of an array, at most
ONE = int(1 / STEP)  # the weight of a device, in steps of the fixed point
MOST = int(LIMIT / STEP)  # one value of one device, in steps of the fixed point
ALIKE = 256.0  # weight of a device in algorithms that count all alike (kernels/averaging.py)
ROUNDING = 1 + 1e-6  # a sum of numbers on a grid may be a little longer than its parts
NAMED = 3  # nodes that a reason names
# What a body is refused for, by what is wrong with its arrays; malformed for all else.
OF_MALFORMED = {
    "dtype": Code.WRONG_TYPE,
    "names": Code.WRONG_ARRAYS,
    "bounds": Code.TOO_MANY_ROWS,
    "shape": Code.WRONG_COUNT,
}


def agreed(
    algorithm: FederatedAlgorithm, catalogue: Catalogue, protection: Protection | None = None
) -> Contract:
    """Returns the contract of a configured algorithm in this federation, by which contributions are
    read and checked; under a protection, with as many rows as that has devices send."""
    contract = bound(algorithm, catalogue)
    if protection is None or not ProtectionInForce(protection, contract).wide:
        return contract
    # Devices then send a row for every item, so that nobody sees which ones they have.
    sizes = {**contract.sizes, "rows": catalogue.items}
    return replace(contract, sizes=sizes)


def agreed_by(terms: FederationTerms, algorithm: FederatedAlgorithm) -> Contract:
    """Returns the contract of a configured algorithm under the terms of a federation, with the
    tests of new rows where its devices make them.
    """
    contract = agreed(algorithm, terms.catalogue, terms.protection)
    if not terms.accuracy:
        return contract
    return replace(contract, sends=(*contract.sends, row_tests.SENT))


def contract_of(terms: FederationTerms, place: str = "") -> Contract:
    """Returns the same for the algorithm of the terms. place: as of `FederationTerms.make`."""
    return agreed_by(terms, terms.make(place=place))


def _widths(contract: Contract, way: str) -> int:
    """Returns the numbers in all arrays that are sent in one way: of one row, or of one device."""
    shapes = contract.way(way).values()
    return sum(math.prod(shape) for shape in shapes)


def _rows(contract: Contract) -> int:
    """Returns the most rows that one device may send."""
    if contract.way("rows"):
        return contract.sizes["rows"]
    return 0


def largest_body(contract: Contract, devices: int) -> int:
    """Returns the bytes of the longest body that a node may send. devices: of one node, at most."""
    # A sum has a row for an item however many devices have sent one.
    rows = min(contract.sizes["items"], devices * _rows(contract))
    # item int32, senders int64, and the numbers in int64.
    row_bytes = 12 + 8 * _widths(contract, "rows")
    # A weight and the dense arrays of each group, in int64.
    group_bytes = 8 + 8 * _widths(contract, "dense")
    # The sender in int64, and what the device shows in float32.
    device_bytes = 8 + 4 * _widths(contract, "shown")
    numbers = rows * row_bytes + contract.groups * group_bytes + devices * device_bytes
    return numbers + HEAD_ROOM


# ---- on the node ---------------------------------------------------------------------------------


def of_update(update: Update) -> bytes:
    """Encodes the update of one device as the body of an `update`, its rows by item."""
    # The order in which an algorithm makes rows tells positives from negatives (FPL: the first is
    # always a negative).
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
    # Most items of a large catalogue have a row from nobody.
    item = np.flatnonzero(total.senders).astype(np.int32)
    rows = {name: row[item] for name, row in total.rows.items()}
    arrays: dict[str, Array] = {
        "item": item,
        "senders": total.senders[item],
        "weight": total.weight,
        **_named("row", rows),
        **_named("dense", total.dense),
        **_shown_of(total),
    }
    return tensors.write(arrays)


def _shown_of(total: Total) -> dict[str, Array]:
    """Returns the arrays that devices show singly, by the names under which they travel."""
    if not total.shown:
        return {}
    senders = [part.sender for part in total.shown]
    arrays: dict[str, Array] = {"sender": np.concatenate(senders)}
    for name in total.shown[0].arrays:
        parts = [part.arrays[name] for part in total.shown]
        arrays[f"shown.{name}"] = np.concatenate(parts)
    return arrays


def _named(kind: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Returns arrays by the names under which they travel; `_part` is the other direction."""
    return {f"{kind}.{name}": array for name, array in arrays.items()}


def check_numbers(devices: State, sent: Update | Total, contract: Contract) -> None:
    """Raises FrameRefused for private numbers (float32) or a contribution beyond what an update can
    say: the server would refuse it, and every one after it."""
    for name, array in arrays_of(devices).items():
        if array.dtype == np.float32:
            _check_numbers(name, array, Code.TOO_LARGE)
    if isinstance(sent, Total):
        check_total(sent, contract, sent.devices)
        parts = [part.arrays for part in sent.shown]
    else:
        parts = [sent.rows, sent.dense, sent.shown, {"weight": sent.weight}]
    for arrays in parts:
        for name, array in arrays.items():
            _check_numbers(name, array, Code.TOO_LARGE)


# ---- on the server -------------------------------------------------------------------------------


def read_update(body: memoryview, contract: Contract, user: int) -> Update:
    """Reads the update of one device, that of `user`. Raises FrameRefused."""
    schema = _schema(contract, 1, "f4", _rows(contract))
    arrays = _read(body, schema)
    item = arrays["item"]
    weight = arrays["weight"]
    _check_items(item, contract)
    _check_shapes(arrays, contract, len(item), 1)
    for name, array in arrays.items():
        if array.dtype.kind == "f":
            beyond = Code.WRONG_WEIGHT if name == "weight" else Code.TOO_LARGE
            _check_numbers(name, array, beyond)
    # A negative weight would take other devices' updates back.
    if not 0 <= float(weight[0]) < LIMIT:
        _refuse(Code.WRONG_WEIGHT, "a weight below 0")
    if not contract.weighs and weight[0] != 1:
        _refuse(Code.WRONG_WEIGHT, "a weight where every device weighs 1")
    groups = contract.groups
    group = NO_GROUPS
    if groups > 1:
        group = arrays["group"]
        # The server adds the update up in the place that this number names.
        if not 0 <= int(group[0]) < groups:
            _refuse(Code.WRONG_GROUP)
    shown = _checked_shown(arrays, contract, np.array([user]))
    return Update(
        ptr=np.array([0, len(item)], np.int64),
        item=item,
        rows=_part(arrays, "row"),
        dense=_part(arrays, "dense"),
        weight=weight,
        group=group,
        groups=groups,
        shown=shown.arrays,
        sender=shown.sender,
    )


def read_total(body: memoryview, contract: Contract, users: Int64Array) -> Total:
    """Reads the sum of the devices of `users`. Raises FrameRefused."""
    most = min(contract.sizes["items"], len(users) * _rows(contract))
    arrays = _read(body, _schema(contract, len(users), "i8", most))
    item = arrays["item"]
    senders = arrays["senders"]
    _check_items(item, contract)
    _check_shapes(arrays, contract, len(item), contract.groups)
    if int(senders.min(initial=1)) < 1:
        _refuse(Code.WRONG_COUNT, "an item that nobody sends")
    shown = _checked_shown(arrays, contract, users)
    # What travels are the rows of some items; a sum has a row for every item.
    total = contract.empty_total()
    for name, rows in _part(arrays, "row").items():
        total.rows[name][item] = rows
    total.senders[item] = senders
    dense = _part(arrays, "dense")
    total = total._replace(dense=dense, weight=arrays["weight"], devices=len(users))
    if shown.arrays:
        total = total._replace(shown=(shown,))
    check_total(total, contract, len(users))
    return total


def read_sum(
    body: bytes, contract: Contract, asked: Mapping[str, Int64Array], names: Iterable[str]
) -> Total:
    """Reads the sum that another process made of the answers of some nodes. asked: the users that
    each node was asked for.
    """
    users = np.concatenate([asked[name] for name in names])
    return read_total(memoryview(body), contract, np.sort(users))


def add(total: Total, contribution: Update | Total) -> Total:
    """Adds a contribution that was read to `total`, in place."""
    if isinstance(contribution, Update):
        return add_update(total, contribution)
    return merge_totals(total, contribution)


def shown_schema(contract: Contract, m: int) -> dict[str, TensorField]:
    """Returns the expected arrays of what m devices show."""
    shapes = contract.way("shown")
    if not shapes:
        return {}
    schema = {"sender": TensorField("i8", (m,))}
    for name, shape in shapes.items():
        schema[f"shown.{name}"] = TensorField("f4", (m, *shape))
    return schema


def _schema(contract: Contract, m: int, kind: str, most: int) -> dict[str, TensorField]:
    """Returns the names and types of an update (kind f4) or a sum (kind i8), with `most` items at
    most. Other shapes are free here: `_check_shapes` says better what is wrong with them.
    """
    schema = {"item": TensorField("i4", ((0, most),))}
    # An update has one weight a device, a sum one for each group.
    if kind == "f4":
        schema["weight"] = TensorField(kind, (m,))
        if contract.groups > 1:
            schema["group"] = TensorField("i4", (m,))
    else:
        schema["weight"] = TensorField(kind, (contract.groups,))
        schema["senders"] = TensorField("i8", ((0, WIDEST),))
    for name, shape in _shapes(contract).items():
        dimensions = 1 + len(shape)
        schema[name] = TensorField(kind, ((0, WIDEST),) * dimensions)
    schema |= shown_schema(contract, m)
    return schema


def _shapes(contract: Contract) -> dict[str, tuple[int, ...]]:
    """Returns the shape of one row or of one device's array, by the name under which it travels."""
    shapes = {}
    for name, shape in contract.way("rows").items():
        shapes[f"row.{name}"] = shape
    for name, shape in contract.way("dense").items():
        shapes[f"dense.{name}"] = shape
    return shapes


def _read(body: memoryview, schema: Schema) -> dict[str, Array]:
    """Returns the arrays of a body, of the agreed names and types. Raises FrameRefused."""
    try:
        return tensors.read(body, schema)
    except Malformed as bad:
        code = OF_MALFORMED.get(bad.code, Code.MALFORMED)
        raise FrameRefused(code, bad.code) from None


def _check_shapes(arrays: dict[str, Array], contract: Contract, n: int, m: int) -> None:
    """Raises FrameRefused unless there is one row of the agreed width for each of n items, and one
    array for each of m devices or groups.
    """
    agreed: dict[str, tuple[int, ...]] = {}
    for name, shape in _shapes(contract).items():
        count = n if name.startswith("row.") else m
        agreed[name] = (count, *shape)
    if "senders" in arrays:
        agreed["senders"] = (n,)
    # Without this numpy would broadcast one row over all items, or take a transposed array.
    for name, shape in agreed.items():
        found = arrays[name].shape
        if found != shape:
            _refuse(Code.WRONG_SHAPE, f"'{name}' is {found}, agreed was {shape}")


def _check_items(item: Int32Array, contract: Contract) -> None:
    """Raises FrameRefused for numbers that are no items of the catalogue, or are there twice."""
    # numpy takes a negative number as a place from the end.
    if int(item.min(initial=0)) < 0:
        _refuse(Code.NEGATIVE_ITEM)
    items = contract.sizes["items"]
    if int(item.max(initial=0)) >= items:
        _refuse(Code.UNKNOWN_ITEM)
    # Of an item that is there twice only the last row would count.
    if has_repeats(item, items):
        _refuse(Code.DUPLICATE_ITEM)


def _check_numbers(name: str, array: Array, beyond: Code) -> None:
    """Raises FrameRefused for numbers that are not finite, or that the fixed point cannot hold;
    denormals are numbers too."""
    if all_below(array.reshape(-1), LIMIT):
        return
    # Something is wrong; the rest finds out what.
    if not np.isfinite(array).all():
        _refuse(Code.NOT_FINITE, f"'{name}'")
    _refuse(beyond, f"'{name}': a value beyond +-{LIMIT:.0f}")


def _checked_shown(arrays: dict[str, Array], contract: Contract, users: Int64Array) -> ShownArrays:
    """Returns the arrays that the devices of `users` show, checked; none where the algorithm shows
    nothing. Raises FrameRefused.
    """
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
    """Returns the arrays of one kind, by the names that the algorithm gives them."""
    prefix = f"{kind}."
    part = {}
    for name, array in arrays.items():
        if name.startswith(prefix):
            part[name.removeprefix(prefix)] = array
    return part


# ---- what a sum of so many devices can be --------------------------------------------------------


def check_total(total: Total, contract: Contract, m: int) -> None:
    """Raises FrameRefused for a sum that m devices cannot have, whether one node sent it or it is
    that of a secure sum."""
    senders = total.senders
    weight = total.weight
    if not _within(senders, 0, m):
        _refuse(Code.WRONG_COUNT, "an item with fewer than no or more than all senders")
    most = m * MOST
    for name, array in (*total.rows.items(), *total.dense.items()):
        if not _within(array, -most, most):
            _refuse(Code.TOO_LARGE, f"'{name}'")
    if not _within(weight, 0, most - 1):
        _refuse(Code.WRONG_WEIGHT, "a weight below 0, or more than the devices can have")
    if not contract.weighs and int(weight.sum()) != m * ONE:
        _refuse(Code.WRONG_WEIGHT, "weights where every device weighs 1")


def _within(array: Int64Array, low: int, high: int) -> bool:
    """Returns whether all numbers of an array are from low to high, which have 0 between them."""
    # Not by abs: the abs of the least int64 is the least int64, and so below any bound. And in
    # Python's whole numbers, since a bound may be beyond int64.
    return low <= int(array.min(initial=0)) and int(array.max(initial=0)) <= high


def check_sent(total: Total) -> None:
    """Raises FrameRefused for a sum with rows that nobody has sent."""
    # A member that lies about senders would have its rows measured by nobody, and they count where
    # noise hides who sent what.
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
        if weight is None:
            weight = max(float(contract.sizes["items"]), ALIKE)
        return cls(weight, norm)

    def check(self, sent: Update | Total) -> float:
        """Returns the Euclidean length of a contribution. Raises FrameRefused for more than its
        devices may send or weigh.
        """
        length = norm(sent)
        m = sent.devices
        # In the fixed point, as the weight counts: half a step is nothing.
        weight = fixed(sent.weight) if isinstance(sent, Update) else sent.weight
        devices_weigh = float(weight.sum()) * STEP
        if devices_weigh > m * self.weight:
            _refuse(Code.WRONG_WEIGHT, "more than these devices can have")
        # Without a weight they would move the sum, and nothing would divide them.
        if not weight.any() and length > 0:
            _refuse(Code.WRONG_WEIGHT, "rows without a weight")
        if isinstance(sent, Total):
            # The same of each group of a sum.
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
        # Only the rows that somebody sent: a catalogue may have millions of others.
        sent_rows = sent.senders > 0
        arrays = [real(rows[sent_rows]) for rows in sent.rows.values()]
        arrays += [real(array) for array in sent.dense.values()]
    flat = [np.ascontiguousarray(array).reshape(-1) for array in arrays]
    square = sum(squares(numbers) for numbers in flat)
    return float(np.sqrt(square))


def moved(before: State, after: State) -> float:
    """Returns the most that any number of a model has moved; infinite where one has ceased to be
    finite."""
    most = 0.0
    olds = arrays_of(before)
    for name, new in arrays_of(after).items():
        old = olds[name]
        # An algorithm may begin with numbers that are not finite, and so has those for good.
        if new.dtype.kind != "f" or not new.size or not np.isfinite(old).all():
            continue
        if not np.isfinite(new).all():
            return np.inf
        if new.shape == old.shape:
            # In float64: the difference of two large float32 may be beyond float32.
            far = np.abs(new.astype(np.float64) - old)
            most = max(most, float(far.max()))
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
    finite = np.isfinite(far)
    if finite and (most is None or far <= most):
        return None
    problem = "would leave numbers in the model that are not finite"
    if finite:
        problem = f"would move the model by {far:.6g}"
    expected = "finite numbers"
    if most is not None:
        expected = f"at most {most:g}, as the terms say"
    # A lie need not be long, but the longest answers are the first to look at.
    longest = sorted(lengths, key=lambda name: -lengths[name])[:NAMED]
    who = ""
    if longest:
        who = f", largest answers first: {', '.join(longest)}"
    fix = (
        f"the round is not counted{who}; shut out who lies, or `entrenous federation rewind`,"
        " and start again"
    )
    return RoundHalted(f"round {number}", problem, expected=expected, fix=fix)


def _refuse(code: Code, text: str = "") -> NoReturn:
    raise FrameRefused(code, text)
