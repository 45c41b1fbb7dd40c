"""A server's request to work, after a node has read and checked it: what a plain and a secure round both train by."""

from __future__ import annotations

from typing import NamedTuple

from ..core.protocols import State
from ..core.types import Int64Array


class NodeRequest(NamedTuple):
    """A request to train, checked: of which round, which of the node's users, with which model."""

    round: int
    users: Int64Array
    download: State
    asked: bytes  # sha256 of all of these
    start: int  # of which start of the server
