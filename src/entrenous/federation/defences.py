"""Defences of a server against poisoned updates: functions over the single updates of a round.

None of them can run under a secure sum, which hides single updates. `robust` is the one that was
found to hold (docs/poisoning.md): a cap on each item's row that falls as the item rises, and items
held to their support. The others serve as baselines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from ..core.contract.declared import Contract
from ..core.contract.protocols import FederatedAlgorithm, State, arrays_of
from ..core.contract.update import Update
from ..core.registry.discover import pick
from ..core.types import Array, BoolArray, Float64Array, Int64Array
from ..privacy.clip import lengths
from .item_rows import ItemRows, Tables, item_rows, of_some, replaced, tables_of
from .support import unsupported
from .visible import Defence, undefended

# Bins of items by their present score; rows that raise their item are capped bin by bin.
BINS = 10
# The cap is a constant in a bin with at most so many devices: less than the length of a first push
# of BPR.
FEW = 5
UNKNOWN = 0.3
# The quantile of lengths that is the cap in a bin.
TYPICAL = 0.3
# The quantile of the lengths of vectors for a unit of bias; longer ones are shortened to it.
USUAL = 0.9
# The share of colluders that the published defences assume.
LIARS = 0.2
# Times the median length: longer than nearly all honest rows, whatever a minority sends.
LONG = 5.0


class Known(NamedTuple):
    """The knowledge of a defence about the federation."""

    contract: Contract
    tables: Tables
    """The arrays of the model that the sent ones move, and the directions."""


def norm_bound(update: Update, model: State, known: Known) -> Update:
    """Shortens each device's update to the median Euclidean length of the round."""
    length = lengths(update)
    # Devices that send nothing would pull the median down to 0.
    sent = length[length > 0]
    most = 0.0
    if len(sent):
        most = float(np.median(sent))
    factor = np.minimum(1, most / np.maximum(length, 1e-12))
    return _scaled(update, factor)


def row_clip(update: Update, model: State, known: Known) -> Update:
    """Shortens each item row to LONG times the median Euclidean length of the round's rows."""
    for rows in item_rows(update, known.contract.sizes["items"]):
        cap = LONG * _quantile(rows.length, rows.device, 0.5)
        caps = np.full(len(rows.item), cap)
        update = replaced(update, rows, _shortened(rows, caps))
    return update


def satcap(update: Update, model: State, known: Known) -> Update:
    """Caps each item row by the item's present score (ours): an honest push shrinks as its item
    climbs, and a liar's push may be no longer.

    Rows that raise their item are sorted into BINS by the score that the item has now. Each array
    of a row is shortened to the TYPICAL quantile of its lengths in the bin; of other rows to LONG
    times their median, since honest rows that lower an item hold liars back. The score is the
    item's bias or, without one, its product with a public probe, the mean item vector.
    """
    arrays = arrays_of(model)
    for rows in item_rows(update, known.contract.sizes["items"]):
        score, push = _scores(rows, arrays, known.tables)
        if score is None:
            continue
        # Each array by itself: a bias and a vector have lengths of different size.
        short = []
        for part in _parts(rows).values():
            caps = _caps(part, score[rows.item], push > 0)
            short.append(_shortened(part, caps))
        update = replaced(update, rows, np.concatenate(short, axis=1))
    return update


def _parts(rows: ItemRows) -> dict[str, ItemRows]:
    """The item rows array by array."""
    parts = {}
    for name, width in rows.columns.items():
        parts[name] = rows._replace(vector=rows.part(name), columns={name: width})
    return parts


def _scores(
    rows: ItemRows, arrays: Mapping[str, Array], tables: Tables
) -> tuple[Float64Array | None, Float64Array]:
    """The present score of every item, float64 [items], and the amount by which each row raises the
    score of its item, float64 [n].
    """
    if tables.bias in rows.columns:
        name = tables.bias
        score = arrays[tables.field[name]].astype(np.float64).reshape(-1)
        bias = rows.part(name)[:, 0].astype(np.float64)
        return score, tables.gain[name] * bias
    for name in rows.columns:
        if name in tables.field:
            table = arrays[tables.field[name]].astype(np.float64)
            probe = table.mean(axis=0)
            push = rows.part(name).astype(np.float64) @ probe
            return table @ probe, np.sign(tables.gain[name]) * push
    # No array of the model is known to move: there is no score to cap by.
    return None, np.zeros(len(rows.item))


def _caps(rows: ItemRows, score: Float64Array, raising: BoolArray) -> Float64Array:
    """The cap on the length of each row, float64 [n]. score: of its item; raising: bool [n]."""
    length = rows.length
    device = rows.device
    lowering = ~raising
    cap = np.full(len(length), LONG * _quantile(length[lowering], device[lowering], 0.5))
    # Bins of equally many raising rows.
    levels = np.linspace(0, 1, BINS + 1)[1:-1]
    edges = np.array([_quantile(score[raising], device[raising], level) for level in levels])
    place = np.searchsorted(edges, score)
    for number in range(BINS):
        in_bin = raising & (place == number)
        devices = np.unique(device[in_bin])
        # A few colluders could decide the quantile of a bin with few devices.
        if len(devices) > FEW:
            cap[in_bin] = _quantile(length[in_bin], device[in_bin], TYPICAL)
        else:
            cap[in_bin] = UNKNOWN
    return cap


def multi_krum(update: Update, model: State, known: Known) -> Update:
    """Keeps the devices whose updates have the closest neighbours (Multi-Krum, Blanchard et al.
    2017, on the assumption that a share LIARS of them lie), and weighs them as the whole cohort.
    """
    whole = _flat(update, known.contract.sizes["items"])
    m = len(whole)
    liars = int(np.ceil(LIARS * m))
    near = m - liars - 2
    if near < 1:
        return update
    # The squared distance between every two devices; a device is no neighbour of itself.
    square = (whole.astype(np.float64) ** 2).sum(axis=1)
    apart = square[:, None] + square - 2 * (whole @ whole.T)
    np.fill_diagonal(apart, np.inf)
    nearest = np.sort(apart, axis=1)[:, :near]
    score = nearest.sum(axis=1)
    best = np.argsort(score, kind="stable")[: m - liars]
    kept = np.sort(best)
    factor = np.full(len(kept), m / len(kept))
    return _scaled(of_some(update, kept), factor)


def _flat(update: Update, items: int) -> Array:
    """Each device's whole update as one row, float32 [m, all numbers]."""
    device = update.device
    parts = [values.reshape(update.devices, -1) for values in update.dense.values()]
    for values in update.rows.values():
        flat = values.reshape(len(values), -1)
        whole = np.zeros((update.devices, items, flat.shape[1]), np.float32)
        whole[device, update.item] = flat
        parts.append(whole.reshape(update.devices, -1))
    return np.concatenate(parts, axis=1)


def in_proportion(update: Update, model: State, known: Known) -> Update:
    """Shortens the vector of each item row in proportion to its bias: to the length for a unit of
    bias that a share USUAL of the rows do not exceed (ours). In BPR a row is (s p_u, s): no honest
    device sends a vector without its bias, which would raise an item although caps and support look
    at the bias. Rows without a bias pass as they are.
    """
    name_of_bias = known.tables.bias
    for rows in item_rows(update, known.contract.sizes["items"]):
        if name_of_bias not in rows.columns:
            continue
        bias = np.abs(rows.part(name_of_bias)[:, 0].astype(np.float64))
        short = []
        for name, part in _parts(rows).items():
            if name == name_of_bias:
                short.append(part.vector)
            else:
                caps = bias * _usual(part, bias)
                short.append(_shortened(part, caps))
        update = replaced(update, rows, np.concatenate(short, axis=1))
    return update


def _usual(rows: ItemRows, bias: Float64Array) -> float:
    """The USUAL quantile of the lengths of vectors for a unit of bias, over rows with a bias."""
    biased = bias > 0
    for_a_unit = rows.length[biased] / bias[biased]
    return _quantile(for_a_unit, rows.device[biased], USUAL)


def supported(update: Update, model: State, known: Known, *, sent: Update | None = None) -> Update:
    """Removes rows that raise an item which stands better than its support allows (ours): better
    than the median of the items that more devices raise in this round (federation/support.py).

    sent: the updates as they came, which are judged; None = `update`.
    """
    arrays = arrays_of(model)
    items = known.contract.sizes["items"]
    judged = item_rows(update if sent is None else sent, items)
    for rows, as_sent in zip(item_rows(update, items), judged, strict=True):
        kept = ~unsupported(as_sent, arrays, known.tables)
        update = replaced(update, rows, rows.vector * kept[:, None])
    return update


def robust(update: Update, model: State, known: Known) -> Update:
    """The defence of the profile `robust`: brings vectors into proportion, clips each item row,
    caps it by its item's score, and holds items to their support.

    If devices send a row for every item, most rows are tiny, and so would caps by quantiles be:
    the whole update is clipped instead.
    """
    update = in_proportion(update, model, known)
    if update.rows:
        short = satcap(row_clip(update, model, known), model, known)
    else:
        short = norm_bound(update, model, known)
    return supported(short, model, known, sent=update)


DEFENCES: Mapping[str, Callable[[Update, State, Known], Update]] = MappingProxyType(
    {
        "clip": norm_bound,
        "rowclip": row_clip,
        "satcap": satcap,
        "proportion": in_proportion,
        "support": supported,
        "krum": multi_krum,
        "robust": robust,
    }
)


def known_of(algorithm: FederatedAlgorithm, contract: Contract, server: State) -> Known:
    """The knowledge of a defence about a federation. server: any state of its server, of which only
    shapes and directions are used.
    """
    return Known(contract, tables_of(algorithm, contract, server))


def defence(name: str, known: Known) -> Defence:
    """A defence by its name, "none" among them, for one federation. Raises InputError for an
    unknown name.
    """
    if name == "none":
        return undefended
    function = pick("defence", name, dict(DEFENCES))
    return lambda update, model: function(update, model, known)


# ---- small parts ---------------------------------------------------------------------------------


def _scaled(update: Update, factor: Float64Array) -> Update:
    """The arrays of each device times its factor, float64 [m]; weights stay."""
    of_row = np.repeat(factor, np.diff(update.ptr))
    rows = {name: _times(values, of_row) for name, values in update.rows.items()}
    dense = {name: _times(values, factor) for name, values in update.dense.items()}
    return update._replace(rows=rows, dense=dense)


def _times(values: Array, factor: Float64Array) -> Array:
    """Each row of an array times its factor."""
    shape = (-1, *[1] * (values.ndim - 1))
    return (values * factor.reshape(shape)).astype(np.float32)


def _shortened(rows: ItemRows, cap: Float64Array) -> Array:
    """The vectors of rows, none longer than its cap."""
    factor = np.minimum(1, cap / np.maximum(rows.length, 1e-12)).astype(np.float32)
    return rows.vector * factor[:, None]


def _quantile(values: Float64Array, device: Int64Array, quantile: float) -> float:
    """A quantile of the values of many devices; 0 without any. No device counts for more values
    than the median device has, so a device with many rows does not decide it.
    """
    if not len(values):
        return 0.0
    count = np.bincount(device)
    usual = np.median(count[count > 0])
    weight = np.minimum(1.0, usual / count[device])
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(weight[order])
    place = np.searchsorted(cumulative, quantile * cumulative[-1])
    return float(values[order][place])
