"""`observe`: what one onlooker of a federation sees, from a simulation of it: the transcript that attacks are given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..core.declared import Contract, bound, is_federated, is_gossip
from ..core.discover import kind_of
from ..core.errors import InputError, at_least, did_you_mean
from ..core.keys import key
from ..core.own import short
from ..core.protocols import FederatedAlgorithm, Progress, arrays_of, silent
from ..core.sampling import cohort as drawn
from ..core.types import Int64Array
from ..core.update import STEP
from ..data.interactions import Interactions
from ..federation.executors import Executor, Threads
from ..federation.gossip import Gossip
from ..federation.network import Network
from ..federation.recorder import NeighbourRecorder, Recorder
from ..federation.rounds import Rounds, Training
from ..federation.shard import Limit
from ..runs.recommenders import Trained
from .transcript import Transcript, View

VIEWS: tuple[View, ...] = ("individual", "sum", "difference", "neighbour", "model")
PARTIES = 100  # in a sum, unless said otherwise: as many as the profile `private` asks for
KEPT_BYTES = 1 << 29  # of what is sent in all rounds, unless it is said whom to watch


class Scene(NamedTuple):
    """What is observed, and how.

    rounds: how many; of gossip, units of time. cohort: parties in a round, 0 = everybody (in sums 100; for the final model, the algorithm's
    own number). fixed: the same parties in every round, instead of the algorithm's selection. people: users of each
    party, whom a gateway answers for; they take part together. watched: of how many users each message is kept (in the view `neighbour`:
    how many peers keep what reaches them), 0 = of as many as 512 MB hold. limits: what devices do to their updates before they leave.
    """

    view: View = "individual"
    rounds: int = 1
    seed: int = 0
    cohort: int = 0
    fixed: bool = False
    people: int = 1
    watched: int = 0
    limits: tuple[Limit, ...] = ()


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
    limits: Sequence[Limit] = (),
    network: Network | None = None,
    executor: Executor | None = None,
    progress: Progress = silent,
) -> Transcript:
    """The transcript of a training of `algorithm` on the rows of `data`, as one onlooker sees it: it holds what the wire holds, no more.

    algorithm: a name with `settings`, or an algorithm. rounds: 0 = 1 round (`model`: the algorithm's own number; `sum`: 20; `difference`:
    30). The others as in `Scene`; network: of gossip. In the view `difference` every round is two entries with the same model and the same
    number: the sum of all parties, and that of all but one, another one in each round; training goes on from the first.
    Raises InputError for a view that this algorithm does not have.
    """
    scene = Scene(view, rounds, seed, cohort, fixed, people, watched, tuple(limits))
    check_scene(scene, data)
    made, name = _made(algorithm, settings or {}, scene)
    executor = executor or Threads(1)
    if is_gossip(made):
        return _gossip(made, name, data, scene, network, executor, progress)
    if not is_federated(made) or view == "neighbour":
        raise InputError("--view", f"{name} has no view '{view}'", expected="a view of what trains in this way")
    return _federated(made, name, data, scene, executor, progress)


def check_scene(scene: Scene, data: Interactions) -> None:
    """Refuses numbers that make no sense, and a view that there is not."""
    if scene.view not in VIEWS:
        raise InputError(
            "--view", f"unknown view '{scene.view}'", expected=" or ".join(VIEWS), fix=did_you_mean(scene.view, VIEWS)
        )
    for name, least in (("rounds", 0), ("seed", 0), ("cohort", 0), ("people", 1), ("watched", 0)):
        at_least(f"--{name}", getattr(scene, name), least)
    if scene.cohort * scene.people > len(data.users):
        problem = f"{scene.cohort} parties of {scene.people}" if scene.people > 1 else f"got {scene.cohort}"
        raise InputError("--cohort", problem, expected=f"at most {len(data.users)} users, those of {data.name}")


def _made(algorithm: Any, settings: Mapping[str, Any], scene: Scene) -> tuple[Any, str]:
    """The algorithm with its settings, the cohort of the scene among them, and its name."""
    if not isinstance(algorithm, str):
        made, name = algorithm, type(algorithm).__name__.lower()
    else:
        kind, preset = kind_of(algorithm)
        made, name = kind.parse({**preset, **settings}), short(algorithm)
    if "cohort" not in dict(made) or (scene.view == "model" and not scene.cohort):
        return made, name
    return made.model_copy(update={"cohort": _taking_part(scene, 0)}), name


def _taking_part(scene: Scene, users: int) -> int:
    """How many users take part in a round; `users` for everybody."""
    asked = scene.cohort or (PARTIES if scene.view in ("sum", "difference") else 0)
    return asked * scene.people or users


# ---- rounds around a server ------------------------------------------------------------------------------------------------------------


def _federated(
    made: FederatedAlgorithm, name: str, data: Interactions, scene: Scene, executor: Executor, progress: Progress
) -> Transcript:
    own = made.configured(data.catalogue)
    contract, until = bound(own, data.catalogue), scene.rounds or _rounds(own, data, scene)
    parties = _parties(made, data, scene)
    keep = _watched(contract, data, scene, until)
    recorder = None if scene.view == "model" else Recorder("individual" if scene.view == "individual" else "sum", keep)
    federation = partial(Rounds, made, data, seed=scene.seed, executor=executor, limits=scene.limits, recorder=recorder)
    rounds = federation(cohorts=parties)
    training = rounds.start()
    without = federation(cohorts=_but_one(parties, scene.people)) if scene.view == "difference" else None
    while training.round < until:
        progress(training.round, until, "round")
        before = _copied(training) if without is not None else training
        training = rounds.one_round(training) if recorder is not None else rounds.advance(training, training.round + 1)
        if without is not None:
            without.one_round(before)
    progress(until, until, "round")
    about = _about(name, own, contract, data, scene) | {
        "cohort": _taking_part(scene, len(data.users)),
        "watched": None if keep is None else len(keep),
    }
    model = arrays_of(own.download(training.server)) if scene.view == "model" else {}
    return Transcript(about, data.popularity, () if recorder is None else tuple(recorder.rounds), model)


def _rounds(own: Any, data: Interactions, scene: Scene) -> int:
    return {"sum": 20, "difference": 30, "model": own.default_rounds(data.catalogue)}.get(scene.view, 1)


def _parties(made: Any, data: Interactions, scene: Scene) -> Callable[[int, Int64Array], Int64Array] | None:
    """Who takes part in a round: parties that are always the same, or those that are drawn; None = whom the algorithm selects."""
    users, people, size = len(data.users), scene.people, min(_taking_part(scene, len(data.users)), len(data.users))
    if scene.fixed:
        same = _same(scene, size, users)
        return lambda number, own: same
    if people == 1 and ("cohort" in dict(made) or (scene.view == "model" and not scene.cohort)):
        return None

    def gateways(number: int, own: Int64Array) -> Int64Array:
        chosen = drawn(key(scene.seed, "audit", "gateways", number), size // people, users // people)
        return (chosen[:, None] * people + np.arange(people)).ravel()

    return gateways


def _same(scene: Scene, size: int, users: int) -> Int64Array:
    return drawn(key(scene.seed, "audit", "parties"), size, users)


def _but_one(parties: Callable[[int, Int64Array], Int64Array] | None, people: int) -> Callable[[int, Int64Array], Int64Array]:
    """The same, less one party: the next one in each round."""

    def rest(number: int, own: Int64Array) -> Int64Array:
        users = own if parties is None else parties(number, own)
        place = number % max(1, len(users) // people) * people
        return np.delete(users, slice(place, place + people))

    return rest


def _watched(contract: Contract, data: Interactions, scene: Scene, rounds: int) -> Int64Array | None:
    """Whose messages are kept in the view `individual`: None = everybody's."""
    if scene.view != "individual":
        return None
    users = len(data.users)
    size = min(_taking_part(scene, users), users)
    most = scene.watched or int(KEPT_BYTES / max(1.0, contract.block_bytes * rounds * size / users))
    if most >= users:
        return None
    among = _same(scene, size, users) if scene.fixed else np.arange(users)
    return among[drawn(key(scene.seed, "audit", "watched"), max(1, most), len(among))]


def _copied(training: Training) -> Training:
    """A state of training whose devices another training does not overwrite."""
    return training._replace(devices=type(training.devices)(*(array.copy() for array in training.devices)))


def _about(name: str, own: Any, contract: Contract, data: Interactions, scene: Scene) -> dict[str, Any]:
    """What is public of a federation, and what the onlooker does."""
    return {
        "algorithm": name,
        "kind": contract.name,
        "settings": {one: value if isinstance(value, str | int | float | None) else str(value) for one, value in own},
        "view": scene.view,
        "profile": "paper",
        "users": len(data.users),
        "items": len(data.items),
        "interactions": len(data),
        "scale": list(data.rating_scale),
        "step": STEP,
        "sends": [{"way": sent.way, "name": sent.name} for sent in contract.sends],
        "fixed": scene.fixed,
        "people": scene.people,
    }


# ---- peers -----------------------------------------------------------------------------------------------------------------------------


def _gossip(
    made: Any, name: str, data: Interactions, scene: Scene, network: Network | None, executor: Executor, progress: Progress
) -> Transcript:
    """All that reaches some peers."""
    if scene.view != "neighbour":
        problem = f"{name} has no server, and no view '{scene.view}'"
        raise InputError("--view", problem, expected="neighbour: what a peer sees of those that push to it")
    own, until = made.configured(data.catalogue), scene.rounds or 1
    contract = bound(own, data.catalogue)
    most = scene.watched or max(1, int(KEPT_BYTES / (contract.message_bytes * until * contract.sizes.get("view", 3))))
    recorder = NeighbourRecorder(drawn(key(scene.seed, "audit", "watched"), most, len(data.users)))
    gossip = Gossip(made, data, seed=scene.seed, network=network, executor=executor, recorder=recorder)
    swarm = gossip.start()
    for number in range(until):
        progress(number, until, "round")
        swarm = gossip.advance(swarm, number + 1)
    progress(until, until, "round")
    about = _about(name, own, contract, data, scene) | {"neighbours": recorder.peers.tolist()}
    return Transcript(about, data.popularity, tuple(recorder.rounds))
