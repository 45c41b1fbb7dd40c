"""Who comes between two rounds, or was away when the model was given, is handed the newest that was
given; under masks with the words of those who took it then, so that nobody else is asked again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from entrenous_network.agreement.files import read_json
from entrenous_network.frames.frames import opened
from entrenous_network.node.node import FederatedNode
from entrenous_network.operate.device import Device
from entrenous_network.operate.joining import join_by_link
from entrenous_network.operate.newcomers import make_link
from entrenous_network.operate.running import status
from entrenous_network.server import server as server_module
from entrenous_network.server.handing_on import GivenModel
from entrenous_network.server.server import (
    ListsChanged,
    serve_opened,
)
from entrenous_network.server.server_folder import ServerFolder
from federation_links import FaultyLink, answers_of, logged, quick_pauses, until
from growing_federation import FIRST, USERS, Growing, _name
from running_by_lot import DATA as ROWS
from running_by_lot import OWNER, PEOPLE, PLAN, Running


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    quick_pauses(monkeypatch)
    monkeypatch.setattr(server_module, "LOOK", 0.05)


class Counting(FaultyLink):
    """A link that counts the frames of each kind to each node."""

    def __init__(self, nodes: dict[str, Any]) -> None:
        super().__init__(answers_of(nodes))
        self.kinds: list[tuple[str, str]] = []

    def send(self, address: str, frame: Any, seconds: float) -> None:
        self.kinds.append((address, opened(bytes(frame)).head.kind))
        super().send(address, frame, seconds)

    def told(self, kind: str) -> list[str]:
        return [name for name, sent in self.kinds if sent == kind]


def paused(growing: Growing, link: FaultyLink, true: Callable[[], bool]) -> bool:
    """Runs the server, which has an hour until its next round, until something is true. Returns
    False if the lists changed before.
    """
    stop = Event()
    changed = Event()
    held = ServerFolder(growing.made.server, pace=3600.0)

    def serve() -> None:
        try:
            serve_opened(link, held, stop)
        except ListsChanged:
            changed.set()
        finally:
            held.close()

    thread = Thread(target=serve)
    thread.start()
    try:
        until(lambda: changed.is_set() or true())
    finally:
        stop.set()
        thread.join(60)
    assert not thread.is_alive()
    return not changed.is_set()


def given(growing: Growing) -> GivenModel:
    """The model that was given last, as the server's folder has it."""
    terms = growing.made.terms
    found = GivenModel.read(growing.made.server, terms.run, terms.make())
    assert found is not None
    return found


def has_model(node: FederatedNode) -> bool:
    return node.store.standing().model is not None


def test_who_joins_in_a_pause_of_an_hour_has_the_model_at_once(tmp_path: Path) -> None:
    growing = Growing(tmp_path, rounds=20)
    growing.served(stop_at=3)
    # While the server waits for its next round somebody comes.
    link = Counting(growing.nodes)
    came = Event()

    def come() -> bool:
        if not came.is_set():
            came.set()
            growing.come(range(FIRST, FIRST + 2))
        return False

    assert not paused(growing, link, come)
    link = Counting(growing.nodes)
    late = [growing.nodes[_name(user)] for user in range(FIRST, FIRST + 2)]
    assert paused(growing, link, lambda: all(map(has_model, late)))
    assert all(node.recommender()[0] == 2 for node in late)
    assert sorted(link.told("model")) == [node.name for node in late]
    assert not link.told("advert")


def test_who_was_away_learns_of_others_and_keeps_the_model(tmp_path: Path) -> None:
    """The words that it is brought are of members whom it did not know."""
    growing = Growing(tmp_path, rounds=20)
    away = "device-04"
    growing.served(stop_at=1, absent={away})
    growing.come(range(FIRST, USERS))
    old = {_name(user) for user in range(FIRST)}
    growing.served(stop_at=3, absent=old - {"device-00"})
    assert given(growing).round == 2
    assert given(growing).have <= {"device-00", *(_name(user) for user in range(FIRST, USERS))}
    assert not has_model(growing.nodes[away])
    assert paused(growing, Counting(growing.nodes), lambda: has_model(growing.nodes[away]))
    assert growing.knows(away) == USERS


def test_words_that_became_too_few_by_newcomers_are_asked_for_anew(tmp_path: Path) -> None:
    """Before the first sum a quorum is fewer than the people of a sum, and grows with the log."""
    growing = Growing(tmp_path, rounds=20, first=12, people=12)
    growing.served(stop_at=2)
    assert has_model(growing.nodes["device-00"])
    growing.come(range(12, USERS))
    link = Counting(growing.nodes)
    looks = iter(range(100))
    assert paused(growing, link, lambda: next(looks) > 20)
    assert not link.told("agreed")
    growing.served(stop_at=4)
    assert all(map(has_model, growing.nodes.values()))


def test_a_server_that_starts_again_gives_nobody_the_same_twice(tmp_path: Path) -> None:
    growing = Growing(tmp_path, rounds=20)
    growing.served(stop_at=3, absent={"device-03"})
    link = Counting(growing.nodes)
    assert paused(growing, link, lambda: given(growing).have == growing.nodes.keys())
    assert has_model(growing.nodes["device-03"])
    assert link.told("model") == ["device-03"]
    again = Counting(growing.nodes)
    seen = iter(range(100))
    assert paused(growing, again, lambda: next(seen) > 20)
    assert not again.kinds


def test_a_node_that_refuses_is_asked_twice_at_most(tmp_path: Path) -> None:
    growing = Growing(tmp_path, rounds=20)
    refusing = "device-06"
    growing.served(stop_at=3, absent={refusing, "device-07"})
    node = growing.nodes[refusing]
    node.store.note("paused", "")
    link = Counting(growing.nodes)

    def refuse(request: bytes) -> bytes:
        return node.responder.seal("refused", b"malformed\n")

    link.nodes[refusing] = refuse
    link.absent = {"device-07"}

    def asked_twice() -> bool:
        return len(link.told("model")) >= 2

    assert paused(growing, link, asked_twice)
    link.absent = set()
    assert paused(growing, link, lambda: has_model(growing.nodes["device-07"]))
    assert not has_model(node)


# ---- workers -------------------------------------------------------------------------------------


UNMASKED = replace(PLAN, protect={}, quorum=0.1)
AGREED = replace(OWNER, profile="paper")


@pytest.fixture(params=[PLAN, UNMASKED], ids=["masks", "no masks"])
def living(
    request: pytest.FixtureRequest, tmp_path: Path, forked_children: None
) -> Iterator[Running]:
    with closing(Running(tmp_path, plan=request.param, owner=AGREED)) as own:
        yield own


def joined(running: Running, folder: Path, users: range) -> list[Path]:
    devices = [folder / f"late-{user}" for user in users]
    link = make_link(running.folder, uses=len(users), days=1, an_hour=100)
    for user, device in zip(users, devices, strict=True):
        join_by_link(device, str(link), ROWS.of_users([user]), AGREED)
    return devices


def given_by(running: Running) -> GivenModel | None:
    terms = running.made.terms
    return GivenModel.read(running.made.server, terms.run, terms.make())


def names_of(devices: list[Path]) -> set[str]:
    return {str(read_json(device / "node.json")["name"]) for device in devices}


def test_whoever_comes_to_a_worker_in_a_pause_is_handed_the_model_once(
    living: Running, tmp_path: Path
) -> None:
    pool = living.start_workers()
    until(lambda: given_by(living) is not None)
    living.held.pace = 3600.0
    # A pause that began before is short, and for more people.
    until(lambda: status(living.made.server).get("next_round", 0.0) > time.time() + 600.0)
    rounds = status(living.made.server)["number"]
    late = joined(living, tmp_path, range(PEOPLE, PEOPLE + 3))
    for device in late:
        living.run(device)
    until(lambda: names_of(late) <= given_by(living).have)
    for device in late:
        with closing(Device(device)) as own:
            assert own.recommend().items
    # A worker that dies forgets nobody who has it: one more comes, and is the only one asked.
    everybody = names_of([*living.devices, *late])
    until(lambda: given_by(living).have == everybody)
    before = pool.messages
    pool.workers[0].process.kill()
    until(lambda: any("has ended" in line for line in logged(living.made.server)))
    until(lambda: pool.present >= len(everybody))
    (last,) = joined(living, tmp_path, range(PEOPLE + 3, PEOPLE + 4))
    living.run(last)
    until(lambda: names_of([last]) <= given_by(living).have)
    assert pool.messages - before <= 3
    assert status(living.made.server)["number"] == rounds
