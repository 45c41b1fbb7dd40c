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
from entrenous_network.agreement.catalogue import Items
from entrenous_network.agreement.files import read_json, write_json
from entrenous_network.agreement.join_link import JoinLink
from entrenous_network.agreement.members import MEMBER
from entrenous_network.links.admission import Joins
from entrenous_network.links.https import HttpsPlan, HttpsServerLink
from entrenous_network.links.polling import serve
from entrenous_network.node.node import FederatedNode
from entrenous_network.operate import running
from entrenous_network.operate.enrolment import EnrolmentRequest, identity, join
from entrenous_network.operate.founding import (
    FoundedFederation,
    Place,
    found_federation,
    free_ports,
)
from entrenous_network.operate.newcomers import LINKS, make_link
from entrenous_network.operate.plans import FoundingPlan, JoinPlan
from entrenous_network.operate.running_node import polling
from entrenous_network.server.server import ListsChanged, serve_opened
from entrenous_network.server.server_folder import ServerFolder
from federation_links import ratings
from paths import ROOT

from entrenous.core.contract.protocols import Progress, silent
from entrenous.data.interactions import Interactions

SCRIPTS = ROOT / "tests" / "js"
DEVICE = SCRIPTS / "device.mjs"
NODE = shutil.which("node")
PATIENCE = 120.0  # seconds for what takes five on an idle machine
PEOPLE = 40  # of a federation by lot
ROUNDS = 3
SETTINGS: dict[str, dict[str, Any]] = {"fcf": {"factors": 5}, "fpl": {"factors": 18, "triples": 9}}
OWNER: dict[str, Any] = {"people": 4, "occupancy": 0}
# What the owner of a device in JavaScript insists on.
INSISTED = ["paper=1", "public=1", *(f"{floor}={value}" for floor, value in OWNER.items())]
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
    users = len(rows.users)
    settings = {**SETTINGS.get(name, {}), **terms.get("settings", {})}
    shares = {"shop-1": [0, 1], "shop-2": [2, 3], "shop-3": [4]}
    if users == PEOPLE:
        settings = {**settings, "cohort": 12}
        shares = {f"person-{number:02d}": [number] for number in range(users - 1)}
    requests = [(identity(folder / shop, shop), len(own)) for shop, own in shares.items()]
    if request is not None:
        requests.append((request, 1))
    plan = FoundingPlan(
        algorithm=name, seed=1, **{"rounds": ROUNDS, **terms, "settings": settings}
    ).with_catalogue(rows.catalogue)
    place = Place(port=free_ports()[0])
    founded = found_federation(folder / "book", Items.of(rows), requests, plan, place)
    for shop, own in shares.items():
        owner = JoinPlan(profile="paper", public_draws=True, **OWNER)
        join(folder / shop, founded.nodes[shop], rows.of_users(np.array(own)), owner)
    return founded._replace(nodes={**founded.nodes, **{shop: folder / shop for shop in shares}})


def served(
    made: FoundedFederation,
    work: Work,
    other: str,
    origins: tuple[str, ...] = (),
    progress: Progress = silent,
) -> str | None:
    """The model with which the server of a mixed federation ends. All is over after PATIENCE.
    work: of the device that is not in Python, of the name `other`. progress: is told of each round,
    and the next one begins when it returns."""
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
        closing(running.OpenPort(plan)) as port,
        ThreadPoolExecutor(2) as pool,
    ):
        link = port.opened(held)
        nodes = [opened.enter_context(closing(FederatedNode(path))) for path in shops]
        polled = [polling(node) for node in nodes]
        late.start()
        try:
            device = pool.submit(worked)
            ca = keys / "ca.crt"
            at_work = pool.submit(serve, link.address, ca, polled, stop, say=lambda text: None)
            digest = _to_the_end(held, port, stop, progress)
            device.result(PATIENCE)
        finally:
            stop.set()
            late.cancel()
        at_work.result(PATIENCE)
    return digest


def _to_the_end(
    held: ServerFolder, port: running.OpenPort, stop: threading.Event, progress: Progress
) -> str | None:
    """The model of a server to which people may come."""
    while True:
        try:
            return serve_opened(port.opened(held), held, stop, progress)
        except ListsChanged:
            held.reload()


# ---- joining by a link ---------------------------------------------------------------------------

Parts = dict[str, str]


@final
class LyingDesk:
    """Lets strangers join, and lies to some of them. lies: by the token of the link, changes to the
    files that are sent to whoever asks for terms, and to whoever joins."""

    def __init__(self, honest: Joins) -> None:
        self._honest = honest
        self.of_terms: dict[str, Callable[[Parts], object]] = {}
        self.of_invitations: dict[str, Callable[[Parts], object]] = {}

    def authority(self) -> bytes:
        return self._honest.authority()

    def terms(self, token: str, address: str) -> bytes:
        return _with_lie(self._honest.terms(token, address), self.of_terms.get(token))

    def joined(self, token: str, address: str, request: bytes) -> bytes:
        said = self._honest.joined(token, address, request)
        return _with_lie(said, self.of_invitations.get(token))


def _with_lie(said: bytes, lie: Callable[[Parts], object] | None) -> bytes:
    parts = json.loads(said)
    if lie is not None:
        lie(parts)
    return json.dumps(parts).encode()


def replacing(name: str, before: str, after: str) -> Callable[[Parts], object]:
    """A lie in one file."""

    def lie(parts: Parts) -> None:
        assert before in parts[name], before
        parts[name] = parts[name].replace(before, after)

    return lie


def _as_another(**fields: Any) -> Callable[[Parts], object]:
    """A lie: whoever comes is in the log with other fields."""

    def lie(parts: Parts) -> None:
        own = json.loads(parts[MEMBER])
        own["member"] |= fields
        parts[MEMBER] = json.dumps(own)

    return lie


def links_to(
    made: FoundedFederation, link: HttpsServerLink
) -> tuple[str, list[tuple[list[str], str]]]:
    """A link to a federation by lot, and those that lead nowhere: each with what the owner insists
    on besides, and a part of what a device says. The server lies to those who come by some of them,
    and sends another authority to those who come by the good one."""
    joins = link.admission.joins
    assert joins is not None
    desk = LyingDesk(joins)
    link.admission.joins = desk
    folder = made.server.parent

    def new(days: float = 1.0) -> JoinLink:
        return make_link(folder, uses=9, days=days, an_hour=99)

    used = new()
    standing = read_json(made.server / LINKS)["links"]
    write_json(made.server / LINKS, {"links": [{**standing[0], "left": 0}]})
    honest = new()
    elsewhere = replacing("invitation.json", "127.0.0.1", "127.0.0.2")

    def misled(parts: Parts) -> None:
        """Another authority and server than those of the link, which a device keeps."""
        parts["ca.crt"] = "of another"
        elsewhere(parts)

    desk.of_invitations[honest.token] = misled
    good = str(honest)
    cases = [
        ([str(used)], "as many have joined by the link as may"),
        ([str(new(days=1e-9))], "says that the link has ended"),
        ([str(new()._replace(token="ab" * 16))], "knows no such link"),
        ([str(new()._replace(run="ab" * 16))], "and the link names abab"),
        ([str(new()._replace(authority="ab" * 32))], "shows another authority"),
        ([f"{good},{good}"], "this is no link to join by"),
        ([good[:-1]], "this is no link to join by"),
        ([good.replace("https:", "http:").replace("127.0.0.1", "10.0.0.1")], "plain text beyond"),
        ([good, "people=11"], "its terms have people=10; expected 11 or more"),
        ([good, "noise=1"], "its terms have noise=0.2; expected 1 or more"),
        ([good, "public=0"], "its draws are public"),
        ([good, "people=x"], "got 'people=x'"),
    ]
    fewer = replacing("terms.json", '"people": 10', '"people": 4')
    lies: list[tuple[Callable[[Parts], object], str]] = [
        (fewer, "has the federation"),
        (lambda parts: parts.update({"identity.key": "00" * 32}), "sent what is no invitation"),
        (lambda parts: parts.pop("terms.json"), "sent what is no invitation"),
    ]
    others = replacing("items.jsonl", "film-0y", "film-99y")
    for lie, said in [*lies, (others, "items: not the list of the terms")]:
        token = new()
        desk.of_terms[token.token] = lie
        cases.append(([str(token)], said))
    of_members: list[tuple[Callable[[Parts], object], str]] = [
        (_as_another(key="ab" * 32), "with this key"),
        (_as_another(shop="5e" * 32), "or is a shop's"),
        (_as_another(first=0, last=1), "for several users"),
        (_as_another(first=0, last=0), "the log of members has no"),
        (lambda parts: parts.update({MEMBER: "{}"}), "format undefined; expected 9"),
        (lambda parts: parts.update({"items.jsonl": ""}), "sent what is no invitation"),
        (lambda parts: parts.pop(MEMBER), "this is no invitation (SyntaxError)"),
    ]
    for lie, said in [*lies, *of_members]:
        token = new()
        desk.of_invitations[token.token] = lie
        cases.append(([str(token)], said))
    return good, cases


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
