"""A shop in a federation by lot: a device for each customer, and one process for all of them."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np
import pytest
from command_line import Command
from entrenous_network.agreement.files import public_bytes
from entrenous_network.agreement.members import MEMBER
from entrenous_network.links.knocking import JoiningLine
from entrenous_network.node.common import Common
from entrenous_network.node.node_store import PAUSED, STORE, NodeStore
from entrenous_network.node.secure_node import inputs
from entrenous_network.operate import served_shop
from entrenous_network.operate.device import Device, add_to_shop, recommend
from entrenous_network.operate.device_http import TOKEN
from entrenous_network.operate.founding import free_ports
from entrenous_network.operate.joining import join_shop
from entrenous_network.operate.newcomers import links_of, make_link
from entrenous_network.operate.running_node import run_node
from entrenous_network.operate.served_shop import ShopDevices
from entrenous_network.operate.shop import device_of, devices_of, key_of
from federation_links import until
from running_by_lot import DATA, OWNER, PEOPLE, Running
from service_processes import process

from entrenous.core.errors import InputError
from entrenous.data.interactions import Vocabulary, build

CUSTOMERS = DATA.of_users(np.arange(PEOPLE, PEOPLE + 4))
USERS = [str(user) for user in CUSTOMERS.users.ids]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with closing(Running(tmp_path)) as own:
        yield own


def joined(running: Running, folder: Path, uses: int = 4) -> int:
    link = make_link(running.folder, uses=uses, days=1, an_hour=100)
    return join_shop(folder, str(link), CUSTOMERS, OWNER, running.said.append)


def test_the_customers_of_a_shop_answer_by_lots_of_their_own(
    running: Running, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    running.start()
    shop = tmp_path / "shop"
    assert joined(running, shop) == 4
    nodes = running.members().nodes
    mark = public_bytes(key_of(shop)).hex()
    assert [member.shop for member in nodes.values()].count(mark) == 4
    assert len(nodes) == PEOPLE + 4 and {member.shop for member in nodes.values()} == {"", mark}
    devices = devices_of(shop)
    stop = threading.Event()
    run = threading.Thread(target=run_node, args=(shop, stop, running.said.append))
    run.start()
    try:

        def answered(device: Path) -> int:
            with closing(NodeStore(device / STORE)) as store:
                # One of them in each sum, of few people.
                for past in store.past_sums():
                    assert sum(nodes[name].shop == mark for name in past.people) <= 1
                return inputs(store)

        until(lambda: all(answered(device) for device in devices))
        # Nobody may run one of them a second time.
        with pytest.raises(InputError, match="is at work on it"):
            run_node(shop, threading.Event(), running.said.append)
        ended = threading.Event()
        ended.set()
        with pytest.raises(InputError, match="is at work on it"):
            run_node(devices[-1], ended, running.said.append)
        user = CUSTOMERS.users.ids[3]
        until(lambda: _has_model(shop, user))
        command = Command(capsys)
        best = command("federation", "recommend", shop, "--user", user, "--n", 1, "--json").json
        assert best["user"] == user
        item = best["items"][0]["item"]
        new = tmp_path / "new.csv"
        new.write_text(f"user,item,value\n{user},{item},1\n")
        assert command("federation", "add", shop, "--data", new).code == 0
        assert best["items"][0]["score"] is None
        asked = ("federation", "recommend", shop, "--user", user, "--scores")
        again = command(*asked, "--json").json["items"]
        assert item not in [one["item"] for one in again] and again[0]["score"] is not None
        assert "score" in command(*asked).out
    finally:
        stop.set()
        run.join(60)
    assert any("4 customers" in line for line in running.said)


def _has_model(shop: Path, user: str) -> bool:
    try:
        return bool(recommend(device_of(shop, user), user, 1).items)
    except InputError:
        return False


def test_a_shop_goes_on_where_joining_broke_off(running: Running, tmp_path: Path) -> None:
    running.start()
    shop = tmp_path / "shop"
    with pytest.raises(InputError) as why:
        joined(running, shop, uses=2)
    assert "2 of 4 customers have joined, then: --link" in str(why.value)
    assert "the same command goes on" in str(why.value)
    before = set(devices_of(shop))
    assert len(before) == 2
    assert joined(running, shop) == 2
    assert before < set(devices_of(shop)) and len(running.members().nodes) == PEOPLE + 4
    assert [left.left for left in links_of(running.folder)] == [0, 2]


def test_a_device_whose_mark_the_server_leaves_out_does_not_join(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.start()
    asked = JoiningLine.joined

    def unmarked(*given: Any) -> bytes:
        parts = json.loads(asked(*given))
        mark = public_bytes(key_of(tmp_path / "shop")).hex()
        assert mark in parts[MEMBER]
        parts[MEMBER] = parts[MEMBER].replace(mark, "")
        return json.dumps(parts).encode()

    monkeypatch.setattr(JoiningLine, "joined", unmarked)
    with pytest.raises(InputError, match="with this key and mark"):
        joined(running, tmp_path / "shop")
    assert devices_of(tmp_path / "shop") == []


def test_rows_of_strangers_are_refused_and_nothing_is_added(
    running: Running, tmp_path: Path
) -> None:
    running.start()
    shop = tmp_path / "shop"
    joined(running, shop)
    several = DATA.of_users(np.array([PEOPLE, 0]))
    stored = len(devices_of(shop))
    with pytest.raises(InputError, match="is no customer of"):
        add_to_shop(shop, several)
    # The first customer's rows are fine, the second's are of an item that nobody lists.
    had = set(CUSTOMERS.item[: CUSTOMERS.ptr[1]].tolist())
    new = min(set(range(len(DATA.items))) - had)
    mixed = build(
        [0, 1],
        [0, 1],
        users=CUSTOMERS.users.some(np.arange(2)),
        items=Vocabulary([DATA.items[new], "no-such-item"], kind="item"),
    )
    before = _rows_of(shop)
    with pytest.raises(InputError, match="no-such-item"):
        add_to_shop(shop, mixed)
    assert _rows_of(shop) == before
    assert add_to_shop(shop, mixed, ignore_unknown=True) == 1
    assert stored == 4
    with pytest.raises(InputError, match="none of the 4 customers has that id"):
        device_of(shop, "nobody")
    alone = tmp_path / "person-0"
    assert devices_of(alone) == [] and device_of(alone, None) == alone


def _rows_of(shop: Path) -> list[int]:
    lengths = []
    for folder in devices_of(shop):
        with Device(folder) as device:
            lengths.append(len(device.export()))
    return lengths


# ---- served to apps ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedShop]:
    """A shop as its owner runs it, in a federation at work, once all customers have a model."""
    folder = tmp_path_factory.mktemp("served")
    with closing(Running(folder)) as running:
        running.start()
        joined(running, folder / "shop")
        port, metrics = free_ports(2)
        options = ("--serve", port, "--metrics", metrics)
        with process("node", folder / "shop", *options):
            until(lambda: (folder / "shop" / TOKEN).exists())
            token = (folder / "shop" / TOKEN).read_text()
            headers = {"Authorization": f"Bearer {token}"}
            base = f"http://127.0.0.1:{port}"
            with httpx.Client(base_url=base, headers=headers, timeout=60) as client:
                until(lambda: _ready(client))
                yield ServedShop(folder / "shop", client, f"http://127.0.0.1:{metrics}")


class ServedShop(NamedTuple):
    """A shop whose process serves apps, and tells its operator."""

    folder: Path
    client: httpx.Client
    operator: str


def _ready(client: httpx.Client) -> bool:
    try:
        answer = client.get("/v1/ready", headers={"Authorization": ""})
    except httpx.TransportError:
        return False
    assert answer.status_code in (200, 503)
    if answer.status_code == 503:
        assert "no model has come yet to" in answer.json()["error"]
    return answer.status_code == 200


def test_each_request_finds_the_device_of_its_user(shop: ServedShop) -> None:
    client = shop.client
    assert (shop.folder / TOKEN).stat().st_mode & 0o077 == 0
    assert client.get("/v1/health", headers={"Authorization": ""}).status_code == 200
    one, other = USERS[:2]
    best = client.get("/v1/recommend", params={"user": one, "n": 2}).json()
    assert best["user"] == one and len(best["items"]) == 2
    item = best["items"][0]["item"]
    before = {user: client.get("/v1/rows", params={"user": user}).json() for user in USERS}
    event = {"event": "row", "item": item, "value": 1, "user": one}
    assert client.post("/v1/events", json=event).json() == {"taken": 1}
    rows = {user: client.get("/v1/rows", params={"user": user}).json() for user in USERS}
    assert rows[one][-1]["item"] == item and {row["user"] for row in rows[one]} == {one}
    assert {user: rows[user] for user in USERS if user != one} == {
        user: before[user] for user in USERS if user != one
    }
    # One list of events may be of several customers.
    events = [
        {"event": "forget", "item": item, "user": one},
        {"event": "not for me", "item": DATA.items[0], "user": other},
    ]
    assert client.post("/v1/events", json=events).json() == {"taken": 2}
    assert client.get("/v1/rows", params={"user": one}).json() == before[one]
    assert client.get("/v1/receipt", params={"user": other}).json()["user"] == other


def test_the_pause_of_one_customer_is_no_other_customers(shop: ServedShop) -> None:
    one, other = USERS[:2]
    paused = lambda: [_paused(shop.folder, user) for user in (one, other)]  # noqa: E731
    assert shop.client.post("/v1/pause", params={"user": one}).status_code == 200
    assert paused() == [True, False]
    assert shop.client.post("/v1/take-part", params={"user": one}).status_code == 200
    assert paused() == [False, False]


def _paused(shop: Path, user: str) -> bool:
    with closing(NodeStore(device_of(shop, user) / STORE)) as store:
        return bool(store.fact(PAUSED))


STRANGE = ["", "nobody", "../person-1", "\0", "x" * 5000, "\U0001f600", USERS[0].upper()]


def everywhere(client: httpx.Client, named: dict[str, str]) -> list[httpx.Response]:
    """What each route that is of one customer answers. named: the customer."""
    answers = [client.get(f"/v1/{what}", params=named) for what in ("recommend", "rows", "receipt")]
    answers += [client.post(f"/v1/{what}", params=named) for what in ("pause", "take-part")]
    return [*answers, client.post("/v1/events", json={"event": "forget", **named})]


@pytest.mark.parametrize("user", STRANGE)
def test_a_stranger_is_bad_input_in_one_line(shop: ServedShop, user: str) -> None:
    before = sorted(shop.folder.iterdir())
    answers = everywhere(shop.client, {"user": user})
    for answer in answers:
        assert answer.status_code == 400
        error = answer.json()["error"]
        assert "none of the 4 customers has that id" in error and "\n" not in error
    assert sorted(shop.folder.iterdir()) == before


def test_who_names_nobody_gets_nothing_of_the_first(shop: ServedShop) -> None:
    answers = everywhere(shop.client, {})
    answers += [shop.client.post("/v1/events", json={"event": "forget", "user": None})]
    for answer in answers:
        assert answer.status_code == 400
        error = answer.json()["error"]
        assert "user: is missing" in error and "expected the id of a customer" in error
    assert all(_rows_of(shop.folder))
    assert not any(_paused(shop.folder, user) for user in USERS)


def test_many_requests_at_once_get_each_its_own_customer(
    shop: ServedShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More devices than are held open: each is closed once nobody uses it."""
    monkeypatch.setattr(served_shop, "OPEN", 2)
    with closing(ShopDevices(shop.folder, Common())) as devices, ThreadPoolExecutor(8) as pool:
        seen: set[Device] = set()

        def asked(user: str) -> set[str]:
            with devices.of(user) as device:
                seen.add(device)
                time.sleep(0.01)  # so that others come meanwhile
                return {row["user"] for row in device.export()}

        wanted = USERS * 8
        assert list(pool.map(asked, wanted)) == [{user} for user in wanted]
        closed = seen.difference(devices._open.values())
        assert len(devices._open) == 2 and len(closed) >= 3
        for device in closed:
            with pytest.raises(sqlite3.ProgrammingError, match="closed"):
                device.export()


def test_metrics_are_of_all_devices_together_and_name_nobody(shop: ServedShop) -> None:
    def told() -> str:
        return httpx.get(f"{shop.operator}/metrics", timeout=60).text

    until(lambda: "entrenous_model_round -1.0" not in told())
    text = told()
    assert not any(user in text for user in USERS) and "film" not in text
    assert text.count("# TYPE entrenous_model_round gauge") == 1
    health = httpx.get(f"{shop.operator}/v1/health", timeout=60)
    assert (health.status_code, health.text) == (200, "ok\n")
