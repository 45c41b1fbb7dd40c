"""Recorders at the boundary of devices: exactly the data that leaves them, by the names that their
algorithm declares.

An audit reads these records and nothing else. There are three views: `individual`, of a server that
opens every update; `sum`, of a server that gets the sum of a round alone; and that of some peers in
gossip. Data that the declaration does not name cannot be recorded: the checks of the first round
refuse it.
"""

from __future__ import annotations

from threading import Lock
from typing import Literal, NamedTuple, Protocol, final

import numpy as np

from ..core.contract.declared import Contract
from ..core.contract.gossip import Headers
from ..core.contract.protocols import State, arrays_of
from ..core.contract.update import Total, Update, gathered, real
from ..core.types import Array, Float32Array, Float64Array, Int64Array
from .item_rows import of_some, side_by_side

NO_UPDATE = Update(np.zeros(1, np.int64), np.empty(0, np.int32), {}, {}, np.empty(0, np.float32))
# Names in `Seen.sent` that are not those of declared arrays.
TAKEN = frozenset({"ptr", "item", "sender", "senders"})
View = Literal["individual", "sum"]


class Seen(NamedTuple):
    """The arrays that were seen in one round; between peers, in one message."""

    round: int
    """The number of the round; between peers the unit of time."""
    received: dict[str, Array]
    """{name: array}: the download before it is delivered."""
    users: Int64Array
    """int64 [m], ascending: the users whose devices took part; between peers the sender."""
    sent: dict[str, Array]
    """{name: array}. In the view `individual`: `ptr` int64 [m + 1] and `item` int32 [n], then rows
    [n, ...], dense and shown arrays [m, ...] and `weight` [m], device by device. In the view `sum`:
    rows [items, ...], dense arrays [groups, ...] and `weight` [groups] as float64 sums, `senders`
    int64 [items], and shown arrays device by device with their `sender` int64 [m]. Between peers:
    the declared parts, each [1, ...], and `receiver`. A declared array with a name in TAKEN gets an
    underscore: `item_`.
    """


class UpdateWatch(Protocol):
    """Sees each update that is about to leave its devices, after its limits. Blocks of devices may
    come at the same time.
    """

    def sent(self, users: Int64Array, update: Update) -> None: ...


@final
class Recorder:
    """Records what the devices of a federation receive and send. Give it to `Rounds`, and read
    `rounds`.

    Blocks of devices may report at the same time and in any order; the record is in the order of
    the users. watched: int64, ascending: the users whose updates are kept in the view `individual`;
    None = all. Dense updates of all users may exceed memory.
    """

    def __init__(self, view: View = "individual", watched: Int64Array | None = None) -> None:
        self.view: View = view
        self._watched = watched
        self.rounds: list[Seen] = []
        self._parts: list[tuple[Int64Array, Update]] = []
        self._turn = Lock()

    def sent(self, users: Int64Array, update: Update) -> None:
        """Records the update of a block of devices, after its limits."""
        if self.view == "sum":
            # A server of sums sees who took part and no update.
            update = NO_UPDATE
        elif self._watched is not None:
            # Copies of the watched rows alone: all updates may exceed memory.
            rows = np.flatnonzero(np.isin(users, self._watched))
            users = users[rows]
            update = of_some(update, rows)
        if len(users):
            with self._turn:
                self._parts.append((users.copy(), update))

    def ended(self, number: int, contract: Contract, download: State, total: Total) -> None:
        """Records the end of a round: the download, and the data that the server sees."""
        # Blocks reported in any order; none of them is empty.
        parts = sorted(self._parts, key=lambda part: int(part[0][0]))
        nobody = np.empty(0, np.int64)
        users = np.concatenate([nobody, *(users for users, _ in parts)])
        if self.view == "individual":
            sent = _singly(contract, [update for _, update in parts])
        else:
            sent = _summed(contract, total)
        received = {name: array.copy() for name, array in arrays_of(download).items()}
        self.rounds.append(Seen(number, received, users, sent))
        self._parts.clear()


@final
class NeighbourRecorder:
    """Records every message that reaches some peers, or every one that they sent. Give it to
    `Gossip`, and read `rounds`, one entry a message.

    peers: int64, the peers that keep what they receive; `sent`: whose messages are kept. The model
    that all nodes begin with is the `received` of the first message; later messages have none.
    """

    def __init__(self, peers: Int64Array, *, sent: bool = False) -> None:
        self.peers = peers
        self._sent = sent
        self.rounds: list[Seen] = []

    def arrived(
        self,
        time: Float64Array,
        who: Int64Array,
        models: Float32Array,
        headers: Headers,
        base: Float32Array,
    ) -> None:
        """Records those messages that reach the peers.

        time: float64 [m], in units of time; who: int64 [m], the receivers; models: float32
        [m, at least width]; base: float32 [width].
        """
        # Copies, as an array of places takes them: the engine reuses the memory of its messages.
        parties = headers.sender if self._sent else who
        for row in np.flatnonzero(np.isin(parties, self.peers)).tolist():
            message = np.array([row])
            one = headers.at(message)
            sent: dict[str, Array] = {
                "model": models[message, : len(base)],
                "sender": one.sender,
                "age": one.age,
                "samples": one.samples,
                "peers": one.peers,
                "receiver": who[message],
            }
            # All nodes begin with one model, so that it is kept once.
            received = {} if self.rounds else {"model": base.copy()}
            self.rounds.append(Seen(int(time[row]), received, one.sender, sent))


def _singly(contract: Contract, updates: list[Update]) -> dict[str, Array]:
    """Updates of blocks side by side, with the declared arrays in the order of the declaration."""
    if not updates:
        return {}
    whole = side_by_side(updates)
    arrays: dict[str, Array] = {"ptr": whole.ptr, "item": whole.item}
    for sent in contract.sends:
        if sent.way in ("rows", "dense", "shown"):
            arrays[_named(sent.name)] = getattr(whole, sent.way)[sent.name]
    arrays["weight"] = whole.weight
    return arrays


def _named(name: str) -> str:
    """The name of a declared array in `Seen.sent`."""
    if name in TAKEN:
        return f"{name}_"
    return name


def _summed(contract: Contract, total: Total) -> dict[str, Array]:
    """Sums as numbers, and shown arrays device by device."""
    arrays: dict[str, Array] = {"senders": total.senders.copy(), "weight": real(total.weight)}
    for sent in contract.sends:
        if sent.way == "rows":
            arrays[_named(sent.name)] = real(total.rows[sent.name])
        elif sent.way == "dense":
            arrays[_named(sent.name)] = real(total.dense[sent.name])
    if total.shown:
        shown = gathered(total)
        arrays["sender"] = shown.sender
        for name, array in shown.arrays.items():
            arrays[_named(name)] = array.copy()
    return arrays
