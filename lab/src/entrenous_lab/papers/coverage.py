"""Coverage of a paper: every sentence of it that states a design, a setting, a figure or a claim,
and what answers it here.

`covered/<text>.toml` lists the sentences of a text in its order, and how many there are. Each has
`section`, `begins` (its first words), `states` (in our words) and exactly one answer:

- `code`: what does it, `file::name`;
- `test`: a test that holds it, `file::name`;
- `by`: stored results that have it. They must have the data sets of `data`, and, with `printed`,
  a figure of ours for each printed figure of these sections and data sets. One of them must have as
  many seeds or folds on each data set as SEEDS asks for, unless the sentence is `once`: nothing of
  it is drawn;
- `claims`: openings of texts in `claims/<paper>.toml`, whose verdicts answer it;
- `not_judged`: why nothing of the above answers it, and what would;
- `impossible`: why nobody can answer it with what is public.

No state is typed where it can be computed: a sentence whose answer does not hold is not answered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .stored import StoredResult
from .values import printed, stored
from .verdicts import NOT_RUN, NOT_TESTED, ClaimInShort, in_short

TEXTS = {
    "fpl": ("fpl-journal", "fpl-short"),
    "cali3f": ("cali3f",),
    "fbalf": ("fbalf",),
    "pepper": ("pepper",),
}
PAPERS = tuple(TEXTS)
ANSWERED, OPEN, IMPOSSIBLE = STATES = ("answered", "not judged", "impossible here")
ANSWERS = ("code", "test", "by", "claims", "not_judged", "impossible")
KEYS = {"section", "begins", "states", "data", "printed", "once", *ANSWERS}
SEEDS = {"ml-100k": 5, "foursquare-italy": 5}  # of data sets of MovieLens-100K's size
SEEDS_OF_LARGER = 3

Sentence = Mapping[str, Any]
Results = Mapping[str, StoredResult]


class CoveredSentence(NamedTuple):
    """A sentence of a paper, and what answers it."""

    section: str
    begins: str
    states: str
    state: str
    why: str
    """Why it is not judged or impossible; "" if it is answered."""
    there: str
    """The code, tests, stored results or claims, in Markdown."""
    verdict: str
    """The verdicts of its claims in words."""

    @property
    def here(self) -> str:
        """The state and why, or the verdict where claims answer it."""
        return f"{self.state}: {self.why}" if self.why else self.verdict or self.state


def sentences_of(text: str) -> list[Sentence]:
    """Returns the sentences of a text as its file has them."""
    found: list[Sentence] = stored("covered", text)["sentences"]
    return found


def covered(paper: str, results: Results, root: Path) -> list[CoveredSentence]:
    """Returns every sentence of a paper with its state; `root` is the checkout."""
    claims = in_short(paper, results)
    lines = list[CoveredSentence]()
    for text in TEXTS[paper]:
        for sentence in sentences_of(text):
            mine = claims_in(sentence, claims)
            state, why = _state(paper, sentence, mine, results, root)
            verdict = "; ".join(dict.fromkeys(claim.shown for claim in mine))
            there = _there(sentence, mine)
            about = (sentence["section"], sentence["begins"], sentence["states"])
            lines.append(CoveredSentence(*about, state, why, there, verdict))
    return lines


def claims_in(sentence: Sentence, claims: Sequence[ClaimInShort]) -> list[ClaimInShort]:
    """Returns the claims that answer a sentence, which names them by how they begin."""
    openings = tuple(sentence.get("claims", ()))
    return [claim for claim in claims if openings and claim.says.startswith(openings)]


def share_answered(sentences: Sequence[CoveredSentence]) -> float:
    """Returns the share of the sentences that are answered, of those that can be."""
    possible = [one for one in sentences if one.state != IMPOSSIBLE]
    answered = [one for one in possible if one.state == ANSWERED]
    return len(answered) / len(possible) if possible else 1.0


# ---- the state of a sentence ---------------------------------------------------------------------


def _state(
    paper: str,
    sentence: Sentence,
    claims: Sequence[ClaimInShort],
    results: Results,
    root: Path,
) -> tuple[str, str]:
    """The state of a sentence, and why it is not answered."""
    if "impossible" in sentence:
        return IMPOSSIBLE, sentence["impossible"]
    if "not_judged" in sentence:
        return OPEN, sentence["not_judged"]
    missing = [*_missing_names(sentence, root), *_missing_verdicts(claims)]
    if "by" in sentence:
        missing += _missing_results(paper, sentence, results)
    return (OPEN, "; ".join(missing)) if missing else (ANSWERED, "")


def _missing_names(sentence: Sentence, root: Path) -> Iterator[str]:
    """The code and tests of a sentence that are not there."""
    for place in (*sentence.get("code", ()), *sentence.get("test", ())):
        file, _, name = place.partition("::")
        path = root / file
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        if not re.search(rf"^\s*((def|class) {name}\b|{name}\b.*[=:])", text, re.M):
            yield f"there is no {place}"


def _missing_results(paper: str, sentence: Sentence, results: Results) -> Iterator[str]:
    """What a sentence's stored results lack: results, data sets, seeds and printed figures."""
    there = list[StoredResult]()
    for name in sentence["by"]:
        if name in results and not results[name].quick:
            there.append(results[name])
        else:
            yield f"{name} is not stored, or as an excerpt"
    for data in sentence["data"]:
        seeds = max((result.seeds_of(data) for result in there), default=0)
        wanted = SEEDS.get(data.partition(",")[0], SEEDS_OF_LARGER)
        if seeds < (1 if "once" in sentence else wanted):
            yield f"{seeds} seeds on {data}, {wanted} are wanted"
    rows = [row for result in there for row in result.content["rows"]]
    ours = {
        (row["data"], row["metric"], row["paper"]) for row in rows if row["obtained"] is not None
    }
    for (data, system, metric), value in printed(paper, *sentence.get("printed", ())).items():
        if data in sentence["data"] and (data, metric, value) not in ours:
            yield f"no figure of ours for {system}, {metric} of {data}"


def _missing_verdicts(claims: Sequence[ClaimInShort]) -> Iterator[str]:
    """The claims of a sentence that have no verdict."""
    for claim in claims:
        if {NOT_TESTED, NOT_RUN} & {*claim.verdicts}:
            yield f"{claim.says}: {claim.shown}"


def _there(sentence: Sentence, claims: Sequence[ClaimInShort]) -> str:
    """The places of a sentence in Markdown, from a page in lab/notes/."""
    places = [f"`{place}`" for place in (*sentence.get("code", ()), *sentence.get("test", ()))]
    places += [f"[{name}](../results/{name}.md)" for name in sentence.get("by", ())]
    places += dict.fromkeys(claim.command for claim in claims if claim.command)
    return ", ".join(places)
