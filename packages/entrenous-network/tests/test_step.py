"""Devices hold a model to what rounds can have made of it, whatever their server signs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from entrenous_network.frames.request import NodeRequest
from entrenous_network.node.node import FederatedNode
from entrenous_network.operate.founding import FoundedFederation
from entrenous_network.operate.going_back import go_back
from entrenous_network.server.server_folder import ServerFolder, standing
from federation_links import by_lot, nodes_of, offering, ratings, server_sha256, simulated, trained
from lying_sums import SubtractingServer

from entrenous.core.contract.protocols import State, arrays_of
from entrenous.core.contract.update import Total
from entrenous.core.errors import InputError
from entrenous.core.types import Array, Float32Array

STEP = 0.05  # of a row; its four numbers move by half of it each
ROUNDS = 6

pytestmark = pytest.mark.usefixtures("quick")


def founded(folder: Path, rounds: int = ROUNDS, **terms: Any) -> FoundedFederation:
    more = {"people": 6, "protect": {"step": STEP}, **terms}
    return by_lot(folder, rounds=rounds, answers=rounds, **more)


def server_arrays(made: FoundedFederation) -> dict[str, Array]:
    """The newest model of a server."""
    with closing(ServerFolder(made.server)) as held:
        return arrays_of(standing(held, made.terms.make()).state)


@pytest.fixture
def lying(tmp_path: Path) -> Iterator[SubtractingServer]:
    held = SubtractingServer(founded(tmp_path / "f"))
    offering(held.nodes)
    yield held
    held.close()


def refused(lying: SubtractingServer, why: str) -> bool:
    """Whether all nodes, and some, gave one reason."""
    said = [text for name, text in lying.said.items() if name != "server"]
    assert len(said) == 12
    return all(why in text for text in said)


def test_a_first_model_that_does_not_follow_from_the_terms_is_refused(
    lying: SubtractingServer,
) -> None:
    names = list(lying.nodes)[:12]
    assert lying.sum_of(0, names, 0.001) is None
    assert refused(lying, "wrong-model\na row moved by 0.002 since round 0")
    assert lying.sum_of(1, names) is not None


def test_a_model_that_moved_further_than_its_rounds_allow_is_refused(
    lying: SubtractingServer,
) -> None:
    """The signed word of a server for a designed model is no sum of anybody."""
    names = list(lying.nodes)[:12]
    assert lying.sum_of(1, names, STEP / 2) is not None
    # One round later, and two steps away.
    assert lying.sum_of(2, names, 1.6 * STEP) is None
    assert refused(lying, "since round 1; at most 0.05")
    assert lying.sum_of(3, names, 1.4 * STEP) is not None
    # Nor is the model of the last round shown first.
    far = 5 * STEP
    for node in lying.nodes.values():
        node.store.receive_model(6, arrays_of(lying.download(far)))
    assert lying.sum_of(4, names, far) is None
    assert refused(lying, "past-round")


def test_numbers_of_rounds_end_with_the_terms(lying: SubtractingServer) -> None:
    """Who could leave out a hundred rounds could show any model."""
    names = list(lying.nodes)[:12]
    assert lying.made.terms.last_number == ROUNDS + 1
    assert lying.sum_of(100, names, 50 * STEP) is None
    assert refused(lying, "future-round")


def test_a_federation_moves_by_steps_as_its_simulation_does(tmp_path: Path) -> None:
    made = founded(tmp_path / "f", draws="public")
    assert trained(made) == server_sha256(simulated(made, ratings(40)))


def test_a_model_that_was_trained_elsewhere_is_no_first_model(tmp_path: Path) -> None:
    before = founded(tmp_path / "before")
    trained(before)
    with pytest.raises(InputError, match="--protect step=0"):
        founded(tmp_path / "after", from_model=str(before.server))


def test_a_server_that_goes_back_leaves_as_many_numbers_out(tmp_path: Path) -> None:
    made = founded(tmp_path / "f")
    trained(made)
    with pytest.raises(InputError, match="the terms allow 7"):
        go_back(made.server, 2)


def test_one_accomplice_has_a_designed_model_follow_from_a_sum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Why nobody signs that a model follows: whoever checks that sees the same sum, and masks hide
    whose numbers are in it. The step bounds such a model as it bounds any other.
    """
    made = founded(tmp_path / "f", 1)
    drawn = sorted(nodes_of(made))[:12]
    honest = FederatedNode.train_sum
    plan: list[Float32Array] = []

    def train_sum(self: FederatedNode, request: NodeRequest) -> tuple[State, Total]:
        devices, total = honest(self, request)
        if self.name == drawn[0] and not plan:
            sent = total.dense["f"]
            plan.append(np.where(np.arange(sent.size) % 3, 1.0, -1.0).reshape(sent.shape))
            # A few times as long as an honest sum: ten times as long would not count.
            sent[...] = 10 * np.abs(sent).max() * plan[0]
        return devices, total

    monkeypatch.setattr(FederatedNode, "train_sum", train_sum)
    monkeypatch.setattr(FederatedNode, "offers", lambda self, number: self.name in drawn)
    before = server_arrays(made)
    trained(made)
    moved = server_arrays(made)["y"] - before["y"]
    assert (np.sign(moved) == plan[0][0]).mean() > 0.9
