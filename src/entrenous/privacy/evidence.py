"""What audits of this package have measured of each algorithm: evidence.json, written by `make evidence`, and sentences made of it.

A figure is of one data set, one view, one profile and the attacks that there were; the entry says which. What is not in the file was not
measured, and is never called safe.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

Entry = Mapping[str, Any]  # one audit, as `entrenous audit --json` prints it, less what nobody reads here

FILE: Final = "evidence.json"
VIEWS: Final[Mapping[str, str]] = {
    "individual": "messages seen one by one",
    "sum": "sums",
    "difference": "two sums that differ by one party",
    "neighbour": "what reaches a peer",
    "model": "the final model",
}
SEEN_UNDER: Final = {"paper": ("individual", "neighbour", "model"), "robust": ("individual", "model")}
SAME_AS: Final = {"fpl": "pfpl+"}  # two names of one class with the same settings
SUMS: Final = ("sum", "model")  # what is seen under every other profile
MESSAGES: Final = ("individual", "sum", "difference", "neighbour")  # views of what leaves devices on the way
OF_TRAINING: Final = frozenset({"rounds", "cohort"})  # settings that say how long is trained, and with how many
OF_TRUST: Final = frozenset({"noise_by", "noise_from", "people", "parties", "delta", "lost"})  # what an onlooker sees is alike
NOT_TRIED: Final = (
    "NOT TRIED"  # the verdict on an attack that had nothing to attack with, and so says nothing of what is protected
)
SURE: Final = 0.9  # precision from which what an attack names counts as known
KNOWN_ATTACKS: Final = (
    "sums have been read by stronger attacks than those of `entrenous audit`: docs/privacy.md says what is known"
)
OF_THE_MODEL: Final = "who has the model of a whole training and half of a list"
NO_ATTACK: Final = "no attack applies"


@cache
def entries() -> Sequence[Entry]:
    """All that was measured, in the order of the file."""
    found = json.loads(files(__package__).joinpath(FILE).read_text(encoding="utf-8"))
    return tuple(found["entries"])


def measured(algorithm: str, profile: str = "") -> list[Entry]:
    """What was measured of an algorithm, under one profile or ("") under any."""
    name = SAME_AS.get(algorithm, algorithm)
    return [one for one in entries() if one["algorithm"] == name and profile in ("", one["profile"])]


def best(entry: Entry) -> Mapping[str, Any] | None:
    """The attack of an entry that ranks histories best; None if none ran."""
    mine = [one for one in entry["attacks"] if one.get("asks", "histories") == "histories"]
    ran = [one for one in mine if one.get("r_precision") is not None]
    return max(ran, key=lambda one: (one["r_precision"], one["name"]), default=None)


def verdict_of(entry: Entry) -> str:
    """The verdict on an entry: that of its best attack; without one whether attacks declined, or there were none."""
    attack = best(entry)
    if attack is not None:
        return str(attack["verdict"])
    return NOT_TRIED if _declined(entry) else NO_ATTACK


def _declined(entry: Entry) -> list[str]:
    """The attacks that had nothing to attack with, each with what it missed."""
    asked = [one for one in entry["attacks"] if one.get("asks", "histories") == "histories"]
    mine = [one for one in asked if one.get("verdict") == NOT_TRIED]
    return [f"'{one['name']}' ({one['note']})" if one.get("note") else f"'{one['name']}'" for one in mine]


def said(entry: Entry) -> str:
    """One line on an entry: what is seen, by whom it is read best, how well beside the guess by popularity, and the verdict."""
    where, attack = seen(entry), best(entry)
    if attack is not None:
        return f"{where}: {found_out(attack, entry)}: {attack['verdict']}"
    declined = ", ".join(_declined(entry))
    return f"{where}: {declined}: {NOT_TRIED}" if declined else f"{where}: no attack of this version applies"


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
    return f"'{attack['name']}' names {share:.0%} of a history, {_figure(precision)} of it rightly; {ranked}"


def of_array(algorithm: str, array: str) -> str:
    """What an onlooker finds out with one of the arrays that leave a device and without it, as published; "" if not measured."""
    return "; ".join(
        _with_and_without(one, one["arrays"][array]) for one in measured(algorithm, "paper") if array in one.get("arrays", {})
    )


def _with_and_without(entry: Entry, left: Mapping[str, Any] | None) -> str:
    attack = best(entry)
    whole = "no attack of this version applies" if attack is None else found_out(attack, entry)
    without = "nothing" if left is None else found_out(left, entry)
    return f"{seen(entry)}: {whole}; without this array {without}"


def gives_away(algorithm: str) -> str:
    """What an algorithm gives away as it is published, in one clause; "" where it was not measured."""
    found = [one for one in measured(algorithm, "paper") if one["view"] in ("individual", "neighbour") and best(one)]
    if not found:
        return ""
    worst = max(found, key=lambda one: best(one)["r_precision"])  # type: ignore[index]  # those with an attack
    attack = best(worst)
    assert attack is not None
    return f"measured on {worst['data']}, {seen(worst)}: {found_out(attack, worst)}"


def of_the_list(algorithm: str) -> str:
    """What becomes of the list of what somebody consumed, which no device sends, where an algorithm runs as it is published."""
    verdicts = {verdict_of(one) for one in measured(algorithm, "paper") if one["view"] in ("individual", "neighbour")}
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
    """What each attack is expected to find out of one user who took part in so many rounds, under `expected`, with the protocol that it
    was measured by, and in which settings it was measured `otherwise`; and `not_measured`, "" or why there is nothing. Nothing is
    expected of the messages of a user who sent none.

    settings, protect: of the training, as far as they are known; what they do not name is taken to be as it was measured."""
    if not rounds:
        return {"expected": [], "not_measured": ""}
    views = SEEN_UNDER.get(profile, SUMS)
    some = [one for one in measured(algorithm, profile) if one["view"] in views]
    lines = [
        _expected(one, attack, rounds) | {"otherwise": otherwise(one, settings or {}, protect or {})}
        for one in some
        for attack in one["attacks"]
        if attack.get("r_precision") is not None
    ]
    lines.sort(key=lambda one: -(one["recall"] or 0))
    why = "" if lines else f"no audit of {algorithm} under profile {profile} is kept; `entrenous audit {algorithm}` makes one"
    return {"expected": lines, "not_measured": why}


def _expected(entry: Entry, attack: Mapping[str, Any], rounds: int) -> dict[str, Any]:
    curve = attack.get("by_round") or []
    recall = at(curve, rounds) if curve else attack.get("recall")
    return {
        "attack": attack["name"], "seen": seen(entry), "recall": recall, "precision": attack.get("precision"),
        "r_precision": attack["r_precision"], "popularity": attack.get("popularity_r_precision"), "verdict": attack["verdict"],
        "measured": f"{entry['data']}, {entry['protocol']}, seed {entry['seed']}, {entry['users']} users",
        "beyond": bool(curve) and rounds > curve[-1][0], "view": entry["view"],
    }  # fmt: skip


def otherwise(entry: Entry, settings: Mapping[str, Any], protect: Mapping[str, Any]) -> str:
    """The settings in which an entry was measured otherwise than in a training, such as "pi 1 (here 0)"; "" if it was in none.

    How many take part counts where sums were measured; how many rounds are trained does not: what is expected goes by rounds."""
    if "settings" not in entry:
        return "settings that were not kept"
    in_sums = entry["view"] in ("sum", "difference")
    without = OF_TRAINING - {"cohort"} if in_sums else OF_TRAINING
    parts = (entry["settings"], settings, without), (entry["protect"], protect, OF_TRUST)
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
    """What the strongest of some expected attacks makes of a history: a sentence on what left on the way, and one on the final model.

    lines: as `expected` gives them. history: how many items the user has consumed."""
    messages = [one for one in lines if one["view"] in MESSAGES]
    model = [one for one in lines if one["view"] == "model"]
    said = [f"{_who(one)} {_known(one, history)}" for one in _strongest(messages)]
    return said + [f"{OF_THE_MODEL} {_known(one, history)}" for one in _strongest(model)]


def _strongest(lines: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The attack that names most rightly; of those that only rank the one that ranks best."""
    return sorted(lines, key=lambda one: (one["recall"] or 0 if (one["precision"] or 0) >= SURE else 0, one["r_precision"]))[-1:]


def _who(one: Mapping[str, Any]) -> str:
    """Who an attacker is. What single messages tell is counted by the rounds that a user answered; what sums tell is not."""
    return "who reads these messages" if one["view"] in ("individual", "neighbour") else f"who has {one['seen']},"


def _known(one: Mapping[str, Any], history: int) -> str:
    """What an attack knows: of the user's own number of items where it was measured in the settings of the training; else what it knew
    of a hundred items where it was measured, and where that was."""
    exact = one["recall"] and (one["precision"] or 0) >= SURE
    ranked, popular = round(one["r_precision"] * 100), round((one["popularity"] or 0) * 100)
    beside = "" if exact else f", a list of what is popular {popular}"
    if one["otherwise"]:
        found = f"named about {round(one['recall'] * 100)} of 100 items" if exact else f"guessed {ranked} of 100 items rightly"
        return f"{found} (attack '{one['attack']}'){beside}, where that was measured: at {one['otherwise']}"
    found = (
        f"can name about {round(one['recall'] * history)} of your {history} items"
        if exact
        else f"guesses {ranked} of 100 items rightly"
    )
    return f"{found} (attack '{one['attack']}'){beside}"


def of_anybody(algorithm: str, profile: str, settings: Mapping[str, Any], protect: Mapping[str, Any]) -> str:
    """What the final model says of somebody who was not asked; "" if it was not measured."""
    found = [one for one in measured(algorithm, profile) if one["view"] == "model" and best(one)]
    if not found:
        return ""
    entry, attack = found[0], best(found[0])
    assert attack is not None
    line = _expected(entry, attack, 1) | {"otherwise": otherwise(entry, settings, protect)}
    of_others = "measured on people who took part, not on others"
    return f"{OF_THE_MODEL}, yours or anybody's, {_known(line, 100)} ({of_others})"


def at(curve: Sequence[Sequence[float]], rounds: int) -> float:
    """Recall after a number of rounds, on straight lines between those that were measured; beyond the last one as after the last.

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
    return f"{value:.3f}".removeprefix("0") if value < 1 else f"{value:.3f}"
