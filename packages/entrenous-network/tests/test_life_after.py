"""Under masks a node is shut out and a server goes back to a kept model; and neither gives an
operator who lies one node's update.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
from command_line import Command
from entrenous_network.agreement.members import MEMBERS, Members
from entrenous_network.frames.frames import FrameParts, opened
from entrenous_network.frames.request import NodeRequest
from entrenous_network.node.node import FederatedNode
from entrenous_network.operate import going_back
from entrenous_network.operate.founding import FoundedFederation
from entrenous_network.operate.going_back import kept_rounds
from entrenous_network.operate.running import status
from entrenous_network.server.server import serve
from entrenous_network.server.server_folder import ServerFolder
from federation_links import (
    FaultyLink,
    answers_of,
    by_lot,
    logged,
    nodes_of,
    offering,
)
from lying_sums import SubtractingServer

from entrenous.core.contract.update import Total
from entrenous.runs.store import read_arrays

NAMES = [f"node-{number:02d}" for number in range(1, 41)]
ROUNDS = 10
LIAR = "node-02"


pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def made(tmp_path: Path) -> FoundedFederation:
    return by_lot(tmp_path / "f", rounds=ROUNDS, answers=100, people=6)


class Watched(FaultyLink):
    """A link that notes who is asked what, and stops the server when a round is first asked
    about.
    """

    def __init__(self, made: FoundedFederation, stop_at: int = -1) -> None:
        self.real, self.stop, self.stop_at = nodes_of(made), Event(), stop_at
        super().__init__(answers_of(self.real))
        self.asked: list[tuple[str, str, int]] = []

    def send(self, address: str, frame: FrameParts, seconds: float) -> None:
        head = opened(bytes(frame)).head
        self.asked.append((address, head.kind, head.round))
        if (head.kind, head.round) == ("advert", self.stop_at):
            self.stop.set()
        super().send(address, frame, seconds)

    def masked_rounds(self) -> set[int]:
        """The rounds whose masked inputs were asked for."""
        return {number for _, kind, number in self.asked if kind == "mask"}


def served(made: FoundedFederation, stop_at: int = -1) -> tuple[str | None, Watched]:
    link = Watched(made, stop_at)
    try:
        return serve(link, made.server, link.stop), link
    finally:
        for node in link.real.values():
            node.close()


# ---- going back ----------------------------------------------------------------------------------


def test_going_back_has_new_numbers_and_the_model_of_then(
    made: FoundedFederation, command: Command
) -> None:
    """But for one bit, without which nobody who has answered that model would answer again."""
    _, before = served(made, stop_at=6)
    then, _ = read_arrays(kept_rounds(made.server)[4])
    done = command("federation", "rewind", made.server.parent, "--rounds", 4)
    assert "from 6 rounds back to 4; the next one has the number 7" in done.err
    assert "nodes go on by themselves" in done.err
    now, _ = read_arrays(made.server / "checkpoint-server-000000007.safetensors")
    differ = [np.sum(now[name] != then[name]) for name in now if name.startswith("server.")]
    assert sum(differ) == 1
    found, after = served(made)
    assert found is not None and f"finished: {ROUNDS} rounds, model {found}" in logged(made.server)
    assert min(after.masked_rounds()) == 7
    assert not before.masked_rounds() & after.masked_rounds()
    assert status(made.server)["round"] == ROUNDS and status(made.server)["lost"] == 0


def test_going_back_to_the_start_keeps_the_numbers(
    made: FoundedFederation, command: Command
) -> None:
    served(made, stop_at=3)
    done = command("federation", "rewind", made.server.parent, "--rounds", 0)
    assert "from 3 rounds back to 0; the next one has the number 4" in done.err
    assert kept_rounds(made.server).keys() == {0}
    found, after = served(made)
    assert found is not None and min(after.masked_rounds()) >= 4


def test_a_rewind_that_is_killed_is_done_again(
    made: FoundedFederation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the new checkpoint was written or not, no number comes again."""
    served(made, stop_at=6)
    commit, drop = ServerFolder.commit, going_back.drop_models

    def die(*arguments: Any, **more: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ServerFolder, "commit", die)
    with pytest.raises(KeyboardInterrupt):
        going_back.go_back(made.server, 4)
    monkeypatch.setattr(ServerFolder, "commit", commit)
    calls = iter([drop, die])
    monkeypatch.setattr(
        going_back, "drop_models", lambda *arguments, **more: next(calls)(*arguments, **more)
    )
    with pytest.raises(KeyboardInterrupt):
        going_back.go_back(made.server, 4)
    monkeypatch.setattr(going_back, "drop_models", drop)
    assert going_back.go_back(made.server, 4) == (4, 7)
    found, after = served(made)
    assert found is not None and min(after.masked_rounds()) >= 7


def test_a_server_from_a_backup_goes_on_behind_what_nodes_know(
    tmp_path: Path, made: FoundedFederation
) -> None:
    """Nodes refuse the numbers that they have answered; rounds of too few are over, until a number
    is new to all.
    """
    served(made, stop_at=2)
    shutil.copytree(made.server, tmp_path / "backup")
    served(made, stop_at=5)
    shutil.rmtree(made.server)
    shutil.copytree(tmp_path / "backup", made.server)
    found, after = served(made)
    assert found is not None and f"finished: {ROUNDS} rounds, model {found}" in logged(made.server)
    assert max(after.masked_rounds()) >= 6 and status(made.server)["lost"] == 0


# ---- shutting out --------------------------------------------------------------------------------


def test_an_operator_who_shuts_out_one_node_alone_gets_no_difference(tmp_path: Path) -> None:
    """Each device holds the new list against those that it has answered."""
    held = SubtractingServer(by_lot(tmp_path / "f"))
    offering(held.nodes)
    assert held.sum_of(0, NAMES[:12]) is not None
    left = [name for name in NAMES[:12] if name != LIAR]
    for number, moved in ((1, 0.0), (2, 1e-6), (3, 0.5)):
        assert held.sum_of(number, left, moved) is None
        assert all("again" in held.said[name] or "close" in held.said[name] for name in left)
    held.close()


def test_a_model_that_a_liar_has_dragged_away_is_saved(
    made: FoundedFederation, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    """It drags from round 4 on: shut out, and back to the model of round 4."""
    honest = FederatedNode.train_sum
    monkeypatch.setattr(FederatedNode, "offers", _with_the_liar(FederatedNode.offers))

    def train_sum(self: FederatedNode, request: NodeRequest) -> tuple[Any, Total]:
        devices, total = honest(self, request)
        if self.name == LIAR and request.round >= 4:
            for array in total.dense.values():
                array *= 10  # as much as all others together, which no length gives away
        return devices, total

    monkeypatch.setattr(FederatedNode, "train_sum", train_sum)
    served(made, stop_at=6)
    assert command("federation", "shut-out", made.server.parent, LIAR).code == 0
    assert LIAR not in Members.read(made.server / MEMBERS, 40).nodes
    assert command("federation", "rewind", made.server.parent, "--rounds", 4).code == 0
    found, link = served(made)
    assert found is not None
    assert min(link.masked_rounds()) == 7 and LIAR not in {name for name, _, _ in link.asked}


def _with_the_liar(honest: Any) -> Any:
    """Lots that draw the liar in every round."""

    def offers(self: FederatedNode, number: int) -> bool:
        return self.name == LIAR or honest(self, number)

    return offers
