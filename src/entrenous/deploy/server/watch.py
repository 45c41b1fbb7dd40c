"""Sums that are far longer than they can honestly be: what a server can see of a lie under masks,
where it sees no update.

Numbers within the fixed point may be 32,768, millions of times what devices send, so one member of
a thousand can drag the model anywhere in a few rounds. The length of a sum shows that. It is held
against the median of the rounds before; before there are enough, against devices that the server
makes up: random histories, trained from the model of the round by the same code, which no member
has a say in.

It bounds a lie to ten times what all others send together, in every round, and names nobody. A
member that stays below that can still spoil the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.contract.protocols import Catalogue, State
from ...core.contract.update import Total, real
from ...core.keys import key
from ...core.types import Int64Array
from ...core.vocabulary import Vocabulary
from ...data.interactions import Interactions, build
from ...federation.shard import Shard
from ...kernels.arrays import squares
from ...kernels.generator import generator

FURTHER = (
    10.0  # times the reference: honest sums of FCF and FPL stay below 1.1 (tests/dragged_model.py)
)
ENOUGH, WINDOW = 5, 20  # rounds from which on there is a median, and of how many it is
MADE_UP = 10  # devices


def length(total: Total) -> float:
    """The Euclidean length of all rows and arrays of a sum, a device. Rows of which the sum says
    that nobody sent them count as well: it may lie."""
    arrays = [real(array).reshape(-1) for array in (*total.rows.values(), *total.dense.values())]
    return float(np.sqrt(sum(squares(array) for array in arrays))) / max(1, total.devices)


def reference(lengths: Sequence[float], first: float) -> float:
    """The length that a sum is held against. lengths: of the rounds that count, oldest first;
    first: before there are enough.
    """
    return float(np.median(lengths[-WINDOW:])) if len(lengths) >= ENOUGH else first


def too_long(total: Total, lengths: Sequence[float], first: Callable[[], float]) -> str:
    """Why a sum is none that honest members have; empty if it may be. lengths, first: as for
    `reference`; first is asked if need be.
    """
    usual = reference(lengths, first() if len(lengths) < ENOUGH else 0.0)
    found = length(total)
    if found <= FURTHER * usual:
        return ""
    before = "sums before it" if len(lengths) >= ENOUGH else "what made-up devices send"
    return f"its sum is {found / usual:.3g} times as long as {before}; at most {FURTHER:g}"


def made_up_length(
    algorithm: Any, catalogue: Catalogue, seed: int, server: State | None = None
) -> float:
    """The mean length of what single devices send that have random histories. algorithm: as
    configured for the catalogue; server: the state that they train from, None = the first."""
    rows = _made_up(catalogue, seed)
    own = rows.catalogue._replace(users=catalogue.users, interactions=catalogue.interactions)
    shard = Shard(algorithm, own, rows, np.arange(MADE_UP))
    state = algorithm.init_server(catalogue, key(seed, "server")) if server is None else server
    download = algorithm.download(state)
    devices = shard.init_devices(key(seed, "made-up devices"))
    found = []
    for user in range(MADE_UP):
        one: Int64Array = np.array([user])
        total, _ = shard.work(download, devices, one, key(seed, "made-up rounds"))
        found.append(length(total))
        shard.release(total)
    return float(np.mean(found))


def _made_up(catalogue: Catalogue, seed: int) -> Interactions:
    """Histories of MADE_UP users: as many items as a user has on average, drawn at random, with
    ratings within the scale.
    """
    drawn = generator(key(seed, "made-up histories"))
    each = min(catalogue.items, max(2, round(catalogue.interactions / catalogue.users)))
    items = np.concatenate([drawn.permutation(catalogue.items)[:each] for _ in range(MADE_UP)])
    low, high = catalogue.scale
    names = Vocabulary([str(number) for number in range(catalogue.items)], kind="item")
    users = Vocabulary([str(number) for number in range(MADE_UP)], kind="user")
    value = np.linspace(low, high, len(items), dtype=np.float32)
    return build(
        np.repeat(np.arange(MADE_UP), each),
        items,
        value=value,
        users=users,
        items=names,
        name="made-up histories",
    )
