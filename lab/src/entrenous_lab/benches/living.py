"""A federation by lot, under masks and over TLS, whose nodes run in this process: for benches of
what one more device waits for, or costs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from entrenous.core.errors import EntrenousError
from entrenous.data.interactions import Interactions

if TYPE_CHECKING:
    from entrenous_network.operate.plans import FoundingPlan, JoinPlan

HOUR = 3600.0
PATIENCE = 600.0  # seconds


class Founded(NamedTuple):
    """The folders of a federation of one person a device, none of which runs."""

    server: Path
    devices: list[Path]


def founded(
    folder: Path, data: Interactions, people: int, plan: FoundingPlan, owner: JoinPlan
) -> Founded:
    """Founds a federation of the first `people` users of some data, in `folder`."""
    from entrenous_network.agreement.catalogue import Items
    from entrenous_network.operate.enrolment import identity, join
    from entrenous_network.operate.founding import Place, found_federation, free_ports

    devices = [folder / f"person-{number}" for number in range(people)]
    requests = [(identity(device, device.name), 1) for device in devices]
    made = found_federation(
        folder / "f", Items.of(data), requests, plan, Place(port=free_ports()[0])
    )
    for number, device in enumerate(devices):
        join(device, made.nodes[device.name], data.of_users(np.array([number])), owner)
    return Founded(made.server, devices)


def fcf_by_lot(
    users: int, drawn: int, factors: int, people: int, deadline: float, accuracy: float = 0.0
) -> FoundingPlan:
    """Returns the plan of an endless federation of FCF under masks, in which so many of all users
    are drawn by lot. people: of a sum, at least.
    """
    from entrenous_network.operate.plans import FoundingPlan

    return FoundingPlan(
        algorithm="fcf",
        endless=True,
        settings={"factors": factors, "cohort": drawn},
        users=users,
        interactions=20 * users,
        accuracy=accuracy,
        protect={"sampling": "poisson", "answers": 100_000, "people": people, "parties": 3},
        deadline=deadline,
    )


@contextmanager
def at_work(server: Path, pace: float = HOUR) -> Iterator[None]:
    """Runs a server in a thread."""
    from entrenous_network.operate.running import run_server

    with _in_a_thread(lambda stop: run_server(server, stop, lambda line: None, pace=pace)):
        yield


@contextmanager
def _in_a_thread(work: Callable[[threading.Event], object]) -> Iterator[None]:
    """Runs some work in a thread until the end of `with`, when its event is set."""
    stop = threading.Event()
    thread = threading.Thread(target=work, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(PATIENCE)


def pauses(server: Path) -> bool:
    """Tells whether a server waits for its next round."""
    from entrenous_network.operate.running import status

    return bool(status(server).get("status") == "pausing")


@contextmanager
def connected(folders: Sequence[Path], address: str = "") -> Iterator[None]:
    """Runs some devices' nodes in a thread. address: of their server; "" = as their folders say."""
    from entrenous_network.agreement.files import read_json
    from entrenous_network.links.polling import serve
    from entrenous_network.node.node import FederatedNode
    from entrenous_network.operate.running_node import polling

    nodes = [FederatedNode(folder) for folder in folders]
    address = address or read_json(folders[0] / "node.json")["server"]
    authority = folders[0] / "ca.crt"
    asked = [polling(node) for node in nodes]
    try:
        with _in_a_thread(
            lambda stop: serve(address, authority, asked, stop, say=lambda line: None)
        ):
            yield
    finally:
        for node in nodes:
            node.close()


def until(true: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Waits until something is true. Raises EntrenousError, saying what was waited for."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise EntrenousError(f"{what} did not happen in {seconds:g} s")
        time.sleep(0.05)
