"""The table of a comparison: its conditions, cells, and its form for LaTeX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NotRequired

from typing_extensions import TypedDict

from ..evaluation.metric_kinds import ARROWS, arrowed
from ..evaluation.paired import PairedDifference, SpreadTest
from ..report.latex import booktabs, escaped
from .budgets import AllBudgets, in_short
from .run import SHOWN
from .statistics import ComparedRow

# A corrected p below this level is marked.
LEVEL = 0.05


class ComparisonFound(TypedDict):
    """The report of a comparison."""

    data: str
    protocol: str
    seeds: int
    """How many."""
    seed_numbers: list[int]
    reference: str
    """The label that the others are tested against."""
    metrics: list[str]
    """The names that were asked for; [] = all are in `rows`, and the usual ones are shown."""
    rows: list[ComparedRow]
    tests: list[PairedDifference]
    fairness_tests: list[SpreadTest]
    privacy: NotRequired[AllBudgets]
    protocol_text: list[str]
    """The protocol in sentences."""
    notes: list[str]
    versions: dict[str, str]


def p_text(p: float) -> str:
    """A p-value as it is printed, with four decimals; a smaller one is only said to be smaller.

    >>> p_text(0.00001), p_text(0.0312)
    ('<0.0001', '0.0312')
    """
    return "<0.0001" if p < 0.0001 else f"{p:.4f}"


def records(found: ComparisonFound) -> list[dict[str, str | float]]:
    """A dictionary for each algorithm: its label, and mean and standard deviation over seeds of
    each metric.
    """
    rows = []
    for row in found["rows"]:
        record: dict[str, str | float] = {"algorithm": row["algorithm"]}
        for name, mean in row["metrics"].items():
            record[name] = mean
            record[f"{name} std"] = row["std"][name]
        rows.append(record)
    return rows


def shown(found: ComparisonFound, asked: Sequence[str] = ()) -> list[str]:
    """The metrics that a table shows: those asked for, or the usual ones that there are."""
    known = common(found["rows"])
    usual = known if found["metrics"] else SHOWN
    return [name for name in asked or usual if name in known]


def common(rows: Sequence[ComparedRow]) -> list[str]:
    """The metrics that all have: one that predicts ratings has errors, and others have none."""
    return [name for name in rows[0]["metrics"] if all(name in row["metrics"] for row in rows)]


def caption(found: ComparisonFound) -> str:
    """The conditions of the figures: data, protocol, seeds, spread, and the spent differential
    privacy.
    """
    data = Path(found["data"]).name
    numbers = found["seed_numbers"]
    seeds = f"seed {numbers[0]}"
    if len(numbers) > 1:
        listed = ", ".join(map(str, numbers))
        if numbers == list(range(len(numbers))):
            listed = f"0-{numbers[-1]}"
        seeds = f"mean ± sample standard deviation over seeds {listed}"
    parts = [data, found["protocol"], seeds]
    if "privacy" in found:
        parts.append(in_short(found["privacy"]))
    return ", ".join(parts)


def cells(found: ComparisonFound, names: Sequence[str]) -> list[list[str]]:
    """The table's body: a label and a text for each metric."""
    several_seeds = found["seeds"] > 1
    body = []
    for row in found["rows"]:
        line = [row["algorithm"]]
        for name in names:
            text = f"{row['metrics'][name]:.4f}"
            if several_seeds:
                text += f" ±{row['std'][name]:.4f}"
            line.append(text)
        body.append(line)
    return body


def latex(found: ComparisonFound, asked: Sequence[str] = ()) -> str:
    """The table for LaTeX with booktabs: the best of each metric in bold, a dagger where p < 0.05
    after Holm against the reference.
    """
    names = shown(found, asked)
    best = {name: _best(found, name) for name in names}
    body = [_latex_row(row, names, best, found) for row in found["rows"]]
    # Metrics of all lists together have no value for each user, and no test.
    notes = [
        rf"\textdagger: differs from {escaped(found['reference'])}, p $<$ 0.05"
        rf" (paired over {test['holds']}; Holm)"
        for test in found["tests"][:1]
    ]
    header = ["algorithm", *(_headed(name) for name in names)]
    return booktabs(header, body, ". ".join([escaped(caption(found)), *notes]) + ".") + "\n"


def _headed(name: str) -> str:
    """A metric's name with an arrow to where it is better."""
    arrow = r"$\downarrow$" if _lower_is_better(name) else r"$\uparrow$"
    return f"{escaped(name.upper())} {arrow}"


def _best(found: ComparisonFound, name: str) -> float:
    values = [row["metrics"][name] for row in found["rows"]]
    return min(values) if _lower_is_better(name) else max(values)


def _lower_is_better(name: str) -> bool:
    return arrowed(name).endswith(ARROWS["lower"])


def _latex_row(
    row: ComparedRow,
    names: Sequence[str],
    best: Mapping[str, float],
    found: ComparisonFound,
) -> list[str]:
    label = row["algorithm"]
    tests = [test for test in found["tests"] if test["b"] == label]
    # A dagger stands where the corrected test finds a difference.
    significant = {test["metric"] for test in tests if test["holm_p"] < LEVEL}
    texts = [escaped(label)]
    for name in names:
        value = row["metrics"][name]
        text = f"{value:.4f}"
        # Equal values are all the best.
        if value == best[name]:
            text = rf"\textbf{{{text}}}"
        if found["seeds"] > 1:
            text += rf" $\pm$ {row['std'][name]:.4f}"
        if name in significant:
            text += r"\textsuperscript{\textdagger}"
        texts.append(text)
    return texts
