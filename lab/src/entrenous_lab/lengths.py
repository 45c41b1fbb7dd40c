"""`python -m entrenous_lab.lengths [--step] NAME[:DATA]...`: the clip of `private`, the noise that
an algorithm bears, the least step, and what they cost on validation rows.

Each training is one of `private` on training rows alone, and each accuracy is an average over
SEEDS. For a clip at a quantile of the lengths of honest messages, or at a share of the first, the
noise is the largest multiple of it that costs, with the clip, no more than COST of HR@10 on
validation rows. Clips rise as long as that multiple does not fall. The step is the smallest share
of the longest move of an honest row that then costs no more than STEP_COST. A step takes noise away
too: so the multiple rises as far as COST allows with it. What is found replaces the algorithm's
entries in privacy/lengths.json, one after the other; with --step the clip there stays.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from entrenous.core.contract.update import Update
from entrenous.core.errors import NonFiniteError
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
from entrenous.privacy.step import longest_move
from entrenous.runs.options import RunPlan
from entrenous.runs.plan import make, protection_in, with_set
from entrenous.runs.recommenders import fitted

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
SHORTER = (0.05, 0.12, 0.25, 0.5)  # shares of the first quantile
MULTIPLES = (2.0, 1.5, 1.2, 1.0, 0.85, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.03, 0.01)
COST = 0.04
SHARES = (1.0, 0.7, 0.5, 0.35, 0.25, 0.18, 0.12, 0.08, 0.05, 0.035, 0.025, 0.018, 0.012)
STEP_COST = 0.01
# A Newton step says so much of each person that a planted model led by 0.041 with the usual step.
MORE_STEP_COST = {"fcf-newton": 0.02}
SEEDS = (0, 1)


class Size(NamedTuple):
    """Federations of some size, and the data set that stands for them."""

    data: str
    below: int
    """People, or 0 for any number."""
    protocol: str = "loo-99"


SIZES = (Size("ml-100k", FEW_PEOPLE), Size("gowalla-nyc", MANY_PEOPLE), Size("ml-1m", 0, "ncf-99"))


class Lengths:
    """A limit that leaves messages as they are, and remembers how long they were. move: the longest
    move of a row of the model.
    """

    def __init__(self) -> None:
        self._seen: list[Float64Array] = []
        self.move = 0.0

    def __call__(self, update: Update, keys: UInt64Array) -> Update:
        self._seen.append(lengths(update))
        return update

    def quantile(self, share: float) -> float:
        """Returns the length that a share of all messages does not exceed."""
        return float(np.quantile(np.concatenate(self._seen), share))


class Limits(NamedTuple):
    """The limits of a training; by default a message stays as it is."""

    clip: float = stored.ANY
    multiple: float = 1e-9
    step: float = 0


UNLIMITED = Limits()


def trained(
    asked: RunPlan, rows: Interactions, limits: Limits = UNLIMITED, seed: int = 0
) -> tuple[Lengths, float]:
    """Trains as asked, under `private` with some limits. Returns the lengths of messages before the
    clip would apply, and HR@10 on validation rows, or minus the RMSE of predicted ratings.
    """
    split = splits(str(asked.protocol), rows, seed=0)[0]
    assert split.validation is not None
    protect = {"noise_by": "server", "people": 1, **limits._asdict()}
    plan = with_set(replace(asked, protect=protect), len(split.train.users))
    made: Any = make(plan, split.train)
    watch = Lengths()
    rounds = Rounds(
        made,
        split.train,
        seed=seed,
        executor=Threads(0),
        protection=protection_in(plan, made),
        limits=[watch],
    )
    training = rounds.start()
    try:
        for _ in range(made.default_rounds(split.train.catalogue)):
            before = made.download(training.server)
            training = rounds.one_round(training)
            moved = longest_move(rounds.contract, before, made.download(training.server))
            watch.move = max(watch.move, moved)
        recommender = fitted(rounds, training).recommender
        found = evaluate(recommender, split.train, split.validation, label=plan.algorithm, n=(10,))
    except NonFiniteError:
        return watch, -np.inf
    if made.traits.predicts_ratings:
        return watch, -found.metrics["rmse"]
    return watch, found.metrics["hr@10"]


def usual(asked: RunPlan, rows: Interactions, limits: Limits = UNLIMITED) -> tuple[Lengths, float]:
    """Returns the lengths of the first of SEEDS, and the accuracy on the average of all."""
    several = [trained(asked, rows, limits, seed) for seed in SEEDS]
    return several[0][0], float(np.mean([accuracy for _, accuracy in several]))


def measured(algorithm: str, size: Size) -> dict[str, Any]:
    """Returns the entry of an algorithm for one size, and prints it."""
    rows = load(size.data)
    private = RunPlan(algorithm=algorithm, profile=PRIVATE, protocol=size.protocol)
    watch, free = usual(private, rows)
    best: dict[str, Any] = {"multiple": 0}
    shortest = watch.quantile(QUANTILES[0])
    tries = [(QUANTILES[0], share * shortest) for share in SHORTER]
    tries += [(quantile, watch.quantile(quantile)) for quantile in QUANTILES]
    for quantile, length in tries:
        clip = float(f"{length:.2g}")
        tried = most_noise(private, rows, clip, free - COST)
        # The multiple bounds what a person tells; of two clips with one multiple the longer one has
        # more noise, under which less is seen of a person whose message stays within both.
        if tried["multiple"] < best["multiple"]:
            break
        best = {"clip": clip, "quantile": quantile, **tried}
    entry = {"algorithm": algorithm, "below": size.below, "data": size.data}
    entry |= {"protocol": size.protocol, "free": free, **best}
    return stepped(entry, free)


def stepped(entry: Mapping[str, Any], free: float | None = None) -> dict[str, Any]:
    """Returns an entry with the least step that costs little and the noise that it leaves room for,
    and prints it. free: the accuracy without limits, where it is known.
    """
    rows = load(entry["data"])
    private = RunPlan(algorithm=entry["algorithm"], profile=PRIVATE, protocol=entry["protocol"])
    limits = Limits(entry["clip"], entry["multiple"])
    watch, unstepped = usual(private, rows, limits)
    accuracy = {}
    for step in (float(f"{share * watch.move:.2g}") for share in SHARES):
        accuracy[step] = usual(private, rows, limits._replace(step=step))[1]
    cost = MORE_STEP_COST.get(entry["algorithm"], STEP_COST)
    least = min(step for step in accuracy if accuracy[step] >= unstepped - cost)
    found = {**entry, "unstepped": unstepped, "step": least, "stepped": accuracy[least]}
    if free is None:
        free = usual(private, rows)[1]
    for multiple in MULTIPLES:
        if multiple <= entry["multiple"]:
            break
        again = usual(private, rows, Limits(entry["clip"], multiple, least))[1]
        if again >= free - COST:
            found |= {"multiple": multiple, "stepped": again}
            break
    print(json.dumps(found), flush=True)
    return found


def most_noise(private: RunPlan, rows: Interactions, clip: float, enough: float) -> dict[str, Any]:
    """Returns the largest multiple of a clip by which an accuracy is enough, with that accuracy; 0
    if none is.
    """
    for multiple in MULTIPLES:
        noisy = usual(private, rows, Limits(clip, multiple))[1]
        if noisy >= enough:
            return {"multiple": multiple, "noisy": noisy}
    return {"multiple": 0}


def main() -> None:
    """Measures the algorithms that are named."""
    path = Path(stored.__file__).with_name(stored.FILE)
    step_alone = "--step" in sys.argv
    for asked in sys.argv[1 + step_alone :]:
        algorithm, _, data = asked.partition(":")
        kept = list[Mapping[str, Any]]()
        before = list[Mapping[str, Any]]()
        for entry in stored.entries():
            again = entry["algorithm"] == algorithm and data in ("", entry["data"])
            (before if again else kept).append(entry)
        if step_alone:
            found = [stepped(entry) for entry in before]
        else:
            sizes = [size for size in SIZES if data in ("", size.data)]
            found = [measured(algorithm, size) for size in sizes]
        entries = sorted(
            [*kept, *found], key=lambda one: (one["algorithm"], one["below"] or np.inf)
        )
        write_atomically(path, f"{json.dumps(entries, indent=1)}\n".encode())
        stored.entries.cache_clear()


if __name__ == "__main__":
    main()
