"""What documentation repeats of stored results: blocks between markers, filled from lab/results, so
that no figure of them is typed.

    <!-- stored: NAME; data=D; metrics=M | N -->     a table: a line for each system, a column for
    each metric (several data: for each) <!-- stored: NAME; show=findings; with=WORDS --> the
    findings, or those that have these words <!-- stored: NAME; show=value; data=D; system=S;
    metric=M -->   one figure, inside a sentence <!-- stored: NAME; show=interval; data=D; system=S;
    other=T; metric=M -->   S minus T, its interval and p (over
                                                    users; over seeds where users were not kept,
                                                    and with over=seeds)
    <!-- stored: all; show=index -->                 what is stored of every experiment
    <!-- stored: all; show=verdicts -->              how many claims of each paper have each verdict
    <!-- stored: all; show=claims; of=PAPER -->      every claim of a paper in a line
    <!-- stored: all; show=judged; of=PAPER -->      the same at every point, with the figures
    <!-- stored: all; show=headlines -->             what each abstract says, and the verdict
    <!-- stored: all; show=coverage; of=PAPER -->    every sentence, and its answer
    <!-- stored: all; show=covered -->               how many sentences of each paper are answered
    <!-- stored: all; show=programs; of=accused -->  the programs of authors that have the leak, or,
                                                     with of=all, all that were looked for
    <!-- stored: all; show=accused -->               their names, inside a sentence

Each ends with <!-- /stored -->. Further options: systems=S | T (which, in this order), paper=yes
(the printed figures beside, where there are any), digits=3.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from entrenous_field.programs import programs

from entrenous.core.errors import InputError

from .comparisons import compared, over_seeds
from .coverage import PAPERS, STATES, covered, share_answered
from .render import ABSENT, difference, figure, number, piped
from .result import Row
from .stored import StoredResult
from .table import system_of
from .values import worded
from .verdicts import counted_verdicts, in_short, judged

BLOCK = re.compile(r"<!-- stored: (?P<spec>[^>]+?) -->(?P<content>.*?)<!-- /stored -->", re.S)
OPTIONS = {
    "show",
    "data",
    "metrics",
    "systems",
    "paper",
    "digits",
    "with",
    "system",
    "other",
    "metric",
    "of",
    "over",
}
CHECKOUT = Path(__file__).parents[4]  # with tests/ and docs/, which items of coverage name
NAMES = {"fpl": "FPL", "cali3f": "Cali3F", "fbalf": "FBALF", "pepper": "PEPPER"}
Stored = Mapping[str, StoredResult]
Spec = Mapping[str, str]


def pages(root: Path) -> list[Path]:
    """The pages of a checkout that may have blocks: README.md, docs/ and lab/notes/."""
    docs = sorted((root / "docs").rglob("*.md"))
    notes = sorted((root / "lab" / "notes").glob("*.md"))
    return [root / "README.md", *docs, *notes]


def filled(text: str, stored: Stored, where: str = "") -> str:
    """A page with every block filled anew. Raises InputError for a block that asks for what no
    stored result has.
    """

    def fill(found: re.Match[str]) -> str:
        spec = _spec(found["spec"], where)
        content = SHOWS[spec["show"]](spec, stored)
        inside = content if spec["show"] in ("value", "interval", "accused") else f"\n{content}\n"
        return f"<!-- stored: {found['spec']} -->{inside}<!-- /stored -->"

    return BLOCK.sub(fill, text)


def unmarked(text: str) -> list[str]:
    """The tables of a page that have measured figures (a decimal fraction) and stand in no block:
    the first line of each.
    """
    rest = BLOCK.sub("", text)
    tables = re.findall(r"(?:^\|.*\n?)+", rest, re.M)
    return [table.splitlines()[0] for table in tables if re.search(r"(?<![\w.])\d?\.\d{2,}", table)]


def _spec(said: str, where: str) -> dict[str, str]:
    """The options of a marker by name; `name` is the experiment."""
    first, *rest = (part.strip() for part in said.split(";"))
    spec = {
        "show": "table",
        "digits": "3",
        **dict(part.split("=", 1) for part in rest if "=" in part),
        "name": first,
    }
    unknown = {part for part in rest if "=" not in part} | spec.keys() - OPTIONS - {"name"}
    if unknown or spec["show"] not in SHOWS:
        raise InputError(
            where or "marker",
            f"cannot read '{said}'",
            expected=f"NAME; option=value of {', '.join(sorted(OPTIONS))}",
        )
    return spec


def _result(spec: Spec, stored: Stored) -> StoredResult:
    if spec["name"] not in stored:
        raise InputError(
            spec["name"],
            "no result of it is stored",
            expected="one",
            fix=f"entrenous papers {spec['name']}",
        )
    return stored[spec["name"]]


# ---- a table -------------------------------------------------------------------------------------


def _table(spec: Spec, stored: Stored) -> str:
    result = _result(spec, stored)
    rows = result.content["rows"]
    data = _names(spec, "data") or list(dict.fromkeys(row["data"] for row in rows))
    metrics = _names(spec, "metrics") or list(
        dict.fromkeys(row["metric"] for row in rows if row["data"] in data)
    )
    of = {(row["data"], str(system_of(row)), row["metric"]): row for row in rows}
    systems = _names(spec, "systems") or list(
        dict.fromkeys(system for one, system, _ in of if one in data)
    )
    asked = [(one, metric) for one in data for metric in metrics]
    columns = {
        key: column
        for key in asked
        if any(column := [of.get((key[0], system, key[1])) for system in systems])
    }
    if not columns:
        raise InputError(spec["name"], f"no rows of {spec}", expected="rows of the stored result")
    lines = [["", *(f"`{system}`" for system in systems)]]
    for (one, metric), column in columns.items():
        lines.extend(_column(", ".join([metric, *([one] if len(data) > 1 else [])]), column, spec))
    return "\n".join(
        [*piped([list(line) for line in zip(*lines, strict=True)]), "", caption(result, data)]
    )


def _column(head: str, column: Sequence[Row | None], spec: Spec) -> Iterator[list[str]]:
    """A column of figures; before it the printed ones, where they are asked for and there are
    any.
    """
    digits, printed = int(spec["digits"]), [None if row is None else row["paper"] for row in column]
    beside = spec.get("paper") == "yes" and any(one is not None for one in printed)
    if beside:
        yield [
            f"{head}: paper",
            *(ABSENT if one is None else number(one, digits) for one in printed),
        ]
    yield [
        "ours" if beside else head,
        *(ABSENT if row is None else figure(row, digits) for row in column),
    ]


def caption(result: StoredResult, data: Sequence[str] = ()) -> str:
    """The command behind a table, its seeds, and the day and commit."""
    pins, quick = result.origin["pins"], " --quick" if result.quick else ""
    excerpt = " **An excerpt (`--quick`), not the full table.**" if result.quick else ""
    pinned = dict.fromkeys(name.partition(",")[0] for name in data)
    told = "".join(f", {name} {pins[name][:12]}" for name in pinned if name in pins)
    said = f"`entrenous experiment {result.name}{quick}`; {result.counted(data)}"
    for made in result.made(data):
        said += f"; {made['date']}, commit {made['commit']}"
    return (
        f"<sub>{said}; sha256 of rows{told.lstrip(',')}.{excerpt}</sub>"
        if told
        else f"<sub>{said}.{excerpt}</sub>"
    )


# ---- findings, single figures, an index ----------------------------------------------------------


def _findings(spec: Spec, stored: Stored) -> str:
    result = _result(spec, stored)
    notes = [note for note in result.content["notes"] if spec.get("with", "") in note]
    if not notes:
        raise InputError(
            spec["name"], f"no finding has '{spec.get('with', '')}'", expected="words of a finding"
        )
    return "\n".join([*(f"- {note}" for note in notes), "", caption(result)])


def _value(spec: Spec, stored: Stored) -> str:
    wanted = (spec["data"], spec["system"], spec["metric"])
    row = _result(spec, stored).row(*wanted)
    if row is None or row["obtained"] is None:
        raise InputError(
            spec["name"], f"no figure of {', '.join(wanted)}", expected="a row of the stored result"
        )
    return number(row["obtained"], int(spec["digits"]))


def _interval(spec: Spec, stored: Stored) -> str:
    test_of = over_seeds if spec.get("over") == "seeds" else compared
    test = test_of(
        _result(spec, stored), spec["data"], spec["system"], spec["other"], spec["metric"]
    )
    if test is None or "p_holm" not in test:
        raise InputError(
            spec["name"],
            f"no test of {spec['system']} against {spec['other']}",
            expected="a test that is stored",
        )
    return difference(test, int(spec["digits"]))


def _index(spec: Spec, stored: Stored) -> str:
    lines = [["experiment", "", "seeds", "day", "figures"]]
    for name, result in sorted(stored.items()):
        kind = result.kind + (f": {', '.join(result.only)}" if result.only else "")
        about = f"[{name}](../lab/results/{name}.md): {result.content['title']}"
        lines.append(
            [about, kind, result.seeds, result.origin["date"], str(len(result.content["rows"]))]
        )
    return "\n".join(piped(lines))


def _verdicts(_: Spec, stored: Stored) -> str:
    header = list[str]()
    lines = list[list[str]]()
    for paper in PAPERS:
        claims = in_short(paper, stored)
        verdicts = [verdict for claim in claims for verdict in claim.verdicts]
        counts = counted_verdicts(verdicts)
        header = ["paper", "claims", "judgements", *counts]
        lines.append(
            [NAMES[paper], str(len(claims)), str(len(verdicts)), *map(str, counts.values())]
        )
    return "\n".join(piped([header, *lines]))


def _claims(spec: Spec, stored: Stored) -> str:
    header = ["where", "the paper says", "here", "judged on", "command"]
    lines = [
        [claim.where, claim.says, claim.shown, claim.on, claim.command]
        for claim in in_short(spec["of"], stored)
    ]
    return "\n".join(piped([header, *lines], numbers=False))


def _judged(spec: Spec, stored: Stored) -> str:
    header = ["where", "the paper says", "judged on", "here", "command", "figures"]
    return "\n".join(piped([header, *map(list, judged(spec["of"], stored))], numbers=False))


# ---- coverage ------------------------------------------------------------------------------------


def _coverage(spec: Spec, stored: Stored) -> str:
    header = ["section", "begins", "states", "where it is", "here"]
    lines = [
        [one.section, one.begins, one.states, one.there or ABSENT, one.here]
        for one in covered(spec["of"], stored, CHECKOUT)
    ]
    return "\n".join(piped([header, *lines], numbers=False))


def _covered(_: Spec, stored: Stored) -> str:
    lines = [["paper", "sentences", *STATES, "answered, of what can be"]]
    for paper in PAPERS:
        sentences = covered(paper, stored, CHECKOUT)
        counts = Counter(one.state for one in sentences)
        counted = [str(n) for n in (len(sentences), *(counts[state] for state in STATES))]
        lines.append([NAMES[paper], *counted, f"{share_answered(sentences):.1%}"])
    return "\n".join(piped(lines))


def _headlines(_: Spec, stored: Stored) -> str:
    header = ["paper", "the abstract says", "here", "command"]
    lines = [
        [NAMES[paper], claim.says, claim.shown, claim.command]
        for paper in PAPERS
        for claim in in_short(paper, stored)
        if claim.headline
    ]
    return "\n".join(piped([header, *lines], numbers=False))


def _accused(_: Spec, __: Stored) -> str:
    return ", ".join(each.label for each in programs() if each.accused)


def _programs(spec: Spec, _: Stored) -> str:
    lines = [worded("field", "programs")]
    for each in programs():
        if each.accused or spec["of"] == "all":
            lines.append(worded("field", "read" if each.commit else "unread", each=each))
    return "\n".join(lines)


def _names(spec: Spec, option: str) -> list[str]:
    return [one.strip() for one in spec[option].split("|")] if option in spec else []


SHOWS: Mapping[str, Callable[[Spec, Stored], str]] = {
    "table": _table,
    "findings": _findings,
    "value": _value,
    "interval": _interval,
    "index": _index,
    "verdicts": _verdicts,
    "claims": _claims,
    "judged": _judged,
    "headlines": _headlines,
    "coverage": _coverage,
    "covered": _covered,
    "programs": _programs,
    "accused": _accused,
}


def write_pages(root: Path, stored: Stored) -> Iterator[Path]:
    """Fills the pages of a checkout; yields those that changed."""
    from entrenous.runs.store import write_atomically

    for page in pages(root):
        text = page.read_text(encoding="utf-8")
        if (now := filled(text, stored, page.name)) != text:
            write_atomically(page, now.encode())
            yield page
