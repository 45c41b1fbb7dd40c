"""People who come to a federation under masks while it runs: those who were there learn of them by
a longer list, and all are in one sum from the next round on.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from entrenous_network.agreement.members import MEMBER, MEMBERS, Member, Members
from entrenous_network.frames.frames import Code
from entrenous_network.node.secure_node import inputs
from entrenous_network.operate.membership import shut_out
from entrenous_network.operate.running import status
from federation_links import answer_to, logged
from growing_federation import FIRST, USERS, Growing, _name
from msgspec.structs import replace

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


WRONG: dict[str, tuple[Member, str]] = {
    "another key": (Member("device-03", "ab" * 32, 3, 3), "its key, users or mark have changed"),
    "a known key": (Member("device-30", "", 30, 30), "has the key of another member"),
    "a number of another": (Member("device-30", "cd" * 32, 7, 7), "users 7 to 7; expected 30"),
    "beyond the room": (Member("device-30", "cd" * 32, 30, 1 << 50), "users 30 to"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_whoever_is_a_member_stays_as_it_joined_and_nobody_gets_its_numbers(
    tmp_path: Path, wrong: str
) -> None:
    growing = Growing(tmp_path)
    shut_out(tmp_path / "f", "device-07")
    members = Members.read(growing.made.server / MEMBERS, USERS)
    member, said = WRONG[wrong]
    if not member.key:
        member = replace(member, key=members.nodes["device-03"].key)
    head = members.head
    with pytest.raises(InputError, match=said):
        members.add(member)
    assert members.head == head and "device-30" not in members
    assert head.size == FIRST and "device-07" not in members.nodes
    assert members.by_node(np.array([8, 7, 3, 39])) == {"device-03": [3], "device-08": [8]}


@pytest.mark.parametrize("line", [b"{}", b"x", b'{"name": "device-30", "key": "ab"}', b"[]"])
def test_a_file_with_a_line_that_is_no_member_says_so(tmp_path: Path, line: bytes) -> None:
    path = Growing(tmp_path).made.server / MEMBERS
    path.write_bytes(path.read_bytes() + line + b"\n")
    with pytest.raises(InputError, match="line 31 is no member"):
        Members.read(path, USERS)


def test_a_line_that_was_cut_short_is_dropped_on_the_next_start_and_said(tmp_path: Path) -> None:
    """As by a kill: nobody has been answered who joined by it."""
    growing = Growing(tmp_path)
    path = growing.made.server / MEMBERS
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"name":"device-30","ke')
    growing.served(stop_at=1)
    assert path.read_bytes() == whole
    assert f"{MEMBERS}: its last line was cut short, and is dropped" in logged(growing.made.server)
    path.write_bytes(whole + b'{"name":"device-30","ke')
    growing.come(range(FIRST, 32))
    assert Members.read(path, USERS).head.size == 32
    # What came is appended, and nothing is written anew.
    assert path.read_bytes().startswith(whole)


# ---- a server that lies about members ------------------------------------------------------------


def told(growing: Growing, body: bytes, name: str = "device-00") -> str:
    """What a node says to the head of a log that the operator's key has signed."""
    return answer_to(growing.made, growing.nodes[name], "members", body)


def test_a_log_that_does_not_begin_as_the_known_one_is_not_taken(tmp_path: Path) -> None:
    growing = Growing(tmp_path)
    own = growing.nodes["device-00"].folder / MEMBER
    before = own.read_bytes()
    fork = Members(USERS, [Member(f"n{at}", f"{at:064x}", at, at) for at in range(33)])
    growing.come(range(FIRST, 33))
    members = Members.read(growing.made.server / MEMBERS, USERS)
    size, root, proof = msgspec.msgpack.decode(members.since(FIRST))
    lies = [fork.since(FIRST), members.since(FIRST + 1), members.since(0)]
    for lie in (
        [size, bytes(32), proof],
        [size, root, proof[1:]],
        [FIRST - 1, root, []],
        [size, root],
    ):
        lies.append(msgspec.msgpack.encode(lie))
    for lie in (*lies, b"", b"{", b"\xc1"):
        assert told(growing, lie).startswith(f"{Code.MALFORMED.value}\nmembers: "), lie
    assert own.read_bytes() == before
    assert told(growing, members.since(FIRST)) == "members"
    assert growing.knows("device-00") == 33
    # And the node goes on.
    assert growing.served() is not None
