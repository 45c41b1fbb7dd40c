"""Where a federation stands by its server's folder, and what its next round asks of whom: the same for a server and for its workers."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ..core.declared import Contract
from ..core.keys import key, select_key
from ..core.protocols import FederatedAlgorithm, State, arrays_of
from ..core.types import Array
from ..federation.ledger import Ledger
from .members import Members
from .request import RoundWork, announced_of
from .server_folder import RoundCount, ServerFolder, ServerStanding
from .terms import FederationTerms


class Founded(Protocol):
    """What the parts of a federation have agreed on."""

    @property
    def terms(self) -> FederationTerms: ...
    @property
    def members(self) -> Members: ...


def standing(folder: ServerFolder, algorithm: FederatedAlgorithm) -> ServerStanding:
    """Where a federation stands. Raises InputError for checkpoints none of which is whole."""
    found = folder.newest(algorithm)
    if found is not None:
        return found
    terms = folder.terms
    return ServerStanding(0, algorithm.init_server(terms.catalogue, key(terms.seed, "server")), Ledger(), RoundCount())


def stored(state: State) -> dict[str, Array]:
    """A server's state as it is stored, arrays by name."""
    return {f"server.{name}": array for name, array in arrays_of(state).items()}


def round_work(folder: Founded, algorithm: FederatedAlgorithm, contract: Contract, number: int, state: State) -> RoundWork:
    """What round `number` asks: the users that the algorithm selects, by their nodes, and its download."""
    terms = folder.terms
    chosen = np.uint64(select_key(key(terms.seed, "rounds"), number))
    users, download = algorithm.select(state, terms.catalogue, chosen), algorithm.download(state)
    return RoundWork(number, announced_of(contract, download), folder.members.by_node(users), download)


def model_work(folder: Founded, algorithm: FederatedAlgorithm, number: int, state: State) -> RoundWork:
    """The model after `number` rounds, for all users of all nodes."""
    everyone = {name: member.users for name, member in folder.members.nodes.items()}
    return RoundWork(number, b"", everyone, algorithm.download(state))
