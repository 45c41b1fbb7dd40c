"""Items that stand better than their support allows: what colluders promote, who are fewer than the
consumers of an item so high in lists.

Support of an item: the devices of a round that raise it. Standing: how high it is in the lists of
these devices, whose vectors follow from their rows. Colluders give an item no more support than
they are many, and here it may stand no better than items with as much.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..core.types import Array, BoolArray, Float64Array, Int64Array
from .item_rows import ItemRows, Tables

PLACES = 10.0  # of a list: an item at place r counts (PLACES / (PLACES + r))^4
MANY = 10  # items with more support that there must be: the few most popular are not judged
LISTS = 256  # devices whose lists are looked at, at most
USUAL = 0.8  # the quantile of the lengths of devices' vectors, to which longer ones are shortened
# of a device's strongest push: what is above it says that the device likes the item, where all
# items must be sent (dense)
CLAIM = 0.25


def unsupported(rows: ItemRows, arrays: Mapping[str, Array], tables: Tables) -> BoolArray:
    """Which rows raise an item that stands better than the median of the items with more support:
    bool [n]. arrays: the model that devices received. False for all where the rows move no vectors
    of it.
    """
    name = next((name for name in rows.columns if name in tables.field and name != tables.bias), "")
    if not name or not len(rows.item):
        return np.zeros(len(rows.item), np.bool_)
    table = arrays[tables.field[name]].astype(np.float64)
    bias = (
        arrays[tables.field[tables.bias]].astype(np.float64)
        if tables.bias
        else np.zeros(len(table))
    )
    push, vectors = _pushes(rows, name, tables)
    most = np.zeros(int(rows.device.max()) + 1)
    np.maximum.at(most, rows.device, push)
    claims = (push > 0) & (push >= (CLAIM if rows.way == "dense" else 0) * most[rows.device])
    support = np.bincount(rows.item[claims], minlength=len(table))
    standing = _standing(vectors, table, bias)
    return (push > 0) & (standing > _allowed(standing, support))[rows.item]


def _pushes(rows: ItemRows, name: str, tables: Tables) -> tuple[Float64Array, Float64Array]:
    """By how much each row raises its item, float64 [n], and the vectors of the devices that raise
    any, [m, F].

    A row of BPR is (s p_u, s), so that with a bias the vector is what rows raise by, for each unit
    of bias; without one it is the direction of the device's rows, the long ones most of all."""
    moved = tables.gain[name] * rows.part(name).astype(np.float64)
    many, device = int(rows.device.max()) + 1, rows.device
    if tables.bias in rows.columns:
        push = tables.gain[tables.bias] * rows.part(tables.bias)[:, 0].astype(np.float64)
        weight: Float64Array = (push > 0).astype(np.float64)
        unit = np.asarray(np.bincount(device, push * weight, many), np.float64)
    else:
        push, weight, unit = np.zeros(len(device)), np.sqrt((moved**2).sum(axis=1)), np.ones(many)
    whole = np.stack([np.bincount(device, column * weight, many) for column in moved.T], axis=1)
    vectors = whole / np.maximum(unit, 1e-12)[:, None]
    if tables.bias not in rows.columns:
        push = (moved * vectors[device]).sum(axis=1)
    found = vectors[(unit > 0) & vectors.any(axis=1)]
    length = np.sqrt((found**2).sum(axis=1))
    usual = np.quantile(length, USUAL) if len(found) else 0.0
    return push, found * np.minimum(1, usual / np.maximum(length, 1e-12))[:, None]


def _standing(vectors: Float64Array, table: Float64Array, bias: Float64Array) -> Float64Array:
    """How high each item is in the lists of some devices, from 0 to 1: the mean of a number that
    falls with its place, which bounds what one device can do to it."""
    if not len(vectors):
        return np.zeros(len(table))
    some = vectors[np.unique(np.linspace(0, len(vectors) - 1, LISTS).astype(np.int64))]
    score = np.einsum("df,if->di", some, table) + bias
    place = np.empty(score.shape)
    order = np.argsort(-score, axis=1, kind="stable")
    np.put_along_axis(place, order, np.arange(len(table), dtype=np.float64)[None], axis=1)
    share = PLACES / (PLACES + place)
    square = share * share
    return np.asarray((square * square).mean(axis=0), np.float64)


def _allowed(standing: Float64Array, support: Int64Array) -> Float64Array:
    """The best standing that each item may have: the median of those with more support; without
    limit where they are fewer than MANY.
    """
    order = np.argsort(-support, kind="stable")
    above = np.searchsorted(-support[order], -support, side="left")  # how many items have more
    allowed = np.full(len(standing), np.inf)
    for many in np.unique(above[above >= MANY]):
        allowed[above == many] = np.median(standing[order[:many]])
    return allowed
