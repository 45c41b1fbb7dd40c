"""The trainings of an audit besides the one that it observes: the same to its end, and the same
without some users.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from entrenous.core.contract.declared import is_gossip
from entrenous.core.contract.protocols import Progress, arrays_of
from entrenous.core.types import BoolArray
from entrenous.runs import pipeline, reopen
from entrenous.runs.plan import protection_in

from .left_out import trained_without
from .observe import released, with_noise
from .plan import AuditPlan
from .scene import selects_cohort
from .subject import Subject, same_noise
from .transcript import Transcript

OF_MODEL = ("model", "list")  # the views of a training that is over
ACCURACY = ("hr@10", "rmse")  # the first that the protocol measures


class Ending(NamedTuple):
    """A training to its end."""

    accuracy: dict[str, float]
    """Metrics of `ACCURACY` that the protocol measures."""
    final: Transcript | None
    """The final model. None: there is none that all devices have."""
    privacy: dict[str, Any]
    """The spent part of a budget of differential privacy; {} = the training has none."""
    recommender: Any = None
    """The trained one."""


def trained_to_end(subject: Subject, todays_code: bool, progress: Progress) -> Ending:
    """Trains the algorithm of an audit to the end, or reopens the stored run."""
    plan = subject.audit
    if subject.stored is not None:
        # A stored run has been trained to its end already.
        reopened = reopen.reopen(subject.stored, algorithm=plan.algorithm, todays_code=todays_code)
        recommender: Any = reopened.recommender
        manifest = subject.stored.manifest
    else:
        ended = _run(subject, progress)
        recommender = ended.recommender
        manifest = ended.manifest
    final = None
    if not is_gossip(subject.made):
        protection = protection_in(subject.plan, subject.made)
        final = released(
            plan,
            recommender.algorithm,
            subject.train,
            arrays_of(recommender.download),
            with_noise(protection, subject.made, subject.train),
        )
    metrics = manifest["metrics"]
    accuracy = {name: metrics[name] for name in ACCURACY if name in metrics}
    return Ending(accuracy, final, manifest.get("privacy", {}), recommender)


def _run(subject: Subject, progress: Progress) -> pipeline.RunResult:
    plan = subject.audit
    settings = dict(plan.settings)
    if plan.in_a_round and selects_cohort(subject.made):
        # The accuracy is that of the cohort which the onlooker sees.
        settings["cohort"] = min(plan.in_a_round, len(subject.train.users))
    return pipeline.run(
        plan.algorithm,
        subject.split.all_rows,
        parts=[subject.split],
        seed=plan.seed,
        settings=settings,
        network=plan.network,
        rounds=(plan.rounds or None) if plan.view in OF_MODEL else None,
        profile=plan.profile,
        protect=same_noise(subject),
        threads=plan.threads,
        progress=progress,
    )


def without_some(
    subject: Subject, progress: Progress, own: int = 0
) -> tuple[Transcript, BoolArray]:
    """Returns what the final model of a training without some users shows to somebody who knows
    histories of candidates, and which of these were in it. own: as of `trained_without`.
    """
    plan = subject.audit
    training = AuditPlan(
        algorithm=plan.algorithm,
        rounds=plan.rounds if plan.view in OF_MODEL else 0,
        seed=plan.seed,
        cohort=plan.in_a_round,
        profile=plan.profile,
        protect=same_noise(subject),
        threads=plan.threads,
    )
    return trained_without(training, subject.made, subject.train, progress, own)
