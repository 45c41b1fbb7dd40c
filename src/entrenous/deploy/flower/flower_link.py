"""The server's side of the port of deploy/link.py, on Flower's grid: frames out and answers in, by two threads of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, final

from ...core.errors import EntrenousError, one_line
from .fleet import Waiting
from .records import frame_in, leaf_of, record_of

if TYPE_CHECKING:
    from flwr.serverapp import Grid

HELD = 1.0  # s that a question for answers may lie with the SuperLink (our gate holds it; a plain one answers at once)
POLL = 0.1  # s between two questions where it does not
LISTING = 1.0  # s between two questions who is there


class FlowerInFlight(NamedTuple):
    """A request in flight: to which address, and until when its answer counts (monotonic seconds)."""

    address: str
    until: float


class Coming(NamedTuple):
    """An answer whose frame is still being pushed by its node."""

    address: str
    until: float
    message: str
    leaf: str


@final
class FlowerLink:
    """A `ServerLink` over Flower. `send` and `present` never wait for the SuperLink; while it is down only the link's threads wait.

    Losses (no answer in time, node gone, push refused, malformed answer) are counted in `lost`.
    """

    def __init__(self, grid: Grid) -> None:
        self.lost = 0
        self._grid, self._client, self._node = grid, grid._runtime_client, grid.node  # type: ignore[attr-defined]
        self._client._interceptors += (Waiting(HELD),)
        self._out: SimpleQueue[tuple[str, bytes, float]] = SimpleQueue()
        self._in: SimpleQueue[tuple[str, bytes]] = SimpleQueue()
        self._asked: dict[str, FlowerInFlight] = {}
        self._coming: dict[str, Coming] = {}
        self._present: list[str] = []
        self._listed, self._wake, self._stopped = threading.Event(), threading.Event(), threading.Event()
        self._any = threading.Event()  # an answer is awaited
        self._failure: BaseException | None = None
        self._threads = [
            threading.Thread(target=self._safely, args=(turn,), daemon=True) for turn in (self._sending, self._receiving)
        ]
        for thread in self._threads:
            thread.start()

    def present(self) -> list[str]:
        """The addresses (Flower's node ids) of nodes heard from within two heartbeats; at most a second old."""
        self._listed.wait(10.0)
        self._check()
        return list(self._present)

    def send(self, address: str, frame: bytes, seconds: float) -> None:
        """Queue a request. Requests queued within one turn of the sending thread go together, and a frame for many nodes is
        stored once."""
        self._check()
        self._out.put((address, frame, seconds))
        self._wake.set()

    def receive(self, seconds: float) -> list[tuple[str, bytes]]:
        self._check()
        found: list[tuple[str, bytes]] = []
        with suppress(Empty):
            found.append(self._in.get(timeout=max(0.0, seconds)))
            while True:
                found.append(self._in.get_nowait())
        if not found:
            self._check()
        return found

    def close(self) -> None:
        """Send what is queued and end the threads; waits at most 2 s for both."""
        self._stopped.set()
        self._wake.set()
        self._any.set()
        for thread in self._threads:
            thread.join(1.0)

    def _check(self) -> None:
        if self._failure is not None:
            raise EntrenousError(one_line(f"the run has ended: {self._failure!r}")) from self._failure

    def _safely(self, turns: Callable[[], None]) -> None:
        """Runs `turns` again after an error of the SuperLink (5xx; lost connections are retried below this), until `close`."""
        import httpx

        while not self._stopped.is_set():
            try:
                turns()
            except httpx.HTTPStatusError as error:
                if error.response.status_code < 500:
                    self._failure = error
                    break
                self._stopped.wait(0.5)
            except BaseException as error:
                self._failure = error
                break
        self._listed.set()

    def _sending(self) -> None:
        listed = 0.0
        while not self._stopped.is_set():
            self._wake.wait(LISTING)
            self._wake.clear()
            self._push()
            if time.monotonic() - listed >= LISTING:
                self._present = [str(node) for node in self._grid.get_node_ids()]
                listed = time.monotonic()
                self._listed.set()

    def _push(self) -> None:
        """Announces what was sent, then pushes its parts, leaves last: a node fetches the leaf, and has then all it needs."""
        from flwr.proto.message_pb2 import PushObjectRequest
        from flwr.proto.runtime_pb2 import PushAppMessagesRequest

        batch = []
        with suppress(Empty):
            while True:
                batch.append(self._out.get_nowait())
        if not batch:
            return
        self.lost += len(batch)  # unless they arrive
        bare, trees, parts = _announced(batch)
        taken = self._client.PushMessages(PushAppMessagesRequest(messages_list=bare, message_object_trees=trees))
        wanted, run = set(taken.objects_to_push), self._grid.run.run_id
        for identity, part in parts.items():
            if identity in wanted:  # not stored = a node has fetched and confirmed it already
                content, session = part.deflate(), taken.session_id
                self._client.PushObject(
                    PushObjectRequest(node=self._node, run_id=run, object_id=identity, object_content=content, session_id=session)
                )
        for (address, _, seconds), identity in zip(batch, taken.message_ids, strict=False):
            if identity:
                self.lost -= 1
                self._asked[identity] = FlowerInFlight(address, time.monotonic() + seconds)
                self._any.set()

    def _receiving(self) -> None:
        while not self._stopped.is_set():
            self._any.wait()
            began = time.monotonic()
            self._find()
            self._fetch()
            self._forget()
            if not self._asked and not self._coming:
                self._any.clear()
                if self._asked:
                    self._any.set()
            taken = time.monotonic() - began
            if self._coming or taken < HELD / 2:  # not held: a quarter of the SuperLink's time is enough for questions
                self._stopped.wait(0.03 if self._coming else min(POLL, max(0.01, taken)))

    def _find(self) -> None:
        """Answers that nodes have announced."""
        from flwr.proto.runtime_pb2 import PullAppMessagesRequest

        identities = list(self._asked)
        if not identities or self._coming:
            return
        found = self._client.PullMessages(PullAppMessagesRequest(message_ids=identities))
        for message, tree in zip(found.messages_list, found.message_object_trees, strict=True):
            asked, leaf = self._asked.pop(message.metadata.reply_to_message_id, None), leaf_of(tree)
            if asked is not None and leaf is not None and not message.HasField("error"):
                self._coming[message.metadata.message_id] = Coming(asked.address, asked.until, message.metadata.message_id, leaf)
            elif asked is not None:
                self.lost += 1

    def _fetch(self) -> None:
        """Frames of announced answers: those that are there; a message is forgotten by the SuperLink once it is confirmed."""
        from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest, PullObjectRequest

        run = self._grid.run.run_id
        for coming in list(self._coming.values()):
            part = self._client.PullObject(PullObjectRequest(node=self._node, run_id=run, object_id=coming.leaf))
            if part.object_found and not part.object_available:
                continue
            del self._coming[coming.message]
            frame = frame_in(coming.leaf, part.object_content) if part.object_found else None
            if frame is None:
                self.lost += 1
            else:
                self._in.put((coming.address, frame))
            confirm = ConfirmMessageReceivedRequest(node=self._node, run_id=run, message_object_id=coming.message)
            self._client.ConfirmMessageReceived(confirm)

    def _forget(self) -> None:
        now = time.monotonic()
        waiting: tuple[dict[str, Any], ...] = (self._asked, self._coming)
        for each in waiting:
            late = [identity for identity, awaited in list(each.items()) if awaited.until < now]
            self.lost += len(late)
            for identity in late:
                each.pop(identity, None)


def _announced(batch: list[tuple[str, bytes, float]]) -> tuple[list[Any], list[Any], dict[str, Any]]:
    """Flower's messages for a batch without their content, their trees, and all parts by id, those that others hang on last."""
    from flwr.app import Message
    from flwr.app.message import remove_content_from_message
    from flwr.common.serde import message_to_proto
    from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree, no_object_id_recompute

    records = {frame: record_of(frame) for _, frame, _ in batch}
    bare, trees, parts = [], [], dict[str, Any]()
    with no_object_id_recompute():
        for address, frame, seconds in batch:
            message = Message(records[frame], int(address), "query", ttl=seconds)
            message.metadata.__dict__["_message_id"] = message.object_id
            bare.append(message_to_proto(remove_content_from_message(message)))
            trees.append(get_object_tree(message))
            parts.update(get_all_nested_objects(message))
    rank = {"Message": 0, "RecordDict": 1}
    return bare, trees, dict(sorted(parts.items(), key=lambda part: rank.get(type(part[1]).__name__, 2)))
