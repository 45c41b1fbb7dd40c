"""Whether a claim of a paper is reproduced, by what stored results say: `claims/<paper>.toml` lists the claims and what each asks for.

A claim asks for comparisons, each of a metric on every data set that it names:
    above = [["a", "b"]]     a above b, paired t over users with Holm's correction, or over seeds or folds where users were not kept
    lower = [["a", "b"]]     a below b, of errors, bytes, seconds and rounds
    level = [["a", "b"]]     the 95 % interval of a minus b stays within `margin` of 0 on the side that would be worse for a
    near = ["a"]             a's figure within a quarter of the printed one
Reproduced: all hold; partly: some; not: none. Without any it is not tested, and `why` says why. A verdict on a quick result says
that it is one, one on a part says of which data sets it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..evaluate.significance import interval, paired_t
from .findings import NEAR, SIGNIFICANT
from .render import difference, number
from .stored import StoredResult
from .values import stored

REPRODUCED, PARTLY, NOT, NOT_TESTED, NOT_RUN = "reproduced", "partly", "not", "not tested", "not run yet"
EXCERPT = "excerpt"  # beside the verdict on a quick result
SHOWN, LISTED = 2, ", "  # comparisons in a line; between data sets


class ClaimCheck(NamedTuple):
    """One comparison. holds: whether it is as the claim has it, None where single values allow no test; said: its figures."""

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
    if not any(kind in claim for kind in ("above", "lower", "level", "near")):
        return JudgedClaim(claim["where"], claim["says"], NOT_TESTED, command, claim.get("why", ""))
    if name not in results:
        return JudgedClaim(claim["where"], claim["says"], NOT_RUN, command, "")
    result = results[name]
    checks = list(_checks(claim, result))
    if not checks and result.only:
        return JudgedClaim(claim["where"], claim["says"], NOT_RUN, command, "")
    tested = [check.holds for check in checks if check.holds is not None]
    verdict = NOT_TESTED if not tested else REPRODUCED if all(tested) else PARTLY if any(tested) else NOT
    said = [check.said for check in checks[:SHOWN]]
    counted = [f"{sum(tested)} of {len(tested)} hold"] if len(tested) > 1 else []
    if result.quick or result.only:
        verdict = f"{verdict} ({EXCERPT if result.quick else f'{LISTED.join(result.only)} alone'})"
    more = [claim["why"]] if claim.get("why") else []
    return JudgedClaim(claim["where"], claim["says"], verdict, command, "; ".join([*counted, *said, *more]))


def _checks(claim: Mapping[str, Any], result: StoredResult) -> Iterator[ClaimCheck]:
    known = dict.fromkeys(row["data"] for row in result.content["rows"])
    for data in claim.get("data", known):
        for metric in claim["metrics"]:
            for kind in ("above", "lower", "level"):
                for a, b in claim.get(kind, ()):
                    if found := compared(result, data, a, b, metric):
                        yield _check(kind, found, claim.get("margin", 0.0))
            for system in claim.get("near", ()):
                yield from _near(result, data, system, metric)


def _check(kind: str, test: Mapping[str, Any], margin: float) -> ClaimCheck:
    named = f"{test['data']}, {test['metric']}: `{test['a']}` minus `{test['b']}`"
    if "p_holm" not in test:
        return ClaimCheck(None, f"{named} {number(test['difference'], 4)}, one value of each")
    sure = test["p_holm"] < SIGNIFICANT and (test["difference"] > 0) is (kind == "above")
    return ClaimCheck(test["low"] > -margin if kind == "level" else sure, f"{named} {difference(test, 4)}")


def compared(result: StoredResult, data: str, a: str, b: str, metric: str) -> Mapping[str, Any] | None:
    """The stored test of two systems; else one over the seeds or folds of their rows; None where a figure is missing."""
    if found := result.tested(data, a, b, metric):
        return found
    rows = [result.row(data, system, metric) for system in (a, b)]
    if any(row is None or row["obtained"] is None for row in rows):
        return None
    x, y = ([float(value) for value in (row or {}).get("values") or [(row or {})["obtained"]]] for row in rows)
    about = {"data": data, "metric": metric, "a": a, "b": b}
    if len(x) != len(y) or len(x) < 2:
        return {**about, "difference": sum(x) / len(x) - sum(y) / len(y)}
    test, (low, high) = paired_t(np.array(x), np.array(y)), interval(np.array(x), np.array(y))
    return {**about, "difference": test.difference, "low": low, "high": high, "p_holm": test.p}


def _near(result: StoredResult, data: str, system: str, metric: str) -> Iterator[ClaimCheck]:
    row = result.row(data, system, metric)
    if row is not None and row["obtained"] is not None and row["paper"]:
        ratio = row["obtained"] / row["paper"]
        said = f"{data}, {metric}: `{system}` {number(row['obtained'])}, printed {number(row['paper'])}"
        yield ClaimCheck(1 / NEAR <= ratio <= NEAR, said)
