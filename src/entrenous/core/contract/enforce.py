"""Checks that hold devices to what their algorithm declares: what they receive, what they keep,
what they send.

Every breach is a ContractError of one line: the algorithm, the array, the rule. Shapes, types,
ranges and finite numbers of a download are checked before a device sees it; an update is checked
before anybody adds it up.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ..errors import EntrenousWarning
from ..lanes.memory import divides, owners_of
from ..types import Array, Int64Array
from .declarations import Size, UpTo
from .declared import Contract, ContractError, DeclaredArray, NotFiniteError
from .gossip import Pushes
from .own_rows import OwnRows
from .protocols import FederatedAlgorithm, Histories, State, arrays_of
from .update import STEP, Update, rises_within

# Smaller numbers become 0 in fixed point.
HALF = STEP / 2
FROM_THE_KEY = "randomness from the key alone (core.keys)"
# Words of NumPy and numba for an array that cannot be written to.
READ_ONLY = ("read-only", "readonly", "read only")
# The least number of each part of a pushed header.
LEAST_PUSHED = {"sender": 0, "age": 0, "samples": 0, "peers": -1}
# Those parts that name nodes.
NAMES_NODES = ("sender", "peers")


# ---- calls of device functions -------------------------------------------------------------------


class LocalCall(NamedTuple):
    """The arguments of one call of `local`, as `FederatedAlgorithm` has them."""

    download: State
    """As it was delivered to these devices, not to be written to."""
    devices: State
    histories: Histories
    users: Int64Array
    key: np.uint64


def local(
    contract: Contract, algorithm: FederatedAlgorithm, call: LocalCall
) -> tuple[State, Update]:
    """Calls `algorithm.local`. Raises ContractError, with the name of the array, where it writes to
    its download.
    """
    try:
        return algorithm.local(*call)
    except Exception as error:
        if not any(word in str(error) for word in READ_ONLY):
            raise
        # NumPy does not name the array: a second call on copies tells which one changes.
        name = _written(algorithm, call)
        where = f"{contract.name}: download"
        if name:
            where = f"{contract.name}: download '{name}'"
        expected = "what a device receives stays as it is; copy first"
        raise ContractError(where, "`local` writes to it", expected=expected) from None


def _written(algorithm: FederatedAlgorithm, call: LocalCall) -> str:
    """Returns the first array of a download that `local` changes if it may; "" if there is none."""
    copy = _copied(call.download)
    algorithm.local(*call._replace(download=copy))
    return _changed(call.download, copy)


def _copied(state: State) -> State:
    return type(state)(*(array.copy() for array in state))


def _changed(before: State, after: State) -> str:
    """Returns the name of the first array that differs between two states; "" if there is none."""
    arrays = arrays_of(after)
    for name, array in arrays_of(before).items():
        if array.tobytes() != arrays[name].tobytes():
            return name
    return ""


def try_local(contract: Contract, algorithm: FederatedAlgorithm, call: LocalCall) -> None:
    """Trains some devices twice and keeps nothing: checks what they send against the declaration,
    and the second time against the first.

    Warns (EntrenousWarning) where all that a device sends would become 0 in fixed point. Raises
    ContractError.
    """
    on_copy = call._replace(devices=_copied(call.devices))
    private, update = local(contract, algorithm, on_copy)
    # A device that fails halfway must still have its state from before.
    written = _changed(call.devices, on_copy.devices)
    if written:
        where = f"{contract.name}: private state '{written}'"
        raise ContractError(where, "`local` writes to it", expected="a new array returned")
    check_update(contract, update, call.users, private, call.devices)
    # The same call twice: draws that do not come from the key show here.
    _, again = local(contract, algorithm, on_copy)
    check_same(contract, update, again)
    lost = vanishing(update)
    if lost:
        warnings.warn(
            f"{contract.name}: all that {lost} of the {len(call.users)} devices tried out send"
            " becomes 0 in fixed point, whose step is 2^-16; nothing is learnt from it: try a"
            " larger learning rate",
            EntrenousWarning,
            stacklevel=2,
        )


# ---- states: arrays by name ----------------------------------------------------------------------


def check_received(contract: Contract, download: State, devices: int) -> None:
    """Checks what `devices` devices receive against `receives`: names, types, shapes, ranges,
    finite numbers. Raises ContractError.
    """
    _check_kind(contract, "download", contract.declaration.receives, download)
    sizes = {"devices": devices}
    check_arrays(contract, "download", contract.receives, arrays_of(download), sizes)


def check_kept(contract: Contract, state: State, devices: int) -> None:
    """Checks the private state of `devices` devices against `keeps`. Raises ContractError."""
    _check_kind(contract, "private state", contract.declaration.keeps, state)
    sizes = {"devices": devices}
    arrays = state._asdict()
    whole = tuple(field for field in contract.keeps if not field.own_rows)
    check_arrays(contract, "private state", whole, arrays, sizes, ("devices",))
    for field in contract.keeps:
        if field.own_rows:
            _check_own_rows(contract, field, arrays[field.name], devices)


def _check_own_rows(contract: Contract, field: DeclaredArray, own: Any, devices: int) -> None:
    """Checks the own rows of `devices` devices against their declaration. Raises ContractError."""
    where = f"{contract.name}: private state '{field.name}'"
    if not isinstance(own, OwnRows):
        raise ContractError(where, f"a {type(own).__name__}", expected="an OwnRows")
    items, *shape = contract.shape(field.axes.sizes)
    wrong = own.misfit(devices, items, tuple(shape))
    if wrong:
        raise ContractError(where, wrong, expected=field.said)
    _check_values(contract, where, own.flat()[2], field, {})


def _check_kind(contract: Contract, part: str, kind: type | None, state: Any) -> None:
    if kind is None or not isinstance(state, kind) or not isinstance(state, tuple):
        expected = "nothing" if kind is None else kind.__name__
        problem = f"the {part} is a {type(state).__name__}"
        raise ContractError(contract.name, problem, expected=expected)


def check_arrays(
    contract: Contract,
    part: str,
    fields: tuple[DeclaredArray, ...],
    arrays: Mapping[str, Any],
    delivery: Mapping[str, int],
    leading: tuple[Size, ...] = (),
) -> None:
    """Checks named arrays against declared fields. delivery: sizes of this delivery; leading: axes
    before the declared ones.

    Raises ContractError for the first array that breaks a rule.
    """
    sizes = dict(delivery)
    for field in fields:
        array = arrays.get(field.name)
        where = f"{contract.name}: {part} '{field.name}'"
        expected = f"an array of {field.dtype} numbers"
        if not isinstance(array, np.ndarray):
            raise ContractError(where, f"a {type(array).__name__}", expected=expected)
        if array.dtype != field.dtype:
            raise ContractError(where, f"{array.dtype} numbers", expected=expected)
        _check_shape(contract, where, array.shape, (*leading, *field.axes.sizes), sizes)
        _check_values(contract, where, array, field, sizes)


def _check_shape(
    contract: Contract,
    where: str,
    shape: tuple[int, ...],
    wanted: tuple[Size, ...],
    sizes: dict[str, int],
) -> None:
    """Raises ContractError unless each extent is what its name says; the first extent of a free
    size decides it.
    """
    # Every axis is compared, so that free sizes are known for the message below.
    fits = len(shape) == len(wanted)
    for extent, size in zip(shape, wanted, strict=False):
        if isinstance(size, UpTo) and size.name not in sizes:
            fits &= extent <= extent_of(contract, size.most, sizes)
            sizes[size.name] = extent
        else:
            fits &= extent == extent_of(contract, size, sizes)
    if not fits:
        extents = [f"{size} = {extent_of(contract, size, sizes)}" for size in wanted]
        raise ContractError(
            where,
            f"the shape {shape}",
            expected=", ".join(extents) or "a single number",
        )


def extent_of(contract: Contract, size: Size, sizes: Mapping[str, int]) -> int:
    """Returns a size as a number: of this delivery if it has one, else of the federation."""
    name = str(size)
    if name in sizes:
        return sizes[name]
    return contract.size(size)


def _check_values(
    contract: Contract, where: str, array: Array, field: DeclaredArray, sizes: Mapping[str, int]
) -> None:
    """Raises ContractError for floats that are not finite, and integers beyond their range."""
    bounds = field.axes
    if array.dtype.kind == "f" and bounds.finite and not np.isfinite(array).all():
        raise NotFiniteError(
            where,
            "a value that is NaN or infinite",
            expected="finite numbers",
            fix="training diverged? try a smaller learning rate",
        )
    if array.dtype.kind not in "iu" or not array.size:
        return
    low = int(array.min())
    if bounds.least is not None and low < bounds.least:
        raise ContractError(where, f"the number {low}", expected=f"at least {bounds.least}")
    if bounds.below is None:
        return
    high = int(array.max())
    limit = extent_of(contract, bounds.below, sizes)
    if high >= limit:
        raise ContractError(
            where,
            f"the number {high}",
            expected=f"below {bounds.below} = {limit}",
        )


# ---- updates -------------------------------------------------------------------------------------


def check_update(
    contract: Contract, update: Any, users: Int64Array, private: State, before: State | None = None
) -> None:
    """Checks what the devices of `users` send against `sends`, and their new private state against
    `keeps`.

    before: their private state before. If it is given, no sent array may be a private array of
    either, which takes longer to see. Raises ContractError.
    """
    check_sent(contract, update, users)
    check_kept(contract, private, len(users))
    if before is not None:
        _check_private(contract, update, private, len(users))
        _check_private(contract, update, before, len(users))


def check_sent(contract: Contract, update: Any, users: Int64Array) -> None:
    """Checks what the devices of `users` send against `sends`. Raises ContractError."""
    devices = len(users)
    if not isinstance(update, Update):
        problem = f"`local` returns a {type(update).__name__}"
        raise ContractError(contract.name, problem, expected="(private state, Update)")
    _check_layout(contract, update, devices)
    _check_arrays_sent(contract, "rows", update.rows, len(update.item))
    _check_arrays_sent(contract, "dense", update.dense, devices)
    _check_arrays_sent(contract, "shown", update.shown, devices)
    if update.shown and not np.array_equal(update.sender, users):
        _bad(contract, "sender", "other users than those who send", "`sender=users`")
    _check_weight(contract, update, devices)
    _check_group(contract, update, devices)
    misplaced = contract.misplaced(update.shown)
    if misplaced:
        _bad(contract, "shown", misplaced, "numbers as declared in `sends`")


def _check_layout(contract: Contract, update: Update, devices: int) -> None:
    """Checks ptr and item: one row range for each device, known items, none twice in a device, no
    more rows than declared.
    """
    ptr = update.ptr
    item = update.item
    items = contract.sizes["items"]
    if ptr.dtype != np.int64 or ptr.shape != (devices + 1,) or not divides(ptr, len(item)):
        _bad(
            contract,
            "ptr",
            _form(ptr),
            f"int64 ({devices + 1},) from 0 to the {len(item)} rows, never falling",
        )
    if item.dtype != np.int32 or item.ndim != 1:
        _bad(contract, "item", _form(item), "int32, one number for each row")
    if not len(item):
        return
    low = int(item.min())
    high = int(item.max())
    if low < 0 or high >= items:
        _bad(contract, "item", f"items from {low} to {high}", f"0 to {items - 1}")
    if _repeats(update, items):
        _bad(contract, "item", "an item twice within one device", "one row for each item")
    most = int(np.diff(ptr).max())
    if most > contract.sizes["rows"]:
        _bad(
            contract,
            "item",
            f"{most} rows of one device",
            f"at most rows = {contract.sizes['rows']}",
        )


def _repeats(update: Update, items: int) -> bool:
    """Tells whether a device has an item twice."""
    # Most devices send items in ascending order, which is quick to see.
    if rises_within(update.ptr, update.item):
        return False
    pairs = update.device * items + update.item
    return len(np.unique(pairs)) < len(pairs)


def _check_arrays_sent(contract: Contract, way: str, arrays: Mapping[str, Any], first: int) -> None:
    """Checks that the arrays of one way are those declared, float32, of the declared shape behind
    a first axis of length `first`.
    """
    declared = contract.way(way)
    # What is not declared must not leave: nobody has said what it reveals.
    undeclared = sorted(arrays.keys() - declared.keys())
    if undeclared:
        _bad(
            contract,
            f"{way} '{undeclared[0]}'",
            "is not declared",
            f"{', '.join(declared) or 'none'} in `sends`",
        )
    # Sums of a round need the same arrays from everybody.
    absent = sorted(declared.keys() - arrays.keys())
    if absent:
        _bad(
            contract,
            f"{way} '{absent[0]}'",
            "is declared and not sent",
            "every array of `sends`, in every round",
        )
    for name, extents in declared.items():
        array = arrays[name]
        shape = (first, *extents)
        where = f"{way} '{name}'"
        expected = f"float32 {shape}"
        if not isinstance(array, np.ndarray):
            _bad(contract, where, f"a {type(array).__name__}", expected)
        if array.dtype != np.float32 or array.shape != shape:
            _bad(contract, where, _form(array), expected)


def _check_weight(contract: Contract, update: Update, devices: int) -> None:
    """Checks that each device has one weight: finite, from 0, and 1 unless weights are declared."""
    weight = update.weight
    if weight.dtype != np.float32 or weight.shape != (devices,):
        _bad(contract, "weight", _form(weight), f"float32 ({devices},)")
    if not (np.isfinite(weight).all() and (weight >= 0).all()):
        _bad(contract, "weight", "a number below 0, or not finite", "finite numbers from 0")
    if not contract.weighs and not bool((weight == 1).all()):
        _bad(
            contract,
            "weight",
            "devices that weigh other than 1",
            "1, or weight(when=..., reveals=...) in `sends`",
        )


def _check_group(contract: Contract, update: Update, devices: int) -> None:
    """Checks that there are as many sums as declared, and that each device adds to one of them."""
    group = update.group
    groups = update.groups
    if groups != contract.groups:
        _bad(
            contract,
            "groups",
            f"{groups} groups",
            f"{contract.groups} (traits.groups names the size)",
        )
    # Without numbers, all devices add to the only sum.
    if groups == 1 and not len(group):
        return
    outside = bool(((group < 0) | (group >= groups)).any())
    if group.dtype != np.int32 or group.shape != (devices,) or outside:
        _bad(
            contract,
            "group",
            _form(group),
            f"int32 ({devices},), each below {groups}",
        )


def _check_private(contract: Contract, update: Update, state: State, devices: int) -> None:
    """Raises ContractError for a private array that leaves as it is: every device that has one (not
    all zeros) sends it bit for bit.
    """
    of_device = np.arange(devices)
    of_row = update.device
    for name, array in state._asdict().items():
        if isinstance(array, OwnRows):
            _check_rows_apart(contract, update, name, array)
            continue
        if array.dtype != np.float32 or not array.size:
            continue
        for way, device in (("dense", of_device), ("shown", of_device), ("rows", of_row)):
            for other, sent in getattr(update, way).items():
                if _leaves(array, sent, device):
                    _bad(
                        contract,
                        f"{way} '{other}'",
                        f"is the private '{name}'",
                        "nothing that a device keeps",
                    )


def _check_rows_apart(contract: Contract, update: Update, name: str, own: OwnRows) -> None:
    """Raises ContractError for own rows that leave as they are, as rows of the same items."""
    ptr, item, row = own.flat()
    items = contract.sizes["items"]
    kept = owners_of(ptr) * items + item
    leaving = update.device * items + update.item
    _, here, there = np.intersect1d(kept, leaving, return_indices=True)
    if not len(here):
        return
    for other, sent in update.rows.items():
        # Rows of zeros say nothing of a device.
        has = row[here].reshape(len(here), -1).any(axis=1)
        if not has.any() or sent.shape[1:] != row.shape[1:]:
            continue
        if np.array_equal(sent[there][has], row[here][has]):
            _bad(
                contract,
                f"rows '{other}'",
                f"is the private '{name}'",
                "nothing that a device keeps",
            )


def _leaves(private: Array, sent: Array, device: Int64Array) -> bool:
    """Tells whether every device with a private array (not all zeros) sends it as it is. device:
    int64, the device of each row of `sent`.
    """
    devices = len(private)
    has = np.asarray(private.reshape(devices, -1).any(axis=1))
    if private.shape[1:] != sent.shape[1:] or not has.any() or not sent.size:
        return False
    same = (private[device] == sent).reshape(len(device), -1).all(axis=1)
    gives_away = np.bincount(device, same, minlength=devices) > 0
    sending = has & (np.bincount(device, minlength=devices) > 0)
    # One number of one device is among many sent ones by chance.
    if private[:1].size == 1 and sending.sum() < 2:
        return False
    return bool(sending.any() and gives_away[sending].all())


def check_same(contract: Contract, first: Update, again: Update) -> None:
    """Checks that a device function sends the same for the same key. Raises ContractError if it
    does not.
    """
    for part in ("item", "weight"):
        if not np.array_equal(getattr(first, part), getattr(again, part)):
            _bad(contract, part, "differs for the same key", FROM_THE_KEY)
    for way in ("rows", "dense", "shown"):
        for name, array in getattr(first, way).items():
            if array.tobytes() != getattr(again, way)[name].tobytes():
                _bad(contract, f"{way} '{name}'", "differs for the same key", FROM_THE_KEY)


def vanishing(update: Update) -> int:
    """Returns the number of devices that send numbers that are not 0 and all become 0 in fixed
    point, whose step is 2^-16.
    """
    # The largest absolute value that each device sends.
    largest = np.zeros(update.devices)
    device = update.device
    for values in update.rows.values():
        of_row = np.abs(values).max(axis=tuple(range(1, values.ndim)), initial=0)
        np.maximum.at(largest, device, of_row)
    for values in update.dense.values():
        of_device = np.abs(values).reshape(update.devices, -1).max(axis=1, initial=0)
        largest = np.maximum(largest, of_device)
    return int(((largest > 0) & (largest <= HALF)).sum())


# ---- messages between peers ----------------------------------------------------------------------


def check_pushes(contract: Contract, pushes: Pushes, nodes: int) -> None:
    """Checks what `nodes` nodes push when their timers fire against the declared parts of a
    message, and against the nodes that there are. Raises ContractError.
    """
    declared = {sent.name: sent for sent in contract.sends if sent.way == "pushed"}
    users = contract.sizes["users"]
    headers = pushes.headers
    for name, least in LEAST_PUSHED.items():
        array = getattr(headers, name)
        where = f"pushed '{name}'"
        if name not in declared:
            _bad(
                contract,
                where,
                "is not declared",
                f"{', '.join(declared) or 'none'} in `sends`",
            )
        dtype = declared[name].dtype
        most = (nodes, *contract.shape(declared[name].sizes))
        if array.dtype != dtype or array.shape[:1] != (nodes,) or array.shape > most:
            _bad(contract, where, _form(array), f"{dtype} {most} at most")
        if not array.size:
            continue
        low = int(array.min())
        high = int(array.max())
        if low < least or (name in NAMES_NODES and high >= users):
            _bad(
                contract,
                where,
                f"numbers from {low} to {high}",
                f"numbers from {least}, of nodes below {users}",
            )
    width = contract.sizes["width"]
    if headers.length.tolist() != [width] * nodes:
        _bad(contract, "pushed 'model'", "another length", f"width = {width}")
    to = pushes.to
    unknown = bool(((to < -1) | (to >= users)).any())
    if to.dtype != np.int32 or to.shape[:1] != (nodes,) or unknown:
        _bad(
            contract,
            "pushed to",
            _form(to),
            f"int32 ({nodes}, view), nodes below {users} or -1",
        )


def _form(array: Array) -> str:
    """Returns the type and the shape of an array, as errors name them."""
    return f"{array.dtype} {array.shape}"


def _bad(contract: Contract, array: str, problem: str, expected: str) -> NoReturn:
    raise ContractError(f"{contract.name}: {array}", problem, expected=expected)
