"""Where a federation stands by its server's folder, and what its next round asks of whom: the same for a server and for its workers."""

from __future__ import annotations

import numpy as np

from ..core.declared import Contract
from ..core.keys import key, select_key
from ..core.protocols import FederatedAlgorithm, State
from ..federation.ledger import Ledger
from .request import RoundWork, announced_of
from .server_folder import ServerFolder


def standing(folder: ServerFolder, algorithm: FederatedAlgorithm) -> tuple[int, State, Ledger]:
    """The rounds that are done, the server's state after them, and what was sent. Raises InputError for checkpoints none of which is
    whole."""
    found = folder.newest(algorithm)
    terms = folder.terms
    return found or (0, algorithm.init_server(terms.catalogue, key(terms.seed, "server")), Ledger())


def round_work(folder: ServerFolder, algorithm: FederatedAlgorithm, contract: Contract, number: int, state: State) -> RoundWork:
    """What round `number` asks: the users that the algorithm selects, by their nodes, and its download."""
    terms = folder.terms
    chosen = np.uint64(select_key(key(terms.seed, "rounds"), number))
    users, download = algorithm.select(state, terms.catalogue, chosen), algorithm.download(state)
    return RoundWork(number, announced_of(contract, download), folder.members.by_node(users), download)


def model_work(folder: ServerFolder, algorithm: FederatedAlgorithm, number: int, state: State) -> RoundWork:
    """The model after `number` rounds, for all users of all nodes."""
    everyone = {name: member.users for name, member in folder.members.nodes.items()}
    return RoundWork(number, b"", everyone, algorithm.download(state))
