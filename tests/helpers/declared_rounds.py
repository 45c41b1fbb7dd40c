"""Rounds in which everything that devices receive, keep and send is held against what their algorithm declares."""

from __future__ import annotations

from typing import Any

from entrenous.core.declared import Contract, bound
from entrenous.core.enforce import check_kept, check_received, check_update
from entrenous.core.keys import key
from entrenous.data.interactions import Interactions
from entrenous.federation.rounds import Rounds


def declared_rounds(algorithm: Any, data: Interactions, rounds: int) -> Contract:
    """The contract of an algorithm, after that many rounds of it that were held against it. Raises ContractError for a breach."""
    algorithm = algorithm.configured(data.catalogue)
    contract, federation = bound(algorithm, data.catalogue), Rounds(algorithm, data, seed=5)
    training = federation.start()
    for number in range(rounds):
        users = algorithm.select(training.server, data.catalogue, key(5, "select", number))
        assert len(users) == contract.cohort
        received = contract.delivered(algorithm.download(training.server), users)
        before = type(training.devices)(*(array[users] for array in training.devices))
        check_received(contract, received, len(users))
        check_kept(contract, before, len(users))
        after, update = algorithm.local(received, before, data.histories(users), users, key(5, "round", number))
        check_update(contract, update, users, after, before)
        training = federation.one_round(training)
    return contract
