"""A small federation that is about to begin a round, with several histories of the same people, and
the attempt at that round under an attack.

The histories differ by who has which: two honest nodes have changed places. FCF
sends what follows from the model and the history alone, so the agreed sum is the same to the bit,
and whoever tells the histories apart has learnt more than it.
"""

from __future__ import annotations

import os
import shutil
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from adversary.leaves import loaded
from adversary.watch import SERVER, Watch, _put, watched
from entrenous_network.agreement.files import read_identity
from entrenous_network.agreement.terms import least_people, most_by_lot
from entrenous_network.frames.frames import FrameParts, opened
from entrenous_network.node.node import FederatedNode
from entrenous_network.operate.enrolment import join
from entrenous_network.operate.founding import FoundedFederation
from entrenous_network.operate.plans import JoinPlan
from entrenous_network.secure_sum.terms import Floors
from entrenous_network.server import exchange, grouped_round, handing_on, secure_server, server
from entrenous_network.server.server import serve
from entrenous_network.wire.statement import Head
from federation_links import Clock, by_lot, copied, logged, nodes_of

from entrenous.core.contract.declared import Contract
from entrenous.core.contract.protocols import State, arrays_of
from entrenous.core.errors import EntrenousError
from entrenous.data.interactions import Interactions, Vocabulary, build

ATTACKED = 1  # the round that is attacked: there is an earlier one whose frames can be repeated
VICTIM = "node-01"
PAIRS = {"b": (0, 1), "c": (1, 2)}  # whose histories are exchanged in the copies of the world
FIRST = "advert"  # the first question of an attempt
MEMBERS_OF_ONE = (
    3  # members of the federation for each node that is there: at most half are in a sum
)
LEAST = 15  # members of whom a lot draws as many as a sum must have
ITEMS = 8
IDLE = 1000  # times that the server may look around in vain before an attempt is given up
MESSAGES = 2000  # questions in an attempt, at most


Frames: TypeAlias = dict[tuple[str, str], bytes]  # by kind and node


class Ended(Exception):
    """Raised through the server: what follows is not of this attempt."""


class Asked(NamedTuple):
    """One question. node: to whom; meant: the frame as the honest server made it; sent: as it was
    sent; answer: what came back; turn: of the attack's passes."""

    node: str
    meant: bytes
    sent: bytes
    answer: bytes
    turn: int = 0

    @property
    def kind(self) -> str:
        return opened(self.meant).head.kind

    @property
    def head(self) -> Head:
        return opened(self.answer).head

    @property
    def refused(self) -> str:
        """What a refusal says; empty for an answer."""
        found = opened(self.answer)
        return bytes(found.body).decode("utf-8", "replace") if found.head.kind == "refused" else ""


class Trace(NamedTuple):
    """An attempt as it was. asked: all questions; watch: what happened inside; kept: the model that
    each node has at the end, as (round, bytes); log: of the server; ended: why it was given up."""

    asked: list[Asked]
    watch: Watch
    kept: dict[str, tuple[int, bytes]]
    log: list[str]
    ended: str
    worked_out: dict[str, Any]  # by the oracle, to be found again


class Attack:
    """What the adversary does. Without changes: nothing.

    victims: whom it lies to. colluders: nodes that give the server all they know. passes: how often
    the server runs, each time from the beginning of the round with what it learnt before. attempts:
    at the round, at most. lenient: whether the server is the adversary's.
    """

    colluders: frozenset[str] = frozenset()
    passes: int = 1
    attempts: int = 1
    lenient: bool = True

    def requests(self, node: str, frame: bytes, turn: int) -> list[bytes]:
        """What a node is asked instead of a frame of the honest server."""
        return [frame]

    def answers(self, node: str, frame: bytes, answer: bytes, turn: int) -> list[bytes]:
        """What the server hears instead of a node's answer."""
        return [answer]

    def within(self, undo: ExitStack, watch: Watch, world: World) -> None:
        """Changes that hold for the whole attempt."""


class Passing:
    """The adversary's link: the honest server's frames pass it, and what nodes answer."""

    def __init__(
        self, nodes: Mapping[str, FederatedNode], attack: Attack, watch: Watch, turn: int
    ) -> None:
        self.nodes, self.attack, self.watch, self.turn = nodes, attack, watch, turn
        self.asked: list[Asked] = []
        self.clock: Any = exchange.time
        self.since = self.clock.monotonic()
        self.idle = 0
        self._answers: deque[tuple[str, bytes]] = deque()

    def present(self) -> list[str]:
        return list(self.nodes)

    def ready(self) -> list[str]:
        return list(self.nodes)

    def send(self, address: str, frame: FrameParts, seconds: float) -> None:
        meant = bytes(frame)
        head = opened(meant).head
        if head.attempt >= self.attack.attempts or (head.round > ATTACKED and head.kind == FIRST):
            raise Ended("the attempt is over")
        for sent in self.attack.requests(address, meant, self.turn):
            self._ask(address, meant, sent)

    def answer_of(self, address: str, frame: bytes) -> bytes:
        """What a node answers."""
        return self.nodes[address].answer(frame)

    def _ask(self, address: str, meant: bytes, sent: bytes) -> None:
        if len(self.asked) > MESSAGES:
            raise Ended("too many questions")
        self.watch.now = (address, len(self.watch_numbers))
        try:
            answer = self.answer_of(address, sent)
        finally:
            self.watch.now = (SERVER, -1)
        self.watch_numbers.append(address)
        self.asked.append(Asked(address, meant, sent, answer, self.turn))
        for heard in self.attack.answers(address, meant, answer, self.turn):
            self._answers.append((address, heard))

    watch_numbers: list[str]  # of all passes, so that numbers of questions are places in the trace

    def receive(self, seconds: float) -> list[tuple[str, bytes]]:
        found = list(self._answers)
        self._answers.clear()
        if not found:
            self.idle += 1
            self.clock.sleep(seconds)
        if self.idle > IDLE:
            raise Ended("nobody answers")
        return found

    def acknowledge(self) -> None:
        pass

    def left(self) -> list[str]:
        """Returns nobody: nodes do not hang up here."""
        return []

    def rest(self, seconds: float) -> None:
        pass

    def close(self) -> None:
        pass


class World:
    """A federation on the disk at the beginning of the attacked round, in copies that differ by
    two exchanged histories each. items: of the catalogue; more: terms of the federation."""

    def __init__(
        self,
        folder: Path,
        nodes: int = 5,
        floors: Floors | None = None,
        items: int = ITEMS,
        **more: Any,
    ) -> None:
        loaded()
        users = max(MEMBERS_OF_ONE * nodes, LEAST)
        self.folder = folder
        self.floors = floors or Floors(people=least_people(users), occupancy=0.0)
        made = by_lot(
            folder / "a",
            rounds=ATTACKED + 1,
            answers=100,
            noise=0.0,
            bits=64,
            data=histories(users, items),
            settings={"factors": 2, "cohort": most_by_lot(users)},
            floors=self.floors,
            **more,
        )
        # The other members are away.
        self.names = list(made.nodes)[:nodes]
        self.start = {"a": made}
        self.exchanged = {
            history: tuple(self.names[k] for k in pair) for history, pair in PAIRS.items()
        }
        for history, pair in PAIRS.items():
            self.start[history] = copied(made, folder / history)
            _exchanged(self.start[history], pair, self.floors, users, items)
        self.key = read_identity(made.server / "identity.key")
        self.keys = {name: read_identity(made.nodes[name] / "identity.key") for name in self.names}
        self.history = "a"  # of the newest attempt
        self.before = {history: self._begun(history) for history in self.start}
        node = FederatedNode(made.nodes[self.names[0]])
        self.contract: Contract = node.contract
        node.close()
        self.meant = {history: frames_of(self.attempt(history, Attack())) for history in self.start}

    @property
    def honest(self) -> Frames:
        """What an honest server asks in the attacked round, of the newest attempt's history."""
        return self.meant[self.history]

    @property
    def earlier(self) -> Frames:
        """What it has asked in the round before."""
        return self.before[self.history]

    def _begun(self, history: str) -> Frames:
        """Runs the rounds before the attacked one. Returns their last frames."""
        return frames_of(self._run(self.start[history], _Before()))

    def attempt(self, history: str, attack: Attack) -> Trace:
        """The attacked round of one of the histories."""
        self.history = history
        place = self.folder / "attempt"
        shutil.rmtree(place, ignore_errors=True)
        made = copied(self.start[history], place)
        try:
            return self._run(made, attack)
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _run(self, made: FoundedFederation, attack: Attack) -> Trace:
        begun = made.server.parent / "begun"
        if attack.passes > 1:
            shutil.copytree(made.server.parent, begun)
        nodes: dict[str, FederatedNode] = {}
        asked: list[Asked] = []
        numbers: list[str] = []
        why, log = "", []
        with watched(attack.lenient) as watch, ExitStack() as undo, np.errstate(all="ignore"):
            self._quick(undo)
            attack.within(undo, watch, self)
            nodes.update(nodes_of(made, self.names))
            for turn in range(attack.passes):
                if turn:
                    self._again(made, begun, nodes, attack, watch)
                watch.turn = turn
                link = Passing(nodes, attack, watch, turn)
                link.watch_numbers = numbers
                try:
                    serve(link, made.server)
                except (Ended, EntrenousError) as ended:
                    why = f"{type(ended).__name__}: {ended}"
                asked += link.asked
                log += logged(made.server)
        kept = {name: _model_of(node) for name, node in nodes.items()}
        for node in nodes.values():
            node.close()
        return Trace(asked, watch, kept, log, why, {})

    def _again(
        self,
        made: FoundedFederation,
        begun: Path,
        nodes: dict[str, FederatedNode],
        attack: Attack,
        watch: Watch,
    ) -> None:
        """The server, and who colludes with it, go back to the beginning of the round."""
        shutil.rmtree(made.server)
        shutil.copytree(begun / "server", made.server)
        for name in attack.colluders:
            nodes[name].close()
            shutil.rmtree(made.nodes[name])
            shutil.copytree(begun / "nodes" / name, made.nodes[name])
            watch.renew(name)
            nodes[name] = FederatedNode(made.nodes[name])

    @staticmethod
    def _quick(undo: ExitStack) -> None:
        """Deadlines pass in virtual time, nobody waits for a disk, since nothing is killed here,
        and the lot draws all who are there.
        """
        _put(undo, FederatedNode, "offers", lambda own, number: True)
        _put(undo, os, "fsync", lambda descriptor: None)
        old: list[tuple[Any, str, Any]] = [
            (exchange, "time", exchange.time),
            (secure_server, "time", secure_server.time),
            (grouped_round, "time", grouped_round.time),
            (handing_on, "time", handing_on.time),
            (server, "FAREWELL", server.FAREWELL),
        ]
        for owner, name, value in old:
            undo.callback(setattr, owner, name, value)
        clock: Any = Clock()
        exchange.time = secure_server.time = grouped_round.time = handing_on.time = clock
        server.FAREWELL = 1.0


class _Before(Attack):
    """Nothing but an end where the attacked round begins."""

    lenient = False

    def requests(self, node: str, frame: bytes, turn: int) -> list[bytes]:
        head = opened(frame).head
        if head.kind == FIRST and head.round >= ATTACKED:
            raise Ended("the attacked round begins")
        return [frame]


def frames_of(trace: Trace) -> Frames:
    """The last frame of each kind that each node was meant to be asked."""
    return {(one.kind, one.node): one.meant for one in trace.asked}


def histories(users: int, items: int, exchanged: tuple[int, int] = (0, 0)) -> Interactions:
    """People of two tastes, each with a few items. exchanged: the nodes whose people have changed
    places."""
    rng = np.random.default_rng(7)
    liking = rng.random((users, items)) + 0.6 * (
        np.arange(items) % 2 == np.arange(users)[:, None] % 2
    )
    liking[:, 0] += 2.0
    liking[0, 1:4] += 2.0  # the victim's is longer
    order = np.arange(users)
    one, other = exchanged
    order[[one, other]] = order[[other, one]]
    user, item = np.nonzero(liking[order] > 1.0)
    return build(
        user,
        item,
        users=Vocabulary([f"person-{n}" for n in range(users)], kind="user"),
        items=Vocabulary([f"film-{n}" for n in range(items)], kind="item"),
    )


def _exchanged(
    made: FoundedFederation, pair: tuple[int, int], floors: Floors, users: int, items: int
) -> None:
    """Gives two nodes of a copy each other's histories, by joining anew."""
    names = list(made.nodes)
    data = histories(users, items, exchanged=pair)
    for number in pair:
        folder = made.nodes[names[number]]
        rows = data.of_users([number])
        (folder / "store.sqlite").unlink()
        invitation = made.server.parent / "invitations" / names[number]
        plan = JoinPlan(
            people=floors.people,
            occupancy=floors.occupancy,
            public_draws=True,
        )
        join(folder, invitation, rows, plan)


def _model_of(node: FederatedNode) -> tuple[int, bytes]:
    """The model that a node recommends by: its round, and its bytes."""
    found = node.store.model()
    if found is None:
        return -1, b""
    return found[0], b"".join(found[1][name].tobytes() for name in sorted(found[1]))


def changed_state(state: State, change: Callable[[np.ndarray], np.ndarray]) -> State:
    """A server's state with other numbers."""
    arrays = {
        name: change(array) if array.dtype.kind == "f" else array
        for name, array in arrays_of(state).items()
    }
    return type(state)(**arrays)
