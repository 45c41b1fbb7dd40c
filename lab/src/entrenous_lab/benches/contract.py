"""What it costs to hold the first round of a run against what its algorithm declares, as a share of
the run.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from entrenous.core.contract.declared import is_gossip
from entrenous.core.contract.protocols import Progress
from entrenous.data.interactions import Interactions
from entrenous.data.synthetic import synthetic
from entrenous.federation.gossip import Gossip
from entrenous.federation.rounds import Rounds
from entrenous.systems.named import algorithms

from .timing import cost

TURNS = 5
NAMES = (
    "fpl",
    "sfpl",
    "fcf",
    "fedavg-gmf",
    "cali3f-neumf",
    "fbalf",
    "fedrec",
    "metamf",
    "rfrec",
    "pepper-gmf",
)


def contract(threads: int, progress: Progress) -> dict[str, Any]:
    """The share of a run of the default length that its checks take, in percent, for each of ten
    algorithms on data of MovieLens-100K's size (943 users, 1,682 items, 100,000 ratings): the
    seconds by which a checked round is longer than the same round unchecked, over those of all
    rounds unchecked. One thread.
    """
    data = synthetic(users=943, items=1682, interactions=100_000, skew=0.65, seed=0)
    data = rated(data)
    found: dict[str, float] = {}
    for number, name in enumerate(NAMES):
        progress(number, len(NAMES), name)
        found[f"{name}_percent"] = _percent(name, data)
    progress(len(NAMES), len(NAMES), "done")
    return {
        **found,
        "most_percent": max(found.values()),
        "against": "the same run without checks",
        "aim": "below 1 %",
    }


def rated(data: Interactions) -> Interactions:
    """The same rows with ratings 1 to 5 that follow from user and item."""
    from dataclasses import replace

    import numpy as np

    return replace(
        data, value=(1 + (data.user + 3 * data.item) % 5).astype(np.float32), scale=(1.0, 5.0)
    )


def _percent(name: str, data: Interactions) -> float:
    """Extra seconds of the first round, over the seconds of a whole run, in percent; medians of
    TURNS.
    """
    algorithm = algorithms()[name]()
    length = algorithm.default_rounds(data.catalogue)
    step = (
        1 if is_gossip(algorithm) or length < 1000 else length // 100
    )  # rounds of one device are timed a hundredth at a time
    _two_rounds(algorithm, data, step)  # compiles
    pairs = [_two_rounds(algorithm, data, step) for _ in range(TURNS)]
    extra = statistics.median(checked - plain for checked, plain in pairs)
    return 100 * max(extra, 0.0) / (statistics.median(plain for _, plain in pairs) * length / step)


def _two_rounds(algorithm: Any, data: Interactions, step: int) -> tuple[float, float]:
    """Seconds of the first `step` rounds, the first of them checked, and of as many after them from
    the same state.
    """
    federation: Any = Gossip(algorithm, data) if is_gossip(algorithm) else Rounds(algorithm, data)
    training = federation.start()

    def advanced(until: int) -> Callable[[], object]:
        return lambda: federation.advance(training, until)

    if is_gossip(algorithm):  # which overwrites its state: the next round instead of the same
        return cost(advanced(1)).wall, cost(advanced(2)).wall
    return cost(advanced(step)).wall, cost(advanced(step)).wall


BENCHES = {"contract": contract}
