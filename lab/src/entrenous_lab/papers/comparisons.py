"""Comparisons that a claim of a paper asks for, each held against stored results.

A comparison holds, is refuted, or is undecided:

- it *holds* if the stored figures show what the claim says, at 95 % confidence;
- it is *refuted* if the 95 % interval excludes what the claim says;
- it is *undecided* otherwise, with the smallest difference that so many seeds or users would show
  in four of five repetitions (the power of the comparison).

A comparison is *dropped*, and counted, if it can decide nothing: the values of both systems are
identical, or a value is censored (a curve that still rises at its last round). A system whose
training diverged fails its comparison, and the text names it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from entrenous.core.errors import InputError
from entrenous.core.types import Float64Array
from entrenous.evaluation.distributions import t_above
from entrenous.evaluation.significance import holm, interval, paired_t

from .findings import SIGNIFICANT
from .render import difference, number
from .stored import StoredResult
from .table import DIVERGED
from .values import printed

CONFIDENCE = 0.95
POWER = 0.8
# A figure is near the printed one if it is within a quarter of the way from the printed figure to
# that of a trivial predictor, or within a quarter of the printed figure where no predictor is.
NEAR_SHARE = 0.25
# A lead counts as level if it is less than half of a lead that the paper calls one.
HALF = 0.5
OVER_SEEDS = "over seeds"  # in a test that is not over users: how many values each system has

PAIRED = ("above", "lower", "level")
KINDS = (*PAIRED, "alike", "wider", "near", "most", "least", "same_sign")

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


class _Range(NamedTuple):
    """The 95 % interval of a figure or of a difference."""

    low: float
    high: float

    def within(self, low: float, high: float) -> Standing:
        """The standing of the claim that the figure lies between `low` and `high`."""
        if low < self.low and self.high < high:
            return Standing.HOLDS
        if self.high <= low or high <= self.low:
            return Standing.REFUTED
        return Standing.UNDECIDED


def checks(
    claim: Claim, result: StoredResult, trivial: StoredResult | None = None
) -> Iterator[Check]:
    """Yields every comparison of a claim: for each data set and metric, each pair that it names.

    `trivial` is the result that has the figures of the claim's trivial predictor, if that is
    another one.
    """
    known = dict.fromkeys(row["data"] for row in result.content["rows"])
    about = [(data, metric) for data in claim.get("data", known) for metric in claim["metrics"]]
    yield from _paired_checks(claim, result, about)
    for data, metric in about:
        for four in claim.get("alike", ()):
            yield from _alike(claim, result, data, four, metric)
        for four in claim.get("wider", ()):
            yield from _wider(result, data, four, metric)
        for system in claim.get("near", ()):
            yield from _near(claim, result, trivial or result, data, system, metric)
        for kind in ("most", "least"):
            for system, bound in claim.get(kind, ()):
                yield from _bounded(kind, result, data, system, metric, bound)
        for a, b in claim.get("same_sign", ()):
            yield from _same_sign(result, data, a, b, metric)


# ---- two systems ---------------------------------------------------------------------------------


def _paired_checks(
    claim: Claim, result: StoredResult, about: Sequence[tuple[str, str]]
) -> Iterator[Check]:
    asked = list[tuple[str, Test]]()
    for data, metric in about:
        for kind in PAIRED:
            for a, b in claim.get(kind, ()):
                without_test = _without_test(result, data, a, b, metric)
                if without_test is not None:
                    yield without_test
                    continue
                test = compared(result, data, a, b, metric)
                if test is not None:
                    asked.append((kind, test))
    for kind, test in _corrected(asked):
        yield _paired(kind, test, claim, result)


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
    """Returns a paired t over the values of two rows, which are those of seeds or folds. Returns
    None if a figure is missing.
    """
    x = _values(result, data, a, metric)
    y = _values(result, data, b, metric)
    if x is None or y is None:
        return None
    about = {"data": data, "metric": metric, "a": a, "b": b}
    if len(x) != len(y) or len(x) < 2:
        return {**about, "difference": float(x.mean() - y.mean())}
    test = paired_t(x, y)
    low, high = interval(x, y, CONFIDENCE)
    return {
        **about,
        "difference": test.difference,
        "low": low,
        "high": high,
        "p_holm": test.p,
        OVER_SEEDS: len(x),
    }


def _corrected(asked: Sequence[tuple[str, Test]]) -> list[tuple[str, Test]]:
    """Corrects the p of comparisons over seeds by Holm, over those of one metric and data set.

    Comparisons over users have the p of their table, which is corrected already.
    """
    families: dict[tuple[str, str], list[int]] = defaultdict(list)
    for place, (kind, test) in enumerate(asked):
        if kind != "level" and OVER_SEEDS in test:
            families[test["data"], test["metric"]].append(place)
    corrected = [*asked]
    for places in families.values():
        adjusted = holm([asked[place][1]["p_holm"] for place in places])
        for place, p in zip(places, adjusted.tolist(), strict=True):
            kind, test = asked[place]
            corrected[place] = kind, {**test, "p_holm": p}
    return corrected


def _paired(kind: str, test: Test, claim: Claim, result: StoredResult) -> Check:
    named = f"{test['data']}, {test['metric']}: `{test['a']}` minus `{test['b']}`"
    if "p_holm" not in test:
        text = f"{named} {number(test['difference'], 4)}, one value of each"
        return Check(Standing.UNDECIDED, text)
    if test["difference"] == 0 and test["low"] == test["high"]:
        return Check(Standing.DROPPED, f"{named}: the values are identical")
    text = f"{named} {difference(test, 4)}"
    if kind == "level":
        margin = _margin(claim, result, test["data"], test["metric"], test["b"])
        text = f"{text}, margin {number(margin, 4)}"
        standing = _Range(test["low"], test["high"]).within(-margin, np.inf)
    else:
        standing = _one_sided(kind, test)
    if standing is Standing.UNDECIDED:
        text = f"{text}; could show {number(detectable(test), 4)}"
    return Check(standing, text)


def _one_sided(kind: str, test: Test) -> Standing:
    """The standing of "a is above b" or "a is lower than b"."""
    sign = 1 if kind == "above" else -1
    if test["p_holm"] < SIGNIFICANT and sign * test["difference"] > 0:
        return Standing.HOLDS
    most = sign * test["high"] if kind == "above" else sign * test["low"]
    return Standing.REFUTED if most <= 0 else Standing.UNDECIDED


def detectable(test: Test) -> float:
    """The smallest true difference that such a test finds in four of five repetitions.

    It is (t at 97.5 % + t at 80 %) standard errors, with the degrees of freedom of the test.

    >>> # 5 pairs, standard error 1: t of 4 degrees of freedom is 2.776 and 0.941
    >>> round(detectable({"low": -2.776, "high": 2.776, "over seeds": 5}), 3)
    3.717
    """
    pairs = test.get(OVER_SEEDS) or test.get("users") or 2
    freedom = pairs - 1
    t_confidence = t_above((1 - CONFIDENCE) / 2, freedom)
    standard_error = (test["high"] - test["low"]) / 2 / t_confidence
    return float((t_confidence + t_above(1 - POWER, freedom)) * standard_error)


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
) -> Iterator[Check]:
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
    ends = _Range(*interval(change_a, change_b, CONFIDENCE))
    standing = ends.within(-margin, margin)
    text = (
        f"{data}, {metric}: `{four[0]}` {number(float(change_a.mean()), 4)}, `{four[2]}`"
        f" {number(float(change_b.mean()), 4)} (95 % of their difference {number(ends.low, 4)} to"
        f" {number(ends.high, 4)}, margin {number(margin, 4)})"
    )
    if standing is Standing.UNDECIDED:
        test = {"low": ends.low, "high": ends.high, OVER_SEEDS: len(after_a)}
        text = f"{text}; could show {number(detectable(test), 4)}"
    yield Check(standing, text)


def _wider(result: StoredResult, data: str, four: Sequence[str], metric: str) -> Iterator[Check]:
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
    ends = _Range(*interval(wide, narrow, CONFIDENCE))
    text = (
        f"{data}, {metric}: `{four[0]}` changes by {number(float(wide.mean()), 4)}, `{four[2]}` by"
        f" {number(float(narrow.mean()), 4)} (95 % of the first minus the second"
        f" {number(ends.low, 4)} to {number(ends.high, 4)})"
    )
    yield Check(ends.within(0.0, np.inf), text)


def _near(
    claim: Claim,
    result: StoredResult,
    trivial_result: StoredResult,
    data: str,
    system: str,
    metric: str,
) -> Iterator[Check]:
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
    ends = _interval_of(row)
    yield Check(ends.within(paper - distance, paper + distance), text)


def _bounded(
    kind: str, result: StoredResult, data: str, system: str, metric: str, bound: float
) -> Iterator[Check]:
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
    ends = _interval_of(row)
    above = ends.low - bound
    below = ends.high - bound
    if kind == "least":
        above, below = -below, -above
    standing = Standing.UNDECIDED
    if below <= 0:
        standing = Standing.HOLDS
    elif above > 0:
        standing = Standing.REFUTED
    yield Check(standing, text)


def _same_sign(result: StoredResult, data: str, a: str, b: str, metric: str) -> Iterator[Check]:
    rows = [result.row(data, system, metric) for system in (a, b)]
    present = [row for row in rows if row is not None and row["obtained"] is not None]
    if len(present) < 2:
        return
    signs = [_sign(_interval_of(row)) for row in present]
    text = f"{data}, {metric}: `{a}` {number(present[0]['obtained'])}, `{b}`" + (
        f" {number(present[1]['obtained'])}"
    )
    if 0 in signs:
        yield Check(Standing.UNDECIDED, text)
    else:
        yield Check(Standing.HOLDS if signs[0] == signs[1] else Standing.REFUTED, text)


def _sign(ends: _Range) -> int:
    """The sign of a figure: 0 if its interval holds 0."""
    if ends.low > 0:
        return 1
    return -1 if ends.high < 0 else 0


def _interval_of(row: Mapping[str, Any]) -> _Range:
    """The 95 % interval of a figure over seeds or folds; the figure itself if it has one value."""
    values = np.array(row.get("values") or [row["obtained"]], np.float64)
    if len(values) < 2:
        return _Range(float(values[0]), float(values[0]))
    return _Range(*interval(values, np.zeros(len(values)), CONFIDENCE))


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
