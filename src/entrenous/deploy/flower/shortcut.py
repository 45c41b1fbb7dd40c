"""Flower's own handlers for the calls that nodes and server make all the time, without the web framework around them.

Of a call's 9 ms in a SuperLink, 6 are spent in layers of middleware. Here the same authentication and the same handlers are called
at once; whatever they refuse goes through the whole application, which says so in Flower's words.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from starlette.requests import Request

from .gate import FLEET, RUNTIME, App, Receive, Scope, Send, read_body, replayed

Handle = Callable[[Any, Any, Request], Any]  # (message, state, request) -> reply


class Call(NamedTuple):
    """A frequent request to Flower's SuperLink: its message class, and Flower's function that answers it."""

    message: Any
    handle: Handle


def shortened(app: Any) -> App:
    """Flower's FastAPI application with a faster path for the frequent requests of `calls()`."""
    short = calls()

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        found = short.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if found is None:
            return await app(scope, receive, send)
        body = await read_body(receive)
        reply = await asyncio.to_thread(_handled, found, {**scope, "app": app, "state": {}}, body)
        if reply is None:
            return await app(scope, replayed(body, receive), send)
        headers = [(b"content-type", b"application/protobuf"), (b"content-length", str(len(reply)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": reply})

    return call


def _handled(call: Call, scope: Scope, body: bytes) -> bytes | None:
    """The reply's bytes; None where anything is amiss, and nothing has been done."""
    try:
        request, message = Request(scope), call.message.FromString(body)
        request.state.protobuf_request = message
        reply: bytes = call.handle(message, scope["app"].state.linkstate_factory.state(), request).SerializeToString()
    except Exception:  # the whole application meets it again, and reports it
        return None
    return reply


def calls() -> Mapping[str, Call]:
    """The frequent requests, by URL path. As in Flower, nodes are authenticated by their signature, the server's process by
    its task's token."""
    from flwr.proto import fleet_pb2, heartbeat_pb2, message_pb2, runtime_pb2
    from flwr.superlink.servicer.fleet import fleet_handlers as fleet
    from flwr.superlink.servicer.runtime import runtime_handlers as runtime

    return {
        FLEET + "pull-messages": Call(
            fleet_pb2.PullMessagesRequest, _node(lambda message, state: fleet.pull_messages(message, state, state.object_store))
        ),
        FLEET + "push-messages": Call(fleet_pb2.PushMessagesRequest, _node(fleet.push_messages)),
        FLEET + "pull-object": Call(message_pb2.PullObjectRequest, _node(fleet.pull_object)),
        FLEET + "push-object": Call(message_pb2.PushObjectRequest, _node(fleet.push_object)),
        FLEET + "confirm-message-received": Call(
            message_pb2.ConfirmMessageReceivedRequest,
            _node(lambda message, state: fleet.confirm_message_received(message, state, state.object_store)),
        ),
        FLEET + "send-node-heartbeat": Call(heartbeat_pb2.SendNodeHeartbeatRequest, _node(fleet.send_node_heartbeat)),
        RUNTIME + "pull-messages": Call(runtime_pb2.PullAppMessagesRequest, _task(runtime.pull_messages)),
        RUNTIME + "push-messages": Call(runtime_pb2.PushAppMessagesRequest, _task(runtime.push_messages)),
        RUNTIME + "pull-object": Call(message_pb2.PullObjectRequest, _task(runtime.pull_object)),
        RUNTIME + "push-object": Call(message_pb2.PushObjectRequest, _task(runtime.push_object)),
        RUNTIME + "confirm-message-received": Call(
            message_pb2.ConfirmMessageReceivedRequest, _task(runtime.confirm_message_received)
        ),
        RUNTIME + "get-nodes": Call(runtime_pb2.GetNodesRequest, _task(runtime.get_nodes)),
    }


def _node(handler: Callable[[Any, Any], Any]) -> Handle:
    def handle(message: Any, state: Any, request: Request) -> Any:
        from flwr.superlink.routers.fleet.node_auth import authenticate_node

        authenticate_node(request)
        return handler(message, state)

    return handle


def _task(handler: Callable[[Any, Any, Any], Any]) -> Handle:
    def handle(message: Any, state: Any, request: Request) -> Any:
        from flwr.supercore.constant import TASK_TOKEN_HEADER
        from flwr.supercore.dependencies.task import authenticate_task

        return handler(message, state, authenticate_task(request, request.headers.get(TASK_TOKEN_HEADER), state))

    return handle
