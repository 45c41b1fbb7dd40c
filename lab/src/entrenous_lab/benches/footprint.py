"""The bytes that a federation costs a phone in a day, counted on its connection."""

from __future__ import annotations

import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from entrenous.core.contract.protocols import Progress
from entrenous.core.errors import EntrenousError
from entrenous.data.synthetic import synthetic

from .living import HOUR, Founded, at_work, connected, fcf_by_lot, founded, pauses, until

if TYPE_CHECKING:
    from entrenous_network.operate.plans import FoundingPlan

MEMBERS = 300
DRAWN = 125  # of them, by lot
PEOPLE = 100  # in a sum, at least
ITEMS, FACTORS = 10_000, 32
WATCHED = 8  # devices, each with a connection of its own
IDLE = 900.0  # seconds in which nobody is asked anything: a device asks about every eight minutes
SETTLED = 5.0  # seconds after which a new connection has asked its first question
ROUNDS = 24  # a day, of which a device answers one
GIVEN = ROUNDS / 10  # models a day that are given to all
AIM = 10e6  # bytes


def footprint(threads: int, progress: Progress) -> dict[str, Any]:
    """A device of FCF under masks, 10,000 items x 32 factors, sums of 100 people and more: the
    bytes, both ways and with TLS, of a connection, of an hour of waiting, of a round it answers
    and of a model that it is given. A day has a round an hour, of which it answers one; it takes
    twenty minutes.
    """
    from entrenous_network.operate.plans import JoinPlan

    data = synthetic(users=MEMBERS, items=ITEMS, interactions=20 * MEMBERS, seed=0)
    owner = JoinPlan(people=PEOPLE)
    with tempfile.TemporaryDirectory() as place:
        progress(0, 4, "founds")
        made = founded(Path(place), data, MEMBERS, _plan(), owner)
        parts = _measured(made, progress)
    # Before each round it is connected once more than while it waits.
    waiting = ROUNDS * (parts["connection"] + parts["idle_hour"])
    day = waiting + parts["round"] + GIVEN * parts["model"]
    return {
        **{f"{name}_bytes": round(size) for name, size in parts.items()},
        "day_megabytes": round(day / 1e6, 2),
        "rounds_a_day": ROUNDS,
        "answered_a_day": 1,
        "models_a_day": GIVEN,
        "people": PEOPLE,
        "ratio": day / AIM,
        "against": f"the limit of {AIM / 1e6:g} MB a day (below 1 is better)",
    }


def _plan() -> FoundingPlan:
    return fcf_by_lot(MEMBERS, DRAWN, FACTORS, people=PEOPLE, deadline=120.0)


def _measured(made: Founded, progress: Progress) -> dict[str, float]:
    """The bytes of each part of a day."""
    from entrenous_network.agreement.files import read_json

    watched = made.devices[:WATCHED]
    address = read_json(watched[0] / "node.json")["server"]
    with at_work(made.server):
        progress(1, 4, "first round")
        # The others come last, without whom there is no sum: a round waits for nobody who is away.
        with _each_counted(watched, address) as counts, connected(made.devices[WATCHED:]):
            until(lambda: pauses(made.server), "the end of the first round")
            first = [count.bytes for count in counts]
            answered = [_answered(device) for device in watched]
            if len(set(answered)) < 2:
                problem = f"a lot drew all of {WATCHED} devices or none"
                raise EntrenousError(f"{problem}; run the bench again")
            progress(2, 4, "idle")
            time.sleep(IDLE)
            idle = [count.bytes - size for count, size in zip(counts, first, strict=True)]
        progress(3, 4, "connects again")
        with _each_counted(watched, address) as counts:
            time.sleep(SETTLED)
            connection = statistics.median(count.bytes for count in counts)
    drawn = statistics.median(size for size, its in zip(first, answered, strict=True) if its)
    others = statistics.median(size for size, its in zip(first, answered, strict=True) if not its)
    return {
        "connection": connection,
        "idle_hour": statistics.median(idle) * HOUR / IDLE,
        "round": drawn - others,
        "model": others - connection,
    }


@contextmanager
def _each_counted(devices: list[Path], address: str) -> Iterator[list[Counted]]:
    """Connects some devices, each through a counter of its own."""
    with ExitStack() as stack:
        counts = []
        for device in devices:
            count = stack.enter_context(closing(Counted(address)))
            stack.enter_context(connected([device], count.address))
            counts.append(count)
        yield counts


def _answered(device: Path) -> bool:
    """Tells whether a device has answered in a sum."""
    from entrenous_network.node.node_store import STORE, NodeStore
    from entrenous_network.node.secure_node import inputs

    store = NodeStore(device / STORE)
    try:
        return bool(inputs(store))
    finally:
        store.close()


@final
class Counted:
    """A port on this machine that passes every byte on to a server, and counts them.

    server: its address, HOST:PORT. address: of this port. bytes: that have passed, both ways.
    """

    def __init__(self, server: str) -> None:
        host, _, port = server.rpartition(":")
        self._server = (host, int(port))
        self._port = socket.create_server((host, 0))
        self.address = f"{host}:{self._port.getsockname()[1]}"
        self.bytes = 0
        self._turn = threading.Lock()
        self._lines: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Ends all connections."""
        for line in (self._port, *self._lines):
            # One that is over already, or was never begun.
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
            line.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._port.accept()
                far = socket.create_connection(self._server)
                self._lines += [near, far]
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=self._pass, args=ends, daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(1 << 16):
                sink.sendall(piece)
                with self._turn:
                    self.bytes += len(piece)
            sink.shutdown(socket.SHUT_WR)


BENCHES = {"footprint": footprint}
