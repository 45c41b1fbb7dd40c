"""Settings chosen on validation rows for a table: a search of the space that an algorithm declares,
begun with its defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from entrenous.core.contract.declared import search_space
from entrenous.core.values import SettingValue
from entrenous.data.interactions import Interactions
from entrenous.runs.plan import algorithm_of
from entrenous.runs.recommenders import federated

from .space import Choices, Range, read_space
from .tpe import SearchRequest, try_space

# Looks at validation in each training.
LOOKS = 10


class Chosen(NamedTuple):
    """The settings and rounds that a search chose."""

    settings: dict[str, SettingValue]
    """Those that were fixed, and those that were chosen."""
    rounds: int | None
    """None of a centralised algorithm."""


def space_of(algorithm: str, fixed: Mapping[str, Any]) -> dict[str, str]:
    """Returns the search space that an algorithm declares, without settings that are fixed, and
    without settings whose present value lies outside it (`alpha` of fcf-huawei); {} where nothing
    is left.
    """
    made: Any = algorithm_of(algorithm, fixed)
    present = dict(made)
    left = {}
    for name, text in search_space(made).items():
        if name in fixed:
            continue
        choice = read_space(algorithm, {name: text}, {})[name]
        # A value outside the space was chosen on purpose, by a preset.
        if _holds(choice, present[name]):
            left[name] = text
    return left


def _holds(choice: Range | Choices, value: Any) -> bool:
    """Returns True for a value that the range or the choices have."""
    if isinstance(choice, Choices):
        return str(value) in choice.values
    return bool(choice.low <= value <= choice.high)


def chosen_before(
    algorithm: str,
    data: Interactions,
    *,
    protocol: str,
    settings: Mapping[str, SettingValue],
    rounds: int | None,
    seed: int,
    trials: int,
) -> Chosen | None:
    """Returns the best of `trials` settings on the validation rows of a split: the defaults, then
    those of a search of the space that the algorithm declares. None where nothing can be searched.

    settings: those that are fixed. rounds: the most; their best number is chosen with the rest.
    """
    space = space_of(algorithm, settings)
    if not space:
        return None
    made: Any = algorithm_of(algorithm, settings)
    # The defaults, with which the search begins: all of them lie in the space.
    defaults = dict(made)
    found = try_space(
        SearchRequest(
            algorithm,
            data,
            protocol=protocol,
            space=space,
            trials=trials,
            first={name: defaults[name] for name in space},
            split_seed=seed,
            settings=settings,
            rounds=rounds,
            looks=LOOKS,
            threads=1,
        )
    )
    best = found["rows"][0]
    return Chosen(dict(best["settings"]), best["rounds"] if federated(made) else None)
