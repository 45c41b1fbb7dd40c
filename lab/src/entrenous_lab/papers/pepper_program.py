"""PEPPER's experiments as the authors' program runs them: github.com/YacineBelal/PEPPER, written
anew from reading its state "Finished Ubicomp Experiments" and those around it.

The package's `pepper-gmf` is the paper's text. The program differs from it in ten points, which
this file has and `pepper-gmf` has not: every node draws a first model of its own; a push carries
all weights, with the sender's copy of every user's vector, and all of them are merged; the output
layer is trained; Adam has two moments for each number, which stay on the node; two local epochs;
of a view of three, one peer is the best heard from; performance may be HR x NDCG; nodes ignore
what they receive after 800 trainings; in the last round each node takes up the best model that it
had by its weighting set; and the round that is reported is the best one by NDCG@20 on the *test*
rows. The last point makes its figures too good, for all systems alike.

Everything is one process with one order of events. The program's network has no delay and its
clock no period, so that its simulator handles events in the order in which they were made: in each
round every node in turn first has its last push delivered, then is evaluated and pushes again.
"""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np
from numba import njit

from entrenous.core.lanes.memory import starts_of
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
ALPHA = 0.4
# Rounds between two draws of a view.
REDRAW = 10
NEGATIVES = 4
LOCAL_EPOCHS = 2
# Trainings after which a node ignores what it receives.
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
class Learners(NamedTuple):
    """The models of n nodes, and the state of Adam on each."""

    model: Float32Array
    """Vectors of all users, of all items, output weights, output bias, float32 [n, width]."""
    moments: Float32Array
    """Both moments of each number, float32 [n, 2, width]."""
    steps: Int64Array
    """Steps taken, int64 [n]."""
    gradient: Float32Array
    """Room for one gradient, float32 [width]; zeros between two steps."""


@final
class Peers(NamedTuple):
    """What n nodes know of themselves and of each other."""

    age: Int64Array
    """Ages of the models, int64 [n]."""
    updates: Int64Array
    """Trainings, int64 [n]."""
    performance: Float64Array
    """HR@20 and HR@20 x NDCG@20 of a node's model on its weighting set, float64 [n, 2]."""
    heard: Float64Array
    """How well the last model of each sender did since the last view, -1 for a node not heard from,
    float64 [n, n]."""
    best_model: Float32Array
    """The last of each node's models with its highest HR@20 on its weighting set, float32 [n,
    width]."""
    best_hits: Float64Array
    """That HR@20, float64 [n]."""


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
    """Every node in the last round, before it takes up its best model."""
    restored: Float64Array
    """Every node in the last round with its best model by HR@20 on its weighting set: the last
    round that the program evaluates."""
    tuned: Float64Array
    """Every node after decentralised Reptile's meta epochs, which begin at its restored model and
    are the end of what the program reports of Reptile; zeros without them."""
    node_hits: Float32Array
    """HR@20 of every node in each round, on all test rows, float32 [rounds, nodes]."""


@final
class Gossip(NamedTuple):
    """How the nodes gossip."""

    weighing: int
    """How a received model is weighed; one of ROWS to HALF."""
    rounds: int
    """The number of rounds."""
    reptile: bool = False
    """True if the meta epochs of decentralised Reptile follow the gossip."""
    view_size: int = VIEW
    """The number of peers that a node pushes to."""
    alpha: float = ALPHA
    """The paper's alpha: int(view_size x (1 - alpha)) peers of a view are the best heard from."""


def program_rows(part: CellPart, published: Divided | None) -> ProgramRows:
    """Returns the rows of a split with weighting sets as the authors' program reads them.

    part: the test part of the split, without test rows that are also training rows. published: the
    authors' files, with them; None for another split.
    """
    assert part.weighting is not None
    rows = part.rows
    weighting = _lists(part.weighting)
    test = _lists(part.held) if published is None else _published(part, published)
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


def _lists(held: Held) -> Lists:
    assert held.candidates is not None
    rows = held.rows
    none = np.zeros(len(rows), np.bool_)
    return Lists(rows.ptr.astype(np.int64), rows.item, held.candidates, none)


def _published(part: CellPart, published: Divided) -> Lists:
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


def run_program(rows: ProgramRows, gossip: Gossip, seed: int) -> ProgramCurve:
    """Returns what one run measures. The same seed gives the same figures."""
    # Random peer sampling hears of nobody.
    best_peers = int(gossip.view_size * (1 - gossip.alpha)) if gossip.weighing >= HIT_RATIO else 0
    return ProgramCurve(*_run(rows, gossip, best_peers, seed))


@njit(cache=True, nogil=True)
def _run(
    rows: ProgramRows, gossip: Gossip, best_peers: int, seed: int
) -> tuple[Array, Array, Array, Array, Array, Array]:
    np.random.seed(seed)
    nodes = len(rows.ptr) - 1
    width = (nodes + rows.items + 1) * FACTORS + 1
    model = np.empty((nodes, width), np.float32)
    for node in range(nodes):
        _init_model(model[node], nodes + rows.items)
    learners = Learners(
        model,
        np.zeros((nodes, 2, width), np.float32),
        np.zeros(nodes, np.int64),
        np.zeros(width, np.float32),
    )
    state = Peers(
        np.ones(nodes, np.int64),
        np.zeros(nodes, np.int64),
        np.zeros((nodes, 2)),
        np.full((nodes, nodes), -1.0),
        model.copy(),
        np.full(nodes, -1.0),
    )
    pushed = np.empty_like(model)
    pushed_age = np.empty(nodes, np.int64)
    view = np.empty((nodes, gossip.view_size), np.int64)
    pushed_to = np.empty_like(view)
    by_round = np.empty((gossip.rounds, FIGURES))
    node_hits = np.empty((gossip.rounds, nodes), np.float32)
    best = np.zeros((nodes, FIGURES))
    now = np.zeros((nodes, FIGURES))
    last = np.zeros((nodes, FIGURES))
    best_ndcg = np.full(2, -1.0)
    for node in range(nodes):
        _train(rows, learners, state, node, model[node], 0.0)
        _draw_view(view[node], state.heard[node], node, nodes, 0)
    for turn in range(gossip.rounds):
        for node in range(nodes):
            if turn > 0:
                for peer in pushed_to[node]:
                    _receive(
                        rows,
                        learners,
                        state,
                        peer,
                        node,
                        pushed[node],
                        pushed_age[node],
                        gossip.weighing,
                    )
            if turn == gossip.rounds - 1:
                _measure(rows, rows.test, model[node], node, last[node])
                model[node] = state.best_model[node]
            _measure(rows, rows.test, model[node], node, now[node])
            node_hits[turn, node] = now[node, 8]
            pushed[node] = model[node]
            pushed_age[node] = state.age[node]
            pushed_to[node] = np.random.permutation(view[node])
            if turn % REDRAW == 0:
                _draw_view(view[node], state.heard[node], node, nodes, best_peers)
        for metric in range(FIGURES):
            by_round[turn, metric] = now[:, metric].mean()
        # Without and with the test rows that are training rows: each has a best round of its own.
        for half in range(2):
            ndcg = by_round[turn, 6 * half + 5]
            if ndcg > best_ndcg[half]:
                best_ndcg[half] = ndcg
                best[:, 6 * half : 6 * half + 6] = now[:, 6 * half : 6 * half + 6]
    tuned = np.zeros((nodes, FIGURES))
    if gossip.reptile:
        for node in range(nodes):
            _meta_epochs(rows, learners, node)
            _measure(rows, rows.test, model[node], node, tuned[node])
    # The last round measured the restored models.
    return by_round, best, last, now, tuned, node_hits


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
    view: Int64Array, heard: Float64Array, node: int, nodes: int, best_peers: int
) -> None:
    """Draws a view: the best peers heard from, as many as there are, and others at random. Forgets
    what was heard, as the program does at each new view.
    """
    filled = 0
    while filled < best_peers and heard.max() >= 0:
        view[filled] = np.argmax(heard)
        heard[view[filled]] = -1.0
        filled += 1
    heard[:] = -1.0
    while filled < len(view):
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
    learners: Learners,
    state: Peers,
    peer: int,
    sender: int,
    theirs: Float32Array,
    their_age: int,
    weighing: int,
) -> None:
    """Merges a received model into the peer's own and trains, unless both models fail on the
    peer's weighting set, or the peer has trained enough.
    """
    if state.updates[peer] >= MOST_UPDATES:
        return
    share = 0.5
    if weighing == ROWS:
        own_rows = rows.ptr[peer + 1] - rows.ptr[peer]
        their_rows = rows.ptr[sender + 1] - rows.ptr[sender]
        share = their_rows / (own_rows + their_rows)
    elif weighing == AGE:
        share = their_age / (state.age[peer] + their_age)
    elif rows.weighting.ptr[peer + 1] - rows.weighting.ptr[peer] >= 2:
        measured = _performances(rows, theirs, peer)
        at = 1 if weighing == HIT_RATIO_NDCG else 0
        own = state.performance[peer, at]
        other = measured[at]
        state.heard[peer, sender] = other
        if weighing != HALF and own + other == 0:
            return
        if weighing != HALF:
            share = other / (own + other)
    if weighing == AGE:
        state.age[peer] = max(state.age[peer], their_age)
    _train(rows, learners, state, peer, theirs, share)


@njit(cache=True, nogil=True)
def _performances(rows: ProgramRows, model: Float32Array, node: int) -> tuple[float, float]:
    """Returns HR@20 and HR@20 x NDCG@20 on the node's weighting set."""
    measured = np.zeros(FIGURES)
    _measure(rows, rows.weighting, model, node, measured)
    return measured[2], measured[2] * measured[5]


@njit(cache=True, nogil=True)
def _merge(mine: Float32Array, theirs: Float32Array, share: float) -> None:
    """Takes this share of a received model."""
    own_share = np.float32(1.0 - share)
    their_share = np.float32(share)
    for place in range(len(mine)):
        mine[place] = own_share * mine[place] + their_share * theirs[place]


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
    learners: Learners,
    state: Peers,
    node: int,
    theirs: Float32Array,
    share: float,
) -> None:
    """Merges a received model and trains; keeps the model if it is the node's best."""
    _merge_and_train(rows, learners, node, theirs, share)
    state.age[node] += 1
    state.updates[node] += 1
    performance = _performances(rows, learners.model[node], node)
    state.performance[node, 0] = performance[0]
    state.performance[node, 1] = performance[1]
    if performance[0] >= state.best_hits[node]:
        state.best_hits[node] = performance[0]
        state.best_model[node] = learners.model[node]


@njit(cache=True, nogil=True)
def _merge_and_train(
    rows: ProgramRows, learners: Learners, node: int, theirs: Float32Array, share: float
) -> None:
    """Takes a share of a received model and trains LOCAL_EPOCHS full batches. The negatives are
    drawn once for each received model.

    It is `_merge` and then LOCAL_EPOCHS of `_epoch`, to the bit. Adam moves every item in every
    step, and a pass over a model of 300,000 numbers waits for memory: so the items outside the
    batch, which have no gradient, are merged and moved through all steps in one pass.
    """
    mine = rows.item[rows.ptr[node] : rows.ptr[node + 1]]
    batch = _batch(rows.items, mine)
    in_batch = np.unique(batch)
    model = learners.model[node]
    moments = learners.moments[node]
    items_at = (len(rows.ptr) - 1) * FACTORS
    output_at = len(model) - 1 - FACTORS
    _merge(model[:items_at], theirs[:items_at], share)
    _merge(model[output_at:], theirs[output_at:], share)
    for item in in_batch:
        at = items_at + item * FACTORS
        _merge(model[at : at + FACTORS], theirs[at : at + FACTORS], share)
    rates = np.empty(LOCAL_EPOCHS, np.float32)
    for epoch in range(LOCAL_EPOCHS):
        _add_gradients(rows, model, learners.gradient, node, batch, len(mine))
        rates[epoch] = _next_rate(learners, node)
        user_at = node * FACTORS
        _adam(model, moments, learners.gradient, user_at, user_at + FACTORS, rates[epoch])
        _adam(model, moments, learners.gradient, output_at, len(model), rates[epoch])
        for item in in_batch:
            at = items_at + item * FACTORS
            _adam(model, moments, learners.gradient, at, at + FACTORS, rates[epoch])
    first = items_at
    for item in in_batch:
        last = items_at + item * FACTORS
        _merge_and_decay(model, theirs, share, moments, first, last, rates)
        first = last + FACTORS
    _merge_and_decay(model, theirs, share, moments, first, output_at, rates)


@njit(cache=True, nogil=True, error_model="numpy")
def _merge_and_decay(
    model: Float32Array,
    theirs: Float32Array,
    share: float,
    moments: Float32Array,
    first: int,
    last: int,
    rates: Float32Array,
) -> None:
    """Merges numbers first to last - 1 and takes the steps of Adam of these rates without a
    gradient.
    """
    mine = model[first:last]
    received = theirs[first:last]
    means = moments[0, first:last]
    squares = moments[1, first:last]
    own_share = np.float32(1.0 - share)
    their_share = np.float32(share)
    keep_1 = np.float32(BETA_1)
    keep_2 = np.float32(BETA_2)
    small = np.float32(EPSILON)
    # LOCAL_EPOCHS steps, written out: a loop inside would not become vector instructions.
    rate_1 = rates[0]
    rate_2 = rates[1]
    for place in range(last - first):
        value = own_share * mine[place] + their_share * received[place]
        mean = keep_1 * means[place]
        square = keep_2 * squares[place]
        value -= rate_1 * mean / (np.sqrt(square) + small)
        mean = keep_1 * mean
        square = keep_2 * square
        value -= rate_2 * mean / (np.sqrt(square) + small)
        mine[place] = value
        means[place] = mean
        squares[place] = square


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
    rows: ProgramRows, learners: Learners, node: int, batch: Int64Array, positives: int
) -> None:
    """Takes one step of Adam down the mean cross entropy of a batch."""
    model = learners.model[node]
    moments = learners.moments[node]
    gradient = learners.gradient
    user_at = node * FACTORS
    items_at = (len(rows.ptr) - 1) * FACTORS
    _add_gradients(rows, model, gradient, node, batch, positives)
    rate = _next_rate(learners, node)
    # Vectors of other users have no gradient and no moments.
    _adam(model, moments, gradient, user_at, user_at + FACTORS, rate)
    _adam(model, moments, gradient, items_at, len(model), rate)


@njit(cache=True, nogil=True)
def _next_rate(learners: Learners, node: int) -> np.float32:
    """Returns the rate of the node's next step of Adam, and counts the step."""
    learners.steps[node] += 1
    t = learners.steps[node]
    return np.float32(LEARNING_RATE * np.sqrt(1.0 - BETA_2**t) / (1.0 - BETA_1**t))


@njit(cache=True, nogil=True)
def _add_gradients(
    rows: ProgramRows,
    model: Float32Array,
    gradient: Float32Array,
    node: int,
    batch: Int64Array,
    positives: int,
) -> None:
    """Adds the gradient of the mean cross entropy of a batch."""
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


@njit(cache=True, nogil=True, error_model="numpy")
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
def _meta_epochs(rows: ProgramRows, learners: Learners, node: int) -> None:
    """Trains a node alone by Reptile: w += step (w' - w), where w' is one epoch on from w."""
    model = learners.model[node]
    mine = rows.item[rows.ptr[node] : rows.ptr[node + 1]]
    for epoch in range(META_EPOCHS):
        before = model.copy()
        batch = _batch(rows.items, mine)
        _epoch(rows, learners, node, batch, len(mine))
        step = np.float32(META_STEP * (1.0 - epoch / META_EPOCHS))
        for place in range(len(model)):
            model[place] = before[place] + step * (model[place] - before[place])
