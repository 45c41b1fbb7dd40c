"""`python -m entrenous_lab.lengths [ALGORITHM ...]`: the usual length of honest messages, by which
`private` clips, and what the clip costs on validation rows.

Each training is one of `private` on training rows alone, with its noise. The clip is the median
length of messages, or the first of some higher quantiles that costs no more than MOST_COST of HR@10
on validation rows. What is found replaces the algorithm's entry in privacy/lengths.json, one after
the other.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from entrenous.core.contract.declared import declared
from entrenous.core.contract.update import Update
from entrenous.core.files import write_atomically
from entrenous.core.types import Float64Array, UInt64Array
from entrenous.core.values import FEW_PEOPLE, MANY_PEOPLE
from entrenous.data.interactions import Interactions
from entrenous.data.load import load
from entrenous.data.split.protocol import splits
from entrenous.evaluation.protocol import evaluate
from entrenous.federation.rounds import Rounds
from entrenous.federation.shard import Threads
from entrenous.privacy import lengths as stored
from entrenous.privacy.clip import lengths
from entrenous.privacy.protection import PRIVATE
from entrenous.runs.options import RunPlan
from entrenous.runs.plan import make, protection_in, usual_protocol, with_set
from entrenous.runs.recommenders import fitted
from entrenous.systems.named import algorithms

METRIC = "hr@10"
QUANTILES = (0.5, 0.75, 0.95)
MOST_COST = 0.01


class Size(NamedTuple):
    """Federations of some size, and the data set that stands for them."""

    data: str
    below: int
    """People, or 0 for any number."""
    protocol: str = ""
    """"" = the usual one of the algorithm."""


FEW = Size("ml-100k", FEW_PEOPLE)
SIZES = (FEW, Size("gowalla-nyc", MANY_PEOPLE), Size("ml-1m", 0, "ncf-99"))
# Sets of `private` were tested for these; the others are measured on the first data set alone.
SIZED = ("fcf", "pfpl+", "fedncf")


class Lengths:
    """A limit that leaves messages as they are, and remembers how long they were."""

    def __init__(self) -> None:
        self._seen: list[Float64Array] = []

    def __call__(self, update: Update, keys: UInt64Array) -> Update:
        self._seen.append(lengths(update))
        return update

    def quantile(self, share: float) -> float:
        """Returns the length that a share of all messages does not exceed."""
        return float(np.quantile(np.concatenate(self._seen), share))


def trained(
    algorithm: str, rows: Interactions, protocol: str, clip: float
) -> tuple[Lengths, float | None]:
    """Trains under `private` with a clip. Returns the lengths of messages before it would apply,
    and HR@10 on validation rows; None for predicted ratings.
    """
    split = splits(protocol, rows, seed=0)[0]
    protect = {"noise_by": "server", "people": 1, "clip": clip}
    asked = RunPlan(algorithm=algorithm, profile=PRIVATE, protect=protect, protocol=protocol)
    plan = with_set(asked, len(split.train.users))
    made: Any = make(plan, split.train)
    watch = Lengths()
    rounds = Rounds(
        made,
        split.train,
        executor=Threads(0),
        protection=protection_in(plan, made),
        limits=[watch],
    )
    length = made.default_rounds(split.train.catalogue)
    training = rounds.advance(rounds.start(), length)
    if split.validation is None or made.traits.predicts_ratings:
        return watch, None
    recommender = fitted(rounds, training).recommender
    found = evaluate(recommender, split.train, split.validation, label=algorithm, n=(10,))
    return watch, found.metrics[METRIC]


def measured(algorithm: str, size: Size) -> dict[str, Any]:
    """Returns the entry of an algorithm for one size, and prints it."""
    rows = load(size.data)
    protocol = size.protocol or usual_protocol(size.data, algorithm)
    watch, without = trained(algorithm, rows, protocol, stored.ANY)
    entry: dict[str, Any] = {
        "algorithm": algorithm,
        "below": size.below,
        "data": size.data,
        "protocol": protocol,
        "hr@10": without,
    }
    for quantile in QUANTILES:
        clip = float(f"{watch.quantile(quantile):.2g}")
        _, clipped = trained(algorithm, rows, protocol, clip)
        entry |= {"clip": clip, "quantile": quantile, "hr@10 clipped": clipped}
        if without is None or clipped is None or without - clipped <= MOST_COST:
            break
    print(json.dumps(entry), flush=True)
    return entry


def of_private() -> Iterator[str]:
    """Yields the algorithms whose noise was measured under `private`."""
    for name, make_default in algorithms().items():
        made = make_default()
        traits = getattr(made, "traits", None)
        if traits is not None and traits.private and declared(made).kind == "federated":
            yield name


def main() -> None:
    """Measures the algorithms that are named, or all."""
    path = Path(stored.__file__).with_name(stored.FILE)
    for algorithm in sys.argv[1:] or of_private():
        sizes = SIZES if algorithm in SIZED else (FEW,)
        found = [measured(algorithm, size) for size in sizes]
        kept = [entry for entry in stored.entries() if entry["algorithm"] != algorithm]
        entries = sorted(
            [*kept, *found], key=lambda one: (one["algorithm"], one["below"] or np.inf)
        )
        write_atomically(path, f"{json.dumps(entries, indent=1)}\n".encode())
        stored.entries.cache_clear()


if __name__ == "__main__":
    main()
