"""Items that stand better than their support allows. Colluders promote such items, since they are
fewer than the consumers of an item so high in lists.

The support of an item is the number of devices of a round that raise it. Its standing is its height
in the lists of these devices, whose vectors follow from their rows. Colluders give an item no more
support than their own number, and it may stand no better than items with as much support.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..core.types import Array, BoolArray, Float64Array, Int64Array
from .item_rows import ItemRows, Tables

# An item at place r of a list counts (PLACES / (PLACES + r))^4.
PLACES = 10.0
# An item is judged if at least so many items have more support: the most popular are not judged.
MANY = 10
# Devices whose lists are looked at, at most.
LISTS = 256
# The quantile of the lengths of devices' vectors, to which longer ones are shortened.
USUAL = 0.8
# If all items must be sent (dense), a device raises those above this share of its strongest push.
CLAIM = 0.25


def unsupported(rows: ItemRows, arrays: Mapping[str, Array], tables: Tables) -> BoolArray:
    """True for rows that raise an item which stands better than the median of the items with more
    support: bool [n]. All False if the rows move no vectors of the model.

    arrays: the model that devices received.
    """
    names = [name for name in rows.columns if name in tables.field and name != tables.bias]
    if not names or not len(rows.item):
        return np.zeros(len(rows.item), np.bool_)
    name = names[0]
    table = arrays[tables.field[name]].astype(np.float64)
    bias = np.zeros(len(table))
    if tables.bias:
        bias = arrays[tables.field[tables.bias]].astype(np.float64)
    push, vectors = _pushes(rows, name, tables)
    raises = push > 0
    # The strongest push of each device.
    most = np.zeros(int(rows.device.max()) + 1)
    np.maximum.at(most, rows.device, push)
    least = CLAIM if rows.way == "dense" else 0
    claims = raises & (push >= least * most[rows.device])
    support = np.bincount(rows.item[claims], minlength=len(table))
    standing = _standing(vectors, table, bias)
    too_good = standing > _allowed(standing, support)
    return raises & too_good[rows.item]


def _pushes(rows: ItemRows, name: str, tables: Tables) -> tuple[Float64Array, Float64Array]:
    """The amount by which each row raises its item, float64 [n], and the vectors of the devices
    that raise any item, float64 [m, F].

    A row of BPR is (s p_u, s): with a bias, the vector is the movement of the raised rows for each
    unit of bias; without a bias it is the direction of the device's rows, weighted by their length.
    """
    moved = tables.gain[name] * rows.part(name).astype(np.float64)
    device = rows.device
    many = int(device.max()) + 1
    has_bias = tables.bias in rows.columns
    if has_bias:
        bias = rows.part(tables.bias)[:, 0].astype(np.float64)
        push = tables.gain[tables.bias] * bias
        weight: Float64Array = (push > 0).astype(np.float64)
        unit = np.asarray(np.bincount(device, push * weight, many), np.float64)
    else:
        weight = np.sqrt((moved**2).sum(axis=1))
        unit = np.ones(many)
    # The weighted sum of the rows of each device, column by column.
    columns = [np.bincount(device, column * weight, many) for column in moved.T]
    whole = np.stack(columns, axis=1)
    vectors = whole / np.maximum(unit, 1e-12)[:, None]
    if not has_bias:
        push = (moved * vectors[device]).sum(axis=1)
    raising = vectors[(unit > 0) & vectors.any(axis=1)]
    length = np.sqrt((raising**2).sum(axis=1))
    # A long vector would outweigh all others in the lists.
    usual = 0.0
    if len(raising):
        usual = np.quantile(length, USUAL)
    factor = np.minimum(1, usual / np.maximum(length, 1e-12))
    return push, raising * factor[:, None]


def _standing(vectors: Float64Array, table: Float64Array, bias: Float64Array) -> Float64Array:
    """The height of each item in the lists of some devices, from 0 to 1: the mean of a number that
    falls with its place, which bounds the influence of one device.
    """
    if not len(vectors):
        return np.zeros(len(table))
    # Devices at even distances, since each list costs a pass over all items.
    spaced = np.linspace(0, len(vectors) - 1, LISTS)
    looked_at = np.unique(spaced.astype(np.int64))
    score = np.einsum("df,if->di", vectors[looked_at], table) + bias
    order = np.argsort(-score, axis=1, kind="stable")
    places = np.arange(len(table), dtype=np.float64)
    place = np.empty(score.shape)
    np.put_along_axis(place, order, places[None], axis=1)
    share = PLACES / (PLACES + place)
    square = share * share
    mean = (square * square).mean(axis=0)
    return np.asarray(mean, np.float64)


def _allowed(standing: Float64Array, support: Int64Array) -> Float64Array:
    """The best allowed standing of each item: the median of the items with more support; infinity
    if they are fewer than MANY.
    """
    order = np.argsort(-support, kind="stable")
    # The number of items with more support.
    above = np.searchsorted(-support[order], -support, side="left")
    allowed = np.full(len(standing), np.inf)
    for many in np.unique(above[above >= MANY]):
        better = order[:many]
        allowed[above == many] = np.median(standing[better])
    return allowed
