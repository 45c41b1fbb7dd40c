"""`audit`: what leaves devices gives away, measured by attacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..algorithms.named import algorithms
from ..audit.examine import audited
from ..audit.plan import AuditPlan
from ..core.contract.protocols import Progress
from ..core.errors import InputError
from ..core.registry.own import is_place
from ..runs import store
from .asked import algorithm_asked, data_asked
from .progress import asked_progress
from .words import in_python


def audit(
    what: Any,
    data: Any = None,
    *,
    settings: Mapping[str, Any] | None = None,
    attacks: Sequence[str] = (),
    root: str | Path = "runs",
    progress: bool | Progress | None = None,
    todays_code: bool = False,
    **further: Any,
) -> dict[str, Any]:
    """Record what one onlooker sees of a training, run attacks on that alone, and measure what they
    find.

    Args: what: an algorithm (a name, a class, an instance), or a stored run: its folder, its name
        under `root`, or "latest". data: as of `run`; None = ml-100k, or that of the run. settings:
        hyper-parameters by name. attacks: names; () = all that apply. progress: True, False, or a
        function (done, total, what); None = on a terminal and in a notebook. todays_code: audit a
        stored run though its algorithm's code has changed. further: view ("individual", "sum",
        "difference", "neighbour", "model"), cohort, rounds, fixed, people, watched, profile,
        protect,
            public_draws, replayed, chosen, canaries, protocol, load, refit, network, seed, quick,
            threads: as `audit.plan.AuditPlan` describes them.

    Returns: The report as a dictionary: `attacks` has one entry an attack with its figures and its
        verdict, which is never "safe".

    Raises:
        InputError: for what cannot be audited, in one line, before anything is trained.
    """
    with in_python(), asked_progress(progress) as shown:
        return audited_what(
            what,
            data,
            settings=settings or {},
            attacks=tuple(attacks),
            root=Path(root),
            todays_code=todays_code,
            progress=shown,
            **further,
        )


def audited_what(
    what: Any,
    data: Any,
    *,
    settings: Mapping[str, Any],
    root: Path,
    todays_code: bool,
    progress: Progress,
    **further: Any,
) -> dict[str, Any]:
    """As `audit`, with errors in the words of the command line."""
    if isinstance(what, str | Path) and (stored := _stored(str(what), root)) is not None:
        _refuse_change(data, settings, further)
        return audited(
            of_run(stored, further), stored=stored, todays_code=todays_code, progress=progress
        )
    name, preset = algorithm_asked(what)
    rows = data_asked("ml-100k" if data is None else data)
    named = rows if isinstance(rows, str) else rows.name
    plan = AuditPlan(algorithm=name, settings={**preset, **settings}, data=named, **further)
    return audited(plan, None if isinstance(rows, str) else rows, progress=progress)


def _refuse_change(data: Any, settings: Mapping[str, Any], further: Mapping[str, Any]) -> None:
    """A stored run is audited as it was trained."""
    own = {
        "data": data,
        "set": settings,
        **{name: further.get(name) for name in ("protocol", "load", "refit", "network", "protect")},
    }
    for name, value in own.items():
        if value or value is False:
            fix = "leave it out, or name the algorithm"
            raise InputError(
                f"--{name}",
                "a stored run has its own",
                expected="what it was trained with",
                fix=fix,
            )


def of_run(stored: store.StoredRun, further: Mapping[str, Any]) -> AuditPlan:
    """The plan of the audit of a stored run: what the run was, and how it is looked at."""
    names = ("algorithm", "data", "protocol", "settings", "refit", "network", "profile", "protect")
    kept = {name: stored.manifest[name] for name in names if name in stored.manifest}
    seen = {name: value for name, value in further.items() if name not in kept and name != "load"}
    return AuditPlan(**{**kept, **seen, "seed": stored.manifest["seed"]})


def _stored(name: str, root: Path) -> store.StoredRun | None:
    """The stored run of a name; None for that of an algorithm, or of nothing."""
    if (
        name in algorithms()
        or is_place(name)
        or not (name == "latest" or (root / name).exists() or Path(name).exists())
    ):
        return None
    return store.read(name, root)
