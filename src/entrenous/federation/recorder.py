"""A recorder at the boundary of devices: exactly what leaves them, by the names that their
algorithm declares.

An audit reads what is recorded and nothing else. Three views: `individual`, what a server sees that
opens every update; `sum`, what one sees that gets the sum of a round alone; and what some peers see
of the others that gossip. What the declaration does not name cannot be recorded: the checks of the
first round refuse it.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import Literal, NamedTuple, Protocol, final

import numpy as np

from ..core.contract.declared import Contract
from ..core.contract.gossip import Headers
from ..core.contract.protocols import State, arrays_of
from ..core.contract.update import Total, Update, gathered, real
from ..core.types import Array, Float32Array, Float64Array, Int64Array

NO_UPDATE = Update(np.zeros(1, np.int64), np.empty(0, np.int32), {}, {}, np.empty(0, np.float32))
TAKEN = frozenset(
    {"ptr", "item", "sender", "senders"}
)  # names of what is seen beside the declared arrays
View = Literal["individual", "sum"]


class Seen(NamedTuple):
    """Arrays that were seen in one round.

    round: its number. received: {name: array}, the download as the server has it before it is
    delivered. users: int64 [m], whose devices took part, ascending. sent: {name: array}; in the
    view `individual` `ptr` int64 [m + 1] and `item` int32 [n], then rows [n, ...], dense and shown
    arrays [m, ...] and `weight` [m], device by device; in the view `sum` rows [items, ...], dense
    arrays [groups, ...] and `weight` [groups] as float64 sums, `senders` int64 [items], and what is
    shown singly all the same, with its `sender` int64 [m]. Between peers one `Seen` is one message:
    `round` the unit of time, `users` its sender, `sent` the declared parts, each [1, ...], and
    `receiver`. A declared array that is called as one of the others has an underscore behind its
    name: `item_`.
    """

    round: int
    received: dict[str, Array]
    users: Int64Array
    sent: dict[str, Array]


class UpdateWatch(Protocol):
    """Whatever is shown each update that is about to leave its devices, after its limits; blocks of
    devices may come at the same time.
    """

    def sent(self, users: Int64Array, update: Update) -> None: ...


@final
class Recorder:
    """Records what the devices of a federation receive and send. Give it to `Rounds`; `rounds` is
    what has been seen so far.

    Blocks of devices may report at the same time and in any order: what is recorded is in the order
    of the users. watched: int64, the users whose updates are kept in the view `individual`,
    ascending; None = all. Dense updates of everybody may be more than memory holds."""

    def __init__(self, view: View = "individual", watched: Int64Array | None = None) -> None:
        self.view: View = view
        self._watched = watched
        self.rounds: list[Seen] = []
        self._parts: list[tuple[Int64Array, Update]] = []
        self._turn = Lock()

    def sent(self, users: Int64Array, update: Update) -> None:
        """Records what a block of devices sends, after its limits."""
        if self.view == "individual" and self._watched is not None:
            rows = np.flatnonzero(np.isin(users, self._watched))
            users, update = users[rows], some_devices(update, rows)
        kept = update if self.view == "individual" else NO_UPDATE
        if len(users):
            with self._turn:
                self._parts.append((users.copy(), kept))

    def ended(self, number: int, contract: Contract, download: State, total: Total) -> None:
        """Records a round that is over: what devices received, and what the server sees of it in
        this view.
        """
        order = sorted(self._parts, key=lambda part: int(part[0][0]))
        users = np.concatenate([part for part, _ in order] or [np.empty(0, np.int64)])
        sent = (
            _singly(contract, [update for _, update in order])
            if self.view == "individual"
            else _summed(contract, total)
        )
        received = {name: array.copy() for name, array in arrays_of(download).items()}
        self.rounds.append(Seen(number, received, users, sent))
        self._parts.clear()


@final
class NeighbourRecorder:
    """Records every message that reaches some peers. Give it to `Gossip`; `rounds` is what has been
    seen so far, one entry a message.

    peers: int64, who keeps what it receives. base: the model that everybody begins with, float32
    [width], which every peer has: it is the `received` of the first message; the others have none.
    """

    def __init__(self, peers: Int64Array) -> None:
        self.peers = peers
        self.rounds: list[Seen] = []

    def arrived(
        self,
        time: Float64Array,
        who: Int64Array,
        models: Float32Array,
        headers: Headers,
        base: Float32Array,
    ) -> None:
        """Records those of some messages that reach the peers: when (in units of time), whom, and
        what they hold.
        """
        for row in np.flatnonzero(np.isin(who, self.peers)).tolist():
            one = slice(row, row + 1)
            parts: dict[str, Array] = {
                "sender": headers.sender,
                "age": headers.age,
                "samples": headers.samples,
                "peers": headers.peers,
            }
            sent = {
                "model": models[one, : len(base)].copy(),
                **{name: part[one].copy() for name, part in parts.items()},
            }
            received = {} if self.rounds else {"model": base.copy()}
            self.rounds.append(
                Seen(
                    int(time[row]), received, sent["sender"], {**sent, "receiver": who[one].copy()}
                )
            )


def some_devices(update: Update, rows: Int64Array) -> Update:
    """The update of some of its devices alone. rows: int64, their places in it, ascending."""
    counts = np.diff(update.ptr)[rows]
    ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    own = np.repeat(update.ptr[rows] - ptr[:-1], counts) + np.arange(int(ptr[-1]))
    return Update(
        ptr,
        update.item[own],
        {name: row[own] for name, row in update.rows.items()},
        {name: array[rows] for name, array in update.dense.items()},
        update.weight[rows],
        update.group[rows] if len(update.group) else update.group,
        update.groups,
        {name: array[rows] for name, array in update.shown.items()},
        update.sender[rows] if len(update.sender) else update.sender,
    )


def _singly(contract: Contract, updates: list[Update]) -> dict[str, Array]:
    """Updates of blocks side by side, with the declared arrays in the order of the declaration."""
    if not updates:
        return {}
    starts = np.cumsum([0, *(len(update.item) for update in updates)])
    ptr = np.concatenate(
        [[0], *(update.ptr[1:] + start for update, start in zip(updates, starts, strict=False))]
    )
    found: dict[str, Array] = {
        "ptr": ptr.astype(np.int64),
        "item": np.concatenate([update.item for update in updates]),
    }
    for sent in contract.sends:
        if sent.way in ("rows", "dense", "shown"):
            found[_named(sent.name)] = np.concatenate(
                [_arrays(update, sent.way)[sent.name] for update in updates]
            )
    return {**found, "weight": np.concatenate([update.weight for update in updates])}


def _named(name: str) -> str:
    """The name of a declared array among all that was seen."""
    return f"{name}_" if name in TAKEN else name


def _arrays(update: Update, way: str) -> Mapping[str, Array]:
    return {"rows": update.rows, "dense": update.dense, "shown": update.shown}[way]


def _summed(contract: Contract, total: Total) -> dict[str, Array]:
    """Sums as numbers, and what is shown singly by whom."""
    found: dict[str, Array] = {"senders": total.senders.copy(), "weight": real(total.weight)}
    for sent in contract.sends:
        if sent.way in ("rows", "dense"):
            found[_named(sent.name)] = real(
                (total.rows if sent.way == "rows" else total.dense)[sent.name]
            )
    if total.shown:
        shown = gathered(total)
        found |= {
            "sender": shown.sender,
            **{_named(name): array.copy() for name, array in shown.arrays.items()},
        }
    return found
