"""`Network`: the delays, losses and failures of a simulated network. Everything is drawn from keys,
so a run can be repeated to the byte.

`Spread`: numbers spread over nodes or messages: `constant:1`, `uniform:0:5`, `exponential:2`,
`loguniform:1e5:1e7`.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, NamedTuple, Self, final

import numpy as np
from pydantic import BeforeValidator, Field, PlainSerializer, field_validator

from ..core.contract.settings import Settings
from ..core.keys import fold_name, folded, folds, uniforms
from ..core.types import BoolArray, Float64Array, Int64Array, UInt64Array

# Kinds of bad models: NaN, infinity, too large numbers, another number of numbers.
JUNK = 4
# Distributions, and the number of parameters of each.
KINDS = {"constant": 1, "uniform": 2, "exponential": 1, "loguniform": 2}
FORMS = "constant:VALUE, uniform:LOW:HIGH, exponential:MEAN or loguniform:LOW:HIGH"


class Spread(NamedTuple):
    """A distribution of nonnegative numbers."""

    text: str
    kind: str
    numbers: tuple[float, ...]
    """Its parameters."""

    @property
    def least(self) -> float:
        """A lower bound of all draws."""
        if self.kind == "exponential":
            return 0.0
        return min(self.numbers)

    def draw(self, keys: UInt64Array) -> Float64Array:
        """One number from each key, float64 [len(keys)]."""
        at = uniforms(keys)
        low = self.numbers[0]
        high = self.numbers[-1]
        match self.kind:
            case "constant":
                return np.full(len(keys), low)
            case "uniform":
                return low + (high - low) * at
            case "exponential":
                return -low * np.log1p(-at)
            case _:
                # Uniform in its logarithm.
                return low * (high / low) ** at


def spread(text: Any) -> Spread:
    """A `Spread` from its text; a number alone is a constant. Raises ValueError with the text that
    was expected.

    >>> spread("uniform:0:5").least, spread(2).numbers
    (0.0, (2.0,))
    """
    if isinstance(text, Spread):
        return text
    kind, _, rest = str(text).partition(":")
    # A number alone.
    if not rest:
        kind, rest = "constant", kind
    try:
        numbers = tuple(map(float, rest.split(":")))
    except ValueError:
        numbers = ()
    if len(numbers) != KINDS.get(kind) or not all(map(_allowed, numbers)):
        raise ValueError(FORMS)
    if numbers[-1] < numbers[0]:
        raise ValueError(FORMS)
    if kind == "loguniform" and not numbers[0]:
        raise ValueError("a lower end above 0 for loguniform")
    return Spread(str(text), kind, numbers)


def _allowed(number: float) -> bool:
    return math.isfinite(number) and number >= 0


Spreading = Annotated[
    Spread, BeforeValidator(spread), PlainSerializer(lambda given: given.text, return_type=str)
]


@final
class Network(Settings):
    """The network between the nodes. The unit of time is a round: the mean time between two pushes
    of a node.
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
        """The times [from, to) between which the network is cut in two; infinite without a cut."""
        return _interval(self.partition) or (math.inf, math.inf)

    @classmethod
    def read(cls, values: Any) -> Self:
        """A network from texts by name of setting. Raises InputError for a bad one."""
        return cls.parse(values, where="--network")


def _interval(text: str) -> tuple[float, float] | None:
    """The times of FROM:TO; None for any other text."""
    try:
        low, high = map(float, text.split(":"))
    except ValueError:
        return None
    if 0 <= low < high < math.inf:
        return (low, high)
    return None


@final
class Draws:
    """The random draws of a simulated network over n nodes. Each is a pure function of its names:
    the node, and the number of its draws of this kind.
    """

    def __init__(self, network: Network, n: int, key: np.uint64) -> None:
        self.network = network
        self._key = key
        nodes = np.arange(n)

        def each(name: str) -> UInt64Array:
            """A key for each node."""
            return folds(fold_name(key, name), nodes)

        # A period near 0 would fill a unit of time with pushes.
        self.period = np.maximum(network.period.draw(each("period")), 1e-3)
        self.bandwidth = network.bandwidth.draw(each("bandwidth"))
        # 0 stands for an uplink without a limit.
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
        """The time from push number `count` of each node to the next, float64 [len(nodes)]."""
        if self.network.clock == "lock-step":
            return np.ones(len(nodes))
        if self.network.clock == "regular":
            return self.period[nodes]
        drawn = uniforms(self._named("gap", nodes, count))
        return -self.period[nodes] * np.log1p(-drawn)

    def latency(self, nodes: Int64Array, count: Int64Array, way: int) -> Float64Array:
        """The time that a message travels, float64 [len(nodes)].

        count: the number of the push at its sender; way: the number of the receiver in that push.
        """
        return self.network.latency.draw(self._named(f"latency {way}", nodes, count))

    def lost(self, nodes: Int64Array, count: Int64Array, way: int) -> BoolArray:
        """True for a message that is lost on its way, bool [len(nodes)]. Arguments as in
        `latency`.
        """
        return uniforms(self._named(f"lost {way}", nodes, count)) < self.network.loss

    def order(self, nodes: Int64Array, count: Int64Array) -> UInt64Array:
        """Random numbers, uint64, that order messages of one arrival time, together with the
        receiver's number.
        """
        return self._named("order", nodes, count)

    def stay(self, nodes: Int64Array, count: Int64Array, away: BoolArray) -> Float64Array:
        """The time that nodes stay away or present, exponentially distributed, float64
        [len(nodes)]. The mean absence is churn / (1 - churn) times the mean presence.
        """
        churn = self.network.churn
        mean = np.where(away, self.network.session * churn / (1 - churn), self.network.session)
        drawn = uniforms(self._named("stay", nodes, count))
        return -mean * np.log1p(-drawn)

    def until_restart(self, nodes: Int64Array, count: Int64Array) -> Float64Array:
        """The time until each node restarts, exponentially distributed, float64 [len(nodes)]."""
        drawn = uniforms(self._named("restart", nodes, count))
        return -np.log1p(-drawn) / self.network.restarts

    def _named(self, name: str, nodes: Int64Array, count: Int64Array) -> UInt64Array:
        """The key of draw number `count` of each node, among its draws of this name."""
        of_node = folds(fold_name(self._key, name), nodes)
        return folded(of_node, count)
