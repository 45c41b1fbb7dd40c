"""`python -m entrenous_lab.cold_items`: how well items are recommended that are new.

A tenth of the items, drawn by the seed, is taken out of the data with all its rows: in training
they do not exist, not even as negatives. Afterwards they join with their features, and each of
their rows asks for the item's rank among the cold items that its user has not consumed. Settings
are chosen by another tenth of the items, drawn from the rest, which is cold in turn.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from entrenous_field.fedcold import FedCold

from entrenous.core.contract.item_features import ItemFeatures
from entrenous.core.keys import folds, key
from entrenous.core.types import Float64Array
from entrenous.data.interactions import Interactions
from entrenous.data.load import load
from entrenous.federation.rounds import Rounds

CUTOFF = 10
# One item of so many is cold.
EVERY = 10
SEEDS = 5
# The settings between which validation chooses.
GRID: Mapping[str, Sequence[float]] = {
    "own_rate": (0.0, 0.1, 0.3, 1.0),
    "encoder_rate": (0.3, 1.0, 3.0),
    "learning_rate": (0.02, 0.05),
}


class Cold(NamedTuple):
    """A data set whose items are divided into known and cold ones."""

    known: Interactions
    """The rows of the known items, which have no other items."""
    rows: Interactions
    """The rows of the cold items, over cold items alone."""
    features: ItemFeatures
    """Those of all items, the known ones first."""


def divide(data: Interactions, seed: int, part: str) -> Cold:
    """Returns the data with a tenth of its items cold, drawn by the seed. part: names the draw.
    Raises ValueError for data whose items have no features.
    """
    if data.item_features is None:
        raise ValueError(f"{data.name} has no item features")
    drawn = folds(key(seed, part), np.arange(len(data.items)))
    is_cold = np.zeros(len(data.items), bool)
    is_cold[np.argsort(drawn, kind="stable")[: len(data.items) // EVERY]] = True
    order = np.argsort(is_cold, kind="stable")
    texts = {name: texts[order] for name, texts in data.item_features.texts.items()}
    return Cold(data.of_items(~is_cold), data.of_items(is_cold), ItemFeatures(texts))


def hit_rate(rows: Interactions, scores: Float64Array) -> float:
    """Returns HR@10 over the rows of cold items, each ranked among the items that its user has not
    consumed; of equal scores the order is drawn, so that a row counts by its chance. scores:
    [users, items].
    """
    hits = []
    for user in range(len(rows.users)):
        own = rows.item[rows.ptr[user] : rows.ptr[user + 1]]
        others = np.delete(scores[user], own)
        for score in scores[user, own]:
            better = int((others > score).sum())
            equal = int((others == score).sum())
            hits.append(min(max(CUTOFF - better, 0) / (equal + 1), 1.0))
    return float(np.mean(hits))


def scores_of(algorithm: FedCold, cold: Cold, seed: int) -> Float64Array:
    """Trains on the known items, adds the cold ones by their features, and returns the scores of
    every cold item, [users, items].
    """
    rounds = Rounds(algorithm, cold.known, seed=seed)
    training = rounds.advance(rounds.start(), algorithm.rounds)
    server = algorithm.with_items(training.server, cold.features)
    users = np.arange(len(cold.known.users))
    download = algorithm.download(server)
    scores = algorithm.score(download, training.devices, cold.known.histories(users))
    return scores[:, len(cold.known.items) :].astype(np.float64)


def by_features(cold: Cold) -> Float64Array:
    """Returns the mean popularity of the known items that share a feature, averaged over the
    features of each cold item, [items]: the same order for everybody.
    """
    has = cold.features.values > 0
    known = len(cold.known.items)
    counts = has[:known].sum(axis=0)
    means = has[:known].T @ cold.known.popularity / np.maximum(counts, 1)
    return has[known:] @ means / np.maximum(has[known:].sum(axis=1), 1)


def measure(data: Interactions, algorithm: FedCold, seed: int) -> dict[str, float]:
    """Returns HR@10 among cold items: of the algorithm and of what it is compared with."""
    cold = divide(data, seed, "test")
    items = len(cold.rows.items)
    everybody = np.ones((len(cold.rows.users), 1))
    return {
        "fedcold": hit_rate(cold.rows, scores_of(algorithm, cold, seed)),
        "popularity of their features": hit_rate(cold.rows, everybody * by_features(cold)),
        # Nobody has consumed a cold item, so that all are equally popular.
        "popularity": hit_rate(cold.rows, everybody * np.zeros(items)),
        "random": _at_random(cold.rows),
        "popularity in the test rows (cannot be known)": hit_rate(
            cold.rows, everybody * cold.rows.popularity
        ),
    }


def _at_random(rows: Interactions) -> float:
    """Returns the HR@10 of a random order."""
    competing = len(rows.items) - rows.counts + 1
    chance = np.minimum(CUTOFF / np.maximum(competing, 1), 1)
    return float((rows.counts * chance).sum() / len(rows))


def choose(data: Interactions, grid: Mapping[str, Sequence[float]], seed: int) -> dict[str, Any]:
    """Returns the settings of the grid with the highest HR@10 on a tenth of the items that are not
    the test's. Prints a line for each.
    """
    rest = divide(data, seed, "test").known
    cold = divide(rest, seed, "validation")
    best: dict[str, Any] = {}
    highest = -1.0
    for values in product(*grid.values()):
        settings = dict(zip(grid, values, strict=True))
        found = hit_rate(cold.rows, scores_of(FedCold(**settings), cold, seed))
        print(f"validation {found:.4f}  {settings}", flush=True)
        if found > highest:
            best = settings
            highest = found
    return best


def table(found: Iterable[Mapping[str, float]]) -> list[str]:
    """Returns the lines of a table: mean and sample standard deviation over seeds."""
    seeds = list(found)
    lines = [f"{'HR@10 among cold items':46}  mean    std"]
    for name in seeds[0]:
        values = np.array([each[name] for each in seeds])
        spread = values.std(ddof=1) if len(values) > 1 else 0.0
        lines.append(f"{name:46}  {values.mean():.4f}  {spread:.4f}")
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table. --tune chooses the settings first."""
    parser = argparse.ArgumentParser(prog="python -m entrenous_lab.cold_items")
    parser.add_argument("--data", default="ml-100k")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--tune", action="store_true")
    asked = parser.parse_args(arguments)
    data = load(asked.data)
    settings = choose(data, GRID, 0) if asked.tune else {}
    algorithm = FedCold(**settings)
    cold = divide(data, 0, "test")
    print(f"{data}; {len(cold.rows.items)} cold items with {len(cold.rows)} rows in seed 0")
    if settings:
        print(f"chosen by validation: {settings}")
    found = [measure(data, algorithm, seed) for seed in range(asked.seeds)]
    print("\n".join(table(found)))


if __name__ == "__main__":
    main()
