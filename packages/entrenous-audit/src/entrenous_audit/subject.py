"""`Subject`: an `AuditPlan` with its view decided, its rows and its algorithm at hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from entrenous.core.contract.declared import is_central, is_federated, is_gossip
from entrenous.core.errors import InputError
from entrenous.data.interactions import Interactions
from entrenous.data.split.types import Split
from entrenous.runs import pipeline, reopen
from entrenous.runs.options import RunPlan
from entrenous.runs.plan import algorithm_of, check, make, protection_in, usual_protocol, with_set
from entrenous.runs.store import StoredRun

from .plan import SUM_PARTIES, AuditPlan, View


class Subject(NamedTuple):
    """The training that is audited."""

    audit: AuditPlan
    """The options of the audit, with a view; profile, protect and network are those in force."""
    plan: RunPlan
    """The plan by which the algorithm trains."""
    made: Any
    """The algorithm with its settings."""
    split: Split
    stored: StoredRun | None
    """The run that is audited, if it is a stored one."""

    @property
    def train(self) -> Interactions:
        """The rows that devices train on: the truth that attacks are measured against."""
        return self.split.final_train


def subject_of(audit: AuditPlan, rows: Interactions | None, stored: StoredRun | None) -> Subject:
    """Loads and makes what an audit needs.

    Raises InputError for a plan that cannot be trained, and for an algorithm without devices.
    """
    plan = _run_plan(audit, rows) if stored is None else reopen.plan_of(stored, audit.algorithm)
    if stored is None:
        check(plan)
    # Before the data is loaded, which may take long.
    if is_central(algorithm_of(audit.algorithm, {})):
        raise InputError(
            audit.algorithm,
            "nothing leaves a device: it is trained in one place",
            expected="an algorithm of devices",
        )
    own = pipeline.material(plan, rows) if stored is None else reopen.material_of(stored, plan)
    users = len(own.rows.users)
    if stored is None:
        # A stored run says all of its settings.
        plan = with_set(plan, users)
    made = make(plan, own.rows)
    # From here on the audit says what is in force, not what was typed.
    view = audit.view or _usual_view(plan, made)
    audit = replace(
        audit,
        view=view,
        cohort=audit.cohort or _usual_cohort(audit, view, plan, made, users),
        settings=plan.settings,
        profile=plan.profile,
        protect=plan.protect,
        network=plan.network,
    )
    return Subject(audit, plan, made, own.parts[0], stored)


def _run_plan(audit: AuditPlan, rows: Interactions | None) -> RunPlan:
    data = audit.data if rows is None else rows
    return RunPlan(
        algorithm=audit.algorithm,
        data=audit.data,
        protocol=audit.protocol or usual_protocol(data, audit.algorithm),
        seed=audit.seed,
        settings=audit.settings,
        load=audit.load,
        refit=audit.refit,
        network=audit.network,
        profile=audit.profile,
        protect=audit.protect,
    )


def _usual_view(plan: RunPlan, made: Any) -> View:
    if is_gossip(made):
        return "neighbour"
    if protection_in(plan, made).secure_sum:
        return "sum"
    return "individual"


def _usual_cohort(audit: AuditPlan, view: View, plan: RunPlan, made: Any, users: int) -> int:
    """The parties in a round of sums if none were asked for: those of the training where its
    settings say a cohort, else as many as a sum must have; 0 = as usual in audits. Of two sums, the
    smaller has so many.
    """
    if audit.people > 1 or view not in ("sum", "difference", "planted"):
        return 0
    least = max(SUM_PARTIES, protection_in(plan, made).people)
    # A cohort of 0 stands for everybody.
    trained = int(str(plan.settings.get("cohort", least))) or users
    return min(trained + (view == "difference"), users)


def same_noise(subject: Subject) -> Mapping[str, Any]:
    """The settings of a protection that adds the noise of a sum to the sum itself: what trains has
    the same distribution, ten times as fast as with a share of noise from every device.
    """
    protection = protection_in(subject.plan, subject.made)
    # Without a server there is nobody else who could add the noise. Where devices decide by
    # themselves, more of them than the fewest add more noise.
    by_devices = protection.noise > 0 and protection.noise_by == "devices"
    fixed = protection.sampling == "fixed"
    if by_devices and fixed and is_federated(subject.made):
        return {**subject.plan.protect, "noise_by": "server"}
    return subject.plan.protect
