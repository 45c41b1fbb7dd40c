"""Checks that hold devices to what their algorithm declares: what they receive, what they keep,
what they send.

Every breach is a ContractError of one line: the algorithm, the array, the rule. Shapes, types,
ranges and finite numbers of a download are checked before a device sees it; an update is checked
before anybody adds it up.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from ..errors import EntrenousWarning
from ..types import Array, BoolArray, Int64Array
from .declarations import Size, UpTo
from .declared import Contract, ContractError, DeclaredArray, NotFiniteError
from .gossip import Pushes
from .protocols import FederatedAlgorithm, Histories, State, arrays_of
from .update import STEP, Update, rises_within

# Smaller numbers become 0 in fixed point.
HALF = STEP / 2
FROM_THE_KEY = "randomness from the key alone (core.keys)"
# Words of NumPy and numba for an array that cannot be written to.
READ_ONLY = ("read-only", "readonly", "read only")


# ---- calls of device functions -------------------------------------------------------------------


def local(
    contract: Contract,
    algorithm: FederatedAlgorithm,
    received: State,
    own: State,
    histories: Histories,
    users: Int64Array,
    key: np.uint64,
) -> tuple[State, Update]:
    """Calls `algorithm.local` with a download that is read-only. Raises ContractError, with the
    name of the array, where it writes to it."""
    try:
        return algorithm.local(received, own, histories, users, key)
    except Exception as error:
        if not any(word in str(error) for word in READ_ONLY):
            raise
        name = _written(algorithm, received, own, histories, users, key)
        where = f"{contract.name}: download '{name}'" if name else f"{contract.name}: download"
        raise ContractError(
            where,
            "`local` writes to it",
            expected="what a device receives stays as it is; copy first",
        ) from None


def _written(
    algorithm: FederatedAlgorithm,
    received: State,
    own: State,
    histories: Histories,
    users: Int64Array,
    key: np.uint64,
) -> str:
    """Returns the first array of a download that `local` changes if it may; "" if there is none."""
    copy = type(received)(*(array.copy() for array in received))
    algorithm.local(copy, own, histories, users, key)
    before, after = arrays_of(received), arrays_of(copy)
    return next((name for name in before if before[name].tobytes() != after[name].tobytes()), "")


def try_local(
    contract: Contract,
    algorithm: FederatedAlgorithm,
    received: State,
    own: State,
    histories: Histories,
    users: Int64Array,
    key: np.uint64,
) -> None:
    """Trains some devices twice and keeps nothing: checks what they send against the declaration,
    and the second time against the first.

    Warns (EntrenousWarning) where all that a device sends would become 0 in fixed point. Raises
    ContractError.
    """
    mine = type(own)(*(array.copy() for array in own))
    private, update = local(contract, algorithm, received, mine, histories, users, key)
    for name, array in arrays_of(own).items():
        if array.tobytes() != arrays_of(mine)[name].tobytes():
            raise ContractError(
                f"{contract.name}: private state '{name}'",
                "`local` writes to it",
                expected="a new array returned",
            )
    check_update(contract, update, users, private, own)
    check_same(
        contract, update, local(contract, algorithm, received, mine, histories, users, key)[1]
    )
    if lost := vanishing(update):
        said = (
            f"all that {lost} of the {len(users)} devices tried out send becomes 0 in fixed point,"
            " whose step is 2^-16"
        )
        warnings.warn(
            f"{contract.name}: {said}; nothing is learnt from it: try a larger learning rate",
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
    arrays = arrays_of(state)
    check_arrays(contract, "private state", contract.keeps, arrays, sizes, ("devices",))


def _check_kind(contract: Contract, part: str, kind: type | None, state: Any) -> None:
    if kind is None or not isinstance(state, kind) or not isinstance(state, tuple):
        wanted = "nothing" if kind is None else kind.__name__
        got = f"the {part} is a {type(state).__name__}"
        raise ContractError(contract.name, got, expected=wanted)


def check_arrays(
    contract: Contract,
    part: str,
    fields: tuple[DeclaredArray, ...],
    arrays: Mapping[str, Any],
    more: Mapping[str, int],
    leading: tuple[Size, ...] = (),
) -> None:
    """Checks named arrays against declared fields. more: sizes of this delivery; leading: axes
    before the declared ones.

    Raises ContractError for the first array that breaks a rule.
    """
    sizes = dict(more)
    for field in fields:
        array = arrays.get(field.name)
        where = f"{contract.name}: {part} '{field.name}'"
        if not isinstance(array, np.ndarray):
            expected = f"an array of {field.dtype} numbers"
            raise ContractError(where, f"a {type(array).__name__}", expected=expected)
        if array.dtype != field.dtype:
            expected = f"an array of {field.dtype} numbers"
            raise ContractError(where, f"{array.dtype} numbers", expected=expected)
        _check_shape(contract, where, array.shape, (*leading, *field.axes.sizes), sizes)
        _check_values(contract, where, array, field, sizes)


def _check_shape(
    contract: Contract,
    where: str,
    got: tuple[int, ...],
    wanted: tuple[Size, ...],
    sizes: dict[str, int],
) -> None:
    """Raises ContractError unless each extent is what its name says; the first extent of a free
    size decides it.
    """
    fits = len(got) == len(wanted)
    for extent, size in zip(got, wanted, strict=False):
        if isinstance(size, UpTo) and size.name not in sizes:
            fits &= extent <= extent_of(contract, size.most, sizes)
            sizes[size.name] = extent
        else:
            fits &= extent == extent_of(contract, size, sizes)
    if not fits:
        extents = [f"{size} = {extent_of(contract, size, sizes)}" for size in wanted]
        expected = ", ".join(extents) or "a single number"
        raise ContractError(where, f"the shape {got}", expected=expected)


def extent_of(contract: Contract, size: Size, sizes: Mapping[str, int]) -> int:
    """Returns a size as a number: of this delivery if it has one, else of the federation."""
    name = size.name if isinstance(size, UpTo) else size
    return sizes[name] if isinstance(name, str) and name in sizes else contract.size(size)


def _check_values(
    contract: Contract, where: str, array: Array, field: DeclaredArray, sizes: Mapping[str, int]
) -> None:
    """Raises ContractError for floats that are not finite, and integers beyond their range."""
    if array.dtype.kind == "f" and field.axes.finite and not np.isfinite(array).all():
        raise NotFiniteError(
            where,
            "a value that is NaN or infinite",
            expected="finite numbers",
            fix="training diverged? try a smaller learning rate",
        )
    if array.dtype.kind not in "iu" or not array.size:
        return
    low = int(array.min())
    high = int(array.max())
    bounds = field.axes
    if bounds.least is not None and low < bounds.least:
        raise ContractError(where, f"the number {low}", expected=f"at least {bounds.least}")
    if bounds.below is not None:
        most = extent_of(contract, bounds.below, sizes)
        if high >= most:
            expected = f"below {bounds.below} = {most}"
            raise ContractError(where, f"the number {high}", expected=expected)


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
    for state in () if before is None else (private, before):
        _check_private(contract, update, state, len(users))


def check_sent(contract: Contract, update: Any, users: Int64Array) -> None:
    """Checks what the devices of `users` send against `sends`. Raises ContractError."""
    m = len(users)
    if not isinstance(update, Update):
        got = f"`local` returns a {type(update).__name__}"
        raise ContractError(contract.name, got, expected="(private state, Update)")
    _check_layout(contract, update, m)
    _check_arrays_sent(contract, "rows", update.rows, len(update.item))
    _check_arrays_sent(contract, "dense", update.dense, m)
    _check_arrays_sent(contract, "shown", update.shown, m)
    if update.shown and not np.array_equal(update.sender, users):
        _bad(contract, "sender", "other users than those who send", "`sender=users`")
    _check_weight(contract, update, m)
    wrong = contract.misplaced(update.shown)
    if wrong:
        _bad(contract, "shown", wrong, "numbers as declared in `sends`")


def _check_layout(contract: Contract, update: Update, m: int) -> None:
    """Checks ptr and item: one row range for each device, known items, none twice in a device, no
    more rows than declared.
    """
    ptr = update.ptr
    item = update.item
    items = contract.sizes["items"]
    if ptr.dtype != np.int64 or ptr.shape != (m + 1,) or not _ranges(ptr, len(item)):
        expected = f"int64 ({m + 1},) from 0 to the {len(item)} rows, never falling"
        _bad(contract, "ptr", f"{ptr.dtype} {ptr.shape}", expected)
    if item.dtype != np.int32 or item.ndim != 1:
        _bad(contract, "item", f"{item.dtype} {item.shape}", "int32, one number for each row")
    if len(item) and not 0 <= int(item.min()) <= int(item.max()) < items:
        got = f"items from {int(item.min())} to {int(item.max())}"
        _bad(contract, "item", got, f"0 to {items - 1}")
    if _repeats(ptr, item, items):
        _bad(contract, "item", "an item twice within one device", "one row for each item")
    most = int(np.diff(ptr).max(initial=0))
    if most > contract.sizes["rows"]:
        expected = f"at most rows = {contract.sizes['rows']}"
        _bad(contract, "item", f"{most} rows of one device", expected)


def _ranges(ptr: Int64Array, rows: int) -> bool:
    """Tells whether `ptr` divides so many rows."""
    return bool(ptr[0] == 0 and ptr[-1] == rows and (np.diff(ptr) >= 0).all())


def _repeats(ptr: Int64Array, item: Array, items: int) -> bool:
    """Tells whether a device has an item twice. Most send items in ascending order, which is quick
    to see.
    """
    if rises_within(ptr, item):
        return False
    device = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
    return len(np.unique(device * items + item)) < len(item)


def _check_arrays_sent(contract: Contract, way: str, arrays: Mapping[str, Any], first: int) -> None:
    """Checks that the arrays of one way are those declared, float32, of the declared shape."""
    declared = contract.way(way)
    undeclared = sorted(arrays.keys() - declared.keys())
    if undeclared:
        expected = f"{', '.join(declared) or 'none'} in `sends`"
        _bad(contract, f"{way} '{undeclared[0]}'", "is not declared", expected)
    absent = sorted(declared.keys() - arrays.keys())
    if absent:
        expected = "every array of `sends`, in every round"
        _bad(contract, f"{way} '{absent[0]}'", "is declared and not sent", expected)
    for name, shape in declared.items():
        array = arrays[name]
        where = f"{way} '{name}'"
        expected = f"float32 {(first, *shape)}"
        if not isinstance(array, np.ndarray):
            _bad(contract, where, f"a {type(array).__name__}", expected)
        if array.dtype != np.float32 or array.shape != (first, *shape):
            _bad(contract, where, f"{array.dtype} {array.shape}", expected)


def _check_weight(contract: Contract, update: Update, m: int) -> None:
    weight = update.weight
    group = update.group
    groups = update.groups
    if weight.dtype != np.float32 or weight.shape != (m,):
        _bad(contract, "weight", f"{weight.dtype} {weight.shape}", f"float32 ({m},)")
    if not (np.isfinite(weight).all() and (weight >= 0).all()):
        _bad(contract, "weight", "a number below 0, or not finite", "finite numbers from 0")
    if not contract.weighs and not bool((weight == 1).all()):
        expected = "1, or weight(when=..., reveals=...) in `sends`"
        _bad(contract, "weight", "devices that weigh other than 1", expected)
    if groups != contract.groups:
        expected = f"{contract.groups} (traits.groups names the size)"
        _bad(contract, "groups", f"{groups} groups", expected)
    if groups == 1 and not len(group):
        return
    outside = group.shape == (m,) and bool(((group < 0) | (group >= groups)).any())
    if group.dtype != np.int32 or group.shape != (m,) or outside:
        expected = f"int32 ({m},), each below {groups}"
        _bad(contract, "group", f"{group.dtype} {group.shape}", expected)


def _check_private(contract: Contract, update: Update, state: State, m: int) -> None:
    """Raises ContractError for a private array that leaves as it is: every device that has one (not
    all zeros) sends it bit for bit.
    """
    sent = [("dense", *pair) for pair in update.dense.items()]
    sent += [("shown", *pair) for pair in update.shown.items()]
    sent += [("rows", *pair) for pair in update.rows.items()]
    for name, array in arrays_of(state).items():
        if array.dtype != np.float32 or not array.size:
            continue
        has = np.asarray(array.reshape(m, -1).any(axis=1))
        for way, other, values in sent:
            if _leaves(array, values, update.ptr, has, way == "rows"):
                expected = "nothing that a device keeps"
                _bad(contract, f"{way} '{other}'", f"is the private '{name}'", expected)


def _leaves(private: Array, sent: Array, ptr: Int64Array, has: BoolArray, by_row: bool) -> bool:
    if private.shape[1:] != sent.shape[1:] or not has.any() or not sent.size:
        return False
    device = np.repeat(np.arange(len(private)), np.diff(ptr)) if by_row else np.arange(len(private))
    same = (private[device] == sent).reshape(len(device), -1).all(axis=1)
    gives_away = np.bincount(device, same, minlength=len(private)) > 0
    sending = has & (np.bincount(device, minlength=len(private)) > 0)
    # One number of one device is among many sent ones by chance.
    if private[:1].size == 1 and sending.sum() < 2:
        return False
    return bool(sending.any() and gives_away[sending].all())


def check_pushes(contract: Contract, pushes: Pushes, m: int) -> None:
    """Checks what m nodes push when their timers fire against the declared parts of a message, and
    against the nodes that there are. Raises ContractError.
    """
    declared = {sent.name: sent for sent in contract.sends if sent.way == "pushed"}
    users = contract.sizes["users"]
    headers = pushes.headers
    to = pushes.to
    # the least number of each, and whether it names nodes
    parts = {"sender": (0, True), "age": (0, False), "samples": (0, False), "peers": (-1, True)}
    for name, (least, names_nodes) in parts.items():
        array = getattr(headers, name)
        where = f"pushed '{name}'"
        if name not in declared:
            expected = f"{', '.join(declared) or 'none'} in `sends`"
            _bad(contract, where, "is not declared", expected)
        dtype = declared[name].dtype
        most = (m, *contract.shape(declared[name].sizes))
        if array.dtype != dtype or array.shape[:1] != (m,) or array.shape > most:
            _bad(contract, where, f"{array.dtype} {array.shape}", f"{dtype} {most} at most")
        low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
        if low < least or (names_nodes and array.size and high >= users):
            expected = f"numbers from {least}, of nodes below {users}"
            _bad(contract, where, f"numbers from {low} to {high}", expected)
    if headers.length.tolist() != [contract.sizes["width"]] * m:
        _bad(contract, "pushed 'model'", "another length", f"width = {contract.sizes['width']}")
    unknown = bool(((to < -1) | (to >= users)).any())
    if to.dtype != np.int32 or to.shape[:1] != (m,) or unknown:
        expected = f"int32 ({m}, view), nodes below {users} or -1"
        _bad(contract, "pushed to", f"{to.dtype} {to.shape}", expected)


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
    largest = np.zeros(update.devices)
    device = np.repeat(np.arange(update.devices), np.diff(update.ptr))
    for values in update.rows.values():
        of_row = np.abs(values).max(axis=tuple(range(1, values.ndim)), initial=0)
        np.maximum.at(largest, device, of_row)
    for values in update.dense.values():
        of_device = np.abs(values).reshape(update.devices, -1).max(axis=1, initial=0)
        largest = np.maximum(largest, of_device)
    return int(((largest > 0) & (largest <= HALF)).sum())


def _bad(contract: Contract, array: str, problem: str, expected: str) -> NoReturn:
    raise ContractError(f"{contract.name}: {array}", problem, expected=expected)
