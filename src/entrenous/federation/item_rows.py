"""Updates item by item: the vector that each device sends for each item, whatever the layout of its
algorithm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.contract.declared import Contract
from ..core.contract.protocols import FederatedAlgorithm, State, arrays_of
from ..core.contract.update import Update, fixed
from ..core.lanes.memory import rows_of, starts_of
from ..core.types import Array, Float32Array, Float64Array, Int64Array

# A sum to try out: far above the effect of regularisation, far below the range of a sum.
TRIAL = 16.0


class ItemRows(NamedTuple):
    """The item rows of a cohort, side by side."""

    way: str
    """"rows" or "dense": how they are sent."""
    device: Int64Array
    """int64 [n]: the place of the device in the cohort."""
    item: Int64Array
    """int64 [n]."""
    vector: Float32Array
    """float32 [n, w]: all numbers that the device sends for the item, array after array."""
    columns: Mapping[str, int]
    """{name of an array: its width}."""

    @property
    def length(self) -> Float64Array:
        """The Euclidean length of each row, float64 [n]."""
        return np.sqrt((self.vector.astype(np.float64) ** 2).sum(axis=1))

    def part(self, name: str) -> Float32Array:
        """The columns of one array, float32 [n, its width]."""
        start = 0
        for other, width in self.columns.items():
            if other == name:
                return self.vector[:, start : start + width]
            start += width
        raise KeyError(name)


def item_rows(update: Update, items: int) -> list[ItemRows]:
    """The item rows of an update: those sent as rows, and those of dense arrays with a row for
    every item (FCF).
    """
    groups = []
    if update.rows:
        item = update.item.astype(np.int64)
        groups.append(_joined("rows", update.device, item, update.rows))
    # A dense array whose first axis is that of the items is a row for every item.
    flat = {}
    rows = update.devices * items
    for name, values in update.dense.items():
        if values.ndim > 1 and values.shape[1] == items:
            flat[name] = values.reshape(rows, -1)
    if flat:
        device, item = np.divmod(np.arange(rows), items)
        groups.append(_joined("dense", device, item, flat))
    return groups


def _joined(
    way: str, device: Int64Array, item: Int64Array, arrays: Mapping[str, Array]
) -> ItemRows:
    """The rows of several arrays side by side."""
    parts = {name: values.reshape(len(item), -1) for name, values in arrays.items()}
    columns = {name: values.shape[1] for name, values in parts.items()}
    vector = np.concatenate(list(parts.values()), axis=1)
    return ItemRows(way, device, item, vector, columns)


def replaced(update: Update, rows: ItemRows, vector: Array) -> Update:
    """The update with the vectors of `rows` replaced by `vector`, float [n, w]."""
    arrays = dict(getattr(update, rows.way))
    changed = rows._replace(vector=np.asarray(vector, np.float32))
    for name in rows.columns:
        part = np.ascontiguousarray(changed.part(name))
        arrays[name] = part.reshape(arrays[name].shape)
    if rows.way == "rows":
        return update._replace(rows=arrays)
    return update._replace(dense=arrays)


# ---- parts of cohorts ----------------------------------------------------------------------------


def of_some(update: Update, devices: Int64Array) -> Update:
    """The updates of some devices of a cohort, in their order; devices: int64, their places in the
    cohort.
    """
    if len(devices) == update.devices:
        return update
    ptr, rows = rows_of(update.ptr, devices)
    return update._replace(
        ptr=ptr,
        item=update.item[rows],
        rows={name: values[rows] for name, values in update.rows.items()},
        dense={name: values[devices] for name, values in update.dense.items()},
        weight=update.weight[devices],
        group=update.group[devices] if len(update.group) else update.group,
        shown={name: values[devices] for name, values in update.shown.items()},
        sender=update.sender[devices] if len(update.sender) else update.sender,
    )


def side_by_side(updates: Sequence[Update]) -> Update:
    """The updates of some cohorts, at least one, as those of one."""

    def joined(parts: Sequence[Any]) -> Any:
        first = parts[0]
        if isinstance(first, Mapping):
            return {name: joined([part[name] for part in parts]) for name in first}
        # The number of sums, which is that of all.
        if isinstance(first, int):
            return first
        return np.concatenate(parts)

    whole = Update(*map(joined, zip(*updates, strict=True)))
    # The row ranges of cohorts begin at 0 each: lengths can be joined, ranges cannot.
    return whole._replace(ptr=starts_of(joined([np.diff(update.ptr) for update in updates])))


# ---- how rows move a model -----------------------------------------------------------------------


class Tables(NamedTuple):
    """The arrays of a model that item rows move."""

    field: Mapping[str, str]
    """{name of a sent array: name of the model's array, [items, ...]}."""
    gain: Mapping[str, float]
    """{name of a sent array: the movement of the model for each unit of the sum}; negative if the
    array holds gradients that the server descends.
    """

    @property
    def bias(self) -> str:
        """The name of the sent item biases; "" without any."""
        return next((name for name in self.field if name.startswith("b")), "")


def tables_of(algorithm: FederatedAlgorithm, contract: Contract, server: State) -> Tables:
    """Finds the array of the model that each sent array moves, by its shape, and the direction, by
    trying it out on a copy of a server's state.
    """
    items = contract.sizes["items"]
    sent = {name: (items, *shape) for name, shape in contract.way("rows").items()}
    for name, shape in contract.way("dense").items():
        if shape[:1] == (items,):
            sent[name] = shape
    model = arrays_of(algorithm.download(server))
    field = {}
    for name, shape in sent.items():
        alike = [array_name for array_name, array in model.items() if array.shape == shape]
        # Of several arrays of one shape, none is known to be the one.
        if len(alike) == 1:
            field[name] = alike[0]
    # A server that reads single devices cannot be tried out on a sum.
    if not field or contract.way("shown"):
        return Tables({}, {})
    return Tables(field, _gains(algorithm, contract, server, field))


def _gains(
    algorithm: FederatedAlgorithm, contract: Contract, server: State, field: Mapping[str, str]
) -> dict[str, float]:
    """The movement of each array for each unit of the sum."""

    def moved(value: float) -> dict[str, Array]:
        """The model after a sum of one device in which every number is `value`."""
        total = contract.empty_total()
        for arrays in (total.rows, total.dense):
            for name in arrays.keys() & field.keys():
                arrays[name][...] = fixed(np.array([value]))[0]
        total.senders[...] = 1
        total.weight[...] = fixed(np.ones(1))[0]
        after = algorithm.aggregate(server, total._replace(devices=1))
        return arrays_of(algorithm.download(after))

    # Between a sum and its opposite, regularisation cancels.
    low = moved(-TRIAL)
    high = moved(TRIAL)
    gains = {}
    for name, array_name in field.items():
        difference = high[array_name].astype(np.float64) - low[array_name]
        gains[name] = float(np.median(difference)) / (2 * TRIAL)
    return gains
