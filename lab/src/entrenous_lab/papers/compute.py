"""One cell from start to end: train, and evaluate on the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from threading import Event
from typing import Any, NamedTuple, TypeVar

import numpy as np

from entrenous.core.contract.declared import bound, is_gossip, predicts_ratings, rounds_an_epoch
from entrenous.core.contract.protocols import Progress, Scorer
from entrenous.core.errors import NonFiniteError
from entrenous.core.types import BoolArray, Float32Array, Int64Array
from entrenous.data.interactions import Interactions
from entrenous.data.split.types import Held
from entrenous.evaluation.metrics.defined import fairness
from entrenous.evaluation.protocol import Evaluation, evaluate
from entrenous.evaluation.ratings import rate
from entrenous.federation.gossip import Gossip
from entrenous.federation.swarm import Swarm
from entrenous.runs.plan import network_of
from entrenous.runs.recommenders import Federation, Fitted, Standing, federated, fitted
from entrenous.runs.train import Setup, advance, federation_of, fit_central

from .cell import Cell, CellPart, CurvePoint, N, Outcome
from .error_groups import errors_by_group

T = TypeVar("T")
Nodes = dict[str, list[int]]  # as in Look
KEPT = (f"precision@{N}", f"recall@{N}", f"f1@{N}")  # per-user values of test cells
KEPT_SAMPLED = (
    f"hr@{N}",
    f"ndcg@{N}",
)  # of a sampled ranking, where a user has one held-out item: the others say no more
BLOCK_BYTES = (
    128 << 20
    # of devices that each send a row for every item: what a block shares (FCF's Gram matrix) is
    # made once
)


class ComputeStopped(Exception):
    """Another cell failed, or the user interrupted."""


class Spent(NamedTuple):
    """Seconds of training alone: wall, and of the processor."""

    wall: float = 0.0
    cpu: float = 0.0


def compute(
    cell: Cell, part: CellPart, tick: Callable[[Cell, int], None], stop: Event, warm: bool = False
) -> Outcome:
    """Trains and evaluates a cell. A training that diverges ends there and says so. tick: told of
    looks as they are done.

    warm: a round is trained and thrown away first, so that no time goes into compiling or loading
    what is compiled.
    """
    began, looks, failed = time.perf_counter(), list[CurvePoint](), ""
    try:
        for epochs, model, spent, nodes in _trained(cell, part, stop, warm):
            looks.append(_look(cell, part, epochs, model, spent)._replace(nodes=nodes))
            tick(cell, 1)
    except NonFiniteError as diverged:
        failed = str(diverged)
        tick(cell, len(cell.looks) - len(looks))
    return Outcome(looks, failed, round(time.perf_counter() - began, 3))


def _look(cell: Cell, part: CellPart, epochs: int, model: Fitted, spent: Spent) -> CurvePoint:
    if predicts_ratings(model.recommender.algorithm) and part.held.candidates is None:
        return _rating_look(cell, part, epochs, model, spent)
    found, *further = [
        _evaluated(cell, part, held, model) for held in (part.held, *part.also.values())
    ]
    usual = (
        ()
        if cell.part == "validation"
        else KEPT
        if found.candidates_ranking is None
        else KEPT_SAMPLED
    )
    kept = [name for name in dict.fromkeys((*usual, *cell.kept)) if name in found.per_user]
    fair = (
        {}
        if found.candidates_ranking is None
        else fairness(found.per_user, found.candidates_ranking, N).named()
    )
    return CurvePoint(
        epochs=epochs,
        rounds=model.rounds,
        metrics=found.metrics,
        by_category=found.by_category,
        ledger=model.ledger._asdict(),
        per_user={name: found.per_user[name].tolist() for name in kept},
        seconds=round(spent.wall, 4),
        cpu_seconds=round(spent.cpu, 4),
        full=found.full_ranking or {},
        fairness=fair,
        also={name: other.metrics for name, other in zip(part.also, further, strict=True)},
    )


def _rating_look(
    cell: Cell, part: CellPart, epochs: int, model: Fitted, spent: Spent
) -> CurvePoint:
    """A look at predicted ratings, without any ranking. by_category: the errors of groups of users
    and items.
    """
    held, tested = part.held.rows, cell.part == "test"
    found = rate(model.recommender, held, label=cell.algorithm)
    return CurvePoint(
        epochs=epochs,
        rounds=model.rounds,
        metrics=found.metrics,
        by_category=errors_by_group(part.rows, held, found.predicted) if tested else {},
        ledger=model.ledger._asdict(),
        per_user={name: values.tolist() for name, values in found.per_user.items()}
        if tested
        else {},
        seconds=round(spent.wall, 4),
        cpu_seconds=round(spent.cpu, 4),
    )


class WholeCatalogue(NamedTuple):
    """A recommender for all items by one that knows some. known: bool [items]; the others have the
    score 0, and do not compete.
    """

    recommender: Scorer
    known: BoolArray

    def scores(self, users: Int64Array) -> Float32Array:
        """Scores of every item for some users, float32 [len(users), items]."""
        out = np.zeros((len(users), len(self.known)), np.float32)
        out[:, self.known] = self.recommender.scores(users)
        return out


def _evaluated(cell: Cell, part: CellPart, held: Held, model: Fitted) -> Evaluation:
    recommender: Scorer = model.recommender
    if part.trained_items:
        recommender = WholeCatalogue(recommender, part.rows.popularity > 0)
    label = cell.algorithm
    return evaluate(
        recommender,
        part.rows,
        held,
        label=label,
        n=cell.lengths,
        seed=cell.seed,
        also_mask=part.masked,
    )


def _trained(
    cell: Cell, part: CellPart, stop: Event, warm: bool
) -> Iterator[tuple[int, Fitted, Spent, Nodes]]:
    """(epochs, model, time, nodes) for each look: one training, seen on its way."""
    rows, algorithm, check = part.trained, cell.made(part.trained), _checking(stop)
    if not federated(algorithm):
        model, spent = _timed(lambda: fit_central(algorithm, rows, cell.seed, check), Spent())
        yield 0, model, spent, {}
        return
    federation = _federation(cell, part, algorithm)
    rpe = rounds_an_epoch(federation.algorithm, rows.catalogue)
    if warm:
        advance(federation, federation.start(), 1)
    start: Callable[[], Standing] = federation.start
    training, spent = _timed(start, Spent())
    for epochs in cell.looks:
        training, spent = _timed(
            partial(advance, federation, training, epochs * rpe, progress=check), spent
        )
        yield (
            epochs,
            fitted(federation, training),
            spent,
            _nodes(federation, training) if cell.kept else {},
        )


def _nodes(federation: Federation, training: Standing) -> Nodes:
    """What happened to each node that gossips."""
    if not isinstance(federation, Gossip):
        return {}
    assert isinstance(training, Swarm)
    counts = {
        name: getattr(training.counts, name).tolist() for name in ("received", "refused", "pushed")
    }
    return {**counts, "bad": federation._draws.bad.astype(int).tolist()}


def _federation(cell: Cell, part: CellPart, algorithm: Any) -> Federation:
    network, block = network_of(cell.plan), _block(algorithm, part.trained)
    setup = Setup(seed=cell.seed, block=block, network=network, weighting=part.weighting)
    return federation_of(algorithm, part.trained, setup)


def _timed(call: Callable[[], T], before: Spent) -> tuple[T, Spent]:
    """What a call returns, and its seconds on this thread with those of `before`."""
    wall, cpu = time.perf_counter(), time.thread_time()
    found = call()
    return found, Spent(
        before.wall + time.perf_counter() - wall, before.cpu + time.thread_time() - cpu
    )


def _checking(stop: Event) -> Progress:
    """A Progress that ends the training when `stop` is set."""

    def check(done: int, total: int, what: str) -> None:
        if stop.is_set():
            raise ComputeStopped

    return check


def _block(algorithm: Any, rows: Interactions) -> int:
    """How many devices run together; it changes no result. 0 = as many as Rounds likes."""
    if is_gossip(algorithm):
        return 0
    size = bound(algorithm.configured(rows.catalogue), rows.catalogue).block_bytes
    return max(1, BLOCK_BYTES // size) if size > 4 * len(rows.items) else 0
