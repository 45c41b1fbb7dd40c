"""`observe`: what one onlooker of a federation sees, from a simulation of it: the transcript that
attacks are given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ..core.contract.declared import Contract, bound, declared, is_federated, is_gossip
from ..core.contract.protocols import FederatedAlgorithm, Progress, arrays_of, silent
from ..core.contract.update import STEP
from ..core.errors import InputError
from ..core.keys import key
from ..core.registry.own import short
from ..core.types import Array, Int64Array
from ..data.interactions import Interactions
from ..data.split.types import Held
from ..federation.executors import Executor, Threads
from ..federation.gossip import Gossip
from ..federation.network import Network
from ..federation.recorder import NeighbourRecorder, Recorder
from ..federation.rounds import Rounds, Training
from ..kernels.sampling import cohort as drawn
from ..privacy.protection import PAPER, Protection, protection_of, refuse_groups
from ..runs.plan import algorithm_of
from ..runs.recommenders import Trained
from ..runs.train import budgeted
from .scene import (
    KEPT_BYTES,
    Scene,
    but_one,
    check_parties,
    check_scene,
    parties_of,
    taking_part,
    watched_of,
)
from .side_knowledge import known_half, target_sets
from .transcript import Transcript, View


def observe(
    algorithm: str | Trained,
    data: Interactions,
    *,
    view: View = "individual",
    rounds: int = 0,
    seed: int = 0,
    cohort: int = 0,
    fixed: bool = False,
    people: int = 1,
    watched: int = 0,
    settings: Mapping[str, Any] | None = None,
    profile: str = PAPER,
    protect: Mapping[str, Any] | None = None,
    public_draws: bool = False,
    replayed: bool = False,
    chosen: int = 0,
    network: Network | None = None,
    weighting: Held | None = None,
    executor: Executor | None = None,
    progress: Progress = silent,
) -> Transcript:
    """The transcript of a training of `algorithm` on the rows of `data`, as one onlooker sees it:
    it holds what the wire holds, no more.

    algorithm: a name with `settings`, or an algorithm. rounds: 0 = 1 round (`model`: the
    algorithm's own number; `sum`: 20; `difference`: 30). profile, protect: as of a run. The others
    as in `Scene`; network, weighting: of gossip, as in `Gossip`. In the view `difference` every two
    entries are the sum of some parties and that of all but one of them, another one each time: of
    the same model and the same round, each with noise of its own; training goes on from the first.
    Where sums are masked devices do not answer twice: then the second is of the next round and its
    model (`about["same_model"]` is false). Raises InputError for a view that this algorithm does
    not have.
    """
    scene = Scene(
        view,
        rounds,
        seed,
        cohort,
        fixed,
        people,
        watched,
        profile,
        public_draws=public_draws,
        replayed=replayed,
        chosen=chosen,
    )
    made, name = _made(algorithm, settings or {}, scene)
    return observed(
        made,
        name,
        data,
        scene,
        protect or {},
        network=network,
        weighting=weighting,
        executor=executor or Threads(1),
        progress=progress,
    )


def observed(
    made: Any,
    name: str,
    data: Interactions,
    scene: Scene,
    protect: Mapping[str, Any],
    *,
    network: Network | None = None,
    weighting: Held | None = None,
    executor: Executor,
    progress: Progress,
) -> Transcript:
    """The same for an algorithm with its settings and a scene, whose protection follows from its
    profile and `protect`.
    """
    check_scene(scene)
    check_parties(scene, data)
    made = _of_scene(made, scene)
    protection = protection_of(scene.profile, protect, declared(made).traits)
    refuse_groups(protection)
    scene = scene._replace(protection=protection)
    if is_gossip(made):
        federation = partial(
            Gossip,
            made,
            data,
            seed=scene.seed,
            network=network,
            weighting=weighting,
            executor=executor,
        )
        return _gossip(
            made, name, data, scene._replace(protection=Protection()), federation, progress
        )  # theirs is in `settings`
    if not is_federated(made) or scene.view == "neighbour":
        raise InputError(
            "--view",
            f"{name} has no view '{scene.view}'",
            expected="a view of what trains in this way",
        )
    return _federated(made, name, data, scene, executor, progress)


def _made(algorithm: Any, settings: Mapping[str, Any], scene: Scene) -> tuple[Any, str]:
    """The algorithm with its settings, and its name."""
    if isinstance(algorithm, str):
        return algorithm_of(algorithm, settings, scene.profile), short(algorithm)
    return algorithm, type(algorithm).__name__.lower()


def _of_scene(made: Any, scene: Scene) -> Any:
    """The algorithm with the cohort of the scene, if it has one."""
    if "cohort" not in dict(made) or (scene.view == "model" and not scene.cohort):
        return made
    return made.model_copy(update={"cohort": scene.in_a_round})


# ---- rounds around a server ----------------------------------------------------------------------


def _federated(
    made: FederatedAlgorithm,
    name: str,
    data: Interactions,
    scene: Scene,
    executor: Executor,
    progress: Progress,
) -> Transcript:
    if scene.replayed and scene.protection.secure_sum:
        expected = "a protection without secure_sum, or --view difference"
        raise InputError(
            "--replayed", "devices whose messages are masked answer a model once", expected=expected
        )
    own = made.configured(data.catalogue)
    contract, until = bound(own, data.catalogue), scene.rounds or _rounds(own, data, scene)
    scene = scene._replace(protection=as_trained(scene.protection, made, data, until))
    parties = parties_of(made, data, scene)
    keep = watched_of(contract, data, scene, until)
    recorder = (
        None
        if scene.view == "model"
        else Recorder("individual" if scene.view == "individual" else "sum", keep)
    )
    federation = partial(
        Rounds,
        made,
        data,
        seed=scene.seed,
        executor=executor,
        protection=scene.protection,
        recorder=recorder,
    )
    rounds = federation(cohorts=parties)
    twice = (
        scene.protection.secure_sum
    )  # devices whose messages are masked answer a model once: the second sum is of the next round
    others = parties if twice or recorder is None else partial(_as_before, recorder)
    without = federation(cohorts=but_one(others, scene.people), again=not twice)
    training = rounds.start()
    for number in range(until):
        progress(number, until, "round")
        before = _copied(training) if scene.view == "difference" else training
        model = training.server
        training = (
            rounds.one_round(training)
            if recorder is not None
            else rounds.advance(training, number + 1)
        )
        training = training._replace(server=model) if scene.replayed else training
        if scene.view == "difference" and scene.protection.secure_sum:
            training = without.one_round(training)
        elif scene.view == "difference":
            without.one_round(before)
    progress(until, until, "round")
    about = _about(name, own, contract, data, scene) | {
        "cohort": taking_part(scene, data),
        "watched": None if keep is None else len(keep),
        "rate": rounds.protected.rate
        if parties is None and scene.protection.sampling == "poisson"
        else 1.0,
    }
    known = target_sets(data) if scene.view == "individual" else {}
    known = (
        arrays_of(own.download(training.server)) | known_half(data)
        if scene.view == "model"
        else known
    )
    return Transcript(
        about, data.popularity, () if recorder is None else tuple(recorder.rounds), known
    )


def _as_before(recorder: Recorder, number: int, own: Int64Array) -> Int64Array:
    """Who took part in the sum that was seen last; a draw of the operating system cannot be asked
    for again.
    """
    return recorder.rounds[-1].users


def as_trained(
    protection: Protection, made: Any, data: Interactions, rounds: int = 0
) -> Protection:
    """A protection with the noise as a number that its epsilon needs, if it has one, for a training
    to the end or for more `rounds`.
    """
    if protection.epsilon is None:
        return protection
    whole = max(rounds, made.configured(data.catalogue).default_rounds(data.catalogue))
    return budgeted(protection, made, data.catalogue, whole, None)[0]


def released(
    name: str, made: Any, data: Interactions, model: Mapping[str, Array], scene: Scene
) -> Transcript:
    """The transcript of whoever has the final model of a training that is over. name, made: the
    algorithm; model: what devices download; scene: for the profile."""
    own = made.configured(data.catalogue)
    about = _about(name, own, bound(own, data.catalogue), data, scene._replace(view="model"))
    return Transcript(
        about | {"cohort": 0, "watched": None}, data.popularity, (), {**model, **known_half(data)}
    )


def _rounds(own: Any, data: Interactions, scene: Scene) -> int:
    return {"sum": 20, "difference": 30, "model": own.default_rounds(data.catalogue)}.get(
        scene.view, 1
    )


def _copied(training: Training) -> Training:
    """A state of training whose devices another training does not overwrite."""
    return training._replace(
        devices=type(training.devices)(*(array.copy() for array in training.devices))
    )


def _about(
    name: str, own: Any, contract: Contract, data: Interactions, scene: Scene
) -> dict[str, Any]:
    """What is public of a federation, and what the onlooker does."""
    return {
        "algorithm": name,
        "kind": contract.name,
        "settings": {
            one: value if isinstance(value, str | int | float | None) else str(value)
            for one, value in own
        },
        "view": scene.view,
        "profile": scene.profile,
        "protect": scene.protection.model_dump(),
        "same_model": not (scene.view == "difference" and scene.protection.secure_sum),
        "users": len(data.users),
        "items": len(data.items),
        "interactions": len(data),
        "scale": list(data.rating_scale),
        "step": STEP,
        "same_rows": contract.declaration.traits.same_rows,
        "sends": [
            {"way": sent.way, "name": sent.name, "shape": list(contract.shape(sent.sizes))}
            for sent in contract.sends
        ],
        "seed": scene.seed if scene.public_draws else None,
        "fixed": scene.fixed,
        "people": scene.people,
        "replayed": scene.replayed,
        "chosen": scene.chosen,
    }


# ---- peers ---------------------------------------------------------------------------------------


def _gossip(
    made: Any,
    name: str,
    data: Interactions,
    scene: Scene,
    federation: Callable[..., Gossip],
    progress: Progress,
) -> Transcript:
    """All that reaches some peers."""
    if scene.view != "neighbour":
        problem = f"{name} has no server, and no view '{scene.view}'"
        raise InputError(
            "--view", problem, expected="neighbour: what a peer sees of those that push to it"
        )
    own, until = made.configured(data.catalogue), scene.rounds or 1
    contract = bound(own, data.catalogue)
    most = scene.watched or max(
        1, int(KEPT_BYTES / (contract.message_bytes * until * contract.sizes.get("view", 3)))
    )
    recorder = NeighbourRecorder(drawn(key(scene.seed, "audit", "watched"), most, len(data.users)))
    gossip = federation(recorder=recorder)
    swarm = gossip.start()
    for number in range(until):
        progress(number, until, "round")
        swarm = gossip.advance(swarm, number + 1)
    progress(until, until, "round")
    about = _about(name, own, contract, data, scene) | {
        "cohort": len(data.users),
        "watched": len(recorder.peers),
        "neighbours": recorder.peers.tolist(),
    }
    return Transcript(about, data.popularity, tuple(recorder.rounds), target_sets(data))
