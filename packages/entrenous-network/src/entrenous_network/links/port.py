"""The port between a server and its nodes: frames go out, answers come in. Behind it is HTTPS in
a real federation, and memory in a test.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from ..frames.frames import FrameParts

Answer = Callable[[bytes], bytes]  # a node's side: the answer to a request


class ServerLink(Protocol):
    """The server's connection to its nodes, which it calls by their names: a node that is present
    has shown its key.
    """

    @property
    def since(self) -> float:
        """The monotonic second since which nodes can come. A link may outlive the server that
        uses it, which begins anew when members or items have changed."""
        ...

    def present(self) -> Collection[str]:
        """Returns the names of the nodes that are connected now."""
        ...

    def left(self) -> Collection[str]:
        """Returns the names of nodes that have hung up and not come back in time. Of a node
        that is cut off nobody hears; it is not among them.
        """
        ...

    def ready(self) -> Collection[str]:
        """Returns the names of the connected nodes that can take a request at once."""
        ...

    def send(self, node: str, frame: FrameParts, seconds: float) -> None:
        """Sends a request that is valid for `seconds`. An answer, if any, comes from `receive`."""
        ...

    def receive(self, seconds: float) -> list[tuple[str, bytes]]:
        """Returns the answers that have arrived, with the names of their nodes; waits at most
        `seconds` for the first.
        """
        ...

    def acknowledge(self) -> None:
        """Tells the nodes whose answers were received so far that these have been dealt with: what
        counts is on the disk.
        """
        ...

    def rest(self, seconds: float) -> None:
        """Notes that no round begins for so many seconds: nodes for whom there is nothing may ask
        again after them.
        """
        ...

    def close(self) -> None: ...
