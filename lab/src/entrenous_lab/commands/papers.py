"""`entrenous papers`: every table and figure, stored with its origin, and the documentation that is
made of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from entrenous.cli.console import emit_json, goes_on, progress_bar, say, table
from entrenous.core.errors import CheckFailed, InputError
from entrenous.core.keywords import at_least

if TYPE_CHECKING:
    from ..papers.batch import BatchLine, PaperStock
    from ..papers.estimate import WorkLeft

RESULTS = Path("lab") / "results"


def papers(
    *names: str,
    quick: bool = False,
    list: bool = False,
    estimate: bool = False,
    seeds: int = 0,
    data: tuple[str, ...] = (),
    threads: int = 0,
    again: bool = False,
    confirm: bool = False,
    daily: bool = False,
    restate: bool = False,
    docs: bool = False,
    out: Path = RESULTS,
    cells: Path | None = None,
    json: bool = False,
) -> None:
    """Run every table and figure whose stored result is absent or stale, the quickest first, and
    store each with its origin.

    Parameters
    ----------
    names:
        Which, instead of all: of {experiments}.
    quick:
        Excerpts; they never take the place of a full result.
    list:
        Run nothing; say what is stored, and whether today's program and settings would give the
        same.
    estimate:
        As --list, and how long what is left would take, at the pace of the trainings that are
        remembered.
    seeds:
        How many seeds, where a table has seeds; 0 = as many as it usually has.
    data:
        Which data sets, of those that a table has (ml-100k,ml-1m). They are made anew if they are
        stored; rows of other data sets stay, each with its own day and program.
    threads:
        Trainings at once, 0 = one a core.
    again:
        Run fresh ones again, too; finished trainings stay remembered.
    confirm:
        Make no table: begin a sample of the trainings behind each result again, and make its table
        of made-up outcomes. If one differs from what is recorded, the result is stale, else fresh.
    daily:
        With --confirm: three results of today whose sample is cheap; all such come round.
    restate:
        Train nothing; compute the rows over several data sets (ranks, wins and losses) anew from
        the stored rows of each data set. The file says so.
    docs:
        Run nothing; fill the tables and figures of README.md and docs/*.md, and the page of claims,
        from the results in --out.
    out:
        Where results go: NAME.json, NAME.md and figures.
    cells:
        Where finished trainings are remembered; default: `experiments` in the data folder.
    json:
        Print one JSON object on stdout.
    """
    from entrenous.data.home import data_home

    from ..papers.batch import Asked, estimates, run_papers, stock
    from ..papers.provenance import need_committed

    at_least("--threads", threads, 0)
    at_least("--seeds", seeds, 0)
    if docs:
        _docs(out)
        return
    # An excerpt, and what goes elsewhere, is nobody's origin.
    if out == RESULTS and not (quick or list or estimate):
        need_committed("--out")
    if confirm:
        _confirm(names, out, cells, threads, json, daily)
        return
    if restate:
        _restate(names, out)
        return
    asked = Asked(quick, seeds, _several(data))
    if list or estimate:
        shown = stock(names, out)
        due = [one for one in shown if one.wanted(asked)] if estimate else []
        with progress_bar() as progress:
            left = {}
            for name, work in estimates(due, cells or data_home() / "experiments", asked):
                left[name] = work
                progress(len(left), len(due), name)
        _list(shown, left, json)
        return
    with goes_on("start it again: what it has trained is remembered"), progress_bar() as progress:
        lines = run_papers(
            names,
            asked,
            out=out,
            cells=cells,
            threads=threads,
            again=again,
            progress=progress,
            tell=lambda done, total, what: say(f"[{done + 1}/{total}] {what}"),
        )
    _show(lines, json)


def _several(data: Sequence[str]) -> tuple[str, ...]:
    """The data sets of --data A,B; names of rows may have a comma and a space. Raises InputError
    for an empty name.
    """
    names = tuple(name for some in data for name in re.split(r",(?! )", some))
    if not all(map(str.strip, names)):
        raise InputError(
            "--data",
            f"an empty name in '{','.join(data)}'",
            expected="data sets with a comma between them",
        )
    return names


def _confirm(
    names: Sequence[str],
    out: Path,
    cells: Path | None,
    threads: int,
    as_json: bool,
    daily: bool,
) -> None:
    """Compares a sample of trainings of each stored result. Raises CheckFailed if one gives
    something else.
    """
    from ..papers.batch import stock
    from ..papers.confirm import confirm, of_day

    stored = {one.name: one.stored for one in stock(names, out) if one.stored is not None}
    chosen = [*stored]
    if daily:
        chosen = of_day(stored, date.today().toordinal())
    lines = []
    with progress_bar() as progress:
        for line in confirm(chosen, out=out, cells=cells, threads=threads, progress=progress):
            lines.append(line)
            say(f"[{len(lines)}/{len(chosen)}] {line.name}: {line.failed or line.said}")
            for label in line.differ:
                say(f"    differs: {label}")
    if as_json:
        emit_json({"papers": [line._asdict() for line in lines]})
    if wrong := [line.name for line in lines if line.differ or line.failed]:
        raise CheckFailed(f"{len(wrong)} of {len(lines)} not confirmed: {', '.join(wrong)}")


def _restate(names: Sequence[str], out: Path) -> None:
    """Restates stored results: the named ones, or all whose tables have rows over data sets."""
    from ..papers.batch import stock
    from ..papers.restate import restate
    from ..papers.runner import experiments

    tables = experiments()
    chosen = names or [name for name, table in tables.items() if table.across is not None]
    for line in stock(chosen, out):
        if line.stored is None:
            say(f"{line.name}: not run yet")
            continue
        changed = restate(line.stored, tables[line.name], out)
        say(f"{line.name}: {changed} rows restated")


def _docs(out: Path) -> None:
    """Fills the pages of the checkout in which the results lie. Raises InputError where there are
    no such pages.
    """
    from ..papers.documents import write_pages
    from ..papers.runner import experiments
    from ..papers.stored import stored_in

    root = out.resolve().parent.parent
    if not (root / "docs").is_dir() or not (root / "README.md").is_file():
        raise InputError(
            "--docs",
            f"no README.md and docs in {root}",
            expected="results in lab/results of a checkout",
        )
    for page in write_pages(root, stored_in(out, experiments())):
        say(f"{page.relative_to(root)} changed")


def _list(shown: Sequence[PaperStock], left: dict[str, WorkLeft], as_json: bool) -> None:
    """What is stored of each experiment, and with estimates the hours on one core that are left."""
    if as_json:
        emit_json({"papers": [_entry(one, left.get(one.name)) for one in shown]})
        return
    from ..papers.batch import remaining
    from ..papers.remember import cores

    rows = []
    for one in shown:
        what = _entry(one, left.get(one.name))
        rows.append(
            [
                what["name"],
                what["stored"],
                what["seeds"],
                what["date"],
                what["state"],
                *([_left(what)] if left else []),
            ]
        )
    table(
        ["experiment", "stored", "seeds", "date", "state", *(["left, core h"] if left else [])],
        rows,
    )
    if left:
        for line in dict.fromkeys(line for one in left.values() for line in one.absent):
            say(f"Not counted. {line}")
        say(remaining([*left.values()], cores()))


def _entry(one: PaperStock, left: WorkLeft | None) -> dict[str, Any]:
    kind = "-" if one.stored is None else one.stored.kind
    seeds, date = (
        ("-", "-") if one.stored is None else (one.stored.seeds, one.stored.origin["date"])
    )
    entry = {"name": one.name, "stored": kind, "seeds": seeds, "date": date, "state": one.state}
    if left is None:
        return entry
    return {
        **entry,
        "seconds": left.seconds,
        "trainings": len(left.missing),
        "unknown": left.unknown,
        "studied": left.studied,
        "absent": list(left.absent),
    }


def _left(entry: dict[str, Any]) -> str:
    if "seconds" not in entry:
        return "-"
    if not entry["studied"]:
        return "unknown: its rows are not here, or it remembers no training"
    return f"{entry['seconds'] / 3600:.2f}" + (
        f" + {entry['unknown']} never timed" if entry["unknown"] else ""
    )


def _show(lines: Sequence[BatchLine], as_json: bool) -> None:
    """What became of each experiment. Raises CheckFailed if one of them failed."""
    failed = [line for line in lines if line.failed]
    if as_json:
        emit_json(
            {
                "papers": [
                    {"name": line.name, "said": line.said, "failed": line.failed} for line in lines
                ]
            }
        )
    else:
        table(
            ["experiment", "", "failed"],
            [[line.name, line.said, line.failed or "-"] for line in lines],
        )
    if failed:
        raise CheckFailed(
            f"{len(failed)} of {len(lines)} failed: {', '.join(line.name for line in failed)}"
        )
