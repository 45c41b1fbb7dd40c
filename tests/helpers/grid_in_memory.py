"""Flower's grid in memory, with nodes of this process behind it: each under a node id, which may
change.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from entrenous_network.links.port import Answer
from flwr.app import ConfigRecord, Error, Message, Metadata, RecordDict
from flwr.serverapp import Grid

SERVER = 1  # Flower's node id of a SuperLink
MESSAGES = itertools.count(1)


class GridInMemory(Grid):
    """A grid whose nodes answer when answers are asked for. nodes: by Flower's node id; an empty
    answer is never sent.
    """

    def __init__(self, nodes: dict[int, Answer]) -> None:
        self.nodes = nodes
        self.pushed: list[Message] = []
        self._waiting: dict[str, Message] = {}

    def set_run(self, run: Any) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Any:
        raise NotImplementedError

    def create_message(self, *arguments: Any, **more: Any) -> Message:
        raise NotImplementedError  # deprecated

    def get_node_ids(self) -> Iterable[int]:
        return list(self.nodes)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        new = {f"message-{next(MESSAGES)}": message for message in messages}
        self.pushed += new.values()
        self._waiting |= new
        return list(new)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        found = [
            (identity, self._waiting.pop(identity))
            for identity in message_ids
            if identity in self._waiting
        ]
        return [
            reply
            for identity, message in found
            if (reply := self._reply(identity, message)) is not None
        ]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        raise NotImplementedError

    def _reply(self, identity: str, message: Message) -> Message | None:
        node = message.metadata.dst_node_id
        about = Metadata(
            run_id=1,
            message_id=f"reply-{identity}",
            src_node_id=node,
            dst_node_id=SERVER,
            reply_to_message_id=identity,
            group_id="",
            created_at=0.0,
            ttl=60.0,
            message_type=message.metadata.message_type,
        )
        if node not in self.nodes:
            return Message(error=Error(code=3, reason="node unavailable"), metadata=about)
        answer = self.nodes[node](message.content["frame"]["frame"])
        return (
            Message(RecordDict({"frame": ConfigRecord({"frame": answer})}), metadata=about)
            if answer
            else None
        )


def as_task() -> None:
    """Make this process one that may make messages, as Flower does before it starts a ServerApp."""
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, SERVER, 1
