"""A whole audit: what an onlooker sees, what attacks make of it, the same for the final model, and how accurate the model is."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

from ..core.declared import is_central, is_federated, is_gossip
from ..core.errors import InputError
from ..core.own import short
from ..core.protocols import Progress, arrays_of, silent
from ..data.interactions import Interactions
from ..federation.executors import Threads
from ..privacy.protection import PAPER, Protection
from ..runs import pipeline, reopen
from ..runs.plan import RunPlan, algorithm_of, check, make, network_of, protection_in, usual_protocol
from ..runs.store import StoredRun
from ..split.types import Split
from .apart import attempts
from .known import check_names, known
from .measures import measured, popularity_guess, seen_users
from .observe import as_trained, observe, released
from .promised import Audited, by_canaries, check_asked, spent_by
from .scene import Scene, check_scene
from .transcript import Transcript, View

FIGURES = ("precision", "recall", "f1", "share", "r_precision", "auc", "advantage", "low", "high", "worst", "rounds_to_half")
UNPROTECTED = Protection()
ACCURACY = ("hr@10", "rmse")  # the first that the protocol measures


@final
@dataclass(frozen=True, kw_only=True)
class AuditPlan:
    """What is audited, and as whom.

    algorithm, data, protocol, settings, load, network, profile, protect: as of a run. view: None = `individual`; `sum` where messages are
    masked; `neighbour` where there is no server. cohort, rounds, fixed, people, watched, public_draws: as in `audit.observe.Scene`.
    attacks: names, () = all that apply. quick: leave out the training to the end, and so accuracy and what the final model tells.
    canaries: users who become canaries in a training of their own, which bounds epsilon from below (`audit.canaries`); 0 = none.
    """

    algorithm: str
    data: str = "ml-100k"
    protocol: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    load: Mapping[str, Any] = field(default_factory=dict)
    network: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    view: View | None = None
    cohort: int = 0
    rounds: int = 0
    fixed: bool = False
    people: int = 1
    watched: int = 0
    profile: str = PAPER
    protect: Mapping[str, Any] = field(default_factory=dict)
    public_draws: bool = False
    attacks: tuple[str, ...] = ()
    quick: bool = False
    canaries: int = 0
    threads: int = 0

    def scene(self, view: View, protection: Protection = UNPROTECTED) -> Scene:
        """How it is observed."""
        return Scene(view, self.rounds, self.seed, self.cohort, self.fixed, self.people, self.watched, self.profile, protection)


class Subject(NamedTuple):
    """What is audited: the plan by which it trains, the algorithm, the split that it trains on, and a stored run if it is one."""

    plan: RunPlan
    made: Any
    split: Split
    stored: StoredRun | None

    @property
    def train(self) -> Interactions:
        """The rows that devices train on: the truth that attacks are held against."""
        return self.split.final_train


def audited(
    plan: AuditPlan,
    rows: Interactions | None = None,
    stored: StoredRun | None = None,
    *,
    todays_code: bool = False,
    progress: Progress = silent,
) -> dict[str, Any]:
    """The report of an audit, as `entrenous audit --json` prints it. rows: the data, where it is at hand. stored: a run, whose plan then
    holds. Raises InputError for what cannot be audited, before anything is trained."""
    check_names(plan.attacks)
    check_scene(plan.scene(plan.view or "individual"))
    began = time.perf_counter()
    subject = _subject(plan, rows, stored)
    view = plan.view or _usual_view(subject)
    canaries = _canaries(plan, subject, view, progress)
    seen = None if view == "model" and not is_gossip(subject.made) else _seen(plan, subject, view, progress)
    found = [] if seen is None else _attacked(seen, subject, plan, progress)
    accuracy, privacy = dict[str, float](), dict[str, Any]()
    if seen is None or not plan.quick:
        accuracy, final, privacy = _trained(plan, subject, view, todays_code, progress)
        found += [] if final is None else _attacked(final, subject, plan, progress)
        seen = seen or final
    assert seen is not None  # each branch saw something
    about = seen.about
    return {
        "algorithm": about["algorithm"], "view": view, "cohort": about["cohort"], "rounds": _rounds(seen),
        "profile": about["profile"], "popularity": popularity_guess(subject.train, seen_users(seen)), "attacks": found,
        "accuracy": accuracy, **spent_by(seen, privacy), "epsilon_whole": privacy.get("epsilon"), "canaries": canaries,
        "protect": about["protect"],
        "run": None if stored is None else stored.path.name, "data": subject.train.name, "protocol": subject.split.name,
        "seed": plan.seed, "settings": dict(about["settings"]), "fixed": about["fixed"], "people": about["people"],
        "watched": about["watched"], "public_draws": plan.public_draws, "seen": _said(seen), "equations": equations(seen),
        "seconds": round(time.perf_counter() - began, 1),
    }  # fmt: skip


def _subject(plan: AuditPlan, rows: Interactions | None, stored: StoredRun | None) -> Subject:
    protocol = plan.protocol or usual_protocol(plan.data if rows is None else rows, plan.algorithm)
    asked = RunPlan(
        algorithm=plan.algorithm, data=plan.data, protocol=protocol, seed=plan.seed, settings=plan.settings, load=plan.load,
        network=plan.network, profile=plan.profile, protect=plan.protect,
    )  # fmt: skip
    if stored is None:
        check(asked)
    else:
        asked = reopen.plan_of(stored, plan.algorithm)
    if is_central(algorithm_of(plan.algorithm, {})):
        raise InputError(
            plan.algorithm, "nothing leaves a device: it is trained in one place", expected="an algorithm of devices"
        )
    what = pipeline.material(asked, rows) if stored is None else reopen.material_of(stored, asked)
    made = make(asked, what.rows)
    return Subject(asked, made, what.parts[0], stored)


def _canaries(plan: AuditPlan, subject: Subject, view: View, progress: Progress) -> dict[str, Any] | None:
    """What canaries say, if any were asked for."""
    if not plan.canaries:
        return None
    own = Protection.parse({**dict(protection_in(subject.plan, subject.made)), "noise_by": "server"}, "--protect")
    audited = Audited(subject.made, subject.train, plan.scene("sum" if view == "model" else view), own)
    check_asked(audited, plan.canaries)
    return by_canaries(audited, plan.canaries, executor=Threads(plan.threads), progress=progress)


def _usual_view(subject: Subject) -> View:
    if is_gossip(subject.made):
        return "neighbour"
    return "sum" if protection_in(subject.plan, subject.made).secure_sum else "individual"


def _seen(plan: AuditPlan, subject: Subject, view: View, progress: Progress) -> Transcript:
    seen = observe(
        subject.made, subject.train, view=view, rounds=plan.rounds, seed=plan.seed, cohort=plan.cohort, fixed=plan.fixed,
        people=plan.people, watched=plan.watched, profile=subject.plan.profile, protect=subject.plan.protect,
        public_draws=plan.public_draws, network=network_of(subject.plan), weighting=subject.split.weighting_sets,
        executor=Threads(plan.threads), progress=progress,
    )  # fmt: skip
    return seen._replace(about={**seen.about, "algorithm": short(plan.algorithm)})


def _attacked(seen: Transcript, subject: Subject, plan: AuditPlan, progress: Progress) -> list[dict[str, Any]]:
    """What every attack makes of a transcript; those that failed with the reason and no figures."""
    found = []
    for one in attempts(seen, plan.attacks, progress=progress):
        about = {
            "name": one.name,
            "view": seen.about["view"],
            "source": known()[one.name].source,
            "seconds": round(one.seconds, 2),
        }
        if one.claims is None:
            found.append({**about, **dict.fromkeys(FIGURES), "named": True, "note": "", "verdict": f"failed: {one.failed}"})
        else:
            found.append({**about, **measured(one.claims, seen, subject.train)})
    return found


def _trained(
    plan: AuditPlan, subject: Subject, view: View, todays_code: bool, progress: Progress
) -> tuple[dict[str, float], Transcript | None, dict[str, Any]]:
    """The accuracy of the same algorithm with the same settings, trained to the end, what its final model shows (None: there is none
    that all devices have), and what the training spent of a budget of differential privacy."""
    if subject.stored is not None:
        recommender: Any = reopen.reopen(subject.stored, algorithm=plan.algorithm, todays_code=todays_code).recommender
        manifest = subject.stored.manifest
    else:
        parties = Scene(view, cohort=plan.cohort).parties * plan.people
        cohort = {"cohort": min(parties, len(subject.train.users))} if parties and "cohort" in dict(subject.made) else {}
        ended = pipeline.run(
            plan.algorithm, subject.split.all_rows, parts=[subject.split], seed=plan.seed, settings={**plan.settings, **cohort},
            network=plan.network, rounds=(plan.rounds or None) if view == "model" else None, profile=plan.profile,
            protect=_same_noise(plan, subject), threads=plan.threads, progress=progress,
        )  # fmt: skip
        recommender, manifest = ended.recommender, ended.manifest
    final = None
    if not is_gossip(subject.made):
        protection = as_trained(protection_in(subject.plan, subject.made), subject.made, subject.train)
        scene = Scene(profile=subject.plan.profile, protection=protection)
        final = released(short(plan.algorithm), recommender.algorithm, subject.train, arrays_of(recommender.download), scene)
    metrics = manifest["metrics"]
    return {name: metrics[name] for name in ACCURACY if name in metrics}, final, manifest.get("privacy", {})


def _same_noise(plan: AuditPlan, subject: Subject) -> Mapping[str, Any]:
    """The protection with the noise of sums added to the sums: what trains is the same in distribution, and ten times as fast as the
    shares of all devices."""
    own = protection_in(subject.plan, subject.made)
    devices = own.noise > 0 and own.noise_by == "devices" and is_federated(subject.made)
    return {**plan.protect, "noise_by": "server"} if devices else plan.protect


def equations(seen: Transcript) -> dict[str, int] | None:
    """Of sums of dense arrays, how many equations there are for each item against how many unknowns: rounds x F against parties.

    With as many equations as parties a fixed set of parties can come apart; None where nothing dense is summed."""
    widths = [sent["shape"][1:] for sent in seen.about["sends"] if sent["way"] == "dense" and sent["shape"][:1] == [seen.items]]
    if seen.about["view"] != "sum" or not widths:
        return None
    numbers = sum(int(width[0]) if width else 1 for width in widths)
    parties = len(seen_users(seen)) // seen.about["people"]
    return {"rounds": len(seen.rounds), "numbers": numbers, "equations": len(seen.rounds) * numbers, "parties": parties}


def _rounds(seen: Transcript) -> int:
    return seen.rounds[-1].round + 1 if seen.rounds else 0


def _said(seen: Transcript) -> dict[str, int]:
    """How much the onlooker has seen: of how many users, in how many messages or sums, in how many bytes."""
    arrays = [array for one in seen.rounds for part in (one.received, one.sent) for array in part.values()]
    nbytes = sum(array.nbytes for array in (*arrays, *seen.model.values()))
    return {"users": len(seen_users(seen)), "entries": len(seen.rounds), "bytes": nbytes}
