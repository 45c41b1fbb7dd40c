"""The events of a peer, which it records: that it began, that it pushed, and whose model it took.
They determine its model, whatever else happened meanwhile.
"""

from __future__ import annotations

from typing import NamedTuple

START, PUSH, MESSAGE = range(3)  # kinds of events


class PeerEvent(NamedTuple):
    """One event of a peer."""

    kind: int
    """START, PUSH or MESSAGE."""
    sender: int
    """The sender's number of a received model, else -1."""
    push: int
    """The number of the push at its sender; -1 for a start."""
    digest: bytes
    """The digest of the model that was sent or received (wire.pushed); empty for a start."""
