"""A trial with a server: a federation on this machine, over real sockets, compared with the
simulation that has the same plan and seed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...core.contract.declared import bound, declared, is_federated
from ...core.keywords import values
from ...core.registry.discover import short
from ...data.interactions import Interactions
from ...privacy import evidence
from ...privacy.protection import PAPER, protection_of, refuse_of_networks
from ...privacy.secure_sum.terms import Floors
from ...runs import pipeline
from ...runs.options import RunPlan, TrainingOptions
from ...runs.pipeline import RunResult, material
from ...runs.plan import algorithm_of, check, make, usual_protocol
from ..agreement.files import read_json, write_json
from ..agreement.terms import TERMS, FederationTerms
from .device import recommend
from .founding import MOST_NODES, SERVER, FoundedFederation, Place, found, free_ports, must_be_new
from .plans import FoundingPlan, TrialPlan
from .running import gathered, run_all, status

TRIAL = "trial.json"


def simulation(trial: TrialPlan) -> RunPlan:
    """Returns the plan of the same training in a simulation, as `entrenous run` would make it."""
    return RunPlan(
        algorithm=trial.algorithm,
        data=trial.data,
        protocol=trial.protocol or usual_protocol(trial.data, trial.algorithm),
        seed=trial.seed,
        rounds=trial.rounds,
        settings=trial.settings,
        load=trial.load,
        profile=trial.profile,
        protect=trial.protect,
    )


def begin(
    folder: Path, trial: TrialPlan, say: Callable[[str], None] = lambda line: None
) -> FoundedFederation:
    """Makes a federation in `folder`, among whose nodes the users and their training rows are
    divided. Raises InputError for a plan that makes no sense.

    If a round has fewer people or nodes than the floors of masked sums, the floors are lowered, and
    a line says so: in a trial only.
    """
    trial = trial.complete()
    must_be_new(folder)  # before any data is fetched
    algorithm = algorithm_of(trial.algorithm, trial.settings, trial.profile)
    protection = protection_of(trial.profile, trial.protect, declared(algorithm).traits)
    # No simulation has groups of nodes, so there would be nothing to compare with.
    if is_federated(algorithm):
        refuse_of_networks(protection)
    plan = replace(simulation(trial), profile=PAPER, protect={})
    check(plan)
    what = material(plan)
    # Refuses settings and values on which the simulation could not be carried out.
    make(plan, what.rows)
    train = what.parts[0].final_train
    floors = Floors()
    if protection.secure_sum:
        floors = _lowered(trial, algorithm, train)
        if (floors.people, floors.parties) < (Floors.people, Floors.parties):
            say(
                f"floors lowered to {floors.people} people and {floors.parties} nodes in a sum: for"
                " trying it out only"
            )
        lowered = {"people": floors.people, "parties": floors.parties}
        if trial.nodes > MOST_NODES:
            lowered["groups"] = 1  # a simulation has none
        trial = replace(trial, protect={**trial.protect, **lowered})
    founding = FoundingPlan(
        algorithm=trial.algorithm,
        settings=dict(trial.settings),
        rounds=trial.rounds,
        seed=trial.seed,
        draws="public",
        profile=trial.profile,
        protect=dict(trial.protect),
    )
    place = Place(port=free_ports()[0])
    made = found(folder, train, founding, nodes=trial.nodes, floors=floors, place=place)
    # A federation makes room for devices that are missing from a sum, a simulation does not: with
    # the same shares of noise both end with the same model.
    lost = made.terms.protection.lost
    if lost:
        trial = replace(trial, protect={**trial.protect, "lost": lost})
    write_json(folder / TRIAL, trial.stored())
    return made


def _lowered(trial: TrialPlan, algorithm: Any, train: Interactions) -> Floors:
    """Returns the floors that the trial's users and nodes can meet."""
    usual = Floors()
    cohort = usual.people
    if is_federated(algorithm):
        cohort = bound(algorithm.configured(train.catalogue), train.catalogue).cohort
    people = min(int(trial.protect.get("people", usual.people)), cohort)
    parties = min(int(trial.protect.get("parties", usual.parties)), trial.nodes)
    return replace(usual, people=people, parties=max(2, parties))


def _simulated(plan: RunPlan) -> RunResult:
    return pipeline.run(plan.algorithm, plan.data, **values(plan, TrainingOptions))


def _knows(algorithm: str, profile: str) -> str:
    """Returns a line on what a curious server would know under a profile, as audits of this package
    have measured it.
    """
    # The final model is left out: everybody gets it, not only the server.
    views = set(evidence.SEEN_UNDER.get(profile, evidence.SUMS)) - {"model"}
    lines = []
    for measured in evidence.measured(short(algorithm), profile):
        if measured["view"] in views and evidence.best(measured):
            lines.append(f"{evidence.said(measured)} (on {measured['data']})")
    if lines:
        return "; ".join(lines)
    return f"not measured yet: entrenous audit {short(algorithm)} --profile {profile}"


def carry_out(folder: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Runs a federation to its end, then the same training in a simulation.

    Returns how the two compare, and what a node recommends to its first user. `lost` counts the
    rounds that were not counted, since an interrupted secure sum is never tried again; where there
    are some, the models differ."""
    plan = simulation(TrialPlan(**read_json(folder / TRIAL)))
    if not (folder / "server" / "model.safetensors").exists():
        run_all(folder, say)
    say("the same in one process, for comparison")
    # The terms say the set of the profile, too, with everybody in each round.
    agreed = FederationTerms.read(folder / SERVER / TERMS)
    simulated = _simulated(replace(plan, settings=agreed.settings))
    # The algorithm as published shows the price of the protection.
    paper = simulated
    if plan.profile != PAPER:
        paper = _simulated(replace(plan, profile=PAPER, protect={}))
    network = gathered(folder).sha256
    node = min((folder / "nodes").iterdir())
    user, number, items = recommend(node, None, 10)
    server = status(folder / "server")
    profiles = dict.fromkeys((plan.profile, PAPER))
    return {
        "network": network,
        "simulation": simulated.manifest["model_sha256"],
        "same": network == simulated.manifest["model_sha256"],
        "rounds": plan.rounds,
        "lost": server["lost"],
        "seconds_a_round": server["seconds_a_round"],
        "protocol": plan.protocol,
        "profile": plan.profile,
        "metrics": simulated.metrics,
        "paper": paper.metrics,
        "knows": {profile: _knows(plan.algorithm, profile) for profile in profiles},
        "node": node.name,
        "user": user,
        "round": number,
        "items": items,
    }
