"""Recommendations for somebody who was not in training: their device learns its private state from
the trained model, and sends nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.contract.declared import bound, declared, is_federated, read_only
from ..core.contract.protocols import FederatedAlgorithm, Histories
from ..core.errors import InputError, NonFiniteError
from ..core.keys import fold_name, key
from ..core.types import Float32Array, Int32Array
from ..data.interactions import Interactions

# The most rounds of a newcomer's own training.
MOST = 200


def scores_for(
    recommender: Any, train: Interactions, items: Int32Array, manifest: Mapping[str, Any], name: str
) -> Float32Array:
    """Scores of every item, float32 [items], for somebody who was not in training.

    items: int32 ascending, the items that they have. Their device trains as often as a device did
    on average, with the number after the last user's. Raises InputError for an algorithm that needs
    its users in training: one without a server, one whose server keeps something of each user, and
    one in which each user has chosen a setting.
    """
    algorithm = recommender.algorithm
    # `deliver` sends each device something of its own, which a newcomer has not got.
    if not is_federated(algorithm) or declared(algorithm).deliver is not None or _chosen(algorithm):
        raise InputError(
            "recommend_for",
            f"{name} can recommend to nobody but the users it was trained with",
            expected="an algorithm whose devices learn on their own",
            fix="train again with this user's rows, or use an algorithm such as fpl or fcf",
        )
    if not len(items):
        raise InputError(
            "recommend_for", "there are no items", expected="at least one item that the person has"
        )
    histories = _history(train, items)
    # The newcomer's number follows the last user's, so that nobody's randomness is theirs too.
    users = np.array([len(train.users)])
    download = read_only(recommender.download)
    newcomer = key(manifest["seed"], "newcomer")
    devices = algorithm.init_devices(users, newcomer)
    for number in range(_rounds(algorithm, train, manifest)):
        # The Update of each round is dropped: nothing is sent.
        devices, _ = algorithm.local(
            download, devices, histories, users, fold_name(newcomer, number)
        )
    scores = np.ascontiguousarray(algorithm.score(download, devices, histories)[0], np.float32)
    if not np.isfinite(scores).all():
        raise NonFiniteError(
            f"{name}: a score for these items is NaN or infinite; nothing was ranked"
        )
    return scores


def _rounds(algorithm: FederatedAlgorithm, train: Interactions, manifest: Mapping[str, Any]) -> int:
    """The number of rounds in which a device trained on average."""
    share = bound(algorithm, train.catalogue).cohort / len(train.users)
    # A device that was in every round of a long training would train for too long here.
    return int(np.clip(round(manifest["rounds"] * share), 1, MOST))


def _chosen(algorithm: Any) -> bool:
    """Returns True where users have chosen a setting one by one, as with pi=@file."""
    settings = dict(algorithm)
    return any(
        not isinstance(settings[name], int | float | str)
        for name in declared(algorithm).traits.decided_by_user
    )


def _history(train: Interactions, items: Int32Array) -> Histories:
    """One device with these items, at the highest rating."""
    ptr = np.array([0, len(items)])
    values = np.full(len(items), train.rating_scale[1], np.float32)
    return Histories(
        ptr, items, values, ptr, items, places=train.places, features=train.item_features
    )
