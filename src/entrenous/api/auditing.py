"""`audit`: what leaves devices gives away, measured by attacks."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from ..algorithms.named import algorithms
from ..audit.examine import audited
from ..audit.plan import AuditOptions, AuditPlan
from ..core.contract.protocols import Progress
from ..core.errors import InputError
from ..core.keywords import values
from ..core.registry.discover import is_place
from ..runs import store
from .arguments import algorithm_asked, asked_progress, named_rows, public

# Options that a stored run decides.
OF_TRAINING = ("settings", "protocol", "load", "refit", "network", "protect")


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class AuditKeywords(AuditOptions):
    """The keywords of `audit`: the options of `entrenous audit`, and what only Python can hand
    in.
    """

    what: Any = field(kw_only=False)
    """An algorithm (a name, a class, an instance), or a stored run: its folder, its name under
    `root`, or "latest"."""
    data: Any = field(default=None, kw_only=False)
    """As of `entrenous.run`; None = ml-100k, or the data of the run. Of a stored run: the file or
    folder that has its rows today."""
    root: str | Path = "runs"
    """The folder that holds the stored runs."""
    progress: bool | Progress | None = None
    """As of `entrenous.run`."""
    todays_code: bool = False
    """Audit a stored run although its algorithm's code has changed."""


@public(AuditKeywords)
def audit(asked: AuditKeywords) -> dict[str, Any]:
    """Record the messages that one onlooker sees of a training, run attacks on these alone, and
    measure what the attacks find.

    Returns the report as a dictionary: `attacks` has one entry for each attack with its figures and
    its verdict, which is never "safe". Raises InputError for what cannot be audited, in one line,
    before anything is trained.
    """
    return audited_what(asked)


def audited_what(asked: AuditKeywords) -> dict[str, Any]:
    """As `audit`, with errors in the words of the command line."""
    with asked_progress(asked.progress) as progress:
        stored = None
        if isinstance(asked.what, str | Path):
            data = str(asked.data) if isinstance(asked.data, str | Path) else None
            stored = _stored(str(asked.what), Path(asked.root), data)
        # A stored run is a training already; anything else is trained for the audit.
        if stored is not None:
            plan = _plan_of_run(asked, stored)
            return audited(plan, stored=stored, todays_code=asked.todays_code, progress=progress)
        name, preset = algorithm_asked(asked.what)
        data, rows = named_rows("ml-100k" if asked.data is None else asked.data)
        options = values(asked, AuditOptions)
        options["settings"] = {**preset, **asked.settings}
        plan = AuditPlan(algorithm=name, data=data, **options)
        return audited(plan, rows, progress=progress)


def _plan_of_run(asked: AuditKeywords, stored: store.StoredRun) -> AuditPlan:
    """The plan of the audit of a stored run: the training is the run's, the onlooker is the
    caller's. Raises InputError for options that the stored run decides.
    """
    # Rows in memory cannot stand for those of a stored run; a path has been followed already.
    in_memory = () if isinstance(asked.data, str | Path) else ("data",)
    for name in (*in_memory, *OF_TRAINING):
        value = getattr(asked, name)
        # `--no-refit` is an option too, though it is false.
        if value or value is False:
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
