"""`splits`: splits data by the name of a protocol, such as `loo-99`, `temporal-80-20` or `kfold-5`,
with options behind it, such as `loo-99,ties=random`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path

from ...core.errors import InputError, did_you_mean
from ...core.registry.discover import offers, with_plugins
from ..interactions import Interactions
from .given import with_features
from .read import read
from .types import Split

GIVEN = "given"


def protocols() -> list[str]:
    """Returns the names that files of this package and installed packages (`entrenous.splits`)
    offer, and `given`. A number in a name may be replaced by another one: `loo-99`, `loo-50`.
    """
    return sorted([*_known(), GIVEN])


def _known() -> dict[str, Callable[..., list[Split]]]:
    return with_plugins("splits", offers("entrenous.data.split", "PROTOCOLS"))


def splits(
    protocol: str,
    data: Interactions | None = None,
    *,
    seed: int = 0,
    given: Split | Path | str | None = None,
) -> list[Split]:
    """Returns the splits of `data` under a protocol: one, or K for `kfold-K`. The same name, data
    and seed give the same splits.

    protocol: a name, and options that its function has as keyword arguments, each behind a comma.
    They are part of the name of the splits.

    given: for the protocol `given`, a Split made by `split.given.given`, or a folder with its parts
    as files (`split.read.read`). `data` then only lends the features of items (titles) that the
    split lacks.

    Raises InputError for an unknown name or option, for a number that the protocol cannot use, and
    for data without the times that the protocol needs.
    """
    if protocol == GIVEN:
        return [_given(given, data)]
    # The numbers in the name, such as 80 and 20, become arguments.
    name, *further = protocol.split(",")
    build, numbers = _parse(name)
    options = _options(name, build, further)
    if data is None:
        raise InputError(
            f"protocol {protocol}",
            "there is no data to split",
            expected="interactions",
            fix="pass data",
        )
    parts = build(data, *numbers, seed=seed, **options)
    behind = "".join(f",{option}" for option in further)
    return [part._replace(name=f"{part.name}{behind}") for part in parts]


def without_candidates(protocol: str) -> str:
    """Returns the protocol that holds out the same rows without drawing candidates, which is faster
    if only the training rows are needed; `protocol` itself if there is none.
    """
    return re.sub(r"^loo-\d{1,9}(?=,|$)", "loo-full", protocol)


def _options(protocol: str, build: Callable[..., list[Split]], given: list[str]) -> dict[str, str]:
    """Returns the options of a protocol by name, from texts such as `ties=random`. Raises
    InputError for one that the protocol does not have, and for one that is given twice.
    """
    parameters = inspect.signature(build).parameters.values()
    known = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
    known.remove("seed")
    options = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or name not in known or name in options:
            names = ", ".join(f"{protocol},{each}=..." for each in known)
            raise InputError(
                "protocol",
                f"'{text}' is no option of {protocol}, or stands twice",
                expected=names or f"{protocol} alone, which has no options",
            )
        options[name] = value
    return options


def _given(given: Split | Path | str | None, data: Interactions | None) -> Split:
    if given is None:
        fix = "pass given=split.given.given(train, test, ...) or a folder with train and test files"
        raise InputError(
            "protocol given", "no split was given", expected="a Split or a folder", fix=fix
        )
    # A folder is read anew each time, since its files may have changed.
    split = given if isinstance(given, Split) else read(given)
    return split if data is None else with_features(split, data)


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
