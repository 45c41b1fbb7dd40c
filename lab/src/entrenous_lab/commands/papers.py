"""`entrenous papers`: every table and figure, stored with its origin, and the documentation that is
made of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from entrenous.cli.console import emit_json, goes_on, progress_bar, say, table
from entrenous.core.errors import CheckFailed, InputError
from entrenous.core.keywords import at_least

if TYPE_CHECKING:
    from ..papers.batch import BatchLine, PaperStock

RESULTS = Path("lab") / "results"


def papers(
    *names: str,
    quick: bool = False,
    list: bool = False,
    seeds: int = 0,
    data: tuple[str, ...] = (),
    threads: int = 0,
    again: bool = False,
    confirm: bool = False,
    daily: bool = False,
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
    from ..papers.batch import Asked, run_papers, stock
    from ..papers.provenance import need_committed

    at_least("--threads", threads, 0)
    at_least("--seeds", seeds, 0)
    if docs:
        _docs(out)
        return
    # An excerpt, and what goes elsewhere, is nobody's origin.
    if out == RESULTS and not (quick or list):
        need_committed("--out")
    if confirm:
        _confirm(names, out, cells, threads, json, daily)
        return
    asked = Asked(quick, seeds, _several(data))
    if list:
        _list(stock(names, out), json)
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


def _list(shown: Sequence[PaperStock], as_json: bool) -> None:
    """What is stored of each experiment."""
    entries = [_entry(one) for one in shown]
    if as_json:
        emit_json({"papers": entries})
        return
    heads = ["experiment", "stored", "seeds", "date", "state"]
    table(heads, [list(entry.values()) for entry in entries])


def _entry(one: PaperStock) -> dict[str, str]:
    kind, seeds, date = "-", "-", "-"
    if one.stored is not None:
        kind, seeds, date = one.stored.kind, one.stored.seeds, one.stored.origin["date"]
    return {"name": one.name, "stored": kind, "seeds": seeds, "date": date, "state": one.state}


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
