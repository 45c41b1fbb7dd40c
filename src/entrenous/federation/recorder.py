"""A recorder at the boundary of devices: exactly what leaves them, by the names that their algorithm declares.

An audit reads what is recorded and nothing else. Two views: `single`, what a server sees that opens every update, and `sum`, what one sees
that gets the sum of a round alone. What the declaration does not name cannot be recorded: the checks of the first round refuse it.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import Literal, NamedTuple, final

import numpy as np

from ..core.declared import Contract
from ..core.protocols import State, arrays_of
from ..core.types import Array, Int64Array
from ..core.update import Total, Update, gathered, real

View = Literal["single", "sum"]


class Seen(NamedTuple):
    """Arrays that were seen in one round.

    round: its number. received: {name: array}, the download as the server has it before it is delivered. users: int64 [m], whose devices
    took part, ascending. sent: {name: array}; in the view `single` `ptr` int64 [m + 1] and `item` int32 [n], then rows [n, ...], dense and
    shown arrays [m, ...] and `weight` [m], device by device; in the view `sum` rows [items, ...], dense arrays [groups, ...] and `weight`
    [groups] as float64 sums, `senders` int64 [items], and what is shown singly all the same, with its `sender` int64 [m].
    """

    round: int
    received: dict[str, Array]
    users: Int64Array
    sent: dict[str, Array]


@final
class Recorder:
    """Records what the devices of a federation receive and send. Give it to `Rounds`; `rounds` is what has been seen so far.

    Blocks of devices may report at the same time and in any order: what is recorded is in the order of the users.
    """

    def __init__(self, view: View = "single") -> None:
        self.view: View = view
        self.rounds: list[Seen] = []
        self._parts: list[tuple[Int64Array, Update]] = []
        self._turn = Lock()

    def sent(self, users: Int64Array, update: Update) -> None:
        """Records what a block of devices sends, after its limits."""
        with self._turn:
            self._parts.append((users.copy(), update))

    def ended(self, number: int, contract: Contract, download: State, total: Total) -> None:
        """Records a round that is over: what devices received, and what the server sees of it in this view."""
        order = sorted(self._parts, key=lambda part: int(part[0][0]))
        users = np.concatenate([part for part, _ in order] or [np.empty(0, np.int64)])
        sent = _singly(contract, [update for _, update in order]) if self.view == "single" else _summed(contract, total)
        received = {name: array.copy() for name, array in arrays_of(download).items()}
        self.rounds.append(Seen(number, received, users, sent))
        self._parts.clear()


def _singly(contract: Contract, updates: list[Update]) -> dict[str, Array]:
    """Updates of blocks side by side, with the declared arrays in the order of the declaration."""
    if not updates:
        return {}
    starts = np.cumsum([0, *(len(update.item) for update in updates)])
    ptr = np.concatenate([[0], *(update.ptr[1:] + start for update, start in zip(updates, starts, strict=False))])
    found: dict[str, Array] = {"ptr": ptr.astype(np.int64), "item": np.concatenate([update.item for update in updates])}
    for sent in contract.sends:
        if sent.way in ("rows", "dense", "shown"):
            found[sent.name] = np.concatenate([_arrays(update, sent.way)[sent.name] for update in updates])
    return {**found, "weight": np.concatenate([update.weight for update in updates])}


def _arrays(update: Update, way: str) -> Mapping[str, Array]:
    return {"rows": update.rows, "dense": update.dense, "shown": update.shown}[way]


def _summed(contract: Contract, total: Total) -> dict[str, Array]:
    """Sums as numbers, and what is shown singly by whom."""
    found: dict[str, Array] = {"senders": total.senders.copy(), "weight": real(total.weight)}
    for sent in contract.sends:
        if sent.way in ("rows", "dense"):
            found[sent.name] = real((total.rows if sent.way == "rows" else total.dense)[sent.name])
    if total.shown:
        shown = gathered(total)
        found |= {"sender": shown.sender, **{name: array.copy() for name, array in shown.arrays.items()}}
    return found
