"""How the cost of a round grows with users, items, factors and interactions, from a federation of
1,000 devices on.
"""

from __future__ import annotations

import statistics
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from entrenous.core.contract.declared import rounds_an_epoch
from entrenous.core.contract.protocols import Progress
from entrenous.core.keys import key
from entrenous.data.interactions import Interactions
from entrenous.data.sets.synthetic_fpl import SKEW
from entrenous.data.split.leave_one_out import draw_candidates
from entrenous.data.split.types import Held
from entrenous.data.synthetic import synthetic
from entrenous.federation.gossip import Gossip
from entrenous.federation.rounds import Rounds
from entrenous.federation.shard import Ledger, Threads
from entrenous.systems.named import kind_of

from .timing import cost

AXES = ("users", "items", "factors", "interactions")
TIMES, MEASURED = (
    4,
    3,
)  # how much larger items, factors and interactions get; rounds that are measured
LINEAR = 1.3  # a cost that grows by more than this times the growth of the axis is called out
CANDIDATES = 50  # of a row by which a PEPPER node judges
DEVICES = 10_000  # the most of users if it is not said


class Size(NamedTuple):
    """The size of a federation. interactions: of each user."""

    users: int = 1000
    items: int = 2000
    factors: int = 16
    interactions: int = 24


class Grown(NamedTuple):
    """An algorithm whose growth is measured. most: of devices that this machine is asked to hold.
    not_linear: axes along which a cost should grow otherwise, each with the reason."""

    name: str
    settings: dict[str, Any]
    most: int
    not_linear: dict[str, str] = {}  # noqa: RUF012  # never written to


SQUARES = "x x' of the factors is computed, and sent by devices: F (F + 1) / 2 numbers"
GROWN = (
    Grown(
        "pfpl+", {"learning_rate": 1e-6}, 1_000_000
    ),  # small: an item gets the sum of 12,000 updates a round
    Grown("fcf", {"form": "gram"}, 1_000_000, {"factors": SQUARES}),
    Grown("cali3f-gmf", {"cohort": 0}, 100_000),  # 1,000,000 are 40 CPU s an epoch
    Grown("fbalf", {}, 1_000_000),
    Grown(
        "pepper-gmf",
        {},
        10_000,
        # as many whole models: 100,000 of 2,000 items x 16 factors are 13 GB, and what is in the
        # post
    ),
)


class Measured(NamedTuple):
    """What an epoch costs in which every device takes part once. memory_mb: of arrays at its peak,
    the model and all devices' state among them, without the rows. up, down: bytes of a device."""

    cpu_seconds: float
    memory_mb: float
    up: float
    down: float


def growth(threads: int, progress: Progress, devices: int = DEVICES) -> dict[str, Any]:
    """CPU seconds, memory and bytes of an epoch in which every device takes part once, against
    users (times ten up to `devices`), items, factors and interactions (each times four), of FPL,
    FCF, Cali3F, FBALF and PEPPER on synthetic data. A growth is the cost at the larger size over
    that at the smaller, divided by the same of the axis: 1 is linear. The columns of a line: axis,
    from, to, CPU s, MB, bytes up and down of a device, growth of CPU and of memory.
    """
    lines, steps = (
        list[dict[str, Any]](),
        [(one, *step) for one in GROWN for step in _steps(min(devices, one.most))],
    )
    known = dict[tuple[str, Size], Measured]()
    for number, (one, axis, small, large) in enumerate(steps):
        progress(number, len(steps), f"{one.name}, {axis}")
        for size in (small, large):
            if (one.name, size) not in known:
                known[one.name, size] = measured(one, size, threads)
        lines.append(_line(one, axis, small, large, known[one.name, small], known[one.name, large]))
    return {
        "lines": lines,
        "beyond": [
            f"{line['algorithm']} {line['axis']} to {line['to']}" for line in lines if _beyond(line)
        ],
        "threads": Threads(threads).workers,
        "against": f"linear growth: at most {LINEAR:g} times; not linear by design: "
        + "; ".join(
            f"{one.name} in {axis} ({why})" for one in GROWN for axis, why in one.not_linear.items()
        ),
    }


def _beyond(line: dict[str, Any]) -> bool:
    """Whether a cost grew by more than it may, along an axis in which it should be linear."""
    exempt = next(one.not_linear for one in GROWN if one.name == line["algorithm"])
    return line["axis"] not in exempt and any(
        line[f"{cost}_growth"] > LINEAR for cost in ("cpu", "memory", "up", "down")
    )


def _steps(most: int) -> Iterator[tuple[str, Size, Size]]:
    """An axis, and two sizes that differ along it."""
    small = Size()
    while small.users * 10 <= most:
        yield "users", small, small._replace(users=10 * small.users)
        small = small._replace(users=10 * small.users)
    for axis in AXES[1:]:
        yield axis, Size(), Size()._replace(**{axis: TIMES * getattr(Size(), axis)})


def _line(
    one: Grown, axis: str, small: Size, large: Size, before: Measured, after: Measured
) -> dict[str, Any]:
    times = getattr(large, axis) / getattr(small, axis)
    return {
        "algorithm": one.name,
        "axis": axis,
        "from": getattr(small, axis),
        "to": getattr(large, axis),
        "cpu_seconds": after.cpu_seconds,
        "memory_mb": after.memory_mb,
        "bytes_up": after.up,
        "bytes_down": after.down,
        "cpu_growth": after.cpu_seconds / before.cpu_seconds / times,
        "memory_growth": after.memory_mb / before.memory_mb / times,
        "up_growth": after.up / max(before.up, 1) / times,
        "down_growth": after.down / max(before.down, 1) / times,
    }


def measured(one: Grown, size: Size, threads: int) -> Measured:
    """An algorithm at a size: the median of some epochs after one that compiles and fills caches,
    and the peak of another training.
    """
    data = _data(size)
    step, ledger = _training(one, size, data, threads)
    step()
    before = ledger()
    seconds = statistics.median(cost(step).cpu for _ in range(MEASURED))
    up, down = (
        (getattr(ledger(), way) - getattr(before, way)) / MEASURED / size.users
        for way in ("bytes_up", "bytes_down")
    )
    del step, ledger
    return Measured(seconds, _peak_mb(lambda: _training(one, size, data, threads)[0]()), up, down)


def _peak_mb(call: Callable[[], object]) -> float:
    """The most MB (2^20 bytes) that a call held at once, as NumPy and Python asked for it."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def _data(size: Size) -> Interactions:
    """Synthetic rows, with ratings from 1 to 5 that follow from the item."""
    data = synthetic(
        users=size.users,
        items=size.items,
        interactions=size.users * size.interactions,
        skew=SKEW,
        seed=0,
    )
    return replace(data, value=(1 + data.item % 5).astype(np.float32))


def _training(
    one: Grown, size: Size, data: Interactions, threads: int
) -> tuple[Callable[[], None], Callable[[], Ledger]]:
    """A training that runs an epoch when it is called, and what it has sent so far."""
    kind, preset = kind_of(one.name)
    algorithm, executor = (
        kind.parse({**preset, **one.settings, "factors": size.factors}),
        Threads(threads),
    )
    made: Any
    if one.name.startswith("pepper"):
        made = Gossip(algorithm, data, weighting=_judged_by(data), executor=executor)
    else:
        made = Rounds(algorithm, data, executor=executor)
    state, rounds = (
        [made.start()],
        1 if isinstance(made, Gossip) else rounds_an_epoch(made.algorithm, data.catalogue),
    )

    def step() -> None:
        state[0] = made.advance(state[0], state[0].round + rounds)

    return step, lambda: state[0].ledger


def _judged_by(data: Interactions) -> Held:
    """A row of each user, with candidates, by which their node judges models."""
    keep = np.zeros(len(data), np.bool_)
    keep[data.ptr[:-1]] = True
    return Held(
        data.select(keep),
        draw_candidates(data, np.arange(len(data.users)), CANDIDATES, key(0, "growth")),
    )


BENCHES = {"growth": growth}
