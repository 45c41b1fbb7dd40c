"""Joining by a link, over TLS, while the server works: who gets in, who does not, and what a link, a
server or a stranger that lies gets.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from entrenous_network.agreement.catalogue import ITEMS as ITEMS_FILE
from entrenous_network.agreement.catalogue import Items
from entrenous_network.agreement.certificates import is_by
from entrenous_network.agreement.files import IDENTITY, public_bytes, read_identity, read_json
from entrenous_network.agreement.join_link import JoinLink, asking
from entrenous_network.agreement.members import MEMBER, MEMBERS, Member, Members, OwnEntry
from entrenous_network.links import knocking
from entrenous_network.links.admission import Denied, here
from entrenous_network.links.knocking import JoiningLine
from entrenous_network.node.node_store import NODE
from entrenous_network.node.secure_node import SecureSide
from entrenous_network.operate.device import Device
from entrenous_network.operate.enrolment import REQUEST, identity
from entrenous_network.operate.founding import Place, found_federation, free_ports
from entrenous_network.operate.joining import APART, join_by_link, join_shop
from entrenous_network.operate.membership import shut_out
from entrenous_network.operate.newcomers import (
    LINKS,
    REPEATS,
    JoinDesk,
    end_links,
    links_of,
    make_link,
)
from entrenous_network.operate.plans import JoinPlan
from entrenous_network.operate.running import status
from entrenous_network.operate.shop import key_of
from entrenous_network.secure_sum.server import SecureSumServer
from entrenous_network.server.local_workers import WorkerProcess
from entrenous_network.server.pool import WorkerPool
from federation_links import in_one_line, until
from running_by_lot import DATA, ITEMS, OWNER, PEOPLE, PLAN, Running

from entrenous.core.errors import EntrenousError, InputError

MILLION = 1_000_000  # members


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with closing(Running(tmp_path)) as own:
        yield own


def _recommends(device: Device) -> bool:
    try:
        return bool(device.recommend().items)
    except InputError:
        return False


def test_a_person_without_rows_joins_and_their_first_row_is_learnt(
    running: Running, tmp_path: Path
) -> None:
    running.start()
    link = make_link(running.folder, uses=1, days=1, an_hour=10)
    told: list[str] = []
    with Device.join(tmp_path / "new", str(link), people=5, tell=told.append) as device:
        running.run(tmp_path / "new")
        assert told[0].startswith(f"run {link.run}")
        until(lambda: _recommends(device))
        best = device.recommend(1).items[0]["item"]
        device.consumed(best)
        assert best not in [one["item"] for one in device.recommend().items]
        assert device.users == ["me"]


def test_a_federation_begins_with_nobody_and_people_come_by_a_link(tmp_path: Path) -> None:
    own = Running(tmp_path, people=0)
    try:
        own.start()
        link = make_link(own.folder, uses=PEOPLE, days=1, an_hour=100)
        for number in range(PEOPLE):
            # Faster, and the server shuts out the address of so many strangers.
            time.sleep(APART)
            device = tmp_path / f"device-{number}"
            users = join_by_link(device, str(link), DATA.of_users([number]), OWNER)
            assert users.tolist() == [number]
            own.run(device)
        log = own.made.server / "server.log"
        # Rounds in which too few offered open no sum; then one is of enough.
        until(lambda: re.search(r"round \d+: [3-9] of \d+ devices", log.read_text()))
        with closing(Device(tmp_path / "device-0")) as first:
            until(lambda: _recommends(first))
    finally:
        own.close()


@pytest.mark.parametrize("invented", [False, True])
def test_a_person_alone_among_accomplices_is_read_by_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invented: bool
) -> None:
    """They send zeros, so a sum is what the person sends, its share of noise in it. A shop that
    leaves its mark out takes places of a link; an operator writes members into the log, and needs
    none.
    """
    masked, total = SecureSide._vector, SecureSumServer.total
    person: list[str] = []
    sent: list[Any] = []
    summed: list[Any] = []

    def sends(side: SecureSide, request: Any, model: bytes) -> Any:
        work = masked(side, request, model)
        if side._node.name in person:
            sent.append(work.masked.vector)
            return work
        nothing = work.masked._replace(vector=np.zeros_like(work.masked.vector))
        return work._replace(masked=nothing)

    def sums(server: SecureSumServer) -> Any:
        summed.append(total(server))
        return summed[-1]

    monkeypatch.setattr(SecureSide, "_vector", sends)
    monkeypatch.setattr(SecureSumServer, "total", sums)
    with closing(Running(tmp_path, people=PEOPLE if invented else 0)) as own:
        own.start()
        link = make_link(own.folder, uses=PEOPLE + 1, days=1, an_hour=100)
        for number in range(0 if invented else PEOPLE):
            time.sleep(APART)
            join_by_link(tmp_path / f"bought-{number}", str(link), DATA.of_users([number]), OWNER)
            own.run(tmp_path / f"bought-{number}")
        with Device.join(tmp_path / "new", str(link), people=5):
            person.append(read_json(tmp_path / "new" / NODE)["name"])
            own.run(tmp_path / "new")
            until(lambda: sent and any(np.array_equal(sent[0], one) for one in summed))
        assert np.count_nonzero(sent[0]) > len(ITEMS)
        # By the log of members all of them are people.
        assert {member.shop for member in own.members().nodes.values()} == {""}
        assert links_of(own.folder)[0].left == (PEOPLE if invented else 0)


@pytest.mark.parametrize("at_once", [True, False])
def test_whoever_asks_again_has_one_place(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    """As after a connection that was lost when the answer was under way. A certificate of which
    `is_by` is not sure is looked at by OpenSSL, on a second connection.
    """
    sure = is_by
    monkeypatch.setattr(knocking, "is_by", lambda *about: at_once and sure(*about))
    running.start(3600.0)
    link = make_link(running.folder, uses=1, days=1, an_hour=10)
    request = request_of(tmp_path / "x", link)
    with closing(JoiningLine(link)) as line:
        first = line.joined(request)
        assert line.joined(request) == first
    assert len(running.members().nodes) == PEOPLE + 1
    assert join_by_link(tmp_path / "x", str(link), None, OWNER).tolist() == [PEOPLE]
    with pytest.raises(InputError, match="as many have joined by the link as may"):
        join_by_link(tmp_path / "y", str(link), None, OWNER)


PLANS = [
    (JoinPlan(), "--people: 100, and a sum here has 5 people: this node.*--people 4, as the terms"),
    (JoinPlan(people=0), "--people: got 0; expected a whole number from 1"),
    (JoinPlan(people=5, occupancy=float("nan")), "--occupancy: got nan"),
    (JoinPlan(people=5, least_users=2), "--least-users: got 2; expected 1 to 1"),
    (JoinPlan(people=5, epsilon=4.0), "--link: its terms prove no epsilon"),
]


def test_an_owner_whose_device_would_send_nothing_takes_no_place(
    running: Running, tmp_path: Path
) -> None:
    running.start(3600.0)
    link = make_link(running.folder, uses=1, days=1, an_hour=10)
    for plan, message in PLANS:
        with pytest.raises(InputError, match=message):
            join_by_link(tmp_path / "x", str(link), None, plan)
        assert not (tmp_path / "x").exists()
        assert links_of(running.folder)[0].left == 1
    # What the line says to do works.
    assert join_by_link(tmp_path / "x", str(link), None, JoinPlan(people=4)).tolist() == [PEOPLE]


def test_nobody_joins_without_masks_by_a_link_who_did_not_say_so(tmp_path: Path) -> None:
    profile: Any = "paper"
    plan = replace(PLAN, profile=profile, protect={}, endless=False, rounds=9)
    first = identity(tmp_path / "first", "first"), 1
    made = found_federation(tmp_path / "f", ITEMS, [first], plan, Place(port=free_ports()[0]))
    with closing(Running(tmp_path / "f", made=made)) as running:
        running.start(3600.0)
        link = make_link(running.folder, uses=4, days=1, an_hour=10)
        rows = DATA.of_users([1, 2])
        says_no_more = JoinPlan(people=300)
        doors: list[Callable[[], object]] = [
            lambda: join_by_link(tmp_path / "x", str(link), None, says_no_more),
            lambda: Device.join(tmp_path / "x", str(link), people=300),
            lambda: join_shop(tmp_path / "x", str(link), rows, says_no_more, print),
        ]
        remedy = f"--profile {profile}, in Python profile='{profile}'"
        for door in doors:
            with pytest.raises(InputError, match=f"--link: profile {profile}: .*{remedy}"):
                door()
        assert not (tmp_path / "x").exists()
        assert links_of(running.folder)[0].left == 4
        with Device.join(tmp_path / "y", str(link), profile=profile) as device:
            assert device.users == ["me"]
        # Whoever says paper has said that all can be read.
        agreed = JoinPlan(profile="paper")
        assert join_shop(tmp_path / "z", str(link), rows, agreed, print) == 2


def test_a_link_ends_and_is_used_up_and_is_slow(running: Running, tmp_path: Path) -> None:
    now = [time.time()]
    link = make_link(running.folder, uses=3, days=1, an_hour=2)
    desk = JoinDesk(running.made.server, clock=lambda: now[0])

    def join(name: str, address: str = "10.0.0.1", token: str = link.token) -> str:
        try:
            shown = link._replace(token=token)
            desk.joined(token, address, request_of(tmp_path / name, shown))
        except Denied as why:
            return why.code
        return "joined"

    assert join("a", token="00" * 16) == join("b", token="no hex") == "no-such-link"
    assert [join("c"), join("d"), join("e")] == ["joined", "joined", "too-often"]
    assert join("f", "10.0.0.2") == "joined"
    assert join("g", "10.0.0.3") == "link-used-up"
    more = make_link(running.folder, uses=3, days=1, an_hour=2)
    now[0] += 2 * 86_400
    assert join("h", token=more.token) == "link-ended"
    assert end_links(running.folder) == 2
    assert join("i", token=more.token) == "no-such-link"
    # The folder lets nobody join who reads it.
    assert more.token not in (running.made.server / LINKS).read_text()


@pytest.mark.slow
def test_whoever_joins_a_million_is_answered_in_a_few_bytes(tmp_path: Path) -> None:
    protect = {**PLAN.protect, "people": 20}
    plan = replace(PLAN, users=MILLION + 9, settings={"cohort": 99}, protect=protect)
    ids = [f"film-{n}" for n in range(1682)]
    films = Items(ids, ["A title of MovieLens (1996)"] * len(ids), None)
    made = found_federation(tmp_path / "f", films, [], plan, Place(port=free_ports()[0]))
    everybody = (Member(f"device-{n}", f"{n:064x}", n, n) for n in range(MILLION))
    Members(1).write(made.server / MEMBERS, everybody)
    link = make_link(tmp_path / "f", uses=1, days=1, an_hour=10)
    request = request_of(tmp_path / "x", link)
    said = JoinDesk(made.server).joined(link.token, "10.0.0.1", request)
    assert len(said) <= 20_000 < (made.server / ITEMS_FILE).stat().st_size
    (tmp_path / MEMBER).write_text(json.loads(said)[MEMBER])
    own = OwnEntry.read(tmp_path / MEMBER)
    assert (own.index, own.size) == (MILLION, MILLION + 1) and own.is_proven()


REQUESTS = [
    b"",
    b"[" * 4000,
    json.dumps({"name": "a/../b", "key": "0" * 64, "signature": "0" * 128}).encode(),
    json.dumps({"name": "a", "key": "00", "signature": "0" * 128}).encode(),
    json.dumps({"name": "a", "key": "0" * 64}).encode(),
    json.dumps({"name": "a", "key": "0" * 64, "signature": 7}).encode(),
    json.dumps({"name": "a", "key": "0" * 64, "signature": "0" * 128, "listen": ":1"}).encode(),
]


def test_a_request_that_is_none_costs_the_link_nothing(running: Running) -> None:
    link = make_link(running.folder, uses=1, days=1, an_hour=10)
    for request in REQUESTS:
        with pytest.raises(Denied, match="no-request"):
            JoinDesk(running.made.server).joined(link.token, "10.0.0.1", request)
        assert links_of(running.folder)[0].left == 1
        assert len(running.members().nodes) == PEOPLE


def test_whoever_shows_the_key_of_another_gets_no_list_of_members(
    running: Running, tmp_path: Path
) -> None:
    """A member's name and public key are known to all members, and by a link that is used up."""
    link = make_link(running.folder, uses=1, days=1, an_hour=10)
    more = make_link(running.folder, uses=1, days=1, an_hour=10)
    desk = JoinDesk(running.made.server)
    first = request_of(tmp_path / "x", link)
    desk.joined(link.token, "10.0.0.1", first)
    key = json.loads(first)["key"]
    others = request_of(tmp_path / "y", link, "x", key)
    for token, request in [(link.token, others), (more.token, first)]:
        with pytest.raises(Denied, match="bad-signature"):
            desk.joined(token, "10.0.0.1", request)
    assert links_of(running.folder)[1].left == 1


def test_nobody_fills_the_share_of_another_shop(running: Running, tmp_path: Path) -> None:
    link = make_link(running.folder, uses=1, days=1, an_hour=10)
    own = json.loads(request_of(tmp_path / "x", link))
    key = key_of(tmp_path / "shop")
    shop = public_bytes(key).hex()
    statement = asking(link.run, link.token, own["name"])
    others = read_identity(tmp_path / "x" / IDENTITY).sign(statement).hex()
    desk = JoinDesk(running.made.server)

    def join(**more: str) -> None:
        desk.joined(link.token, "10.0.0.1", json.dumps({**own, "shop": shop, **more}).encode())

    for wrong in ({}, {"shop_signature": others}):
        with pytest.raises(Denied, match="bad-signature"):
            join(**wrong)
    for wrong in ({"shop_signature": "x"}, {"shop": shop[1:], "shop_signature": others}):
        with pytest.raises(Denied, match="no-request"):
            join(**wrong)
    assert links_of(running.folder)[0].left == 1
    join(shop_signature=key.sign(statement).hex())
    assert running.members().nodes["x"].shop == shop


def test_a_member_who_asks_for_its_place_again_and_again_is_told_to_wait(
    running: Running, tmp_path: Path
) -> None:
    link = make_link(running.folder, uses=2, days=1, an_hour=10)
    desk = JoinDesk(running.made.server)
    request = request_of(tmp_path / "x", link)
    given = {desk.joined(link.token, "10.0.0.1", request) for _ in range(1 + REPEATS)}
    assert len(given) == 1
    with pytest.raises(Denied, match="too-often"):
        desk.joined(link.token, "10.0.0.1", request)
    # Others of the same address are not in its way.
    desk.joined(link.token, "10.0.0.1", request_of(tmp_path / "y", link))


def test_nobody_takes_the_name_or_the_key_of_another(running: Running, tmp_path: Path) -> None:
    link = make_link(running.folder, uses=2, days=1, an_hour=10)
    desk = JoinDesk(running.made.server)
    with pytest.raises(Denied, match="not-taken"):
        desk.joined(link.token, "10.0.0.1", request_of(tmp_path / "other" / "person-3", link))
    shut_out(running.folder, "person-4")
    with pytest.raises(Denied, match="not-taken"):
        desk.joined(link.token, "10.0.0.1", request_of(running.devices[4], link))
    assert links_of(running.folder)[0].left == 2


# ---- workers ------------------------------------------------------------------------------------


@pytest.fixture
def pool(running: Running, forked_children: None) -> WorkerPool[WorkerProcess]:
    """Two workers that rest."""
    return running.start_workers(pace=3600.0)


def at_worker(pool: WorkerPool[WorkerProcess], at: int, link: JoinLink) -> JoinLink:
    """The link, to the port at which the other workers reach one of them."""
    return link._replace(server=pool.standing[at].address, tls=False)


def request_of(folder: Path, link: JoinLink, name: str = "", key: str = "") -> bytes:
    """What a device asks, whose key is made. name, key: shown in place of its own."""
    if not (folder / IDENTITY).exists():
        identity(folder, folder.name)
    own = json.loads((folder / REQUEST).read_text())
    shown = name or own["name"]
    signature = read_identity(folder / IDENTITY).sign(asking(link.run, link.token, shown))
    said = {"name": shown, "key": key or own["key"], "signature": signature.hex()}
    return json.dumps(said).encode()


def code_of(link: JoinLink, request: bytes) -> str:
    """What a server says to whoever joins."""
    with httpx.Client(base_url=f"http://{link.server}", trust_env=False) as client:
        header = {"authorization": f"Entrenous-Join {link.token}"}
        said = client.post("/v1/join", headers=header, content=request)
        return "joined" if said.status_code == 200 else said.text.strip()


def works(link: JoinLink, folder: Path, name: str) -> bool:
    """Returns whether a node may ask for work."""
    header = {"authorization": here(read_identity(folder / IDENTITY), link.run, name)}
    with httpx.Client(base_url=f"http://{link.server}", trust_env=False, timeout=60) as client:
        return client.get("/v1/work", headers=header).status_code != 401


def test_people_join_at_each_worker_and_nobody_has_to_connect_anew(
    running: Running, tmp_path: Path
) -> None:
    pool = running.start_workers()
    link = make_link(running.folder, uses=2, days=1, an_hour=10)
    processes = [worker.process.pid for worker in pool.workers]
    for at in range(2):
        late = tmp_path / f"late-{at}"
        near = at_worker(pool, at, link)
        with closing(JoiningLine(near)) as line:
            assert json.loads(line.terms())["terms.json"]
        request = request_of(late, link)
        assert code_of(near, request) == "joined"
        # Let in at once, before the server has looked at its lists.
        assert works(near, late, json.loads(request)["name"])
        users = join_by_link(late, str(link), DATA.of_users([PEOPLE + at]), OWNER)
        assert users.tolist() == [PEOPLE + at]
        running.run(late)
    for at in range(2):
        with closing(Device(tmp_path / f"late-{at}")) as device:
            until(lambda device=device: _recommends(device))
    until(lambda: status(running.made.server).get("of") == PEOPLE + 2)
    assert [worker.process.pid for worker in pool.workers] == processes
    assert links_of(running.folder)[0].left == 0
    until(lambda: pool.tally().requests["joined"] == 4)


def test_a_worker_that_is_killed_while_somebody_joins_costs_no_second_place(
    running: Running, pool: WorkerPool[WorkerProcess], tmp_path: Path
) -> None:
    """It dies when the server has taken the member, and before it has said so."""
    link = make_link(running.folder, uses=1, days=1, an_hour=10)
    request = request_of(tmp_path / "x", link)
    victim = pool.workers[1].process
    joined = pool._joins.joined

    def kill(token: str, address: str, body: bytes) -> bytes:
        said = joined(token, address, body)
        if victim.poll() is None:
            victim.kill()
            victim.wait()
        return said

    pool._joins.joined = kill  # type: ignore[method-assign]
    with pytest.raises(httpx.HTTPError):
        code_of(at_worker(pool, 1, link), request)
    assert len(running.members().nodes) == PEOPLE + 1
    with closing(JoiningLine(link)) as line:
        said = line.joined(request)
    assert json.loads(json.loads(said)[MEMBER])["size"] == PEOPLE + 1
    assert len(running.members().nodes) == PEOPLE + 1
    assert links_of(running.folder)[0].left == 0


# ---- a server that lies --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "said"),
    [
        # Found out before the token is sent.
        ({"authority": "ab" * 32}, "shows another authority than the link names"),
        ({"run": "ab" * 16}, "and the link names abab"),
    ],
)
def test_another_server_or_federation_than_the_link_names_is_refused(
    running: Running, tmp_path: Path, other: dict[str, str], said: str
) -> None:
    running.start(3600.0)
    link = make_link(running.folder, uses=1, days=1, an_hour=10)._replace(**other)
    with pytest.raises(InputError, match=said):
        join_by_link(tmp_path / "x", str(link), None, OWNER)
    assert not (tmp_path / "x").exists()
    assert links_of(running.folder)[0].left == 1


@pytest.mark.parametrize(
    "parts",
    [
        {"../../evil": "x"},
        {"node.json": "{}"},
        {"terms.json": "{}"},
        {},
    ],
)
def test_files_that_are_no_invitation_are_refused(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: dict[str, str]
) -> None:
    link = make_link(running.folder, uses=1, days=1, an_hour=10)
    monkeypatch.setattr(JoiningLine, "_find_authority", lambda line: None)
    monkeypatch.setattr(JoiningLine, "terms", lambda line: json.dumps(parts).encode())
    before = {path for path in tmp_path.rglob("*")}
    with pytest.raises(EntrenousError) as refused:
        join_by_link(tmp_path / "x", str(link), None, OWNER)
    assert "\n" not in str(refused.value)
    assert {path for path in tmp_path.rglob("*")} == before


TOKENS = f"{'0' * 32}.{'0' * 32}."


@pytest.mark.parametrize(
    "text",
    [
        "",
        "https://a:1/join#",
        f"https://a/join#{TOKENS}",
        f"ftp://a:1/join#{TOKENS}",
        f"https://a:1/join#{TOKENS[1:]}",
        f"https://a b:1/join#{TOKENS}",
        f"http://example.org:80/join#{TOKENS}",
    ],
)
def test_a_text_that_is_no_link_gets_one_line(tmp_path: Path, text: str) -> None:
    with in_one_line("--link"):
        join_by_link(tmp_path / "x", text, None, OWNER)
    assert not (tmp_path / "x").exists()
