"""A federation on this machine, over real sockets, compared with the simulation that has the same
plan and seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, final

from ...core.contract.declared import bound, declared, is_federated
from ...core.registry.own import short
from ...data.interactions import Interactions
from ...privacy import evidence
from ...privacy.protection import PAPER, PRIVATE, protection_of, refuse_groups
from ...privacy.secure_sum.terms import Floors
from ...runs import pipeline
from ...runs.options import Profile, RunPlan
from ...runs.pipeline import RunResult, material
from ...runs.plan import algorithm_of, check, usual_protocol
from ..agreement.files import read_json, write_json
from .founding import FoundedFederation, Place, found, free_ports, must_be_new
from .recommend import recommend
from .running import gathered, run_all, status


@final
@dataclass(frozen=True)
class TrialPlan:
    """The plan of a federation that a simulation can repeat. protocol: None = the usual one for
    algorithm and data.
    """

    algorithm: str
    data: str = "ml-100k"
    protocol: str | None = None
    seed: int = 0
    rounds: int = 20
    settings: Mapping[str, Any] = field(default_factory=dict)
    load: Mapping[str, Any] = field(default_factory=dict)
    profile: Profile = PRIVATE
    protect: Mapping[str, Any] = field(default_factory=dict)

    def plan(self) -> RunPlan:
        """The plan of the same training in a simulation, as `entrenous run` would make it."""
        protocol = self.protocol or usual_protocol(self.data, self.algorithm)
        return RunPlan(
            algorithm=self.algorithm,
            data=self.data,
            protocol=protocol,
            seed=self.seed,
            rounds=self.rounds,
            settings=self.settings,
            load=self.load,
            profile=self.profile,
            protect=self.protect,
        )


def begin(
    folder: Path, trial: TrialPlan, *, nodes: int, say: Callable[[str], None] = lambda line: None
) -> FoundedFederation:
    """Make a federation in `folder` whose nodes each have the training rows of a part of the users.
    Raises InputError.

    Where a round has fewer people or nodes than the floors of masked sums, these are lowered, which
    `say` is told: for trying it out.
    """
    must_be_new(folder)  # before any data is fetched
    _without_groups(trial)
    plan, floors = replace(trial.plan(), profile=PAPER, protect={}), Floors()
    check(plan)
    train = material(plan).parts[0].final_train
    own = algorithm_of(trial.algorithm, trial.settings, trial.profile)
    if protection_of(trial.profile, trial.protect, declared(own).traits).secure_sum:
        trial, floors = _lowered(trial, train, nodes, say)
    made = found(
        folder,
        train,
        nodes=nodes,
        floors=floors,
        place=Place(port=free_ports()[0]),
        algorithm=trial.algorithm,
        settings=dict(trial.settings),
        rounds=trial.rounds,
        seed=trial.seed,
        draws="public",
        profile=trial.profile,
        protect=dict(trial.protect),
    )
    # a federation makes room for devices that are missing from a sum, a simulation does not: with
    # the same shares of noise both end with the same model
    lost = made.terms.protection.lost
    if lost:
        trial = replace(trial, protect={**trial.protect, "lost": lost})
    write_json(folder / "trial.json", asdict(trial))
    return made


def _without_groups(trial: TrialPlan) -> None:
    """Raise InputError for a trial in groups of nodes, which no simulation has: there would be
    nothing to compare with.
    """
    if is_federated(own := algorithm_of(trial.algorithm, trial.settings, trial.profile)):
        refuse_groups(protection_of(trial.profile, trial.protect, declared(own).traits))


def _lowered(
    trial: TrialPlan, train: Interactions, nodes: int, say: Callable[[str], None]
) -> tuple[TrialPlan, Floors]:
    """A trial with the floors that so many nodes and users can meet."""
    usual, own = Floors(), algorithm_of(trial.algorithm, trial.settings, trial.profile)
    cohort = (
        bound(own.configured(train.catalogue), train.catalogue).cohort
        if is_federated(own)
        else usual.people
    )
    people = min(int(trial.protect.get("people", usual.people)), cohort)
    floors = replace(
        usual,
        people=people,
        parties=max(2, min(int(trial.protect.get("parties", usual.parties)), nodes)),
    )
    if (floors.people, floors.parties) < (usual.people, usual.parties):
        say(
            f"floors lowered to {floors.people} people and {floors.parties} nodes in a sum: for"
            " trying it out only"
        )
    return (
        replace(
            trial, protect={**trial.protect, "people": floors.people, "parties": floors.parties}
        ),
        floors,
    )


def _simulated(plan: RunPlan) -> RunResult:
    return pipeline.run(
        plan.algorithm,
        plan.data,
        protocol=plan.protocol,
        seed=plan.seed,
        rounds=plan.rounds,
        settings=plan.settings,
        load=plan.load,
        profile=plan.profile,
        protect=plan.protect,
    )


def _knows(algorithm: str, profile: str) -> str:
    """What a curious server would know under a profile, as audits of this package have measured
    it.
    """
    views = evidence.SEEN_UNDER.get(profile, evidence.SUMS)
    found = [
        one
        for one in evidence.measured(short(algorithm), profile)
        if one["view"] in views and one["view"] != "model"
    ]
    lines = [f"{evidence.said(one)} (on {one['data']})" for one in found if evidence.best(one)]
    return (
        "; ".join(lines)
        or f"not measured yet: entrenous audit {short(algorithm)} --profile {profile}"
    )


def carry_out(folder: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Run a federation to its end, then the same training in a simulation. Returns how they
    compare, and what a node recommends to its first user. lost: rounds that were not counted, since
    an interrupted secure sum is never tried again; then the models differ."""
    trial = TrialPlan(**read_json(folder / "trial.json"))
    plan = trial.plan()
    if not (folder / "server" / "model.safetensors").exists():
        run_all(folder, say)
    say("the same in one process, for comparison")
    simulated = _simulated(plan)
    paper = (
        simulated if plan.profile == PAPER else _simulated(replace(plan, profile=PAPER, protect={}))
    )
    network, node = gathered(folder).sha256, sorted((folder / "nodes").iterdir())[0]
    user, number, items = recommend(node, None, 10)
    said = status(folder / "server")
    return {
        "network": network,
        "simulation": simulated.manifest["model_sha256"],
        "same": network == simulated.manifest["model_sha256"],
        "rounds": trial.rounds,
        "lost": said["lost"],
        "seconds_a_round": said["seconds_a_round"],
        "protocol": plan.protocol,
        "profile": plan.profile,
        "metrics": simulated.metrics,
        "paper": paper.metrics,
        "knows": {
            profile: _knows(plan.algorithm, profile)
            for profile in dict.fromkeys((plan.profile, PAPER))
        },
        "node": node.name,
        "user": user,
        "round": number,
        "items": items,
    }
