"""Verdicts on the claims of a paper, by what stored results say.

`claims/<paper>.toml` lists the claims and the comparisons that each asks for, on every data set and
metric that it names (see `comparisons` for what a comparison can be found to be):

- `above = [["a", "b"]]`: a is above b: over users and seeds where the result has users' figures,
  else over seeds or folds.
- `lower = [["a", "b"]]`: a is below b, of errors, bytes, seconds and rounds.
- `level = [["a", "b"]]`: a is not worse than b by as much as a margin.
- `alike = [["a", "A", "b", "B"]]`: a - A and b - B differ by less than a margin.
- `near = ["a"]`: a's figure is near the printed one (of its row, or `printed`), much nearer than
  that of the trivial predictor `trivial` (whose figures `trivial_by` has, if another result does).
- `wider = [["a", "A", "b", "B"]]`: a - A is larger in size than b - B, over seeds.
- `most = [["a", 0.05]]`, `least = [["a", 0.0]]`: a's figure is at most or at least that.
- `same_sign = [["a", "b"]]`: both are above 0, or both below.
- `by_points`, `by_share`: a is above b by a size, see `ratios`.

`by` is an experiment, or "audit", see `elsewhere`. `headline = true` is for what an abstract says.

With `against = "NAME"` the second system of a pair is a row of another result, on the same rows and
seeds.

With `at = ["P", "Q"]` a claim is judged once at each of these points: `{at}` in its text and in the
names of systems stands for the point.

`margin_of` derives a margin from a difference that the paper printed; `margin` with `margin_why` is
for what the paper prints none of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from entrenous.core.errors import InputError

from .comparisons import KINDS, Check, Claim, Standing, checks
from .elsewhere import AUDIT, audited
from .stored import StoredResult
from .values import stored

REPRODUCED = "reproduced"  # every comparison holds
REFUTED = "refuted"  # no comparison holds, and one or more are refuted
PARTLY = "partly"  # some comparisons hold and others are refuted
UNDECIDED = "undecided"  # the rest: what was run cannot tell
NOT_TESTED = "not tested"
NOT_RUN = "not run yet"
EXCERPT = "excerpt"  # stands after the verdict on a quick result
AT = "at"  # the points at which a claim is judged
MARK = "{at}"  # stands for the point in a claim
SHOWN = 2  # comparisons whose figures are printed
BETWEEN_DATA_SETS = ", "


class JudgedClaim(NamedTuple):
    """A line of the page of claims."""

    where: str
    says: str
    on: str
    """The systems that the claim was judged on, with their readings."""
    verdict: str
    command: str
    text: str
    """How many comparisons hold, are refuted, undecided and dropped; the figures of some."""


def judged(paper: str, results: Mapping[str, StoredResult]) -> list[JudgedClaim]:
    """Returns every claim of a paper with its verdict."""
    return [_judged(claim, results) for claim in claims_of(paper)]


def claims_of(paper: str) -> list[Claim]:
    """Returns the claims of a paper, one for each point that a claim is judged at."""
    return [claim for asked in stored("claims", paper)["claims"] for claim in _points_of(asked)]


def _points_of(claim: Claim) -> list[Claim]:
    """A claim at each of its points; the claim itself if it has none."""
    if AT not in claim:
        return [claim]
    return [_at(claim, point) for point in claim[AT]]


class ClaimInShort(NamedTuple):
    """A claim with its verdicts in one line, whatever the number of its points."""

    where: str
    says: str
    on: str
    """The systems that the claim was judged on, without the points."""
    verdicts: Sequence[str]
    """The verdict at each point."""
    shown: str
    """The verdicts in words, with their points."""
    command: str
    headline: bool
    """Whether the abstract says it."""


def in_short(paper: str, results: Mapping[str, StoredResult]) -> list[ClaimInShort]:
    """Returns every claim of a paper with its verdicts in one line."""
    lines = list[ClaimInShort]()
    for claim in stored("claims", paper)["claims"]:
        made = [_judged(at_point, results) for at_point in _points_of(claim)]
        without_points = _at(claim, MARK)
        points = claim.get(AT, [""])
        verdicts = [line.verdict for line in made]
        lines.append(
            ClaimInShort(
                claim["where"],
                without_mark(claim["says"]),
                without_mark(judged_on(without_points)),
                verdicts,
                _shown_verdicts(points, verdicts),
                made[0].command,
                "headline" in claim,
            )
        )
    return lines


def without_mark(text: str) -> str:
    """Returns a text of a claim without the mark of its points.

    >>> without_mark("sFPL is level with BPR-MF, {at}")
    'sFPL is level with BPR-MF'
    """
    return text.replace(f", {MARK}", "")


def _shown_verdicts(points: Sequence[str], verdicts: Sequence[str]) -> str:
    """Verdicts with their points; how many comparisons hold stands behind a point.

    >>> _shown_verdicts(["a", "b", "c"], ["refuted", "partly (1 of 2 hold)", "refuted"])
    'refuted: a, c; partly: b (1 of 2 hold)'
    """
    if len(points) == 1:
        return verdicts[0]
    of_verdict: dict[str, list[str]] = {}
    for point, verdict in zip(points, verdicts, strict=True):
        kind, space, more = verdict.partition(" (")
        of_verdict.setdefault(kind, []).append(point + space + more)
    return "; ".join(f"{verdict}: {', '.join(some)}" for verdict, some in of_verdict.items())


def counted_verdicts(verdicts: Sequence[str]) -> dict[str, int]:
    """Returns how many of the verdicts are of each kind, whatever stands after it in brackets.

    >>> counted_verdicts(["reproduced", "reproduced (ml-100k alone)", "refuted"])
    {'reproduced': 2, 'partly': 0, 'refuted': 1, 'undecided': 0, 'not tested': 0, 'not run yet': 0}
    """
    counts = Counter(verdict.partition(" (")[0] for verdict in verdicts)
    kinds = (REPRODUCED, PARTLY, REFUTED, UNDECIDED, NOT_TESTED, NOT_RUN)
    return {kind: counts[kind] for kind in kinds}


def _at(asked: Any, point: str) -> Any:
    """What a claim asks for, with the point in place of its mark."""
    if isinstance(asked, str):
        return asked.replace(MARK, point)
    if isinstance(asked, dict):
        return {name: _at(value, point) for name, value in asked.items() if name != AT}
    if isinstance(asked, list):
        return [_at(value, point) for value in asked]
    return asked


def _judged(claim: Claim, results: Mapping[str, StoredResult]) -> JudgedClaim:
    name = claim.get("by", "")
    if name == AUDIT:
        results = {AUDIT: audited()}
    command = ", ".join(
        f"`entrenous experiment {one}`" for one in (name, claim.get("against")) if one
    )
    command = claim.get("command", command)
    line = JudgedClaim(claim["where"], claim["says"], judged_on(claim), NOT_RUN, command, "")
    if not any(kind in claim for kind in KINDS):
        return line._replace(verdict=NOT_TESTED, text=claim.get("why", ""))
    if name not in results or claim.get("against", name) not in results:
        return line
    result = results[name]
    if "against" in claim:
        result = with_rows_of(result, results[claim["against"]])
    made = list(checks(claim, result, results.get(claim.get("trivial_by", name))))
    if not made and result.only:
        return line
    verdict = _verdict([check.standing for check in made])
    if result.quick:
        verdict = f"{verdict} ({EXCERPT})"
    elif result.only:
        verdict = f"{verdict} ({BETWEEN_DATA_SETS.join(result.only)} alone)"
    return line._replace(verdict=verdict, text=_text(made, claim.get("why", "")))


def with_rows_of(result: StoredResult, other: StoredResult) -> StoredResult:
    """Returns a result that also has the rows of another one, to compare systems of two tables.

    Both must be of the same rows of data and the same seeds; raises InputError if they are not.
    """
    pins, other_pins = result.origin["pins"], other.origin["pins"]
    differ = [data for data in pins.keys() & other_pins.keys() if pins[data] != other_pins[data]]
    if differ or not pins.keys() & other_pins.keys() or result.seeds != other.seeds:
        raise InputError(
            f"{result.name} and {other.name}",
            f"they are of other rows or seeds: {', '.join(differ) or other.seeds}",
            expected="two results on the same rows and seeds",
            fix=f"make both again: entrenous papers {result.name} {other.name}",
        )
    rows = [*result.content["rows"], *other.content["rows"]]
    return result._replace(content={**result.content, "rows": rows})


def judged_on(claim: Claim) -> str:
    """The systems whose quality a claim asserts, in backticks: the first of each comparison."""
    systems = list[str]()
    for kind in KINDS:
        for comparison in claim.get(kind, ()):
            systems.append(comparison if isinstance(comparison, str) else comparison[0])
    return ", ".join(f"`{system}`" for system in dict.fromkeys(systems))


def _verdict(standings: Sequence[Standing]) -> str:
    """The verdict on a claim from the standing of its comparisons; dropped ones decide nothing.

    Behind one that leaves a claim open stands how many hold.
    """
    if not standings:
        return NOT_TESTED
    counts = Counter(standings)
    holds = counts[Standing.HOLDS]
    deciding = len(standings) - counts[Standing.DROPPED]
    if holds and holds == deciding:
        return REPRODUCED
    refuted = counts[Standing.REFUTED]
    if refuted and not holds:
        return REFUTED
    kind = PARTLY if refuted else UNDECIDED
    return f"{kind} ({holds} of {deciding} hold)" if deciding > 1 else kind


def _text(made: Sequence[Check], why: str) -> str:
    """Counts the comparisons by standing, and quotes the first that the verdict rests on."""
    parts = list[str]()
    if len(made) > 1:
        counts = Counter(check.standing for check in made)
        counted = [f"{counts[kind]} {kind.value}" for kind in Standing if counts[kind]]
        parts.append(f"of {len(made)} comparisons " + ", ".join(counted))
    parts += [check.text for check in _quoted(made)]
    if why:
        parts.append(why)
    return "; ".join(parts)


def _quoted(made: Sequence[Check]) -> list[Check]:
    """The first comparison of each standing, up to SHOWN; then further ones in their order."""
    first = {check.standing: check for check in reversed(made)}
    chosen = [first[kind] for kind in Standing if kind in first][:SHOWN]
    further = [check for check in made if check not in chosen]
    return [*chosen, *further[: SHOWN - len(chosen)]]
