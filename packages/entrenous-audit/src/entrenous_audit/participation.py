"""An attack's knowledge of people because they took part, apart from what it guesses anyway: the
same attack on the same people, by a model trained with them and by one trained without them.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from typing_extensions import TypedDict

from entrenous.core.types import BoolArray, Float64Array, Int64Array
from entrenous.data.interactions import Interactions
from entrenous.privacy.told import NOT_TRIED

from .claims import Claims
from .measures import ADVANTAGE, bootstrap, histories_of, r_precision
from .side_knowledge import known_items
from .transcript import Transcript

BECAUSE: Final = "KNOWN BECAUSE THEY TOOK PART"
ANYWAY: Final = "NO MORE THAN GUESSABLE ANYWAY"
# Reasons of NOT TRIED.
MESSAGES_ALONE: Final = (
    "only attacks that look for histories in a final model are tried on a training without these"
    " people"
)
NOTHING_TO_GO_BY: Final = "the attack had nothing to go by in one of the two models"
NOBODY_LEFT_OUT: Final = "nobody who was left out has an item that was not known beforehand"


class PartFigures(TypedDict):
    """The figures of one attack, means over people whom one of two trainings left out. All but the
    verdict are None where it was not tried.
    """

    people: int
    guessable: float | None
    """R-precision by the model that they never took part in."""
    took_part: float | None
    """R-precision by the model that they took part in."""
    because: float | None
    """The difference; `low` and `high` are its 95 % bootstrap interval over people."""
    low: float | None
    high: float | None
    verdict: str
    """`BECAUSE`, `ANYWAY`, or NOT TRIED."""
    reason: str
    """The reason of NOT TRIED, else ""."""


def never_took_part(final: Transcript, without: Transcript) -> Transcript:
    """Returns a final model's transcript with the model of a training without some users in its
    place: the onlooker knows as much of everybody as before.
    """
    knowledge = {name: array for name, array in final.model.items() if name.startswith("known/")}
    # What the onlooker knows beforehand has a path for a name, arrays of the model have none.
    model = {name: array for name, array in without.model.items() if "/" not in name}
    return final._replace(model={**model, **knowledge})


def part_untried(reason: str = MESSAGES_ALONE) -> PartFigures:
    """Returns the figures of an attack that was not run on a training without some people."""
    return {
        "people": 0,
        "guessable": None,
        "took_part": None,
        "because": None,
        "low": None,
        "high": None,
        "verdict": NOT_TRIED,
        "reason": reason,
    }


def by_taking_part(
    took: Claims | None,
    never: Claims | None,
    inside: BoolArray,
    transcript: Transcript,
    data: Interactions,
) -> PartFigures:
    """Compares what an attack claims of the people whom one of two trainings left out.

    took, never: its claims by the model with and without them; None = it failed. inside: bool
    [users], false for these people. transcript: says what was known beforehand.
    """
    outside = np.flatnonzero(~inside)
    tried = took is not None and never is not None and took.tried and never.tried
    if not tried:
        return part_untried(NOTHING_TO_GO_BY)
    assert took is not None and never is not None  # both were tried
    known = known_items(transcript)
    guess = _precisions(never, outside, known, data)
    found = _precisions(took, outside, known, data)
    # People without an item that was not known beforehand have no figure.
    some = ~np.isnan(guess) & ~np.isnan(found)
    if not some.any():
        return part_untried(NOBODY_LEFT_OUT)
    more = (found - guess)[some]
    low, high = bootstrap(more)
    because = float(more.mean())
    # Both are asked: a small difference may be sure, and a large one chance.
    leaks = because > ADVANTAGE and (low or 0) > 0
    return {
        "people": int(some.sum()),
        "guessable": float(guess[some].mean()),
        "took_part": float(found[some].mean()),
        "because": because,
        "low": low,
        "high": high,
        "verdict": BECAUSE if leaks else ANYWAY,
        "reason": "",
    }


def _precisions(
    claims: Claims, people: Int64Array, known: BoolArray | None, data: Interactions
) -> Float64Array:
    """R-precision of each of some people in items that were not known, float64 [people]; NaN for
    whom the claims do not speak of.
    """
    precision = np.full(len(people), np.nan)
    spoken = np.isin(people, claims.users)
    own = people[spoken]
    score = np.nan_to_num(claims.score, nan=-np.inf)[np.searchsorted(claims.users, own)]
    history = histories_of(data, own)
    if known is not None:
        score = np.where(known[own], -np.inf, score)
        history &= ~known[own]
    precision[spoken] = r_precision(score, history)
    return precision
