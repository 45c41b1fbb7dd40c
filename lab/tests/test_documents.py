"""The documentation repeats stored results as they are: what is in a block is computed, and how
many typed tables are left.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from entrenous_lab.papers.comparisons import KINDS, Check, Standing, checks
from entrenous_lab.papers.documents import filled, pages, unmarked
from entrenous_lab.papers.elsewhere import audited
from entrenous_lab.papers.findings import as_test
from entrenous_lab.papers.runner import experiments
from entrenous_lab.papers.stored import StoredResult, stored_in
from entrenous_lab.papers.values import stored
from entrenous_lab.papers.verdicts import JudgedClaim, claims_of, judged, with_rows_of
from paths import ROOT

from entrenous.core.errors import InputError
from entrenous.evaluation.chance import Difference

PAGES = pages(ROOT)
ORIGIN = {"date": "2026-01-02", "commit": "abc", "pins": {"d": "0123456789abcdef"}}
TEST = {
    "data": "d",
    "a": "x",
    "b": "y",
    "metric": "m",
    # 0.05 is 1.98 standard errors of 99 degrees of freedom.
    **as_test(Difference(0.1, 0.0252, 99, 100, 2)),
}


def row(system: str, metric: str, obtained: float | None, **more: object) -> dict[str, object]:
    return {
        "data": "d",
        "system": system,
        "metric": metric,
        "obtained": obtained,
        "paper": None,
        "reading": "",
        **more,
    }


ROWS = [
    row("x", "m", 0.6543, spread=0.01, values=[0.654, 0.655], seeds=[0, 1], paper=0.7),
    row("y", "m", None),
    row("x", "n", 12.0),
]
CONTENT = {
    "rows": ROWS,
    "notes": ["x is good.", "y is not."],
    "tests": [TEST],
    "quick": False,
    "origin": ORIGIN,
    "title": "a table",
}
STORED = {"t": StoredResult("t", CONTENT)}


def block(spec: str, content: str = "") -> str:
    return f"<!-- stored: {spec} -->{content}<!-- /stored -->"


def test_a_table_has_a_line_for_each_system_and_says_where_it_comes_from() -> None:
    text = filled(f"before\n{block('t; data=d; metrics=m; paper=yes', 'old')}\nafter", STORED)
    assert "| `x` | 0.700 | 0.654 ± 0.010 |\n| `y` | - | - |" in text and "old" not in text
    both = filled(block("t; data=d; metrics=m | n; systems=x; paper=yes"), STORED)
    assert (
        "|  | m: paper | ours | n |\n" in both and "| `x` | 0.700 | 0.654 ± 0.010 | 12 |" in both
    )  # no figure of n is printed
    assert (
        "`entrenous experiment t`; 2 seeds; 2026-01-02, commit abc; sha256 of rows d 0123456789ab"
        in text
    )
    assert text.startswith("before\n") and text.endswith("\nafter") and filled(text, STORED) == text
    assert "(`--quick`), not the full table" in filled(
        block("t"), {"t": StoredResult("t", {**CONTENT, "quick": True})}
    )


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("u", "no result of it is stored"),
        ("t; show=value; data=d; system=z; metric=m", "no figure of d, z, m"),
        ("t; show=findings; with=bad", "no finding has"),
        ("t; data=e", "no rows of"),
        ("t; colour=red", "cannot read"),
        ("t; show=interval; data=d; system=x; other=z; metric=m", "no test of x against z"),
    ],
)
def test_a_block_that_asks_for_what_is_not_stored_is_refused(spec: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        filled(block(spec), STORED)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_filling_a_page_again_changes_nothing(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert (
        filled(text, stored_in(ROOT / "lab" / "results", experiments()), page.name) == text
    )  # else: make papers-docs


def test_what_stands_in_no_block_is_seen() -> None:
    table = "| a | b |\n| --- | --- |\n| x | 0.65 |\n"
    assert unmarked(f"{table}\n| a |\n| --- |\n| 3 |\n") == ["| a | b |"]
    assert unmarked(block("t", f"\n{table}")) == []


# ---- claims --------------------------------------------------------------------------------------


def claim(**more: object) -> dict[str, object]:
    return {"where": "1", "says": "x is good", "by": "t", "metrics": ["m"], **more}


@pytest.mark.parametrize(
    ("asked", "verdict", "said"),
    [
        (
            {"above": [["x", "y"]]},
            "reproduced",
            "`x` minus `y` +0.1000 (95 % over users and seeds 0.0500 to 0.1500)",
        ),
        ({"lower": [["x", "y"]]}, "refuted", "`x` minus `y` +0.1000"),
        (
            {"above": [["x", "y"], ["y", "x"]]},
            "partly",
            "of 2 comparisons 1 hold, 1 refuted",
        ),
        ({"level": [["x", "y"]], "margin": 0.01}, "reproduced", ""),
        ({"level": [["y", "x"]], "margin": 0.1}, "undecided", "could show"),
        ({"level": [["y", "x"]], "margin": 0.01}, "refuted", "margin 0.0100"),
        ({"level": [["y", "x"]], "margin": 0.2}, "reproduced", ""),
        ({"near": ["x"]}, "reproduced", "`x` 0.654, printed 0.700"),
        ({"near": ["x"], "metrics": ["n"], "printed": 13.0}, "reproduced", "`x` 12, printed 13"),
        ({"near": ["x"], "metrics": ["n"], "printed": 20.0}, "refuted", ""),
        ({"near": ["x"], "metrics": ["n"]}, "not tested", ""),
        ({"above": [["x", "z"]]}, "not tested", ""),
        ({"most": [["x", 0.7]]}, "reproduced", "`x` 0.654, asked at most 0.700"),
        ({"most": [["x", 0.6]]}, "refuted", ""),
        ({"most": [["y", 0.6]]}, "not tested", ""),
        ({"same_sign": [["x", "x"]]}, "reproduced", "`x` 0.654, `x` 0.654"),
        ({"by_points": [["x", "y", 0.05]]}, "reproduced", "asked 0.05"),
        ({"by_share": [["x", "x", 0.1]]}, "refuted", "`x` by share over `x` 0 "),
        ({"alike": [["x", "x", "x", "x"]], "margin": 0.01}, "reproduced", "margin 0.010"),
        ({"why": "no rows"}, "not tested", "no rows"),
        ({"by": "u", "above": [["x", "y"]]}, "not run yet", ""),
    ],
)
def test_a_verdict_follows_from_what_is_stored(
    monkeypatch: pytest.MonkeyPatch, asked: dict[str, object], verdict: str, said: str
) -> None:
    monkeypatch.setattr(
        "entrenous_lab.papers.verdicts.stored", lambda folder, name: {"claims": [claim(**asked)]}
    )
    (found,) = judged("p", STORED)
    assert found.verdict.partition(" (")[0] == verdict and said in found.text


def judged_rows(
    monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, object]], **asked: object
) -> JudgedClaim:
    monkeypatch.setattr(
        "entrenous_lab.papers.verdicts.stored", lambda folder, name: {"claims": [claim(**asked)]}
    )
    (found,) = judged("p", {"t": StoredResult("t", {**CONTENT, "rows": rows, "tests": []})})
    return found


def hold(monkeypatch: pytest.MonkeyPatch, rows: Any, cases: Any) -> None:
    """Holds each (what is asked, verdict, words of its text) against rows."""
    for asked, verdict, said in cases:
        found = judged_rows(monkeypatch, rows, **asked)
        assert found.verdict == verdict and said in found.text


def test_several_comparisons_over_seeds_have_holms_p(monkeypatch: pytest.MonkeyPatch) -> None:
    """t = 6.93 and 5.20 of two degrees of freedom: p = 0.0202 and 0.0351. Beside each other: twice
    the smaller, and no less for the other.
    """
    rows = [
        row(name, "m", mean, values=[mean - less, mean, mean + less])
        for name, mean, less in (("a", 4, 1), ("b", 0, 0), ("c", 1, 0))
    ]
    assert "; p = 0.020" in judged_rows(monkeypatch, rows, above=[["a", "b"]]).text
    assert "; p = 0.035" in judged_rows(monkeypatch, rows, above=[["a", "c"]]).text
    for both in ({"above": [["a", "b"], ["a", "c"]]}, {"lower": [["b", "a"], ["c", "a"]]}):
        found = judged_rows(monkeypatch, rows, **both)
        assert found.verdict == "reproduced" and found.text.count("; p = 0.040") == 2
    contrary = judged_rows(monkeypatch, rows, lower=[["a", "b"], ["a", "c"]])
    assert contrary.verdict == "refuted" and contrary.text.count("; p = 0.040") == 2


def test_systems_that_differ_by_their_seeds_alone_decide_no_claim() -> None:
    """Of 1,000 claims about five such systems, 50 at most are reproduced or refuted."""
    rng, decided = np.random.default_rng(0), 0
    asked = claim(above=[["a", other] for other in "bcde"])
    for _ in range(1000):
        rows = [row(name, "m", 0.5, values=rng.normal(0.5, 0.02, 5).tolist()) for name in "abcde"]
        result = StoredResult("t", {**CONTENT, "rows": rows, "tests": []})
        standings = {check.standing for check in checks(asked, result)}
        decided += standings != {Standing.UNDECIDED}
    assert decided <= 50


@pytest.mark.parametrize("paper", ["fpl", "cali3f", "fbalf", "pepper"])
def test_a_claim_names_an_experiment_and_rows_that_there_are(paper: str) -> None:
    results = stored_in(ROOT / "lab" / "results", experiments())
    for asked, found in zip(claims_of(paper), judged(paper, results), strict=True):
        assert asked["by"] in {*experiments(), *RESULTS} and (
            found.text or found.verdict == "not run yet"
        ), asked["says"]


# ---- what a comparison can decide ----------------------------------------------------------------


def test_identical_censored_and_diverged_values_are_counted_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [
        row("a", "m", 2.0, values=[1.9, 2.1]),
        row("same", "m", 2.0, values=[1.9, 2.1]),
        row("rising", "m", 9.0, values=[8.0, 10.0], censored=[False, True]),
        row("diverged", "m", None, protocol="on rows; training diverged"),
        row("absent", "m", None, protocol="needs entrenous[torch]"),
    ]
    cases = [
        ({"above": [["a", "same"]]}, "undecided", "identical"),
        ({"lower": [["a", "rising"]]}, "undecided", "`rising` still rises"),
        ({"above": [["diverged", "a"]]}, "refuted", "`diverged` diverged"),
        ({"above": [["a", "diverged"]]}, "undecided", ""),
        ({"above": [["a", "absent"]]}, "not tested", ""),
        (
            {"above": [["a", "same"], ["diverged", "a"]]},
            "refuted",
            "of 2 comparisons 1 refuted, 1 dropped",
        ),
    ]
    hold(monkeypatch, rows, cases)


def test_a_margin_is_half_of_a_difference_that_the_paper_printed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PEPPER prints 0.7929 above 0.749 for average weights: half of it is 2.93 %."""
    lead = {
        "paper": "pepper",
        "section": "table4",
        "data": "ml-100k, pepper-given",
        "better": "pepper-gmf",
        "worse": "gossip-average-gmf",
    }
    rows = [
        row("a", "hr@20", 0.700, values=[0.699, 0.701]),
        row("b", "hr@20", 0.710, values=[0.709, 0.711]),
        row("c", "hr@20", 0.740, values=[0.739, 0.741]),
    ]
    asked = {"metrics": ["hr@20"], "margin_of": lead}
    level = judged_rows(monkeypatch, rows, level=[["a", "b"]], **asked)
    assert level.verdict == "reproduced" and "margin 0.0208" in level.text
    assert judged_rows(monkeypatch, rows, level=[["a", "c"]], **asked).verdict == "refuted"


@pytest.mark.parametrize("paper", ["fpl", "cali3f", "fbalf", "pepper"])
def test_every_margin_has_its_reason_and_every_accuracy_its_trivial_predictor(paper: str) -> None:
    """Accuracies and errors take their margins from printed effects; a typed margin is of another
    kind of figure.
    """
    errors = ("hr@", "ndcg@", "precision@", "recall@", "mae", "rmse")
    for asked in stored("claims", paper)["claims"]:
        if "margin" in asked:
            assert asked["margin_why"], asked["says"]
            assert not any(name.startswith((*errors, "f1")) for name in asked["metrics"]), asked
        if "near" in asked and any(name.startswith(errors) for name in asked["metrics"]):
            assert asked["trivial"], asked["says"]


# ---- every claim that is judged, on what is stored -----------------------------------------------

RESULTS = {**stored_in(ROOT / "lab" / "results", experiments()), "audit": audited()}
ENDS = re.compile(r"minus .*95 % over [a-z, ]+ (-?[\d.]+) to (-?[\d.]+)")
MARGIN = re.compile(r"margin (-?[\d.]+)")
SIGNS = {"above": 1, "lower": -1, "level": 1}


def every_check(paper: str) -> list[tuple[Mapping[str, Any], Check]]:
    """Every comparison of every claim whose result is stored, with its claim."""
    made = list[tuple[Mapping[str, Any], Check]]()
    for asked in claims_of(paper):
        name = asked.get("by", "")
        if name not in RESULTS or "against" in asked or "metrics" not in asked:
            continue
        trivial = RESULTS.get(asked.get("trivial_by", name))
        made += [(asked, check) for check in checks(asked, RESULTS[name], trivial)]
    return made


@pytest.mark.parametrize("paper", ["fpl", "cali3f", "fbalf", "pepper"])
def test_no_stored_interval_that_holds_a_claim_is_called_a_refutation(paper: str) -> None:
    """Reads the printed intervals back. Whether "a above b", "a lower than b" or "a level with b"
    holds or is refuted must agree with them.
    """
    seen = 0
    for asked, check in every_check(paper):
        signs = [sign for kind, sign in SIGNS.items() if kind in asked]
        ends = ENDS.search(check.text)
        if len(signs) != 1 or ends is None:
            continue
        margin = MARGIN.search(check.text)
        beyond = float(margin.group(1)) if margin else 0.0
        low, high = sorted(signs[0] * float(end) + beyond for end in ends.groups())
        # Figures are printed with four digits.
        seen += 1
        assert check.standing is not Standing.REFUTED or high < 0.0002, (asked["says"], check.text)
        assert check.standing is not Standing.HOLDS or low > -0.0002, (asked["says"], check.text)
    assert seen > 5


@pytest.mark.parametrize("paper", ["fpl", "cali3f", "fbalf", "pepper"])
def test_no_trivial_predictor_is_near_any_printed_figure(paper: str) -> None:
    """Puts the figures of popularity, or of a user's mean, in the place of each system that a
    claim calls near its printed figure.
    """
    seen = 0
    for asked in claims_of(paper):
        if "trivial" not in asked or asked["by"] not in RESULTS:
            continue
        result = RESULTS[asked["by"]]
        trivial = RESULTS[asked.get("trivial_by", asked["by"])]
        rows = []
        for line in result.content["rows"]:
            other = trivial.row(line["data"], asked["trivial"], line["metric"])
            if line["system"] == asked["trivial"] or other is None:
                rows.append(line)
                continue
            figures = {key: other.get(key) for key in ("obtained", "values", "spread")}
            rows.append({**line, **figures, "censored": []})
        replaced = result._replace(content={**result.content, "rows": rows})
        for check in checks(asked, replaced, trivial):
            assert check.standing is not Standing.HOLDS, (asked["says"], check.text)
            seen += 1
    assert seen > 0


@pytest.mark.parametrize("paper", ["fpl", "cali3f", "fbalf", "pepper"])
def test_no_comparison_of_a_claim_is_left_out_unsaid(paper: str) -> None:
    """Every system that a claim names has a row on every data set and metric that it asks for; a
    training that diverged has one without a figure.
    """
    for asked, line in zip(claims_of(paper), judged(paper, RESULTS), strict=True):
        if line.verdict in ("not tested", "not run yet"):
            continue
        assert re.search("`[^`]+`", line.on), asked["says"]
        result = RESULTS[asked["by"]]
        if "against" in asked:
            result = with_rows_of(result, RESULTS[asked["against"]])
        stored_data = {row["data"] for row in result.content["rows"]}
        for data in set(asked.get("data", stored_data)):
            for metric, system in product(asked["metrics"], systems_named(asked)):
                found = result.row(data, system, metric)
                assert found is not None, (asked["says"], data, metric, system)
                diverged = "diverged" in found["protocol"]
                assert found["obtained"] is not None or diverged, (asked["says"], system)


def systems_named(asked: Mapping[str, Any]) -> set[str]:
    """Every system in the comparisons of a claim."""
    found = set[str]()
    for kind in KINDS:
        for comparison in asked.get(kind, ()):
            several = [comparison] if isinstance(comparison, str) else comparison
            found |= {name for name in several if isinstance(name, str)}
    return found


def test_two_results_are_compared_on_the_same_rows_and_seeds_alone() -> None:
    def result(name: str, pin: str, values: list[float]) -> StoredResult:
        rows = [row(name, "m", sum(values) / len(values), values=values)]
        return StoredResult(name, {**CONTENT, "rows": rows, "origin": {"pins": {"d": pin}}})

    a, b = result("a", "1", [2.0, 2.1]), result("b", "1", [1.0, 1.2])
    both = with_rows_of(a, b)
    assert [line["system"] for line in both.content["rows"]] == ["a", "b"]
    with pytest.raises(InputError, match="other rows or seeds"):
        with_rows_of(a, result("b", "2", [1.0, 1.2]))
    with pytest.raises(InputError, match="other rows or seeds"):
        with_rows_of(a, result("b", "1", [1.0, 1.2, 1.1]))


def test_a_change_is_wider_and_a_figure_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        row("a", "m", 5.0, values=[4.9, 5.1]),
        row("b", "m", 1.0, values=[1.0, 1.0]),
        row("c", "m", 1.1, values=[1.09, 1.11]),
        row("lost", "m", None, protocol="on rows; training diverged"),
    ]
    cases = [
        ({"wider": [["b", "a", "c", "b"]]}, "reproduced", "`b` changes by 4, `c` by 0.1"),
        ({"wider": [["c", "b", "a", "b"]]}, "refuted", ""),
        ({"wider": [["a", "b", "a", "b"]]}, "undecided", ""),
        ({"least": [["b", 0.5]]}, "reproduced", ""),
        ({"least": [["b", 1.5]]}, "refuted", ""),
        ({"least": [["a", 5.0]]}, "undecided", ""),
        ({"least": [["lost", 1.0]]}, "refuted", "`lost` diverged"),
        ({"most": [["lost", 1.0]]}, "refuted", "`lost` diverged"),
    ]
    hold(monkeypatch, rows, cases)
