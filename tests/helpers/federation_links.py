"""Small federations over a link for tests: a link that loses, delays and repeats, a link over real
sockets, and both ends as processes.

python federation_links.py serve FOLDER {"address": "socket", ...}     a server process, over
sockets on which nodes listen python federation_links.py listen SOCKET FOLDER [STAGE ROUND]
one node, which kills itself at a stage of a round
"""

from __future__ import annotations

import heapq
import itertools
import json
import os
import shutil
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from multiprocessing.connection import Client, Connection, Listener, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from entrenous_network.agreement.files import read_identity
from entrenous_network.frames.frames import FrameParts, opened, seal
from entrenous_network.links.port import Answer
from entrenous_network.node.node import FederatedNode
from entrenous_network.node.secure_node import inputs
from entrenous_network.operate import founding
from entrenous_network.operate.founding import FoundedFederation, found
from entrenous_network.operate.plans import FoundingPlan, JoinPlan
from entrenous_network.secure_sum.terms import Floors
from entrenous_network.server import exchange, grouped_round, handing_on, secure_server, server
from entrenous_network.server.collector import Collector
from entrenous_network.server.exchange import Questions
from entrenous_network.server.server import FederationServer, serve
from entrenous_network.server.server_folder import ServerFolder
from forked import process

from entrenous.core.contract.protocols import model_sha256
from entrenous.core.contract.update import Total
from entrenous.core.errors import InputError
from entrenous.data.interactions import Interactions, Vocabulary, build
from entrenous.federation.rounds import Rounds, Training
from entrenous.runs.recommenders import checkpoint_arrays

FPL = {"factors": 4, "triples": 5}
PATIENCE = 240.0  # seconds for what takes one on an idle machine: nothing is measured by it


def ratings(users: int = 20, items: int = 18, seed: int = 4) -> Interactions:
    """Users of two tastes who rate from 1 to 5, at known times, items at known places: data that
    every algorithm takes.
    """
    rng = np.random.default_rng(seed)
    liking = rng.random((users, items)) + (np.arange(items) % 2 == np.arange(users)[:, None] % 2)
    user, item = np.nonzero(liking > 1.1)
    places = {
        name: np.array([f"{degrees:.4f}" for degrees in rng.uniform(40, 41, items)])
        for name in ("lat", "lon")
    }
    value = np.clip(np.round(2.5 * liking[user, item] + rng.normal(0, 0.3, len(user))), 1, 5)
    return build(
        user,
        item,
        value=value,
        time=1_000_000 + rng.integers(0, 10**6, len(user)),
        features=places,
        users=Vocabulary([f"patient-{n}x" for n in range(users)], kind="user"),
        items=Vocabulary([f"film-{n}y" for n in range(items)], kind="item"),
    )


def federation(
    folder: Path,
    nodes: int = 4,
    rounds: int = 3,
    algorithm: str = "fpl",
    data: Interactions | None = None,
    settings: Mapping[str, Any] | None = None,
    **terms: Any,
) -> FoundedFederation:
    """A federation whose draws a simulation can repeat."""
    settings = FPL if settings is None and algorithm == "fpl" else settings or {}
    if terms.pop("secure", "none") == "masks":
        floors = terms.get("floors") or Floors()
        terms["protect"] = {
            "secure_sum": True,
            "people": floors.people,
            **terms.get("protect", {}),
        }
    rows = ratings() if data is None else data
    nonce = terms.pop("nonce", None)
    floors, place = terms.pop("floors", None), terms.pop("place", None)
    terms = {"draws": "public", "seed": 1, "profile": "paper", **terms}
    if floors is not None and terms["profile"] != "paper":
        terms["protect"] = {"people": floors.people, **terms.get("protect", {})}
    insisted = floors or Floors()
    owner = JoinPlan(
        profile="paper",
        people=insisted.people,
        occupancy=insisted.occupancy,
        public_draws=True,
    )
    plan = FoundingPlan(algorithm=algorithm, rounds=rounds, settings=settings, **terms)
    with nullcontext() if nonce is None else _same_nonce(nonce):
        return found(folder, rows, plan, nodes=nodes, owner=owner, place=place)


COHORT = 12  # people whom a lot draws


def by_lot(
    folder: Path,
    *,
    rounds: int = 6,
    people: int = 10,
    answers: int = 9,
    groups: int = 1,
    cohort: int = COHORT,
    noise: float = 0.2,
    bits: int | None = None,
    alpha: float = 1.0,
    data: Interactions | None = None,
    algorithm: str = "fcf",
    **terms: Any,
) -> FoundedFederation:
    """A federation under masks of 40 people, of whom a lot draws 12 a round."""
    rows = ratings(40) if data is None else data
    settings = {"factors": 4, "cohort": cohort}
    if algorithm == "fcf":
        settings["alpha"] = alpha
    floors = terms.pop("floors", Floors(people=people, occupancy=0.0))
    protect = {
        "sampling": "poisson",
        "answers": answers,
        "noise": noise,
        "rows": "all",
        "groups": groups,
        **({} if bits is None else {"bits": bits}),
        **terms.pop("protect", {}),
    }
    return federation(
        folder,
        len(rows.users),
        rounds,
        algorithm,
        rows,
        settings=terms.pop("settings", settings),
        secure="masks",
        floors=floors,
        protect=protect,
        **{"deadline": 5.0, **terms},
    )


def offering(nodes: Mapping[str, FederatedNode]) -> None:
    """From now on the lots of these nodes draw them in every round."""
    for node in nodes.values():
        node.offers = lambda number: True  # type: ignore[method-assign]


def unasked(questions: Questions) -> Total:
    """The sum of a round whose questions a test answers by itself."""
    while True:
        try:
            next(questions)
        except StopIteration as end:
            total: Total = end.value
            return total


def consented(nodes: Mapping[str, FederatedNode]) -> dict[int, frozenset[str]]:
    """The nodes in the sum of each round to which some of these nodes have consented."""
    found: dict[int, frozenset[str]] = {}
    for node in nodes.values():
        rows = node.store.connection.execute("select round, parties from summed")
        for number, parties in rows:
            found[number] = found.get(number, frozenset()).union(json.loads(parties))
    return found


def _same_nonce(nonce: str) -> Any:
    """Has a federation founded with this nonce instead of a random one."""
    same = SimpleNamespace(token_hex=lambda _: nonce)
    return patch.object(founding, "secrets", same)


def nodes_of(
    founded: FoundedFederation, names: Iterable[str] | None = None
) -> dict[str, FederatedNode]:
    """All nodes, opened; or those of some names."""
    return {name: FederatedNode(founded.nodes[name]) for name in names or founded.nodes}


def simulated(
    founded: FoundedFederation,
    data: Interactions | None = None,
    rounds: int | None = None,
    **how: Any,
) -> Training:
    """The same rounds in one process."""
    how = {"protection": founded.terms.protection, **how}
    federation = Rounds(
        founded.terms.make(), ratings() if data is None else data, seed=founded.terms.seed, **how
    )
    return federation.advance(
        federation.start(), founded.terms.rounds if rounds is None else rounds
    )


def server_sha256(training: Training) -> str:
    """What `serve` returns after the same training."""
    return model_sha256(
        {
            name: array
            for name, array in checkpoint_arrays(training).items()
            if name.startswith("server.")
        }
    )


def whole_sha256(training: Training) -> str:
    """The hash of all that a federation has after the same training, with what devices keep."""
    arrays = checkpoint_arrays(training)
    return model_sha256({name: array for name, array in arrays.items() if name != "ledger"})


def server_of(held: ServerFolder, link: Any = None) -> FederationServer:
    """A server before its first round, with nobody to ask unless a link is given."""
    own = FederationServer(held, Event())
    own._collecting = Collector(held, own.contract, link or FaultyLink({}), Event())
    return own


def logged(folder: Path) -> list[str]:
    """The lines of a server's log, without their times."""
    return [line.split(" ", 1)[1] for line in (folder / "server.log").read_text().splitlines()]


@contextmanager
def in_one_line(said: str) -> Iterator[None]:
    """What cannot be is refused, in one line that says this."""
    with pytest.raises(InputError) as refused:
        yield
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


# ---- a link with faults --------------------------------------------------------------------------

Fate = Callable[
    [str, str], Iterable[float]
]  # ("request" | "answer", address) -> when it arrives, in s; never: (), twice: (0, 0)


def faithful(stage: str, address: str) -> Iterable[float]:
    """Everything arrives once, at once."""
    return (0.0,)


class Clock:
    """Virtual time, which passes when somebody sleeps and never else: a test of deadlines that no
    busy machine can miss.
    """

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        """Virtual seconds since the clock was made."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let so many virtual seconds pass, at once."""
        self.now += seconds


class FaultyLink:
    """Nodes in this process, one after the other in the server's own thread; messages fare as
    `fate` says. absent: who is not there.
    """

    clock: Any = time  # or a Clock, which the server must have too: see `virtual_time`

    def __init__(self, nodes: Mapping[str, Answer], fate: Fate = faithful) -> None:
        self.nodes, self.fate = dict(nodes), fate
        self.absent: set[str] = set()
        self.hung_up: set[str] = set()
        self._since: float | None = None
        self._under_way: list[tuple[float, int, str, str, bytes]] = []
        self._number = itertools.count()

    @property
    def since(self) -> float:
        # From the first question on: the clock may be another one than at the beginning.
        if self._since is None:
            self._since = self.clock.monotonic()
        return self._since

    def present(self) -> list[str]:
        return [address for address in self.nodes if address not in self.absent]

    def ready(self) -> list[str]:
        return self.present()

    def send(self, address: str, frame: FrameParts, seconds: float) -> None:
        self._post("request", address, bytes(frame))

    def _post(self, stage: str, address: str, frame: bytes) -> None:
        for delay in self.fate(stage, address):
            heapq.heappush(
                self._under_way,
                (self.clock.monotonic() + delay, next(self._number), stage, address, frame),
            )

    def receive(self, seconds: float) -> list[tuple[str, bytes]]:
        clock, got = self.clock, []
        until = clock.monotonic() + seconds
        while True:
            while (
                self._under_way and self._under_way[0][0] <= clock.monotonic() < until
            ):  # no longer than it was asked to wait
                _, _, stage, address, frame = heapq.heappop(self._under_way)
                if stage == "answer":
                    got.append((address, frame))
                elif address not in self.absent:
                    self._post("answer", address, self.nodes[address](frame))
            rest = until - clock.monotonic()
            if got or rest <= 0:
                return got
            due = self._under_way[0][0] - clock.monotonic() if self._under_way else rest
            clock.sleep(max(0.0, min(rest, due)))

    def acknowledge(self) -> None:
        pass

    def left(self) -> list[str]:
        """Returns the nodes that a test has had hang up."""
        return sorted(self.hung_up)

    def rest(self, seconds: float) -> None:
        pass

    def close(self) -> None:
        pass


def answers_of(nodes: Mapping[str, FederatedNode]) -> dict[str, Answer]:
    """What a link asks of nodes."""
    return {name: node.answer for name, node in nodes.items()}


def linked(nodes: Mapping[str, FederatedNode]) -> FaultyLink:
    """A link to nodes at which everything arrives."""
    return FaultyLink(answers_of(nodes))


def trained(made: FoundedFederation) -> str | None:
    """The sha256 of the model with which the server ends, all nodes of which are there."""
    return serve(linked(nodes_of(made)), made.server)


class DyingLink(FaultyLink):
    """Answers come one by one, and the server dies (ConnectionError) after `left` looks."""

    left_looks = 0

    def __init__(self, nodes: Mapping[str, Answer]) -> None:
        super().__init__(nodes)
        self._held = deque[tuple[str, bytes]]()

    def receive(self, seconds: float) -> list[tuple[str, bytes]]:
        self.left_looks -= 1
        if self.left_looks == 0:
            raise ConnectionError("killed")
        self._held.extend(super().receive(0.0 if self._held else seconds))
        return [self._held.popleft()] if self._held else []


@contextmanager
def dying_in_a_round(link: FaultyLink, work: int) -> Iterator[None]:
    """The server dies in the midst of a round: of `work` with more requests, or after a consent."""
    sent = link.send
    asked: list[str] = []

    def send(address: str, frame: FrameParts, seconds: float) -> None:
        asked.append(opened(bytes(frame)).head.kind)
        if asked.count("work") > work or asked.count("consent") > 1:
            raise KeyboardInterrupt
        sent(address, frame, seconds)

    with patch.object(link, "send", send), pytest.raises(KeyboardInterrupt):
        yield


def noting_inputs(
    nodes: Mapping[str, FederatedNode],
) -> tuple[dict[str, Answer], dict[str, list[int]]]:
    """Nodes that answer as they do, and the rounds of which a masked input has left each."""
    left: dict[str, list[int]] = {name: [] for name in nodes}

    def noting(name: str) -> Answer:
        def answer(request: bytes) -> bytes:
            before = inputs(nodes[name].store)
            said = nodes[name].answer(request)
            if inputs(nodes[name].store) > before:
                left[name].append(opened(request).head.round)
            return said

        return answer

    return {name: noting(name) for name in nodes}, left


def virtual_time(patch: pytest.MonkeyPatch) -> Clock:
    """From now on servers and FaultyLinks of this test have one clock, which never waits."""
    clock = Clock()
    patch.setattr(exchange, "time", clock)
    patch.setattr(handing_on, "time", clock)
    patch.setattr(secure_server, "time", clock)
    patch.setattr(grouped_round, "time", clock)
    patch.setattr(FaultyLink, "clock", clock)

    def pause(own: exchange.Exchange, seconds: float) -> None:
        clock.sleep(seconds)
        if own._stop.is_set():
            raise exchange.ServerStopped

    patch.setattr(exchange.Exchange, "pause", pause)
    return clock


def quick_pauses(patch: pytest.MonkeyPatch) -> None:
    """From now on servers of this test have pauses that suit one, and deadlines in virtual time."""
    virtual_time(patch)
    patch.setattr(secure_server, "LONGEST", 0.05)
    patch.setattr(exchange, "POLL", 0.02)
    patch.setattr(handing_on, "POLL", 0.02)
    patch.setattr(server, "FAREWELL", 0.3)


def answer_to(made: FoundedFederation, node: FederatedNode, kind: str, body: bytes) -> str:
    """What a node says to a frame that the operator's key has signed: the kind of its answer, or
    its refusal.
    """
    terms = made.terms
    key = read_identity(made.server / "identity.key")
    frame = seal(key, kind, body, run=terms.run, node="server", items=terms.items)
    answer = opened(node.answer(frame))
    return bytes(answer.body).decode() if answer.head.kind == "refused" else answer.head.kind


# ---- real processes over real sockets ------------------------------------------------------------


class SocketLink:
    """A server's link to nodes that listen on Unix sockets; sockets: of each address. One that is
    not there is tried again.
    """

    def __init__(self, sockets: Mapping[str, str]) -> None:
        self._sockets = dict(sockets)
        self.since = time.monotonic()
        self._open: dict[str, Connection] = {}

    def present(self) -> list[str]:
        for socket in set(self._sockets.values()) - self._open.keys():
            with suppress(OSError, EOFError):
                self._open[socket] = Client(socket, "AF_UNIX")
        return [address for address, socket in self._sockets.items() if socket in self._open]

    def ready(self) -> list[str]:
        return self.present()

    def send(self, address: str, frame: FrameParts, seconds: float) -> None:
        socket = self._sockets[address]
        try:
            self._open[socket].send_bytes(address.encode() + b"\0" + bytes(frame))
        except (OSError, KeyError):
            self._open.pop(socket, None)

    def receive(self, seconds: float) -> list[tuple[str, bytes]]:
        got = []
        if not self._open:
            time.sleep(seconds)
        for ready in wait(list(self._open.values()), seconds):
            try:
                address, _, frame = ready.recv_bytes().partition(b"\0")
                got.append((address.decode(), frame))
            except (OSError, EOFError):
                self._open = {
                    socket: line for socket, line in self._open.items() if line is not ready
                }
        return got

    def acknowledge(self) -> None:
        pass

    def left(self) -> list[str]:
        """Returns nobody: nodes do not hang up here."""
        return []

    def rest(self, seconds: float) -> None:
        pass

    def close(self) -> None:
        for line in self._open.values():
            line.close()


class Hub:
    """Nodes of this process behind one Unix socket. answered: how many answers were made; at: what
    happens at some of them.
    """

    def __init__(self, socket: Path, nodes: Mapping[str, Answer]) -> None:
        self.socket, self.answered = str(socket), 0
        self.at: dict[int, Callable[[], None]] = {}
        self._nodes, self._listener = nodes, Listener(self.socket, "AF_UNIX")
        Thread(target=self._serve, daemon=True).start()

    @property
    def addresses(self) -> dict[str, str]:
        """What SocketLink takes."""
        return dict.fromkeys(self._nodes, self.socket)

    def _serve(self) -> None:
        while True:
            with suppress(OSError, EOFError), self._listener.accept() as line:
                while True:
                    address, _, frame = line.recv_bytes().partition(b"\0")
                    answer = self._nodes[address.decode()](frame)
                    self.answered += 1
                    self.at.pop(self.answered, lambda: None)()
                    line.send_bytes(address + b"\0" + answer)


def serving(folder: Path, addresses: Mapping[str, str]) -> BaseProcess:
    """A server process."""
    return process(serve_process, str(folder), dict(addresses))


def listening(socket: str, folder: Path, stage: str = "", number: int = 0) -> BaseProcess:
    """A node process, which may be told when to die."""
    return process(node_process, socket, str(folder), stage, number)


def finished(server: BaseProcess, folder: Path, seconds: float = PATIENCE) -> str:
    """What a server process has logged at its end: the sha256 of the model, or that it was
    stopped.
    """
    server.join(seconds)
    assert server.exitcode == 0, server.exitcode
    return logged(folder)[-1].split(" ")[-1]


def until(true: Callable[[], Any], seconds: float = PATIENCE) -> None:
    """Waits for something to happen."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def copied(founded: FoundedFederation, folder: Path) -> FoundedFederation:
    """The same federation once more, elsewhere."""
    root = founded.server.parent
    shutil.copytree(root, folder)
    return FoundedFederation(
        founded.terms, folder / "server", {name: folder / "nodes" / name for name in founded.nodes}
    )


def serve_process(folder: str, addresses: dict[str, str]) -> None:
    """A server, until its end or SIGTERM."""
    stop = Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    serve(SocketLink(addresses), Path(folder), stop)


def node_process(socket: str, folder: str, stage: str, number: int) -> None:
    """A node that kills itself at a stage of its `number`th round: fetch, train, upload (answer
    made, not sent), wait (sent).
    """
    node = FederatedNode(Path(folder))
    # By number, since a server that waits long asks for the same round again.
    rounds: set[int] = set()
    keep = node.store.advance

    def die(when: str) -> None:
        if when == stage and len(rounds) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def advance(*arguments: Any) -> None:
        die("train")
        keep(*arguments)

    node.store.advance = advance  # type: ignore[method-assign]
    listener = Listener(socket, "AF_UNIX")
    while True:
        with suppress(OSError, EOFError), listener.accept() as line:
            while True:
                address, _, frame = line.recv_bytes().partition(b"\0")
                head = opened(frame).head
                if head.kind == "work":
                    rounds.add(head.round)
                die("fetch")
                answer = node.answer(frame)
                die("upload")
                line.send_bytes(address + b"\0" + answer)
                die("wait")


@contextmanager
def nodes_at(
    made: FoundedFederation,
    address: str,
    each: Callable[[str, bytes], None] = lambda name, frame: None,
    tls: bool = True,
    names: Iterable[str] | None = None,
) -> Iterator[None]:
    """All nodes of a federation, or those of some names, polling. each: is called with a node's name and its answer, before
    it is sent.
    """
    from entrenous_network.links.polling import PollingNode
    from entrenous_network.links.polling import serve as serve_nodes
    from entrenous_network.operate.running_node import polling

    stop, nodes = Event(), nodes_of(made, names)

    def answering(name: str) -> PollingNode:
        own = polling(nodes[name])

        def answer(frame: bytes) -> bytes:
            said = own.answer(frame)
            each(name, said)
            return said

        return PollingNode(own.here, answer)

    polled = [answering(name) for name in nodes]
    ca, more = (
        made.server / "keys" / "ca.crt" if tls else None,
        {"tls": tls, "say": lambda text: None},
    )
    at_work = Thread(target=serve_nodes, args=(address, ca, polled, stop), kwargs=more, daemon=True)
    at_work.start()
    try:
        yield
    finally:
        stop.set()
        at_work.join(PATIENCE)
        for node in nodes.values():
            node.close()
