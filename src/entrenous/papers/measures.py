"""What one evaluation tells, by name: metrics and fairness, and what was sent and spent until then."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from .cell import CurvePoint

MB_SENT, KB_UP, CPU_SECONDS, ROUNDS = "MB sent", "kB up, a device and round", "CPU s", "rounds"
STD, CHANCE, WORST = FAIRNESS = ("std_ndcg@10", "std_by_chance", "worst_decile_auc")
SPENT: Mapping[str, Callable[[CurvePoint], float]] = {
    MB_SENT: lambda look: (look.ledger["bytes_up"] + look.ledger["bytes_down"]) / 1e6,
    KB_UP: lambda look: look.ledger["bytes_up"] / look.ledger["device_rounds"] / 1e3,
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
