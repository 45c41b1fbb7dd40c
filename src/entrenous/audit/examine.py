"""A whole audit: what an onlooker sees, what attacks make of it, the same for the final model, and
how accurate the model is.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from ..core.contract.declared import is_gossip
from ..core.contract.protocols import Progress, silent
from ..core.registry.own import short
from ..core.types import BoolArray
from ..data.interactions import Interactions
from ..federation.executors import Threads
from ..privacy.protection import Protection
from ..runs.plan import network_of, protection_in
from ..runs.store import StoredRun
from .apart import attempts
from .claims import Claims
from .endings import trained_to_end, without_some
from .known import check_names, known
from .measures import FIGURES, measured, popularity_guess, seen_users
from .observe import observed
from .other_questions import communities_found, members_found
from .promised import Audited, by_canaries, check_asked, spent_by
from .scene import check_scene
from .subject import AuditPlan, Subject, subject_of, usual_view
from .transcript import Transcript, View

MEMBERS = "user-membership"  # the attack that needs a training of its own
NOBODY = np.empty(0, np.bool_)


def audited(
    plan: AuditPlan,
    rows: Interactions | None = None,
    stored: StoredRun | None = None,
    *,
    todays_code: bool = False,
    progress: Progress = silent,
) -> dict[str, Any]:
    """The report of an audit, as `entrenous audit --json` prints it. rows: the data, where it is at
    hand. stored: a run, whose plan then holds. Raises InputError for what cannot be audited, before
    anything is trained.
    """
    check_names(plan.attacks)
    check_scene(plan.scene(plan.view or "individual"))
    began = time.perf_counter()
    subject = subject_of(plan, rows, stored)
    view = plan.view or usual_view(subject)
    canaries = _canaries(plan, subject, view, progress)
    seen = (
        None
        if view == "model" and not is_gossip(subject.made)
        else _seen(plan, subject, view, progress)
    )
    found = [] if seen is None else _attacked(seen, subject, plan, progress)
    accuracy, privacy = dict[str, float](), dict[str, Any]()
    if seen is None or not plan.quick:
        accuracy, final, privacy = trained_to_end(plan, subject, view, todays_code, progress)
        found += [] if final is None else _attacked(final, subject, plan, progress)
        if final is not None and (not plan.attacks or MEMBERS in plan.attacks):
            without, inside = without_some(plan, subject, view, progress)
            found += _attacked(without, subject, plan, progress, inside)
        seen = seen or final
    assert seen is not None  # each branch saw something
    about = seen.about
    return {
        "algorithm": about["algorithm"],
        "view": view,
        "cohort": about["cohort"],
        "rounds": _rounds(seen),
        "profile": about["profile"],
        "popularity": popularity_guess(subject.train, seen_users(seen)),
        "attacks": found,
        "accuracy": accuracy,
        **spent_by(seen, privacy),
        "epsilon_whole": privacy.get("epsilon"),
        "canaries": canaries,
        "protect": about["protect"],
        "run": None if stored is None else stored.path.name,
        "data": subject.train.name,
        "protocol": subject.split.name,
        "seed": plan.seed,
        "settings": dict(about["settings"]),
        "fixed": about["fixed"],
        "people": about["people"],
        "watched": about["watched"],
        "public_draws": plan.public_draws,
        "replayed": plan.replayed,
        "chosen": plan.chosen,
        "seen": _said(seen),
        "equations": equations(seen),
        "seconds": round(time.perf_counter() - began, 1),
    }


def _canaries(
    plan: AuditPlan, subject: Subject, view: View, progress: Progress
) -> dict[str, Any] | None:
    """What canaries say, if any were asked for."""
    if not plan.canaries:
        return None
    own = Protection.parse(
        {**dict(protection_in(subject.plan, subject.made)), "noise_by": "server"}, "--protect"
    )
    audited = Audited(
        subject.made, subject.train, plan.scene("sum" if view == "model" else view), own
    )
    check_asked(audited, plan.canaries)
    return by_canaries(audited, plan.canaries, executor=Threads(plan.threads), progress=progress)


def _seen(plan: AuditPlan, subject: Subject, view: View, progress: Progress) -> Transcript:
    return observed(
        subject.made,
        short(plan.algorithm),
        subject.train,
        plan.scene(view)._replace(profile=subject.plan.profile),
        subject.plan.protect,
        network=network_of(subject.plan),
        weighting=subject.split.weighting_sets,
        executor=Threads(plan.threads),
        progress=progress,
    )


def _attacked(
    seen: Transcript,
    subject: Subject,
    plan: AuditPlan,
    progress: Progress,
    inside: BoolArray = NOBODY,
) -> list[dict[str, Any]]:
    """What every attack makes of a transcript; those that failed with the reason and no figures.
    inside: which candidates were in training, where the onlooker has some."""
    found = []
    for one in attempts(seen, plan.attacks, progress=progress):
        about = {
            "name": one.name,
            "view": seen.about["view"],
            "source": known()[one.name].source,
            "seconds": round(one.seconds, 2),
        }
        if one.claims is None:
            nothing = {"asks": "histories", **dict.fromkeys(FIGURES), "named": True, "note": ""}
            found.append({**about, **nothing, "verdict": f"failed: {one.failed}"})
        else:
            found.append(
                {
                    **about,
                    "asks": one.claims.asks,
                    **_measured(one.claims, seen, subject.train, inside),
                }
            )
    return found


def _measured(
    claims: Claims, seen: Transcript, train: Interactions, inside: BoolArray
) -> dict[str, Any]:
    """The figures of an attack, by what it asked."""
    if claims.asks == "members":
        return members_found(claims, inside)
    return (
        communities_found(claims, seen, train)
        if claims.asks == "communities"
        else measured(claims, seen, train)
    )


def equations(seen: Transcript) -> dict[str, int] | None:
    """Of sums of dense arrays, how many equations there are for each item against how many
    unknowns: rounds x F against parties. So it is with rows, where devices send those of the same
    items in every round.

    With as many equations as parties a fixed set of parties can come apart; None where nothing of
    the kind is summed.
    """
    sends = [(sent["way"], sent["shape"]) for sent in seen.about["sends"]]
    widths = [shape[1:] for way, shape in sends if way == "dense" and shape[:1] == [seen.items]]
    widths += [shape for way, shape in sends if way == "rows" and seen.about["same_rows"]]
    if seen.about["view"] != "sum" or not widths:
        return None
    numbers = sum(int(width[0]) if width else 1 for width in widths)
    parties = len(seen_users(seen)) // seen.about["people"]
    return {
        "rounds": len(seen.rounds),
        "numbers": numbers,
        "equations": len(seen.rounds) * numbers,
        "parties": parties,
    }


def _rounds(seen: Transcript) -> int:
    return seen.rounds[-1].round + 1 if seen.rounds else 0


def _said(seen: Transcript) -> dict[str, int]:
    """How much the onlooker has seen: of how many users, in how many messages or sums, in how many
    bytes.
    """
    arrays = [
        array for one in seen.rounds for part in (one.received, one.sent) for array in part.values()
    ]
    nbytes = sum(array.nbytes for array in (*arrays, *seen.model.values()))
    return {"users": len(seen_users(seen)), "entries": len(seen.rounds), "bytes": nbytes}
