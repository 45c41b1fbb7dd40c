"""Two workers over real sockets, whose nodes are dealt anew: a question that waits is put to the
worker that serves the node now, and that worker knows who is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import httpx
import pytest
from entrenous_network.frames.frames import FrameParts
from entrenous_network.links import application
from entrenous_network.links.application import Traffic
from entrenous_network.links.https import HttpsPlan, HttpsServerLink
from entrenous_network.links.siblings import Siblings
from federation_links import until
from over_https import RUN, members, shown

LARGEST = 100_000
PATIENCE = 60.0
NODE = "node-1"


class TwoWorkers:
    """Two workers, and who serves the node."""

    def __init__(self) -> None:
        self.siblings = [Siblings({NODE: 0}, own) for own in (0, 1)]
        self.links = [
            HttpsServerLink(HttpsPlan(port=0), RUN, members(), LARGEST, siblings=each)
            for each in self.siblings
        ]
        for link in self.links:
            link.start()
        for each in self.siblings:
            each.addresses = {at: link.nearby for at, link in enumerate(self.links)}

    def deal(self, home: int) -> None:
        """Has a worker serve the node from now on, as the server's process does."""
        moved: dict[str, float] = {}
        for link, each in zip(self.links, self.siblings, strict=True):
            each.home = {NODE: home}
            moved |= link.moved(each)
        self.links[home].came(moved)
        for link, each in zip(self.links, self.siblings, strict=True):
            link.send_on(each)

    def close(self) -> None:
        for link in self.links:
            link.close()


@pytest.fixture
def two() -> Iterator[TwoWorkers]:
    with closing(TwoWorkers()) as own:
        yield own


def asks(address: str) -> httpx.Response:
    with httpx.Client(base_url=f"http://{address}", trust_env=False, timeout=PATIENCE) as client:
        return client.get("/v1/work", headers=shown(NODE))


def waits_at(link: HttpsServerLink) -> Callable[[], bool]:
    return lambda: NODE in link.ready()


@pytest.mark.parametrize("connected", [0, 1])
def test_a_question_that_waits_goes_where_its_node_is_served(
    two: TwoWorkers, connected: int
) -> None:
    """The node asks once, at the worker that serves it or at the other one, and is dealt to and
    fro.
    """
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(asks, two.links[connected].address)
        until(waits_at(two.links[0]))
        for home in (1, 0, 1):
            two.deal(home)
            until(waits_at(two.links[home]))
            assert NODE in two.links[home].present()
            assert NODE not in two.links[1 - home].present()
        two.links[1].send(NODE, FrameParts([b"work"]), 60.0)
        assert asking.result(PATIENCE).content == b"work"


def test_who_hangs_up_and_comes_back_by_another_worker_has_not_left(
    two: TwoWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stage of a sum would end without it, as after the death of a worker."""
    monkeypatch.setattr(application, "BACK", 0.0)
    home = two.links[0]
    home.send(NODE, FrameParts([b"work"]), PATIENCE)
    assert asks(home.address).content == b"work"
    until(lambda: set(home.left()) == {NODE})
    assert asks(two.links[1].address).content == b"work"
    assert not set(home.left()) and NODE in home.present()


def test_who_was_passed_on_by_a_worker_that_died_is_there_until_it_can_be_back(
    two: TwoWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its question ends with the line between the two workers."""
    home = two.links[0]
    ended: list[str] = []
    gone = home.gone

    def notes(node: str) -> None:
        gone(node)
        ended.append(node)

    monkeypatch.setattr(home, "gone", notes)
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(asks, two.links[1].address)
        until(waits_at(home))
        two.links[1].close()
        asking.exception(PATIENCE)
    until(lambda: ended == [NODE])
    assert NODE in home.present()
    monkeypatch.setattr(application, "BACK", 0.0)
    home.gone(NODE)
    assert NODE not in home.present()


def test_a_question_on_its_way_to_a_worker_of_before_is_not_kept_there(
    two: TwoWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would wait there while the node is asked elsewhere."""
    monkeypatch.setattr(application, "HELD", 3600.0)
    assert asks(two.links[1].nearby).status_code == 204
    assert NODE not in two.links[1].present()


def test_a_worker_knows_of_nodes_that_were_heard_elsewhere() -> None:
    """One was told to ask again in a minute, one was heard by both, and one long ago."""
    before, after = Traffic(), Traffic()
    home = {"later": 1, "both": 1, "silent": 1, "stays": 0}
    own = Siblings(home, 0)
    before.heard("later", 60.0)
    before.heard("both", -20.0)
    before.heard("silent", -40.0)
    before.heard("stays")
    after.heard("both")
    newest = after._heard["both"]
    moved = before.moved(own)
    assert set(moved) == {"later", "both", "silent"}
    assert moved["later"] > 50.0 and moved["silent"] < -35.0
    assert set(before.present()) == {"stays"}
    after.came(moved)
    assert set(after.present()) == {"later", "both"}
    assert after._heard["both"] == newest
