"""The table of an audit: its conditions, a row for each attack, and sentences on the basis and the
limits of its figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from entrenous.core.printed import counted
from entrenous.privacy.protection import PRIVATE, epsilon_in_words
from entrenous.privacy.told import NOT_TRIED, by_operator, compared, of_operator

from ..endings import OF_MODEL
from ..examine import AttackFigures, AuditFound
from ..promised import CanaryFigures

# `anyway`, `part`: the shares of a history that are guessable anyway, and known by taking part.
HEADERS = (
    "attack",
    "sees",
    "precision",
    "recall",
    "R-precision",
    "AUC",
    "advantage",
    "worst 5 %",
    "half after",
    "anyway",
    "part",
    "verdict",
)
# The figures of an attack, as numbers.
FIGURES = ("precision", "recall", "r_precision", "auc", "advantage", "low", "high", "worst")
BY_PART = ("guessable", "because")


def caption(found: AuditFound) -> str:
    """The conditions of the figures: algorithm, data, view, profile, and how much was seen."""
    return (
        f"{found['algorithm']} on {found['data']}, view {found['view']}, profile"
        f" {found['profile']}, {_scope(found)}"
    )


def records(found: AuditFound) -> list[dict[str, Any]]:
    """A dictionary for each attack: its name, view, question, figures and verdict, the share that
    is `guessable` anyway and the one that is known `because` people took part; popularity alone is
    the first.
    """
    guess = {"name": "popularity alone", "view": "", "asks": "histories", **found["popularity"]}
    names = ("name", "view", "asks", *FIGURES, "rounds_to_half", *BY_PART, "verdict")
    listed = [{name: guess.get(name) for name in names}]
    for attack in found["attacks"]:
        # What both have, such as the verdict, is that of the attack.
        both: Mapping[str, object] = {**attack["participation"], **attack}
        listed.append({name: both.get(name) for name in names})
    return listed


def cells(found: AuditFound) -> list[list[str]]:
    """A row for each attack, in the order of HEADERS."""
    # The first record is popularity alone, of which there is no attack.
    rows = [_row(record) for record in records(found)]
    for row, attack in zip(rows[1:], found["attacks"], strict=True):
        if not attack["named"]:
            row[0] += " (pseudonyms)"
    return rows


def _row(record: Mapping[str, Any]) -> list[str]:
    """Returns the row of one attack, in the order of HEADERS; without figures if it was not
    tried.
    """
    # An attack that was not tried has a verdict and no figures.
    span = ""
    half = ""
    because = ""
    if record["low"] is not None:
        span = f"{record['advantage']:+.3f} ({record['low']:+.3f} to {record['high']:+.3f})"
    if record["rounds_to_half"] is not None:
        half = counted(record["rounds_to_half"], "round")
    if record["because"] is not None:
        because = f"{record['because']:+.3f}"
    return [
        record["name"],
        record["view"],
        *(_number(record[name]) for name in FIGURES[:4]),
        span,
        _number(record["worst"]),
        half,
        _number(record["guessable"]),
        because,
        record["verdict"] or "",
    ]


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.3f}"


def _scope(found: AuditFound) -> str:
    """Returns how much the onlooker saw: rounds, users, and the seed."""
    # Who sees the final model alone sees no rounds.
    if found["view"] in OF_MODEL:
        return f"seed {found['seed']}"
    who = f"{found['cohort']} users a round"
    if found["view"] == "neighbour":
        who = f"{found['watched']} of {found['cohort']} peers look on together"
    return f"{counted(found['rounds'], 'round')}, {who}, seed {found['seed']}"


def first_said(found: AuditFound) -> list[str]:
    """Returns the sentences that stand before all figures: of lists of recommendations; under
    `private`, of an operator who plants models. [] where no server adds up sums.
    """
    if found["view"] == "list":
        tried = [one for one in found["attacks"] if one["view"] == "list" and one["users"]]
        return [f"{one['name']} {compared(one, one['users'])}" for one in tried]
    if found["view"] == "planted":
        return [by_operator(found["attacks"][0], found["seen"]["users"])]
    if found["profile"] == PRIVATE and found["view"] != "neighbour":
        return [of_operator(found["algorithm"], found["settings"], found["protect"])]
    return []


def sentences(found: AuditFound) -> list[str]:
    """Returns sentences on the rows behind the figures, the protection, and the limits of the
    figures.
    """
    seen = found["seen"]
    protect = found["protect"]
    listed = [
        f"seen: {seen['users']} users, {seen['entries']} messages or sums, {seen['bytes']:,} bytes;"
        " truth: the rows trained on"
    ]
    if protect["secure_sum"] and found["view"] == "individual":
        listed.append(
            "single messages are masked under this profile: this is what they would tell if the"
            " masks were broken"
        )
    if any(not attack.get("named", True) for attack in found["attacks"]):
        listed.append(
            "pseudonyms: whole histories without names; matched with users on half of the items,"
            " measured on the other half"
        )
    for attack in found["attacks"]:
        if attack.get("note"):
            listed.append(f"{attack['name']}: {attack['note']}")
    listed += _by_part(found["attacks"])
    accuracy = "accuracy: not measured"
    if found["accuracy"]:
        figures = ", ".join(f"{name} {value:.4f}" for name, value in found["accuracy"].items())
        accuracy = f"accuracy of the same training to its end, {found['protocol']}: {figures}"
    return [
        *listed,
        accuracy,
        _bound(found),
        *_shown_by_canaries(found["canaries"]),
        "what no attack of the list found may still be there: a verdict is about these attacks"
        " alone",
    ]


def _by_part(attacks: Sequence[AttackFigures]) -> list[str]:
    """Returns a sentence for each attack that was run on two trainings, with and without the same
    people; and one for each reason why others were not.
    """
    listed = []
    untried: dict[str, list[str]] = {}
    for attack in attacks:
        part = attack["participation"]
        if part["because"] is None:
            untried.setdefault(part["reason"], []).append(attack["name"])
            continue
        listed.append(
            f"{attack['name']}, of {part['people']} people who were left out of a second training:"
            f" {part['guessable']:.3f} is guessable anyway, {part['because']:+.3f}"
            f" ({part['low']:+.3f} to {part['high']:+.3f}) is known because they took part:"
            f" {part['verdict']}"
        )
    for reason, names in untried.items():
        several = ", ".join(dict.fromkeys(names))
        listed.append(f"known by taking part, {NOT_TRIED} of {several}: {reason}")
    return listed


def _bound(found: AuditFound) -> str:
    """Returns a sentence on the differential privacy that was spent."""
    if found["epsilon"] is None or found["delta"] is None:
        return "no proven bound: epsilon is infinite"
    spent = epsilon_in_words(found["epsilon"], found["delta"])
    budget = f"of a budget of {found['budget']:g}"
    whole = ""
    if found["epsilon_whole"] is not None:
        whole = f"; the training to its end has spent {found['epsilon_whole']:.3f}"
    return f"proven bound: what was seen has spent {spent}, {budget}{whole}"


def _shown_by_canaries(canaries: CanaryFigures | None) -> list[str]:
    """Returns a sentence on the lower bound of epsilon; an empty list without canaries."""
    if canaries is None:
        return []
    guessed = (
        f"{canaries['right']} of {canaries['guesses']} guesses about {canaries['users']} canaries"
        f" in {canaries['rounds']} rounds were right"
    )
    promise = "no epsilon was promised"
    broken = ""
    if canaries["epsilon"] is not None:
        promise = f"promised for these rounds: {canaries['epsilon']:.3f}"
        if canaries["epsilon_at_least"] > canaries["epsilon"]:
            broken = ": THE PROMISE IS BROKEN"
    return [
        f"epsilon is {canaries['epsilon_at_least']:.3f} at least, at 95 % confidence: {guessed}"
        f" ({promise}; with so many canaries no more than {canaries['most']:.3f} can be"
        f" shown){broken}"
    ]
