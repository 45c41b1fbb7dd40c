"""Comparisons that a claim of a paper asks for, each held against stored results.

A comparison holds, is refuted, or is undecided:

- it *holds* if the stored figures show what the claim says,
- it is *refuted* if they show the contrary,
- it is *undecided* otherwise, with the smallest difference that so many seeds or users would show
  in four of five repetitions (the power of the comparison).

Both are shown by one standard. A comparison claims a range: above 0, within a margin, near a
figure. Its p is the two-sided p of the nearest end of that range, after Holm's correction over all
comparisons of the claim; below 0.05 it holds if the figure lies inside, and is refuted if it lies
outside. So a claim about systems that differ by chance alone is decided, either way, in 5 % of all
cases at most. A single value has no chance in it and is taken as it stands.

A comparison is *dropped*, and counted, if it can decide nothing: the values of both systems are
identical, or a value is censored (a curve that still rises at its last round). A system whose
training diverged fails its comparison, and the text names it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from entrenous.core.errors import InputError
from entrenous.core.types import Float64Array
from entrenous.evaluation.chance import CONFIDENCE, Difference, difference
from entrenous.evaluation.distributions import t_above
from entrenous.evaluation.significance import holm

from .findings import SIGNIFICANT, as_test
from .ratios import SHARE, SIZES, about, share_over
from .render import number, p_text
from .stored import StoredResult
from .table import DIVERGED
from .values import printed

POWER = 0.8
# A figure is near the printed one if it is within a quarter of the way from the printed figure to
# that of a trivial predictor, or within a quarter of the printed figure where no predictor is.
NEAR_SHARE = 0.25
# A lead counts as level if it is less than half of a lead that the paper calls one.
HALF = 0.5

PAIRED = ("above", "lower", "level")
KINDS = (*PAIRED, *SIZES, "alike", "wider", "near", "most", "least", "same_sign")

Claim = Mapping[str, Any]
Test = Mapping[str, Any]  # of two systems, as `compared` gives it


class Standing(Enum):
    """The outcome of one comparison."""

    HOLDS = "hold"
    REFUTED = "refuted"
    UNDECIDED = "undecided"
    DROPPED = "dropped"


class Check(NamedTuple):
    """One comparison of a claim with what is stored."""

    standing: Standing
    text: str
    """Its figures, in words."""


class _Asked(NamedTuple):
    """A comparison before the correction over all of its claim."""

    text: str
    inside: bool
    """Whether the figure lies in the range that the claim says."""
    p: float
    """Two-sided, of the nearest end of that range."""
    power: str = ""
    """What so many seeds or users could show, in words."""

    def corrected(self, p: float) -> Check:
        """The outcome at the corrected `p`."""
        text = f"{self.text}; {p_text(p)}"
        if p < SIGNIFICANT:
            return Check(Standing.HOLDS if self.inside else Standing.REFUTED, text)
        return Check(Standing.UNDECIDED, text + self.power)


def _within(
    found: Difference, low: float, high: float, text: str, *, power: bool = False
) -> _Asked:
    """The claim that a figure lies between `low` and `high`."""
    if found.error == 0:
        return _Asked(text, low <= found.mean <= high, 0.0)
    # The nearest end has the larger p.
    p = max(found.p(low), found.p(high))
    said = f"; could show {number(detectable(found), 4)}" if power else ""
    return _Asked(text, low < found.mean < high, p, said)


def checks(
    claim: Claim, result: StoredResult, trivial: StoredResult | None = None
) -> Iterator[Check]:
    """Yields every comparison of a claim: for each data set and metric, each pair that it names.

    `trivial` is the result that has the figures of the claim's trivial predictor, if that is
    another one.
    """
    made = list(_asked(claim, result, trivial or result))
    family = iter(holm([one.p for one in made if isinstance(one, _Asked)]).tolist())
    for one in made:
        yield one.corrected(next(family)) if isinstance(one, _Asked) else one


def _asked(claim: Claim, result: StoredResult, trivial: StoredResult) -> Iterator[_Asked | Check]:
    known = dict.fromkeys(row["data"] for row in result.content["rows"])
    cells = [(data, metric) for data in claim.get("data", known) for metric in claim["metrics"]]
    for data, metric in cells:
        for kind in PAIRED:
            for a, b in claim.get(kind, ()):
                yield from _paired(kind, claim, result, data, a, b, metric)
        for kind in SIZES:
            for a, b, size in claim.get(kind, ()):
                yield from _sized(kind, claim, result, data, a, b, metric, size)
    for data, metric in cells:
        for four in claim.get("alike", ()):
            yield from _alike(claim, result, data, four, metric)
        for four in claim.get("wider", ()):
            yield from _wider(result, data, four, metric)
        for system in claim.get("near", ()):
            yield from _near(claim, result, trivial, data, system, metric)
        for kind in ("most", "least"):
            for system, bound in claim.get(kind, ()):
                yield from _bounded(kind, result, data, system, metric, bound)
        for a, b in claim.get("same_sign", ()):
            yield from _same_sign(result, data, a, b, metric)


# ---- two systems ---------------------------------------------------------------------------------


def _paired(
    kind: str, claim: Claim, result: StoredResult, data: str, a: str, b: str, metric: str
) -> Iterator[_Asked | Check]:
    """Compares `a` with `b`."""
    without_test = _without_test(result, data, a, b, metric)
    if without_test is not None:
        yield without_test
        return
    test = compared(result, data, a, b, metric)
    if test is None:
        return
    named = f"{data}, {metric}: `{a}` minus `{b}`"
    if "p" not in test:
        text = f"{named} {number(test['difference'], 4)}, one value of each"
        yield Check(Standing.UNDECIDED, text)
        return
    if test["difference"] == 0 and test["low"] == test["high"]:
        yield Check(Standing.DROPPED, f"{named}: the values are identical")
        return
    found = _difference_of(test)
    sign = "+" if found.mean > 0 else ""
    text = f"{named} {sign}{number(found.mean, 4)} ({_ends(found)}"
    low, high = -np.inf, np.inf
    if kind == "level":
        margin = _margin(claim, result, data, metric, b)
        text = f"{text}, margin {number(margin, 4)}"
        low = -margin
    elif kind == "above":
        low = 0.0
    else:
        high = 0.0
    yield _within(found, low, high, f"{text})", power=True)


def _sized(
    kind: str,
    claim: Claim,
    result: StoredResult,
    data: str,
    a: str,
    b: str,
    metric: str,
    size: float,
) -> Iterator[_Asked]:
    """Compares the lead of `a` over `b` with a size."""
    rows = [result.row(data, system, metric) for system in (a, b)]
    test = compared(result, data, a, b, metric)
    if test is None:
        return
    found = share_over(claim, rows) if kind == SHARE else _difference_of(test)
    text = f"{data}, {metric}: `{a}` {kind.replace('_', ' ')} over `{b}` {number(found.mean, 4)}"
    yield _within(found, *about(claim, size), f"{text} ({_ends(found)}), asked {number(size, 4)}")


def _ends(found: Difference) -> str:
    """The interval in words, and what it holds."""
    low, high = found.ends
    return f"95 % over {found.holds} {number(low, 4)} to {number(high, 4)}"


def _difference_of(test: Test) -> Difference:
    """The difference behind a test as it is stored."""
    half = (test["high"] - test["low"]) / 2
    error = half / t_above((1 - CONFIDENCE) / 2, test["freedom"])
    return Difference(
        test["difference"], float(error), test["freedom"], test["users"], test["seeds"]
    )


def _without_test(result: StoredResult, data: str, a: str, b: str, metric: str) -> Check | None:
    """The check of a pair that needs no test: one diverged, or is censored. None for the others."""
    for system, consequence in ((a, Standing.REFUTED), (b, Standing.DROPPED)):
        row = result.row(data, system, metric)
        if row is None:
            continue
        if row["obtained"] is None and _diverged(row):
            return Check(consequence, f"{data}, {metric}: `{system}` diverged")
        if any(row.get("censored", ())):
            return Check(Standing.DROPPED, _censored_text(data, metric, system))
    return None


def _diverged(row: Mapping[str, Any]) -> bool:
    """Whether a row has no figure because the training diverged."""
    return DIVERGED in row.get("protocol", "")


def _censored_text(data: str, metric: str, system: str) -> str:
    return f"{data}, {metric}: `{system}` still rises at its last round"


def compared(result: StoredResult, data: str, a: str, b: str, metric: str) -> Test | None:
    """Returns the stored test of two systems, or else a test over seeds. Returns None if a figure
    is missing.
    """
    return result.tested(data, a, b, metric) or over_seeds(result, data, a, b, metric)


def over_seeds(result: StoredResult, data: str, a: str, b: str, metric: str) -> Test | None:
    """Returns a test over the values of two rows, which are those of seeds or folds. Returns None
    if a figure is missing.
    """
    x = _values(result, data, a, metric)
    y = _values(result, data, b, metric)
    if x is None or y is None:
        return None
    about = {"data": data, "metric": metric, "a": a, "b": b}
    if len(x) != len(y) or len(x) < 2:
        return {**about, "difference": float(x.mean() - y.mean())}
    return {**about, **as_test(_of_seeds(x, y))}


def _of_seeds(x: Float64Array, y: Float64Array) -> Difference:
    """The difference over seeds of two columns."""
    return difference(x[:, None], y[:, None])


def detectable(found: Difference) -> float:
    """The smallest true difference that such a test finds in four of five repetitions.

    It is (t at 97.5 % + t at 80 %) standard errors, with the degrees of freedom of the test.

    >>> # 5 pairs, standard error 1: t of 4 degrees of freedom is 2.776 and 0.941
    >>> round(detectable(Difference(0, 1, 4, 1, 5)), 3)
    3.717
    """
    t_confidence = t_above((1 - CONFIDENCE) / 2, found.freedom)
    return float((t_confidence + t_above(1 - POWER, found.freedom)) * found.error)


def _margin(claim: Claim, result: StoredResult, data: str, metric: str, system: str) -> float:
    """The margin within which two systems are level, in the unit of the metric.

    `margin_of` names two systems of which the paper says that one is better. The margin is half of
    their printed difference, as a share of the lesser printed figure, times our figure of `system`.
    `margin` is a plain number, for what the paper prints no difference of.
    """
    if "margin" in claim:
        return float(claim["margin"])
    lead = claim["margin_of"]
    figures = printed(lead["paper"], lead["section"])
    where = lead.get("data", data)
    unit = lead.get("metric", metric)
    better = figures[where, lead["better"], unit]
    worse = figures[where, lead["worse"], unit]
    figure = _figure(result, data, system, metric)
    if figure is None:
        raise InputError(
            claim["says"],
            f"no figure of {system} on {data}, {metric}",
            expected="a row of the stored result, of which the margin is a share",
        )
    share = HALF * abs(better - worse) / min(better, worse)
    return share * abs(figure)


# ---- changes, figures, signs ---------------------------------------------------------------------


def _alike(
    claim: Claim, result: StoredResult, data: str, four: Sequence[str], metric: str
) -> Iterator[_Asked]:
    """Compares the change from `four[1]` to `four[0]` with that from `four[3]` to `four[2]`."""
    values = [_values(result, data, system, metric) for system in four]
    if any(value is None for value in values):
        return
    after_a, before_a, after_b, before_b = (value for value in values if value is not None)
    if len({len(after_a), len(before_a), len(after_b), len(before_b)}) > 1 or len(after_a) < 2:
        return
    change_a = after_a - before_a
    change_b = after_b - before_b
    margin = _margin(claim, result, data, metric, four[1])
    found = _of_seeds(change_a, change_b)
    text = (
        f"{data}, {metric}: `{four[0]}` {number(float(change_a.mean()), 4)}, `{four[2]}`"
        f" {number(float(change_b.mean()), 4)} (their difference: {_ends(found)}, margin"
        f" {number(margin, 4)})"
    )
    yield _within(found, -margin, margin, text, power=True)


def _wider(
    result: StoredResult, data: str, four: Sequence[str], metric: str
) -> Iterator[_Asked | Check]:
    """Compares the size of the change from `four[1]` to `four[0]` with that from `four[3]` to
    `four[2]`: the first is the larger.
    """
    values = [_values(result, data, system, metric) for system in four]
    present = [value for value in values if value is not None]
    if len(present) < len(four):
        return
    if len({len(value) for value in present}) > 1 or len(present[0]) < 2:
        return
    wide = np.abs(present[0] - present[1])
    narrow = np.abs(present[2] - present[3])
    if np.array_equal(wide, narrow):
        text = f"{data}, {metric}: `{four[0]}` and `{four[2]}` change alike"
        yield Check(Standing.DROPPED, text)
        return
    found = _of_seeds(wide, narrow)
    text = (
        f"{data}, {metric}: `{four[0]}` changes by {number(float(wide.mean()), 4)}, `{four[2]}` by"
        f" {number(float(narrow.mean()), 4)} (the first minus the second: {_ends(found)})"
    )
    yield _within(found, 0.0, np.inf, text)


def _near(
    claim: Claim,
    result: StoredResult,
    trivial_result: StoredResult,
    data: str,
    system: str,
    metric: str,
) -> Iterator[_Asked | Check]:
    """Compares a figure with the printed one.

    With `trivial`, the distance is measured against that of a trivial predictor on the same rows,
    such as popularity or a user's mean, which therefore never passes.
    """
    row = result.row(data, system, metric)
    if row is None:
        return
    paper = row["paper"] or claim.get("printed")
    if not paper:
        return
    if row["obtained"] is None:
        if _diverged(row):
            yield Check(Standing.REFUTED, f"{data}, {metric}: `{system}` diverged")
        return
    if any(row.get("censored", ())):
        yield Check(Standing.DROPPED, _censored_text(data, metric, system))
        return
    text = f"{data}, {metric}: `{system}` {number(row['obtained'])}, printed {number(paper)}"
    distance = NEAR_SHARE * paper
    if "trivial" in claim:
        predictor = claim["trivial"]
        trivial = _figure(trivial_result, data, predictor, metric)
        if trivial is None:
            yield Check(Standing.UNDECIDED, f"{text}, no figure of `{predictor}`")
            return
        distance = NEAR_SHARE * abs(paper - trivial)
        text = f"{text}, `{predictor}` {number(trivial)}"
    yield _within(_figure_of(row), paper - distance, paper + distance, text)


def _bounded(
    kind: str, result: StoredResult, data: str, system: str, metric: str, bound: float
) -> Iterator[_Asked | Check]:
    """Compares a figure with a bound: `most` asks for no more, `least` for no less."""
    row = result.row(data, system, metric)
    if row is None:
        return
    if row["obtained"] is None:
        if _diverged(row):
            yield Check(Standing.REFUTED, f"{data}, {metric}: `{system}` diverged")
        return
    figure = number(row["obtained"])
    text = f"{data}, {metric}: `{system}` {figure}, asked at {kind} {number(bound)}"
    low, high = (bound, np.inf) if kind == "least" else (-np.inf, bound)
    yield _within(_figure_of(row), low, high, text)


def _same_sign(result: StoredResult, data: str, a: str, b: str, metric: str) -> Iterator[_Asked]:
    rows = [result.row(data, system, metric) for system in (a, b)]
    present = [row for row in rows if row is not None and row["obtained"] is not None]
    if len(present) < 2:
        return
    text = f"{data}, {metric}: `{a}` {number(present[0]['obtained'])}, `{b}`" + (
        f" {number(present[1]['obtained'])}"
    )
    first, second = map(_figure_of, present)
    # Both signs must be shown.
    yield _Asked(text, first.mean * second.mean > 0, max(first.p(), second.p()))


def _figure_of(row: Mapping[str, Any]) -> Difference:
    """A figure over seeds or folds; without error if it has one value."""
    values = np.array(row.get("values") or [row["obtained"]], np.float64)
    if len(values) < 2:
        return Difference(float(values[0]), 0.0, 1.0, 1, 1)
    return _of_seeds(values, np.zeros(len(values)))


def _values(result: StoredResult, data: str, system: str, metric: str) -> Float64Array | None:
    """A figure of each seed or fold; the one figure if there are none; None without a figure."""
    row = result.row(data, system, metric)
    if row is None or row["obtained"] is None:
        return None
    return np.array(row.get("values") or [row["obtained"]], np.float64)


def _figure(result: StoredResult, data: str, system: str, metric: str) -> float | None:
    row = result.row(data, system, metric)
    if row is None or row["obtained"] is None:
        return None
    return float(row["obtained"])
