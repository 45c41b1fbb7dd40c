"""How long an evaluation takes and how much memory it needs, at the shape of FPL's largest table:
17,473 users x 47,270 items.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from entrenous.core.contract.protocols import Progress
from entrenous.core.keys import folds, key, normals
from entrenous.core.types import Float32Array, Int64Array
from entrenous.data.interactions import Interactions, Vocabulary, build
from entrenous.data.split.types import Held
from entrenous.evaluation.protocol import evaluate

from .timing import cost, peak_rss_mb

LIMIT_MB = 2048


class Factors:
    """A recommender that scores by P Q^T with `factors` random numbers each, at the cost of a
    factor model.
    """

    def __init__(self, users: int, items: int, factors: int) -> None:
        self.p = normals(folds(key(0, "p"), np.arange(users)), factors, 0.1)
        self.q = normals(folds(key(0, "q"), np.arange(items)), factors, 0.1)

    def scores(self, users: Int64Array) -> Float32Array:
        return self.p[users] @ self.q.T


def spread(users: int, items: int, rows: int, first: int) -> Interactions:
    """A data set of `rows` rows, about rows / users for each user. Different values of `first` give
    disjoint rows.
    """
    user = np.arange(rows) * users // rows
    place = np.arange(rows) - np.searchsorted(user, user)
    item = (user * 7919 + 2 * place + first) % items
    return build(
        user,
        item,
        users=Vocabulary(size=users, kind="user"),
        items=Vocabulary(size=items, kind="item"),
        name="bench",
    )


def measure(
    *, users: int = 17_473, items: int = 47_270, rows: int = 600_000, factors: int = 20
) -> dict[str, Any]:
    """Evaluates random factors on 4/5 of the rows for training, 1/5 held out. Seconds are without
    compiling.
    """
    train, held = spread(users, items, rows * 4 // 5, 0), Held(spread(users, items, rows // 5, 1))
    model = Factors(users, items, factors)
    few = Held(held.rows.select(held.rows.user == 0))
    evaluate(model, train, few, label="compile")
    aucs: list[float] = []
    spent = cost(lambda: aucs.append(evaluate(model, train, held, label="bench").metrics["auc"]))
    return {
        "users": users,
        "items": items,
        "seconds": spent.wall,
        "cpu_seconds": spent.cpu,
        "nanoseconds_per_score": 1e9 * spent.cpu / (users * items),
        "peak_rss_mb": peak_rss_mb(),
        "ratio": peak_rss_mb() / LIMIT_MB,
        "auc": aucs[0],
        "against": (
            f"the limit of {LIMIT_MB} MB for a full ranking of this size; all scores at once would"
            f" be {users * items * 4 >> 20} MB"
        ),
    }


def bench(threads: int, progress: Progress) -> dict[str, Any]:
    """A full ranking at the size of FPL's Brazil, block by block (one thread)."""
    return measure()


BENCHES = {"evaluate": bench}
