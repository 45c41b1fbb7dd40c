"""Recommenders that training ends with, central, federated or between peers, and their state as
named arrays that can be stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, final

import numpy as np

from ..core.contract.declared import (
    Contract,
    bound,
    declared,
    is_central,
    is_federated,
    is_gossip,
    scores_of,
)
from ..core.contract.gossip import DeviceData, GossipAlgorithm
from ..core.contract.protocols import (
    CentralAlgorithm,
    FederatedAlgorithm,
    Histories,
    Scorer,
    State,
    arrays_of,
    state_of,
)
from ..core.errors import EntrenousError, InputError, NonFiniteError
from ..core.keys import key
from ..core.types import Array, Float32Array, Int64Array
from ..data.interactions import Interactions, Vocabulary
from ..data.split.types import Split
from ..evaluation.protocol import Evaluation, evaluate
from ..federation.crew import SharedRounds
from ..federation.gossip import Gossip, device_data
from ..federation.rounds import Rounds, Training
from ..federation.shard import Ledger
from ..federation.swarm import Swarm

# An algorithm that is trained in rounds, on devices; a simulation that trains it; and the state of
# that simulation.
Trained = FederatedAlgorithm | GossipAlgorithm
Federation = Rounds | SharedRounds | Gossip
Standing = Training | Swarm
Algorithm = Trained | CentralAlgorithm

NOTHING_SPENT: Mapping[str, Any] = MappingProxyType({})


class Biases(NamedTuple):
    """Parts of predicted ratings that no taste explains."""

    user: Float32Array
    """float32 [m], with any constant."""
    item: Float32Array
    """float32 [items]."""


@final
@dataclass(frozen=True, eq=False)
class FederatedRecommender:
    """A federation's recommender, which scores every user on their own device: the downloaded
    model, their private state, their own history."""

    algorithm: FederatedAlgorithm
    download: State
    devices: State
    data: Interactions
    seed: int = 0
    """That of the run, which names the draws of scoring."""

    @property
    def knows(self) -> Vocabulary:
        """The users whom it scores by their numbers."""
        return self.data.users

    @property
    def contract(self) -> Contract:
        """The algorithm's declaration with the sizes of the federation of these users."""
        return bound(self.algorithm, self.data.catalogue)

    def scores(self, users: Int64Array) -> Float32Array:
        """Scores of every item for some users, float32 [len(users), items]."""
        received, private, histories = self._on_devices(users)
        draws = key(self.seed, "score")
        return scores_of(self.algorithm, received, private, histories, users, draws)

    def biases(self, users: Int64Array) -> Biases | None:
        """Biases of the users and of the items in predicted ratings; None if the algorithm does not
        tell them apart.
        """
        biases = declared(self.algorithm).biases
        if biases is None:
            return None
        return Biases(*biases(*self._on_devices(users)))

    def _on_devices(self, users: Int64Array) -> tuple[State, State, Histories]:
        """The received state, the private state and the histories of the devices of `users`."""
        received = self.contract.delivered(self.download, users)
        private = type(self.devices)(*(array[users] for array in self.devices))
        return received, private, self.data.histories(users)


@final
@dataclass(frozen=True, eq=False)
class GossipRecommender:
    """A gossip algorithm's recommender, which scores every user on their own node, by the node's
    own model.
    """

    algorithm: GossipAlgorithm
    models: Float32Array
    """float32 [n, width]."""
    nodes: State
    private: DeviceData
    """The training rows of each node. A node that trains before it scores draws its negatives from
    the other items, as devices of a `FederatedRecommender` do."""
    knows: Vocabulary
    """The users whom it scores by their numbers."""

    def scores(self, users: Int64Array) -> Float32Array:
        """Scores of every item for some users, float32 [len(users), items]."""
        return self.algorithm.score(self.models, users, self.nodes, users, self.private)

    def biases(self, users: Int64Array) -> None:
        """Biases in predicted ratings: None, since no gossip algorithm predicts ratings."""


@final
@dataclass(frozen=True, eq=False)
class CentralRecommender:
    """The recommender of a centralised model. It scores users of its training data."""

    algorithm: CentralAlgorithm
    model: State
    data: Interactions

    @property
    def knows(self) -> Vocabulary:
        """The users whom it scores by their numbers."""
        return self.data.users

    def scores(self, users: Int64Array) -> Float32Array:
        """Scores of every item for some users, float32 [len(users), items]."""
        return self.algorithm.score(self.model, self.data, users)

    def biases(self, users: Int64Array) -> Biases | None:
        """Biases of the users and of the items in predicted ratings; None if the algorithm does not
        tell them apart.
        """
        biases = declared(self.algorithm).biases
        if biases is None:
            return None
        return Biases(*biases(self.model, self.data, users))


class Fitted(NamedTuple):
    """A trained algorithm: its recommender, its stored state and its costs."""

    recommender: FederatedRecommender | GossipRecommender | CentralRecommender
    arrays: dict[str, Array]
    """Its state by name (`server.q`, `devices.p`, `model.popularity`), enough to restore it."""
    rounds: int
    """The rounds of its training, 0 of a centralised algorithm."""
    ledger: Ledger
    privacy: Mapping[str, Any] = NOTHING_SPENT
    """The spent differential privacy, from `PrivacyBudget.told`; empty without a budget."""


def fitted(rounds: Federation, training: Standing) -> Fitted:
    """The recommender of a federation in its present state."""
    if isinstance(rounds, Gossip):
        assert isinstance(training, Swarm)
        return _of_nodes(rounds, training)
    assert isinstance(training, Training)
    arrays = {**_prefixed("server", training.server), **_prefixed("devices", training.devices)}
    _check_finite(arrays)
    # Devices score with the model as they receive it, not as the server holds it.
    download = rounds.algorithm.download(training.server)
    recommender = FederatedRecommender(
        rounds.algorithm, download, training.devices, rounds.data, rounds.seed
    )
    privacy = NOTHING_SPENT
    if rounds.budget is not None:
        # The clip is part of the state where it moves with the data (`clip_quantile`).
        moved = {"clip": training.clip} if training.clip else {}
        privacy = {**rounds.budget.told(), **moved}
    return Fitted(recommender, arrays, training.round, training.ledger, privacy)


def _of_nodes(gossip: Gossip, swarm: Swarm) -> Fitted:
    arrays = {"nodes.models": swarm.compact(), **_prefixed("nodes", swarm.nodes)}
    _check_finite(arrays)
    recommender = GossipRecommender(
        gossip.algorithm,
        arrays["nodes.models"],
        swarm.nodes,
        device_data(gossip.data, None),
        gossip.data.users,
    )
    return Fitted(recommender, arrays, swarm.round, swarm.ledger)


def fitted_central(algorithm: CentralAlgorithm, model: State, data: Interactions) -> Fitted:
    """The recommender of a centralised model that was trained on `data`. Raises NonFiniteError for
    one that diverged.
    """
    arrays = _prefixed("model", model)
    _check_finite(arrays)
    return Fitted(CentralRecommender(algorithm, model, data), arrays, 0, Ledger())


def _check_finite(arrays: Mapping[str, Array]) -> None:
    for name, array in arrays.items():
        if array.dtype.kind != "f":
            continue
        # In parts of some 64 MB: `isfinite` makes an array as long as its argument.
        count = 1 + array.nbytes // (1 << 26)
        parts = np.array_split(array.reshape(-1), count)
        if not all(np.isfinite(part).all() for part in parts):
            raise NonFiniteError(
                f"training diverged: '{name}' is no longer finite; lower the learning rate (--set"
                " learning_rate=...)"
            )


# ---- states as named arrays, and back ------------------------------------------------------------


def restore(
    algorithm: Algorithm, arrays: Mapping[str, Array], data: Interactions, seed: int = 0
) -> FederatedRecommender | GossipRecommender | CentralRecommender:
    """The recommender whose `arrays` were stored. seed: that of the run. Raises EntrenousError if
    they are not this algorithm's.
    """
    if is_gossip(algorithm):
        configured = algorithm.configured(data.catalogue)
        nodes = restore_state(configured, "keeps", "nodes", arrays)
        private = device_data(data, None)
        return GossipRecommender(configured, arrays["nodes.models"], nodes, private, data.users)
    if is_federated(algorithm):
        concrete = algorithm.configured(data.catalogue)
        server = restore_state(concrete, "holds", "server", arrays)
        devices = restore_state(concrete, "keeps", "devices", arrays)
        return FederatedRecommender(concrete, concrete.download(server), devices, data, seed)
    return CentralRecommender(algorithm, restore_state(algorithm, "holds", "model", arrays), data)


def restore_training(rounds: Federation, number: int, arrays: Mapping[str, Array]) -> Standing:
    """The state of training that `checkpoint_arrays` described."""
    if isinstance(rounds, Gossip):
        return rounds.restored(number, dict(arrays))
    server = restore_state(rounds.algorithm, "holds", "server", arrays)
    devices = restore_state(rounds.algorithm, "keeps", "devices", arrays)
    releases = 0
    if "releases" in arrays:
        releases = int(arrays["releases"][0])
    clip = 0.0
    if "clip" in arrays:
        clip = float(arrays["clip"][0])
    if rounds.budget is not None:
        # A sum that was released before an interruption is spent, though its round is repeated.
        rounds.budget.spent_before(releases)
    ledger = Ledger(*(int(count) for count in arrays["ledger"]))
    return Training(server, devices, number, ledger, releases, clip)


def checkpoint_arrays(training: Standing) -> dict[str, Array]:
    """Named arrays of a state of training, all of it but its round number."""
    if isinstance(training, Swarm):
        return training.arrays()
    arrays = {**_prefixed("server", training.server), **_prefixed("devices", training.devices)}
    arrays["ledger"] = np.array(training.ledger, np.int64)
    # Only a training under differential privacy has released sums and a clip that moves.
    if training.releases:
        arrays["releases"] = np.array([training.releases])
    if training.clip:
        arrays["clip"] = np.array([training.clip])
    return arrays


def restore_state(
    algorithm: Algorithm, part: Literal["holds", "keeps"], prefix: str, arrays: Mapping[str, Array]
) -> State:
    """The state of the class that an algorithm declares as `part`, from its stored arrays
    `prefix.NAME`.

    Raises EntrenousError where one is missing.
    """
    declaration = declared(algorithm)
    kind: Any = declaration.holds if part == "holds" else declaration.keeps
    try:
        return state_of(kind, without_prefix(prefix, arrays))
    except KeyError as missing:
        raise EntrenousError(
            f"stored model: array {missing} is missing; it was not written by this algorithm"
        ) from None


def _prefixed(prefix: str, state: State) -> dict[str, Array]:
    return {f"{prefix}.{name}": array for name, array in arrays_of(state).items()}


def without_prefix(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays that are stored as `prefix.NAME`, by their names."""
    begin = f"{prefix}."
    return {
        name.removeprefix(begin): array for name, array in arrays.items() if name.startswith(begin)
    }


def federated(algorithm: Algorithm) -> bool:
    """Returns True for an algorithm that trains in rounds of devices, with a server or without."""
    return not is_central(algorithm)


def check_trainable(data: Interactions) -> None:
    """Raises InputError for data on which nothing can be learnt."""
    if not len(data):
        raise InputError(
            data.name,
            "no training rows",
            expected="at least one row",
            fix="check the filters and the protocol",
        )
    # Federated learning of one user is local training.
    if len(data.users) < 2:
        raise InputError(
            data.name,
            "a single user",
            expected="at least two users",
            fix="there is nobody to learn from",
        )


def tested(recommender: Scorer, split: Split, *, label: str, seed: int = 0) -> Evaluation:
    """Evaluates a recommender that was trained on the final training rows of a split, as `entrenous
    run` does: for experiments that change the training and not the evaluation. label: for errors.
    """
    return evaluate(
        recommender,
        split.final_train,
        split.test,
        label=label,
        n=10,
        seed=seed,
        also_mask=split.left_out,
    )
