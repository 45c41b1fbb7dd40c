"""`run_papers`: every experiment, the quickest first, each stored as soon as it is done; a failure
of one does not stop the others.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from entrenous.core.contract.protocols import Progress, silent
from entrenous.core.errors import InputError, one_line
from entrenous.core.registry.discover import pick
from entrenous.data.home import data_home

from .confirm import confirm
from .estimate import TrainingCosts, WorkLeft, work_left
from .joined import joinable, joined, lacking
from .remember import Cells, cores
from .result import Context
from .runner import experiments, need_scipy, run_experiment, writable
from .stored import FOLDER, StoredResult, keep, stored_in


class Asked(NamedTuple):
    """How an experiment is to be run: as in `run_experiment`."""

    quick: bool = False
    seeds: int = 0
    only: tuple[str, ...] = ()


USUAL = Asked()


class BatchLine(NamedTuple):
    """What became of an experiment. failed: why it did not end, "" if it did. stored: its result,
    None where there is none.
    """

    name: str
    said: str
    failed: str = ""
    stored: StoredResult | None = None


class PaperStock(NamedTuple):
    """An experiment and its stored result; None = never run. changed: see StoredResult.changed."""

    name: str
    stored: StoredResult | None
    changed: Sequence[str]

    @property
    def state(self) -> str:
        """In words: what is stored, and whether today's program would give the same."""
        if self.stored is None:
            return "not run"
        last = self.stored.origin.get("confirmed") or self.stored.origin
        if last.get("differ"):
            return f"stale: {len(last['differ'])} of its sample give something else"
        if self.changed:
            return f"not confirmed since {last['date']}: {', '.join(self.changed)}"
        return "fresh"

    def kept(self, asked: Asked) -> str:
        """In words, of one that is not run: what stays, and why if it is more than was asked
        for.
        """
        assert self.stored is not None
        more = (
            f" of {', '.join(self.stored.only) or 'all its data sets'}, which is more than was"
            " asked for"
        )
        return f"{self.state}{'' if self.replaceable(asked) else more}, not run again"

    def replaceable(self, asked: Asked) -> bool:
        """Whether what is asked for is no less than what is stored, or can be added to it."""
        if self.stored is None or (self.stored.quick and not asked.quick):
            return True
        if self.done(asked, again=True):
            return True
        return self.covered(asked) and self.stored.quick == asked.quick

    def covered(self, asked: Asked) -> bool:
        """Whether all data sets that are stored are asked for."""
        stored = self.stored.only or ("all",) if self.stored else ()
        return not asked.only or set(stored) <= set(asked.only)

    def done(self, asked: Asked, *, again: bool = False) -> tuple[str, ...]:
        """The stored data sets whose rows stay while the others that are asked for are made; () if
        all is to be made.

        Rows that today's program may not give, and with `again` all, stay only where other data
        sets are named.
        """
        whole = experiments()[self.name]
        if self.stored is None or not joinable(
            self.stored, whole, quick=asked.quick, seeds=asked.seeds
        ):
            return ()
        if self.changed or again:
            return tuple(name for name in self.stored.sets if asked.only and name not in asked.only)
        lacks = self.stored.only and set(asked.only or ("all",)) - set(self.stored.only)
        return self.stored.sets if lacks else ()

    def wanted(self, asked: Asked = USUAL) -> str:
        """Why a run is wanted; "" if it is not. A quick result takes no full one's place, and a
        part not that of more.
        """
        if self.stored is None:
            return "not run"
        if not self.replaceable(asked):
            return ""
        if self.stored.quick and not asked.quick:
            return "quick"
        if self.stored.only and set(asked.only or ("all",)) - set(self.stored.only):
            return "part"
        other = bool(asked.seeds) and self.stored.content.get("asked_seeds") != asked.seeds
        return self.state if self.changed else "other seeds" if other else ""


def stock(names: Iterable[str] = (), folder: Path = FOLDER) -> list[PaperStock]:
    """Every experiment (of `names`) and what is stored of it. Raises InputError for an unknown
    name.
    """
    known = experiments()
    chosen = [name for name in names if pick("experiment", name, known)] or list(known)
    found = stored_in(folder, chosen)
    return [
        PaperStock(name, found.get(name), found[name].changed() if name in found else ())
        for name in chosen
    ]


def estimates(
    several: Iterable[PaperStock], cells: Path, asked: Asked = USUAL, *, again: bool = False
) -> Iterator[tuple[str, WorkLeft]]:
    """What each experiment would still train, at the pace of what is remembered in `cells`. Nothing
    is trained. Raises InputError without SciPy."""
    costs, known = TrainingCosts(cells), experiments()
    for one in several:
        need_scipy()
        context = Context(cells=Cells(cells), done=one.done(asked, again=again), **asked._asdict())
        yield one.name, work_left(known[one.name], context, costs)


def run_papers(
    names: Sequence[str] = (),
    asked: Asked = USUAL,
    *,
    out: Path = FOLDER,
    cells: Path | None = None,
    threads: int = 0,
    again: bool = False,
    progress: Progress = silent,
    tell: Progress = silent,
) -> list[BatchLine]:
    """Runs every experiment (of `names`) whose stored result is absent or not of today's program,
    the quickest first.

    Trainings are remembered in `cells` (None: the folder `experiments` of the data folder) as soon
    as each is finished, so that a killed run goes on where it was. A stored part grows by the data
    sets that it lacks, see `joined`. threads: trainings at once, 0 = one a core. again: fresh ones
    too, and whole. tell: told of each experiment before it begins, with the time left.

    Raises InputError for an unknown name and for a folder that cannot be written to.
    """
    remembered = data_home() / "experiments" if cells is None else cells
    for option, folder in (("--out", out), ("--cells", remembered)):
        if not writable(folder):
            raise InputError(
                option,
                f"{folder} cannot be written to",
                expected="a folder you may write to",
                fix="choose another",
            )
    shelves = stock(names, out)
    due = {
        one.name: one for one in shelves if one.wanted(asked) or (again and one.replaceable(asked))
    }
    left = dict(estimates(due.values(), remembered, asked, again=again)) if due else {}
    lines = [
        BatchLine(one.name, one.kept(asked), stored=one.stored)
        for one in shelves
        if one.name not in due
    ]
    for done, name in enumerate(
        order := sorted(due, key=lambda name: (left[name].unknown > 0, left[name].seconds))
    ):
        tell(
            done,
            len(order),
            f"{name}; {remaining([left[other] for other in order[done:]], threads or cores())}",
        )
        stay = due[name].done(asked, again=again)
        lines.append(_one(due[name], asked, out, remembered, threads, progress, stay))
    return lines


def remaining(several: Sequence[WorkLeft], workers: int) -> str:
    """The time left, in words.

    >>> remaining([WorkLeft({"a": 7200, "b": 600}), WorkLeft({"b": 600, "c": None})], 2)
    'about 1.1 h left on 2 cores, and 1 training that was never timed'
    """
    left = WorkLeft.together(several)
    hours, unknown = left.seconds / workers / 3600, left.unknown
    more = (
        f", and {unknown} training{'s' if unknown > 1 else ''} that"
        f" {'were' if unknown > 1 else 'was'} never timed"
    )
    return (
        f"about {f'{hours:.1f} h' if hours >= 1 else f'{60 * hours:.0f} min'} left on {workers}"
        f" cores{more if unknown else ''}"
    )


def _one(
    shelf: PaperStock,
    asked: Asked,
    out: Path,
    cells: Path,
    threads: int,
    progress: Progress,
    stay: tuple[str, ...],
) -> BatchLine:
    """Runs and stores one experiment; whatever goes wrong in it is told in the line. stay: the data
    sets whose stored rows stay, see `PaperStock.done`.
    """
    began, name = time.perf_counter(), shelf.name
    grows = shelf.stored if stay else None
    try:
        result = run_experiment(
            name, **asked._asdict(), done=stay, cache=cells, threads=threads, progress=progress
        )
        if not result.rows and (asked.only or (grows and lacking(result))):
            wanted = ", ".join(asked.only) or "its other data sets"
            why = "".join(f". {note}" for note in lacking(result))
            return BatchLine(name, one_line(f"nothing of {wanted}{why}", 300), stored=grows)
        if not result.rows and not grows:
            return BatchLine(name, "", one_line(" ".join(result.notes) or "no rows"))
        whole = joined(grows, stay, result, out) if grows else result
        only = asked.only
        if grows and only:
            # A whole table stays whole when some of its data sets are made anew.
            only = (*grows.only, *only) if grows.only else ()
        keep(whole, out, asked.seeds, [*dict.fromkeys(only)])
        [sampled] = confirm([name], out=out, cells=cells, threads=threads, progress=progress)
    except Exception as bad:
        if os.environ.get("ENTRENOUS_DEBUG"):
            raise
        return BatchLine(name, "", one_line(f"{type(bad).__name__}: {bad}", 300))
    trained = f"{result.computed} trained, {result.remembered} remembered"
    said = (
        f"{'quick, ' if asked.quick else ''}{time.perf_counter() - began:.0f} s, {trained};"
        f" {sampled.failed or sampled.said}"
    )
    return BatchLine(name, said, stored=stored_in(out, [name])[name])
