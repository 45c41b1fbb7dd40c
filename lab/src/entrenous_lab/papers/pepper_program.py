"""PEPPER's experiments as the authors' program runs them: github.com/YacineBelal/PEPPER, written
anew from reading its state "Finished Ubicomp Experiments".

The package's `pepper-gmf` is the paper's text. The program differs from it in nine points, which
this file has and `pepper-gmf` has not: every node draws a first model of its own; a push carries
all weights, with the sender's copy of every user's vector, and all of them are merged; the output
layer is trained; Adam has two moments for each number, which stay on the node; two local epochs;
of a view of three, one peer is the best heard from; performance may be HR x NDCG; nodes stop
training after 800 received models; and the round that is reported is the best one by NDCG@20 on
the *test* rows. The last point makes its figures too good, for all systems alike.

Everything is one process with one order of events, as in the program, whose network has no delay.
"""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np
from numba import njit

from entrenous.core.rows import starts_of
from entrenous.core.types import (
    Array,
    BoolArray,
    Float32Array,
    Float64Array,
    Int32Array,
    Int64Array,
)
from entrenous.data.divided import Divided
from entrenous.data.interactions import find_rows, pair_numbers
from entrenous.data.split.types import Held

from .cell import CellPart

FACTORS = 8
INIT_STD = 0.01
VIEW = 3
# Rounds between two draws of a view.
REDRAW = 10
NEGATIVES = 4
LOCAL_EPOCHS = 2
# Received models after which a node trains no longer.
MOST_UPDATES = 800
# Adam, as Keras has it.
LEARNING_RATE = 0.01
BETA_1 = 0.9
BETA_2 = 0.999
EPSILON = 1e-8
# The lengths of lists that are measured; the last one judges models and chooses the round.
LENGTHS = (5, 10, 20)
# See `ProgramCurve`.
FIGURES = 12
# Decentralised Reptile's epochs after the gossip, and its first step size.
META_EPOCHS = 120
META_STEP = 0.1

# How a received model is weighed.
ROWS, AGE, HIT_RATIO, HIT_RATIO_NDCG, HALF = range(5)


@final
class Lists(NamedTuple):
    """Held-out rows of n nodes with the items that each row is ranked among."""

    ptr: Int64Array
    """Where the rows of each node begin, int64 [n + 1]."""
    item: Int32Array
    """The held-out item of each row, int32 [rows]."""
    candidates: Int32Array
    """Its negatives, int32 [rows, k], -1 where there are fewer."""
    repeats: BoolArray
    """True for a held-out row that is also a training row of its node, bool [rows]."""


@final
class ProgramRows(NamedTuple):
    """The rows of n nodes, each of one user."""

    items: int
    """The number of items."""
    ptr: Int64Array
    """Where the training rows of each node begin, int64 [n + 1]."""
    item: Int32Array
    """The item of each training row, int32 [rows], ascending within a node."""
    weighting: Lists
    """The weighting sets, by which nodes judge models."""
    test: Lists
    """The test rows."""


@final
class ProgramCurve(NamedTuple):
    """What one run of the program measures on test rows.

    There are twelve figures: HR@5, 10, 20 and NDCG@5, 10, 20 without the test rows that are also
    training rows, and the same six with them. The evaluations are float64 [nodes, 12].
    """

    by_round: Float64Array
    """The means over nodes after each round, float64 [rounds, 12]."""
    best: Float64Array
    """Every node in the best round by NDCG@20 on test rows: what the program reports. The first six
    figures are of the best round by the third last of them, the others by their own."""
    last: Float64Array
    """Every node after the last round."""
    restored: Float64Array
    """The same with each node's best model by its weighting set, as the program restores it."""


def program_rows(part: CellPart, published: Divided) -> ProgramRows:
    """Returns the rows of a split of PEPPER's authors as their program reads them.

    part: the test part of the split, without test rows that are also training rows. published: the
    authors' files, with them.
    """
    assert part.weighting is not None
    rows = part.rows
    weighting = _weighting(part.weighting)
    test = _test(part, published)
    # The program knows the items of the authors' files, which are fewer than those of the data.
    tables = (rows.item, weighting.item, weighting.candidates, test.item, test.candidates)
    used = np.unique(np.concatenate([table.ravel() for table in tables]))
    used = used[used >= 0]
    return ProgramRows(
        len(used),
        rows.ptr.astype(np.int64),
        np.searchsorted(used, rows.item).astype(np.int32),
        _renumbered(weighting, used),
        _renumbered(test, used),
    )


def _renumbered(lists: Lists, used: Int32Array) -> Lists:
    """Returns the lists with items numbered by their place in `used`, ascending."""
    place = np.searchsorted(used, lists.candidates)
    candidates = np.where(lists.candidates < 0, -1, place).astype(np.int32)
    item = np.searchsorted(used, lists.item).astype(np.int32)
    return lists._replace(item=item, candidates=candidates)


def _weighting(held: Held) -> Lists:
    assert held.candidates is not None
    rows = held.rows
    none = np.zeros(len(rows), np.bool_)
    return Lists(rows.ptr.astype(np.int64), rows.item, held.candidates, none)


def _test(part: CellPart, published: Divided) -> Lists:
    """Returns the published test rows of the users of a split, with their negatives."""
    lists = published.against["test"]
    user = part.rows.users.indices(lists.user.tolist())
    item = part.rows.items.indices(lists.item.tolist())
    # One list for each pair: of several, the first counts.
    pair = pair_numbers(user, item, len(part.rows.items))
    _, first = np.unique(pair, return_index=True)
    first = first[user[first] >= 0]
    table = [
        _negatives(part.rows.items.indices(texts), item[row])
        for row, texts in zip(first, lists.candidates[first].tolist(), strict=True)
    ]
    repeats = find_rows(part.rows, user[first], item[first]) >= 0
    counts = np.bincount(user[first], minlength=len(part.rows.users))
    return Lists(starts_of(counts), item[first], np.stack(table), repeats)


def _negatives(items: Int32Array, held_out: int) -> Int32Array:
    """Returns a list of negatives with -1 for the held-out item itself and for repeats: the program
    ranks a dictionary of scores.
    """
    _, first = np.unique(items, return_index=True)
    negatives = np.full(len(items), -1, np.int32)
    negatives[first] = items[first]
    negatives[items == held_out] = -1
    return negatives


def run_program(
    rows: ProgramRows, weighing: int, rounds: int, seed: int, *, reptile: bool = False
) -> ProgramCurve:
    """Returns what one run measures. weighing: one of ROWS to HALF. reptile: adds the meta epochs
    of decentralised Reptile at the end of the gossip. The same seed gives the same figures.
    """
    return ProgramCurve(*_run(rows, weighing, rounds, seed, reptile))


@njit(cache=True, nogil=True)
def _run(
    rows: ProgramRows, weighing: int, rounds: int, seed: int, reptile: bool
) -> tuple[Array, Array, Array, Array]:
    np.random.seed(seed)
    nodes = len(rows.ptr) - 1
    # One row of numbers a node: vectors of all users, of all items, output weights, output bias.
    width = (nodes + rows.items + 1) * FACTORS + 1
    model = np.empty((nodes, width), np.float32)
    for node in range(nodes):
        _init_model(model[node], nodes + rows.items)
    moments = np.zeros((nodes, 2, width), np.float32)
    gradient = np.zeros(width, np.float32)
    steps = np.zeros(nodes, np.int64)
    updates = np.zeros(nodes, np.int64)
    age = np.zeros(nodes, np.int64)
    # How well the model of each sender did since the last view; -1 for one not heard from.
    heard = np.full((nodes, nodes), -1.0)
    view = np.empty((nodes, VIEW), np.int64)
    best_model = model.copy()
    best_performance = np.full(nodes, -1.0)
    by_round = np.empty((rounds, FIGURES))
    best = np.zeros((nodes, FIGURES))
    now = np.zeros((nodes, FIGURES))
    best_ndcg = np.full(2, -1.0)
    personalised = weighing >= HIT_RATIO
    for node in range(nodes):
        _train(rows, model[node], moments[node], gradient, node, steps)
        age[node] += 1
    for turn in range(rounds):
        if turn % REDRAW == 0:
            for node in range(nodes):
                _draw_view(view[node], heard[node], node, nodes, personalised)
        # All push what they have at the beginning of the round, then all receive.
        pushed = model.copy()
        pushed_age = age.copy()
        for node in range(nodes):
            for peer in np.random.permutation(view[node]):
                trains = _receive(
                    rows,
                    model[peer],
                    pushed[node],
                    age,
                    pushed_age[node],
                    peer,
                    node,
                    weighing,
                    heard,
                )
                if trains and updates[peer] < MOST_UPDATES:
                    _train(rows, model[peer], moments[peer], gradient, peer, steps)
                    age[peer] += 1
                    updates[peer] += 1
        for node in range(nodes):
            performance = _performance(rows, rows.weighting, model[node], node, weighing)
            if performance > best_performance[node]:
                best_performance[node] = performance
                best_model[node] = model[node]
            _measure(rows, rows.test, model[node], node, now[node])
        for metric in range(FIGURES):
            by_round[turn, metric] = now[:, metric].mean()
        # Without and with the test rows that are training rows: each has a best round of its own.
        for half in range(2):
            ndcg = by_round[turn, 6 * half + 5]
            if ndcg > best_ndcg[half]:
                best_ndcg[half] = ndcg
                best[:, 6 * half : 6 * half + 6] = now[:, 6 * half : 6 * half + 6]
    if reptile:
        for node in range(nodes):
            _meta_epochs(rows, model[node], moments[node], gradient, node, steps)
            _measure(rows, rows.test, model[node], node, now[node])
        # The program reports the end of these epochs.
        best[:] = now
        best_model[:] = model
    restored = np.zeros((nodes, FIGURES))
    for node in range(nodes):
        _measure(rows, rows.test, best_model[node], node, restored[node])
    return by_round, best, now, restored


@njit(cache=True, nogil=True)
def _init_model(model: Float32Array, vectors: int) -> None:
    """Draws a first model: vectors from N(0, INIT_STD^2), output weights as LeCun's uniform."""
    for place in range(vectors * FACTORS):
        model[place] = np.random.normal(0.0, INIT_STD)
    limit = np.sqrt(3.0 / FACTORS)
    for place in range(vectors * FACTORS, (vectors + 1) * FACTORS):
        model[place] = np.random.uniform(-limit, limit)
    model[len(model) - 1] = 0.0


@njit(cache=True, nogil=True)
def _draw_view(
    view: Int64Array, heard: Float64Array, node: int, nodes: int, personalised: bool
) -> None:
    """Draws a view: under PEPPER int(3 (1 - 0.4)) = 1 best peer heard from, the rest at random."""
    filled = 0
    if personalised:
        best = int(np.argmax(heard))
        if heard[best] >= 0:
            view[0] = best
            filled = 1
        # As run: what was heard is forgotten at each new view.
        heard[:] = -1.0
    while filled < VIEW:
        peer = np.random.randint(nodes)
        new = peer != node
        for place in range(filled):
            new = new and view[place] != peer
        if new:
            view[filled] = peer
            filled += 1


@njit(cache=True, nogil=True)
def _receive(
    rows: ProgramRows,
    mine: Float32Array,
    theirs: Float32Array,
    age: Int64Array,
    their_age: int,
    peer: int,
    sender: int,
    weighing: int,
    heard: Float64Array,
) -> bool:
    """Merges a received model into the peer's own. Returns False if both fail: then the peer keeps
    its model and does not train.
    """
    share = 0.5
    fails = False
    if weighing == ROWS:
        own_rows = rows.ptr[peer + 1] - rows.ptr[peer]
        their_rows = rows.ptr[sender + 1] - rows.ptr[sender]
        share = their_rows / (own_rows + their_rows)
    elif weighing == AGE:
        share = their_age / (age[peer] + their_age)
    else:
        own = _performance(rows, rows.weighting, mine, peer, weighing)
        other = _performance(rows, rows.weighting, theirs, peer, weighing)
        heard[peer, sender] = other
        few = rows.weighting.ptr[peer + 1] - rows.weighting.ptr[peer] < 2
        if weighing != HALF and not few:
            fails = own + other == 0
            if not fails:
                share = other / (own + other)
    age[peer] = max(age[peer], their_age)
    if fails:
        return False
    own_share = np.float32(1.0 - share)
    their_share = np.float32(share)
    for place in range(len(mine)):
        mine[place] = own_share * mine[place] + their_share * theirs[place]
    return True


@njit(cache=True, nogil=True)
def _performance(
    rows: ProgramRows, lists: Lists, model: Float32Array, node: int, weighing: int
) -> float:
    """Returns HR@20, or HR@20 x NDCG@20, of the node's held-out rows."""
    measured = np.zeros(FIGURES)
    _measure(rows, lists, model, node, measured)
    if weighing == HIT_RATIO_NDCG:
        return measured[2] * measured[5]
    return measured[2]


@njit(cache=True, nogil=True)
def _measure(
    rows: ProgramRows, lists: Lists, model: Float32Array, node: int, measured: Float64Array
) -> None:
    """Writes the twelve figures of `ProgramCurve`, means over the node's rows, to `measured`."""
    measured[:] = 0.0
    first = lists.ptr[node]
    last = lists.ptr[node + 1]
    fresh = 0
    for row in range(first, last):
        score = _score(rows, model, node, lists.item[row])
        # A negative with the same score goes before.
        place = 0
        for negative in lists.candidates[row]:
            if negative >= 0 and _score(rows, model, node, negative) >= score:
                place += 1
        if not lists.repeats[row]:
            fresh += 1
            _add(measured[:6], place)
        _add(measured[6:], place)
    measured[:6] /= max(fresh, 1)
    measured[6:] /= max(last - first, 1)


@njit(cache=True, nogil=True)
def _add(measured: Float64Array, place: int) -> None:
    """Adds HR and NDCG of a held-out row at a place, counted from 0, to sums, float64 [6]."""
    for at in range(3):
        if place < LENGTHS[at]:
            measured[at] += 1.0
            measured[3 + at] += np.log(2.0) / np.log(place + 2.0)


@njit(cache=True, nogil=True)
def _score(rows: ProgramRows, model: Float32Array, node: int, item: int) -> float:
    """Returns the logit of an item for the node's user."""
    user_at = node * FACTORS
    item_at = (len(rows.ptr) - 1 + item) * FACTORS
    output_at = len(model) - 1 - FACTORS
    total = model[len(model) - 1]
    for k in range(FACTORS):
        total += model[output_at + k] * model[user_at + k] * model[item_at + k]
    return total


@njit(cache=True, nogil=True)
def _train(
    rows: ProgramRows,
    model: Float32Array,
    moments: Float32Array,
    gradient: Float32Array,
    node: int,
    steps: Int64Array,
) -> None:
    """Trains LOCAL_EPOCHS full batches. gradient: zeros, float32 [width], and zeros afterwards.

    The negatives are drawn once for each received model.
    """
    mine = rows.item[rows.ptr[node] : rows.ptr[node + 1]]
    batch = _batch(rows.items, mine)
    for _ in range(LOCAL_EPOCHS):
        _epoch(rows, model, moments, gradient, node, steps, batch, len(mine))


@njit(cache=True, nogil=True)
def _batch(items: int, mine: Int32Array) -> Int64Array:
    """Returns the positive items, then NEGATIVES for each, which the node has no training row of,
    int64 [(1 + NEGATIVES) positives].
    """
    batch = np.empty(len(mine) * (1 + NEGATIVES), np.int64)
    batch[: len(mine)] = mine
    for place in range(len(mine), len(batch)):
        item = np.random.randint(items)
        while _has(mine, item):
            item = np.random.randint(items)
        batch[place] = item
    return batch


@njit(cache=True, nogil=True)
def _has(ascending: Int32Array, item: int) -> bool:
    place = np.searchsorted(ascending, item)
    return bool(place < len(ascending) and ascending[place] == item)


@njit(cache=True, nogil=True)
def _epoch(
    rows: ProgramRows,
    model: Float32Array,
    moments: Float32Array,
    gradient: Float32Array,
    node: int,
    steps: Int64Array,
    batch: Int64Array,
    positives: int,
) -> None:
    """Takes one step of Adam down the mean cross entropy of a batch."""
    nodes = len(rows.ptr) - 1
    user_at = node * FACTORS
    output_at = len(model) - 1 - FACTORS
    for place in range(len(batch)):
        wanted = 1.0 if place < positives else 0.0
        logit = _score(rows, model, node, batch[place])
        error = np.float32((1.0 / (1.0 + np.exp(-logit)) - wanted) / len(batch))
        item_at = (nodes + batch[place]) * FACTORS
        for k in range(FACTORS):
            user = model[user_at + k]
            item = model[item_at + k]
            output = model[output_at + k]
            gradient[user_at + k] += error * output * item
            gradient[item_at + k] += error * output * user
            gradient[output_at + k] += error * user * item
        gradient[len(model) - 1] += error
    steps[node] += 1
    t = steps[node]
    rate = np.float32(LEARNING_RATE * np.sqrt(1.0 - BETA_2**t) / (1.0 - BETA_1**t))
    # Vectors of other users have no gradient and no moments.
    _adam(model, moments, gradient, user_at, user_at + FACTORS, rate)
    _adam(model, moments, gradient, nodes * FACTORS, len(model), rate)


@njit(cache=True, nogil=True)
def _adam(
    model: Float32Array,
    moments: Float32Array,
    gradient: Float32Array,
    first: int,
    last: int,
    rate: np.float32,
) -> None:
    """Moves numbers first to last - 1 by Adam, and sets their gradients to 0."""
    keep_1 = np.float32(BETA_1)
    keep_2 = np.float32(BETA_2)
    one = np.float32(1.0)
    small = np.float32(EPSILON)
    for place in range(first, last):
        slope = gradient[place]
        mean = keep_1 * moments[0, place] + (one - keep_1) * slope
        square = keep_2 * moments[1, place] + (one - keep_2) * slope * slope
        moments[0, place] = mean
        moments[1, place] = square
        model[place] -= rate * mean / (np.sqrt(square) + small)
        gradient[place] = 0.0


@njit(cache=True, nogil=True)
def _meta_epochs(
    rows: ProgramRows,
    model: Float32Array,
    moments: Float32Array,
    gradient: Float32Array,
    node: int,
    steps: Int64Array,
) -> None:
    """Trains a node alone by Reptile: w += step (w' - w), where w' is one epoch on from w."""
    mine = rows.item[rows.ptr[node] : rows.ptr[node + 1]]
    for epoch in range(META_EPOCHS):
        before = model.copy()
        batch = _batch(rows.items, mine)
        _epoch(rows, model, moments, gradient, node, steps, batch, len(mine))
        step = np.float32(META_STEP * (1.0 - epoch / META_EPOCHS))
        for place in range(len(model)):
            model[place] = before[place] + step * (model[place] - before[place])
