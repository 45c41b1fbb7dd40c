"""`AuditPlan`: what is audited and as whom; `Subject`: the same with its rows and its algorithm at
hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

from ..core.contract.declared import is_central, is_federated, is_gossip
from ..core.errors import InputError
from ..data.interactions import Interactions
from ..data.split.types import Split
from ..privacy.protection import PAPER, Protection
from ..runs import pipeline, reopen
from ..runs.options import Profile, RunPlan
from ..runs.plan import algorithm_of, check, make, protection_in, usual_protocol
from ..runs.store import StoredRun
from .scene import Scene
from .transcript import View

UNPROTECTED = Protection()


@final
@dataclass(frozen=True, kw_only=True)
class AuditPlan:
    """What is audited, and as whom.

    algorithm, data, protocol, settings, load, refit, network, profile, protect: as of a run. view:
    None = `individual`; `sum` where messages are masked; `neighbour` where there is no server.
    cohort, rounds, fixed, people, watched, public_draws, replayed, chosen: as in
    `audit.scene.Scene`. attacks: names, () = all that apply. quick: leave out the training to the
    end, and so accuracy and what the final model tells. canaries: users who become canaries in a
    training of their own, which bounds epsilon from below (`audit.canaries`); 0 = none."""

    algorithm: str
    data: str = "ml-100k"
    protocol: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    load: Mapping[str, Any] = field(default_factory=dict)
    refit: bool | None = None
    network: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    view: View | None = None
    cohort: int = 0
    rounds: int = 0
    fixed: bool = False
    people: int = 1
    watched: int = 0
    profile: Profile = PAPER
    protect: Mapping[str, Any] = field(default_factory=dict)
    public_draws: bool = False
    replayed: bool = False
    chosen: int = 0
    attacks: tuple[str, ...] = ()
    quick: bool = False
    canaries: int = 0
    threads: int = 0

    def scene(self, view: View, protection: Protection = UNPROTECTED) -> Scene:
        """How it is observed."""
        return Scene(
            view,
            self.rounds,
            self.seed,
            self.cohort,
            self.fixed,
            self.people,
            self.watched,
            self.profile,
            protection,
            self.public_draws,
            self.replayed,
            self.chosen,
        )


class Subject(NamedTuple):
    """What is audited: the plan by which it trains, the algorithm, the split that it trains on, and
    a stored run if it is one.
    """

    plan: RunPlan
    made: Any
    split: Split
    stored: StoredRun | None

    @property
    def train(self) -> Interactions:
        """The rows that devices train on: the truth that attacks are held against."""
        return self.split.final_train


def subject_of(plan: AuditPlan, rows: Interactions | None, stored: StoredRun | None) -> Subject:
    protocol = plan.protocol or usual_protocol(plan.data if rows is None else rows, plan.algorithm)
    asked = RunPlan(
        algorithm=plan.algorithm,
        data=plan.data,
        protocol=protocol,
        seed=plan.seed,
        settings=plan.settings,
        load=plan.load,
        refit=plan.refit,
        network=plan.network,
        profile=plan.profile,
        protect=plan.protect,
    )
    if stored is None:
        check(asked)
    else:
        asked = reopen.plan_of(stored, plan.algorithm)
    if is_central(algorithm_of(plan.algorithm, {})):
        raise InputError(
            plan.algorithm,
            "nothing leaves a device: it is trained in one place",
            expected="an algorithm of devices",
        )
    what = pipeline.material(asked, rows) if stored is None else reopen.material_of(stored, asked)
    made = make(asked, what.rows)
    return Subject(asked, made, what.parts[0], stored)


def usual_view(subject: Subject) -> View:
    if is_gossip(subject.made):
        return "neighbour"
    return "sum" if protection_in(subject.plan, subject.made).secure_sum else "individual"


def same_noise(plan: AuditPlan, subject: Subject) -> Mapping[str, Any]:
    """The protection with the noise of sums added to the sums: what trains is the same in
    distribution, and ten times as fast as the shares of all devices."""
    own = protection_in(subject.plan, subject.made)
    devices = own.noise > 0 and own.noise_by == "devices" and is_federated(subject.made)
    return {**plan.protect, "noise_by": "server"} if devices else plan.protect
