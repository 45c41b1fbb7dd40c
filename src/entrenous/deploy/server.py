"""The server of a federation: rounds over a link. What it has taken is on its disk before it counts, so it may die at any moment."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any, TypeVar, final

import numpy as np

from ..core.keys import key as key_of
from ..core.keys import select_key
from ..core.protocols import Progress, State, silent
from ..core.types import Int64Array
from ..core.update import Total
from ..federation.ledger import Ledger
from ..wire.download import write_download
from .caps import Caps, RoundHalted, halted, moved
from .codes import Code, FrameRefused
from .contribution import agreed
from .exchange import Exchange, ServerStopped
from .frames import opened, seal
from .intake import Open, RoundIntake
from .journal import FRAME
from .link import ServerLink
from .request import announced_of
from .secure_server import SecureRound
from .server_folder import ServerFolder, failed

T = TypeVar("T")
FAREWELL = 30.0  # seconds for the nodes to take the trained model
NAME, NAMED = "server", 20  # nodes that the status names, at most


def serve(link: ServerLink, folder: Path, stop: Event | None = None, progress: Progress = silent) -> str | None:
    """Run a federation from the state in its folder to its end. Returns the sha256 of the trained model, None if told to stop
    before.

    Raises InputError for a folder that is no server's, or that another server is using, and RoundHalted for a round that would do more
    to the model than the terms allow.
    """
    held = ServerFolder(folder)
    try:
        return FederationServer(held, link, stop or Event(), progress).run()
    except ServerStopped:
        held.log("stopped")
        return None
    except RoundHalted as why:
        held.log(f"halted: {why}")
        raise
    finally:
        held.close()


@final
class FederationServer:
    """The server of one federation: asks nodes to train, sums their updates, and stores each new model before it is used."""

    def __init__(self, folder: ServerFolder, link: ServerLink, stop: Event, progress: Progress = silent) -> None:
        self.folder, self.terms, self.members = folder, folder.terms, folder.members
        self.algorithm, catalogue = self.terms.make(place=folder.algorithm), self.terms.catalogue
        self.exchange = Exchange(link, self.terms.run, self.members, lambda: self.seal("hello"), stop, self._wait)
        self._progress, self._key = progress, key_of(self.terms.seed, "rounds")
        self._took: list[float] = []  # seconds, of each round of this process
        self.contract = agreed(self.algorithm, catalogue)
        caps = Caps.of(self.contract, self.terms.most_norm, self.terms.most_weight)
        self.intake = RoundIntake(self.terms.run, self.members, self.contract, folder.log, caps)
        self._moved = self._longest = 0.0  # how far the last round moved the model, and the longest answer of this process
        found = folder.newest(self.algorithm)
        first = self.algorithm.init_server(catalogue, key_of(self.terms.seed, "server"))
        self.round, self.state, self.ledger = found or (0, first, Ledger())
        begun = "from the start" if found is None else f"going on after round {self.round}"
        folder.log(f"run {self.terms.run}: {self.terms.algorithm}, {begun}")

    def run(self) -> str:
        """Run the rounds that are left, send the trained model to the nodes, and return its sha256."""
        while self.round < self.terms.rounds:
            began = time.monotonic()
            self.one_round()
            self._took.append(time.monotonic() - began)
            self._progress(self.round, self.terms.rounds, "round")
            self._tell("running")
        digest = self.kept("trained model", lambda: self.folder.finish(self.state))
        self._farewell()
        self.folder.log(f"finished: {self.round} rounds, model {digest}")
        self._tell("finished")
        return digest

    def one_round(self) -> None:
        """Run one round: select users, send the download, collect updates, aggregate, and store the new model."""
        users = self.algorithm.select(self.state, self.terms.catalogue, np.uint64(select_key(self._key, self.round)))
        download = self.algorithm.download(self.state)
        now = Open(self.round, announced_of(self.contract, download), self.members.by_node(users))
        total = SecureRound(self, now, download).run() if self.terms.secure == "masks" else self._plain(now, download)
        self._commit(total, len(users))

    def _plain(self, now: Open, download: State) -> Total:
        """The sum of what the nodes answer, each answer seen by itself."""
        journal = self.kept("journal", lambda: self.folder.journal(now.round))
        try:
            recorded = [record.content for record in self.folder.recorded(now.round) if record.kind == FRAME]
            self.intake.begin(now, journal, recorded)
            if recorded:
                self.folder.log(f"round {now.round}: {len(self.intake.taken)} answers from the journal")
            while self.intake.missing():
                request = lambda name: self.request("work", download, now.asked[name], now.model)  # noqa: E731
                self.exchange.gather(self.intake.missing, request, self._take, self.terms.deadline)
                if self.enough(now, set(self.intake.taken)):
                    break
            return self.intake.total
        finally:
            self.intake.end()
            journal.close()

    def _take(self, frame: bytes) -> None:
        receipt = self.kept("journal", lambda: self.intake.receive(frame))
        if receipt.code is Code.ACCEPTED:
            self.received(frame)

    def received(self, frame: bytes) -> None:
        """Count the bytes of an accepted answer."""
        self.ledger = self.ledger._replace(bytes_up=self.ledger.bytes_up + len(frame))

    def enough(self, now: Open, answered: set[str]) -> bool:
        """Whether the nodes that have answered serve enough of the asked users (the quorum); if not, that is logged."""
        asked = {name: len(users) for name, users in now.asked.items()}
        share = sum(asked[name] for name in answered) / max(1, sum(asked.values()))
        if answered == asked.keys() or (answered and share >= self.terms.quorum):
            return True
        self.folder.log(f"round {now.round}: {share:.0%} of the users in {self.terms.deadline:g} s, the quorum is {self.terms.quorum:.0%}; "
                        "not counted, the model is unchanged, the others are asked again")  # fmt: skip
        return False

    # ---- the end of a round ----------------------------------------------------------------------------------------------------------

    def _commit(self, total: Total, users: int) -> None:
        """The next model, on the disk before anybody is asked with it."""
        state = self._checked(total)
        ledger = self.ledger._replace(device_rounds=self.ledger.device_rounds + total.devices)
        sent = self.exchange
        ledger = ledger._replace(bytes_down=ledger.bytes_down + sent.bytes_down, messages=ledger.messages + sent.messages)
        sent.bytes_down = sent.messages = 0
        self.kept("checkpoint", lambda: self.folder.commit(self.round + 1, state, ledger))
        self.folder.log(f"round {self.round}: {total.devices} of {users} devices")
        self.state, self.ledger, self.round = state, ledger, self.round + 1

    def _checked(self, total: Total) -> State:
        """The next state. Raises RoundHalted for one that is not finite, or moves the model further than the terms allow."""
        if not total.devices:
            return self.state
        state, own = self.algorithm.aggregate(self.state, total), self.algorithm
        far = moved(own.download(self.state), own.download(state)) if np.isfinite(moved(self.state, state)) else np.inf
        why = halted(self.round, far, self.terms.most_move, self.intake.lengths)
        if why is not None:
            self._tell("halted", reason=str(why))
            if self.terms.secure == "masks":  # a second sum of the round would tell who sent what: it is lost
                self.kept("checkpoint", lambda: self.folder.commit(self.round + 1, self.state, self.ledger))
            raise why
        self._moved = far
        self._longest = max((self._longest, *self.intake.lengths.values()))
        return state

    def kept(self, what: str, act: Callable[[], T]) -> T:
        """Write something by calling `act`, and return its result. While the disk fails nothing counts, and it is tried again
        every second."""
        while True:
            try:
                return act()
            except OSError as cause:
                why = failed(cause)
                self.folder.log(f"round {self.round}: the {what} cannot be written ({why}); nothing was counted; trying again")
                self.exchange.pause(1.0)

    def _farewell(self) -> None:
        """The trained model to every node that is there, to recommend by."""
        download = self.algorithm.download(self.state)
        everyone = {name: member.users for name, member in self.members.nodes.items()}
        waiting = set(everyone)

        def take(frame: bytes) -> None:
            with suppress(FrameRefused):
                found = opened(frame)
                if found.head.kind in ("update", "sum"):
                    self.intake.receive(frame)  # late
                else:
                    waiting.discard(self.intake.identified(found))

        self.exchange.gather(lambda: waiting, lambda name: self.request("model", download, everyone[name]), take, FAREWELL)
        if waiting:
            self.folder.log(f"{len(waiting)} nodes were not there to take the trained model")

    # ---- small parts -----------------------------------------------------------------------------------------------------------------

    def request(
        self, kind: str, download: State, users: Int64Array, model: bytes = b"", attempt: int = 0, inbox: bytes | None = None
    ) -> bytes:
        """A signed request to the node of some users, with the download for them. inbox: a message of a secure sum."""
        more = {} if kind == "model" else {"users": users}
        more |= {} if inbox is None else {"inbox": np.frombuffer(inbox, np.uint8)}
        body = write_download(self.contract.delivered(download, users), more)
        about = {"users": len(users), "start": self.folder.start}
        return self.seal(kind, body, round=self.round, attempt=attempt, model=model, items=self.terms.items, about=about)

    def seal(self, kind: str, body: bytes = b"", **fields: Any) -> bytes:
        """A message of the server, signed."""
        return seal(self.folder.key, kind, body, run=self.terms.run, node=NAME, **fields)

    def _wait(self, nodes: list[str]) -> None:
        """Says for whom a round waits."""
        self._tell("waiting", nodes)

    def _tell(self, status: str, nodes: Sequence[str] = (), **more: str) -> None:
        """The first round of a process waits for nodes to come, so the middle one says more than the mean. nodes: who is waited for."""
        done, took = self.ledger, self._took
        self.folder.status(
            {"status": status, "run": self.terms.run, "round": self.round, "rounds": self.terms.rounds,
             "seconds_a_round": round(float(np.median(took)), 3) if took else 0.0, "nodes": len(self.exchange.present),
             "of": len(self.members.nodes), "waiting_for": list(nodes[:NAMED]), "bytes_up": done.bytes_up, "bytes_down": done.bytes_down,
             "moved": round(self._moved, 6), "longest_answer": round(self._longest, 6), **more,
             "answers": {code.value: n for code, n in sorted(self.intake.counts.items())}}
        )  # fmt: skip
