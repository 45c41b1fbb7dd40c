"""One hostile node of a masked federation: it costs what it must, it is named, the victim is
not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from entrenous_network.frames.frames import opened
from entrenous_network.frames.secure import frame_of
from entrenous_network.node.node import FederatedNode
from entrenous_network.node.secure_node import SecureSide
from entrenous_network.operate.founding import FoundedFederation
from entrenous_network.secure_sum import messages as m
from entrenous_network.secure_sum.client import SecureSumClient
from entrenous_network.secure_sum.doubts import Doubt, Doubts
from entrenous_network.secure_sum.server import GAVE_WRONG, SENT_WRONG
from entrenous_network.server.server import serve
from federation_links import (
    FaultyLink,
    answers_of,
    by_lot,
    consented,
    logged,
    nodes_of,
)

ROUNDS = 3


pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def made(tmp_path: Path) -> FoundedFederation:
    return by_lot(tmp_path / "f", rounds=ROUNDS, people=6)


@pytest.fixture
def nodes(made: FoundedFederation) -> dict[str, FederatedNode]:
    return nodes_of(made)


@pytest.fixture
def liar(nodes: dict[str, FederatedNode]) -> str:
    """A node that the lot of round 0 draws, and that of a later one."""
    drawn = [name for name, node in nodes.items() if node.offers(0)]
    return next(name for name in drawn if nodes[name].offers(1) or nodes[name].offers(2))


def client_of(node: FederatedNode) -> SecureSumClient:
    side = node._kinds["share"].__self__  # type: ignore[attr-defined]
    assert isinstance(side, SecureSide) and side._client is not None
    return side._client


def lying(
    node: FederatedNode, kind: str, lie: Callable[[SecureSumClient, bytes], bytes]
) -> Callable[[bytes], bytes]:
    """A node that says something else at one stage, properly signed."""

    def answer(request: bytes) -> bytes:
        honest = node.answer(request)
        found = opened(honest)
        if found.head.kind != kind:
            return honest
        client = client_of(node)
        view = found.head.view
        assert isinstance(view, bytes)
        return frame_of(client._signed(m.STAGES.index(kind), view, lie(client, bytes(found.body))))

    return answer


def wrong_shares(client: SecureSumClient, body: bytes) -> bytes:
    return bytes(len(body))


def bad_boxes(client: SecureSumClient, body: bytes) -> bytes:
    """Boxes that hold nothing."""
    said = m.decode(body, m.Shares, 1 << 24)
    return m.encode(m.Shares([bytes(m.BOX)] * len(said.boxes), said.commitments))


def liars(folder: Path) -> Mapping[str, str]:
    return dict(json.loads((folder / "status.json").read_text())["liars"])


def trained(
    made: FoundedFederation,
    nodes: Mapping[str, FederatedNode],
    liar: str,
    kind: str,
    lie: Callable[[SecureSumClient, bytes], bytes],
) -> str | None:
    answers = answers_of(nodes)
    answers[liar] = lying(nodes[liar], kind, lie)
    return serve(FaultyLink(answers), made.server)


def is_left_out(made: FoundedFederation, nodes: dict[str, FederatedNode], liar: str) -> bool:
    """Whether the liar alone is named, and was in the first sum alone."""
    sums = consented(nodes)
    part = [liar in sums[number] for number in range(ROUNDS)]
    return list(liars(made.server)) == [liar] and part == [True, False, False]


def test_wrong_shares_cost_no_round_and_the_liar_is_named(
    made: FoundedFederation, nodes: dict[str, FederatedNode], liar: str
) -> None:
    """M2: 6 of 6 rounds were lost, and the log named nobody. The first sum holds the liar's vector;
    the later ones are asked for without it."""
    assert trained(made, nodes, liar, "unmask", wrong_shares) is not None
    said = logged(made.server)
    assert f"round 0: {liar} lied: {SENT_WRONG}" in said
    assert is_left_out(made, nodes, liar)


def test_bad_boxes_cost_one_round_and_name_who_sent_them(
    made: FoundedFederation, nodes: dict[str, FederatedNode], liar: str
) -> None:
    """M2: the log named the victim alone, in every line, and each round was lost."""
    trained(made, nodes, liar, "share", bad_boxes)
    assert f"round 0: {liar} lied: {GAVE_WRONG}" in logged(made.server)
    assert is_left_out(made, nodes, liar)


def one_bad_box(client: SecureSumClient, body: bytes) -> bytes:
    said = m.decode(body, m.Shares, 1 << 24)
    return m.encode(m.Shares([bytes(m.BOX), *said.boxes[1:]], said.commitments))


def test_a_server_counts_wrong_shares_over_its_rounds(
    made: FoundedFederation,
    nodes: dict[str, FederatedNode],
    liar: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One bad box costs nothing and names nobody; who sends one again and again is left out."""
    count = Doubts.after
    heard: list[Mapping[Doubt, set[str]]] = []

    def after(own: Doubts, wrong: Mapping[Doubt, set[str]], members: int) -> dict[str, str]:
        assert count(own, wrong, members) == {}
        heard.append(wrong)
        return {liar: GAVE_WRONG} if len(heard) == 1 else {}

    monkeypatch.setattr(Doubts, "after", after)
    assert trained(made, nodes, liar, "share", one_bad_box) is not None
    assert len(heard[0][liar, GAVE_WRONG]) == 1
    assert sorted(lie for _, lie in heard[0]) == sorted([GAVE_WRONG, SENT_WRONG])
    assert heard[1:] == [{}, {}]
    assert list(liars(made.server)) == [liar]


def test_liars_are_remembered_over_a_restart(
    made: FoundedFederation, nodes: dict[str, FederatedNode], liar: str
) -> None:
    answers = answers_of(nodes)
    answers[liar] = lying(nodes[liar], "unmask", wrong_shares)

    class Dying(FaultyLink):
        """Its server is killed in the round after the lie."""

        def receive(self, seconds: float) -> list[tuple[str, bytes]]:
            if any(line.startswith("round 0: ") and "devices" in line for line in said()):
                raise ConnectionError("killed")
            return super().receive(seconds)

    def said() -> list[str]:
        return logged(made.server)

    with pytest.raises(ConnectionError):
        serve(Dying(answers), made.server)
    assert serve(FaultyLink(answers), made.server) is not None
    assert list(liars(made.server)) == [liar]
    assert sum("lied:" in line for line in said()) == 1
