"""Coverage of the papers: every sentence of the five texts has an answer, in the order of its text,
and none is answered that is not there.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from entrenous_lab.papers import coverage
from entrenous_lab.papers.coverage import ANSWERED, ANSWERS, IMPOSSIBLE, KEYS, OPEN, TEXTS, covered
from entrenous_lab.papers.runner import experiments
from entrenous_lab.papers.stored import StoredResult, stored_in
from entrenous_lab.papers.values import stored
from entrenous_lab.papers.verdicts import without_mark

ROOT = Path(__file__).parents[2]
PRINTS = ROOT.parent / "shared" / "papers"  # the texts, on the machines of the project
RESULTS = stored_in(ROOT / "lab" / "results", experiments())
EVERY_TEXT = [text for texts in TEXTS.values() for text in texts]
ROMAN = {"I": "1", "II": "2", "III": "3"}
FIGURE = {"by": ["t"], "data": ["d"], "once": True, "printed": ["table1"]}
HERE = "lab/tests/test_coverage.py"


def of_figure(obtained: float | None, **more: object) -> StoredResult:
    row = {"data": "d", "system": "x", "metric": "m", "paper": 0.5, "obtained": obtained}
    return StoredResult("", {"rows": [row], "quick": False, **more})


MADE_UP = {"t": of_figure(0.4), "empty": of_figure(None), "quick": of_figure(0.4, quick=True)}


@pytest.mark.parametrize(
    ("answer", "state", "why"),
    [
        (FIGURE, ANSWERED, ""),
        ({**FIGURE, "by": ["empty"]}, OPEN, "no figure of ours for x, m of d"),
        ({"by": ["t"], "data": ["d"]}, OPEN, "1 seeds on d, 3 are wanted"),
        ({**FIGURE, "by": ["quick"]}, OPEN, "quick is not stored, or as an excerpt"),
        ({"impossible": "no rows"}, IMPOSSIBLE, "no rows"),
        ({"test": [f"{HERE}::of_figure"], "code": [f"{HERE}::ROMAN"]}, ANSWERED, ""),
        ({"test": [f"{HERE}::absent"]}, OPEN, f"there is no {HERE}::absent"),
    ],
)
def test_a_state_follows_from_what_is_there(
    monkeypatch: pytest.MonkeyPatch, answer: dict[str, object], state: str, why: str
) -> None:
    sentence = {"section": "1", "begins": "We", "states": "x", **answer}
    monkeypatch.setattr(coverage, "sentences_of", lambda text: [sentence])
    monkeypatch.setattr(coverage, "in_short", lambda paper, results: [])
    place = ("d", "x", "m")
    monkeypatch.setattr(coverage, "printed", lambda paper, *of: {place: 0.5} if of else {})
    (line,) = covered("pepper", MADE_UP, ROOT)
    assert line.state == state and line.why.startswith(why)


@pytest.mark.parametrize("text", EVERY_TEXT)
def test_no_sentence_is_lost_and_each_has_one_answer(text: str) -> None:
    """Who takes a sentence out must say so in `count`. Every table and figure has a sentence."""
    about, said = stored("covered", text), ""
    assert len(about["sentences"]) == about["count"]
    for sentence in about["sentences"]:
        said += sentence["section"] + " | "
        (answer,) = sentence.keys() & set(ANSWERS)
        assert sentence.keys() <= KEYS and ("data" in sentence) == (answer == "by"), sentence
    for kind in ("table", "figure"):
        named = " ".join(re.findall(rf"{kind}s? ((?:[\dIV]+(?:, )?)+)", said))
        numbers = {ROMAN.get(word, word) for word in re.findall(r"\w+", named)}
        assert len(numbers) == about[f"{kind}s"]


def every_sentence(paper: str) -> list[dict[str, Any]]:
    return [sentence for text in TEXTS[paper] for sentence in stored("covered", text)["sentences"]]


@pytest.mark.parametrize("paper", TEXTS)
def test_every_answer_holds(paper: str) -> None:
    """What is not judged says so itself: no other answer may lack anything."""
    reasons = {sentence.get("not_judged") for sentence in every_sentence(paper)}
    lines = covered(paper, RESULTS, ROOT)
    assert [one for one in lines if one.state == OPEN and one.why not in reasons] == []


@pytest.mark.parametrize("paper", TEXTS)
def test_every_claim_and_every_stored_result_answers_a_sentence(paper: str) -> None:
    claims, sentences = stored("claims", paper)["claims"], every_sentence(paper)
    texts = {without_mark(claim["says"]) for claim in claims}
    assert len(texts) == len(claims)
    openings = {opening for sentence in sentences for opening in sentence.get("claims", ())}
    assert [text for text in texts if not text.startswith((*openings, "our "))] == []
    assert [one for one in openings if not any(text.startswith(one) for text in texts)] == []
    named = {name for sentence in sentences for name in sentence.get("by", ())}
    named |= {claim.get(key) for claim in claims for key in ("by", "against", "trivial_by")}
    # `pepper-many` is about what no paper has.
    assert {name for name in RESULTS if name.startswith(paper)} - named <= {"pepper-many"}


@pytest.mark.skipif(not PRINTS.is_dir(), reason="the texts of the papers are not here")
@pytest.mark.parametrize("text", EVERY_TEXT)
def test_every_sentence_stands_in_its_text_in_this_order(text: str) -> None:
    """Letters and digits count; spaces, hyphens and signs do not."""
    rest = only_letters((PRINTS / f"{text}.txt").read_text(encoding="utf-8"))
    for sentence in stored("covered", text)["sentences"]:
        begins = only_letters(sentence["begins"])
        assert begins in rest, sentence
        rest = rest[rest.index(begins) :]


def only_letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.lower()))
