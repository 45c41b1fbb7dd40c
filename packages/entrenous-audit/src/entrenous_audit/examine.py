"""A whole audit: the view of an onlooker, the attacks on it, the same for the final model, and the
accuracy of that model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NotRequired, cast

import numpy as np
from pydantic import JsonValue
from typing_extensions import TypedDict

from entrenous.core.contract.declared import is_gossip
from entrenous.core.contract.protocols import Progress, silent
from entrenous.core.types import BoolArray
from entrenous.data.interactions import Interactions
from entrenous.privacy.protection import Protection
from entrenous.runs.plan import brought, of_rows, protection_in
from entrenous.runs.reopen import refuse_forgotten
from entrenous.runs.store import StoredRun
from entrenous.runs.train import Say

from .apart import Attempt, attempts
from .claims import Claims
from .endings import OF_MODEL, Ending, trained_to_end, without_some
from .known import check_names, known
from .left_out import in_training
from .measures import FIGURES, PopularityFigures, measured, popularity_guess, seen_users
from .observe import observe
from .other_questions import communities_found, members_found
from .participation import PartFigures, by_taking_part, never_took_part, part_untried
from .plan import AuditPlan, View
from .planted import seen_by_operator
from .promised import CanaryFigures, SeenPrivacy, by_canaries, spent_by
from .scene import check_scene
from .served import seen_lists
from .side_knowledge import known_items
from .subject import Subject, subject_of
from .transcript import Transcript, bytes_of

MEMBERS = "user-membership"  # the attack that needs a training without some users
OWN_MODELS = 5  # that the onlooker trains for it
NOBODY = np.empty(0, np.bool_)


class AttackFigures(TypedDict):
    """The findings of one attack. All figures of an attack that was not tried are None;
    `measures.measured` says what each is.
    """

    name: str
    view: str
    source: str
    """The paper of the attack, or "ours"."""
    asks: str
    """histories, members or communities."""
    precision: float | None
    recall: float | None
    r_precision: float | None
    auc: float | None
    auc_most: NotRequired[float]
    """By clip, noise and answers: at most this AUC has who knows everybody else and writes every
    model, and tells one history of a person from another."""
    bits_most: NotRequired[float | None]
    """By clip, noise and answers: at most so many bits all answers tell of a person; None = no
    bound."""
    popularity_r_precision: float | None
    advantage: float | None
    low: float | None
    high: float | None
    worst: float | None
    rounds_to_half: int | None
    spread: NotRequired[list[float]]
    popularity_spread: NotRequired[list[float]]
    users: NotRequired[int]
    """The users of whom it speaks."""
    of_users: NotRequired[int]
    """The users who were seen."""
    by_round: NotRequired[list[tuple[int, float]]]
    """Numbers of rounds, and the recall by then."""
    named: bool
    """False for an attack that finds histories without names."""
    note: str
    verdict: str
    participation: PartFigures
    """The share of histories that it guesses of people anyway, and the share that it knows because
    they took part."""


class SeenAmounts(TypedDict):
    """The amount of material that the onlooker has seen."""

    users: int
    entries: int
    """Messages or sums."""
    bytes: int


class AuditFound(SeenPrivacy):
    """The report of an audit."""

    algorithm: str
    view: View | None
    """What the onlooker sees."""
    cohort: int
    rounds: int
    profile: str
    popularity: PopularityFigures
    attacks: list[AttackFigures]
    accuracy: dict[str, float]
    """Of the same training to its end; {} where it was left out."""
    epsilon_whole: float | None
    """Spent by the training to its end."""
    canaries: CanaryFigures | None
    protect: dict[str, JsonValue]
    """The protection in force."""
    run: str | None
    """The stored run that was audited."""
    data: str
    protocol: str
    seed: int
    settings: dict[str, JsonValue]
    """The settings in force."""
    people: int
    watched: int | None
    knows: float
    """The share of every history that the onlooker knew beforehand."""
    seen: SeenAmounts


def audited(
    plan: AuditPlan,
    rows: Interactions | None = None,
    stored: StoredRun | None = None,
    *,
    todays_code: bool = False,
    progress: Progress = silent,
    say: Say | None = None,
) -> AuditFound:
    """Returns the report of an audit, as `entrenous audit --json` prints it.

    rows: the data, where it is at hand. stored: a run, whose plan then holds. todays_code: audits a
    stored run though its algorithm's code has changed. say: receives, before the first round, lines
    on what the profile brings. Raises InputError for what cannot be audited, before anything is
    trained.
    """
    # Names and numbers first: a training takes minutes.
    check_names(plan.attacks)
    check_scene(plan)
    if stored is not None and not plan.quick:
        refuse_forgotten(stored)
    subject = subject_of(plan, rows, stored)
    plan = subject.audit
    if say is not None:
        lines = brought(subject.plan, len(subject.train.users))
        for line in lines + of_rows(subject.plan, subject.train):
            say(line)
    canaries = _canaries(subject, progress) if plan.canaries else None
    # What the onlooker sees of messages, unless it has nothing but the final model.
    seen = None
    attacks: list[AttackFigures] = []
    if plan.view == "planted":
        planted = seen_by_operator(subject, progress)
        seen = planted.seen
        attacks += _entries([Attempt("planted", planted.claims, "")], seen, subject)
        attacks[0]["auc_most"] = planted.auc_most
        attacks[0]["bits_most"] = planted.bits_most
    elif plan.view not in OF_MODEL or is_gossip(subject.made):
        seen = observe(
            plan,
            subject.train,
            algorithm=subject.made,
            weighting=subject.split.weighting_sets,
            progress=progress,
        )
        tried = attempts(seen, plan.attacks, progress=progress)
        attacks += _entries(tried, seen, subject)
    # The training to its end: its accuracy, and what its model gives away.
    ending = Ending({}, None, {})
    if seen is None or not plan.quick:
        ending = trained_to_end(subject, todays_code, progress)
    if plan.view == "list":
        lists = list(seen_lists(ending, subject))
        seen = lists[0][1]
        attacks += _of_lists(lists, subject, progress)
    if ending.final is not None and not (plan.view == "list" and plan.quick):
        on_final = attempts(ending.final, plan.attacks, progress=progress)
        attacks += _entries(on_final, ending.final, subject)
        # One more training, without some: who was in it, and what is guessed of people anyway.
        asked = not plan.attacks or MEMBERS in plan.attacks
        if on_final or asked:
            without, inside = without_some(subject, progress, OWN_MODELS * asked)
            tried = attempts(without, plan.attacks, progress=progress)
            attacks += _entries(tried, without, subject, inside)
            _say_participation(attacks, on_final, ending.final, without, subject, progress)
    seen = seen or ending.final
    assert seen is not None  # one of the branches saw something
    about = seen.about
    return {
        "algorithm": about["algorithm"],
        "view": plan.view,
        "cohort": about["cohort"],
        "rounds": seen.rounds[-1].round + 1 if seen.rounds else 0,
        "profile": about["profile"],
        "popularity": popularity_guess(subject.train, seen_users(seen), known_items(seen)),
        "attacks": attacks,
        "accuracy": ending.accuracy,
        **spent_by(seen, ending.privacy),
        "epsilon_whole": ending.privacy.get("epsilon"),
        "canaries": canaries,
        "protect": about["protect"],
        "run": None if stored is None else stored.path.name,
        "data": subject.train.name,
        "protocol": subject.split.name,
        "seed": plan.seed,
        "settings": dict(about["settings"]),
        "people": about["people"],
        "watched": about["watched"],
        "knows": plan.knows,
        "seen": _amounts(seen),
    }


def _canaries(subject: Subject, progress: Progress) -> CanaryFigures:
    """The findings of canaries: in sums, with all noise added by the server."""
    plan = subject.audit
    # Canaries are read from sums, whatever the onlooker of the audit sees.
    if plan.view == "model":
        plan = replace(plan, view="sum")
    # The bound holds for the noise of a sum, whoever adds it; the server does it fastest.
    settings = dict(protection_in(subject.plan, subject.made)) | {"noise_by": "server"}
    protection = Protection.parse(settings, "--protect")
    return by_canaries(plan, subject.made, subject.train, protection, progress)


def _entries(
    tried: Sequence[Attempt], seen: Transcript, subject: Subject, inside: BoolArray = NOBODY
) -> list[AttackFigures]:
    """Returns an entry for each attack on a transcript with its figures, or with the reason why it
    failed.

    inside: bool [candidates], true for those who were in training, where the onlooker has some.
    """
    entries = []
    for attempt in tried:
        entry = {
            "name": attempt.name,
            "view": seen.about["view"],
            "source": known()[attempt.name].source if attempt.name in known() else "ours",
            "participation": part_untried(),
        }
        # A failed attack is an entry of its own: that it was tried is part of the report.
        if attempt.claims is None:
            entry |= {"asks": "histories", **dict.fromkeys(FIGURES), "named": True, "note": ""}
            entry["verdict"] = f"failed: {attempt.failed}"
        else:
            entry["asks"] = attempt.claims.asks
            entry |= _measured(attempt.claims, seen, subject.train, inside)
        # The names of figures depend on the question.
        entries.append(cast(AttackFigures, entry))
    return entries


def _of_lists(
    lists: Sequence[tuple[str, Transcript]], subject: Subject, progress: Progress
) -> list[AttackFigures]:
    """Returns an entry for each attack on each kind of list, which its name says."""
    entries = []
    for kind, seen in lists:
        tried = attempts(seen, subject.audit.attacks, progress=progress)
        for entry in _entries(tried, seen, subject):
            entry["name"] += f", {kind}"
            entries.append(entry)
    return entries


def _say_participation(
    attacks: list[AttackFigures],
    on_final: Sequence[Attempt],
    final: Transcript,
    without: Transcript,
    subject: Subject,
    progress: Progress,
) -> None:
    """Gives each attack on histories in the final model its figures by participation: it is run on
    a training without some people, too. on_final: the attacks on the final model.
    """
    of_model = {}
    for attack in attacks:
        if attack["view"] == "model" and attack["asks"] == "histories":
            of_model[attack["name"]] = attack
    if not of_model:
        return
    never = never_took_part(final, without)
    again = attempts(never, list(of_model), progress=progress)
    guessed = {one.name: one.claims for one in again}
    took = {one.name: one.claims for one in on_final}
    inside = in_training(subject.audit.seed, len(subject.train.users))
    for name, attack in of_model.items():
        attack["participation"] = by_taking_part(
            took.get(name), guessed.get(name), inside, final, subject.train
        )


def _measured(
    claims: Claims, seen: Transcript, train: Interactions, inside: BoolArray
) -> dict[str, Any]:
    """The figures of an attack, by the question that it asked."""
    if claims.asks == "members":
        return members_found(claims, inside)
    if claims.asks == "communities":
        return communities_found(claims, seen, train)
    return measured(claims, seen, train)


def _amounts(seen: Transcript) -> SeenAmounts:
    """The amount of material that the onlooker has seen: users, messages or sums, and bytes."""
    nbytes = sum(array.nbytes for array in seen.model.values())
    nbytes += sum(bytes_of(entry) for entry in seen.rounds)
    return {"users": len(seen_users(seen)), "entries": len(seen.rounds), "bytes": nbytes}
