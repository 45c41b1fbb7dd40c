"""A server with the right key that asks the nodes of a masked federation for any sums: of any
round, model, parties and users.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from entrenous_network.frames.frames import opened
from entrenous_network.frames.request import RoundWork, announced_of
from entrenous_network.node.node import FederatedNode
from entrenous_network.operate.founding import FoundedFederation
from entrenous_network.secure_sum.refusal import SumRefused
from entrenous_network.server.collector import Collector
from entrenous_network.server.exchange import Question
from entrenous_network.server.secure_server import SecureRound
from entrenous_network.server.server_folder import ServerFolder
from federation_links import FaultyLink, nodes_of, server_of, unasked

from entrenous.core.contract.update import Total
from entrenous.core.types import Int64Array


class SubtractingServer:
    """Its state is that of the federation before the first round, and it forgets what it has
    summed. said: the last words of each node.
    """

    def __init__(self, made: FoundedFederation) -> None:
        self.made, self.held = made, ServerFolder(made.server)
        self.nodes: dict[str, FederatedNode] = nodes_of(made)
        self.own = server_of(self.held)
        self.said: dict[str, str] = {}

    def download(self, moved: float = 0.0) -> Any:
        """The first model, with all its numbers moved by so much."""
        state = self.own.state
        arrays = {
            name: array + np.float32(moved) if array.dtype == np.float32 else array
            for name, array in state._asdict().items()
        }
        return self.own.algorithm.download(type(state)(**arrays))

    def sum_of(
        self,
        number: int,
        names: Sequence[str],
        model: float = 0.0,
        users: Mapping[str, Int64Array] | None = None,
        gone: str = "",
    ) -> Total | None:
        """The sum of round `number` over some nodes, from the model moved by `model`; None where
        they refuse. users: of some nodes; gone: who is said not to have sent its masked input."""
        download = self.download(model)
        asked = {name: (users or {}).get(name, self.nodes[name].shard.users) for name in names}
        work = RoundWork(number, announced_of(self.own.contract, download), asked, download)
        self.own.round, self.said = number, {}
        found = SecureRound(
            Collector(self.held, self.own.contract, FaultyLink({}), self.own._stop), work
        )
        attempt = self.held.newest_attempt(number)
        journal = self.held.journal(number, attempt)
        found._hear = lambda stage, own: self._hear(found, stage, own, gone)  # type: ignore[method-assign]
        try:
            return unasked(found._attempt(attempt, journal))
        except SumRefused as why:
            self.said["server"] = why.code
            return None
        finally:
            journal.close()

    def _hear(self, found: SecureRound, stage: Any, own: Any, gone: str) -> Iterator[Question]:
        """A stage of which nothing is left to ask."""
        yield from ()
        before = set(found._now.asked) if stage.number == 0 else set(own.heard(stage.number - 1))
        for name in sorted(before - ({gone} if stage.number >= 2 else set())):
            answer = self.nodes[name].answer(bytes(stage.request(name)))
            frame = opened(answer)
            if frame.head.kind == "refused":
                self.said[name] = bytes(frame.body).decode()
            found.take([answer])

    def restart(self, name: str) -> None:
        """A node that has died and come back."""
        self.nodes[name].close()
        self.nodes[name] = FederatedNode(self.made.nodes[name])

    def close(self) -> None:
        """Ends all."""
        for node in self.nodes.values():
            node.close()
        self.held.close()
