"""People who come to a federation under masks while it runs: those who were there learn of them by
a longer list, and all are in one sum from the next round on.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from entrenous_network.agreement.members import MEMBERS, Members, members_from
from entrenous_network.frames.frames import Code
from entrenous_network.node.node import FederatedNode
from entrenous_network.node.secure_node import inputs
from entrenous_network.operate.membership import shut_out
from entrenous_network.operate.running import status
from entrenous_network.secure_sum.terms import MOST_MEMBERS
from federation_links import (
    answer_to,
)
from growing_federation import FIRST, USERS, Growing, _name

from entrenous.core.errors import InputError

pytestmark = pytest.mark.usefixtures("quick")


# ---- who comes -----------------------------------------------------------------------------------


def test_people_come_after_some_rounds_and_the_bytes_are_those_of_the_simulation(
    tmp_path: Path,
) -> None:
    growing = Growing(tmp_path)
    assert growing.served(stop_at=2) is None
    growing.come(range(FIRST, 36))
    assert growing.served(stop_at=4) is None
    growing.come(range(36, USERS))
    trained = growing.served()

    def members(number: int) -> int:
        if number < 2:
            return FIRST
        return 36 if number < 4 else USERS

    assert trained == growing.simulated(members)
    assert sum(inputs(growing.nodes[_name(user)].store) for user in range(FIRST, USERS)) > 0
    assert growing.knows("device-00") == USERS
    assert status(growing.made.server)["lost"] == 0


def test_one_that_was_away_when_others_came_learns_of_them_later(tmp_path: Path) -> None:
    growing = Growing(tmp_path)
    growing.served(stop_at=1)
    growing.come(range(FIRST, USERS))
    growing.served(stop_at=3, absent={"device-04"})
    assert (growing.knows("device-04"), growing.knows("device-05")) == (FIRST, USERS)
    growing.nodes["device-04"].close()
    growing.nodes["device-04"] = FederatedNode(tmp_path / "device-04")
    assert growing.served() is not None
    assert growing.knows("device-04") == USERS


def test_there_is_room_for_as_many_as_the_terms_say(tmp_path: Path) -> None:
    growing = Growing(tmp_path)
    growing.come(range(FIRST, USERS))
    with pytest.raises(InputError, match="with 1 user, and 0 are left"):
        growing.come(range(USERS, USERS + 1))


@pytest.mark.parametrize(
    ("users", "said"),
    [
        ([[[0, 1]], [[1, 2]]], "member b: serves a user that another node serves"),
        ([[[0, 1]], [[5, 5], [3, 3]]], "member b: users out of order or range"),
        ([[[0, 1]], [[3, 3], [3, 3]]], "member b: users out of order or range"),
        ([[[0, 1]], [[9, 10]]], "b"),
        ([[[4, 5]], [[0, 1]]], ""),  # the numbers of another node may be lower
        ([[[4, 5]], []], ""),
    ],
)
def test_each_user_has_one_node_and_each_node_ascending_users(users: Any, said: str) -> None:
    keys = (bytes([number]) * 32 for number in (1, 2))
    public = [Ed25519PrivateKey.from_private_bytes(key).public_key() for key in keys]
    nodes = {
        name: {"key": key.public_bytes_raw().hex(), "users": own}
        for name, key, own in zip("ab", public, users, strict=True)
    }
    fields = {"nodes": nodes, "former": []}
    if said:
        with pytest.raises(InputError, match=said):
            members_from(fields, "members.json", 10)
        return
    members = members_from(fields, "members.json", 10)
    asked = members.by_node(np.array([5, 1, 4, 7, 0]))
    assert asked["a"].tolist() == [4, 5]
    assert [user.tolist() for name, user in asked.items() if name == "b"] == (
        [[0, 1]] if users[1] else []
    )


# ---- a server that lies about members ------------------------------------------------------------


def told(growing: Growing, text: bytes, name: str = "device-00") -> str:
    """What a node says to a list of members that the operator's key has signed."""
    return answer_to(growing.made, growing.nodes[name], "members", text)


def lists(growing: Growing) -> dict[str, Any]:
    """The list of members as its file has it."""
    return dict(json.loads((growing.made.server / MEMBERS).read_text()))


def _far_too_many(fields: dict[str, Any]) -> None:
    key = fields["nodes"]["device-03"]["key"]
    for number in range(MOST_MEMBERS):
        fields["former"].append({"name": f"x{number}", "key": key, "last": 0, "until": 0})


def _come(name: str, **other: Any) -> Callable[[dict[str, Any]], object]:
    """A lie: somebody comes who is as the fourth person but for some fields."""
    return lambda fields: fields["nodes"].update({name: {**fields["nodes"]["device-03"], **other}})


LISTS: dict[str, Callable[[dict[str, Any]], object]] = {
    "without one": lambda fields: fields["nodes"].pop("device-03"),
    "another key": lambda fields: fields["nodes"].update(
        {"device-03": {**fields["nodes"]["device-04"], "users": [[3, 3]]}}
    ),
    "other users": _come("device-03", users=[[35, 35]]),
    "another name": lambda fields: fields["nodes"].update(
        {"device-30": fields["nodes"].pop("device-03")}
    ),
    "far too many": _far_too_many,
    "beyond the room": _come("device-30", users=[[30, 1 << 60]]),
    "a long name": _come("x" * 300, users=[[30, 30]]),
    "no key": lambda fields: fields["nodes"].update({"device-30": {"users": [[30, 30]]}}),
    "a number for a list": lambda fields: fields.update(nodes=7),
}
NO_LISTS = [b"", b"{", b"[]", b"\xff\xfe", b'{"nodes": {}, "former": []}']


def test_a_list_that_changes_somebody_or_cannot_be_is_not_taken(tmp_path: Path) -> None:
    growing = Growing(tmp_path)
    before = (growing.nodes["device-00"].folder / MEMBERS).read_bytes()
    for lie, change in LISTS.items():
        fields = lists(growing)
        change(fields)
        said = told(growing, json.dumps(fields).encode())
        assert said.startswith(f"{Code.MALFORMED.value}\nmembers: "), lie
    for no_list in NO_LISTS:
        assert told(growing, no_list).startswith(Code.MALFORMED.value), no_list
    assert (growing.nodes["device-00"].folder / MEMBERS).read_bytes() == before
    # And the node goes on.
    assert growing.served() is not None


# ---- what a list lacks ---------------------------------------------------------------------------


def test_a_node_is_told_what_its_list_lacks_alone(tmp_path: Path) -> None:
    growing = Growing(tmp_path)
    growing.served(stop_at=1)
    growing.come(range(FIRST, 33))
    shut_out(tmp_path / "f", "device-07")
    newest = Members.read(growing.made.server / MEMBERS, USERS)
    text = newest.since(FIRST)
    fields = json.loads(text)
    assert sorted(fields["nodes"]) == [_name(user) for user in range(FIRST, 33)]
    assert [member["name"] for member in fields["former"]] == ["device-07"]
    before = Members.read(growing.nodes["device-00"].folder / MEMBERS, USERS)
    assert before.taken(text, "here").text() == newest.text()
    # The same list once more, and as a whole, is no other.
    assert newest.taken(text, "here").text() == newest.text()
    assert before.taken(newest.text(), "here").text() == newest.text()
    assert told(growing, text.encode()) == "members"
    assert growing.knows("device-00") == 33


DIFFERENCES: list[Callable[[dict[str, Any]], object]] = [
    lambda fields: fields.update(after="x", nodes=[]),
    lambda fields: fields.update(former=3),
    lambda fields: fields.pop("former"),
    lambda fields: fields["former"].append({"name": "device-03"}),
    lambda fields: fields["nodes"]["device-30"].update(users=[[3, 3]]),
    lambda fields: fields["nodes"]["device-30"].update(users=[[30, 1 << 60]]),
    lambda fields: fields["nodes"].update({"device-03": fields["nodes"]["device-30"]}),
    # Somebody whom the node knows would be forgotten.
    lambda fields: fields["former"].append(
        {"name": "device-03", "key": "00" * 32, "last": 3, "until": 0}
    ),
]


def test_nobody_gets_the_number_of_somebody_who_was_shut_out(tmp_path: Path) -> None:
    growing = Growing(tmp_path)
    shut_out(tmp_path / "f", "device-07")
    before = Members.read(growing.made.server / MEMBERS, USERS)
    growing.come(range(FIRST, 33))
    fields = json.loads(Members.read(growing.made.server / MEMBERS, USERS).since(FIRST))
    fields["nodes"]["device-30"].update(users=[[7, 7]])
    with pytest.raises(ValueError, match="the number of somebody who is or was one"):
        before.taken(json.dumps(fields), "here")


def test_a_difference_that_is_none_changes_nothing(tmp_path: Path) -> None:
    growing = Growing(tmp_path)
    growing.come(range(FIRST, 33))
    newest = Members.read(growing.made.server / MEMBERS, USERS)
    before = (growing.nodes["device-00"].folder / MEMBERS).read_bytes()
    for place, change in enumerate(DIFFERENCES):
        fields = json.loads(newest.since(FIRST))
        change(fields)
        said = told(growing, json.dumps(fields).encode())
        assert said.startswith(Code.MALFORMED.value), place
        assert (growing.nodes["device-00"].folder / MEMBERS).read_bytes() == before
