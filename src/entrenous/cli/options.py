"""Options of commands: those that are the fields of a plan, and those that several commands share:
one name for one thing, on every command.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, TypeAlias, get_args, get_origin, get_type_hints

from cyclopts import Parameter

from ..core.errors import InputError
from ..core.keywords import field_texts

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


# The options whose fields have another name.
SPELLED = {"settings": "set", "attack_settings": "attack-set", "space": "search"}
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
REPEATED = {
    Mapping: " Written as name=value; may be repeated.",
    tuple: " May be repeated.",
}  # what the help of an option adds, by the type of its field


def takes(*plans: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Gives a command the fields of some dataclasses as options, in the place of its `**options`.

    The command gets those that were given, as keywords of the types that the fields have: `--set
    pi=0.5 --set factors=8` as settings={"pi": "0.5", "factors": "8"}. A parameter that the command
    names itself takes the place of the field of that name. The help of an option is the text under
    its field.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        own = inspect.signature(command, eval_str=True).parameters
        options = {
            option.name: (option, get_type_hints(plan)[option.name])
            for plan in plans
            for option in _own_first(plan)
            if option.name not in own
        }

        @wraps(command)
        def called(*arguments: Any, **given: Any) -> Any:
            # cyclopts passes the options that were typed, and no defaults.
            for name in given.keys() & options.keys():
                kind = options[name][1]
                given[name] = _read(option_name(name, kind), kind, given[name])
            return command(*arguments, **given)

        # The signature is what cyclopts reads: arguments, the data, the plans, the command's own.
        positional = [one for one in own.values() if one.kind in POSITIONAL]
        named = [one for one in own.values() if one.kind is inspect.Parameter.KEYWORD_ONLY]
        first = [one for one in named if one.name == "data"]
        taken = [_parameter(option, kind) for option, kind in options.values()]
        listed = [*positional, *first, *taken, *(one for one in named if one not in first)]
        called.__signature__ = inspect.Signature(listed)  # type: ignore[attr-defined]
        called.__annotations__ = {one.name: one.annotation for one in listed}
        called.__plans__ = plans  # type: ignore[attr-defined]
        return called

    return decorate


def _own_first(plan: type) -> list[Field[Any]]:
    """The fields of a dataclass: its own before those that it inherits."""
    return sorted(fields(plan), key=lambda option: option.name not in plan.__annotations__)


def option_name(name: str, kind: Any = None) -> str:
    """The option of a field: `--checkpoint-every`; `--set` for settings; `--attack` for a tuple of
    attacks, each of which is named by itself.
    """
    if name in SPELLED:
        return "--" + SPELLED[name]
    word = name.removesuffix("s") if _repeated(kind) is tuple else name
    return "--" + word.replace("_", "-")


def _repeated(kind: Any) -> Any:
    """`Mapping` or `tuple` for a field whose option may be repeated; None for another."""
    origin = get_origin(kind)
    if origin is tuple and get_args(kind)[-1] is not ...:
        return None
    return origin if origin in REPEATED else None


def _parameter(option: Field[Any], kind: Any) -> inspect.Parameter:
    """The parameter by which cyclopts reads an option."""
    spelled = option_name(option.name, kind)
    default = None if option.default is MISSING else option.default
    can_be_off = kind == bool | None or option.default is True
    negative = "--no-" + option.name if can_be_off else ""
    if Path in get_args(kind):
        kind = Path | None  # `str | Path` of Python
    elif _repeated(kind):
        kind, default = list[str] | None, None
    annotation = Annotated[kind, Parameter(name=spelled, negative=negative)]
    return inspect.Parameter(
        option.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def _read(option: str, kind: Any, given: Any) -> Any:
    """The value of a field, from what was given on the command line."""
    if _repeated(kind) is tuple:
        return tuple(given or ())
    if _repeated(kind) is not Mapping:
        return given
    of_each = get_origin(get_args(kind)[1])
    if of_each is Mapping:
        return by_label(given or [], option)
    pairs = assignments(given, option)
    if of_each is Sequence:
        return {name: text.split(",") for name, text in pairs.items()}
    return pairs


def documented(command: Callable[..., Any]) -> str:
    """The docstring of a command, with the texts of the options that it takes from plans."""
    text = inspect.cleandoc(command.__doc__ or "")
    plans = getattr(command, "__plans__", ())
    if plans and "Parameters\n----------" not in text:
        text += "\n\nParameters\n----------"
    for plan in plans:
        kinds = get_type_hints(plan)
        for name, words in field_texts(plan).items():
            # The text of a parameter that the command names itself stands already.
            if f"\n{name}:\n" not in text:
                more = "" if "repeated" in words else REPEATED.get(_repeated(kinds[name]), "")
                text += f"\n{name}:\n    {words}{more}"
    return text


def by_label(pairs: Sequence[str], option: str) -> dict[str, dict[str, str]]:
    """`["half:pi=0.5"]` as {label: {setting: value}}. Raises InputError for a text without a
    label.
    """
    labelled: dict[str, list[str]] = {}
    for pair in pairs:
        label, colon, name = pair.partition("=")[0].rpartition(":")
        if not colon:
            raise InputError(
                option,
                f"got {pair!r}",
                expected="LABEL:name=value",
                fix="for example --set fpl:pi=0.5",
            )
        value = pair.partition("=")[2]
        labelled.setdefault(label, []).append(f"{name}={value}")
    return {label: assignments(settings, option) for label, settings in labelled.items()}


def assignments(given: Sequence[str] | None, option: str = "--set") -> dict[str, str]:
    """The values of an option that takes name=value. Raises InputError for anything else."""
    from ..core.contract.settings import parse_assignments

    return parse_assignments(given or [], option)


def loading(given: Sequence[str] | None) -> dict[str, Any]:
    """Arguments of `data.load.load`, from what was given to --load. Raises InputError for a name or
    a value that it does not know.
    """
    from ..data.load import load_arguments

    return load_arguments(assignments(given, "--load"))


def need_libraries(command: str, *names: str) -> None:
    """Raises InputError where libraries of the network are not installed."""
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise InputError(
            command, f"{', '.join(missing)} not installed", fix="pip install 'entrenous[network]'"
        )
