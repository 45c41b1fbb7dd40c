"""The measurements that audits of this package have made: the file evidence.json, written by `make
evidence`, and sentences about it.

A figure is of one data set, one view, one profile and the attacks that existed then; the entry says
which. Anything that is not in the file was not measured, and is never called safe.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final, cast

from ..core.printed import counted

Entry = Mapping[str, Any]
"""One audit, as `entrenous audit --json` prints it, less the parts that nobody reads here."""

FILE: Final = "evidence.json"
VIEWS: Final[Mapping[str, str]] = {
    "individual": "messages seen one by one",
    "sum": "sums",
    "difference": "two sums that differ by one party",
    "neighbour": "what reaches a peer",
    "model": "the final model",
    "planted": "sums under planted models",
    "list": "lists that people show",
}
SEEN_UNDER: Final = {
    "paper": ("individual", "neighbour", "model"),
    "robust": ("individual", "model"),
}
SAME_AS: Final = {"fpl": "pfpl+"}  # two names of one class with the same settings
SUMS: Final = ("planted", "sum", "model")  # the views under every other profile


@cache
def entries() -> Sequence[Entry]:
    """All measurements, in the order of the file."""
    # Read once in a process: the file is part of the installed package.
    text = files(__package__).joinpath(FILE).read_text(encoding="utf-8")
    return tuple(json.loads(text)["entries"])


def measured(algorithm: str, profile: str = "") -> list[Entry]:
    """The entries of an algorithm, under one profile or ("") under any; those of operators who
    plant models come first.
    """
    name = SAME_AS.get(algorithm, algorithm)
    of_algorithm = [entry for entry in entries() if entry["algorithm"] == name]
    asked = [entry for entry in of_algorithm if profile in ("", entry["profile"])]
    return sorted(asked, key=lambda entry: entry["view"] != "planted")


def best(entry: Entry) -> Mapping[str, Any] | None:
    """The attack of an entry that ranks histories best; None if none ran."""
    # Ties go to the later name, so that the answer does not hang on the order of the file.
    ran = [attack for attack in on_histories(entry) if attack.get("r_precision") is not None]
    return max(ran, key=lambda attack: (attack["r_precision"], attack["name"]), default=None)


def on_histories(entry: Entry) -> list[Mapping[str, Any]]:
    """The attacks of an entry that ask for histories."""
    return [attack for attack in entry["attacks"] if attack.get("asks", "histories") == "histories"]


def said(entry: Entry) -> str:
    """One line on an entry: the view, the attack that reads it best, how well compared with the
    guess by popularity, and the verdict.
    """
    where = seen(entry)
    attack = best(entry)
    if attack is None:
        return f"{where}: no attack of this version applies"
    return f"{where}: {found_out(attack)}: {attack['verdict']}"


def seen(entry: Entry) -> str:
    """The material of an onlooker, in words."""
    view = VIEWS[entry["view"]]
    if entry["view"] in ("model", "list"):
        return view
    rounds = counted(entry["rounds"], "round")
    if entry["view"] in ("sum", "difference", "planted"):
        return f"{view} of {entry['cohort']}, {rounds}"
    return f"{view}, {rounds}"


def found_out(attack: Mapping[str, Any]) -> str:
    """The findings of an attack, in figures."""
    guess = _figure(attack["popularity_r_precision"])
    ranked = f"R-precision {_figure(attack['r_precision'])} (popularity alone {guess})"
    part = by_part(attack)
    if part is not None:
        ranked += (
            f", {_figure(part['guessable'])} guessable anyway, {part['because']:+.3f} known because"
            " people took part"
        )
    # An attack that is sure of nothing only ranks.
    if attack.get("precision") is None or not attack.get("recall"):
        return f"'{attack['name']}' has {ranked}"
    named = f"'{attack['name']}' names {attack['recall']:.0%} of a history"
    return f"{named}, {_figure(attack['precision'])} of it rightly; {ranked}"


def by_part(attack: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The figures of an attack by models with and without some people; None if it was not tried on
    these.
    """
    part = attack.get("participation")
    if part is None or part["because"] is None:
        return None
    return cast(Mapping[str, Any], part)


def of_array(algorithm: str, array: str) -> str:
    """The findings of an onlooker with an array that leaves devices and without it, under the
    profile `paper`; "" if that was not measured.
    """
    return "; ".join(
        _with_and_without(entry, entry["arrays"][array])
        for entry in measured(algorithm, "paper")
        if array in entry.get("arrays", {})
    )


def _with_and_without(entry: Entry, left: Mapping[str, Any] | None) -> str:
    attack = best(entry)
    whole = "no attack of this version applies" if attack is None else found_out(attack)
    without = "nothing" if left is None else found_out(left)
    return f"{seen(entry)}: {whole}; without this array {without}"


def gives_away(algorithm: str) -> str:
    """The most that single messages of an algorithm give away under the profile `paper`, in one
    clause; "" if that was not measured.
    """
    attacked = []
    for entry in measured(algorithm, "paper"):
        attack = best(entry)
        if entry["view"] in ("individual", "neighbour") and attack is not None:
            attacked.append((entry, attack))
    if not attacked:
        return ""
    worst, attack = max(attacked, key=lambda pair: pair[1]["r_precision"])
    return f"measured on {worst['data']}, {seen(worst)}: {found_out(attack)}"


def expected(algorithm: str, profile: str, rounds: int) -> dict[str, Any]:
    """The expected findings of each attack on one user who took part in so many rounds.

    Returns under `expected` an entry for each attack with the protocol by which it was measured,
    and under `not_measured` the reason if there are none, else "".
    """
    # A profile with masked sums leaves nothing else to see.
    views = SEEN_UNDER.get(profile, SUMS)
    lines = []
    for entry in measured(algorithm, profile):
        for attack in entry["attacks"]:
            if entry["view"] in views and attack.get("r_precision") is not None:
                lines.append(_expected(entry, attack, rounds))
    # Whoever plants models, who alone has an interval, comes first.
    lines.sort(key=lambda line: (not line["interval"], -(line["recall"] or 0)))
    why = ""
    if not lines:
        why = (
            f"no audit of {algorithm} under profile {profile} is kept; `entrenous audit"
            f" {algorithm} --profile {profile}` measures it"
        )
    return {"expected": lines, "not_measured": why}


def _expected(entry: Entry, attack: Mapping[str, Any], rounds: int) -> dict[str, Any]:
    """The entry of one attack. `beyond`: the user took part in more rounds than were measured.
    An operator who plants models has an `interval` in place of a verdict.
    """
    # Without a curve, the recall at the end is the best that is known.
    curve = attack.get("by_round") or []
    recall = at(curve, rounds) if curve else attack.get("recall")
    # The figures are the promise: a verdict on one operator says nothing of another.
    planted = entry["view"] == "planted"
    return {
        "attack": attack["name"],
        "seen": seen(entry),
        "recall": recall,
        "precision": attack.get("precision"),
        "r_precision": attack["r_precision"],
        "popularity": attack.get("popularity_r_precision"),
        "participation": by_part(attack),
        "verdict": "" if planted else attack["verdict"],
        "interval": interval(attack, entry["users"]) if planted else "",
        "measured": (
            f"{entry['data']}, {entry['protocol']}, seed {entry['seed']}, {entry['users']} users"
        ),
        "beyond": bool(curve) and rounds > curve[-1][0],
    }


def interval(attack: Mapping[str, Any], people: int) -> str:
    """The interval of what an attack finds more than popular items do, in words.

    >>> interval({"low": -0.005, "high": 0.013}, 160)
    '-0.005 to 0.013 more, 95 % over 160 people'
    """
    return f"{attack['low']:.3f} to {attack['high']:.3f} more, 95 % over {people} people"


def at(curve: Sequence[Sequence[float]], rounds: int) -> float:
    """Recall after a number of rounds, on straight lines between those that were measured; beyond
    the last one as after the last.

    >>> at([[1, 0.5], [3, 0.9]], 2), at([[1, 0.5], [3, 0.9]], 10), at([[1, 0.5]], 0)
    (0.7, 0.9, 0.0)
    """
    # the last measured number of rounds, and the recall after it
    last = 0.0
    known = 0.0
    for number, recall in curve:
        if rounds <= number:
            return known + (recall - known) * (rounds - last) / (number - last)
        last = number
        known = recall
    return known


def _figure(value: float) -> str:
    """Three digits, as tables have them."""
    return f"{value:.3f}"
