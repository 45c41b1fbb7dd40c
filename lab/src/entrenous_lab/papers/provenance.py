"""Where a result comes from: the day, the commit, the libraries, the rows, and the identity of the
program and settings behind it.
"""

from __future__ import annotations

import hashlib
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import entrenous
from entrenous.core.errors import InputError
from entrenous.core.registry.discover import modules
from entrenous.core.registry.program import closure, program_sha256
from entrenous.runs.manifest import versions
from entrenous.systems.named import kind_of

from .cell import COMPUTED_BY, measuring, program_of
from .named import Place, named_by, text_of
from .remember import Cells

TRAINING, SETTINGS, TABLE = PARTS = (
    "training",
    "settings",
    "table",
)  # of the program behind a result
CHANGED = "-dirty"  # behind a commit from which the program's files differ


def provenance(name: str, cells: Cells) -> dict[str, Any]:
    """What a stored result says of its origin: see `changed` for what is compared later.

    pins: {data: sha256 of its rows}. settings: the places of `trained/` and `tuned/` that were
    read. training_seconds: of all trainings behind it, whenever they were, each on one core.
    """
    algorithms, settings = sorted(cells.algorithms), sorted(cells.settings)
    return {
        "date": time.strftime("%Y-%m-%d"),
        "commit": commit(),
        "versions": versions(),
        "pins": dict(sorted(cells.pins.items())),
        "algorithms": algorithms,
        "settings": [[*place] for place in settings],
        "training_seconds": round(cells.seconds, 1),
        "program": programs(name, algorithms, settings),
    }


def programs(
    name: str, algorithms: Iterable[str], settings: Iterable[Place] = ()
) -> dict[str, str]:
    """The identity of what trains and evaluates these algorithms, of the settings at some places,
    and of what makes the table of them.
    """
    module = next(
        (
            one.__name__
            for one in modules("entrenous_lab.papers").values()
            if name in getattr(one, "EXPERIMENTS", {})
        ),
        "",
    )
    trained = [program_of(kind_of(algorithm)[0]) for algorithm in algorithms] or [
        program_sha256(COMPUTED_BY, *measuring())
    ]
    return {
        TRAINING: hashlib.sha256("\n".join(sorted({*trained})).encode()).hexdigest(),
        SETTINGS: hashlib.sha256(text_of(settings).encode()).hexdigest(),
        TABLE: hashlib.sha256(_maker(module).encode()).hexdigest(),
    }


def _maker(module: str) -> str:
    """The identity of what makes a table of its trainings: what its file imports, without what
    trains and evaluates any algorithm; and the printed figures and the words that are named there.
    "" of a module that is none of ours.
    """
    if not module:
        return ""
    trains = closure(COMPUTED_BY, *measuring()) - {module}
    return program_sha256(module, without=tuple(sorted(trains))) + text_of(
        named_by(closure(module, without=tuple(trains)) - trains)
    )


def changed(name: str, origin: Mapping[str, Any]) -> list[str]:
    """Which of PARTS is no longer what a stored result was made by; empty: the result is that of
    today's program.

    Where training or table changed, everything may differ, unless `confirm` saw that a sample of
    trainings, and the table of made-up outcomes, are the same.
    """
    try:
        today = programs(name, origin["algorithms"], places(origin))
        made = [origin["program"], *([confirmed] if (confirmed := origin.get("confirmed")) else [])]
        return [part for part in PARTS if today[part] not in [one.get(part) for one in made]]
    except Exception:  # an algorithm that is no longer there, or a file of another form
        return list(PARTS)


def places(origin: Mapping[str, Any]) -> list[Place]:
    """The places whose settings a stored result was made by."""
    return [tuple(place) for place in origin["settings"]]


def commit(*programs: Path) -> str:
    """The commit of the checkout that holds some folders of a program, by default those of this
    package and of the core, with `-dirty` where their files differ from it; "" where there is none.

    Installed from a wheel, a folder may lie in an environment inside somebody's checkout, of which
    it is no part: that has no commit. Results and pages beside a program may differ: a run writes
    them itself.
    """
    folders = programs or (Path(__file__).parents[1], Path(entrenous.__file__).parent)
    try:
        for folder in folders:
            _git(folder, "ls-files", "--error-unmatch", "__init__.py")
        name = _git(folders[0], "rev-parse", "--short=12", "HEAD")
        changed = [folder for folder in folders if _git(folder, "status", "--porcelain", "--", ".")]
    except (OSError, subprocess.SubprocessError):
        return ""
    if changed:
        return name + CHANGED
    return name


def need_committed(option: str) -> None:
    """Raises InputError where the files of the program differ from their commit: a result that
    stays would name a program that nobody can have. option: what the error is about.
    """
    name = commit()
    if name.endswith(CHANGED):
        fix = "commit them, or write elsewhere with --out FOLDER"
        raise InputError(option, f"the program has changes that {name} does not have", fix=fix)


def _git(folder: Path, *said: str) -> str:
    return subprocess.run(
        ["git", "-C", str(folder), *said], capture_output=True, text=True, timeout=20, check=True
    ).stdout.strip()
