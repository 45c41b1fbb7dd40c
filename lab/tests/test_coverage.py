"""Coverage of the papers: every table, figure and claim has an item, and no item is done that is
not there.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from entrenous_lab.papers import coverage
from entrenous_lab.papers.coverage import (
    DONE,
    IMPOSSIBLE,
    KEYS,
    OPEN,
    PAPERS,
    claims_in,
    covered,
    items_of,
)
from entrenous_lab.papers.runner import experiments
from entrenous_lab.papers.stored import StoredResult, stored_in
from entrenous_lab.papers.values import stored

ROOT = Path(__file__).parents[2]
ROMAN = {"I": 1, "II": 2, "III": 3}
ROW = {
    "data": "d",
    "system": "x",
    "metric": "m",
    "paper": 0.5,
    "obtained": 0.4,
}


def result(name: str, **more: object) -> StoredResult:
    return StoredResult(name, {"rows": [ROW], "quick": False, **more})


def only(monkeypatch: pytest.MonkeyPatch, **item: object) -> None:
    """Makes an item the only one of a paper without claims."""
    items = [{"where": "1", "what": "x", **item}]
    monkeypatch.setattr(coverage, "items_of", lambda paper: items)
    monkeypatch.setattr(coverage, "in_short", lambda paper, results: [])


@pytest.mark.parametrize(
    ("item", "state", "why"),
    [
        ({"by": ["t"]}, DONE, ""),
        ({"by": ["t"], "data": ["d"], "once": True}, DONE, ""),
        ({"by": ["t"], "data": ["d"]}, OPEN, "1 seeds on d, 3 are wanted"),
        ({"by": ["t"], "data": ["e"]}, OPEN, "no rows of e are stored"),
        ({"by": ["u"]}, OPEN, "u is not run yet"),
        ({"by": ["quick"]}, OPEN, "quick is an excerpt"),
        ({"by": ["t"], "open": "half of it"}, OPEN, "half of it"),
        ({"impossible": "no rows"}, IMPOSSIBLE, "no rows"),
        ({"test": ["lab/tests/test_coverage.py::only"]}, DONE, ""),
        ({"test": ["lab/tests/test_coverage.py::absent"]}, OPEN, "there is no test"),
        ({"page": ["docs/claims.md"]}, DONE, ""),
        ({"page": ["docs/absent.md"]}, OPEN, "there is no page"),
    ],
)
def test_a_state_follows_from_what_is_there(
    monkeypatch: pytest.MonkeyPatch, item: dict[str, object], state: str, why: str
) -> None:
    only(monkeypatch, **item)
    results = {"t": result("t"), "quick": result("quick", quick=True)}
    (line,) = covered("p", results, ROOT)
    assert line.state == state and line.why.startswith(why)


def test_a_printed_figure_needs_one_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, by=["t"], data=["d"], printed=["s"], once=True)
    monkeypatch.setattr(coverage, "printed", lambda paper, *sections: {("d", "x", "m"): 0.5})
    assert covered("p", {"t": result("t")}, ROOT)[0].state == DONE
    for change in ({"obtained": None}, {"paper": 0.6}, {"data": "e"}):
        other = result("t", rows=[{**ROW, **change}, {**ROW, "metric": "n"}])
        (line,) = covered("p", {"t": other}, ROOT)
        assert line.state == OPEN and "1 of 1 printed figures have none of ours" in line.why


@pytest.mark.parametrize("paper", PAPERS)
def test_every_table_and_figure_has_an_item(paper: str) -> None:
    said = " | ".join(item["where"] for item in items_of(paper))
    for kind in ("table", "figure"):
        wanted = set(range(1, stored("covered", paper)[f"{kind}s"] + 1))
        assert wanted <= numbers(said, kind), f"no item of {kind} {wanted - numbers(said, kind)}"


def numbers(text: str, kind: str) -> set[int]:
    """The numbers after "table" or "tables" in the places of items:
    "figure 4; 10, 11" names three.
    """
    found = set[int]()
    for named in re.findall(rf"{kind}s? ((?:[\dIV]+a?(?:, |; | and )?)+)", text):
        words = re.findall(r"\d+|[IV]+", named)
        found |= {ROMAN.get(word, 0) or int(word) for word in words}
    return found


@pytest.mark.parametrize("paper", PAPERS)
def test_an_item_names_what_there_is_and_says_why_not(paper: str) -> None:
    for item in items_of(paper):
        assert item.keys() <= KEYS, item
        assert set(item.get("by", ())) <= experiments().keys(), item["what"]
        reasons = [item[key] for key in ("open", "impossible") if key in item]
        assert all(len(reason) > 15 for reason in reasons)
        evidence = [key for key in ("by", "test", "page") if item.get(key)]
        assert len(reasons) <= 1 and (reasons or evidence), item["what"]


@pytest.mark.parametrize("paper", PAPERS)
def test_every_claim_belongs_to_one_item(paper: str) -> None:
    texts = [claim["says"].replace(", {at}", "") for claim in stored("claims", paper)["claims"]]
    assert len(set(texts)) == len(texts)
    items = items_of(paper)
    counts = Counter(text for item in items for text in claims_in(item, texts))
    assert [text for text in texts if counts[text] != 1] == []
    for item in items:
        for opening in item.get("claims", ()):
            assert any(text.startswith(opening) for text in texts), opening


@pytest.mark.parametrize("paper", PAPERS)
def test_every_stored_result_of_a_paper_belongs_to_an_item(paper: str) -> None:
    named = {name for item in items_of(paper) for name in item.get("by", ())}
    results = stored_in(ROOT / "lab" / "results", experiments())
    mine = {name for name in results if name.startswith(f"{paper}-")}
    assert mine - named <= BEYOND.get(paper, set())


# Results that are about what the paper does not have.
BEYOND = {"pepper": {"pepper-ablation", "pepper-bad", "pepper-many"}}
