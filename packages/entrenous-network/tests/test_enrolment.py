"""What a node takes from an invitation, what its owner alone decides, names that no node may have,
files that nobody else may read.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import Command
from entrenous_network.agreement.files import read_identity
from entrenous_network.agreement.unsampled import epsilon_of_gaussian
from entrenous_network.node.node import FederatedNode
from entrenous_network.node.node_store import NODE
from entrenous_network.operate.enrolment import (
    check_epsilon,
    check_terms,
    identity,
    join,
    told,
)
from entrenous_network.operate.founding import FoundedFederation
from entrenous_network.operate.plans import JoinPlan
from entrenous_network.secure_sum.terms import Floors
from federation_links import by_lot, federation, ratings

from entrenous.core.errors import InputError

PUBLIC = JoinPlan(profile="paper", own={"pi": "0"}, public_draws=True)


@pytest.fixture
def made(tmp_path: Path) -> FoundedFederation:
    """A federation, and the invitation of its first node, which has not joined."""
    made = federation(tmp_path / "f")
    (made.nodes["node-1"] / "store.sqlite").unlink()
    (made.nodes["node-1"] / "node.json").unlink()
    return made


def invitation(made: FoundedFederation, **more: Any) -> Path:
    """What the operator sends to the first node."""
    own = made.server.parent / "invitations" / "node-1"
    said = json.loads((own / "invitation.json").read_text())
    (own / "invitation.json").write_text(json.dumps({**said, **more}))
    return own


def joining(made: FoundedFederation, sent: Path, **how: Any) -> dict[str, Any]:
    """What node.json says after the first node has joined with floors and a pi of its own."""
    rows = ratings().of_users(FIRST)
    tell = how.pop("tell", print)
    plan = replace(PUBLIC, **how)
    join(made.nodes["node-1"], sent, rows, plan, tell)
    return dict(json.loads((made.nodes["node-1"] / "node.json").read_text()))


FIRST = np.arange(5)


@pytest.mark.parametrize(
    "more",
    [
        {"floors": {"people": 2, "occupancy": 0.0}},
        {"own": {"pi": 1}},
        {"least_users": 1},
        {"name": "other"},
        {"algorithm": "./x.py"},
        {"anything": 1},
    ],
)
def test_an_invitation_overrides_nothing_that_the_owner_decides(
    made: FoundedFederation, more: dict[str, Any]
) -> None:
    with pytest.raises(
        InputError, match=f"unknown field `{next(iter(more))}`; expected server and tls alone"
    ) as why:
        joining(made, invitation(made, **more))
    assert "\n" not in str(why.value) and not (made.nodes["node-1"] / "node.json").exists()
    assert not (made.nodes["node-1"] / "store.sqlite").exists()


@pytest.mark.parametrize(
    "more",
    [
        {"server": 5},
        {"server": None},
        {"tls": "false"},
        {"tls": 0},
        {"server": "nowhere"},
        {"server": "a:0"},
    ],
)
def test_an_invitation_is_strictly_typed(made: FoundedFederation, more: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        joining(made, invitation(made, **more))
    assert not (made.nodes["node-1"] / "node.json").exists()


def test_an_owner_says_how_much_of_differential_privacy_a_user_gives_up_at_most(
    made: FoundedFederation, tmp_path: Path
) -> None:
    """The noise of 100 in a sum is 40 clips, of which 33 answers spend epsilon 0.51. Shares are for
    ten people: if only 5 tell nobody theirs, that much of it is left.
    """
    with pytest.raises(InputError, match="its terms prove no epsilon"):
        joining(made, invitation(made), epsilon=8.0)
    own = {"clip": 2.5, "noise_from": "system"}
    proven = by_lot(tmp_path / "g", answers=33, noise=100.0, bits=64, draws="secret", protect=own)
    assert (
        proven.terms.proven(10)
        == epsilon_of_gaussian(40, 33, 1e-5)
        == pytest.approx(0.505, abs=0.001)
    )
    left = epsilon_of_gaussian(40 * (5 / 10) ** 0.5, 33, 1e-5)
    assert proven.terms.proven(5) == pytest.approx(left)
    sent = proven.server.parent / "invitations" / "node-01"
    for epsilon, wrong in ((0.0, "a number above 0"), (0.3, "its 33 rounds may spend epsilon")):
        with pytest.raises(InputError, match=wrong):
            check_epsilon(sent, proven.terms, epsilon, 10)
    check_epsilon(sent, proven.terms, 4.0, 10)
    assert "of each user, of 1 training" in proven.terms.limits()


@pytest.mark.parametrize("occupancy", [10.0, 0])
@pytest.mark.beside
def test_a_node_takes_the_floors_that_join_wrote(
    tmp_path: Path, command: Command, occupancy: float
) -> None:
    floors = Floors(people=6, occupancy=occupancy)
    node = by_lot(tmp_path / "f", floors=floors, noise=0.0, bits=64).nodes["node-01"]
    assert json.loads((node / NODE).read_text())["floors"] == asdict(floors)
    assert FederatedNode(node)._floors == floors
    assert command("receipt", node).code == 0


FLOORS: list[object] = [
    *({"people": people} for people in ("many", "5", 2.5, None, True)),
    *({"occupancy": "10"}, {"apart": True}, {"partys": 3}),
    *(["people", 3], "many", 5, None),
]


@pytest.mark.beside
def test_floors_that_join_cannot_have_written_get_one_line(
    tmp_path: Path, command: Command
) -> None:
    node = by_lot(tmp_path / "f", people=6).nodes["node-01"]
    about = json.loads((node / NODE).read_text())
    for floors in FLOORS:
        (node / NODE).write_text(json.dumps({**about, "floors": floors}))
        for words in (["receipt", node], ["node", node]):
            refused = command(*words)
            assert refused.code == 2
            assert f"{node / NODE}: bad floors; expected numbers, as" in refused.error, floors


def test_what_a_node_runs_by_is_what_its_owner_said(made: FoundedFederation) -> None:
    about = joining(made, invitation(made), least_users=2)
    assert about["floors"] == {
        "people": 100,
        "occupancy": 10.0,
        "noise": False,
    }
    assert (about["own"], about["least_users"], about["name"]) == ({"pi": "0"}, 2, "node-1")
    node = FederatedNode(made.nodes["node-1"])
    assert node.algorithm.pi == 0  # type: ignore[attr-defined]
    node.close()


def test_under_masks_nobody_joins_for_several_users(tmp_path: Path) -> None:
    """A device holds the people of a sum against those before, and of several under one key it
    could not say whom a server asks.
    """
    made = by_lot(tmp_path / "f")
    sent = made.server.parent / "invitations" / "node-01"
    plan = JoinPlan(people=10, public_draws=True)
    check_terms(sent, made.terms, plan, 1)
    with pytest.raises(InputError, match=r"2 users, and under masks each has a device.* join by a"):
        check_terms(sent, made.terms, plan, 2)


@pytest.mark.parametrize("least", [0, 6])
def test_least_users_is_between_one_and_all(made: FoundedFederation, least: int) -> None:
    with pytest.raises(InputError, match="--least-users: got"):
        joining(made, invitation(made), least_users=least)


def test_a_node_is_told_what_it_agrees_to(made: FoundedFederation) -> None:
    said = told(invitation(made))
    assert any(line.startswith("draws=public: the server can repeat") for line in said)
    assert any("fpl" in line and "factors=4" in line for line in said) and any(
        line.startswith("profile paper: the server can read what each node sends") for line in said
    )
    assert made.terms.run in said[0] and all("\n" not in line for line in said)
    heard: list[str] = []
    joining(made, made.server.parent / "invitations" / "node-1", tell=heard.append)
    assert heard == said


@pytest.mark.parametrize("name", ["..", ".", "--help", "-n", ".ssh"])
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    """A name is the name of a folder, and is said to `shut-out`."""
    with pytest.raises(InputError, match="--name: got"):
        identity(tmp_path / "node", name)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o620])
def test_a_key_that_others_may_read_is_refused(made: FoundedFederation, mode: int) -> None:
    key = made.nodes["node-2"] / "identity.key"
    key.chmod(mode)
    with pytest.raises(InputError, match="others may read it; expected mode 0600"):
        read_identity(key)
    key.chmod(0o600)
    read_identity(key)


def test_public_draws_are_for_the_owner_to_allow(made: FoundedFederation) -> None:
    with pytest.raises(InputError, match="its draws are public"):
        joining(made, invitation(made), public_draws=False)
    assert not (made.nodes["node-1"] / "store.sqlite").exists()
    joining(made, invitation(made))
