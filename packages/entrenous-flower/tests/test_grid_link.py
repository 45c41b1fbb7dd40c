"""`GridLink` over a grid in memory: the model of the simulation, with masks too; and whose node ids
belong to which name.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from federation_links import (
    PATIENCE,
    answers_of,
    by_lot,
    federation,
    logged,
    nodes_of,
    ratings,
    server_sha256,
    simulated,
)

pytest.importorskip("flwr")

from entrenous_flower import grid_link
from entrenous_flower.greeter import Greeter
from entrenous_flower.grid_link import GridLink
from entrenous_network.frames.frames import FrameParts, opened, seal
from entrenous_network.links.port import Answer
from entrenous_network.operate.founding import FoundedFederation
from entrenous_network.server.server import serve
from grid_in_memory import GridInMemory, as_task

FIRST = 1000  # the lowest node id


@pytest.fixture(autouse=True)
def _task(monkeypatch: pytest.MonkeyPatch) -> None:
    as_task()
    monkeypatch.setattr(grid_link, "LISTING", 0.0)
    monkeypatch.setattr(grid_link, "LOOK", 0.001)


def link_to(made: FoundedFederation, grid: GridInMemory) -> GridLink:
    return GridLink(grid, Greeter.of(made.server), say=lambda text: None)


def grid_of(nodes: dict[str, Answer]) -> GridInMemory:
    return GridInMemory({FIRST + number: answer for number, answer in enumerate(nodes.values())})


def answers(made: FoundedFederation) -> dict[str, Answer]:
    return answers_of(nodes_of(made))


def met(link: GridLink) -> list[str]:
    """Who is there, after everybody had a turn to say so."""
    link.present()
    link.receive(0.0)
    return sorted(link.present())


@pytest.mark.parametrize("masked", [False, True], ids=["none", "masks"])
def test_over_a_grid_the_model_is_that_of_the_simulation(tmp_path: Path, masked: bool) -> None:
    data = ratings(20)
    if masked:
        made = by_lot(tmp_path / "f", rounds=3, people=4, cohort=5, data=data, deadline=PATIENCE)
    else:
        made = federation(tmp_path / "f", 3, 3, data=data)
    link = link_to(made, grid_of(answers(made)))
    assert serve(link, made.server) == server_sha256(simulated(made, data))


def test_a_node_that_comes_back_under_another_id_is_asked_there_at_once(tmp_path: Path) -> None:
    made = federation(tmp_path / "f", 2, 3)
    grid = grid_of(answers(made))
    moves = grid.nodes[FIRST]

    def dies(frame: bytes) -> bytes:
        """Takes the first request of the second round with it, and comes back elsewhere."""
        if opened(frame).head.kind == "work" and opened(frame).head.round == 1:
            grid.nodes[FIRST + 7] = moves
            del grid.nodes[FIRST]
            return b""
        return moves(frame)

    grid.nodes[FIRST] = dies
    assert serve(link_to(made, grid), made.server) == server_sha256(simulated(made))
    assert not any("quorum" in line for line in logged(made.server))


def test_requests_under_way_go_to_the_id_that_a_node_has_now(tmp_path: Path) -> None:
    made = federation(tmp_path / "f", 2, 1)
    grid = grid_of(answers(made))
    link = link_to(made, grid)
    name = met(link)[0]
    moves, grid.nodes[FIRST] = grid.nodes[FIRST], lambda frame: b""
    link.send(name, FrameParts([b"a request"]), 60.0)
    assert link.receive(0.0) == []
    del grid.nodes[FIRST]
    grid.nodes[FIRST + 7] = moves
    met(link)
    asked = [
        message.metadata.dst_node_id
        for message in grid.pushed
        if message.content["frame"]["frame"] == b"a request"
    ]
    [(who, frame)] = link.receive(1.0)
    asked += [message.metadata.dst_node_id for message in grid.pushed[-1:]]
    assert who == name and opened(frame).head.kind == "refused"
    assert asked[0] == FIRST and asked[-1] == FIRST + 7


def test_a_stranger_is_not_present(tmp_path: Path) -> None:
    made, other = federation(tmp_path / "f", 2, 1), federation(tmp_path / "g", 2, 1)
    grid = grid_of(answers(made))
    nodes, said = nodes_of(made), list[str]()
    name, stranger = (
        sorted(nodes)[0],
        sorted(nodes_of(other).values(), key=lambda node: node.name)[0],
    )

    def pretends(frame: bytes) -> bytes:
        """The name of a member, under another key."""
        return seal(
            stranger.key, "refused", run=made.terms.run, node=name, model=opened(frame).head.model
        )

    old = seal(nodes[name].key, "refused", run=made.terms.run, node=name, model=b"an old number...")
    strangers: dict[int, Answer] = {
        1: pretends,
        2: stranger.answer,
        3: lambda frame: b"no frame",
        4: lambda frame: old,
    }
    del grid.nodes[FIRST]
    grid.nodes |= strangers
    link = GridLink(grid, Greeter.of(made.server), say=said.append)
    assert met(link) == sorted(nodes)[1:]
    assert sorted(said) == [
        f"node {number} is no member of this federation" for number in strangers
    ]
    link.send(name, FrameParts([b"a request"]), 60.0)  # to one that is not there: nothing leaves
    assert link.receive(0.0) == []
    assert all(message.content["frame"]["frame"] != b"a request" for message in grid.pushed)


def test_who_leaves_is_not_present_and_a_nodes_failure_is_told(tmp_path: Path) -> None:
    made = federation(tmp_path / "f", 2, 1)
    grid, said = grid_of(answers(made)), list[str]()
    link = GridLink(grid, Greeter.of(made.server), say=said.append)
    first, second = met(link)
    link.send(first, FrameParts([b"a request"]), 60.0)
    del grid.nodes[FIRST]
    assert link.receive(0.0) == []
    assert said == [f"node {FIRST} {first}: node unavailable"]
    assert link.present() == [second]
