"""The settings, the code and the libraries of a stored run. A later use is refused where today's
differ.
"""

from __future__ import annotations

import platform
import shlex
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .. import __version__
from ..core.errors import InputError
from ..core.registry.program import program_sha256, source_sha256

TRAINS = "entrenous.runs.train"  # with what it imports, the code behind every result
LIBRARIES = ("numpy", "numba", "polars")
TODAY = "run it again, or say --todays-code to use today's"
ALGORITHM, TRAINING = "algorithm_sha256", "program_sha256"


def pins(algorithm: Any) -> dict[str, Any]:
    """Entries of a manifest that determine its result.

    Args:
        algorithm: the instance that is trained.

    Returns: settings_in_force: every setting with its value, defaults too; algorithm_sha256: of the
        source of the algorithm and of what it imports from this package; program_sha256: of the
        code that trains and evaluates; versions: of Python and the libraries; command: what was
        typed, without folders.
    """
    return {
        "settings_in_force": in_force(algorithm),
        ALGORITHM: source_sha256(type(algorithm)),
        TRAINING: program_sha256(TRAINS),
        "versions": versions(),
        "command": command(sys.argv),
    }


def versions() -> dict[str, str]:
    """The versions of this package, Python, the machine's architecture and the libraries that
    compute.
    """
    here = {
        "entrenous": __version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
    return here | {name: version(name) for name in LIBRARIES}


def command(arguments: Sequence[str]) -> str:
    """A command line as it can be typed again, the program without its folder; "" in Python, where
    none was typed.
    """
    program = Path(arguments[0]).name if arguments else ""
    return (
        shlex.join(["entrenous", *arguments[1:]]) if program in ("entrenous", "__main__.py") else ""
    )


def check_algorithm(
    manifest: Mapping[str, Any], algorithm: Any, where: str, todays_code: bool = False
) -> None:
    """Refuses to use a stored model with an algorithm whose code or settings are not those it was
    trained with, unless `todays_code`.
    """
    if todays_code:
        return
    if ALGORITHM not in manifest:
        problem = "the run does not say by which code it was made: it is of an earlier version"
        raise InputError(where, problem, expected=f"{ALGORITHM} in its manifest", fix=TODAY)
    if manifest[ALGORITHM] != source_sha256(type(algorithm)):
        raise InputError(
            where,
            f"the code of {manifest['algorithm']} has changed since the run",
            expected="the same",
            fix=TODAY,
        )
    # The same code may have another value where a default comes from elsewhere.
    now = in_force(algorithm)
    for name, value in _entries(manifest, "settings_in_force", where).items():
        if now.get(name) != value:
            problem = f"the setting {name} is no longer what it was in the run"
            raise InputError(where, problem, expected="the same", fix=TODAY)


def check_program(manifest: Mapping[str, Any], where: str, todays_code: bool = False) -> None:
    """Refuses to continue a run with other code or other libraries than it began with, unless
    `todays_code`.
    """
    if todays_code:
        return
    if manifest.get(TRAINING) != program_sha256(TRAINS):
        raise InputError(
            where,
            "the code that trains has changed since the run began",
            expected="the same",
            fix=TODAY,
        )
    now = versions()
    for name, begun in _entries(manifest, "versions", where).items():
        if begun != now.get(name):
            problem = f"{name} was {begun} when the run began and is {now.get(name)}"
            raise InputError(where, problem, expected="the same", fix=TODAY)


def in_force(algorithm: Any) -> dict[str, Any]:
    """Every setting of an algorithm with its value, defaults too, as a manifest has it."""
    return {name: _plain(value) for name, value in algorithm.model_dump().items()}


def _entries(manifest: Mapping[str, Any], part: str, where: str) -> dict[str, Any]:
    """A part of a manifest that has entries by name. Raises InputError for a manifest without."""
    entries = manifest.get(part)
    if not isinstance(entries, dict):
        raise InputError(
            f"{where}/manifest.json",
            f"'{part}' is {type(entries).__name__}",
            expected="entries by name",
            fix=TODAY,
        )
    return entries


def _plain(value: Any) -> Any:
    """A setting as JSON has it; what is no number or text is described."""
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
