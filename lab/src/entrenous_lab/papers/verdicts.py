"""Whether a claim of a paper is reproduced, by what stored results say: `claims/<paper>.toml` lists
the claims and what each asks for.

A claim asks for comparisons, each of a metric on every data set that it names: above = [["a", "b"]]
    a above b, paired t over users with Holm's correction; over seeds or folds where users were not
    kept,
                                  with Holm's correction over the claim's comparisons on that metric
                                  and data set
    lower = [["a", "b"]]          a below b, of errors, bytes, seconds and rounds level = [["a",
    "b"]]          the 95 % interval of a minus b stays within `margin` of 0 on the side that would
    be worse for a alike = [["a", "A", "b", "B"]]  that of (a - A) - (b - B), over seeds, stays
    within `margin` of 0 on both sides near = ["a"]                  a's figure within a quarter of
    the printed one: of its row, or `printed` where the paper names no system most = [["a", 0.05]]
    a's figure is at most that same_sign = [["a", "b"]]      both are above 0, or both below
Reproduced: all hold; partly: some; not: none. Without any it is not tested, and `why` says why. A
verdict on a quick result says that it is one, one on a part says of which data sets it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from entrenous.core.types import Float64Array
from entrenous.evaluate.significance import holm, interval, paired_t

from .findings import NEAR, SIGNIFICANT
from .render import difference, number
from .stored import StoredResult
from .values import stored

REPRODUCED, PARTLY, NOT, NOT_TESTED, NOT_RUN = (
    "reproduced",
    "partly",
    "not",
    "not tested",
    "not run yet",
)
EXCERPT = "excerpt"  # beside the verdict on a quick result
SHOWN, LISTED = 2, ", "  # comparisons in a line; between data sets
PAIRED, KINDS = (
    ("above", "lower", "level"),
    ("above", "lower", "level", "alike", "near", "most", "same_sign"),
)

OVER_SEEDS = "over seeds"  # how many values of each system a test has that is not one over users

Test = Mapping[str, Any]  # of two systems, as `compared` gives it


class ClaimCheck(NamedTuple):
    """One comparison. holds: whether it is as the claim has it, None where single values allow no
    test; said: its figures.
    """

    holds: bool | None
    said: str


class JudgedClaim(NamedTuple):
    """A line of the page of claims."""

    where: str
    says: str
    verdict: str
    command: str
    said: str


def judged(paper: str, results: Mapping[str, StoredResult]) -> list[JudgedClaim]:
    """Every claim of a paper with its verdict."""
    return [_judged(claim, results) for claim in stored("claims", paper)["claims"]]


def _judged(claim: Mapping[str, Any], results: Mapping[str, StoredResult]) -> JudgedClaim:
    name = claim.get("by", "")
    command = f"`entrenous experiment {name}`" if name else ""
    if not any(kind in claim for kind in KINDS):
        return JudgedClaim(claim["where"], claim["says"], NOT_TESTED, command, claim.get("why", ""))
    if name not in results:
        return JudgedClaim(claim["where"], claim["says"], NOT_RUN, command, "")
    result = results[name]
    checks = list(_checks(claim, result))
    if not checks and result.only:
        return JudgedClaim(claim["where"], claim["says"], NOT_RUN, command, "")
    tested = [check.holds for check in checks if check.holds is not None]
    verdict = (
        NOT_TESTED if not tested else REPRODUCED if all(tested) else PARTLY if any(tested) else NOT
    )
    said = [check.said for check in checks[:SHOWN]]
    counted = [f"{sum(tested)} of {len(tested)} hold"] if len(tested) > 1 else []
    if result.quick or result.only:
        verdict = f"{verdict} ({EXCERPT if result.quick else f'{LISTED.join(result.only)} alone'})"
    more = [claim["why"]] if claim.get("why") else []
    return JudgedClaim(
        claim["where"], claim["says"], verdict, command, "; ".join([*counted, *said, *more])
    )


def _checks(claim: Mapping[str, Any], result: StoredResult) -> Iterator[ClaimCheck]:
    known = dict.fromkeys(row["data"] for row in result.content["rows"])
    about = [(data, metric) for data in claim.get("data", known) for metric in claim["metrics"]]
    pairs = [(kind, *pair) for kind in PAIRED for pair in claim.get(kind, ())]
    asked = [
        (kind, compared(result, data, a, b, metric))
        for data, metric in about
        for kind, a, b in pairs
    ]
    for kind, test in _corrected([(kind, test) for kind, test in asked if test]):
        yield _check(kind, test, claim.get("margin", 0.0))
    for data, metric in about:
        for four in claim.get("alike", ()):
            yield from _alike(result, data, four, metric, claim["margin"])
        for system in claim.get("near", ()):
            yield from _near(result, data, system, metric, claim.get("printed"))
        for system, bound in claim.get("most", ()):
            yield from _most(result, data, system, metric, bound)
        for a, b in claim.get("same_sign", ()):
            yield from _same_sign(result, data, a, b, metric)


def _corrected(asked: Sequence[tuple[str, Test]]) -> list[tuple[str, Test]]:
    """Those over seeds or folds with Holm's p, over the comparisons on a metric and data set; those
    over users have it of their table.
    """
    families: dict[tuple[str, str], list[int]] = defaultdict(list)
    for place, (kind, test) in enumerate(asked):
        if kind != "level" and OVER_SEEDS in test:
            families[test["data"], test["metric"]].append(place)
    out = [*asked]
    for places in families.values():
        for place, p in zip(
            places, holm([asked[place][1]["p_holm"] for place in places]).tolist(), strict=True
        ):
            out[place] = asked[place][0], {**asked[place][1], "p_holm": p}
    return out


def _check(kind: str, test: Test, margin: float) -> ClaimCheck:
    named = f"{test['data']}, {test['metric']}: `{test['a']}` minus `{test['b']}`"
    if "p_holm" not in test:
        return ClaimCheck(None, f"{named} {number(test['difference'], 4)}, one value of each")
    sure = test["p_holm"] < SIGNIFICANT and (test["difference"] > 0) is (kind == "above")
    return ClaimCheck(
        test["low"] > -margin if kind == "level" else sure, f"{named} {difference(test, 4)}"
    )


def compared(result: StoredResult, data: str, a: str, b: str, metric: str) -> Test | None:
    """The stored test of two systems; else one over the seeds or folds of their rows; None where a
    figure is missing.
    """
    if found := result.tested(data, a, b, metric):
        return found
    x, y = (_values(result, data, system, metric) for system in (a, b))
    if x is None or y is None:
        return None
    about = {"data": data, "metric": metric, "a": a, "b": b}
    if len(x) != len(y) or len(x) < 2:
        return {**about, "difference": float(x.mean() - y.mean())}
    test, (low, high) = paired_t(x, y), interval(x, y)
    return {
        **about,
        "difference": test.difference,
        "low": low,
        "high": high,
        "p_holm": test.p,
        OVER_SEEDS: len(x),
    }


def _values(result: StoredResult, data: str, system: str, metric: str) -> Float64Array | None:
    """A figure of each seed or fold; the one figure where there are none; None without a figure."""
    row = result.row(data, system, metric)
    if row is None or row["obtained"] is None:
        return None
    return np.array(row.get("values") or [row["obtained"]], np.float64)


def _alike(
    result: StoredResult, data: str, four: Sequence[str], metric: str, margin: float
) -> Iterator[ClaimCheck]:
    values = [_values(result, data, system, metric) for system in four]
    a, before_a, b, before_b = (np.empty(0) if some is None else some for some in values)
    if len({len(a), len(before_a), len(b), len(before_b)}) == 1 and len(a) > 1:
        low, high = interval(a - before_a, b - before_b)
        change, other = float((a - before_a).mean()), float((b - before_b).mean())
        ends = (
            f"95 % of their difference {number(low, 4)} to {number(high, 4)}, margin"
            f" {number(margin)}"
        )
        said = (
            f"{data}, {metric}: `{four[0]}` {number(change, 4)}, `{four[2]}` {number(other, 4)}"
            f" ({ends})"
        )
        yield ClaimCheck(-margin < low and high < margin, said)


def _near(
    result: StoredResult, data: str, system: str, metric: str, printed: float | None
) -> Iterator[ClaimCheck]:
    row = result.row(data, system, metric)
    if row is not None and row["obtained"] is not None and (paper := row["paper"] or printed):
        ratio = row["obtained"] / paper
        said = f"{data}, {metric}: `{system}` {number(row['obtained'])}, printed {number(paper)}"
        yield ClaimCheck(1 / NEAR <= ratio <= NEAR, said)


def _most(
    result: StoredResult, data: str, system: str, metric: str, bound: float
) -> Iterator[ClaimCheck]:
    if (figure := _figure(result, data, system, metric)) is not None:
        yield ClaimCheck(
            figure <= bound,
            f"{data}, {metric}: `{system}` {number(figure)}, asked at most {number(bound)}",
        )


def _same_sign(
    result: StoredResult, data: str, a: str, b: str, metric: str
) -> Iterator[ClaimCheck]:
    x, y = (_figure(result, data, system, metric) for system in (a, b))
    if x is not None and y is not None:
        yield ClaimCheck(x * y > 0, f"{data}, {metric}: `{a}` {number(x)}, `{b}` {number(y)}")


def _figure(result: StoredResult, data: str, system: str, metric: str) -> float | None:
    row = result.row(data, system, metric)
    return None if row is None or row["obtained"] is None else float(row["obtained"])
