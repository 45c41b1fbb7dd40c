"""Speed of rating prediction on devices."""

from __future__ import annotations

import statistics
import time
from typing import Any

from entrenous_field.fbalf_bayes import FBALFBayes

from entrenous.core.contract.protocols import Progress
from entrenous.core.keys import key
from entrenous.data.interactions import Interactions
from entrenous.data.load import load
from entrenous.data.split.protocol import splits
from entrenous.federation.rounds import Rounds
from entrenous.federation.shard import Threads
from entrenous.systems.central.biased_mf import BiasedMf

from .timing import interleaved

LIMIT, FOLDS_LIMIT = 1.0, 180.0  # CPU seconds of a round; wall seconds of five folds on two cores


def rating_round(threads: int, progress: Progress) -> dict[str, Any]:
    """`fbalf-bayes` with its defaults on MovieLens-1M: CPU seconds of a round of all 6,040 devices
    (10 local iterations, decoys), against an epoch of centralised biased matrix factorisation over
    the same ratings with as many factors; and wall seconds of five folds.
    """
    data, bayes = load("ml-1m"), FBALFBayes()
    rounds = Rounds(bayes, data, executor=Threads(1))
    state = [
        rounds.advance(rounds.start(), bayes.threshold)
    ]  # from here on decoys are rated by prediction, which costs more
    central = BiasedMf(factors=bayes.factors * bayes.members, epochs=1)

    def ours() -> None:
        state[0] = rounds.one_round(state[0])

    costs, peer = interleaved(2, ours, lambda: central.fit(data, key(0)))
    seconds, epoch = (statistics.median(c.cpu for c in each) for each in (costs, peer))
    folds = _five_folds(bayes, data, threads, progress)
    return {
        "cpu_seconds": seconds,
        "ratio": seconds / epoch,
        "ratio_to_limit": seconds / LIMIT,
        "five_folds_seconds": folds,
        "five_folds_ratio_to_limit": folds / FOLDS_LIMIT,
        "threads": Threads(threads).workers,
        "against": (
            f"an epoch of biased-mf with {central.factors} factors: {epoch:.3f} CPU s; limits:"
            f" {LIMIT:g} CPU s a round, {FOLDS_LIMIT:g} s for five folds of {bayes.rounds} rounds"
        ),
    }


def _five_folds(bayes: FBALFBayes, data: Interactions, threads: int, progress: Progress) -> float:
    """Wall seconds of training on the training rows of each fold of kfold-5, one after another."""
    parts, began = splits("kfold-5", data), time.perf_counter()
    for number, part in enumerate(parts):
        progress(number, len(parts), "fold")
        rounds = Rounds(bayes, part.final_train, executor=Threads(threads))
        rounds.advance(rounds.start(), bayes.rounds)
    return time.perf_counter() - began


BENCHES = {"rating-round": rating_round}
