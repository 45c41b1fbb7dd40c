"""`GridLink`: frames over Flower's grid, to nodes by their names: Flower's id of a node changes
when it comes back.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import NamedTuple, final

from entrenous_network.frames.frames import FrameParts
from flwr.app import Message
from flwr.serverapp import Grid

from entrenous.core.errors import one_line

from .greeter import Greeter
from .records import frame_in, record_of

LISTING = 1.0  # seconds between two questions who is there
LOOK = 0.1  # seconds between two questions for answers
AGAIN = 30.0  # seconds after which a node that has not told its name is asked again
QUERY = "query"  # Flower's type of a message that neither trains nor evaluates its way


class GridRequest(NamedTuple):
    """A request to a node. node: Flower's id; name: "" where the request asks for it; nonce: what
    the answer to that must repeat; until: when it is worth nothing any more (monotonic seconds)."""

    node: int
    name: str
    nonce: bytes
    frame: bytes
    until: float


@final
class GridLink:
    """A `ServerLink` over Flower's grid, for one thread. Present is who has proved its name with a
    signature. say: is told of failures.
    """

    def __init__(
        self, grid: Grid, greeter: Greeter, say: Callable[[str], None] | None = None
    ) -> None:
        self._grid, self._greeter, self._say = grid, greeter, say or _complain
        self._nodes: dict[str, int] = {}  # Flower's ids, by name
        self._greeted: dict[int, float] = {}  # when a node was asked for its name
        self._out: list[GridRequest] = []
        self._asked: dict[str, GridRequest] = {}  # by Flower's message ids
        self._listed = -LISTING
        self.since = time.monotonic()

    def present(self) -> list[str]:
        """The names of the nodes that are connected and have proved who they are; at most a second
        old.
        """
        now = time.monotonic()
        if now - self._listed >= LISTING:
            here = set(self._grid.get_node_ids())
            self._listed = time.monotonic()
            self._nodes = {name: node for name, node in self._nodes.items() if node in here}
            self._greeted = {node: when for node, when in self._greeted.items() if node in here}
            for node in sorted(here - set(self._nodes.values())):
                self._greet(node, now)
        return list(self._nodes)

    ready = present  # a request waits with the SuperLink for its node

    def send(self, address: str, frame: FrameParts, seconds: float) -> None:
        """Take a request for the node of a name; all that were taken go out together with the next
        `receive`.
        """
        if address in self._nodes:
            self._out.append(
                GridRequest(
                    self._nodes[address], address, b"", bytes(frame), time.monotonic() + seconds
                )
            )

    def receive(self, seconds: float) -> list[tuple[str, bytes]]:
        """Send what was taken, and return the answers that have arrived, by name; waits at most
        `seconds` for the first.
        """
        until = time.monotonic() + seconds
        while True:
            self._push()
            found = self._pull()
            rest = until - time.monotonic()
            if found or rest <= 0:
                return found
            time.sleep(min(LOOK, rest))

    def acknowledge(self) -> None:
        """Flower has told the nodes already that their replies arrived."""

    def left(self) -> list[str]:
        """Returns nobody: nodes do not hang up here."""
        return []

    def rest(self, seconds: float) -> None:
        """Flower's nodes ask when they like."""

    def close(self) -> None:
        """Nothing is to be released: the grid is Flower's."""

    def _greet(self, node: int, now: float) -> None:
        if now - self._greeted.get(node, -AGAIN) >= AGAIN:
            frame, nonce = self._greeter.hello()
            self._greeted[node] = now
            self._out.append(GridRequest(node, "", nonce, frame, now + AGAIN))

    def _push(self) -> None:
        """Sends all that was taken. What the SuperLink does not take is lost, and asked again by
        whoever waits for it.
        """
        now = time.monotonic()
        out, self._out = [request for request in self._out if request.until > now], []
        if out:
            messages = [
                Message(record_of(one.frame), one.node, QUERY, ttl=one.until - now) for one in out
            ]
            for request, identity in zip(out, self._grid.push_messages(messages), strict=False):
                if identity:
                    self._asked[identity] = request

    def _pull(self) -> list[tuple[str, bytes]]:
        now = time.monotonic()
        self._asked = {
            identity: request for identity, request in self._asked.items() if request.until > now
        }
        replies = self._grid.pull_messages(list(self._asked)) if self._asked else []
        return [answer for reply in replies if (answer := self._answer(reply)) is not None]

    def _answer(self, reply: Message) -> tuple[str, bytes] | None:
        """The name and frame of a reply; None for one that is none, and for one that tells a node's
        name.
        """
        request, frame = self._asked.pop(reply.metadata.reply_to_message_id, None), frame_in(reply)
        if request is None:
            return None
        if frame is None:
            why = reply.error.reason if reply.has_error() else "a reply without a frame"
            self._say(f"node {request.node} {request.name}: {why}")
            return None
        if request.name:
            return request.name, frame
        self._meet(request, frame)
        return None

    def _meet(self, request: GridRequest, frame: bytes) -> None:
        """Takes a node's name; what it was asked under another id is sent to the one it has now."""
        name = self._greeter.name(frame, request.nonce)
        if name is None:
            self._say(f"node {request.node} is no member of this federation")
            return
        self._nodes[name] = request.node
        moved = {
            identity: old
            for identity, old in self._asked.items()
            if old.name == name and old.node != request.node
        }
        self._asked = {
            identity: old for identity, old in self._asked.items() if identity not in moved
        }
        self._out += [old._replace(node=request.node) for old in moved.values()]


def _complain(text: str) -> None:
    print(one_line(text), file=sys.stderr, flush=True)
