"""The item vectors of a device, trained with its private score function: the local training of
PFedRec (`train`, pfedrec.py) and of FedRAP (`train_views`, fedrap.py).

A device scores item i by s(w . row_i + c), s the logistic function; in FedRAP row_i is the sum of a
common and an own vector. Its samples are its items and `negatives` others for each, drawn once; its
loss is the mean binary cross-entropy of a batch. It copies the rows that its samples touch, and
leaves all others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from entrenous.core.compiling import njit
from entrenous.core.contract.own_rows import OwnRows
from entrenous.core.contract.update import add_rows
from entrenous.core.keys import below, draw, fold
from entrenous.core.lanes.memory import padded, sealed, zeros
from entrenous.core.lanes.simd import (
    LANES,
    SCALE,
    every,
    inside,
    load,
    store,
    sum_of,
    unless_negative,
)
from entrenous.core.types import BoolArray, Float32Array, Int32Array, Int64Array, UInt64Array
from entrenous.kernels.logistic import logistic
from entrenous.kernels.sampling import count_gaps, fill_gaps, shuffle

# Marks an item in `slot_of` that has no slot yet.
TOUCHED = np.int32(-2)
NONE = np.int32(-1)


class OwnItemsRates(NamedTuple):
    """Constants of the training of a device."""

    score: np.float32
    """The learning rate of w and c."""
    item: np.float32
    """The learning rate of item vectors."""
    epochs: int
    negatives: int
    """Items drawn for each consumed item."""
    batch: int


class ViewsRates(NamedTuple):
    """Constants of the training of a device with two views of each item."""

    steps: OwnItemsRates
    decay: np.float32
    """Factor of both rates after each step."""
    apart: np.float32
    """lambda, the weight of the squared distance of the views, which the loss lowers."""
    sparse: np.float32
    """mu, the weight of the absolute numbers of the common view."""


class OwnItemsData(NamedTuple):
    """The private data of m devices: `Histories` without values, and the key each draws from."""

    ptr: Int64Array
    item: Int32Array
    avoid_ptr: Int64Array
    avoid: Int32Array
    keys: UInt64Array
    """uint64 [m], name the negatives, and the orders of the samples."""


class OwnItemsLearnt(NamedTuple):
    """The state of m devices after their training."""

    w: Float32Array
    """float32 [m, F]."""
    c: Float32Array
    """float32 [m]."""
    own: OwnRows
    """The rows that each device touched, and its own rows from before."""


class ViewsLearnt(NamedTuple):
    """The state of m devices after their training with two views of each item."""

    w: Float32Array
    """float32 [m, F]."""
    c: Float32Array
    """float32 [m]."""
    ptr: Int64Array
    item: Int32Array
    """The items that each device touched now or before: the layout of `OwnRows`."""
    own: Float32Array
    """float32 [n, F], the own view of each."""
    common: Float32Array
    """float32 [n, F], the common view of each, as the device has changed it."""
    sampled: BoolArray
    """bool [n], true for items of this training's samples."""


class _Given(NamedTuple):
    """The arrays that devices start from."""

    q: Float32Array
    """float32 [items, F]."""
    own_ptr: Int64Array
    own_item: Int32Array
    own_row: Float32Array
    """Own rows, in the place of those of q; the layout of `OwnRows`."""


class _Room(NamedTuple):
    """Memory for the devices of one call. `ptr` to `row` are results; everything else serves one
    device at a time.
    """

    ptr: Int64Array
    item: Int32Array
    row: Float32Array
    """The layout of `OwnRows`, with room for more rows."""
    table: Float32Array
    """The rows that a device touches, padded."""
    error: Float32Array
    """The sum over a batch of the slopes of the samples of each row."""
    slot_of: Int32Array
    """int32 [items], the row of `table` of each item; NONE = not touched."""
    sample: Int32Array
    """The row of `table` of each sample, consumed items first."""
    order: Int32Array
    """The order of the samples in an epoch."""
    slope: Float32Array
    """The slopes of a batch."""
    sign: Float32Array
    """-1 for consumed items of a batch, 1 for others."""
    gaps: Int32Array
    """As in `sampling.fill_gaps`."""
    w: Float32Array
    """The score function of a device, padded."""
    step: Float32Array
    """The gradient by w."""
    move: Float32Array
    """The moves of a device's rows, each with a sender behind it, as a sum takes them."""
    mine: Float32Array
    """The own view of the rows of `table`, padded; empty without one."""
    many: Float32Array
    """The samples of each row in a batch."""
    common: Float32Array
    """The rows of `table` of all devices; empty without a second view."""
    sampled: BoolArray
    """As in `ViewsLearnt`."""


def train(
    rates: OwnItemsRates,
    w: Float32Array,
    c: Float32Array,
    q: Float32Array,
    own: OwnRows,
    data: OwnItemsData,
    total: Int64Array | None = None,
) -> tuple[OwnItemsLearnt, bool]:
    """Trains each of the m devices of `data` from w (float32 [m, F]), c (float32 [m]), and q
    (float32 [items, F]) with its own rows in it.

    total: the table of a sum, to which the moves from q are added with a count of senders; None =
    nothing is added up. Returns the new state, and False if a move cannot be added.
    """
    given = _Given(sealed(q), *own.flat())
    learnt_w = np.array(w, order="C")
    learnt_c = np.array(c, order="C")
    room = _room(rates, given, data)
    adds = total is not None
    if total is None:
        total = np.zeros((0, 0), np.int64)
    finite = _train(rates, given, data, learnt_w, learnt_c, room, total, adds)
    rows = int(room.ptr[-1])
    # Few rows of the room were not needed: a copy would cost more than they do.
    kept = OwnRows(room.ptr, room.item[:rows], room.row[:rows])
    return OwnItemsLearnt(learnt_w, learnt_c, kept), bool(finite)


def train_views(
    rates: ViewsRates,
    w: Float32Array,
    c: Float32Array,
    common: Float32Array,
    base: Float32Array,
    own: OwnRows,
    changed: OwnRows,
    data: OwnItemsData,
) -> ViewsLearnt:
    """Trains each of the m devices of `data` from w (float32 [m, F]), c (float32 [m]), the common
    view (float32 [items, F]) with the rows `changed` in it, and the own view `base` (float32
    [items, F]) with the rows `own` in it.
    """
    given = _Given(sealed(common), *changed.flat())
    second = _Given(sealed(base), *own.flat())
    learnt_w = np.array(w, order="C")
    learnt_c = np.array(c, order="C")
    room = _room(rates.steps, second, data, views=True)
    _train_views(rates, given, second, data, learnt_w, learnt_c, room)
    n = int(room.ptr[-1])
    return ViewsLearnt(
        learnt_w,
        learnt_c,
        room.ptr,
        room.item[:n],
        room.row[:n],
        room.common[:n],
        room.sampled[:n],
    )


def _room(rates: OwnItemsRates, given: _Given, data: OwnItemsData, *, views: bool = False) -> _Room:
    """Returns memory that suffices for the device with the most rows."""
    items, factors = given.q.shape
    # Each sample touches one row at most, and own rows of before are kept too.
    samples = np.diff(data.ptr) * (1 + rates.negatives)
    touched = np.minimum(samples + np.diff(given.own_ptr), items)
    most = int(touched.max(initial=0))
    longest = int(samples.max(initial=0))
    rows = int(touched.sum())
    return _Room(
        ptr=np.zeros(len(touched) + 1, np.int64),
        item=np.empty(rows, np.int32),
        # The lanes of the last row may reach beyond it.
        row=np.empty((rows + LANES, factors), np.float32),
        table=zeros(most + 1, padded(factors)),
        error=np.zeros(most + 1, np.float32),
        slot_of=np.full(items, NONE, np.int32),
        sample=np.empty(longest, np.int32),
        order=np.empty(longest, np.int32),
        slope=np.empty(min(rates.batch, longest), np.float32),
        sign=np.empty(min(rates.batch, longest), np.float32),
        gaps=np.empty(int(np.diff(data.avoid_ptr).max(initial=0)) + LANES, np.int32),
        w=zeros(1, padded(factors)),
        step=zeros(1, padded(factors)),
        move=zeros(1 if views else most + 1, padded(factors + 1)),
        mine=zeros(most + 1 if views else 0, padded(factors)),
        many=np.zeros(most + 1, np.float32),
        common=np.empty((rows + LANES if views else 0, factors), np.float32),
        sampled=np.zeros(rows, np.bool_),
    )


@inside
def _touch(given: _Given, data: OwnItemsData, d: int, negatives: int, room: _Room) -> int:
    """Draws the samples of device d, and gives the items that they touch, and those of which it has
    own rows, a slot each by ascending item. Returns the number of samples.
    """
    history = data.item
    slot_of = room.slot_of
    sample = room.sample
    item = room.item
    own_item = given.own_item
    items = given.q.shape[0]
    start = data.ptr[d]
    length = data.ptr[d + 1] - start
    avoided = data.avoid_ptr[d + 1] - data.avoid_ptr[d]
    key = data.keys[d]
    # If nothing is left to draw, the device learns from its items alone.
    samples = length * (1 + negatives) if avoided < items else length
    for s in range(samples):
        if s < length:
            i = int(history[start + s])
        else:
            k = below(draw(key, s), items - avoided)
            i = int(k + count_gaps(room.gaps, avoided, k))
        sample[s] = np.int32(i)
        slot_of[i] = TOUCHED
    # Rows that were learnt before go along, touched or not: they are the state of the device.
    for r in range(given.own_ptr[d], given.own_ptr[d + 1]):
        slot_of[own_item[r]] = TOUCHED
    # One pass over the catalogue numbers the slots, so that rows lie by ascending item.
    first = room.ptr[d]
    slot = 0
    for i in range(items):
        if slot_of[i] == TOUCHED:
            slot_of[i] = np.int32(slot)
            item[first + slot] = np.int32(i)
            slot += 1
    room.ptr[d + 1] = first + slot
    # From here on a sample is a place in `table`, and the item is not looked up again.
    for s in range(samples):
        sample[s] = slot_of[sample[s]]
    return samples


@inside
def _copy_rows(given: _Given, d: int, room: _Room, table: Float32Array) -> None:
    """Copies the rows that device d touches to `table`, by slot, its own in the place of others."""
    slot_of = room.slot_of
    item = room.item
    q = given.q
    own_item = given.own_item
    own_row = given.own_row
    factors = q.shape[1]
    width = table.shape[1]
    first = room.ptr[d]
    # The rows of q first; own rows then take the places of theirs.
    for r in range(room.ptr[d + 1] - first):
        i = np.int64(item[first + r])
        for f in range(0, factors, LANES):
            numbers = load(q, i * factors + f, factors - f)
            store(table, r * width + f, numbers)
    for r in range(given.own_ptr[d], given.own_ptr[d + 1]):
        at = np.int64(slot_of[own_item[r]]) * width
        for f in range(0, factors, LANES):
            numbers = load(own_row, r * factors + f, factors - f)
            store(table, at + f, numbers)


@inside
def _forget(d: int, room: _Room) -> None:
    """Takes the slots of device d back."""
    # Only the slots that were given: clearing them all would cost a pass over the catalogue.
    for r in range(room.ptr[d], room.ptr[d + 1]):
        room.slot_of[room.item[r]] = NONE


@inside
def _keep(table: Float32Array, d: int, room: _Room, out: Float32Array) -> None:
    """Writes the rows of device d in `table` to their place among those of all devices."""
    factors = out.shape[1]
    width = table.shape[1]
    first = room.ptr[d]
    for r in range(room.ptr[d + 1] - first):
        # Whole lanes, whose end the next row writes over.
        for f in range(0, factors, LANES):
            numbers = load(table, r * width + f)
            store(out, (first + r) * factors + f, numbers)


@inside
def _slopes(room: _Room, start: int, size: int, length: int, c: np.float32) -> None:
    """Writes to room.slope the slope of the loss by the logit, y_ui less the label, of `size`
    samples from place `start` of the order; the first `length` samples are consumed items.
    """
    table = room.table
    sample = room.sample
    order = room.order
    slope = room.slope
    sign = room.sign
    w = room.w
    width = table.shape[1]
    for s in range(size):
        place = order[start + s]
        at = np.int64(sample[place]) * width
        # w_u . q_i, lane by lane; padded numbers are 0 and add nothing.
        products = every(np.float32(0))
        for f in range(0, width, LANES):
            products = products + load(w, f) * load(table, at + f)
        slope[s] = c + sum_of(products)
        sign[s] = np.float32(-1) if place < length else np.float32(1)
    # A loop of its own, of which the compiler makes vectors. y_ui - 1 would lose digits where y_ui
    # is nearly 1, and is - s(-logit).
    for s in range(size):
        slope[s] = sign[s] * logistic(sign[s] * slope[s])


@inside
def _tune(
    rates: OwnItemsRates, samples: int, length: int, c: np.float32, key: np.uint64, room: _Room
) -> np.float32:
    """Trains one device whose samples are in `room`; the first `length` are consumed items. Returns
    the new c.
    """
    table = room.table
    error = room.error
    sample = room.sample
    order = room.order
    slope = room.slope
    w = room.w
    step = room.step
    width = table.shape[1]
    nothing = every(np.float32(0))
    for epoch in range(rates.epochs):
        shuffle(order, 0, samples, fold(key, epoch))
        for start in range(0, samples, rates.batch):
            size = min(rates.batch, samples - start)
            mean = np.float32(1) / np.float32(size)
            # The gradients by w_u and c_u, of which the batch takes the mean.
            by_c = np.float32(0)
            _slopes(room, start, size, length, c)
            for s in range(size):
                at = np.int64(sample[order[start + s]]) * width
                e = slope[s]
                by_c += e
                for f in range(0, width, LANES):
                    along = every(e) * load(table, at + f)
                    store(step, f, load(step, f) + along)
            # The score function, with the item vectors as they are.
            rate = every(rates.score * mean)
            for f in range(0, width, LANES):
                store(w, f, load(w, f) - rate * load(step, f))
                store(step, f, nothing)
            c -= rates.score * mean * by_c
            # Then the item vectors, with the new score function. Samples of one item add up.
            _slopes(room, start, size, length, c)
            for s in range(size):
                error[sample[order[start + s]]] += slope[s]
            for s in range(size):
                r = np.int64(sample[order[start + s]])
                # 0 after the first sample of a row.
                by = every(rates.item * mean * error[r])
                error[r] = np.float32(0)
                for f in range(0, width, LANES):
                    flat = r * width + f
                    store(table, flat, load(table, flat) - by * load(w, f))
    return c


@njit(cache=True, nogil=True, error_model="numpy")
def _train(
    rates: OwnItemsRates,
    given: _Given,
    data: OwnItemsData,
    all_w: Float32Array,
    all_c: Float32Array,
    room: _Room,
    total: Int64Array,
    adds: bool,
) -> bool:
    """Trains all devices one after the other; writes what they learnt to `room`, `all_w` and
    `all_c`, and adds their moves to `total` if `adds`. Returns False if a move cannot be added.
    """
    ptr = room.ptr
    item = room.item
    row = room.row
    table = room.table
    w = room.w
    move = room.move
    q = given.q
    factors = q.shape[1]
    width = table.shape[1]
    wide = move.shape[1]
    finite = True
    for d in range(len(all_c)):
        # What the device never draws, as gaps between the items that it may draw.
        avoid_from = data.avoid_ptr[d]
        fill_gaps(data.avoid, avoid_from, data.avoid_ptr[d + 1] - avoid_from, room.gaps)
        for f in range(0, factors, LANES):
            store(w, f, load(all_w, d * factors + f, factors - f))
        samples = _touch(given, data, d, rates.negatives, room)
        _copy_rows(given, d, room, table)
        _forget(d, room)
        length = data.ptr[d + 1] - data.ptr[d]
        # The slots are free again: `sample` and `item` say all that training needs.
        all_c[d] = _tune(rates, samples, length, all_c[d], data.keys[d], room)
        for f in range(factors):
            all_w[d, f] = w[0, f]
        _keep(table, d, room, row)
        first = ptr[d]
        rows = ptr[d + 1] - first
        # What a server would add up is the difference from what the device received.
        if adds:
            for r in range(rows):
                i = np.int64(item[first + r])
                for f in range(0, factors, LANES):
                    before = load(q, i * factors + f, factors - f)
                    moved = load(table, r * width + f) - before
                    store(move, r * wide + f, moved)
                # A device more among the senders of this item: 1 in the fixed point of a sum.
                move[r, factors] = np.float32(1) / SCALE
            # In fixed point, so that the order of devices cannot change the sum.
            finite &= add_rows(item[first : first + rows], move, total)
    return finite


# ---- two views of each item ----------------------------------------------------------------------


@inside
def _tune_views(
    rates: ViewsRates, samples: int, length: int, c: np.float32, key: np.uint64, room: _Room
) -> np.float32:
    """Trains one device whose samples are in `room`, both views and the score function by one
    gradient; the first `length` samples are consumed items. Returns the new c.
    """
    table = room.table
    mine = room.mine
    error = room.error
    many = room.many
    sample = room.sample
    order = room.order
    slope = room.slope
    sign = room.sign
    w = room.w
    step = room.step
    width = table.shape[1]
    nothing = every(np.float32(0))
    score_rate = rates.steps.score
    item_rate = rates.steps.item
    for epoch in range(rates.steps.epochs):
        shuffle(order, 0, samples, fold(key, epoch))
        for start in range(0, samples, rates.steps.batch):
            size = min(rates.steps.batch, samples - start)
            mean = np.float32(1) / np.float32(size)
            # Means of the regularisers are over all numbers of the rows of a batch.
            each = mean / np.float32(room.row.shape[1])
            for s in range(size):
                place = order[start + s]
                at = np.int64(sample[place]) * width
                products = every(np.float32(0))
                for f in range(0, width, LANES):
                    both = load(table, at + f) + load(mine, at + f)
                    products = products + load(w, f) * both
                slope[s] = c + sum_of(products)
                sign[s] = np.float32(-1) if place < length else np.float32(1)
            for s in range(size):
                slope[s] = sign[s] * logistic(sign[s] * slope[s])
            by_c = np.float32(0)
            for s in range(size):
                r = np.int64(sample[order[start + s]])
                e = slope[s]
                by_c += e
                error[r] += e
                many[r] += np.float32(1)
                for f in range(0, width, LANES):
                    # The score is of both views together: C_i + D_ui.
                    flat = r * width + f
                    both = load(table, flat) + load(mine, flat)
                    store(step, f, load(step, f) + every(e) * both)
            for s in range(size):
                r = np.int64(sample[order[start + s]])
                # 0 after the first sample of a row.
                of_loss = every(item_rate * mean * error[r])
                of_views = every(item_rate * each * many[r] * np.float32(2) * rates.apart)
                of_size = every(item_rate * each * many[r] * rates.sparse)
                error[r] = np.float32(0)
                many[r] = np.float32(0)
                for f in range(0, width, LANES):
                    flat = r * width + f
                    common = load(table, flat)
                    own = load(mine, flat)
                    # The loss moves both views alike; what keeps them apart moves them in opposite
                    # ways.
                    by_loss = of_loss * load(w, f)
                    away = of_views * (common - own)
                    minus = nothing - common
                    # The sign of a number times its step: the slope of |C|.
                    towards_0 = unless_negative(common, of_size) - unless_negative(minus, of_size)
                    store(table, flat, common - by_loss + away - towards_0)
                    store(mine, flat, own - by_loss - away)
            rate = every(score_rate * mean)
            for f in range(0, width, LANES):
                store(w, f, load(w, f) - rate * load(step, f))
                store(step, f, nothing)
            c -= score_rate * mean * by_c
            # Both rates fall together.
            score_rate *= rates.decay
            item_rate *= rates.decay
    return c


@njit(cache=True, nogil=True, error_model="numpy")
def _train_views(
    rates: ViewsRates,
    given: _Given,
    second: _Given,
    data: OwnItemsData,
    all_w: Float32Array,
    all_c: Float32Array,
    room: _Room,
) -> None:
    """Trains all devices one after the other; writes what they learnt to `room`, `all_w` and
    `all_c`. given: the common view; second: the own view, which has all rows that the common has.
    """
    table = room.table
    mine = room.mine
    row = room.row
    common = room.common
    sampled = room.sampled
    w = room.w
    factors = given.q.shape[1]
    for d in range(len(all_c)):
        avoid_from = data.avoid_ptr[d]
        fill_gaps(data.avoid, avoid_from, data.avoid_ptr[d + 1] - avoid_from, room.gaps)
        for f in range(0, factors, LANES):
            store(w, f, load(all_w, d * factors + f, factors - f))
        samples = _touch(second, data, d, rates.steps.negatives, room)
        _copy_rows(given, d, room, table)
        _copy_rows(second, d, room, mine)
        _forget(d, room)
        for s in range(samples):
            # Rows of this training leave the device; rows of before stay as they are.
            sampled[room.ptr[d] + room.sample[s]] = True
        length = data.ptr[d + 1] - data.ptr[d]
        all_c[d] = _tune_views(rates, samples, length, all_c[d], data.keys[d], room)
        for f in range(factors):
            all_w[d, f] = w[0, f]
        _keep(mine, d, room, row)
        _keep(table, d, room, common)
