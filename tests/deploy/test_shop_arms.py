"""A shop in several arms: the device of each customer draws one, one process runs all of them, and
each arm has the bytes of a simulation of its people.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Command
from federation_links import ratings, until
from running_by_lot import PLAN, ROOM, first_of_free_ports

from entrenous.core.errors import InputError
from entrenous.data.interactions import Interactions
from entrenous.deploy.agreement.catalogue import Items
from entrenous.deploy.agreement.files import read_json
from entrenous.deploy.agreement.join_link import arm_of
from entrenous.deploy.agreement.members import MEMBERS, Members
from entrenous.deploy.agreement.notice import ADDRESSES, known_number
from entrenous.deploy.links import knocking
from entrenous.deploy.node.node_store import STORE, NodeStore
from entrenous.deploy.operate import joining, running_node
from entrenous.deploy.operate.arms import found_arms, make_links
from entrenous.deploy.operate.device import Device
from entrenous.deploy.operate.enrolment import identity
from entrenous.deploy.operate.founding import FoundedFederation, Place
from entrenous.deploy.operate.joining import join_shop
from entrenous.deploy.operate.moving import hear, move
from entrenous.deploy.operate.newcomers import links_of, make_link
from entrenous.deploy.operate.plans import JoinPlan
from entrenous.deploy.operate.running import run_server, status
from entrenous.deploy.operate.running_node import run_shop
from entrenous.deploy.operate.shop import arms_of_shop, devices_of, name_of
from entrenous.deploy.operate.trial_again import QuietRounds, made_again, server_sha256
from entrenous.deploy.server.server_folder import ServerFolder, past_sums, told

DATA = ratings(ROOM, items=50)
ITEMS = Items.of(DATA)
OWNER = JoinPlan(people=3, parties=3, public_draws=True)
LOTS = replace(
    PLAN,
    accuracy=0.01,
    arms=("b:learning_rate=0.003",),
    draws="public",
    seed=1,
)


class Arm:
    """The server of an arm, in a thread, and who was in the sum of each of its rounds."""

    def __init__(self, made: FoundedFederation) -> None:
        self.made = made
        self.folder = made.server.parent
        self.sums: list[frozenset[int] | None] = []
        self._seen: set[bytes] = set()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, pace: float = 0.1) -> None:
        self._thread = threading.Thread(
            target=run_server,
            args=(self.made.server, self._stop, lambda line: None),
            kwargs={"pace": pace, "progress": self._passed},
        )
        self._thread.start()
        # Its first word comes once it listens.
        until(lambda: status(self.made.server))

    def _passed(self, done: int, total: int, what: str) -> None:
        users: set[int] = set()
        members = self.members().nodes
        for summed in past_sums(self.made.server):
            if summed.model not in self._seen:
                self._seen.add(summed.model)
                users |= {int(members[name].users[0]) for name in summed.parties}
        lost = int(status(self.made.server).get("lost", 0))
        before = self.sums.count(None)
        self.sums.append(frozenset(users) if lost == before else None)

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(60)
            assert not self._thread.is_alive()

    def members(self) -> Members:
        return Members.read(self.made.server / MEMBERS, ROOM)

    def trained(self) -> str:
        """The hash of the server's model, which has ended."""
        with closing(ServerFolder(self.made.server)) as held:
            newest = held.newest(self.made.terms.make())
        assert newest is not None
        return server_sha256(newest.state)

    def simulated(self, devices: list[Path]) -> str:
        """The hash of the model that the same rounds of these devices have in one process."""
        rows = {}
        for folder in devices:
            with Device(folder) as device:
                member = self.members().nodes[read_json(folder / "node.json")["name"]]
                rows[int(member.users[0])] = device.export()
        stage = QuietRounds(ITEMS, rows, frozenset(rows), frozenset(), self.sums)
        return made_again(self.made.terms, [stage]).sha256


class Arms:
    """Two arms, founded with nobody, whose servers do not run yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "f"
        made = found_arms(self.folder, ITEMS, [], LOTS, Place(port=first_of_free_ports(2)))
        self.each = [Arm(one) for one in made.values()]

    def close(self) -> None:
        for each in self.each:
            each.close()

    def members(self) -> list[int]:
        return [len(each.members().nodes) for each in self.each]


@pytest.fixture
def arms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Arms]:
    monkeypatch.setattr(knocking, "PAUSE", 0.01)
    with closing(Arms(tmp_path)) as own:
        yield own


def link(arms: Arms, uses: int = ROOM) -> str:
    return make_links(arms.folder, uses, 1, 1000)


def joined(arms: Arms, folder: Path) -> tuple[Path, list[Path], list[Path]]:
    """A shop whose customers have joined both arms: its folder, and their devices in each."""
    for each in arms.each:
        each.start(3600.0)
    shop = folder / "shop"
    join_shop(shop, link(arms), DATA, OWNER, lambda line: None)
    of_run = arms_of_shop(shop)
    first, second = (of_run[each.made.terms.run] for each in arms.each)
    return shop, first, second


def drawn(folder: Path) -> int:
    """The arm that the key of a device draws, of two."""
    return arm_of(bytes.fromhex(str(read_json(folder / "request.json")["key"])), 2)


def dealt_evenly(shop: Path) -> None:
    """Makes the keys of a shop's customers, so that they draw both arms in turn."""
    for number, user in enumerate(DATA.users.ids.tolist()):
        folder = shop / name_of(user)
        identity(folder, f"device-{number}")
        while drawn(folder) != number % 2:
            shutil.rmtree(folder)
            identity(folder, f"device-{number}")


def dealt(shop: Path, customers: Interactions) -> list[int]:
    """How many customers the keys deal to each of two arms."""
    arms = [drawn(shop / name_of(user)) for user in customers.users.ids.tolist()]
    return [arms.count(0), arms.count(1)]


def has_model(folder: Path) -> bool:
    with closing(NodeStore(folder / STORE)) as store:
        return store.standing().model is not None


def test_a_shop_is_in_both_arms_and_each_has_the_bytes_of_the_simulation_of_its_people(
    arms: Arms, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = Command(capsys)
    for each in arms.each:
        each.start()
    shop = tmp_path / "shop"
    dealt_evenly(shop)
    lines: list[str] = []
    assert join_shop(shop, link(arms), DATA, OWNER, lines.append) == 20
    assert arms.members() == [10, 10]
    for number, each in enumerate(arms.each):
        place = lines.index(f"by lot, from their keys, 10 devices are in arm {number + 1}")
        assert lines[place + 1].startswith(f"run {each.made.terms.run}")
    runs = {each.made.terms.run: each for each in arms.each}
    of_run = arms_of_shop(shop)
    for run, devices in of_run.items():
        assert len(devices) == 10
        assert {drawn(device) for device in devices} == {arms.each.index(runs[run])}
    said: list[str] = []
    stop = threading.Event()
    run_them = threading.Thread(target=run_shop, args=(shop, stop, said.append))
    run_them.start()
    try:
        until(lambda: all(sum(map(bool, each.sums)) >= 2 for each in arms.each))
        until(lambda: all(has_model(device) for device in devices_of(shop)))
    finally:
        for each in arms.each:
            each.close()
        stop.set()
        run_them.join(60)
    assert not run_them.is_alive()
    for run, each in runs.items():
        assert each.trained() == each.simulated(of_run[run])
    assert arms.each[0].trained() != arms.each[1].trained()
    assert sum(": 10 customers, " in line for line in said) == 2
    # What finds a customer's device finds it in whichever arm it is.
    for user in DATA.users.ids[:2]:
        best = command("federation", "recommend", shop, "--user", user, "--n", 1, "--json")
        assert best.json["user"] == user
    new = tmp_path / "new.csv"
    rows = [f"{user},{ITEMS.ids[number]},5" for number, user in enumerate(DATA.users.ids)]
    new.write_text("\n".join(["user,item,value", *rows, ""]))
    added = command("federation", "add", shop, "--data", new)
    assert added.code == 0 and "20 of 20 rows added" in added.err


def test_an_arm_whose_server_is_away_stops_alone_and_goes_on_later_with_the_same_keys(
    arms: Arms, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = tmp_path / "shop"
    text = link(arms)
    data = tmp_path / "shop.csv"
    rows = [
        f"{DATA.users[user]},{DATA.items[item]},{value}"
        for user, item, value in zip(DATA.user, DATA.item, DATA.value, strict=True)
    ]
    data.write_text("\n".join(["user,item,value", *rows, ""]))
    joining = ["federation", "join", shop, "--link", text, "--data", data]
    joining += ["--people", 3, "--parties", 3, "--public-draws"]
    command = Command(capsys)
    arms.each[0].start(3600.0)
    refused = command(*joining)
    first, second = dealt(shop, DATA)
    assert min(first, second) >= 1, "keys are drawn: one shop of 500,000 is in a single arm"
    assert refused.code == 2
    error = refused.err.splitlines()[-1]
    assert f"{first} of 20 customers have joined, then: --link: " in error
    assert "does not answer" in error and "the same command goes on" in error
    assert arms.members() == [first, 0]
    keys = {path: path.read_bytes() for path in shop.glob("*/identity.key")}
    assert len(keys) == 20 and len(devices_of(shop)) == first
    arms.each[1].start(3600.0)
    again = command(*joining)
    assert f"{second} of 20 customers have joined now" in again.err
    assert arms.members() == [first, second]
    assert keys == {path: path.read_bytes() for path in shop.glob("*/identity.key")}
    # Nobody is left: no server hears of it.
    asked = [left.left for each in arms.each for left in links_of(each.folder)]
    assert asked == [ROOM - first, ROOM - second]
    assert "0 of 20 customers have joined now" in command(*joining).err


def test_an_arm_that_is_full_stops_and_the_others_go_on(arms: Arms, tmp_path: Path) -> None:
    for each in arms.each:
        each.start(3600.0)
    shop = tmp_path / "shop"
    dealt_evenly(shop)
    one = str(make_link(arms.each[0].folder, 1, 1, 1000))
    other = str(make_link(arms.each[1].folder, ROOM, 1, 1000))
    with pytest.raises(InputError) as refused:
        join_shop(shop, f"{one},{other}", DATA, OWNER, lambda line: None)
    assert "11 of 20 customers have joined, then: --link" in str(refused.value)
    assert "as many have joined by the link as may" in str(refused.value)
    assert arms.members() == [1, 10]


def test_terms_that_the_shop_refuses_in_one_arm_let_nobody_join(
    arms: Arms, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in arms.each:
        each.start(3600.0)
    check = joining.check_terms
    refused_run = arms.each[1].made.terms.run

    def checked(invitation: Path, terms: object, plan: JoinPlan, users: int) -> None:
        if getattr(terms, "run", "") == refused_run:
            raise InputError("terms", "the owner does not like them")
        check(invitation, terms, plan, users)  # type: ignore[arg-type]

    monkeypatch.setattr(joining, "check_terms", checked)
    with pytest.raises(InputError, match="the owner does not like them"):
        join_shop(tmp_path / "shop", link(arms), DATA, OWNER, lambda line: None)
    assert arms.members() == [0, 0] and devices_of(tmp_path / "shop") == []


def test_an_arm_that_cannot_be_used_is_said_and_the_others_are_asked_on(
    arms: Arms, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another authority in the folders of one arm, which no waiting mends."""
    shop, bad, good = joined(arms, tmp_path)
    strange = (good[0] / "ca.crt").read_bytes()
    for device in bad:
        (device / "ca.crt").write_bytes(strange)
    commons = {}
    made = running_node.FederatedNode

    def opened(folder: Path, **how: object) -> object:
        commons[folder] = how["common"]
        return made(folder, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(running_node, "FederatedNode", opened)
    said: list[str] = []
    failed: list[InputError] = []
    stop = threading.Event()

    def run() -> None:
        try:
            run_shop(shop, stop, said.append)
        except InputError as why:
            failed.append(why)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        until(lambda: any(f"{len(bad)} customers stop: " in line for line in said))
        until(lambda: all(told(device).get("last_contact") for device in good))
        assert thread.is_alive() and not failed and not stop.is_set()
    finally:
        stop.set()
        thread.join(60)
    assert "certificate is not to be trusted" in str(failed[0])
    # What is verified for one federation is not known in another.
    for devices in (bad, good):
        assert len({id(commons[device]) for device in devices}) == 1
    assert commons[bad[0]] is not commons[good[0]]


def test_a_notice_of_one_arm_is_taken_by_its_devices_alone(arms: Arms, tmp_path: Path) -> None:
    shop, ours, others = joined(arms, tmp_path)
    move(arms.folder, ["hub.example:8443"])
    notice = hear(shop, arms.each[0].made.server / ADDRESSES)
    assert notice.addresses == ("hub.example:8443",)
    assert {known_number(device) for device in ours} == {1}
    assert {known_number(device) for device in others} == {0}
    # Of a federation that nobody here is in.
    strange = tmp_path / "strange.json"
    text = (arms.each[0].made.server / ADDRESSES).read_text()
    strange.write_text(text.replace(notice.run, "0" * 32))
    with pytest.raises(InputError, match="is of federation 0000"):
        hear(shop, strange)
