"""Updates seen item by item: the vector that each device sends for each item, however its algorithm
lays them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ..core.contract.declared import Contract
from ..core.contract.protocols import FederatedAlgorithm, State, arrays_of
from ..core.contract.update import Update, fixed
from ..core.types import Array, Float32Array, Float64Array, Int64Array

# a sum that is tried out: far above what regularisation adds, far below the range of a sum
TRIAL = 16.0


class ItemRows(NamedTuple):
    """The item rows of a cohort, side by side. device: int64 [n], its place in the cohort; item:
    int64 [n]; vector: float32 [n, w], all that the device sends for that item, array after array of
    `columns`, {name: width}; way: "rows" or "dense", how they are sent.
    """

    way: str
    device: Int64Array
    item: Int64Array
    vector: Float32Array
    columns: Mapping[str, int]

    @property
    def length(self) -> Float64Array:
        """The Euclidean length of each row, float64 [n]."""
        return np.sqrt((self.vector.astype(np.float64) ** 2).sum(axis=1))

    def part(self, name: str) -> Float32Array:
        """The columns of one array, float32 [n, its width]."""
        starts = dict(zip(self.columns, np.cumsum([0, *self.columns.values()]), strict=False))
        return self.vector[:, starts[name] : starts[name] + self.columns[name]]


def item_rows(update: Update, items: int) -> list[ItemRows]:
    """The rows of items in an update: what is sent as rows, and what is dense with a row for every
    item (FCF).
    """
    found = []
    if update.rows:
        device = np.repeat(np.arange(update.devices), np.diff(update.ptr))
        found.append(_joined("rows", device, update.item.astype(np.int64), update.rows))
    tables = {
        name: values
        for name, values in update.dense.items()
        if values.ndim > 1 and values.shape[1] == items
    }
    if tables:
        device, item = np.divmod(np.arange(update.devices * items), items)
        flat = {name: values.reshape(update.devices * items, -1) for name, values in tables.items()}
        found.append(_joined("dense", device, item, flat))
    return found


def _joined(
    way: str, device: Int64Array, item: Int64Array, arrays: Mapping[str, Array]
) -> ItemRows:
    parts = {name: values.reshape(len(item), -1) for name, values in arrays.items()}
    columns = {name: values.shape[1] for name, values in parts.items()}
    return ItemRows(way, device, item, np.concatenate(list(parts.values()), axis=1), columns)


def replaced(update: Update, rows: ItemRows, vector: Array) -> Update:
    """The update with other item rows, `vector` float [n, w], in the place of those that `rows`
    were.
    """
    arrays = dict(update.rows if rows.way == "rows" else update.dense)
    changed = rows._replace(vector=np.asarray(vector, np.float32))
    arrays |= {
        name: np.ascontiguousarray(changed.part(name)).reshape(arrays[name].shape)
        for name in rows.columns
    }
    return update._replace(rows=arrays) if rows.way == "rows" else update._replace(dense=arrays)


# ---- how rows move a model -----------------------------------------------------------------------


class Tables(NamedTuple):
    """The arrays of a model that item rows move. field: {name of what is sent: name of the model's
    array, [items, ...]}; gain: {name of what is sent: by how much a sum moves each number, for each
    unit}, negative where gradients are sent that the server descends.
    """

    field: Mapping[str, str]
    gain: Mapping[str, float]

    @property
    def bias(self) -> str:
        """The name of what is sent to a model's only number for each item, an item bias; "" without
        one.
        """
        return next((name for name in self.field if name.startswith("b")), "")


def tables_of(algorithm: FederatedAlgorithm, contract: Contract, server: State) -> Tables:
    """Which array of the model each sent array moves, by its shape, and which way, by trying it out
    on a copy of a server's state.
    """
    items = contract.sizes["items"]
    sent = {name: (items, *shape) for name, shape in contract.way("rows").items()}
    sent |= {name: shape for name, shape in contract.way("dense").items() if shape[:1] == (items,)}
    model, field = arrays_of(algorithm.download(server)), {}
    for name, shape in sent.items():
        alike = [field for field, array in model.items() if array.shape == shape]
        if len(alike) == 1:
            field[name] = alike[0]
    if not field or contract.way(
        "shown"
    ):  # a server that reads single devices cannot be tried out on a sum
        return Tables({}, {})
    return Tables(field, _gains(algorithm, contract, server, field))


def _gains(
    algorithm: FederatedAlgorithm, contract: Contract, server: State, field: Mapping[str, str]
) -> dict[str, float]:
    moved = {-TRIAL: server, TRIAL: server}
    for value in moved:
        total = contract.empty_total()
        for arrays in (total.rows, total.dense):
            for name in arrays.keys() & field.keys():
                arrays[name][...] = fixed(np.array([value]))[0]
        total.senders[...] = 1
        total.weight[...] = fixed(np.ones(1))[0]
        moved[value] = algorithm.aggregate(server, total._replace(devices=1))
    low, high = (arrays_of(algorithm.download(moved[value])) for value in (-TRIAL, TRIAL))
    return {
        name: float(np.median(high[of].astype(np.float64) - low[of])) / (2 * TRIAL)
        for name, of in field.items()
    }
