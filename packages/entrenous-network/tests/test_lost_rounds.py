"""A round under masks that gives no sum does not count: a further one takes its place, and a server
that loses too many says so.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from entrenous_network.frames.contribution import agreed_by
from entrenous_network.frames.frames import FrameParts, opened
from entrenous_network.links.metrics import LinkTally, exposition
from entrenous_network.node.node import FederatedNode
from entrenous_network.node.secure_node import inputs
from entrenous_network.operate.founding import FoundedFederation
from entrenous_network.operate.running import status
from entrenous_network.secure_sum.client import SecureSumClient
from entrenous_network.secure_sum.vector import pack, unpack
from entrenous_network.server import server
from entrenous_network.server.server import RoundsLost, serve
from entrenous_network.server.server_folder import ServerFolder
from federation_links import (
    DyingLink,
    FaultyLink,
    by_lot,
    linked,
    logged,
    nodes_of,
    noting_inputs,
)
from forked import run

ROUNDS = 6
LIAR = "node-02"


pytestmark = pytest.mark.usefixtures("quick")


def masked(folder: Path, rounds: int = ROUNDS, **terms: Any) -> FoundedFederation:
    more = {"answers": 1000, "people": 6, "deadline": 30.0, **terms}
    return by_lot(folder, rounds=rounds, **more)


@pytest.fixture
def spoiling(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, set[int]], None]:
    """One node masks a vector that no devices can have, in some rounds: signed, well-formed, and
    wrong. Its lot draws it in these.
    """

    def spoil(name: str, rounds: set[int]) -> None:
        honest = SecureSumClient.mask
        honest_lot = FederatedNode.offers

        def offers(self: FederatedNode, number: int) -> bool:
            return (self.name == name and number in rounds) or honest_lot(self, number)

        def mask(self: SecureSumClient, inbox: bytes, vector: Any, *more: Any) -> bytes:
            if self.name == name and self.terms.round in rounds:
                vector = np.full_like(vector, 1 << 25)
            return honest(self, inbox, vector, *more)

        monkeypatch.setattr(SecureSumClient, "mask", mask)
        monkeypatch.setattr(FederatedNode, "offers", offers)

    return spoil


def answers(made: FoundedFederation) -> tuple[dict[str, FederatedNode], FaultyLink]:
    nodes = nodes_of(made)
    return nodes, linked(nodes)


Spoiling = Callable[[str, set[int]], None]


def test_a_server_that_loses_its_rounds_ends_with_an_error_and_sends_no_model(
    tmp_path: Path, spoiling: Spoiling
) -> None:
    """It said `finished: 6 rounds` after 6 lost of 6, with exit code 0, and gave everybody the
    model that nobody had trained.
    """
    made = masked(tmp_path / "f")
    spoiling(LIAR, set(range(100)))
    nodes, link = answers(made)
    kinds: list[str] = []
    sent = link.send

    def send(address: str, frame: FrameParts, seconds: float) -> None:
        kinds.append(opened(bytes(frame)).head.kind)
        sent(address, frame, seconds)

    link.send = send  # type: ignore[method-assign]
    with pytest.raises(
        RoundsLost, match="2 rounds were lost, and 1 may be; the model is untrained"
    ):
        serve(link, made.server)
    assert "model" not in kinds and not (made.server / "model.safetensors").exists()
    lines = logged(made.server)
    assert not any("finished" in line for line in lines)
    assert sum("0 of 40 devices: lost" in line for line in lines) == 2
    assert "a node lied" in "".join(lines)
    said = status(made.server)
    assert (said["status"], said["round"], said["lost"]) == ("untrained", 0, 2)
    assert "untrained" in said["reason"] and "\n" not in said["reason"]
    assert "\nentrenous_rounds_lost_total 2.0\n" in exposition(said, LinkTally())
    assert inputs(nodes[LIAR].store) == 2


def test_lost_rounds_are_made_up_for_and_the_model_has_all_its_rounds(
    tmp_path: Path, spoiling: Spoiling
) -> None:
    """Numbers go on: round 2 is never asked for again, and round 6 is the sixth that counts."""
    made = masked(tmp_path / "f")
    spoiling(LIAR, {2})
    _, link = answers(made)
    found = serve(link, made.server)
    lines = logged(made.server)
    counted = [line.split(":")[0] for line in lines if re.match(r"round \d: [1-9]\d* of 40", line)]
    assert counted == [f"round {number}" for number in (0, 1, 3, 4, 5, 6)]
    assert lines[-1] == f"finished: 6 rounds, model {found}"
    said = status(made.server)
    assert (said["round"], said["lost"], said["number"]) == (6, 1, 7)


def test_no_number_is_used_twice_though_the_server_is_killed_wherever_it_is(
    tmp_path: Path, spoiling: Spoiling
) -> None:
    """What is counted, lost and asked survives: the server dies again and again, between any two
    answers.
    """
    made = masked(tmp_path / "f")
    spoiling(LIAR, {1})
    nodes = nodes_of(made)
    said, left = noting_inputs(nodes)
    link = DyingLink(said)
    found = None
    deaths = 0
    while found is None:
        link.left_looks = 90 + deaths % 9
        try:
            found = serve(link, made.server)
        except ConnectionError:
            deaths += 1
            assert deaths < 300
    assert deaths > 3
    held = ServerFolder(made.server)
    now = server.standing(held, made.terms.make())
    held.close()
    assert now.tally.counted == ROUNDS and now.tally.lost <= 1
    assert all(numbers == sorted(set(numbers)) for numbers in left.values())


def test_the_program_ends_with_code_1_and_one_line(tmp_path: Path, spoiling: Spoiling) -> None:
    """As a service manager and a person see it: a real process over a folder whose rounds are
    lost.
    """
    made = masked(tmp_path / "f")
    spoiling(LIAR, set(range(100)))
    with pytest.raises(RoundsLost):
        serve(answers(made)[1], made.server)
    command = [sys.executable, "-m", "entrenous", "server", str(made.server)]
    ended = run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 1, ended.stderr
    last = ended.stderr.strip().splitlines()[-1]
    assert "2 rounds were lost, and 1 may be; the model is untrained" in last
    assert "Traceback" not in ended.stderr and not (made.server / "model.safetensors").exists()


@pytest.mark.parametrize("begins", [0, 5])
def test_a_member_that_sends_the_largest_numbers_there_are_drags_nothing_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begins: int
) -> None:
    """All of them within limits: |q| went to 8,999 in six rounds, all of which counted, without a
    warning. Now none of these rounds counts, whether it begins at once, when there are made-up
    devices to compare with, or later.
    """
    made = masked(tmp_path / "f", rounds=20, bits=64)
    honest = FederatedNode.train_sum
    honest_lot = FederatedNode.offers

    def offers(self: FederatedNode, number: int) -> bool:
        return self.name == LIAR or honest_lot(self, number)

    monkeypatch.setattr(FederatedNode, "offers", offers)

    def train_sum(self: FederatedNode, request: Any) -> tuple[Any, Any]:
        devices, total = honest(self, request)
        if self.name == LIAR and request.round >= begins:
            for array in total.dense.values():
                array[...] = np.sign(array + 0.5).astype(np.int64) * (total.devices * (1 << 31) - 1)
        return devices, total

    monkeypatch.setattr(FederatedNode, "train_sum", train_sum)
    with pytest.raises(RoundsLost, match="3 rounds were lost, and 2 may be"):
        serve(answers(made)[1], made.server)
    lines = logged(made.server)
    compared = "what made-up devices send" if begins == 0 else "sums before it"
    assert (
        sum(
            f"times as long as {compared}; at most 10: a member lies, and masks hide which: lost"
            in line
            for line in lines
        )
        == 3
    )
    counted = [line.split(":")[0] for line in lines if re.match(r"round \d: [1-9]\d* of 40", line)]
    assert counted == [f"round {number}" for number in range(begins)]
    held = ServerFolder(made.server)
    now = server.standing(held, made.terms.make())
    held.close()
    assert np.abs(now.state.y).max() < 100 and now.tally.counted == begins


def test_a_liar_cannot_hide_its_rows_behind_senders_that_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under noise everybody counts as a sender of every row, so rows that a sum said nobody had
    sent counted, and nobody measured them.
    """
    made = masked(tmp_path / "f", 2, algorithm="fpl", noise=0.01)
    like = agreed_by(made.terms, made.terms.make()).empty_total()
    honest = SecureSumClient.mask

    def mask(self: SecureSumClient, inbox: bytes, vector: Any, *more: Any) -> bytes:
        if self.name == self._others().leaves[0].name:
            total = unpack(vector, like)
            total.senders[...] = 1 - len(self._others().leaves)
            for array in total.rows.values():
                array[...] = 1 << 20
            vector = pack(total)
        return honest(self, inbox, vector, *more)

    monkeypatch.setattr(SecureSumClient, "mask", mask)
    with pytest.raises(RoundsLost):
        serve(answers(made)[1], made.server)
    said = "a node lied, and the sum does not say which (wrong-count)"
    assert any(said in line for line in logged(made.server))
