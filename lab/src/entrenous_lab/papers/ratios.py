"""Claims of a size: "42 % faster", "8.93 points above". A claim has two kinds for them:

- `by_points = [["a", "b", 0.09]]`: a is above b by about that much or more;
- `by_share = [["a", "b", -0.42]]`: a exceeds b by about that share of b or more; below 0, it falls
  short of b by that share. Over seeds, or, with `of_print = true`, by the printed figures.

About: three quarters of the size, or `within` of it. Three quarters is a choice of ours; it is what
`near` takes for printed figures.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from entrenous.evaluation.significance import interval

from .comparisons import CONFIDENCE, NEAR_SHARE, Check, Claim, Standing, compared
from .render import number
from .stored import StoredResult

SIZES = ("by_points", "by_share")


def sizes(claim: Claim, result: StoredResult) -> Iterator[Check]:
    """Yields every comparison of a claim that asks for a size."""
    known = dict.fromkeys(row["data"] for row in result.content["rows"])
    for data in claim.get("data", known):
        for metric in claim["metrics"]:
            for a, b, size in claim.get("by_points", ()):
                test = compared(result, data, a, b, metric)
                if test is not None and "low" in test:
                    named = f"{data}, {metric}: `{a}` minus `{b}`"
                    yield _sized(claim, named, (test["low"], test["high"]), size)
            for a, b, size in claim.get("by_share", ()):
                rows = [result.row(data, system, metric) for system in (a, b)]
                if None not in rows:
                    named = f"{data}, {metric}: `{a}` over `{b}` less 1"
                    yield _sized(claim, named, _shares(claim, *rows), size)


def _shares(claim: Claim, a: Any, b: Any) -> tuple[float, float]:
    """The 95 % interval of a / b - 1 over seeds; that of the printed figures is one number."""
    if "of_print" in claim:
        printed = a["paper"] / b["paper"] - 1
        return printed, printed
    share = np.array(a["values"]) / b["values"] - 1
    return interval(share, np.zeros(len(share)), CONFIDENCE)


def _sized(claim: Claim, named: str, ends: tuple[float, float], size: float) -> Check:
    """Holds an interval against a size."""
    low, high = sorted(np.sign(size) * np.array(ends))
    least = abs(size) - claim.get("within", NEAR_SHARE * abs(size))
    standing = Standing.UNDECIDED
    if low >= least:
        standing = Standing.HOLDS
    if high < least:
        standing = Standing.REFUTED
    text = f"{named} {number(ends[0], 4)} to {number(ends[1], 4)}, asked {number(size, 4)}"
    return Check(standing, text)
