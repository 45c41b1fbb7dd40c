"""Findings in words, computed from the figures: where we agree with the paper, where not, and what explains it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from .cell import Look
from .grid import FCF
from .result import Row
from .study import CHOSEN_BY, FPL_SYSTEMS, Study, System
from .system_rows import why_absent

NEAR = 1.25  # within a quarter
SIGNIFICANT = 0.05
POPULAR = "popular"


def protocol_note(study: Study) -> list[str]:
    """How the figures came about, once."""
    test, validation = study.parts["test"], study.parts["validation"]
    return [
        f"{study.data.name}: {len(test.rows)} training and {len(test.held.rows)} test rows; settings are chosen by "
        f"{CHOSEN_BY} on "
        f"{len(validation.held.rows)} validation rows alone, then each system trains on all training rows and the test rows are "
        f"opened. Tried: {study.grid.sentence()}. One seed ({study.seed})."
    ]


def absent(study: Study, looks: Mapping[System, Look | None]) -> list[str]:
    """Which systems have no figure of ours, and why."""
    return [
        f"{study.data.name}: no {system} here: {why_absent(study, system)}." for system, look in looks.items() if look is None
    ]


def agreement(rows: Sequence[Row], metric: str, *, over_top_pop: bool = False) -> list[str]:
    """How our figures relate to the paper's: ratios, and how many pairs of systems stand in the same order.

    over_top_pop: also each system over Top-Pop, which divides out how hard the test rows are.
    The paper's FCF is compared with the form it ran; sfpl and pfpl count once.
    """
    both = {
        str(system): (row["paper"], row["obtained"])
        for row in rows
        if row["metric"] == metric and row["paper"] and row["obtained"] is not None
        if not (system := System(row["system"], row["reading"])).twin and system.name != "fcf"
    }
    if len(both) < 2:
        return []
    pairs = [(both[a], both[b]) for a, b in combinations(both, 2) if both[a][0] != both[b][0]]
    same = sum((a[0] - b[0]) * (a[1] - b[1]) > 0 for a, b in pairs)
    ratio = {name: ours / paper for name, (paper, ours) in both.items()}
    near = ", ".join(name for name, value in ratio.items() if 1 / NEAR <= value <= NEAR) or "none"
    listed = ", ".join(f"{name} {value:.2f}" for name, value in ratio.items())
    return [
        f"{rows[0]['data']}, {metric}, ours / paper: {listed}. Median {np.median(list(ratio.values())):.2f}; within a quarter of "
        f"the paper: {near}. {same} of {len(pairs)} pairs of systems stand in the paper's order."
        f"{_relative(both) if over_top_pop and POPULAR in both else ''}"
    ]


def _relative(both: Mapping[str, tuple[float, float]]) -> str:
    paper, ours = both[POPULAR]
    listed = ", ".join(
        f"{name} {o / ours:.2f} ({p / paper:.2f})" for name, (p, o) in both.items() if name not in (POPULAR, "random")
    )
    return f" Over Top-Pop, ours (paper): {listed}."


def fcf_note(study: Study, rows: Sequence[Row]) -> list[str]:
    """FCF as published against what the paper compared with."""
    of = {str(System(row["system"], row["reading"])): row["obtained"] for row in rows if row["metric"] == "precision@10"}
    published, compared, plus = (of.get(name) for name in ("fcf", "fcf-huawei", "pfpl+ (run)"))
    if published is None or compared is None or plus is None:
        return []
    claim = "as published it is ahead of pFPL+ as run" if published > plus else "as published, too, it is behind pFPL+ as run"
    return [
        f"{study.data.name}, FCF (P@10): as published {published:.5f}; in the form that the paper compared with (what was "
        "not consumed "
        f"has weight 0, plain gradient descent) {compared:.5f}; pFPL+ as run {plus:.5f}. Both at BPR-MF's learning rate and "
        "factors, as "
        f"section 5.3 has it: {claim}."
    ]


def significance_note(study: Study, tests: Sequence[Mapping[str, Any]]) -> list[str]:
    """Which systems differ from BPR-MF."""
    better, worse, equal = list[str](), list[str](), list[str]()
    for test in tests:
        if test["metric"] == CHOSEN_BY and "bpr-mf" in (test["a"], test["b"]):
            other = test["b"] if test["a"] == "bpr-mf" else test["a"]
            lead = test["difference"] if other == test["a"] else -test["difference"]
            (equal if test["p_holm"] >= SIGNIFICANT else better if lead > 0 else worse).append(other)
    said = (
        f"{what} {', '.join(names) or 'none'}"
        for what, names in (("above:", better), ("below:", worse), ("no difference:", equal))
    )
    return [
        f"{study.data.name}, against BPR-MF (P@10, paired t over users, Holm over all pairs, {SIGNIFICANT:.0%}): "
        f"{'; '.join(said)}."
    ]


def epochs_note(study: Study) -> list[str]:
    """Which factor models were trained for the most epochs that were tried: they might gain from more."""
    grid, said = study.grid, []
    for system, choice in study.chosen.items():
        if choice is not None and not system.twin:
            epochs = choice.settings.get("epochs", choice.epochs) if system.name == "bpr-mf" else choice.epochs
            tried = grid.fcf_rounds if system.name in FCF else grid.epochs_of(system.computed_as)
            said += [f"{system} {epochs}"] if epochs == max(tried) else []
    return [f"{study.data.name}, at the upper end of the epochs that were tried: {', '.join(said) or 'none'}."]


def pi_note(study: Study) -> list[str]:
    """The pi that validation chose, and how much it matters."""
    said = []
    for system in FPL_SYSTEMS:
        best, sharing = study.chosen[system], {pi: choice for pi, choice in study.sweeps[system].items() if pi > 0}
        if best is not None and sharing and not system.twin:
            low, high = (pick(choice.validation for choice in sharing.values()) for pick in (min, max))
            nothing = study.sweeps[system].get(0.0)
            none = "" if nothing is None else f", {nothing.validation:.4f} at 0"
            said.append(f"{system} {best.settings['pi']:g} ({low:.4f} to {high:.4f} over pi > 0{none})")
    return [f"{study.data.name}, pi chosen on validation, and P@10 there: {'; '.join(said)}."] if said else []
