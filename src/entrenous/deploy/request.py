"""A server's request to work, after a node has read and checked it, and the hash by which all nodes know that they train from one model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.declared import Contract
from ..core.protocols import State, arrays_of
from ..core.types import Int64Array
from ..runs.store import model_sha256


class NodeRequest(NamedTuple):
    """A request to train, checked: of which round, which of the node's users, with which model."""

    round: int
    users: Int64Array
    download: State
    asked: bytes  # sha256 of all of these


def announced(contract: Contract, download: State) -> bytes:
    """The sha256 by which a server announces the model of a round: of all arrays and flags that every node receives alike. download: as
    it was delivered, for whichever devices."""
    arrays = arrays_of(download)
    return bytes.fromhex(model_sha256({name: arrays[name] for name in contract.shared}))


def announced_of(contract: Contract, download: State) -> bytes:
    """The same, of a download before it is delivered to anybody."""
    return announced(contract, contract.delivered(download, np.zeros(1, np.int64)))
