"""What tables of several papers find: paired tests between systems and what they say in words,
agreement with the printed figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from entrenous.core.types import Float64Array
from entrenous.evaluation.chance import Difference, difference
from entrenous.evaluation.significance import holm
from entrenous.report.figures import FigureFormat, bars

from .cell import CurvePoint
from .fpl_search import twin
from .measures import ConvergencePace
from .result import Row
from .study import System
from .table import Trained, system_of
from .values import listed, worded

SIGNIFICANT = 0.05
NEAR = 1.25  # within a quarter
POPULAR = "popular"


# ---- between systems, over users and seeds -------------------------------------------------------


def users_of(looks: Sequence[CurvePoint], metric: str) -> Float64Array:
    """Each user's value under each seed, float64 [seeds, users]."""
    return np.array([look.per_user[metric] for look in looks], np.float64)


def against(
    trained: Trained, a: System, others: Sequence[System], metrics: Sequence[str]
) -> list[dict[str, Any]]:
    """Tests of `a` and each of the others, over users and seeds; Holm over the pairs of a
    metric.
    """
    looks = trained.looks
    return tested_pairs(
        trained, [(a, other) for other in others if looks.get(other) and looks.get(a)], metrics
    )


def tested_pairs(
    trained: Trained, pairs: Sequence[tuple[System, System]], metrics: Sequence[str]
) -> list[dict[str, Any]]:
    """Tests of each pair, over users and seeds; Holm over the pairs of a metric. t: None where it
    is infinite.
    """
    found = list[dict[str, Any]]()
    for metric in metrics:
        users = {
            system: users_of(trained.looks[system], metric) for pair in pairs for system in pair
        }
        found += tested_columns(
            trained.name, metric, [(str(a), str(b), users[a], users[b]) for a, b in pairs]
        )
    return found


def tested_columns(
    data: str, metric: str, pairs: Sequence[tuple[str, str, Float64Array, Float64Array]]
) -> list[dict[str, Any]]:
    """Tests of the two tables of each (name, name, table, table), with the interval of the
    difference; Holm over all of them.

    Tables are as of `chance.difference`; in place of users stand nodes where a table says so.
    """
    found = [difference(x, y) for _, _, x, y in pairs]
    tests = list[dict[str, Any]]()
    for (a, b, _, _), each, adjusted in zip(
        pairs, found, holm([each.p() for each in found]).tolist(), strict=True
    ):
        about = {"data": data, "a": a, "b": b, "metric": metric}
        tests.append({**about, **as_test(each), "p_holm": adjusted})
    return tests


def as_test(found: Difference) -> dict[str, Any]:
    """A difference as a result stores it. holds: the sources of chance that its interval holds."""
    low, high = found.ends
    t = found.t()
    return {
        "users": found.users,
        "seeds": found.seeds,
        "freedom": found.freedom,
        "holds": found.holds,
        "difference": found.mean,
        "low": low,
        "high": high,
        "t": t if abs(t) < float("inf") else None,
        "p": found.p(),
        "p_holm": found.p(),
    }


def verdict(test: Mapping[str, Any]) -> str:
    """A test in words.

    >>> verdict({"a": "x", "b": "y", "difference": 0.02, "low": 0.01, "high": 0.03,
    ...     "p_holm": 0.001, "holds": "users and seeds"})
    'x is above y by 0.0200 (95 % over users and seeds +0.0100 to +0.0300, p = 0.001)'
    """
    sure, lead = test["p_holm"] < SIGNIFICANT, test["difference"]
    where = ("above" if lead > 0 else "below") if sure else "not told apart from"
    by, ends = (
        f" by {abs(lead):.4f}" if sure else f", {lead:+.4f}",
        f"{test['low']:+.4f} to {test['high']:+.4f}",
    )
    return (
        f"{test['a']} is {where} {test['b']}{by} (95 % over {test['holds']} {ends},"
        f" p = {test['p_holm']:.2g})"
    )


# ---- beside the paper, and on the way ------------------------------------------------------------


def agrees(
    *metrics: str, over_top_pop: bool = False, without: str = ""
) -> Callable[[Trained], list[str]]:
    """The finding `agreement` for metrics. without: rows of systems with this in their names are
    left out.
    """

    def finding(trained: Trained) -> list[str]:
        rows = [row for row in trained.rows if not without or without not in row["system"]]
        return [
            note
            for metric in metrics
            for note in agreement(rows, metric, over_top_pop=over_top_pop)
        ]

    return finding


def agreement(rows: Sequence[Row], metric: str, *, over_top_pop: bool = False) -> list[str]:
    """How our figures relate to the paper's: ratios, and how many pairs of systems stand in the
    same order.

    over_top_pop: also each system over Top-Pop, which divides out how hard the test rows are.
    The paper's FCF is compared with the form it ran; sfpl and pfpl count once.
    """
    both = {
        str(system): (row["paper"], row["obtained"])
        for row in rows
        if row["metric"] == metric and row["paper"] and row["obtained"] is not None
        if not twin(system := system_of(row)) and system.algorithm != "fcf"
    }
    if len(both) < 2:
        return []
    pairs = [(both[a], both[b]) for a, b in combinations(both, 2) if both[a][0] != both[b][0]]
    same = sum((a[0] - b[0]) * (a[1] - b[1]) > 0 for a, b in pairs)
    ratio = {name: ours / paper for name, (paper, ours) in both.items()}
    near = ", ".join(name for name, value in ratio.items() if 1 / NEAR <= value <= NEAR) or "none"
    more = {"ratios": listed(ratio, ".2f"), "median": np.median(list(ratio.values())), "near": near}
    said = worded(
        "findings",
        "agreement",
        data=rows[0]["data"],
        metric=metric,
        same=same,
        pairs=len(pairs),
        **more,
    )
    return [said + (_relative(both) if over_top_pop and POPULAR in both else "")]


def _relative(both: Mapping[str, tuple[float, float]]) -> str:
    paper, ours = both[POPULAR]
    others = {name: pair for name, pair in both.items() if name not in (POPULAR, "random")}
    listed = ", ".join(
        f"{name} {o / ours:.2f} ({p / paper:.2f})" for name, (p, o) in others.items()
    )
    return f" Over Top-Pop, ours (paper): {listed}."


def still_rising(
    trained: Trained,
    names: Iterable[Any],
    paces: Mapping[Any, Sequence[ConvergencePace]] | None = None,
) -> list[str]:
    """Whose curves were best at their end: they might gain from more rounds. paces: those of
    `more`, unless given.
    """
    several = trained.more if paces is None else paces
    rising = ", ".join(str(name) for name in names if any(pace.rising for pace in several[name]))
    return (
        [f"{trained.name}, still rising at round {trained.study.budget.horizon}: {rising}."]
        if rising
        else []
    )


def bars_beside_paper(rows: Sequence[Row], metric: str, label: str, title: str) -> str:
    """A bar for each system with a figure of a metric, and marks at what the paper printed, if it
    printed any.
    """
    drawn = [row for row in rows if row["metric"] == metric and row["obtained"] is not None]
    paper = {label: [float("nan") if row["paper"] is None else row["paper"] for row in drawn]}
    printed = any(row["paper"] is not None for row in drawn)
    names, ours = (
        [str(system_of(row)) for row in drawn],
        {label: [row["obtained"] for row in drawn]},
    )
    return bars(
        names,
        ours,
        FigureFormat(title=title, x_label=label, y_label=""),
        reference=paper if printed else None,
    )


def bars_figure(
    file: str, metric: str, label: str, title: str
) -> Callable[[Trained], dict[str, str]]:
    """The figure of a metric beside the paper's. file, title: with what is computed in their
    {fields}.
    """

    def figure(trained: Trained) -> dict[str, str]:
        drawn = bars_beside_paper(trained.rows, metric, label, title.format(trained.name))
        return {file.format(trained.name, slug=trained.study.source.slug): drawn}

    return figure
