"""A gossip algorithm small enough to be followed by hand, and data to run it on."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from entrenous.core.contract.declarations import axes, pushed
from entrenous.core.contract.gossip import ACCEPTED, Arrivals, DeviceData, Headers, Pushes
from entrenous.core.types import Int64Array
from entrenous.data.interactions import Interactions, Vocabulary, build

WIDTH = 16


def shop(users: int, items: int = 30, each: int = 5) -> Interactions:
    """Every user has `each` items in a row, beginning anew after the last one."""
    user = np.repeat(np.arange(users), each)
    item = (np.arange(users * each) * 7) % items
    pairs = np.unique(np.stack([user, item]), axis=1)
    names = (
        Vocabulary([f"u{u}" for u in range(users)], kind="user"),
        Vocabulary([f"i{i}" for i in range(items)], kind="item"),
    )
    return build(pairs[0], pairs[1], users=names[0], items=names[1], name="shop")


class Nodes(NamedTuple):
    """heard: int64 [n, n], models received from each; drawn: int64 [n], a sum that depends on the
    order of a node's events.
    """

    heard: Annotated[Int64Array, axes("users")]
    drawn: Annotated[Int64Array, axes()]


class Toy:
    """Everybody pushes to the next `ways` nodes. A model counts: number 0 its merges, number 1 + u
    whether node u's model is in it.
    """

    keeps = Nodes
    sends = (
        pushed("model", "width", dtype="float32", when="each push", reveals="merges"),
        pushed("sender", dtype="int64", when="each push", reveals="who"),
        pushed("age", dtype="int64", when="each push", reveals="nothing"),
        pushed("samples", dtype="int64", when="each push", reveals="nothing"),
        pushed("peers", 1, dtype="int32", when="each push", reveals="nothing"),
        pushed(
            "rest",
            2,
            dtype="int32",
            when="each push",
            reveals="nothing; it makes a message 100 bytes",
        ),
    )
    ways = 1

    def __init__(self, ways: int = 1) -> None:
        self.ways = ways

    def configured(self, catalogue: Any) -> Toy:
        self.n = catalogue.users
        return self

    def default_rounds(self, catalogue: Any) -> int:
        return 10

    def sizes(self, catalogue: Any) -> dict[str, int]:
        return {"width": WIDTH}

    def weighing(self, data: DeviceData, keys: Any) -> DeviceData:
        return data

    def init_model(self, catalogue: Any, key: Any) -> np.ndarray:
        return np.zeros(WIDTH, np.float32)

    def init_nodes(self, users: np.ndarray, peers: np.ndarray, width: int, key: Any) -> Nodes:
        return Nodes(np.zeros((len(users), self.n), np.int64), np.zeros(len(users), np.int64))

    def on_start(
        self,
        pool: np.ndarray,
        at: np.ndarray,
        nodes: Nodes,
        who: np.ndarray,
        data: DeviceData,
        keys: Any,
    ) -> None:
        pool[at, 1 + who] = 1

    def on_timer(self, nodes: Nodes, who: np.ndarray, data: DeviceData, keys: Any) -> Pushes:
        to = ((who[:, None] + 1 + np.arange(self.ways)) % self.n).astype(np.int32)
        zero = np.zeros(len(who), np.int64)
        return Pushes(
            to,
            Headers(who, zero, zero, np.zeros((len(who), 1), np.int32), np.full(len(who), WIDTH)),
        )

    def on_message(self, arrivals: Arrivals, nodes: Nodes, data: DeviceData) -> np.ndarray:
        out = np.zeros(len(arrivals.who), np.int8)
        for d, u in enumerate(arrivals.who.tolist()):
            received = arrivals.pool[arrivals.received[d]]
            if (
                not np.isfinite(received).all()
                or received.max() > 1e6
                or arrivals.headers.length[d] != WIDTH
            ):
                out[d] = 1
                continue
            merged = np.maximum(arrivals.pool[arrivals.own[d]], received)
            merged[0] = arrivals.pool[arrivals.own[d], 0] + 1
            arrivals.pool[arrivals.into[d]] = merged
            nodes.heard[u, arrivals.headers.sender[d]] += 1
            nodes.drawn[u] = (
                3 * nodes.drawn[u] + int(arrivals.keys[d]) % 1000 + arrivals.headers.sender[d]
            ) % 1_000_003
        assert ACCEPTED == 0
        return out

    def score(
        self, pool: np.ndarray, at: np.ndarray, nodes: Nodes, who: np.ndarray, data: DeviceData
    ) -> np.ndarray:
        return pool[at]
