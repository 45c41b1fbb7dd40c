"""Where a result comes from: the day, the commit, the libraries, the rows, and the identity of the
program and settings behind it.

The identity of a program is what its short trainings give (`tests/golden`), not how it is written:
a name that changes makes no result stale. A test holds that the program gives them.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import entrenous
from entrenous.core.errors import InputError
from entrenous.runs.manifest import versions

from .cell import libraries
from .named import Place, text_of
from .remember import Cells

TRAINING, SETTINGS = PARTS = ("training", "settings")  # of the program behind a result
GOLDEN = Path(entrenous.__file__).parents[2] / "tests" / "golden" / "results.json"
CHANGED = "-dirty"  # behind a commit from which the program's files differ


def provenance(cells: Cells) -> dict[str, Any]:
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
        "program": programs(algorithms, settings),
    }


def programs(algorithms: Iterable[str], settings: Iterable[Place] = ()) -> dict[str, str]:
    """The identity of what short trainings of these algorithms give, with the libraries that
    compute; and that of the settings at some places.
    """
    trained = json.dumps([libraries(), golden(algorithms)], sort_keys=True)
    return {
        TRAINING: hashlib.sha256(trained.encode()).hexdigest(),
        SETTINGS: hashlib.sha256(text_of(settings).encode()).hexdigest(),
    }


def golden(algorithms: Iterable[str]) -> dict[str, Any]:
    """What short trainings of some algorithms give, by case: the algorithm, and what stands behind
    a hyphen. {} outside of a checkout.
    """
    cases = json.loads(GOLDEN.read_text()) if GOLDEN.is_file() else {}
    begin = tuple(f"{algorithm}-" for algorithm in algorithms)
    return {name: case for name, case in cases.items() if f"{name}-".startswith(begin)}


def changed(origin: Mapping[str, Any]) -> list[str]:
    """Which of PARTS is no longer what a stored result was made by, or last confirmed for; all of
    them, where a training that was begun again gave something else.
    """
    made = origin.get("confirmed") or origin["program"]
    if made.get("differ"):
        return list(PARTS)
    today = programs(origin["algorithms"], places(origin))
    return [part for part in PARTS if today[part] != made.get(part)]


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
