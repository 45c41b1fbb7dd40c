"""Options that several commands share: one name for one thing, on every command."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from cyclopts import Parameter

from ..core.errors import InputError

RUNS = Path("runs")
NETWORK = (
    "cryptography",
    "httpx",
    "msgspec",
    "starlette",
    "uvicorn",
)  # libraries of a federation with a server
PEERS = ("iroh", "msgspec", "cryptography")  # of one without

LOADING = (
    "How to read a file, name=value; may be repeated, such as item=venue. `entrenous data check"
    " --help` lists the names."
)
Load: TypeAlias = Annotated[list[str] | None, Parameter(name="--load", negative="", help=LOADING)]
LoadListed: TypeAlias = Annotated[
    list[str] | None, Parameter(name="--load", negative="")
]  # where the docstring lists the names
Set: TypeAlias = Annotated[list[str] | None, Parameter(name="--set", negative="")]
PLACE = (
    "Of a run that was trained by a class of one's own: its place, ./my_algo.py or"
    " my_module:MyAlgorithm."
)
TODAYS = "Go on though the algorithm's code or a default is no longer what the run was made with."
OwnPlace: TypeAlias = Annotated[str | None, Parameter(name="--algorithm", help=PLACE)]
TodaysCode: TypeAlias = Annotated[bool, Parameter(name="--todays-code", help=TODAYS)]
Runs: TypeAlias = Annotated[Path, Parameter(name="--runs")]
Negatives: TypeAlias = Literal["train", "leaky"]
Profile: TypeAlias = Literal["paper", "private", "dp", "robust"]
Crossing: TypeAlias = Literal["private", "robust", "paper"]  # profiles of what crosses a network
Protect: TypeAlias = Annotated[list[str] | None, Parameter(name="--protect", negative="")]
Refit: TypeAlias = Annotated[bool | None, Parameter(negative="--no-refit")]


def assignments(given: Sequence[str] | None, option: str = "--set") -> dict[str, str]:
    """What was given to an option that takes name=value. Raises InputError for anything else."""
    from ..core.contract.settings import parse_assignments

    return parse_assignments(given or [], option)


def loading(given: Sequence[str] | None) -> dict[str, Any]:
    """Arguments of `data.load.load`, from what was given to --load. Raises InputError for a name or
    a value that it does not know.
    """
    from ..data.options import load_arguments

    return load_arguments(assignments(given, "--load"))


def need_libraries(command: str, *names: str) -> None:
    """Raises InputError where libraries of the network are not installed."""
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise InputError(
            command, f"{', '.join(missing)} not installed", fix="pip install 'entrenous[network]'"
        )
