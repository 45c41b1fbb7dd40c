"""`Network`: what a simulated network does to messages and nodes. Everything is drawn from keys, so
a run can be repeated to the byte.
"""

from __future__ import annotations

import math
from typing import Any, Literal, Self, final

import numpy as np
from pydantic import Field, field_validator

from ..core.contract.settings import Settings
from ..core.keys import fold_name, folded, folds, uniforms
from ..core.types import BoolArray, Float64Array, Int64Array, UInt64Array
from .spread import Spreading, spread

JUNK = 4  # what a bad node may send: NaN, infinity, too large numbers, another number of numbers


@final
class Network(Settings):
    """What is between the nodes. The unit of time is the mean time between two pushes of a node,
    which is what a round is.
    """

    clock: Literal["lock-step", "regular", "random"] = Field(
        "lock-step",
        description=(
            "lock-step: all nodes push at once; regular: each at its own moment; random: at"
            " exponential gaps"
        ),
    )
    period: Spreading = Field(
        spread(1), description="of each node: time between its pushes; not for the clock lock-step"
    )
    latency: Spreading = Field(spread(0), description="of each message: time under way")
    bandwidth: Spreading = Field(
        spread(0), description="of each node's uplink: bytes in one unit of time; 0 = unlimited"
    )
    loss: float = Field(0.0, ge=0, lt=1, description="share of the messages that never arrive")
    churn: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="share of the nodes that are away at any time; they come back with their state",
    )
    session: float = Field(
        10.0, gt=0, description="mean time that a node stays before it leaves, where there is churn"
    )
    restarts: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="chance of each node in one unit of time to lose all but its own rows",
    )
    partition: str = Field(
        "", description="FROM:TO, times between which one half of the nodes cannot reach the other"
    )
    bad: float = Field(
        0.0,
        ge=0,
        lt=1,
        description=(
            "share of the nodes that send models which are not finite, too large or too long"
        ),
    )

    @field_validator("partition")
    @classmethod
    def _times(cls, text: str) -> str:
        if text and _interval(text) is None:
            raise ValueError("FROM:TO, two times, the second later")
        return text

    @field_validator("period")
    @classmethod
    def _positive(cls, period: Any) -> Any:
        if period.kind != "exponential" and not period.least > 0:
            raise ValueError("times above 0")
        return period

    @property
    def cut(self) -> tuple[float, float]:
        """The times [from, to) between which the network is cut in two."""
        return _interval(self.partition) or (math.inf, math.inf)

    @classmethod
    def read(cls, values: Any) -> Self:
        """Read a network from texts by name of setting. Raises InputError for a bad one."""
        return cls.parse(values, where="--network")


def _interval(text: str) -> tuple[float, float] | None:
    try:
        low, high = map(float, text.split(":"))
    except ValueError:
        return None
    return (low, high) if 0 <= low < high < math.inf else None


@final
class Draws:
    """The random draws of a simulated network over n nodes. Each is a pure function of names: the
    node, and how many draws of its kind it had."""

    def __init__(self, network: Network, n: int, key: np.uint64) -> None:
        self.network, self._key = network, key
        nodes = np.arange(n)

        def each(name: str) -> UInt64Array:
            return folds(fold_name(key, name), nodes)

        self.period = np.maximum(network.period.draw(each("period")), 1e-3)
        self.bandwidth = network.bandwidth.draw(each("bandwidth"))
        self.bandwidth[self.bandwidth == 0] = math.inf
        self.phase = uniforms(each("phase"))
        self.side: BoolArray = uniforms(each("side")) < 0.5
        self.bad: BoolArray = uniforms(each("bad")) < network.bad
        self.junk: Int64Array = (uniforms(each("junk")) * JUNK).astype(np.int64)
        self.away: BoolArray = uniforms(each("away")) < network.churn

    @property
    def fastest(self) -> float:
        """The pushes of the busiest node in one unit of time, at least 1."""
        if self.network.clock == "lock-step":
            return 1.0
        return max(1.0, 1.0 / float(self.period.min()))

    def first_push(self, nodes: Int64Array) -> Float64Array:
        """The time at which each node's timer fires first, float64 [len(nodes)]."""
        if self.network.clock == "lock-step":
            return np.zeros(len(nodes))
        return self.phase[nodes] * self.period[nodes]

    def gap(self, nodes: Int64Array, count: Int64Array) -> Float64Array:
        """Time from push number `count` of each node to the next."""
        if self.network.clock == "lock-step":
            return np.ones(len(nodes))
        if self.network.clock == "regular":
            return self.period[nodes]
        return -self.period[nodes] * np.log1p(-uniforms(self._named("gap", nodes, count)))

    def latency(self, nodes: Int64Array, count: Int64Array, way: int) -> Float64Array:
        """The time that a message travels, float64 [len(nodes)]. count: the number of the push at
        its sender; way: which of its receivers."""
        return self.network.latency.draw(self._named(f"latency {way}", nodes, count))

    def lost(self, nodes: Int64Array, count: Int64Array, way: int) -> BoolArray:
        """Whether a message is lost on its way, bool [len(nodes)]. count: the number of the push at
        its sender; way: which of its receivers."""
        return uniforms(self._named(f"lost {way}", nodes, count)) < self.network.loss

    def order(self, nodes: Int64Array, count: Int64Array) -> UInt64Array:
        """Random numbers, uint64, that with the receiver's number decide the order of messages that
        arrive at the same time.
        """
        return self._named("order", nodes, count)

    def stay(self, nodes: Int64Array, count: Int64Array, away: BoolArray) -> Float64Array:
        """The time that nodes stay away or present, exponentially distributed, float64
        [len(nodes)]. The mean absence is churn / (1 - churn) times the mean presence."""
        churn = self.network.churn
        mean = np.where(away, self.network.session * churn / (1 - churn), self.network.session)
        return -mean * np.log1p(-uniforms(self._named("stay", nodes, count)))

    def until_restart(self, nodes: Int64Array, count: Int64Array) -> Float64Array:
        """The time until each node restarts, exponentially distributed, float64 [len(nodes)]."""
        return -np.log1p(-uniforms(self._named("restart", nodes, count))) / self.network.restarts

    def _named(self, name: str, nodes: Int64Array, count: Int64Array) -> UInt64Array:
        return folded(folds(fold_name(self._key, name), nodes), count)
