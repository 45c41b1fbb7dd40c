"""A federation by lot that runs in threads, over TLS, and lets people join by links."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from entrenous_network.agreement.catalogue import Items
from entrenous_network.agreement.files import read_json
from entrenous_network.agreement.members import MEMBERS, Members
from entrenous_network.links.https import HttpsPlan
from entrenous_network.links.polling import serve
from entrenous_network.node.common import Common
from entrenous_network.node.node import FederatedNode
from entrenous_network.operate.enrolment import identity, join
from entrenous_network.operate.founding import (
    FoundedFederation,
    Place,
    found_federation,
    free_ports,
)
from entrenous_network.operate.plans import FoundingPlan, JoinPlan
from entrenous_network.operate.running import run_server, serve_by_workers, status
from entrenous_network.operate.running_node import polling
from entrenous_network.server.pool import WorkerPool
from entrenous_network.server.server_folder import ServerFolder
from federation_links import PATIENCE, ratings, until

PEOPLE = 16  # before anybody joins
ROOM = 20
ITEMS = Items.of(ratings(ROOM))
DATA = ratings(ROOM)
OWNER = JoinPlan(people=5)
PLAN = FoundingPlan(
    algorithm="fcf",
    endless=True,
    settings={"factors": 4, "cohort": 5},
    users=ROOM,
    interactions=len(DATA),
    profile="paper",
    protect={
        **{"sampling": "poisson", "answers": 1000, "noise": 0.2, "rows": "all"},
        **{"secure_sum": True, "people": 4, "parties": 3},
    },
    deadline=1.0,
)


class Running:
    """A federation by lot, whose server and first nodes run in threads."""

    def __init__(
        self,
        folder: Path,
        people: int = PEOPLE,
        made: FoundedFederation | None = None,
        plan: FoundingPlan = PLAN,
        clock: Callable[[], float] = time.time,
        owner: JoinPlan = OWNER,
    ) -> None:
        """made: a federation that is founded already, with nobody; its folder is `folder`. clock: of
        all devices. owner: of those who found it."""
        self._clock = clock
        self._owner = owner
        self._plan = plan
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self.said: list[str] = []
        self.folder = folder
        self.devices: list[Path] = []
        if made is None:
            self.folder = folder / "f"
            made = self._founded(folder, people)
        self.made = made

    def _founded(self, folder: Path, people: int) -> FoundedFederation:
        self.devices = [folder / f"person-{number}" for number in range(people)]
        requests = [(identity(device, device.name), 1) for device in self.devices]
        place = Place(port=free_ports()[0])
        made = found_federation(self.folder, ITEMS, requests, self._plan, place)
        for number, device in enumerate(self.devices):
            join(device, made.nodes[device.name], DATA.of_users([number]), self._owner)
        return made

    def start(self, pace: float = 0.2) -> None:
        arguments = (self.made.server, self._stop, self.said.append)
        server = threading.Thread(target=run_server, args=arguments, kwargs={"pace": pace})
        self._begin(server)
        self._run_devices()

    def start_workers(
        self, pace: float = 0.2, serve: Callable[..., object] = serve_by_workers
    ) -> WorkerPool[Any]:
        """Starts the server with two workers, which `serve` makes, and returns them."""
        pools: SimpleQueue[WorkerPool[Any]] = SimpleQueue()
        place = read_json(self.made.server / "place.json")
        plan = HttpsPlan(place["host"], place["port"], self.made.server / "keys")

        self.held = ServerFolder(self.made.server, pace=pace)

        def run() -> None:
            with closing(self.held) as held:
                serve(held, plan, 2, self._stop, pools.put, self.said.append)

        self._begin(threading.Thread(target=run))
        pool = pools.get(timeout=PATIENCE)
        self._run_devices()
        return pool

    def _run_devices(self) -> None:
        # Its first word comes once it listens.
        until(lambda: status(self.made.server))
        for device in self.devices:
            self.run(device)

    def run(self, device: Path) -> None:
        node = FederatedNode(device, common=Common(self._clock))
        address = read_json(device / "node.json")["server"]
        arguments = (address, device / "ca.crt", [polling(node)], self._stop)
        self._begin(
            threading.Thread(target=serve, args=arguments, kwargs={"say": lambda line: None})
        )

    def _begin(self, thread: threading.Thread) -> None:
        thread.start()
        self._threads.append(thread)

    def close(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()

    def members(self) -> Members:
        return Members.read(self.made.server / MEMBERS, ROOM)
