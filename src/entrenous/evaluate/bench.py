"""How long an evaluation takes and how much memory it needs: `python -m entrenous.evaluate.bench` prints one JSON object.

The default shape is FPL's largest table, 17,473 users x 47,270 items: 3.3 GB of scores if they were all kept, and the whole must
stay under 2 GB.
"""

from __future__ import annotations

import json
import resource
import sys
import time

import numpy as np

from ..core.keys import folds, key, normals
from ..core.types import Float32Array, Int64Array
from ..core.vocabulary import Vocabulary
from ..data.interactions import Interactions, build
from ..split.types import Held
from .protocol import evaluate


class Factors:
    """Scores P Q^T of `factors` random numbers each: what a factor model costs."""

    def __init__(self, users: int, items: int, factors: int) -> None:
        self.p = normals(folds(key(0, "p"), np.arange(users)), factors, 0.1)
        self.q = normals(folds(key(0, "q"), np.arange(items)), factors, 0.1)

    def scores(self, users: Int64Array) -> Float32Array:
        return self.p[users] @ self.q.T


def spread(users: int, items: int, rows: int, first: int) -> Interactions:
    """`rows` rows, about rows / users for each user, that depend on `first`: different firsts give disjoint rows."""
    user = np.arange(rows) * users // rows
    place = np.arange(rows) - np.searchsorted(user, user)
    item = (user * 7919 + 2 * place + first) % items
    return build(user, item, users=Vocabulary(size=users, kind="user"), items=Vocabulary(size=items, kind="item"), name="bench")


def bench(*, users: int = 17_473, items: int = 47_270, rows: int = 600_000, factors: int = 20) -> dict[str, float]:
    """Evaluates random factors on 4/5 of the rows for training, 1/5 held out. Seconds are without compiling; the peak is the
    process's resident memory in MB, from its start."""
    train, held = spread(users, items, rows * 4 // 5, 0), Held(spread(users, items, rows // 5, 1))
    model = Factors(users, items, factors)
    few = Held(held.rows.select(held.rows.user == 0))
    evaluate(model, train, few, label="compile")
    start, cpu = time.perf_counter(), time.process_time()
    found = evaluate(model, train, held, label="bench")
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)
    return {
        "users": len(found.user),
        "items": items,
        "seconds": round(seconds, 3),
        "cpu_seconds": round(cpu_seconds, 3),
        "nanoseconds_per_score": round(1e9 * cpu_seconds / (len(found.user) * items), 3),
        "peak_rss_mb": round(peak, 1),
        "auc": found.metrics["auc"],
    }


if __name__ == "__main__":
    print(json.dumps(bench()))
