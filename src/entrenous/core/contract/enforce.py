"""Checks that hold devices to what their algorithm declares: what they receive, what they keep,
what they send.

Every breach is a ContractError of one line: the algorithm, the array, the rule. Shapes, types,
ranges and finite numbers of a download are checked before a device sees it; an update is checked
before anybody adds it up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from ..types import Array, BoolArray, Int64Array
from .declarations import Size, UpTo, size_name
from .declared import Contract, ContractError, DeclaredArray, NotFiniteError
from .gossip import Pushes
from .protocols import State, arrays_of
from .update import STEP, Update

HALF = STEP / 2  # what is smaller becomes 0 in fixed point


# ---- states: arrays by name ----------------------------------------------------------------------


def check_received(contract: Contract, download: State, devices: int) -> None:
    """Checks what `devices` devices receive against `receives`: names, types, shapes, ranges,
    finite numbers. Raises ContractError.
    """
    _check_state(
        contract,
        "download",
        contract.declaration.receives,
        contract.receives,
        download,
        {"devices": devices},
        (),
    )


def check_kept(contract: Contract, state: State, devices: int) -> None:
    """Checks the private state of `devices` devices against `keeps`. Raises ContractError."""
    _check_state(
        contract,
        "private state",
        contract.declaration.keeps,
        contract.keeps,
        state,
        {"devices": devices},
        ("devices",),
    )


def _check_state(
    contract: Contract,
    what: str,
    kind: type | None,
    fields: tuple[DeclaredArray, ...],
    state: Any,
    more: Mapping[str, int],
    leading: tuple[Size, ...],
) -> None:
    if kind is None or not isinstance(state, kind) or not isinstance(state, tuple):
        wanted = "nothing" if kind is None else kind.__name__
        raise ContractError(
            contract.name, f"the {what} is a {type(state).__name__}", expected=wanted
        )
    check_arrays(contract, what, fields, arrays_of(state), more, leading)


def check_arrays(
    contract: Contract,
    what: str,
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
        array, where = arrays.get(field.name), f"{contract.name}: {what} '{field.name}'"
        if not isinstance(array, np.ndarray) or array.dtype != field.dtype:
            got = (
                f"{array.dtype} numbers"
                if isinstance(array, np.ndarray)
                else f"a {type(array).__name__}"
            )
            raise ContractError(where, got, expected=f"an array of {field.dtype} numbers")
        _check_shape(contract, where, array.shape, (*leading, *field.axes.sizes), sizes)
        _check_values(contract, where, array, field, sizes)


def _check_shape(
    contract: Contract,
    where: str,
    got: tuple[int, ...],
    wanted: tuple[Size, ...],
    sizes: dict[str, int],
) -> None:
    """Each extent is what its name says; the first extent of a free size decides it."""
    ok = len(got) == len(wanted)
    for extent, size in zip(got, wanted, strict=False):
        if isinstance(size, UpTo) and size.name not in sizes:
            most = sizes[size.most] if size.most in sizes else contract.size(size.most)
            ok &= extent <= most
            sizes[size.name] = extent
        else:
            ok &= extent == extent_of(contract, size, sizes)
    if not ok:
        said = (
            ", ".join(f"{size_name(size)} = {extent_of(contract, size, sizes)}" for size in wanted)
            or "a single number"
        )
        raise ContractError(where, f"the shape {got}", expected=said)


def extent_of(contract: Contract, size: Size, sizes: Mapping[str, int]) -> int:
    """A size as a number: of this delivery if it has one, else of the federation."""
    name = size_name(size)
    return sizes[name] if isinstance(name, str) and name in sizes else contract.size(size)


def _check_values(
    contract: Contract, where: str, array: Array, field: DeclaredArray, sizes: Mapping[str, int]
) -> None:
    """Finite floats, integers within their range."""
    if array.dtype.kind == "f" and field.axes.finite and not np.isfinite(array).all():
        fix = "training diverged? try a smaller learning rate"
        raise NotFiniteError(
            where, "a value that is NaN or infinite", expected="finite numbers", fix=fix
        )
    if array.dtype.kind not in "iu" or not array.size:
        return
    low, high, bounds = int(array.min()), int(array.max()), field.axes
    if bounds.least is not None and low < bounds.least:
        raise ContractError(where, f"the number {low}", expected=f"at least {bounds.least}")
    if bounds.below is not None and high >= (most := extent_of(contract, bounds.below, sizes)):
        raise ContractError(
            where, f"the number {high}", expected=f"below {size_name(bounds.below)} = {most}"
        )


# ---- updates -------------------------------------------------------------------------------------


def check_update(
    contract: Contract, update: Any, users: Int64Array, private: State, before: State | None = None
) -> None:
    """Holds what the devices of `users` send against `sends`, and their new private state against
    `keeps`.

    before: their private state before. With it nothing that is sent may be a private array of
    either, which takes longer to see. Raises ContractError.
    """
    check_sent(contract, update, users)
    check_kept(contract, private, len(users))
    for state in () if before is None else (private, before):
        _check_private(contract, update, state, len(users))


def check_sent(contract: Contract, update: Any, users: Int64Array) -> None:
    """Holds what the devices of `users` send against `sends`. Raises ContractError."""
    name, m = contract.name, len(users)
    if not isinstance(update, Update):
        raise ContractError(
            name, f"`local` returns a {type(update).__name__}", expected="(private state, Update)"
        )
    _check_layout(contract, update, m)
    for way, arrays, first in (
        ("rows", update.rows, len(update.item)),
        ("dense", update.dense, m),
        ("shown", update.shown, m),
    ):
        _check_sent(contract, way, arrays, first)
    if update.shown and not np.array_equal(update.sender, users):
        raise ContractError(
            f"{name}: sender", "other users than those who send", expected="`sender=users`"
        )
    _check_weight(contract, update, m)
    if wrong := contract.misplaced(update.shown):
        _bad(contract, "shown", wrong, "numbers as declared in `sends`")


def _check_layout(contract: Contract, update: Update, m: int) -> None:
    """ptr and item: one row range for each device, known items, none twice in a device, no more
    rows than declared.
    """
    ptr, item, items = update.ptr, update.item, contract.sizes["items"]
    if (
        ptr.dtype != np.int64
        or ptr.shape != (m + 1,)
        or ptr[0] != 0
        or ptr[-1] != len(item)
        or bool((np.diff(ptr) < 0).any())
    ):
        _bad(
            contract,
            "ptr",
            f"{ptr.dtype} {ptr.shape}",
            f"int64 ({m + 1},) from 0 to the {len(item)} rows, never falling",
        )
    if item.dtype != np.int32 or item.ndim != 1:
        _bad(contract, "item", f"{item.dtype} {item.shape}", "int32, one number for each row")
    if len(item) and not 0 <= int(item.min()) <= int(item.max()) < items:
        _bad(
            contract,
            "item",
            f"items from {int(item.min())} to {int(item.max())}",
            f"0 to {items - 1}",
        )
    counts = np.diff(ptr)
    if _repeats(ptr, item, items):
        _bad(contract, "item", "an item twice within one device", "one row for each item")
    if int(counts.max(initial=0)) > contract.sizes["rows"]:
        _bad(
            contract,
            "item",
            f"{int(counts.max())} rows of one device",
            f"at most rows = {contract.sizes['rows']}",
        )


def _repeats(ptr: Int64Array, item: Array, items: int) -> bool:
    """Whether a device has an item twice. Most send items in ascending order, which is quick to
    see.
    """
    falls = np.flatnonzero(np.diff(item) <= 0) + 1  # where a device may begin
    if np.isin(falls, ptr).all():
        return False
    device = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
    return len(np.unique(device * items + item)) < len(item)


def _check_sent(contract: Contract, way: str, arrays: Mapping[str, Any], first: int) -> None:
    """The declared arrays of one way, no others: float32, of the declared shape."""
    declared = contract.way(way)
    undeclared, absent = (
        sorted(arrays.keys() - declared.keys()),
        sorted(declared.keys() - arrays.keys()),
    )
    if undeclared:
        _bad(
            contract,
            f"{way} '{undeclared[0]}'",
            "is not declared",
            f"{', '.join(declared) or 'none'} in `sends`",
        )
    if absent:
        _bad(
            contract,
            f"{way} '{absent[0]}'",
            "is declared and not sent",
            "every array of `sends`, in every round",
        )
    for name, shape in declared.items():
        array = arrays[name]
        if (
            not isinstance(array, np.ndarray)
            or array.dtype != np.float32
            or array.shape != (first, *shape)
        ):
            got = (
                f"{array.dtype} {array.shape}"
                if isinstance(array, np.ndarray)
                else f"a {type(array).__name__}"
            )
            _bad(contract, f"{way} '{name}'", got, f"float32 {(first, *shape)}")


def _check_weight(contract: Contract, update: Update, m: int) -> None:
    weight, group = update.weight, update.group
    if weight.dtype != np.float32 or weight.shape != (m,):
        _bad(contract, "weight", f"{weight.dtype} {weight.shape}", f"float32 ({m},)")
    if not (np.isfinite(weight).all() and (weight >= 0).all()):
        _bad(contract, "weight", "a number below 0, or not finite", "finite numbers from 0")
    if not contract.weighs and not bool((weight == 1).all()):
        _bad(
            contract,
            "weight",
            "devices that weigh other than 1",
            "1, or weight(when=..., reveals=...) in `sends`",
        )
    if update.groups != contract.groups:
        _bad(
            contract,
            "groups",
            f"{update.groups} groups",
            f"{contract.groups} (traits.groups names the size)",
        )
    if (update.groups > 1 or len(group)) and (
        group.dtype != np.int32
        or group.shape != (m,)
        or bool(((group < 0) | (group >= update.groups)).any())
    ):
        _bad(
            contract,
            "group",
            f"{group.dtype} {group.shape}",
            f"int32 ({m},), each below {update.groups}",
        )


def _check_private(contract: Contract, update: Update, state: State, m: int) -> None:
    """No private array leaves as it is: it does if every device that has one (not all zeros) sends
    it bit for bit.
    """
    for name, array in arrays_of(state).items():
        if array.dtype != np.float32 or not array.size:
            continue
        has = np.asarray(array.reshape(m, -1).any(axis=1))
        for way, sent in (("dense", update.dense), ("shown", update.shown), ("rows", update.rows)):
            for other, values in sent.items():
                if _leaves(array, values, update.ptr, has, way == "rows"):
                    _bad(
                        contract,
                        f"{way} '{other}'",
                        f"is the private '{name}'",
                        "nothing that a device keeps",
                    )


def _leaves(private: Array, sent: Array, ptr: Int64Array, has: BoolArray, by_row: bool) -> bool:
    if private.shape[1:] != sent.shape[1:] or not has.any() or not sent.size:
        return False
    device = np.repeat(np.arange(len(private)), np.diff(ptr)) if by_row else np.arange(len(private))
    same = (private[device] == sent).reshape(len(device), -1).all(axis=1)
    found = np.bincount(device, same, minlength=len(private)) > 0
    sending = has & (np.bincount(device, minlength=len(private)) > 0)
    if (
        private[:1].size == 1 and sending.sum() < 2
    ):  # one number of one device is among many sent ones by chance
        return False
    return bool(sending.any() and found[sending].all())


def check_pushes(contract: Contract, pushes: Pushes, m: int) -> None:
    """Checks what m nodes push when their timers fire against the declared parts of a message, and
    against the nodes that there are. Raises ContractError."""
    declared = {sent.name: sent for sent in contract.sends if sent.way == "pushed"}
    users = contract.sizes["users"]
    for name, array, least in (
        ("sender", pushes.headers.sender, 0),
        ("age", pushes.headers.age, 0),
        ("samples", pushes.headers.samples, 0),
        ("peers", pushes.headers.peers, -1),
    ):
        if name not in declared:
            _bad(
                contract,
                f"pushed '{name}'",
                "is not declared",
                f"{', '.join(declared) or 'none'} in `sends`",
            )
        most = (m, *contract.shape(declared[name].sizes))
        if array.dtype != declared[name].dtype or array.shape[:1] != (m,) or array.shape > most:
            _bad(
                contract,
                f"pushed '{name}'",
                f"{array.dtype} {array.shape}",
                f"{declared[name].dtype} {most} at most",
            )
        if array.size and (
            int(array.min()) < least or (name in ("sender", "peers") and int(array.max()) >= users)
        ):
            got = f"numbers from {int(array.min())} to {int(array.max())}"
            _bad(contract, f"pushed '{name}'", got, f"numbers from {least}, of nodes below {users}")
    if pushes.headers.length.tolist() != [contract.sizes["width"]] * m:
        _bad(contract, "pushed 'model'", "another length", f"width = {contract.sizes['width']}")
    to = pushes.to
    if (
        to.dtype != np.int32
        or to.shape[:1] != (m,)
        or (to.size and not -1 <= int(to.min()) <= int(to.max()) < users)
    ):
        _bad(
            contract,
            "pushed to",
            f"{to.dtype} {to.shape}",
            f"int32 ({m}, view), nodes below {users} or -1",
        )


def check_same(contract: Contract, first: Update, again: Update) -> None:
    """Checks that a device function sends the same for the same key. Raises ContractError if it
    does not.
    """
    for part in ("item", "weight"):
        if not np.array_equal(getattr(first, part), getattr(again, part)):
            _bad(
                contract,
                part,
                "differs for the same key",
                "randomness from the key alone (core.keys)",
            )
    for way in ("rows", "dense", "shown"):
        one, other = getattr(first, way), getattr(again, way)
        for name in one:
            if one[name].tobytes() != other[name].tobytes():
                _bad(
                    contract,
                    f"{way} '{name}'",
                    "differs for the same key",
                    "randomness from the key alone (core.keys)",
                )


def vanishing(update: Update) -> int:
    """The number of devices that send numbers that are not 0 and all become 0 in fixed point, whose
    step is 2^-16.
    """
    largest = np.zeros(update.devices)
    device = np.repeat(np.arange(update.devices), np.diff(update.ptr))
    for values in update.rows.values():
        np.maximum.at(
            largest, device, np.abs(values).max(axis=tuple(range(1, values.ndim)), initial=0)
        )
    for values in update.dense.values():
        largest = np.maximum(
            largest, np.abs(values).reshape(update.devices, -1).max(axis=1, initial=0)
        )
    return int(((largest > 0) & (largest <= HALF)).sum())


def _bad(contract: Contract, array: str, problem: str, expected: str) -> NoReturn:
    raise ContractError(f"{contract.name}: {array}", problem, expected=expected)
