"""Devices in JavaScript (tests/js) for tests: their commands, and one that a test drives."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import threading
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, final

import numpy as np
from federation_links import ratings
from paths import ROOT

from entrenous.data.interactions import Interactions
from entrenous.deploy.agreement.catalogue import Items
from entrenous.deploy.agreement.files import read_json
from entrenous.deploy.links.https import HttpsPlan, HttpsServerLink
from entrenous.deploy.links.polling import serve
from entrenous.deploy.node.node import FederatedNode
from entrenous.deploy.operate import running
from entrenous.deploy.operate.enrolment import EnrolmentRequest, identity, join
from entrenous.deploy.operate.founding import (
    FoundedFederation,
    Place,
    found_federation,
    free_ports,
)
from entrenous.deploy.operate.plans import FoundingPlan, JoinPlan
from entrenous.deploy.operate.running_node import polling
from entrenous.deploy.server.server import serve_opened
from entrenous.deploy.server.server_folder import ServerFolder

SCRIPTS = ROOT / "tests" / "js"
DEVICE = SCRIPTS / "device.mjs"
NODE = shutil.which("node")
PATIENCE = 120.0  # seconds for what takes five on an idle machine
PEOPLE = 40  # of a federation by lot
ROUNDS = 3
SETTINGS: dict[str, dict[str, Any]] = {"fcf": {"factors": 5}, "fpl": {"factors": 18, "triples": 9}}
OWNER: dict[str, Any] = {"people": 4, "parties": 3, "occupancy": 0}
# What the owner of a device in JavaScript insists on.
INSISTED = ["public=1", *(f"{floor}={value}" for floor, value in OWNER.items())]
PLAIN: dict[str, Any] = {"profile": "paper", "draws": "public"}
# By lot every device is one person's. Noise is from the seed, as the simulation's is.
LOTS: dict[str, Any] = {
    **PLAIN,
    "deadline": 120.0,
    "protect": {
        "secure_sum": True,
        "people": 10,
        "parties": 3,
        "sampling": "poisson",
        "answers": 3,
        "noise": 0.2,
        "rows": "all",
    },
}


def in_node(*words: object) -> list[str]:
    """The command of the device, or of another script next to it."""
    assert NODE is not None
    return [NODE, "--no-warnings", *map(str, words)]


def done(*words: object) -> subprocess.CompletedProcess[str]:
    """What a script said, at its end."""
    return subprocess.run(in_node(*words), capture_output=True, text=True, timeout=PATIENCE)


def requested(folder: Path, name: str) -> EnrolmentRequest:
    """The request of a new device."""
    ended = done(DEVICE, "identity", folder, name)
    assert ended.returncode == 0, ended.stderr
    return EnrolmentRequest.read(folder / "request.json")


def joined(
    folder: Path, invitation: Path, rows: Interactions, user: int, insisted: Collection[str]
) -> None:
    """Joins with the rows of one user. insisted: such as people=60."""
    file = folder.with_suffix(".csv")
    file.write_text(csv_of(rows, user))
    ended = done(DEVICE, "join", folder, invitation, file, *insisted)
    assert ended.returncode == 0, ended.stderr


def csv_of(rows: Interactions, user: int) -> str:
    """The rows of one user as a file."""
    numbers = rows.item[rows.user == user].tolist()
    return "\n".join(["user,item", *(f"me,{rows.items[number]}" for number in numbers)])


# Of the device that is not in Python: is given what ends the server, and its link.
Work = Callable[[threading.Event, HttpsServerLink], Any]


def rows_of(terms: dict[str, Any]) -> Interactions:
    """The rows of a mixed federation."""
    return ratings(users=PEOPLE if terms.get("protect") is LOTS["protect"] else 6)


def founded_with(
    folder: Path, name: str, terms: dict[str, Any], request: EnrolmentRequest | None = None
) -> FoundedFederation:
    """A federation of three Python nodes with five users, who have joined, and another device with
    the sixth; by lot of 39 Python nodes, and the fortieth user's device. request: of the other
    device; without one it comes later, to `folder`/book."""
    rows = rows_of(terms)
    users, settings = len(rows.users), SETTINGS[name]
    shares = {"shop-1": [0, 1], "shop-2": [2, 3], "shop-3": [4]}
    if users == PEOPLE:
        settings = {**settings, "cohort": 12}
        shares = {f"person-{number:02d}": [number] for number in range(users - 1)}
    requests = [(identity(folder / shop, shop), len(own)) for shop, own in shares.items()]
    if request is not None:
        requests.append((request, 1))
    plan = FoundingPlan(
        algorithm=name, settings=settings, seed=1, **{"rounds": ROUNDS, **terms}
    ).with_catalogue(rows.catalogue)
    place = Place(port=free_ports()[0])
    founded = found_federation(folder / "book", Items.of(rows), requests, plan, place)
    for shop, own in shares.items():
        owner = JoinPlan(public_draws=True, **OWNER)
        join(folder / shop, founded.nodes[shop], rows.of_users(np.array(own)), owner)
    return founded._replace(nodes={**founded.nodes, **{shop: folder / shop for shop in shares}})


def served(
    made: FoundedFederation,
    work: Work,
    other: str,
    origins: tuple[str, ...] = (),
) -> str | None:
    """The model with which the server of a mixed federation ends. All is over after PATIENCE.
    work: of the device that is not in Python, of the name `other`."""
    stop = threading.Event()
    late = threading.Timer(PATIENCE, stop.set)
    keys = made.server / "keys"
    port = read_json(made.server / "place.json")["port"]
    plan = HttpsPlan(port=port, keys=keys, origins=origins)
    shops = [path for name, path in made.nodes.items() if name != other]

    def worked() -> None:
        # Nobody else would end the server.
        try:
            work(stop, link)
        except BaseException:
            stop.set()
            raise

    with (
        ExitStack() as opened,
        closing(ServerFolder(made.server)) as held,
        closing(running.https_link(held, plan)) as link,
        ThreadPoolExecutor(2) as pool,
    ):
        nodes = [opened.enter_context(closing(FederatedNode(path))) for path in shops]
        polled = [polling(node) for node in nodes]
        link.start()
        late.start()
        try:
            device = pool.submit(worked)
            ca = keys / "ca.crt"
            at_work = pool.submit(serve, link.address, ca, polled, stop, say=lambda text: None)
            digest = serve_opened(link, held, stop)
            device.result(PATIENCE)
        finally:
            stop.set()
            late.cancel()
        at_work.result(PATIENCE)
    return digest


@final
class JavaScript:
    """A device in JavaScript that answers the frames that a test gives it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._process = subprocess.Popen(
            in_node(SCRIPTS / "answering.mjs", folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tell(self, what: str, text: str = "") -> Any:
        """What the device says to a line: see answering.mjs."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps([what, text]) + "\n")
        process.stdin.flush()
        said = process.stdout.readline()
        assert said, f"the device has ended: {what}"
        return json.loads(said)

    def answer(self, frame: bytes) -> bytes:
        """The answer to a frame."""
        return base64.b64decode(self.tell("frame", base64.b64encode(frame).decode()))

    @property
    def state(self) -> dict[str, Any]:
        """What is in state.json."""
        state: dict[str, Any] = self.tell("state")
        return state

    def close(self) -> None:
        """Ends the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(PATIENCE)
