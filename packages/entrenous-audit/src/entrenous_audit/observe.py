"""`observe`: what one onlooker of a federation sees, from a simulation of it: the transcript that
attacks are given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from entrenous.core.contract.declared import Contract, bound, declared, is_federated, is_gossip
from entrenous.core.contract.protocols import FederatedAlgorithm, Progress, arrays_of, silent
from entrenous.core.contract.update import STEP
from entrenous.core.errors import InputError
from entrenous.core.keys import key
from entrenous.core.registry.discover import short
from entrenous.core.types import Array
from entrenous.data.interactions import Interactions
from entrenous.data.split.types import Held
from entrenous.federation.gossip import Gossip
from entrenous.federation.network import Network
from entrenous.federation.recorder import NeighbourRecorder, Recorder
from entrenous.federation.rounds import Rounds, Training
from entrenous.federation.shard import Threads
from entrenous.kernels.sampling import cohort as drawn
from entrenous.privacy.protection import Protection, protection_of, refuse_of_networks
from entrenous.runs.plan import algorithm_of
from entrenous.runs.recommenders import Trained
from entrenous.runs.train import budgeted

from .plan import AuditPlan
from .scene import (
    KEPT_BYTES,
    as_it_is,
    but_one,
    check_parties,
    check_scene,
    fresh_row,
    parties_of,
    taking_part,
    watched_of,
    with_cohort,
    without,
)
from .side_knowledge import SHARE, histories_of, known_share, target_sets
from .transcript import Transcript

USUAL_ROUNDS = {"individual": 1, "difference": 30}
LEAST_SUMS = 20  # rounds of sums that are kept whatever they weigh


def observe(
    plan: AuditPlan,
    data: Interactions,
    *,
    algorithm: Trained | None = None,
    weighting: Held | None = None,
    progress: Progress = silent,
) -> Transcript:
    """Returns the transcript of a training on the rows of `data` as one onlooker sees it: it holds
    what the wire holds, no more.

    plan: its view is None = `individual`. algorithm: with its settings, where it is at hand; None =
    made from the plan. weighting: held-out rows by which peers weight what they receive.

    In the view `difference` every two entries are the sum of some parties and the sum of all but
    one of them, another one each time: of the same model and the same round, each with noise of its
    own; training goes on from the first. With `new_row` the second sum is of the same people, one
    of whom has one row fewer. Masked devices do not answer twice: then the second sum is of the
    next round and its model.

    Raises InputError for a plan that makes no sense, and for a view that the algorithm does not
    have.
    """
    plan = replace(plan, view=plan.view or "individual")
    check_scene(plan)
    check_parties(plan, data)
    made: Any = algorithm or algorithm_of(plan.algorithm, plan.settings, plan.profile)
    # Asked for parties, the onlooker sees rounds of just as many.
    if not as_it_is(plan):
        made = with_cohort(made, plan.in_a_round)
    protection = protection_of(plan.profile, plan.protect, declared(made).traits)
    refuse_of_networks(protection)
    if is_gossip(made):
        return _between_peers(made, data, plan, weighting, progress)
    if not is_federated(made) or plan.view == "neighbour":
        raise InputError(
            "--view",
            f"{short(plan.algorithm)} has no view '{plan.view}'",
            expected="a view of what trains in this way",
        )
    return _around_server(made, data, plan, protection, progress)


# ---- rounds around a server ----------------------------------------------------------------------


def _around_server(
    made: FederatedAlgorithm,
    data: Interactions,
    plan: AuditPlan,
    protection: Protection,
    progress: Progress,
) -> Transcript:
    masked = protection.secure_sum
    if plan.new_row and masked:
        raise InputError(
            "--new-row",
            "devices whose messages are masked answer a model once",
            expected="a protection without secure_sum",
            fix="--protect secure_sum=false",
        )
    configured = made.configured(data.catalogue)
    contract = bound(configured, data.catalogue)
    if plan.view == "model":
        # A final model is that of a training to its end.
        usual = configured.default_rounds(data.catalogue)
    elif plan.view == "sum":
        usual = _sums_kept(configured, contract, data)
    else:
        usual = USUAL_ROUNDS[plan.view or "individual"]
    rounds = plan.rounds or usual
    # A budget of epsilon becomes a number here: rounds need the noise itself.
    protection = with_noise(protection, made, data, rounds)
    parties = parties_of(made, data, plan, protection)
    watched = watched_of(contract, data, plan, rounds)
    recorder = None
    if plan.view != "model":
        recorder = Recorder("individual" if plan.view == "individual" else "sum", watched)
    federation = partial(
        Rounds,
        configured,
        seed=plan.seed,
        executor=Threads(plan.threads),
        protection=protection,
        recorder=recorder,
    )
    whole = federation(data, cohorts=parties)
    less_one = None
    changed: list[int] = []
    if recorder is not None and plan.view == "difference":
        # Masked devices answer a model once, so their second sum is of the next round. Others are
        # the users that were seen last: draws of the operating system cannot be repeated.
        again = parties if masked else lambda number, selected: recorder.rounds[-1].users
        left = again if plan.new_row else but_one(again, plan.people)
        less_one = federation(data, cohorts=left, again=not masked)
    training = whole.start()
    for number in range(rounds):
        progress(number, rounds, "round")
        if recorder is None:
            training = whole.advance(training, number + 1)
            continue
        # The second sum of a pair starts where the first one started, on a copy of the devices.
        before = _copied(training) if less_one is not None else training
        training = whole.one_round(training)
        if training.ledger.unopened > before.ledger.unopened:
            # Without a sum there is no second one.
            continue
        if plan.new_row:
            # The device of one person has a row fewer than it had in the first sum.
            changed.append(fresh_row(data, recorder.rounds[-1].users, number))
            fewer = without(data, changed[-1:])
            less_one = federation(fewer, cohorts=left, again=True)
        if less_one is not None and masked:
            training = less_one.one_round(training)
        elif less_one is not None:
            less_one.one_round(before)
    progress(rounds, rounds, "round")
    # Only draws that nobody else makes have the sampling's effect on epsilon.
    by_chance = parties is None and protection.sampling == "poisson"
    about = about_of(plan, made, data, protection) | {
        "cohort": taking_part(plan, data),
        "watched": None if watched is None else len(watched),
        "rate": whole.protected.rate if by_chance else 1.0,
    }
    known: Mapping[str, Array] = known_share(data, _share(plan))
    if plan.view == "individual":
        # What an onlooker may know of public sets of items, which no message tells.
        known = {**known, **target_sets(data)}
    elif plan.view == "model":
        known = {**arrays_of(configured.download(training.server)), **known}
    elif plan.new_row:
        known = histories_of("known", without(data, changed), np.arange(len(data.users)))
        known["changed/user"] = data.user[changed].astype(np.int64)
    seen = () if recorder is None else tuple(recorder.rounds)
    return Transcript(about, data.popularity, seen, known)


def _sums_kept(configured: FederatedAlgorithm, contract: Contract, data: Interactions) -> int:
    """The rounds of sums that are watched: the whole training, or as many as `KEPT_BYTES` hold."""
    whole = configured.default_rounds(data.catalogue)
    numbers = 0
    for sent in contract.sends:
        # Rows are summed item by item.
        size = math.prod(contract.shape(sent.sizes))
        numbers += size * len(data.items) if sent.way == "rows" else size
    # A number of a sum has 8 bytes, and one that devices received, about as many, 4.
    fit = KEPT_BYTES // max(1, 12 * numbers)
    return min(whole, max(LEAST_SUMS, fit))


def _share(plan: AuditPlan) -> float:
    """The share of every history that the onlooker knows beforehand."""
    if plan.view == "model" and not plan.knows:
        return SHARE
    return plan.knows


def with_noise(
    protection: Protection, made: Any, data: Interactions, rounds: int = 0
) -> Protection:
    """Returns a protection with an epsilon as one with the noise that this epsilon needs, for a
    training to the end or of `rounds` if these are more.
    """
    if protection.epsilon is None:
        return protection
    to_the_end = made.configured(data.catalogue).default_rounds(data.catalogue)
    return budgeted(protection, made, data.catalogue, max(rounds, to_the_end), None)[0]


def released(
    plan: AuditPlan,
    made: Any,
    data: Interactions,
    model: Mapping[str, Array],
    protection: Protection,
) -> Transcript:
    """Returns the transcript of anybody who has the final model of a training that is over.

    made: the algorithm as trained. model: the arrays that devices download. protection: in force.
    """
    # Of the options of the audit, the final model depends on these alone.
    final = AuditPlan(
        algorithm=plan.algorithm, profile=plan.profile, view="model", knows=plan.knows
    )
    about = about_of(final, made, data, protection) | {"cohort": 0, "watched": None}
    return Transcript(about, data.popularity, (), {**model, **known_share(data, _share(final))})


def _copied(training: Training) -> Training:
    """A state of training whose devices another training does not overwrite."""
    copies = (array.copy() for array in training.devices)
    return training._replace(devices=type(training.devices)(*copies))


def about_of(
    plan: AuditPlan, made: Any, data: Interactions, protection: Protection
) -> dict[str, Any]:
    """Returns the public facts of a federation, and the behaviour of the onlooker."""
    configured = made.configured(data.catalogue)
    contract = bound(configured, data.catalogue)
    plain = str | int | float | None
    return {
        "algorithm": short(plan.algorithm),
        "kind": contract.name,
        "settings": {
            name: value if isinstance(value, plain) else str(value) for name, value in configured
        },
        "view": plan.view,
        "profile": plan.profile,
        "protect": protection.model_dump(),
        "users": len(data.users),
        "items": len(data.items),
        "interactions": len(data),
        "scale": list(data.rating_scale),
        "step": STEP,
        "sends": [
            {
                "way": sent.way,
                "name": sent.name,
                "shape": list(contract.shape(sent.sizes)),
                "usual": sent.usual,
            }
            for sent in contract.sends
        ],
        "people": plan.people,
        "new_row": plan.new_row,
    }


# ---- peers ---------------------------------------------------------------------------------------


def _between_peers(
    made: Any, data: Interactions, plan: AuditPlan, weighting: Held | None, progress: Progress
) -> Transcript:
    """Records all that reaches some peers."""
    if plan.view != "neighbour":
        raise InputError(
            "--view",
            f"{short(plan.algorithm)} has no server, and no view '{plan.view}'",
            expected="neighbour: what a peer sees of those that push to it",
        )
    rounds = plan.rounds or 1
    configured = made.configured(data.catalogue)
    contract = bound(configured, data.catalogue)
    # Bytes that reach one peer in all rounds: a push to each of the peers in a view.
    reaching = contract.message_bytes * rounds * contract.sizes.get("view", 3)
    most = plan.watched or max(1, int(KEPT_BYTES / reaching))
    recorder = NeighbourRecorder(drawn(key(plan.seed, "audit", "watched"), most, len(data.users)))
    gossip = Gossip(
        made,
        data,
        seed=plan.seed,
        network=Network.read(plan.network),
        weighting=weighting,
        executor=Threads(plan.threads),
        recorder=recorder,
    )
    swarm = gossip.start()
    for number in range(rounds):
        progress(number, rounds, "round")
        swarm = gossip.advance(swarm, number + 1)
    progress(rounds, rounds, "round")
    # The protection of peers is in the settings of their algorithm.
    about = about_of(plan, made, data, Protection()) | {
        "cohort": len(data.users),
        "watched": len(recorder.peers),
        "neighbours": recorder.peers.tolist(),
    }
    known = known_share(data, plan.knows) | target_sets(data)
    return Transcript(about, data.popularity, tuple(recorder.rounds), known)
