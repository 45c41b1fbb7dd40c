"""The standing of a federation by its server's folder, and the work of its next round: the same for
a server and for its workers.
"""

from __future__ import annotations

import numpy as np

from ...core.contract.declared import Contract
from ...core.contract.protocols import FederatedAlgorithm, State, arrays_of
from ...core.keys import key, select_key
from ...federation.shard import Ledger
from ..frames.request import RoundWork, announced_of
from .log_line import LogLine
from .server_folder import RoundCount, ServerFolder, ServerStanding


def standing(folder: ServerFolder, algorithm: FederatedAlgorithm) -> ServerStanding:
    """Returns the standing of a federation. Raises InputError if no checkpoint is whole."""
    return folder.newest(algorithm) or first_standing(folder, algorithm)


def first_standing(folder: ServerFolder, algorithm: FederatedAlgorithm) -> ServerStanding:
    """Returns the standing of a federation before its first round."""
    terms = folder.terms
    return ServerStanding(
        0, algorithm.init_server(terms.catalogue, key(terms.seed, "server")), Ledger(), RoundCount()
    )


def round_work(
    folder: ServerFolder,
    algorithm: FederatedAlgorithm,
    contract: Contract,
    number: int,
    state: State,
    drawn: int | None = None,
) -> RoundWork:
    """Returns the work of round `number`: the users that the algorithm selects, by their nodes, and
    the download. drawn: the number of its draw of users, None = the round's number."""
    terms = folder.terms
    chosen = np.uint64(select_key(key(terms.seed, "rounds"), number if drawn is None else drawn))
    users, download = algorithm.select(state, terms.catalogue, chosen), algorithm.download(state)
    model, asked = announced_of(contract, download), folder.members.by_node(users)
    return RoundWork(number, model, asked, download, state=state)


def model_work(
    folder: ServerFolder, algorithm: FederatedAlgorithm, number: int, state: State
) -> RoundWork:
    """The model after `number` rounds, for all users of all nodes."""
    everyone = {name: member.users for name, member in folder.members.nodes.items()}
    return RoundWork(number, b"", everyone, algorithm.download(state), state=state)


def moved_on(state: State, algorithm: FederatedAlgorithm, contract: Contract) -> State:
    """The state with one number moved to the next that there is, so that nodes are asked from
    another model.

    From a model that was summed before, nodes answer with the very numbers of then, and for the
    same parties only: to take some parties out, noise and all would be the same in both sums, and
    cancel. Where others are asked than before, as after a node was shut out, they are to draw anew,
    which is what they do for another model.
    """
    before = announced_of(contract, algorithm.download(state))
    arrays = arrays_of(state)
    for name, array in arrays.items():
        if array.dtype.kind != "f" or not array.size:
            continue
        other = array.copy()
        other.flat[0] = np.nextafter(other.flat[0], other.dtype.type(np.inf))
        found = type(state)(**{**arrays, name: other})
        if announced_of(contract, algorithm.download(found)) != before:
            return found
    return state


def enough(
    folder: ServerFolder, work: RoundWork, answered: set[str], devices: int | None = None
) -> bool:
    """Tells whether the nodes that have answered serve enough of the asked users (the quorum); if
    not, that is logged. devices: how many are in their answers; None = all that they were asked
    for.
    """
    asked = {name: len(users) for name, users in work.asked.items()}
    heard = sum(asked[name] for name in answered) if devices is None else devices
    share = heard / max(1, sum(asked.values()))
    if answered == asked.keys() or (answered and share >= folder.terms.quorum):
        return True
    line = (
        f"round {work.round}: {share:.0%} of the users in {folder.terms.deadline:g} s, the quorum"
        f" is {folder.terms.quorum:.0%}; not counted, the model is unchanged, the others are"
        " asked again"
    )
    folder.log(LogLine(line, "quorum", level="warning", round=work.round))
    return False
