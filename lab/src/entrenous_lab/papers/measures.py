"""What evaluations tell: metrics, fairness, what was sent and spent until then; and how soon a
curve over rounds comes near its best.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from entrenous.evaluation.protocol import RANKING

from .cell import CurvePoint, Outcome

MB_SENT, KB_UP, CPU_SECONDS, ROUNDS = "MB sent", "kB up, a device and round", "CPU s", "rounds"
KB_DOWN = "kB down, a device and round"
WITHIN = 0.05  # "within 5 % of the best": the first look at 95 % of it or more
STD, CHANCE, WORST = FAIRNESS = ("std_ndcg@10", "std_by_chance", "worst_decile_auc")
STD_HR = "std_hr@10"
SPENT: Mapping[str, Callable[[CurvePoint], float]] = {
    MB_SENT: lambda look: (look.ledger["bytes_up"] + look.ledger["bytes_down"]) / 1e6,
    KB_UP: lambda look: look.ledger["bytes_up"] / look.ledger["device_rounds"] / 1e3,
    KB_DOWN: lambda look: look.ledger["bytes_down"] / look.ledger["device_rounds"] / 1e3,
    CPU_SECONDS: lambda look: look.cpu_seconds,
    ROUNDS: lambda look: look.rounds,
}


def measured(look: CurvePoint, name: str) -> float:
    """One figure: of SPENT, of fairness, or the mean of a metric over users."""
    if name in SPENT:
        return SPENT[name](look)
    return look.metrics[name] if name in look.metrics else look.fairness[name]


def each(looks: Sequence[CurvePoint], name: str) -> list[float]:
    """A figure of each seed or fold."""
    return [measured(look, name) for look in looks]


def mean(looks: Sequence[CurvePoint], name: str) -> float:
    """A figure, mean over seeds or folds."""
    return float(np.mean(each(looks, name)))


# ---- how soon a curve comes near its best --------------------------------------------------------


class ConvergencePace(NamedTuple):
    """A curve on validation. best: its highest look, the earliest of equals; near: the first within
    WITHIN of it; last: its end.
    """

    best: CurvePoint
    near: CurvePoint
    last: CurvePoint

    @property
    def omitted(self) -> float:
        """The share of the rounds to the best that are left when it is near it."""
        return 1 - self.near.rounds / self.best.rounds

    @property
    def rising(self) -> bool:
        """Whether it was best at its end: it might have gained from more rounds."""
        return self.best is self.last


def pace(outcome: Outcome) -> ConvergencePace | None:
    """The pace of one training; None if it diverged before the first look."""
    if not outcome.looks:
        return None
    best = max(outcome.looks, key=lambda look: look.metrics[RANKING.metric])
    near = reached(outcome, (1 - WITHIN) * best.metrics[RANKING.metric])
    return ConvergencePace(best, best if near is None else near, outcome.looks[-1])


def paces(outcomes: Sequence[Outcome]) -> list[ConvergencePace]:
    """The paces of several seeds; none if one of them diverged."""
    several = [found for outcome in outcomes if (found := pace(outcome)) is not None]
    return several if len(several) == len(outcomes) else []


def reached(outcome: Outcome, level: float) -> CurvePoint | None:
    """The first look at a level of RANKING's metric or more; None if there is none."""
    return next((look for look in outcome.looks if look.metrics[RANKING.metric] >= level), None)


def near_round(several: Sequence[ConvergencePace]) -> float:
    """The round at which curves come near their best, mean over seeds."""
    return float(np.mean([found.near.rounds for found in several]))
