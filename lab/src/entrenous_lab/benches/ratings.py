"""Speed of rating prediction on devices."""

from __future__ import annotations

import statistics
from typing import Any

from entrenous_field.fbalf_bayes import FBALFBayes

from entrenous.core.contract.protocols import Progress
from entrenous.core.keys import key
from entrenous.data.load import load
from entrenous.federation.rounds import Rounds
from entrenous.federation.shard import Threads
from entrenous.systems.central.biased_mf import BiasedMf

from .timing import interleaved

LIMIT = 1.0  # CPU seconds of a round


def rating_round(threads: int, progress: Progress) -> dict[str, Any]:
    """`fbalf-bayes` with its defaults on MovieLens-1M: CPU seconds of a round of all 6,040 devices
    (10 local iterations, decoys), against an epoch of centralised biased matrix factorisation over
    the same ratings with as many factors.
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
    return {
        "cpu_seconds": seconds,
        "ratio": seconds / epoch,
        "ratio_to_limit": seconds / LIMIT,
        "against": (
            f"an epoch of biased-mf with {central.factors} factors: {epoch:.3f} CPU s; limit:"
            f" {LIMIT:g} CPU s a round"
        ),
    }


BENCHES = {"rating-round": rating_round}
