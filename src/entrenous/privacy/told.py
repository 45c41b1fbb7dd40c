"""The words in which people are told of the measurements of audits: of attacks that were not tried,
and of settings in which a figure was measured otherwise than in their training.

The figures are those of `privacy.evidence`; nothing here adds one.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from pydantic import JsonValue
from typing_extensions import TypedDict

from . import evidence
from .evidence import Entry, best, measured, on_histories

# Views of messages on their way from devices, besides those of whoever plants models.
MESSAGES: Final = ("individual", "sum", "difference", "neighbour")
# Settings of the length of training, and of the number of its devices.
OF_TRAINING: Final = frozenset({"rounds", "cohort"})
# Settings of a protection that an onlooker does not see in its figures.
OF_TRUST: Final = frozenset({"noise_by", "noise_from", "people", "parties", "delta", "lost"})
# The verdict on an attack that had nothing to attack with, and so says nothing of the protection.
NOT_TRIED: Final = "NOT TRIED"
NO_ATTACK: Final = "no attack applies"
SURE: Final = 0.9  # precision from which the items that an attack names count as known
OF_THE_MODEL: Final = "The model of a whole training, with half of a list known,"
HOLDS_AGAINST: Final = (
    "`private` protects from an operator who follows the protocol, from a stolen database and from"
    " other members. An operator who sets out to read can still plant models, which"
    " `entrenous audit --view planted` measures, and invent members; only `dp`, among people whom"
    " you know to be real, holds against that (docs/privacy.md)."
)
MEMBERSHIP: Final = (
    "From the model, who has your list and trains models of their own tells whether you took part"
    " (`entrenous audit {} --profile {} --view model --attack user-membership` says how well)."
)
FORGETTING: Final = (
    "Rows that you forget are in no later message; sums and models that they went into cannot be"
    " undone."
)
NOTHING: Final = "Nothing: you did not take part."
UNTRIED: Final = "Not measured."
NOT_IN_IT: Final = "If you do not take part, nothing leaves your device."
WHOLE_TRAINING: Final = 1_000_000  # rounds, as many as were measured at most
# The parts of an account of somebody's privacy, with their titles.
PARTS: Final = {
    "part": "Your part",
    "guessable": "Guessable anyway",
    "because": "Known because you took part",
}


class Account(TypedDict):
    """The account of one person's privacy: three parts, each in sentences."""

    part: list[str]
    """The part that the person's device took in the training, or that it took none."""
    guessable: list[str]
    """The share of a list that is guessed of people who never took part."""
    because: list[str]
    """The share that is known because the person took part."""
    expected: list[dict[str, JsonValue]]
    """The expected findings of each attack on what the person's device sent."""
    not_measured: str
    """The reason why nothing is expected, or ""."""


class UserReceipt(Account):
    """The receipt of one user. A number is None where it is not known."""

    user: str
    algorithm: str
    data: str
    profile: str
    history: int
    """The rows that the user's device has trained on."""
    rounds: list[dict[str, int | str | None]]
    """`round`, `rows`, `positives` and `numbers` of each round in which the device answered; of a
    node also the `time`, ISO 8601 in UTC, None where it is not known."""
    rounds_answered: int | None
    rows: int | None
    """Rows of items that left the device."""
    positives: int | None
    """Those of items that the user has consumed."""
    numbers: int | None
    """Numbers in all arrays, rows and others."""
    epsilon: float | None


def verdict_of(entry: Entry) -> str:
    """The verdict on an entry: that of its best attack; without one, that attacks declined or that
    there were none.
    """
    # That an attack declined is no finding: it says nothing for the protection.
    attack = best(entry)
    if attack is not None:
        return str(attack["verdict"])
    return NOT_TRIED if _declined(entry) else NO_ATTACK


def _declined(entry: Entry) -> list[str]:
    """The attacks that had nothing to attack with, each with the reason."""
    return [
        f"'{attack['name']}' ({attack['note']})"
        for attack in on_histories(entry)
        if attack.get("verdict") == NOT_TRIED
    ]


def said(entry: Entry) -> str:
    """One line on an entry, as `evidence.said` has it; where attacks declined, their names and
    reasons.
    """
    attack = best(entry)
    if entry["view"] == "list":
        return f"{evidence.seen(entry)}: {by_lists(entry)}"
    if attack is not None and entry["view"] == "planted":
        # The figures are the promise: a verdict on one operator says nothing of another.
        return f"{evidence.seen(entry)}: {by_operator(attack, entry['users'])}"
    declined = ", ".join(_declined(entry))
    if attack is not None or not declined:
        return evidence.said(entry)
    return f"{evidence.seen(entry)}: {declined}: {NOT_TRIED}"


def by_lists(entry: Entry) -> str:
    """The findings of whoever sees lists of recommendations and has the model, in one clause."""
    told = []
    for attack in entry["attacks"]:
        _, _, kind = attack["name"].partition(", ")
        found = attack["r_precision"]
        told.append(f"{kind} {found:.3f} ({attack['popularity_r_precision']:.3f})")
    return f"to whoever has the model, popular items in brackets, {', '.join(told)}"


def compared(attack: Mapping[str, Any], people: int) -> str:
    """The findings of an attack on some people and those of popular items, in one clause."""
    found = f"{attack['r_precision']:.3f}"
    popular = f"{attack['popularity_r_precision']:.3f}"
    more = evidence.interval(attack, people)
    return f"finds {found} of a list, where popular items find {popular} ({more})"


def by_operator(attack: Mapping[str, Any], people: int) -> str:
    """The findings of an operator who plants models, in one clause. people: whom it read."""
    bits = attack["bits_most"]
    bound = "any number of bits" if bits is None else f"at most {bits:,.0f} bits"
    return (
        f"an operator who plants models {compared(attack, people)}; by clip, noise and answers, it"
        f" learns {bound} of a person, and tells one list from another with an AUC of at most"
        f" {attack['auc_most']:.3f}"
    )


def of_operator(algorithm: str, settings: Mapping[str, Any], protect: Mapping[str, Any]) -> str:
    """A sentence on an operator who plants models in a training under `private`, as it was measured
    of its algorithm. settings, protect: of the training.

    >>> of_operator("fcf", {}, {"days": 30}).endswith("; as many bits more in each further 30 days")
    True
    """
    for entry in measured(algorithm, "private"):
        attack = best(entry)
        if attack is not None and entry["view"] == "planted":
            differing = otherwise(entry, settings, protect)
            at = f", measured at {differing}" if differing else ""
            # Each window has a budget of its own, and nothing is taken back.
            days = protect.get("days")
            more = f"; as many bits more in each further {days} days" if days else ""
            return f"{by_operator(attack, entry['users'])} ({entry['data']}{at}){more}"
    again = f"`entrenous audit {algorithm} --profile private --view planted` measures it"
    return f"what an operator finds who plants models is not known: {again}"


def first_of(
    algorithm: str, profile: str, settings: Mapping[str, Any], protect: Mapping[str, Any]
) -> list[str]:
    """The sentence with which an account of a training around a server begins, as `of_operator` has
    it; [] under other profiles than `private`.
    """
    if profile != "private":
        return []
    worst = of_operator(algorithm, settings, protect)
    return [f"{worst[0].upper()}{worst[1:]}."]


def of_shown(algorithm: str) -> str:
    """A sentence on lists that somebody shows, of a model that was trained under `private`."""
    for entry in measured(algorithm, "private"):
        if entry["view"] == "list":
            return f"a list that you show tells of your history, {by_lists(entry)}"
    return (
        "what lists tell that somebody shows is not known:"
        f" `entrenous audit {algorithm} --profile private --view list` measures it"
    )


def of_the_list(algorithm: str) -> str:
    """A sentence on the list of the items that somebody consumed, which no device sends, where an
    algorithm runs as it is published.
    """
    # Of messages alone: the final model is another question.
    verdicts = {
        verdict_of(entry)
        for entry in measured(algorithm, "paper")
        if entry["view"] in ("individual", "neighbour")
    }
    # The worst that was measured decides.
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
    """The expected findings of each attack on one user who took part in so many rounds, as
    `evidence.expected` has them, with the `view` and the settings in which it was measured
    `otherwise`; under `first` the sentences with which an account begins. Nothing is expected of
    the messages of a user who sent none.

    settings, protect: of the training, as far as they are known; others are taken to be as they
        were measured. No server is known to add up where there is no `protect`.
    """
    if not rounds:
        return {"expected": [], "not_measured": "", "first": []}
    findings = evidence.expected(algorithm, profile, rounds)
    # A line names its entry by what was seen, of which there is one for each entry.
    entries = {evidence.seen(entry): entry for entry in measured(algorithm, profile)}
    lines = []
    for line in findings["expected"]:
        entry = entries[line["seen"]]
        elsewhere = otherwise(entry, settings or {}, protect or {})
        lines.append({**line, "view": entry["view"], "otherwise": elsewhere})
    first = first_of(algorithm, profile, settings or {}, protect) if protect else []
    return {**findings, "expected": lines, "first": first}


def otherwise(entry: Entry, settings: Mapping[str, Any], protect: Mapping[str, Any]) -> str:
    """The settings in which an entry was measured otherwise than in a training, such as "pi 1 (here
    0)"; "" if it was in none.

    The number of devices in a round counts where sums were measured; the number of rounds does not:
    expectations go by rounds.
    """
    # Some measurements were kept without their settings.
    if "settings" not in entry:
        return "settings that were not kept"
    left_out = set(OF_TRAINING)
    if entry["view"] in ("sum", "difference", "planted"):
        left_out.remove("cohort")
    differing = _differing(entry["settings"], settings, left_out)
    # Audits are of one sum of everybody, and count all answers.
    differing += _differing({"groups": 1, "days": 0, **entry["protect"]}, protect, OF_TRUST)
    return ", ".join(differing)


def _differing(
    was: Mapping[str, Any], here: Mapping[str, Any], left_out: Collection[str]
) -> list[str]:
    """The settings that differ, in words."""
    return [
        f"{name} {_short(was[name])} (here {_short(value)})"
        for name, value in here.items()
        if name in was and name not in left_out and not _alike(was[name], value)
    ]


def _alike(value: Any, other: Any) -> bool:
    """Checks whether two values of a setting are the same, however they are written."""
    # A setting may come as text from a command line or a file.
    try:
        return math.isclose(float(value), float(other))
    except (TypeError, ValueError):
        return str(value) == str(other)


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


def account(
    part: list[str],
    findings: Mapping[str, Any],
    history: int,
    *,
    took_part: bool = True,
    proof: Sequence[str] = (),
) -> Account:
    """The account of somebody's privacy, from measured findings alone.

    part: sentences on what the person's device sent. findings: as `expected` gives them for one
    round at least. history: the number of items that the person has consumed. proof: sentences on
    the proven bound of what is known of who took part.
    """
    lines = findings["expected"]
    guessable = []
    if findings["not_measured"]:
        guessable.append(f"Not measured: {findings['not_measured']}.")
    because = list(guessable)
    for line in _strongest([line for line in lines if line["view"] in MESSAGES]):
        because.append(f"{_who(line)} {_known(line, history)}.")
    for line in _strongest([line for line in lines if line["view"] == "model"]):
        guessable.append(_anyway(line))
        because.append(_added(line))
    first = findings["first"]
    if not took_part:
        # Nothing was sent of which attacks could find anything.
        first = []
        lines = []
        because = [NOTHING]
    return {
        "part": [*first, *part],
        "guessable": guessable or [UNTRIED],
        "because": [*because, *proof],
        "expected": lines,
        "not_measured": findings["not_measured"],
    }


def of_profiles(algorithm: str) -> dict[str, Account]:
    """The accounts of anybody in a whole training, by the profiles that were measured."""
    profiles = {entry["profile"] for entry in measured(algorithm)}
    return {
        profile: account(
            [*first_of(algorithm, profile, {}, {}), NOT_IN_IT],
            expected(algorithm, profile, WHOLE_TRAINING),
            0,
        )
        for profile in sorted(profiles)
    }


def _anyway(line: Mapping[str, Any]) -> str:
    """The guess of a final model about somebody who never took part, if that was measured."""
    share = line["r_precision"]
    of_whom = "people who took part, not others"
    if line["participation"]:
        share = line["participation"]["guessable"]
        of_whom = f"{line['participation']['people']} people who never took part"
    popular = round((line["popularity"] or 0) * 100)
    return (
        f"{OF_THE_MODEL} guesses {round(share * 100)} of 100 other items of anybody, a list of what"
        f" is popular {popular} (attack '{line['attack']}', tried on {of_whom}{_at(line)})."
    )


def _added(line: Mapping[str, Any]) -> str:
    """The knowledge that a final model has of people because they took part."""
    part = line["participation"]
    if not part:
        return "How much more the model knows of people who took part was not measured."
    more, low, high = (f"{100 * part[name]:.1f}" for name in ("because", "low", "high"))
    return (
        f"The model knows {more} of 100 items more of people who took part (95 % interval {low} to"
        f" {high}{_at(line)})."
    )


def _at(line: Mapping[str, Any]) -> str:
    """The settings in which a finding was measured otherwise, as the end of a clause."""
    return f", measured at {line['otherwise']}" if line["otherwise"] else ""


def _strongest(lines: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The attack that names most rightly; of those that only rank the one that ranks best. [] of
    none.
    """

    def strength(line: Mapping[str, Any]) -> tuple[float, float]:
        return line["recall"] if _exact(line) else 0, line["r_precision"]

    return sorted(lines, key=strength)[-1:]


def _exact(line: Mapping[str, Any]) -> bool:
    """Checks whether an attack names items, and nearly all of them rightly."""
    return bool(line["recall"]) and (line["precision"] or 0) >= SURE


def _who(line: Mapping[str, Any]) -> str:
    """The attacker. Findings from single messages are counted by the rounds that a user answered;
    findings from sums are not.
    """
    if line["view"] in ("individual", "neighbour"):
        return "Who reads these messages"
    return f"Who has {line['seen']},"


def _known(line: Mapping[str, Any], history: int) -> str:
    """The knowledge of an attack: of the user's own number of items where it was measured in the
    settings of the training; else of a hundred items where it was measured, with those settings.
    history: 0 = of a hundred items.
    """
    attack = f"(attack '{line['attack']}')"
    ranked = round(line["r_precision"] * 100)
    popular = round((line["popularity"] or 0) * 100)
    compared = "" if _exact(line) else f", a list of what is popular {popular}"
    # A figure of other settings is not carried over to this user's own list.
    own = bool(history) and not line["otherwise"]
    size = history if own else 100
    if ranked <= popular and not _exact(line):
        return f"finds nothing more than a list of what is popular {attack}{_at(line)}"
    finding = f"guesses {ranked} of 100 items rightly"
    if _exact(line):
        named = round(line["recall"] * size)
        share = f"about {named}" if named < size else "all"
        finding = f"can name {share} of {'your ' * own}{size} items"
    return f"{finding} {attack}{compared}{_at(line)}"


def sum_if_known(counts: Sequence[int | None]) -> int | None:
    """Returns the sum of counts; None if one of them is not known."""
    known = [count for count in counts if count is not None]
    if len(known) == len(counts):
        return sum(known)
    return None
