"""Flower's fleet protocol, spoken by a program that lives on: one session of one node, no process per message, no exit from within.

flwr's own `http_request_response` ends its process on errors, so the sequence of its `start_client_internal` is said again here:
activate, heartbeat, pull a message, pull its objects, push the reply, push its objects, confirm. Of a message only the leaf is
fetched: the one record that holds the frame.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, final

from .gate import WAIT_HEADER
from .keys import Keys
from .records import frame_in, leaf_of, record_of

if TYPE_CHECKING:
    import httpx
    from flwr.app import Message
    from flwr.proto.node_pb2 import Node
    from flwr.supernode.fleet_http_client import FleetHttpClient

IN_USE = 23
CALL_SECONDS = 20.0  # without a byte, then the connection is taken for lost
OBJECT_SECONDS = 30.0  # how long the parts of a message may still be under way from the server


class FleetMessage(NamedTuple):
    """A message to this node: Flower's, and the frame in it."""

    message: Message
    frame: bytes


@final
class Waiting:
    """A header that asks the server to hold a request for work until there is some; a plain SuperLink ignores it."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def intercept(self, context: Any, call_next: Any) -> httpx.Response:
        if context.rpc_method.endswith("/PullMessages"):
            context.request.headers[WAIT_HEADER] = str(self.seconds)
        answer: httpx.Response = call_next(context)
        return answer


@final
class Session:
    """One node's activated connection. Every method raises httpx.HTTPError when the call fails, and nothing else."""

    def __init__(self, client: FleetHttpClient, node: Node) -> None:
        self.client, self.node = client, node

    def heartbeat(self, seconds: float) -> bool:
        """Tells that this node lives, and that it will say so again within `seconds` (10 to 1800). False: it is not known any more."""
        from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest

        return bool(self.client.SendNodeHeartbeat(SendNodeHeartbeatRequest(node=self.node, heartbeat_interval=seconds)).success)

    def request(self) -> FleetMessage | None:
        """The next message for this node, whole; None if there is none, or if it is not ours."""
        from flwr.common.serde import message_from_proto
        from flwr.proto.fleet_pb2 import PullMessagesRequest

        found = self.client.PullMessages(PullMessagesRequest(node=self.node))
        if not found.messages_list:
            return None
        message, run = message_from_proto(found.messages_list[0]), found.messages_list[0].metadata.run_id
        leaf = leaf_of(found.message_object_trees[0])
        frame = None if leaf is None else self._frame(run, leaf)
        if frame is None:
            self.confirm(message)
            return None
        return FleetMessage(message, frame)

    def confirm(self, message: Message) -> None:
        """Tell the server that `message` was received, so that it may delete its copy."""
        from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest

        run, identity = message.metadata.run_id, message.metadata.message_id
        self.client.ConfirmMessageReceived(ConfirmMessageReceivedRequest(node=self.node, run_id=run, message_object_id=identity))

    def _frame(self, run: int, leaf: str) -> bytes | None:
        """A frame by its object's id, waiting until the server has pushed it; None where it is gone or is no frame."""
        from flwr.proto.message_pb2 import PullObjectRequest

        until, pause = time.monotonic() + OBJECT_SECONDS, 0.02
        while time.monotonic() < until:
            found = self.client.PullObject(PullObjectRequest(node=self.node, run_id=run, object_id=leaf))
            if not found.object_found:
                return None
            if found.object_available:
                return frame_in(leaf, found.object_content)
            time.sleep(pause)
            pause = min(1.0, 2 * pause)
        return None

    def reply(self, request: Message, frame: bytes, seconds: float) -> bool:
        """Answers `request` after `seconds` of work. False: the server would not have it (its run has ended).

        Only the leaf of the answer is pushed, for our server fetches nothing else; Flower forgets an answer without its other
        parts after 180 s, if the server has not fetched it by then.
        """
        from flwr.app import Message
        from flwr.app.message import remove_content_from_message
        from flwr.common.serde import message_to_proto
        from flwr.proto.fleet_pb2 import PushMessagesRequest
        from flwr.proto.message_pb2 import PushObjectRequest
        from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree, no_object_id_recompute

        with no_object_id_recompute():
            reply = Message(record_of(frame), reply_to=request)
            reply.metadata.__dict__["_message_id"] = reply.object_id
            tree, parts = get_object_tree(reply), get_all_nested_objects(reply)
            bare = message_to_proto(remove_content_from_message(reply))
            run = reply.metadata.run_id
            taken = self.client.PushMessages(
                PushMessagesRequest(
                    node=self.node, messages_list=[bare], message_object_trees=[tree], clientapp_runtime_list=[seconds]
                )
            )
            leaf = leaf_of(tree)
            if leaf is None or leaf not in taken.objects_to_push:
                return leaf is not None
            content, push_session = parts[leaf].deflate(), taken.session_id
            part = PushObjectRequest(node=self.node, run_id=run, object_id=leaf, object_content=content, session_id=push_session)
            return bool(self.client.PushObject(part).stored)


@contextmanager
def session(address: str, keys: Keys, *, known: int = 0, wait: float, heartbeat: float) -> Iterator[Session]:
    """Connects and activates this node; deactivates it at the end, unless that is an error.

    known: its number, if it was active before and only lost its connection. Without node authentication, a new key is registered.

    Raises:
        httpx.HTTPError: no connection, or a refusal (4xx) whose text holds Flower's reason.
    """
    from flwr.proto.fleet_pb2 import DeactivateNodeRequest
    from flwr.proto.node_pb2 import Node
    from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
    from flwr.supercore.primitives.asymmetric import generate_key_pairs, public_key_to_bytes
    from flwr.supernode.fleet_http_client import FleetHttpClient
    from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

    private = keys.private or generate_key_pairs()[0]
    public = private.public_key()
    signing: list[Any] = [
        RuntimeVersionHttpInterceptor(component_name="SuperNode"),
        NodeAuthHttpInterceptor(private, public),
        Waiting(wait),
    ]
    scheme, verify = ("http", False) if keys.ca is None else ("https", _trusting(keys.ca))
    with FleetHttpClient(f"{scheme}://{address}", interceptors=signing, verify=verify, timeout=CALL_SECONDS) as client:
        node = (
            known if known and _goes_on(client, known, heartbeat) else _activated(client, public_key_to_bytes(public), heartbeat)
        )
        yield Session(client, Node(node_id=node))
        _within(2.0, lambda: client.DeactivateNode(DeactivateNodeRequest(node_id=node)))


def _activated(client: FleetHttpClient, public: bytes, heartbeat: float) -> int:
    """This node's number, once the server takes it for present."""
    import httpx
    from flwr.proto.fleet_pb2 import ActivateNodeRequest

    activation = ActivateNodeRequest(public_key=public, heartbeat_interval=heartbeat)
    try:
        return int(client.ActivateNode(activation).node_id)
    except httpx.HTTPStatusError as error:
        if error.response.status_code >= 500:
            raise
    _register(client, public)
    return int(client.ActivateNode(activation).node_id)


def _goes_on(client: FleetHttpClient, node: int, heartbeat: float) -> bool:
    """Whether the server still takes this key for that node."""
    import httpx
    from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
    from flwr.proto.node_pb2 import Node

    try:
        beat = SendNodeHeartbeatRequest(node=Node(node_id=node), heartbeat_interval=heartbeat)
        return bool(client.SendNodeHeartbeat(beat).success)
    except httpx.HTTPStatusError as error:
        if error.response.status_code >= 500:
            raise
        return False


def _trusting(ca: bytes) -> ssl.SSLContext:
    """TLS 1.3 with a server whose certificate `ca` has signed, and nobody else's."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=ca.decode("ascii"))
    return context


def _within(seconds: float, call: Callable[[], object]) -> None:
    """Calls, but does not wait for the end of it longer than `seconds`; a failure is as good as a success."""

    def quietly() -> None:
        with suppress(Exception):
            call()

    calling = threading.Thread(target=quietly, daemon=True)
    calling.start()
    calling.join(seconds)


def _register(client: FleetHttpClient, public: bytes) -> None:
    """Makes this key known where anybody may; a first attempt whose answer was lost has done it already."""
    import httpx
    from flwr.proto.fleet_pb2 import RegisterNodeFleetRequest

    from .control import code_of

    try:
        client.RegisterNode(RegisterNodeFleetRequest(public_key=public))
    except httpx.HTTPStatusError as error:
        if code_of(error) != IN_USE:
            raise
