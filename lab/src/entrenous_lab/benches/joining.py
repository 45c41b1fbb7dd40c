"""How long somebody who joins a running federation waits for the first recommendation."""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from entrenous.core.contract.protocols import Progress
from entrenous.core.errors import InputError
from entrenous.data.synthetic import synthetic

if TYPE_CHECKING:
    from entrenous.deploy.operate.plans import FoundingPlan

PEOPLE = 40  # before anybody joins
JOINERS = 5
PACE = 3600.0  # seconds between two rounds: nobody waits for one
PATIENCE = 120.0  # seconds
AIM = 10.0  # seconds
ITEMS = 250


def joining(threads: int, progress: Progress) -> dict[str, Any]:
    """Under masks, by lot, over TLS, on one machine, while the server waits for a round that is an
    hour away: from the command that makes a key to the first list. The operator's answer comes at once. Two exchanges of files: the request, and the
    invitation; all else is the node's own connection.
    """
    from entrenous.deploy.operate.enrolment import identity, join
    from entrenous.deploy.operate.membership import invite
    from entrenous.deploy.operate.plans import JoinPlan

    users = PEOPLE + JOINERS
    data = synthetic(users=users, items=ITEMS, interactions=20 * users, seed=0)
    owner = JoinPlan(people=5, parties=3)
    waited = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with _running(folder, data, _plan(users), owner):
            for number in range(JOINERS):
                progress(number, JOINERS, "joins")
                began = time.monotonic()
                device = folder / f"late-{number}"
                request = identity(device, device.name)
                (invitation,) = invite(folder / "f", [(request, 1)])
                join(device, invitation, data.of_users(np.array([PEOPLE + number])), owner)
                with _nodes([device]):
                    _first_list(device)
                    waited.append(time.monotonic() - began)
    progress(JOINERS, JOINERS, "measured")
    return {
        "seconds": round(statistics.median(waited), 2),
        "each": [round(one, 2) for one in waited],
        "exchanges": 2,
        "people": PEOPLE,
        "pace_seconds": PACE,
        "ratio": max(waited) / AIM,
        "against": f"the limit of {AIM:g} s for the one who waits longest (below 1 is better)",
    }


def _plan(users: int) -> FoundingPlan:
    from entrenous.deploy.operate.plans import FoundingPlan

    return FoundingPlan(
        algorithm="fcf",
        endless=True,
        settings={"factors": 8, "cohort": 12},
        users=users,
        interactions=20 * users,
        protect={"sampling": "poisson", "answers": 100_000, "people": 5, "parties": 3},
        deadline=1.0,
    )


@contextmanager
def _running(folder: Path, data: Any, plan: FoundingPlan, owner: Any) -> Iterator[None]:
    """Runs a federation of the first people, from its first pause on."""
    from entrenous.deploy.agreement.catalogue import Items
    from entrenous.deploy.operate.enrolment import identity, join
    from entrenous.deploy.operate.founding import Place, found_federation, free_ports
    from entrenous.deploy.operate.running import run_server, status

    devices = [folder / f"person-{number}" for number in range(PEOPLE)]
    requests = [(identity(device, device.name), 1) for device in devices]
    made = found_federation(
        folder / "f", Items.of(data), requests, plan, Place(port=free_ports()[0])
    )
    for number, device in enumerate(devices):
        join(device, made.nodes[device.name], data.of_users(np.array([number])), owner)
    stop = threading.Event()
    server = threading.Thread(
        target=run_server, args=(made.server, stop, lambda line: None), kwargs={"pace": PACE}
    )
    server.start()
    try:
        with _nodes(devices):
            _until(lambda: status(made.server).get("status") == "pausing")
            yield
    finally:
        stop.set()
        server.join(PATIENCE)


@contextmanager
def _nodes(folders: list[Path]) -> Iterator[None]:
    """Runs some nodes, each with its own connection."""
    from entrenous.deploy.agreement.files import read_json
    from entrenous.deploy.links.polling import serve
    from entrenous.deploy.node.node import FederatedNode
    from entrenous.deploy.operate.running_node import polling

    nodes = [FederatedNode(folder) for folder in folders]
    address = read_json(folders[0] / "node.json")["server"]
    stop = threading.Event()
    at_work = threading.Thread(
        target=serve,
        args=(address, folders[0] / "ca.crt", [polling(node) for node in nodes], stop),
        kwargs={"say": lambda line: None},
    )
    at_work.start()
    try:
        yield
    finally:
        stop.set()
        at_work.join(PATIENCE)
        for node in nodes:
            node.close()


def _first_list(folder: Path) -> None:
    """Waits until a device recommends."""
    from entrenous.deploy.operate.device import Device

    with closing(Device(folder)) as device:

        def recommends() -> bool:
            with suppress(InputError):
                return bool(device.recommend().items)
            return False

        _until(recommends)


def _until(happens: Any) -> None:
    until = time.monotonic() + PATIENCE
    while not happens():
        if time.monotonic() > until:
            raise RuntimeError(f"it did not happen in {PATIENCE:g} s")
        time.sleep(0.05)


BENCHES = {"joining": joining}
