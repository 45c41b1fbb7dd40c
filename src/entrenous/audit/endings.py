"""What an audit trains beside what it observes: the same to its end, and the same without some
users.
"""

from __future__ import annotations

from typing import Any

from ..core.contract.declared import is_gossip
from ..core.contract.protocols import Progress, arrays_of
from ..core.registry.own import short
from ..core.types import BoolArray
from ..federation.executors import Threads
from ..runs import pipeline, reopen
from ..runs.plan import protection_in
from .left_out import trained_without
from .observe import as_trained, released
from .scene import Scene
from .subject import AuditPlan, Subject, same_noise
from .transcript import Transcript, View

ACCURACY = ("hr@10", "rmse")  # the first that the protocol measures


def trained_to_end(
    plan: AuditPlan, subject: Subject, view: View, todays_code: bool, progress: Progress
) -> tuple[dict[str, float], Transcript | None, dict[str, Any]]:
    """The accuracy of the same algorithm with the same settings, trained to the end, what its final
    model shows (None: there is none that all devices have), and what the training spent of a budget
    of differential privacy.
    """
    if subject.stored is not None:
        recommender: Any = reopen.reopen(
            subject.stored, algorithm=plan.algorithm, todays_code=todays_code
        ).recommender
        manifest = subject.stored.manifest
    else:
        many = plan.scene(view).in_a_round
        cohort = (
            {"cohort": min(many, len(subject.train.users))}
            if many and "cohort" in dict(subject.made)
            else {}
        )
        ended = pipeline.run(
            plan.algorithm,
            subject.split.all_rows,
            parts=[subject.split],
            seed=plan.seed,
            settings={**plan.settings, **cohort},
            network=plan.network,
            rounds=(plan.rounds or None) if view == "model" else None,
            profile=plan.profile,
            protect=same_noise(plan, subject),
            threads=plan.threads,
            progress=progress,
        )
        recommender, manifest = ended.recommender, ended.manifest
    final = None
    if not is_gossip(subject.made):
        protection = as_trained(
            protection_in(subject.plan, subject.made), subject.made, subject.train
        )
        scene = Scene(profile=subject.plan.profile, protection=protection)
        final = released(
            short(plan.algorithm),
            recommender.algorithm,
            subject.train,
            arrays_of(recommender.download),
            scene,
        )
    metrics = manifest["metrics"]
    return (
        {name: metrics[name] for name in ACCURACY if name in metrics},
        final,
        manifest.get("privacy", {}),
    )


def without_some(
    plan: AuditPlan, subject: Subject, view: View, progress: Progress
) -> tuple[Transcript, BoolArray]:
    """What the final model of a training without some users shows to who knows histories of
    candidates, and which of these were in it.
    """
    rounds = plan.rounds if view == "model" else 0
    scene = Scene(
        rounds=rounds,
        seed=plan.seed,
        cohort=plan.scene(view).in_a_round,
        profile=subject.plan.profile,
    )
    protect = {**subject.plan.protect, **same_noise(plan, subject)}
    return trained_without(
        subject.made,
        subject.train,
        scene,
        protect,
        executor=Threads(plan.threads),
        progress=progress,
    )
