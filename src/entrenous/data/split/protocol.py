"""`splits`: splits data by the name of a protocol, such as `loo-99`, `temporal-80-20` or
`kfold-5`. Its options follow the name: `given,repeats=drop`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from ...core.errors import InputError, did_you_mean
from ...core.registry.discover import with_plugins
from ..events import Events
from ..interactions import Interactions
from .given import given as given_split
from .given import with_features
from .read import read
from .stream import STREAM, stream
from .types import Split

GIVEN = "given"


def protocols() -> list[str]:
    """Returns the names that files of this package and installed packages (`entrenous.splits`)
    offer, and `given`. A number in a name may be replaced by another one: `loo-99`, `loo-50`.
    """
    return sorted([*_known(), GIVEN])


class Protocol(NamedTuple):
    """A protocol as it is named."""

    name: str
    """The name without options, such as `given`."""
    options: dict[str, str]
    """The options that follow it, such as {"repeats": "drop"}."""


def parsed(protocol: str) -> Protocol:
    """Returns the parts of a protocol's name. Raises InputError for an option without a value, and
    for one that is given twice.

    >>> parsed("given,repeats=drop")
    Protocol(name='given', options={'repeats': 'drop'})
    """
    name, *pairs = protocol.split(",")
    options: dict[str, str] = {}
    for pair in pairs:
        option, equals, value = pair.partition("=")
        if not equals or option in options:
            raise InputError(
                "protocol",
                f"got '{protocol}'",
                expected="NAME, or NAME,option=value with each option once",
            )
        options[option] = value
    return Protocol(name, options)


def is_given(protocol: str | None) -> bool:
    """Tells whether a protocol is `given`, whatever its options."""
    return protocol is not None and protocol.split(",")[0] == GIVEN


def is_stream(protocol: str | None) -> bool:
    """Tells whether a protocol streams rows, whatever its windows."""
    return protocol is not None and protocol.split("-")[0] == STREAM


def _known() -> dict[str, Callable[..., list[Split]]]:
    return with_plugins("splits", "PROTOCOLS", "entrenous.data.split")


def splits(
    protocol: str,
    data: Interactions | None = None,
    *,
    seed: int = 0,
    given: Split | Path | str | None = None,
    load: Mapping[str, Any] | None = None,
) -> list[Split]:
    """Returns the splits of `data` under a protocol: one, or K for `kfold-K`. The same name, data
    and seed give the same splits.

    protocol: a name, and options that its function has as keyword arguments, each behind a comma.
    They are part of the name of the splits.

    given: for a stream, a file of events in place of `data` (`data.events.Events.read`); for the
    protocol `given`, a Split made by `split.given.given`, or a folder with its parts
    as files (`split.read.read`). `data` then only lends the features of items (titles) that the
    split lacks. load: how to read the files of that folder, by the names of `LoadOptions`.

    Raises InputError for an unknown name or option, for a number that the protocol cannot use, and
    for data without the times that the protocol needs.
    """
    name, options = parsed(protocol)
    if name == GIVEN:
        _check_options(name, given_split, options)
        return [_given(given, data, load or {}, options)]
    if is_stream(name) and given is not None and not isinstance(given, Split):
        _parse(name)
        return [stream(Events.read(given), name)]
    # The numbers in the name, such as 80 and 20, become arguments.
    build, numbers = _parse(name)
    _check_options(name, build, options)
    if data is None:
        raise InputError(
            f"protocol {protocol}",
            "there is no data to split",
            expected="interactions",
            fix="pass data",
        )
    parts = build(data, *numbers, seed=seed, **options)
    if not options:
        return parts
    # The options are part of the name, since they decide what is held out.
    behind = "".join(f",{option}={value}" for option, value in options.items())
    return [part._replace(name=f"{part.name}{behind}") for part in parts]


def _check_options(name: str, build: Callable[..., Any], options: Mapping[str, str]) -> None:
    """Raises InputError for an option that a protocol does not have, and for a value that is none
    of its choices. The options are the parameters of `build` that are declared as a Literal.
    """
    # Without options nothing is inspected: a plug-in may offer any callable.
    if not options:
        return
    kinds = get_type_hints(build)
    choices = {key: get_args(kind) for key, kind in kinds.items() if get_origin(kind) is Literal}
    for option, value in options.items():
        if option not in choices:
            known = ", ".join(choices) or "none"
            raise InputError(
                f"protocol {name}",
                f"it has no option '{option}'",
                expected=f"one of its options: {known}",
                fix="leave it out",
            )
        if value not in choices[option]:
            raise InputError(
                f"protocol {name}",
                f"{option} is '{value}'",
                expected=" or ".join(choices[option]),
                fix=f"such as --protocol={name},{option}={choices[option][0]}",
            )


def without_candidates(protocol: str) -> str:
    """Returns the protocol that holds out the same rows without drawing candidates, which is faster
    if only the training rows are needed; `protocol` itself if there is none.
    """
    return re.sub(r"^loo-\d{1,9}(?=,|$)", "loo-full", protocol)


def _given(
    given: Split | Path | str | None,
    data: Interactions | None,
    load: Mapping[str, Any],
    options: Mapping[str, Any],
) -> Split:
    if given is None:
        fix = "pass given=split.given.given(train, test, ...) or a folder with train and test files"
        raise InputError(
            "protocol given", "no split was given", expected="a Split or a folder", fix=fix
        )
    # A folder is read anew each time, since its files may have changed.
    split = given if isinstance(given, Split) else read(given, load, **options)
    if data is None:
        return split
    return with_features(split, data)


def _parse(protocol: str) -> tuple[Callable[..., list[Split]], list[int]]:
    """Returns the function that splits, and the numbers in the name. Raises InputError for an
    unknown name.
    """
    known = _known()
    for name, build in known.items():
        # `kfold-5` stands for kfold- and any number.
        pattern = re.sub(r"\d+", r"(\\d{1,9})", re.escape(name))
        match = re.fullmatch(pattern, protocol)
        if match:
            return build, [int(number) for number in match.groups()]
    fix = did_you_mean(protocol, [*known, GIVEN])
    raise InputError("protocol", f"unknown protocol '{protocol}'", fix=fix)
