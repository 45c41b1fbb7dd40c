"""One enrolled node that lies with valid, signed, finite numbers: what it can do to the model with
limits in the terms, and without.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from entrenous_network.frames import contribution
from entrenous_network.frames.contribution import Caps, RoundHalted, norm
from entrenous_network.frames.frames import Code, FrameRefused, opened, seal
from entrenous_network.node.node import FederatedNode
from entrenous_network.operate.founding import FoundedFederation
from entrenous_network.operate.going_back import kept_rounds
from entrenous_network.operate.membership import rewind, shut_out
from entrenous_network.server import server
from entrenous_network.server.server import serve
from entrenous_network.server.server_folder import ServerFolder
from federation_links import (
    FaultyLink,
    answers_of,
    federation,
    logged,
    nodes_of,
    ratings,
    server_of,
    server_sha256,
    simulated,
    trained,
    virtual_time,
)

from entrenous.core.contract.declared import bound
from entrenous.core.contract.protocols import State
from entrenous.core.contract.update import Update, zero_total
from entrenous.core.errors import InputError
from entrenous.systems.named import algorithms

LIAR, NODES, ROUNDS = "node-07", 20, 12
Lie = Callable[[Update], Update]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deadlines in virtual time."""
    virtual_time(monkeypatch)
    monkeypatch.setattr(server, "FAREWELL", 0.3)


def upwards(update: Update) -> Update:
    """Every number of every row as large as it may be."""
    return update._replace(
        rows={name: np.full_like(rows, 32_000) for name, rows in update.rows.items()}
    )


def heavy(update: Update) -> Update:
    """Most of the weight of a round."""
    return update._replace(weight=np.array([32_000], np.float32))


def weightless(update: Update) -> Update:
    """Rows that count as nobody's."""
    return update._replace(weight=np.zeros(1, np.float32))


def lying(node: FederatedNode, lie: Lie) -> Callable[[bytes], bytes]:
    """Answers of a node whose update is changed, and signed by its own key."""

    def answer(request: bytes) -> bytes:
        frame = opened(node.answer(request))
        if frame.head.kind != "update":
            return node.answer(request)
        head, body = (
            frame.head,
            contribution.of_update(
                lie(contribution.read_update(frame.body, node.contract, int(node.shard.users[0])))
            ),
        )
        about = {"round": head.round, "model": head.model, "items": head.items, "about": head.about}
        return seal(node.key, "update", body, run=head.run, node=node.name, **about)

    return answer


def linked(made: FoundedFederation, lie: Lie | None) -> FaultyLink:
    nodes = nodes_of(made)
    answers = answers_of(nodes)
    return FaultyLink(answers | ({} if lie is None else {LIAR: lying(nodes[LIAR], lie)}))


def attacked(
    folder: Path, lie: Lie, algorithm: str = "fpl", settings: Any = None, **terms: Any
) -> tuple[FoundedFederation, State]:
    """A federation of 20 devices, one of which lies in every round, and the model it ends with."""
    how = {"deadline": 0.3, "quorum": 0.9, **terms}
    made = federation(folder, NODES, ROUNDS, algorithm, settings=settings, **how)
    serve(linked(made, lie), made.server)
    return made, model(made)


def model(made: FoundedFederation) -> Any:
    held = ServerFolder(made.server)
    try:
        found = held.newest(made.terms.make())
        assert found is not None
        return found[1]
    finally:
        held.close()


def refused(made: FoundedFederation, code: str) -> int:
    return sum(line.startswith(f"refused {code} from {LIAR}") for line in logged(made.server))


def test_one_of_twenty_cannot_drive_the_model_away(tmp_path: Path) -> None:
    """Without a limit it brings max |q| to thousands; with one its answers are refused and the
    model is that of the others.
    """
    _, free = attacked(tmp_path / "free", upwards)
    assert np.abs(free.q).max() > 5_000
    made, capped = attacked(tmp_path / "capped", upwards, most_norm=50.0)
    assert np.abs(capped.q).max() < 3
    assert refused(made, "too-large") >= ROUNDS
    alone = federation(tmp_path / "alone", NODES, ROUNDS, deadline=0.3, quorum=0.9)
    link = linked(alone, None)
    link.absent.add(LIAR)
    serve(link, alone.server)
    assert all(
        left.tobytes() == right.tobytes() for left, right in zip(capped, model(alone), strict=True)
    )


def test_limits_that_nobody_reaches_change_no_bit(tmp_path: Path) -> None:
    made = federation(tmp_path / "f", 4, 3, most_norm=50.0, most_weight=18.0, most_move=10.0)
    assert trained(made) == server_sha256(simulated(made))
    status = json.loads((made.server / "status.json").read_text())
    assert 0 < status["moved"] < 10 and 0 < status["longest_answer"] < 250


@pytest.mark.parametrize("lie", [heavy, weightless])
def test_a_device_weighs_no_more_than_it_can_have_and_no_rows_weigh_nothing(
    tmp_path: Path, lie: Lie
) -> None:
    """FedAvg, with no limit set: n_k is at most the items there are, and more than nothing where
    rows are sent.
    """
    made, _ = attacked(tmp_path / "f", lie, "fedavg-gmf", {"factors": 4, "cohort": 0})
    assert refused(made, "wrong-weight") >= ROUNDS


@pytest.mark.parametrize("weight", [0.0, -0.0, 1e-42, 2.0**-17])
def test_b17_a_weight_of_0_or_less_than_half_a_step_is_none(weight: float) -> None:
    """It would count as 0 in the sum, beside rows that count."""
    contract = bound(
        algorithms()["fedavg-gmf"](factors=4).configured(ratings().catalogue), ratings().catalogue
    )
    rows = {
        name: np.full((1, *shape), 0.5, np.float32) for name, shape in contract.way("rows").items()
    }
    dense = {
        name: np.zeros((1, *shape), np.float32) for name, shape in contract.way("dense").items()
    }
    found = Update(np.array([0, 1]), np.zeros(1, np.int32), rows, dense, np.ones(1, np.float32))
    assert Caps.of(contract).check(found) > 0
    with pytest.raises(FrameRefused) as why:
        Caps.of(contract).check(found._replace(weight=np.array([weight], np.float32)))
    assert why.value.code is Code.WRONG_WEIGHT


def test_a_group_without_a_weight_has_no_sum() -> None:
    catalogue = ratings().catalogue
    contract = bound(
        algorithms()["cali3f-gmf"](factors=4, clusters=3).configured(catalogue), catalogue
    )
    total = contract.empty_total()._replace(devices=2)
    total.weight[:] = (1 << 16, 0, 0)
    next(iter(total.dense.values()))[2] = 5
    with pytest.raises(FrameRefused) as why:
        Caps.of(contract).check(total)
    assert why.value.code is Code.WRONG_WEIGHT


def test_a_gateway_is_held_to_the_limits_of_its_users() -> None:
    """FedAvg over 18 items: two users weigh 512 at most, and send rows twice as long as one may."""
    contract = bound(
        algorithms()["fedavg-gmf"](factors=4).configured(ratings().catalogue), ratings().catalogue
    )
    total = contract.empty_total()._replace(devices=2)
    total.rows["item"][3], total.senders[3], total.weight[0] = 1 << 20, 2, 18 << 16
    caps = Caps.of(contract, 200.0)
    assert 0 < caps.check(total) == norm(total) < 400
    for bad, code in (
        (total._replace(weight=total.weight + (500 << 16)), Code.WRONG_WEIGHT),
        (total._replace(weight=total.weight * 0), Code.WRONG_WEIGHT),
        (total._replace(rows={"item": total.rows["item"] * 100}), Code.TOO_LARGE),
    ):
        with pytest.raises(FrameRefused) as why:
            caps.check(bad)
        assert why.value.code is code


def test_a_round_that_moves_the_model_too_far_is_not_counted_and_the_server_stops_with_a_reason(
    tmp_path: Path,
) -> None:
    """It says so in the log and the status, names the longest answers, and goes on once the liar is
    shut out.
    """
    made = federation(tmp_path / "f", NODES, ROUNDS, deadline=0.3, quorum=0.9, most_move=5.0)
    with pytest.raises(RoundHalted, match="would move the model by") as why:
        serve(linked(made, upwards), made.server)
    assert f"largest answers first: {LIAR}" in str(why.value) and "at most 5" in str(why.value)
    assert any(line.startswith("halted: round 0: would move") for line in logged(made.server))
    status = json.loads((made.server / "status.json").read_text())
    assert (
        status["status"] == "halted"
        and "would move the model" in status["reason"]
        and status["round"] == 0
    )
    assert not list(made.server.glob("checkpoint-*"))
    shut_out(made.server.parent, LIAR)
    assert serve(linked(made, upwards), made.server) is not None
    assert np.abs(model(made).q).max() < 3


def test_a_round_that_leaves_something_not_finite_is_not_counted(tmp_path: Path) -> None:
    made = federation(tmp_path / "f", 4, 1)
    held = ServerFolder(made.server)
    own = server_of(held)
    total = zero_total(18, {"q": (4,), "b": ()}, {}, 1)._replace(devices=20)
    own.algorithm = type(
        "Diverging",
        (),
        {
            "aggregate": lambda self, state, total: state._replace(b=state.b * np.inf + np.nan),
            "download": staticmethod(own.algorithm.download),
        },
    )()
    before = own.state
    with pytest.raises(RoundHalted, match="not finite"):
        own._commit(total, 20)
    assert own.state is before and own.round == 0 and not list(made.server.glob("checkpoint-*"))
    held.close()


def test_a_server_goes_back_to_any_round_that_it_has_kept(tmp_path: Path) -> None:
    """After a poisoned training the operator returns to a model from before, and the nodes' owners
    let it.
    """
    made = federation(tmp_path / "f", 4, 20)
    whole = trained(made)
    assert list(kept_rounds(made.server)) == [2, 4, 6, 8, 10, 12, 14, 16, 18, 19, 20]
    with pytest.raises(
        InputError, match="the model of round 7 is not kept; expected one of 0, 2, 4"
    ):
        rewind(made.server.parent, 7)
    (told,) = rewind(made.server, 6)
    assert "from round 20 back to 6" in told and list(kept_rounds(made.server)) == [2, 4, 6]
    held = ServerFolder(made.server)
    found = held.newest(made.terms.make())
    held.close()
    assert found is not None and found[0] == 6
    for folder in made.nodes.values():
        assert "from round 20 back to 6" in rewind(folder, 6)[0]
    again = trained(made)
    assert again is not None and again != whole  # with the vectors of now
    assert "from round 20 back to 0" in rewind(made.server.parent, 0)[0]
    assert kept_rounds(made.server) == {}
