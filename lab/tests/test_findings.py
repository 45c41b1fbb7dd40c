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


def test_holm_over_three_pairs_by_hand() -> None:
    """The smallest p counts three times, the next twice, the largest once, and none less than the
    one before. Whoever the pairs are of, those of one metric are corrected together.
    """
    pairs = [("a", "b"), ("a", "c"), ("d", "b")]
    found = findings.tested_pairs(trained("m", "n"), pairs, ["m", "n"])  # type: ignore[arg-type]
    assert [(one["metric"], one["a"], one["b"]) for one in found] == [
        (metric, *pair) for metric in "mn" for pair in pairs
    ]
    p = [stats.ttest_rel(USERS[a], USERS[b]).pvalue for a, b in pairs]
    assert p[2] < p[0] < p[1] < 0.5
    twice = max(3 * p[2], 2 * p[0])
    assert [one["p"] for one in found] == pytest.approx([*p, *p])
    by_hand = [twice, max(twice, p[1]), 3 * p[2]]
    assert [one["p_holm"] for one in found] == pytest.approx([*by_hand, *by_hand])


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
