"""One cell from start to end: train, and evaluate on the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from threading import Event
from typing import Any

from ..core.errors import NonFiniteError
from ..core.protocols import Progress
from ..data.interactions import Interactions
from ..evaluate.protocol import evaluate
from ..federation.rounds import Rounds
from ..fit import Fitted, advance, federated, fit_central, fitted
from .cell import Cell, Look, Outcome, Part

N = 10  # the list length of all of the paper's tables
KEPT = (f"precision@{N}", f"recall@{N}", f"f1@{N}")  # per-user values of test cells
BLOCK_BYTES = 128 << 20  # of devices that each send a row for every item: what a block shares (FCF's Gram matrix) is made once


class Stopped(Exception):
    """Another cell failed, or the user interrupted."""


def compute(cell: Cell, part: Part, tick: Callable[[Cell, int], None], stop: Event) -> Outcome:
    """Trains and evaluates a cell. A training that diverges ends there and says so. tick: told of looks as they are done."""
    began, looks, failed = time.perf_counter(), list[Look](), ""
    try:
        for epochs, model in _trained(cell, part.rows, stop):
            looks.append(_look(cell, part, epochs, model))
            tick(cell, 1)
    except NonFiniteError as diverged:
        failed = str(diverged)
        tick(cell, len(cell.looks) - len(looks))
    return Outcome(looks, failed, round(time.perf_counter() - began, 3))


def _look(cell: Cell, part: Part, epochs: int, model: Fitted) -> Look:
    found = evaluate(model.recommender, part.rows, part.held, label=cell.algorithm, n=(N,), seed=cell.seed)
    per_user = {name: found.per_user[name].tolist() for name in KEPT} if cell.part == "test" else {}
    return Look(epochs, model.rounds, found.metrics, found.by_category, model.ledger._asdict(), per_user)


def _trained(cell: Cell, rows: Interactions, stop: Event) -> Iterator[tuple[int, Fitted]]:
    """(epochs, model) for each look: one training, seen on its way."""
    algorithm, check = cell.made(rows), _checking(stop)
    if not federated(algorithm):
        yield 0, fit_central(algorithm, rows, cell.seed, check)
        return
    federation = Rounds(algorithm, rows, seed=cell.seed, block=_block(algorithm, rows))
    rounds_an_epoch = getattr(federation.algorithm, "rounds_an_epoch", None)
    rpe = 1 if rounds_an_epoch is None else rounds_an_epoch(rows.catalogue)
    training = federation.start()
    for epochs in cell.looks:
        training = advance(federation, training, epochs * rpe, progress=check)
        yield epochs, fitted(federation, training)


def _checking(stop: Event) -> Progress:
    """A Progress that ends the training when `stop` is set."""

    def check(done: int, total: int, what: str) -> None:
        if stop.is_set():
            raise Stopped

    return check


def _block(algorithm: Any, rows: Interactions) -> int:
    """How many devices run together; it changes no result. 0 = as many as Rounds likes."""
    size = algorithm.configured(rows.catalogue).update_bytes(rows.catalogue)
    return max(1, BLOCK_BYTES // size) if size > 4 * len(rows.items) else 0
