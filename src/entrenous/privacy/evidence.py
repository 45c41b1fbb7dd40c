"""What audits of this package have measured of each algorithm: evidence.json, written by `make
evidence`, and sentences made of it.

A figure is of one data set, one view, one profile and the attacks that there were; the entry says
which. What is not in the file was not measured, and is never called safe."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

Entry = Mapping[
    str, Any
]  # one audit, as `entrenous audit --json` prints it, less what nobody reads here

FILE: Final = "evidence.json"
VIEWS: Final[Mapping[str, str]] = {
    "individual": "messages seen one by one",
    "sum": "sums",
    "difference": "two sums that differ by one party",
    "neighbour": "what reaches a peer",
    "model": "the final model",
}
SEEN_UNDER: Final = {
    "paper": ("individual", "neighbour", "model"),
    "robust": ("individual", "model"),
}
SAME_AS: Final = {"fpl": "pfpl+"}  # two names of one class with the same settings
SUMS: Final = ("sum", "model")  # what is seen under every other profile


@cache
def entries() -> Sequence[Entry]:
    """All that was measured, in the order of the file."""
    found = json.loads(files(__package__).joinpath(FILE).read_text(encoding="utf-8"))
    return tuple(found["entries"])


def measured(algorithm: str, profile: str = "") -> list[Entry]:
    """What was measured of an algorithm, under one profile or ("") under any."""
    name = SAME_AS.get(algorithm, algorithm)
    return [
        one for one in entries() if one["algorithm"] == name and profile in ("", one["profile"])
    ]


def best(entry: Entry) -> Mapping[str, Any] | None:
    """The attack of an entry that ranks histories best; None if none ran."""
    mine = [one for one in entry["attacks"] if one.get("asks", "histories") == "histories"]
    ran = [one for one in mine if one.get("r_precision") is not None]
    return max(ran, key=lambda one: (one["r_precision"], one["name"]), default=None)


def said(entry: Entry) -> str:
    """One line on an entry: what is seen, by whom it is read best, how well beside the guess by
    popularity, and the verdict.
    """
    where, attack = seen(entry), best(entry)
    if attack is None:
        return f"{where}: no attack of this version applies"
    return f"{where}: {found_out(attack, entry)}: {attack['verdict']}"


def seen(entry: Entry) -> str:
    """What an onlooker had, in words."""
    rounds = f"{entry['rounds']} round{'s' if entry['rounds'] != 1 else ''}"
    if entry["view"] == "model":
        return VIEWS["model"]
    if entry["view"] in ("sum", "difference"):
        same = ", always the same parties" if entry.get("fixed") else ""
        return f"{VIEWS[entry['view']]} of {entry['cohort']}{same}, {rounds}"
    return f"{VIEWS[entry['view']]}, {rounds}"


def found_out(attack: Mapping[str, Any], entry: Entry) -> str:
    """What an attack finds out, in figures."""
    guess = attack.get("popularity_r_precision", entry["popularity"]["r_precision"])
    ranked = f"R-precision {_figure(attack['r_precision'])} (popularity alone {_figure(guess)})"
    if attack.get("precision") is None or not attack.get("recall"):
        return f"'{attack['name']}' has {ranked}"
    share, precision = attack["recall"], attack["precision"]
    return (
        f"'{attack['name']}' names {share:.0%} of a history, {_figure(precision)} of it rightly;"
        f" {ranked}"
    )


def of_array(algorithm: str, array: str) -> str:
    """What an onlooker finds out with one of the arrays that leave a device and without it, as
    published; "" if not measured.
    """
    return "; ".join(
        _with_and_without(one, one["arrays"][array])
        for one in measured(algorithm, "paper")
        if array in one.get("arrays", {})
    )


def _with_and_without(entry: Entry, left: Mapping[str, Any] | None) -> str:
    attack = best(entry)
    whole = "no attack of this version applies" if attack is None else found_out(attack, entry)
    without = "nothing" if left is None else found_out(left, entry)
    return f"{seen(entry)}: {whole}; without this array {without}"


def gives_away(algorithm: str) -> str:
    """What an algorithm gives away as it is published, in one clause; "" where it was not
    measured.
    """
    found = [
        one
        for one in measured(algorithm, "paper")
        if one["view"] in ("individual", "neighbour") and best(one)
    ]
    if not found:
        return ""
    # those with an attack
    worst = max(found, key=lambda one: best(one)["r_precision"])  # type: ignore[index]
    attack = best(worst)
    assert attack is not None
    return f"measured on {worst['data']}, {seen(worst)}: {found_out(attack, worst)}"


def expected(algorithm: str, profile: str, rounds: int) -> dict[str, Any]:
    """What each attack is expected to find out of one user who took part in so many rounds, under
    `expected`, with the protocol that it was measured by; and `not_measured`, "" or why there is
    nothing.
    """
    views = SEEN_UNDER.get(profile, SUMS)
    some = [one for one in measured(algorithm, profile) if one["view"] in views]
    lines = [
        _expected(one, attack, rounds)
        for one in some
        for attack in one["attacks"]
        if attack.get("r_precision") is not None
    ]
    lines.sort(key=lambda one: -(one["recall"] or 0))
    why = (
        ""
        if lines
        else (
            f"no audit of {algorithm} under profile {profile} is kept; `entrenous audit"
            f" {algorithm}` makes one"
        )
    )
    return {"expected": lines, "not_measured": why}


def _expected(entry: Entry, attack: Mapping[str, Any], rounds: int) -> dict[str, Any]:
    curve = attack.get("by_round") or []
    recall = at(curve, rounds) if curve else attack.get("recall")
    return {
        "attack": attack["name"],
        "seen": seen(entry),
        "recall": recall,
        "precision": attack.get("precision"),
        "r_precision": attack["r_precision"],
        "popularity": attack.get("popularity_r_precision"),
        "verdict": attack["verdict"],
        "measured": (
            f"{entry['data']}, {entry['protocol']}, seed {entry['seed']}, {entry['users']} users"
        ),
        "beyond": bool(curve) and rounds > curve[-1][0],
    }


def at(curve: Sequence[Sequence[float]], rounds: int) -> float:
    """Recall after a number of rounds, on straight lines between those that were measured; beyond
    the last one as after the last.

    >>> at([[1, 0.5], [3, 0.9]], 2), at([[1, 0.5], [3, 0.9]], 10), at([[1, 0.5]], 0)
    (0.7, 0.9, 0.0)
    """
    before = (0.0, 0.0)
    for number, recall in curve:
        if rounds <= number:
            return before[1] + (recall - before[1]) * (rounds - before[0]) / (number - before[0])
        before = (number, recall)
    return before[1]


def percent(value: float | None) -> str:
    """A share for people, such as 51 %.

    >>> percent(0.513), percent(None)
    ('51.3 %', '')
    """
    return "" if value is None else f"{100 * value:.1f} %"


def _figure(value: float) -> str:
    """Three digits, as tables have them."""
    return f"{value:.3f}"
