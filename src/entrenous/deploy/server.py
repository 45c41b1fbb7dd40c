"""The server of a federation: rounds over a link. What it has taken is on its disk before it counts, so it may die at any moment."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any, TypeVar, final

import numpy as np

from ..core.errors import EntrenousError
from ..core.keys import key as key_of
from ..core.keys import select_key
from ..core.protocols import Histories, Progress, State, arrays_of, delivered, silent
from ..core.types import Int64Array
from ..core.update import Total
from ..federation.ledger import Ledger
from ..federation.shard import Shard
from ..store import model_sha256
from ..wire import tensors
from .codes import Code, Refused
from .contribution import shape_of
from .frames import opened, seal, signed_by
from .intake import Intake, Open
from .journal import FRAME
from .link import Link
from .server_folder import ServerFolder, failed

T = TypeVar("T")
POLL = 0.2  # seconds that the server waits for answers before it looks around
AGAIN = (
    30.0  # seconds after which a node that has not answered is asked again: a request may be lost, an answer is the same twice
)
FAREWELL = 30.0  # seconds for the nodes to take the trained model
NAME = "server"


class Stopped(EntrenousError):
    """The server was told to stop; it goes on from its folder."""


def serve(link: Link, folder: Path, stop: Event | None = None, progress: Progress = silent) -> str | None:
    """Runs a federation from where its folder stands to its end; the sha256 of the trained model, None if told to stop before.

    Raises InputError for a folder that is no server's, or that another one is at work on.
    """
    held = ServerFolder(folder)
    try:
        return Server(held, link, stop or Event(), progress).run()
    except Stopped:
        held.log("stopped")
        return None
    finally:
        held.close()


@final
class Server:
    """One federation at work."""

    def __init__(self, folder: ServerFolder, link: Link, stop: Event, progress: Progress = silent) -> None:
        self.folder, self.link, self.terms, self.roll = folder, link, folder.terms, folder.roll
        self.algorithm = self.terms.make()
        self._stop, self._progress = stop, progress
        self._key = key_of(self.terms.seed, "rounds")
        catalogue = self.terms.catalogue
        like = Shard(self.algorithm, catalogue, Nobody(catalogue.items), np.empty(0, np.int64)).empty()
        shape = shape_of(like, catalogue.items, self.algorithm.update_bytes(catalogue))
        self.intake = Intake(self.terms.run, self.roll, shape, folder.log)
        self._addresses: dict[str, str] = {}  # of nodes, by name
        self._greeted: dict[str, float] = {}  # addresses that were asked for their names, and when
        found = folder.newest(self.algorithm)
        first = self.algorithm.init_server(catalogue, key_of(self.terms.seed, "server"))
        self.round, self.state, self.ledger = found or (0, first, Ledger())
        folder.log(
            f"run {self.terms.run}: {self.terms.algorithm}, {'from the start' if found is None else f'going on after round {self.round}'}"
        )

    def run(self) -> str:
        """All rounds that are left, and the farewell."""
        while self.round < self.terms.rounds:
            began = time.monotonic()
            self.one_round()
            self._progress(self.round, self.terms.rounds, "round")
            self._tell("running", time.monotonic() - began)
        digest = self.folder.finish(self.state)
        self._farewell()
        self.folder.log(f"finished: {self.round} rounds, model {digest}")
        self._tell("finished", 0.0)
        return digest

    def one_round(self) -> None:
        """Select, send, take, aggregate, commit."""
        users = self.algorithm.select(self.state, self.terms.catalogue, np.uint64(select_key(self._key, self.round)))
        asked = self.roll.by_node(users)
        download = self.algorithm.download(self.state)
        model = bytes.fromhex(model_sha256(arrays_of(download)))
        journal = None
        while journal is None:
            journal = self._kept("journal", lambda: self.folder.journal(self.round))
        try:
            recorded = [record.content for record in self.folder.recorded(self.round) if record.kind == FRAME]
            self.intake.begin(Open(self.round, model, asked), journal, recorded)
            if recorded:
                self.folder.log(f"round {self.round}: {len(self.intake.taken)} answers from the journal")
            self._collect(lambda name: self._request("work", download, asked[name], model=model))
            total = self.intake.total
        finally:
            self.intake.end()
            journal.close()
        self._commit(total, len(users))

    # ---- asking and taking -----------------------------------------------------------------------------------------------------------

    def _collect(self, request: Callable[[str], bytes]) -> None:
        """Asks the nodes of the round until all have answered, or enough of them when the time is up."""
        sent: dict[str, tuple[str, float]] = {}
        began = time.monotonic()
        while self.intake.missing():
            self._look_around()
            for name in self.intake.missing():
                self._ask(name, request, sent)
            self._take()
            if time.monotonic() - began > self.terms.deadline:
                if self._enough():
                    return
                self.folder.log(f"round {self.round}: {self._share():.0%} of the users in {self.terms.deadline:g} s, the quorum is "
                                f"{self.terms.quorum:.0%}; not counted, the model is unchanged, the others are asked again")  # fmt: skip
                began = time.monotonic()

    def _ask(self, name: str, request: Callable[[str], bytes], sent: dict[str, tuple[str, float]]) -> None:
        address, now = self._addresses.get(name), time.monotonic()
        if address is None or (name in sent and sent[name][0] == address and now - sent[name][1] < AGAIN):
            return
        frame = request(name)
        self.link.send(address, frame, self.terms.deadline)
        sent[name] = (address, now)
        self.ledger = self.ledger._replace(bytes_down=self.ledger.bytes_down + len(frame), messages=self.ledger.messages + 1)

    def _take(self) -> None:
        """What has come: names of nodes, and answers."""
        for address, frame in self.link.receive(POLL):
            if self._is_hello(address, frame):
                continue
            receipt = self._kept("journal", lambda frame=frame: self.intake.receive(frame))  # type: ignore[misc]
            if receipt is not None and receipt.code is Code.ACCEPTED:
                self.ledger = self.ledger._replace(bytes_up=self.ledger.bytes_up + len(frame))

    def _look_around(self) -> None:
        """Who is there? Addresses that have not said so are asked. Raises Stopped."""
        if self._stop.is_set():
            raise Stopped
        present, now = self.link.present(), time.monotonic()
        self._addresses = {name: address for name, address in self._addresses.items() if address in present}
        known = set(self._addresses.values())
        for address in present:
            if address not in known and now - self._greeted.get(address, -AGAIN) >= AGAIN:
                self._greeted[address] = now
                self.link.send(address, self._seal("hello"), AGAIN)

    def _is_hello(self, address: str, frame: bytes) -> bool:
        """Takes the name of a node, if this is one's."""
        try:
            found = opened(frame, 0)
            member = self.roll.members.get(found.node)
            if (
                found.head.kind != "hello"
                or found.head.run != self.terms.run
                or member is None
                or not signed_by(found, member.key)
            ):
                return False
        except Refused:
            return False
        self._addresses[found.node] = address
        return True

    def _share(self) -> float:
        """Of the users who were asked, those whose node has answered."""
        asked = {name: len(users) for name, users in self.intake.asked.items()}
        return sum(asked[name] for name in self.intake.taken) / max(1, sum(asked.values()))

    def _enough(self) -> bool:
        return bool(self.intake.taken) and self._share() >= self.terms.quorum

    # ---- the end of a round ----------------------------------------------------------------------------------------------------------

    def _commit(self, total: Total, users: int) -> None:
        """The next model, on the disk before anybody is asked with it."""
        state = self.algorithm.aggregate(self.state, total) if total.devices else self.state
        ledger = self.ledger._replace(device_rounds=self.ledger.device_rounds + total.devices)
        while self._kept("checkpoint", lambda: self._committed(state, ledger)) is None:
            pass
        self.folder.log(f"round {self.round}: {total.devices} of {users} devices")
        self.state, self.ledger, self.round = state, ledger, self.round + 1

    def _committed(self, state: State, ledger: Ledger) -> bool:
        self.folder.commit(self.round + 1, state, ledger)
        return True

    def _kept(self, what: str, act: Callable[[], T]) -> T | None:
        """The result of writing something; None, after a while, when the disk refuses: nothing has changed then."""
        try:
            return act()
        except OSError as cause:
            self.folder.log(
                f"round {self.round}: the {what} cannot be written ({failed(cause)}); nothing was counted; trying again"
            )
            if self._stop.wait(1.0):
                raise Stopped from None
            return None

    def _farewell(self) -> None:
        """The trained model to every node that is there, to recommend by."""
        download, everyone = (
            self.algorithm.download(self.state),
            {name: member.users for name, member in self.roll.members.items()},
        )
        waiting, sent, began = set(everyone), dict[str, float](), time.monotonic()
        while waiting and time.monotonic() - began < FAREWELL:
            self._look_around()
            for name in waiting & self._addresses.keys() - sent.keys():
                self.link.send(self._addresses[name], self._request("model", download, everyone[name]), FAREWELL)
                sent[name] = time.monotonic()
            for address, frame in self.link.receive(POLL):
                if not self._is_hello(address, frame):
                    waiting -= {name for name, where in self._addresses.items() if where == address}
        if waiting:
            self.folder.log(f"{len(waiting)} nodes were not there to take the trained model")

    # ---- small parts -----------------------------------------------------------------------------------------------------------------

    def _request(self, kind: str, download: State, users: Int64Array, model: bytes = b"") -> bytes:
        """A request to the node of some users, with what it delivers for them."""
        arrays = arrays_of(delivered(self.algorithm, download, users))
        body = tensors.write({**arrays, **({"users": users} if kind == "work" else {})})
        return self._seal(kind, body, round=self.round, model=model, items=self.terms.items, about={"users": len(users)})

    def _seal(self, kind: str, body: bytes = b"", **fields: Any) -> bytes:
        return seal(self.folder.key, kind, body, run=self.terms.run, node=NAME, **fields)

    def _tell(self, status: str, seconds: float) -> None:
        self.folder.status(
            {"status": status, "run": self.terms.run, "round": self.round, "rounds": self.terms.rounds, "seconds": round(seconds, 3),
             "nodes": len(self._addresses), "of": len(self.roll.members), "bytes_up": self.ledger.bytes_up,
             "bytes_down": self.ledger.bytes_down, "answers": {code.value: n for code, n in sorted(self.intake.counts.items())}}
        )  # fmt: skip


@final
class Nobody:
    """The histories that a server has: none, of no users. items: of the catalogue."""

    def __init__(self, items: int) -> None:
        self._items = items

    def histories(self, users: Int64Array, avoid: Any = None) -> Histories:
        """Of no users."""
        ptr, item, none = np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.int64)
        return Histories(ptr, item, np.empty(0, np.float32), ptr, item, none, none, np.zeros((self._items, 2)))
