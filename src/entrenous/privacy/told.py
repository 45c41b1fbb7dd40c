"""What people are told of what audits measured: of attacks that were not tried, and of how far a
figure is of their own training.

The figures are those of `privacy.evidence`; nothing here adds one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from . import evidence
from .evidence import Entry, best, measured

MESSAGES: Final = (
    "individual",
    "sum",
    "difference",
    "neighbour",
)  # views of what leaves devices on the way
OF_TRAINING: Final = frozenset(
    {"rounds", "cohort"}
)  # settings that say how long is trained, and with how many
OF_TRUST: Final = frozenset(
    {"noise_by", "noise_from", "people", "parties", "delta", "lost"}
)  # what an onlooker sees is alike
# the verdict on an attack that had nothing to attack with, and so says nothing of what is protected
NOT_TRIED: Final = "NOT TRIED"
NO_ATTACK: Final = "no attack applies"
SURE: Final = 0.9  # precision from which what an attack names counts as known
OF_THE_MODEL: Final = "who has the model of a whole training and half of a list"
KNOWN_ATTACKS: Final = (
    "sums have been read by stronger attacks than those of `entrenous audit`: docs/privacy.md says"
    " what is known"
)


def verdict_of(entry: Entry) -> str:
    """The verdict on an entry: that of its best attack; without one whether attacks declined, or
    there were none.
    """
    attack = best(entry)
    if attack is not None:
        return str(attack["verdict"])
    return NOT_TRIED if _declined(entry) else NO_ATTACK


def _declined(entry: Entry) -> list[str]:
    """The attacks that had nothing to attack with, each with what it missed."""
    asked = [one for one in entry["attacks"] if one.get("asks", "histories") == "histories"]
    mine = [one for one in asked if one.get("verdict") == NOT_TRIED]
    return [
        f"'{one['name']}' ({one['note']})" if one.get("note") else f"'{one['name']}'"
        for one in mine
    ]


def said(entry: Entry) -> str:
    """One line on an entry, as `evidence.said` has it; where attacks declined, which did and what
    they missed.
    """
    declined = ", ".join(_declined(entry))
    if best(entry) is not None or not declined:
        return evidence.said(entry)
    return f"{evidence.seen(entry)}: {declined}: {NOT_TRIED}"


def of_the_list(algorithm: str) -> str:
    """What becomes of the list of what somebody consumed, which no device sends, where an algorithm
    runs as it is published.
    """
    verdicts = {
        verdict_of(one)
        for one in measured(algorithm, "paper")
        if one["view"] in ("individual", "neighbour")
    }
    if "EXPOSED" in verdicts:
        return "Your list is not sent; it can be computed from what is."
    if "LEAKS" in verdicts:
        return "Your list is not sent; part of it can be guessed from what is."
    if verdicts - {NOT_TRIED, NO_ATTACK}:
        return "Your list is not sent; the attacks of `entrenous audit` did not find it in what is."
    return "Your list is not sent; whether it can be computed from what is has not been measured."


def expected(
    algorithm: str,
    profile: str,
    rounds: int,
    settings: Mapping[str, Any] | None = None,
    protect: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What each attack is expected to find out of one user who took part in so many rounds, as
    `evidence.expected` has it, with its `view` and the settings in which it was measured
    `otherwise`. Nothing is expected of the messages of a user who sent none.

    settings, protect: of the training, as far as they are known; what they do not name is taken to
        be as it was measured.
    """
    if not rounds:
        return {"expected": [], "not_measured": ""}
    found = evidence.expected(algorithm, profile, rounds)
    entries = {evidence.seen(one): one for one in measured(algorithm, profile)}
    lines = [
        _with_settings(line, entries[line["seen"]], settings or {}, protect or {})
        for line in found["expected"]
    ]
    return {**found, "expected": lines}


def _with_settings(
    line: Mapping[str, Any], entry: Entry, settings: Mapping[str, Any], protect: Mapping[str, Any]
) -> dict[str, Any]:
    """A line of what is expected, with the view of its entry and what was otherwise there."""
    return {**line, "view": entry["view"], "otherwise": otherwise(entry, settings, protect)}


def otherwise(entry: Entry, settings: Mapping[str, Any], protect: Mapping[str, Any]) -> str:
    """The settings in which an entry was measured otherwise than in a training, such as "pi 1 (here
    0)"; "" if it was in none.

    How many take part counts where sums were measured; how many rounds are trained does not: what
    is expected goes by rounds.
    """
    if "settings" not in entry:
        return "settings that were not kept"
    in_sums = entry["view"] in ("sum", "difference")
    without = OF_TRAINING - {"cohort"} if in_sums else OF_TRAINING
    under = {"groups": 1, **entry["protect"]}  # audits are of one sum of everybody
    parts = (entry["settings"], settings, without), (under, protect, OF_TRUST)
    found = [
        f"{name} {_short(was[name])} (here {_short(here[name])})"
        for was, here, left_out in parts
        for name in here
        if name in was and name not in left_out and not _alike(was[name], here[name])
    ]
    return ", ".join(found)


def _alike(one: Any, other: Any) -> bool:
    """Whether two values of a setting are the same, however they are written."""
    try:
        return math.isclose(float(one), float(other))
    except (TypeError, ValueError):
        return str(one) == str(other)


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def in_words(lines: Sequence[Mapping[str, Any]], history: int) -> list[str]:
    """What the strongest of some expected attacks makes of a history: a sentence on what left on
    the way, and one on the final model.

    lines: as `expected` gives them. history: how many items the user has consumed.
    """
    messages = [one for one in lines if one["view"] in MESSAGES]
    model = [one for one in lines if one["view"] == "model"]
    said = [f"{_who(one)} {_known(one, history)}" for one in _strongest(messages)]
    return said + [f"{OF_THE_MODEL} {_known(one, history)}" for one in _strongest(model)]


def _strongest(lines: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The attack that names most rightly; of those that only rank the one that ranks best."""
    return sorted(
        lines,
        key=lambda one: (
            one["recall"] or 0 if (one["precision"] or 0) >= SURE else 0,
            one["r_precision"],
        ),
    )[-1:]


def _who(one: Mapping[str, Any]) -> str:
    """Who an attacker is. What single messages tell is counted by the rounds that a user answered;
    what sums tell is not.
    """
    return (
        "who reads these messages"
        if one["view"] in ("individual", "neighbour")
        else f"who has {one['seen']},"
    )


def _known(one: Mapping[str, Any], history: int) -> str:
    """What an attack knows: of the user's own number of items where it was measured in the settings
    of the training; else what it knew of a hundred items where it was measured, and where that
    was.
    """
    exact = one["recall"] and (one["precision"] or 0) >= SURE
    ranked, popular = round(one["r_precision"] * 100), round((one["popularity"] or 0) * 100)
    beside = "" if exact else f", a list of what is popular {popular}"
    if one["otherwise"]:
        found = (
            f"named about {round(one['recall'] * 100)} of 100 items"
            if exact
            else f"guessed {ranked} of 100 items rightly"
        )
        return (
            f"{found} (attack '{one['attack']}'){beside}, where that was measured: at"
            f" {one['otherwise']}"
        )
    found = (
        f"can name about {round(one['recall'] * history)} of your {history} items"
        if exact
        else f"guesses {ranked} of 100 items rightly"
    )
    return f"{found} (attack '{one['attack']}'){beside}"


def of_anybody(
    algorithm: str, profile: str, settings: Mapping[str, Any], protect: Mapping[str, Any]
) -> str:
    """What the final model says of somebody who was not asked; "" if it was not measured."""
    lines = expected(algorithm, profile, 1, settings, protect)["expected"]
    of_others = "measured on people who took part, not on others"
    known = [
        _known(one, 100) for one in _strongest([one for one in lines if one["view"] == "model"])
    ]
    return "".join(f"{OF_THE_MODEL}, yours or anybody's, {one} ({of_others})" for one in known)
