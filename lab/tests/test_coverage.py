"""Coverage of the papers: every sentence of the five texts has an answer, in the order of its text,
and none is answered that is not there.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from entrenous_lab.papers import coverage
from entrenous_lab.papers.coverage import (
    ANSWERED,
    ANSWERS,
    IMPOSSIBLE,
    KEYS,
    OPEN,
    PAPERS,
    TEXTS,
    covered,
    sentences_of,
)
from entrenous_lab.papers.runner import experiments
from entrenous_lab.papers.stored import StoredResult, stored_in
from entrenous_lab.papers.values import stored
from entrenous_lab.papers.verdicts import without_mark

ROOT = Path(__file__).parents[2]
PRINTS = ROOT.parent / "shared" / "papers"  # the texts, on the machines of the project
EVERY_TEXT = [text for texts in TEXTS.values() for text in texts]
ROMAN = {"I": "1", "II": "2", "III": "3"}
RESULTS = stored_in(ROOT / "lab" / "results", experiments())
ROW = {"data": "d", "system": "x", "metric": "m", "paper": 0.5, "obtained": 0.4}


def result(name: str, **more: object) -> StoredResult:
    return StoredResult(name, {"rows": [ROW], "quick": False, **more})


def only(monkeypatch: pytest.MonkeyPatch, **answer: object) -> None:
    """Makes a sentence the only one of a paper without claims."""
    sentences = [{"section": "1", "begins": "We", "states": "x", **answer}]
    monkeypatch.setattr(coverage, "sentences_of", lambda text: sentences)
    monkeypatch.setattr(coverage, "in_short", lambda paper, results: [])


@pytest.mark.parametrize(
    ("answer", "state", "why"),
    [
        ({"by": ["t"], "data": ["d"], "once": True}, ANSWERED, ""),
        ({"by": ["t"], "data": ["d"]}, OPEN, "1 seeds on d, 3 are wanted"),
        ({"by": ["t"], "data": ["e"]}, OPEN, "0 seeds on e, 3 are wanted"),
        ({"by": ["u"], "data": []}, OPEN, "u is not stored"),
        ({"by": ["quick"], "data": []}, OPEN, "quick is not stored, or as an excerpt"),
        ({"not_judged": "it needs a day"}, OPEN, "it needs a day"),
        ({"impossible": "no rows"}, IMPOSSIBLE, "no rows"),
        ({"test": ["lab/tests/test_coverage.py::only"]}, ANSWERED, ""),
        ({"code": ["lab/tests/test_coverage.py::ROW"]}, ANSWERED, ""),
        ({"test": ["lab/tests/test_coverage.py::absent"]}, OPEN, "there is no lab/tests"),
        ({"code": ["lab/absent.py::only"]}, OPEN, "there is no lab/absent.py"),
    ],
)
def test_a_state_follows_from_what_is_there(
    monkeypatch: pytest.MonkeyPatch, answer: dict[str, object], state: str, why: str
) -> None:
    only(monkeypatch, **answer)
    results = {"t": result("t"), "quick": result("quick", quick=True)}
    (line,) = covered("pepper", results, ROOT)
    assert line.state == state and line.why.startswith(why)


def test_a_printed_figure_needs_one_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, by=["t"], data=["d"], printed=["s"], once=True)
    monkeypatch.setattr(coverage, "printed", lambda paper, *sections: {("d", "x", "m"): 0.5})
    assert covered("pepper", {"t": result("t")}, ROOT)[0].state == ANSWERED
    for change in ({"obtained": None}, {"paper": 0.6}, {"metric": "n"}):
        (line,) = covered("pepper", {"t": result("t", rows=[{**ROW, **change}])}, ROOT)
        assert line.state == OPEN and line.why == "no figure of ours for x, m of d"


@pytest.mark.parametrize("text", EVERY_TEXT)
def test_no_sentence_is_lost_and_each_has_one_answer(text: str) -> None:
    """Who takes a sentence out must say so in `count`. Every table and figure has a sentence."""
    about, said = stored("covered", text), ""
    assert len(about["sentences"]) == about["count"]
    for sentence in about["sentences"]:
        said += sentence["section"] + " | "
        (answer,) = sentence.keys() & set(ANSWERS)
        assert sentence.keys() <= KEYS and len(sentence[answer]) > 0, sentence
        assert ("data" in sentence) == (answer == "by"), sentence
        assert set(sentence.get("by", ())) <= experiments().keys(), sentence
    for kind in ("table", "figure"):
        named = " ".join(re.findall(rf"{kind}s? ((?:[\dIV]+(?:, )?)+)", said))
        numbers = {ROMAN.get(word, word) for word in re.findall(r"\w+", named)}
        assert numbers == {str(n + 1) for n in range(about[f"{kind}s"])}, kind


@pytest.mark.parametrize("paper", PAPERS)
def test_every_answer_holds(paper: str) -> None:
    """What is not judged says so itself: no other answer may lack anything."""
    reasons = {one.get("not_judged") for text in TEXTS[paper] for one in sentences_of(text)}
    lacking = [line for line in covered(paper, RESULTS, ROOT) if line.state == OPEN]
    assert [line for line in lacking if line.why not in reasons] == []


@pytest.mark.parametrize("paper", PAPERS)
def test_every_claim_and_every_stored_result_answers_a_sentence(paper: str) -> None:
    claims = stored("claims", paper)["claims"]
    texts = [without_mark(claim["says"]) for claim in claims]
    assert len(set(texts)) == len(texts)
    sentences = [sentence for text in TEXTS[paper] for sentence in sentences_of(text)]
    openings = {opening for sentence in sentences for opening in sentence.get("claims", ())}
    assert [text for text in texts if not text.startswith((*openings, "our "))] == []
    assert [one for one in openings if not any(text.startswith(one) for text in texts)] == []
    named = {name for sentence in sentences for name in sentence.get("by", ())}
    named |= {claim.get(key) for claim in claims for key in ("by", "against", "trivial_by")}
    mine = {name for name in RESULTS if name.startswith(f"{paper}-")}
    assert mine - named <= BEYOND


# Results that are about what no paper has.
BEYOND = {"pepper-many"}


@pytest.mark.skipif(not PRINTS.is_dir(), reason="the texts of the papers are not here")
@pytest.mark.parametrize("text", EVERY_TEXT)
def test_every_sentence_stands_in_its_text_in_this_order(text: str) -> None:
    """Spaces, hyphens and signs do not count: letters and digits do."""
    letters = only_letters((PRINTS / f"{text}.txt").read_text(encoding="utf-8"))
    place = 0
    for sentence in sentences_of(text):
        place = letters.find(only_letters(sentence["begins"]), place)
        assert place >= 0, sentence["begins"]


def only_letters(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter.isalnum())
