"""Sums that are far longer than honest ones: the one trace of a lie that a server sees under masks,
where it sees no update.

Numbers within the fixed point may be 32,768, millions of times what devices send, so one member of
a thousand can drag the model anywhere in a few rounds. The length of a sum shows that. It is
compared with the median of the rounds before. While these are few, it is compared with devices that
the server makes up: random histories, trained from the model of the round by the same code, in
which no member has a say.

This bounds a lie to ten times what all others send together, in every round, and names nobody. A
member that stays below the bound can still spoil the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from entrenous.core.contract.protocols import Catalogue, State
from entrenous.core.contract.update import Total, real
from entrenous.core.keys import key
from entrenous.data.interactions import Interactions, Vocabulary, build
from entrenous.federation.shard import Shard
from entrenous.kernels.arrays import squares
from entrenous.kernels.generator import generator

# Times the reference: honest sums of FCF and FPL stay below 1.1 (tests/dragged_model.py).
FURTHER = 10.0
# Rounds from which on there is a median, and of how many it is.
ENOUGH = 5
WINDOW = 20
MADE_UP = 10  # devices


def length(total: Total) -> float:
    """Returns the Euclidean length of all rows and arrays of a sum, a device. Rows that nobody
    sent, as the sum says, count as well: the sum may lie.
    """
    arrays = [real(array).reshape(-1) for array in (*total.rows.values(), *total.dense.values())]
    return float(np.sqrt(sum(squares(array) for array in arrays))) / max(1, total.devices)


def too_long(total: Total, lengths: Sequence[float], first: Callable[[], float]) -> str:
    """Returns why a sum is too long to be one of honest members; empty if it may be one. lengths:
    of the rounds that count, oldest first; first: called for the length with which it is compared
    while there are too few of these.
    """
    if len(lengths) >= ENOUGH:
        usual = float(np.median(lengths[-WINDOW:]))
        others = "sums before it"
    else:
        usual = first()
        others = "what made-up devices send"
    size = length(total)
    if size <= FURTHER * usual:
        return ""
    return f"its sum is {size / usual:.3g} times as long as {others}; at most {FURTHER:g}"


def made_up_length(
    algorithm: Any, catalogue: Catalogue, seed: int, server: State | None = None
) -> float:
    """Returns the mean length of the updates of single devices with random histories. algorithm: as
    configured for the catalogue; server: the state that they train from, None = the first.
    """
    rows = _made_up(catalogue, seed)
    # The size of the federation is that of the real one.
    sized = rows.catalogue._replace(users=catalogue.users, interactions=catalogue.interactions)
    shard = Shard(algorithm, sized, rows, np.arange(MADE_UP))
    if server is None:
        server = algorithm.init_server(catalogue, key(seed, "server"))
    download = algorithm.download(server)
    devices = shard.init_devices(key(seed, "made-up devices"))
    draws = key(seed, "made-up rounds")
    lengths = []
    for user in range(MADE_UP):
        total, _ = shard.work(download, devices, np.array([user]), draws)
        lengths.append(length(total))
        shard.release(total)
    return float(np.mean(lengths))


def _made_up(catalogue: Catalogue, seed: int) -> Interactions:
    """Returns the histories of MADE_UP users: as many items as a user has on average, drawn at
    random, with ratings within the scale.
    """
    drawn = generator(key(seed, "made-up histories"))
    each = min(catalogue.items, max(2, round(catalogue.interactions / catalogue.users)))
    items = np.concatenate([drawn.permutation(catalogue.items)[:each] for _ in range(MADE_UP)])
    low, high = catalogue.scale
    value = np.linspace(low, high, len(items), dtype=np.float32)
    return build(
        np.repeat(np.arange(MADE_UP), each),
        items,
        value=value,
        users=Vocabulary(size=MADE_UP, kind="user"),
        items=Vocabulary(size=catalogue.items, kind="item"),
        name="made-up histories",
    )
