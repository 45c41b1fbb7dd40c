"""Options of commands: the fields of a plan as options, and options that several commands share. A
thing has the same name on every command.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

from cyclopts import Parameter

from ..core.errors import InputError
from ..core.keywords import field_texts, names_of

RUNS = Path("runs")
Taken = TypeVar("Taken")

LOADING = (
    "How to read a file, name=value; may be repeated, such as item=venue. `entrenous data check"
    " --help` lists the names."
)
Load: TypeAlias = Annotated[list[str] | None, Parameter(name="--load", negative="", help=LOADING)]
# For commands whose docstring lists the names.
LoadListed: TypeAlias = Annotated[list[str] | None, Parameter(name="--load", negative="")]
Set: TypeAlias = Annotated[list[str] | None, Parameter(name="--set", negative="")]
Runs: TypeAlias = Annotated[Path, Parameter(name="--runs")]


# Options that have another name than their field.
SPELLED = {"settings": "set", "attack_settings": "attack-set"}
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
# A sentence that the help of an option ends with, by the type of its field.
REPEATED = {
    Mapping: " Written as name=value; may be repeated.",
    tuple: " May be repeated.",
}


def takes(*plans: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Gives a command the fields of some dataclasses as options, in place of its `**options`.

    The command receives only the options that were typed, as keywords of the fields' types: `--set
    pi=0.5 --set factors=8` as settings={"pi": "0.5", "factors": "8"}. A parameter of the command
    itself replaces the field of the same name. The help of an option is the docstring under its
    field.
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

        # cyclopts reads the signature, and `--help` lists options in its order: arguments, the
        # data, the fields of the plans, then the command's own options such as --json.
        positional = [given for given in own.values() if given.kind in POSITIONAL]
        named = [given for given in own.values() if given.kind is inspect.Parameter.KEYWORD_ONLY]
        data = [option for option in named if option.name == "data"]
        last = [option for option in named if option.name != "data"]
        taken = [_parameter(option, kind) for option, kind in options.values()]
        listed = [*positional, *data, *taken, *last]
        called.__signature__ = inspect.Signature(listed)  # type: ignore[attr-defined]
        called.__annotations__ = {option.name: option.annotation for option in listed}
        # `documented` finds the texts of the options by this.
        called.__plans__ = plans  # type: ignore[attr-defined]
        return called

    return decorate


def _own_first(plan: type) -> list[Field[Any]]:
    """Returns the fields of a dataclass: its own before those that it inherits."""
    return sorted(fields(plan), key=lambda option: option.name not in plan.__annotations__)


def taken(kind: type[Taken], options: dict[str, Any]) -> Taken:
    """Takes the options of one dataclass out of those that were typed for several."""
    return kind(**{name: options.pop(name) for name in names_of(kind) if name in options})


def option_name(name: str, kind: Any = None) -> str:
    """Returns the option of a field: `--checkpoint-every`; `--set` for settings; `--attack` for a
    tuple of attacks, since each attack is typed with its own option.
    """
    if name in SPELLED:
        return "--" + SPELLED[name]
    word = name
    if _repeated(kind) is tuple:
        word = name.removesuffix("s")
    return "--" + word.replace("_", "-")


def _repeated(kind: Any) -> Any:
    """Returns `Mapping` or `tuple` for a field whose option may be repeated, else None."""
    origin = get_origin(kind)
    # A tuple of fixed length, such as --scale LOW HIGH, is one option with several values.
    if origin is tuple and get_args(kind)[-1] is not ...:
        return None
    return origin if origin in REPEATED else None


def _parameter(option: Field[Any], kind: Any) -> inspect.Parameter:
    """Returns the parameter by which cyclopts reads an option."""
    spelled = option_name(option.name, kind)
    default = None if option.default is MISSING else option.default
    # A flag that is on, or not decided, unless it is switched off has a --no- form; no other has.
    can_be_off = kind == bool | None or option.default is True
    negative = "--no-" + option.name if can_be_off else ""
    if Path in get_args(kind):
        kind = Path | None  # `str | Path` of Python
    elif _repeated(kind):
        # Read as texts: `_read` makes the mapping or tuple of them.
        kind = list[str] | None
        default = None
    annotation = Annotated[kind, Parameter(name=spelled, negative=negative)]
    return inspect.Parameter(
        option.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def _read(option: str, kind: Any, given: Any) -> Any:
    """Returns the value of a field, from the value that cyclopts has read."""
    if _repeated(kind) is tuple:
        return tuple(given or ())
    if _repeated(kind) is not Mapping:
        return given
    # `compare` has settings for each label, a grid has several values for each name.
    of_each = get_origin(get_args(kind)[1])
    if of_each is Mapping:
        return by_label(given or [], option)
    pairs = assignments(given, option)
    if of_each is Sequence:
        return {name: text.split(",") for name, text in pairs.items()}
    return pairs


def documented(command: Callable[..., Any]) -> str:
    """Returns the docstring of a command with the texts of the options that it takes from plans."""
    text = inspect.cleandoc(command.__doc__ or "")
    plans = getattr(command, "__plans__", ())
    if plans and "Parameters\n----------" not in text:
        text += "\n\nParameters\n----------"
    for plan in plans:
        kinds = get_type_hints(plan)
        for name, words in field_texts(plan).items():
            # A parameter that the command names itself is explained already.
            if f"\n{name}:\n" in text:
                continue
            ending = ""
            if "repeated" not in words:
                ending = REPEATED.get(_repeated(kinds[name]), "")
            text += f"\n{name}:\n    {words}{ending}"
    return text


def by_label(pairs: Sequence[str], option: str) -> dict[str, dict[str, str]]:
    """Returns `["half:pi=0.5"]` as {label: {setting: value}}. Raises InputError for a text without
    a label.
    """
    labelled: dict[str, list[str]] = {}
    for pair in pairs:
        labelled_name, _, value = pair.partition("=")
        # A label may itself have a colon, as a place such as my_module:MyAlgorithm does.
        label, colon, name = labelled_name.rpartition(":")
        if not colon:
            raise InputError(
                option,
                f"got {pair!r}",
                expected="LABEL:name=value",
                fix="for example --set fpl:pi=0.5",
            )
        labelled.setdefault(label, []).append(f"{name}={value}")
    return {label: assignments(settings, option) for label, settings in labelled.items()}


def assignments(given: Sequence[str] | None, option: str = "--set") -> dict[str, str]:
    """Returns the values of an option that takes name=value. Raises InputError for other texts."""
    from ..core.contract.settings import parse_assignments

    return parse_assignments(given or [], option)


def loading(given: Sequence[str] | None) -> dict[str, Any]:
    """Returns the arguments of `data.load.load` that --load names. Raises InputError for an unknown
    name or value.
    """
    from ..data.load import load_arguments

    return load_arguments(assignments(given, "--load"))
