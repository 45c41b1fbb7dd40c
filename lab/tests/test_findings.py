"""What tables of papers test: pairs of systems over users, with Holm's correction over the pairs of
a metric, by hand.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from entrenous_lab.papers import findings
from entrenous_lab.papers.cell import CurvePoint
from scipy import stats

from entrenous.evaluation.significance import holm

USERS = {
    "a": [0.9, 0.8, 0.7, 0.9, 0.6],
    "b": [0.8, 0.7, 0.7, 0.7, 0.4],
    "c": [0.8, 0.8, 0.6, 0.9, 0.5],
    "d": [0.1, 0.3, 0.2, 0.3, 0.1],
}


def trained(*metrics: str) -> Any:
    """What is tested of a table: systems of one seed, each with the same values in every metric."""
    looks = {
        name: [CurvePoint(1, 1, {}, {}, {}, dict.fromkeys(metrics, values))]
        for name, values in USERS.items()
    }
    return SimpleNamespace(name="d", looks=looks)


def test_holm_over_three_by_hand() -> None:
    """The smallest p counts three times, the next twice, the largest once, and none less than the
    one before.
    """
    found = findings.against(trained("m", "n"), "a", ["b", "c", "d"], ["m", "n"])  # type: ignore[arg-type]
    assert [(one["metric"], one["b"]) for one in found] == [
        (metric, other) for metric in "mn" for other in "bcd"
    ]
    p = {other: stats.ttest_rel(USERS["a"], USERS[other]).pvalue for other in "bcd"}
    first, second, third = sorted(p, key=lambda other: p[other])
    assert (first, second, third) == ("d", "b", "c") and 0.001 < 2 * p["b"] < 0.5
    by_hand = {first: 3 * p[first], second: max(3 * p[first], 2 * p[second])}
    by_hand[third] = max(by_hand[second], p[third])
    for one in found:  # over the three pairs of its metric, not over all six
        assert one["p"] == pytest.approx(p[one["b"]]) and one["p_holm"] == pytest.approx(
            by_hand[one["b"]]
        )
    assert by_hand[second] > 1.5 * p[second]


def test_pairs_are_corrected_together_whoever_they_are_of() -> None:
    pairs = [("a", "b"), ("c", "d"), ("b", "d")]
    found = findings.tested_pairs(trained("m"), pairs, ["m"])  # type: ignore[arg-type]
    assert [(one["a"], one["b"]) for one in found] == pairs
    assert [one["p_holm"] for one in found] == pytest.approx(holm([one["p"] for one in found]))
    assert any(one["p_holm"] != one["p"] for one in found)


def test_the_words_follow_the_corrected_p() -> None:
    test = {"a": "x", "b": "y", "difference": -0.02, "low": -0.03, "high": 0.01, "p": 0.02}
    test["holds"] = "users and seeds"
    ends = "95 % over users and seeds -0.0300 to +0.0100"
    assert (
        findings.verdict({**test, "p_holm": 0.04}) == f"x is below y by 0.0200 ({ends}, p = 0.04)"
    )
    assert (
        findings.verdict({**test, "p_holm": 0.06})
        == f"x is not told apart from y, -0.0200 ({ends}, p = 0.06)"
    )
