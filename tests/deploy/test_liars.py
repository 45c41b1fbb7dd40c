"""One hostile node of a masked federation: it costs what it must, it is named, the victim is
not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from federation_links import (
    FaultyLink,
    federation,
    logged,
    nodes_of,
    quick_pauses,
    server_sha256,
    simulated,
)

from entrenous.deploy.frames.frames import opened
from entrenous.deploy.node.node import FederatedNode
from entrenous.deploy.node.secure_node import SecureSide
from entrenous.deploy.operate.founding import FoundedFederation
from entrenous.deploy.server.server import serve
from entrenous.privacy.secure_sum import messages as m
from entrenous.privacy.secure_sum.client import SecureSumClient
from entrenous.privacy.secure_sum.statements import box_digest
from entrenous.privacy.secure_sum.terms import Floors

LIAR, VICTIM = "node-3", "node-2"
NODES, ROUNDS = 6, 3
LOW = Floors(people=3, parties=3, occupancy=0.0, apart=False)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    quick_pauses(monkeypatch)


def masked(folder: Path, floors: Floors = LOW) -> FoundedFederation:
    return federation(
        folder, NODES, ROUNDS, secure="masks", floors=floors, deadline=1.0, quorum=0.7
    )


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
        signed = m.decode(bytes(found.body), m.Signed, 1 << 24)
        view = client._views[{"share": 1, "unmask": 3}[kind]]
        body = client._signed(signed.stage, view, lie(client, signed.body))
        return node.responder.seal_for(opened(request), kind, body)

    return answer


def wrong_shares(client: SecureSumClient, body: bytes) -> bytes:
    return bytes(len(body))


def bad_box(client: SecureSumClient, body: bytes) -> bytes:
    """A box for the victim that holds nothing. The liar keeps it, as its own program would."""
    said = m.decode(body, m.Shares, 1 << 24)
    place = client._others().names.index(VICTIM)
    graph, me = client._others().graph, client._others().me
    boxes = list(said.boxes)
    boxes[graph.neighbours(me).index(place)] = bytes(m.BOX)
    at = m.COMMITTED * graph.around(me).index(place)
    client._sent[place] = box_digest(bytes(m.BOX), said.commitments[at : at + m.COMMITTED])
    return m.encode(m.Shares(boxes, said.commitments))


def liars(folder: Path) -> Mapping[str, str]:
    return dict(json.loads((folder / "status.json").read_text())["liars"])


def trained(
    made: FoundedFederation, kind: str, lie: Callable[[SecureSumClient, bytes], bytes]
) -> str | None:
    nodes = nodes_of(made)
    answers = {name: node.answer for name, node in nodes.items()}
    answers[LIAR] = lying(nodes[LIAR], kind, lie)
    return serve(FaultyLink(answers), made.server)


def test_wrong_shares_cost_no_round_and_the_liar_is_named(tmp_path: Path) -> None:
    """M2: 6 of 6 rounds were lost, and the log named nobody. The first sum holds the liar's vector;
    the later ones are asked for without it."""
    made = masked(tmp_path / "f")
    assert trained(made, "unmask", wrong_shares) is not None
    said = logged(made.server)
    assert f"round 0: {LIAR} lied: sent other shares than it had been given" in said
    assert list(liars(made.server)) == [LIAR]
    assert "round 0: 20 of 20 devices" in said
    rest = 20 - len(nodes_of(made)[LIAR].shard.users)
    for number in (1, 2):
        assert f"round {number}: {rest} of 20 devices" in said


def test_a_bad_box_names_who_sent_it_and_never_who_got_it(tmp_path: Path) -> None:
    """M2: the log named the victim alone, in every line, and each round was lost."""
    made = masked(tmp_path / "f")
    assert trained(made, "share", bad_box) is not None
    said = logged(made.server)
    assert f"round 0: {VICTIM} complains of the box of {LIAR}" in said
    assert f"round 0: {LIAR} lied: sent '{VICTIM}' a box without its shares" in said
    assert list(liars(made.server)) == [LIAR]
    assert not any(f"{VICTIM} lied" in line for line in said)
    honest = 20 - len(nodes_of(made)[LIAR].shard.users)
    assert f"round 1: {honest} of 20 devices" in said  # the victim is in, the liar is not


def test_where_sums_must_not_differ_by_one_node_the_liar_is_named_all_the_same(
    tmp_path: Path,
) -> None:
    """By default a node is not left out by itself, which would show what it sent: its operator
    shuts it out (docs/trouble.md)."""
    made = masked(tmp_path / "f", Floors(people=3, parties=3, occupancy=0.0))
    assert trained(made, "unmask", wrong_shares) == server_sha256(simulated(made))
    assert list(liars(made.server)) == [LIAR]


def test_liars_are_remembered_over_a_restart(tmp_path: Path) -> None:
    made = masked(tmp_path / "f")
    nodes = nodes_of(made)
    answers = {name: node.answer for name, node in nodes.items()}
    answers[LIAR] = lying(nodes[LIAR], "unmask", wrong_shares)

    class Dying(FaultyLink):
        """Its server is killed in the round after the lie."""

        def receive(self, seconds: float) -> list[tuple[str, bytes]]:
            if any(line.startswith("round 0: 20 of 20") for line in logged(made.server)):
                raise ConnectionError("killed")
            return super().receive(seconds)

    with pytest.raises(ConnectionError):
        serve(Dying(answers), made.server)
    assert serve(FaultyLink(answers), made.server) is not None
    assert list(liars(made.server)) == [LIAR]
    assert sum("lied:" in line for line in logged(made.server)) == 1
