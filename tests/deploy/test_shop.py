"""A shop in a federation by lot: a device for each customer, and one process for all of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import pytest
from command_line import Command
from federation_links import until
from running_by_lot import DATA, OWNER, PEOPLE, ROOM, Running

from entrenous.core.errors import InputError
from entrenous.data.interactions import Vocabulary, build
from entrenous.deploy.agreement.members import MEMBERS, Members
from entrenous.deploy.node.common import Common
from entrenous.deploy.node.node import FederatedNode
from entrenous.deploy.node.node_store import STORE, NodeStore
from entrenous.deploy.node.secure_node import inputs
from entrenous.deploy.operate.device import Device, add_to_shop, recommend
from entrenous.deploy.operate.joining import join_shop
from entrenous.deploy.operate.newcomers import links_of, make_link
from entrenous.deploy.operate.plans import JoinPlan
from entrenous.deploy.operate.running_node import run_shop
from entrenous.deploy.operate.shop import device_of, devices_of

CUSTOMERS = DATA.of_users(np.arange(PEOPLE, PEOPLE + 5))


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with closing(Running(tmp_path)) as own:
        yield own


def joined(running: Running, folder: Path, uses: int = 5) -> int:
    link = make_link(running.folder, uses=uses, days=1, an_hour=100)
    return join_shop(folder, str(link), CUSTOMERS, OWNER, running.said.append)


def test_the_customers_of_a_shop_answer_by_lots_of_their_own(
    running: Running, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    running.start()
    shop = tmp_path / "shop"
    assert joined(running, shop) == 5
    assert len(running.members().nodes) == PEOPLE + 5
    devices = devices_of(shop)
    stop = threading.Event()
    run = threading.Thread(target=run_shop, args=(shop, stop, running.said.append))
    run.start()
    try:

        def answered(device: Path) -> int:
            with closing(NodeStore(device / STORE)) as store:
                return inputs(store)

        until(lambda: all(answered(device) for device in devices))
        # Nobody may run one of them a second time.
        with pytest.raises(InputError, match="is at work on it"):
            run_shop(shop, threading.Event(), running.said.append)
        user = CUSTOMERS.users.ids[3]
        until(lambda: _has_model(shop, user))
        command = Command(capsys)
        best = command("federation", "recommend", shop, "--user", user, "--n", 1, "--json").json
        assert best["user"] == user
        item = best["items"][0]["item"]
        new = tmp_path / "new.csv"
        new.write_text(f"user,item,value\n{user},{item},1\n")
        assert command("federation", "add", shop, "--data", new).code == 0
        again = command("federation", "recommend", shop, "--user", user, "--json").json
        assert item not in [one["item"] for one in again["items"]]
    finally:
        stop.set()
        run.join(60)
    assert any("5 customers" in line for line in running.said)


def test_the_devices_of_a_process_hold_a_list_of_members_once(
    running: Running, tmp_path: Path
) -> None:
    running.start()
    shop = tmp_path / "shop"
    joined(running, shop)
    common = Common()
    with ExitStack() as stack:
        nodes = [FederatedNode(device, common=common) for device in devices_of(shop)]
        for node in nodes:
            stack.callback(node.close)
        # Who joined first knows fewer members. From here on all have the newest list.
        lists = [common.members(device / MEMBERS, ROOM) for device in devices_of(shop)]
        lengths = {len(known.nodes) for known in lists}
        assert len({id(known) for known in lists}) == len(lengths)
        newest = running.members()
        first = lists[0]
        longer = common.taken(first, newest.text(), "news")
        assert longer is common.taken(first, newest.text(), "news")
        # Held against each list of its own: a text is longer than one list, and not than another.
        strange = Members({"stranger": newest.nodes["person-1"]}, ROOM)
        with pytest.raises(ValueError, match="a member is missing"):
            common.taken(strange, newest.text(), "news")
        assert nodes[0]._common is nodes[-1]._common


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
    assert "2 of 5 customers have joined, then: --link" in str(why.value)
    assert "the same command goes on" in str(why.value)
    before = set(devices_of(shop))
    assert len(before) == 2
    assert joined(running, shop) == 3
    assert before < set(devices_of(shop)) and len(running.members().nodes) == PEOPLE + 5
    assert [left.left for left in links_of(running.folder)] == [0, 2]


def test_terms_and_items_are_looked_at_before_anybody_joins(
    running: Running, tmp_path: Path
) -> None:
    running.start()
    link = make_link(running.folder, uses=5, days=1, an_hour=100)
    shop = tmp_path / "shop"
    with pytest.raises(InputError, match="its terms prove no epsilon"):
        join_shop(
            shop,
            str(link),
            CUSTOMERS,
            JoinPlan(people=5, parties=3, epsilon=1.0),
            running.said.append,
        )
    assert not shop.exists() and len(running.members().nodes) == PEOPLE


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
    assert stored == 5
    with pytest.raises(InputError, match="none of the 5 customers has that id"):
        device_of(shop, "nobody")
    alone = tmp_path / "person-0"
    assert devices_of(alone) == [] and device_of(alone, None) == alone


def _rows_of(shop: Path) -> list[int]:
    lengths = []
    for folder in devices_of(shop):
        with Device(folder) as device:
            lengths.append(len(device.export()))
    return lengths


@pytest.mark.parametrize("option", ["--serve", "--metrics"])
def test_a_port_is_of_one_device(
    running: Running, tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    running.start()
    joined(running, tmp_path / "shop")
    refused = Command(capsys)("node", tmp_path / "shop", option, 8099)
    assert refused.code == 2 and f"{option}: is of one device" in refused.err
