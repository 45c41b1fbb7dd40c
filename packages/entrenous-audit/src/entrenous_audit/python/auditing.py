"""`audit`: what leaves devices gives away, measured by attacks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, final

from entrenous.api.arguments import (
    AlgorithmAsked,
    DataAsked,
    FrameT,
    ProgressAsked,
    algorithm_asked,
    asked_progress,
    kind_of,
    named_rows,
    public,
)
from entrenous.api.results import Figure, Report, Table
from entrenous.api.run import Run
from entrenous.core.errors import InputError
from entrenous.core.keywords import values
from entrenous.core.registry.discover import is_place
from entrenous.data.interactions import Interactions
from entrenous.report import figures
from entrenous.report.figures import FigureFormat
from entrenous.runs import store
from entrenous.runs.train import Say
from entrenous.systems.named import algorithms

from ..examine import AuditFound, audited
from ..plan import AuditOptions, AuditPlan
from . import audit_tables

# Options that a stored run decides.
OF_TRAINING = ("settings", "protocol", "load", "refit", "network", "protect")


@final
class Audit(Report[AuditFound, FrameT]):
    """The findings of attacks. `table()` has a row for each attack with its figures and its
    verdict; the first row is a guess by popularity alone.
    """

    @property
    def notes(self) -> list[str]:
        """Sentences on what the figures rest on, and on their limits."""
        return [*audit_tables.first_said(self.found), *audit_tables.sentences(self.found)]

    def plot(self) -> Figure:
        """A bar of R-precision for each attack that was tried, with popularity alone as the
        yardstick of those on histories.
        """
        found = {"popularity alone": self.found["popularity"]["r_precision"]}
        for attack in self.found["attacks"]:
            found[f"{attack['name']}, {attack['view']}"] = attack["r_precision"]
        bars = {name: value for name, value in found.items() if value is not None}
        series = {"R-precision": list(bars.values())}
        look = FigureFormat(self._caption(), "R-precision of what the attack guessed", "")
        return Figure(figures.bars(list(bars), series, look))

    def _caption(self) -> str:
        return audit_tables.caption(self.found)

    def _records(self) -> list[dict[str, object]]:
        return audit_tables.records(self.found)

    def _shown(self) -> Table:
        return Table(self._caption(), audit_tables.HEADERS, audit_tables.cells(self.found))


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class AuditKeywords(AuditOptions, Generic[FrameT]):
    """The keywords of `audit`: the options of `entrenous audit`, and what only Python can hand
    in.
    """

    what: AlgorithmAsked | Path | Run[FrameT] = field(kw_only=False)
    """An algorithm (a name, a class, an instance), a finished `Run`, or a stored one: its folder,
    its name under `root`, or "latest"."""
    data: DataAsked[FrameT] | None = field(default=None, kw_only=False)
    """As of `entrenous.run`; None = ml-100k, or the data of the run. Of a stored run: the file or
    folder that has its rows today."""
    root: str | Path = "runs"
    """The folder that holds the stored runs."""
    progress: ProgressAsked = None
    """As of `entrenous.run`."""
    todays_code: bool = False
    """Audit a stored run although its algorithm's code has changed."""


@public(AuditKeywords)
def audit(asked: AuditKeywords[FrameT]) -> Audit[FrameT]:
    """Record the messages that one onlooker sees of a training, run attacks on these alone, and
    measure what the attacks find.

    No verdict is "safe". Raises InputError for what cannot be audited, in one line,
    before anything is trained.
    """
    rows = asked.what.train if isinstance(asked.what, Run) else asked.data
    return Audit(audited_what(asked), kind_of(rows))


def audited_rows(rows: Interactions | None, **options: Any) -> AuditFound:
    """Audits rows that are there, for the engine `audit`. options: of an `AuditPlan`."""
    return audited(AuditPlan(**options), rows)


def audited_what(asked: AuditKeywords[Any], say: Say | None = None) -> AuditFound:
    """As `audit`, with errors in the words of the command line. say: as of `audited`."""
    if isinstance(asked.what, Run):
        # It is read from its folder, with the rows that it has kept.
        with asked.what.in_folder() as folder:
            return audited_what(replace(asked, what=folder), say)
    with asked_progress(asked.progress) as progress:
        stored = None
        if isinstance(asked.what, str | Path):
            data = str(asked.data) if isinstance(asked.data, str | Path) else None
            stored = _stored(str(asked.what), Path(asked.root), data)
        # A stored run is a training already; anything else is trained for the audit.
        if stored is not None:
            plan = _plan_of_run(asked, stored)
            todays_code = asked.todays_code
            return audited(plan, stored=stored, todays_code=todays_code, progress=progress, say=say)
        what = str(asked.what) if isinstance(asked.what, Path) else asked.what
        name, preset = algorithm_asked(what)
        data, rows = named_rows("ml-100k" if asked.data is None else asked.data)
        options = values(asked, AuditOptions)
        options["settings"] = {**preset, **asked.settings}
        plan = AuditPlan(algorithm=name, data=data, **options)
        return audited(plan, rows, progress=progress, say=say)


def _plan_of_run(asked: AuditKeywords[Any], stored: store.StoredRun) -> AuditPlan:
    """The plan of the audit of a stored run: the training is the run's, the onlooker is the
    caller's. Raises InputError for options that the stored run decides.
    """
    # Rows in memory cannot stand for those of a stored run; a path has been followed already.
    in_memory = () if isinstance(asked.data, str | Path | None) else ("data",)
    for name in (*in_memory, *OF_TRAINING):
        value = getattr(asked, name)
        # `--no-refit` is an option too, though it is false; and a frame is neither.
        if name in in_memory or value or value is False:
            word = "set" if name == "settings" else name
            raise InputError(
                f"--{word}",
                "a stored run has its own",
                expected="what it was trained with",
                fix="leave it out, or name the algorithm",
            )
    names = {*OF_TRAINING, "algorithm", "data", "profile", "seed"} - {"load"}
    of_run = {name: stored.manifest[name] for name in names if name in stored.manifest}
    options = values(asked, AuditOptions)
    del options["load"]
    return AuditPlan(**{**options, **of_run})


def _stored(name: str, root: Path, data: str | None) -> store.StoredRun | None:
    """The stored run of a name; None for the name of an algorithm, or of nothing. data: as of
    `store.read`.
    """
    # A folder with the name of an algorithm is not meant.
    if name in algorithms() or is_place(name):
        return None
    if name == "latest" or (root / name).exists() or Path(name).exists():
        return store.read(name, root, data)
    return None
