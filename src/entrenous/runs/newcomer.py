"""Recommendations for people who were not in training: the device of each learns its private state
from the trained model, and sends nothing; a centralised model takes their rows as it took others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from ..core.contract.declared import (
    bound,
    declared,
    folds_in,
    followed,
    is_central,
    is_federated,
    is_gossip,
    read_only,
    scores_of,
)
from ..core.contract.protocols import FederatedAlgorithm, Scorer, State, arrays_of
from ..core.contract.update import Update
from ..core.errors import InputError, NonFiniteError
from ..core.keys import fold_name, key
from ..core.types import Float32Array, Int32Array, Int64Array
from ..data.interactions import Interactions, Vocabulary, build
from .recommenders import CentralRecommender, FederatedRecommender

# The most rounds of a newcomer's own training.
MOST = 200
RECOMMEND_FOR = "recommend_for"


def scores_for(
    recommender: Any, train: Interactions, items: Int32Array, manifest: Mapping[str, Any], name: str
) -> Float32Array:
    """Scores of every item, float32 [items], for somebody who was not in training.

    items: int32 ascending, the items that they have. Their device trains as often as a device did
    on average, with the number after the last user's. Raises InputError as `refuse_newcomers` does.
    """
    refuse_newcomers(recommender.algorithm, name)
    if not len(items):
        raise InputError(
            RECOMMEND_FOR, "there are no items", expected="at least one item that the person has"
        )
    rounds = manifest["rounds"]
    person = _one_person(train, items)
    newcomers = among_newcomers(recommender, person, rounds=rounds, seed=manifest["seed"])
    scores = np.ascontiguousarray(newcomers.scores(np.array([0]))[0], np.float32)
    if not np.isfinite(scores).all():
        raise NonFiniteError(
            f"{name}: a score for these items is NaN or infinite; nothing was ranked"
        )
    return scores


def among_newcomers(recommender: Any, given: Interactions, *, rounds: int, seed: int) -> Scorer:
    """The scorer of the users of `given`, none of whom was in training."""
    algorithm = recommender.algorithm
    if isinstance(recommender, CentralRecommender):
        folded = recommender.algorithm.fold_in(recommender.model, given)  # type: ignore[attr-defined]
        return CentralRecommender(algorithm, folded, given)
    return Newcomers(recommender, given, _rounds(recommender, rounds), seed)


def refuse_newcomers(algorithm: Any, name: str) -> None:
    """Raises InputError for an algorithm that needs its users in training (`_reason`)."""
    reason = _reason(algorithm)
    if not reason:
        return
    raise InputError(
        RECOMMEND_FOR,
        f"{name} can recommend to nobody but the users it was trained with: {reason}",
        expected="an algorithm whose devices learn on their own",
        fix="train again with this user's rows, or use an algorithm such as fpl or fcf",
    )


def _reason(algorithm: Any) -> str:
    """Why an algorithm cannot fit a newcomer; "" if it can."""
    if is_gossip(algorithm):
        return "a peer has the models that others pushed to it, and a newcomer has received none"
    if is_central(algorithm) and folds_in(algorithm):
        return ""
    if not is_federated(algorithm):
        return "it was fitted to the rows of all of them together"
    declaration = declared(algorithm)
    if declaration.deliver is not None and declaration.deliver_newcomer is None:
        return "its server makes a part of each user's model, which no device can make"
    if _chosen(algorithm):
        return "each of them chose a setting"
    return ""


@final
@dataclass(frozen=True, eq=False)
class Newcomers:
    """A federation's recommender for people who were not in training."""

    recommender: FederatedRecommender
    given: Interactions
    """Their rows. Their numbers follow the last user's, so that nobody's randomness is theirs
    too."""
    rounds: int
    """The rounds of their own training."""
    seed: int

    def scores(self, users: Int64Array) -> Float32Array:
        """Scores of every item, float32 [len(users), items]."""
        if declared(self.recommender.algorithm).deliver_newcomer is None:
            return self._fitted(users)
        # What is made for one device goes to that device alone.
        each = [self._fitted(users[at : at + 1]) for at in range(len(users))]
        items = len(self.given.items)
        return np.concatenate([np.empty((0, items), np.float32), *each])

    def _fitted(self, users: Int64Array) -> Float32Array:
        """The scores of some new devices after their training, float32 [len(users), items]."""
        algorithm = self.recommender.algorithm
        deliver = declared(algorithm).deliver_newcomer
        histories = self.given.histories(users)
        numbers = users + len(self.recommender.data.users)
        newcomer = key(self.seed, "newcomer")
        devices = algorithm.init_devices(numbers, self.recommender.data.catalogue, newcomer)
        told: Update | None = None

        def received() -> State:
            if deliver is None:
                return read_only(self.recommender.download)
            own = fold_name(newcomer, "delivered")
            return read_only(deliver(self.recommender.download, told, own))

        # A device that keeps nothing, and is sent nothing of its own, has nothing to learn before.
        lasting = arrays_of(devices) or deliver
        for number in range(self.rounds if lasting else 0):
            # The Update of each round stays here: nothing is sent.
            draws = fold_name(newcomer, number)
            model = followed(algorithm, received())
            devices, told = algorithm.local(model, devices, histories, numbers, draws)
        drawn = fold_name(newcomer, "score")
        return scores_of(algorithm, received(), devices, histories, numbers, drawn)


def _rounds(recommender: FederatedRecommender, rounds: int) -> int:
    """The number of rounds in which a device trained on average."""
    catalogue = recommender.data.catalogue
    algorithm: FederatedAlgorithm = recommender.algorithm
    share = bound(algorithm, catalogue).cohort / catalogue.users
    # A device that was in every round of a long training would train for too long here.
    return int(np.clip(round(rounds * share), 1, MOST))


def _chosen(algorithm: Any) -> bool:
    """Returns True where users have chosen a setting one by one, as with pi=@file."""
    settings = dict(algorithm)
    return any(
        not isinstance(settings[name], int | float | str)
        for name in declared(algorithm).traits.decided_by_user
    )


def _one_person(train: Interactions, items: Int32Array) -> Interactions:
    """The rows of one person with these items, at the highest rating."""
    return build(
        np.zeros(len(items), np.int64),
        items,
        value=np.full(len(items), train.rating_scale[1], np.float32),
        users=Vocabulary(size=1, kind="user"),
        items=train.items,
        features=train.features,
        scale=train.rating_scale,
    )
