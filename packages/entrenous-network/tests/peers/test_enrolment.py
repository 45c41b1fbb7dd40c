"""Peers on machines of their own: keys stay where they are made, invitations are for one key, bad
input is one line and writes nothing.
"""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from shlex import split

import pytest
from command_line import Command, Printed, contents, refuses, write_shop

pytest.importorskip("iroh")
pytest.importorskip("msgspec")

from entrenous_network.peers.folder import PeerFolder

FOUND = "federation new reading --peers --items items.csv"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: rows of four users, a list of items, keys of four peers of whom three
    have a port.
    """
    monkeypatch.chdir(tmp_path)
    header, *lines = write_shop(tmp_path / "all.csv").read_text().splitlines()
    for n in range(4):
        (tmp_path / f"{n}.csv").write_text(
            "\n".join([header, *(line for line in lines if line.startswith(f"u{n},"))]) + "\n"
        )
    items = sorted({line.split(",")[1] for line in lines})
    (tmp_path / "items.csv").write_text("item\n" + "".join(f"{item}\n" for item in items))
    return tmp_path


def requests(command: Command) -> str:
    for n in range(4):
        port = f"--listen 10.0.0.{n + 1}:9411" if n < 3 else ""
        assert command(*split(f"federation identity p{n} --name p{n} {port}")).code == 0
    return " ".join(f"--node p{n}/request.json" for n in range(3))


def founded(command: Command, options: str = "") -> None:
    done = command(*split(f"{FOUND} {requests(command)} {options}"))
    assert done.code == 0, done.err


def joined(command: Command, n: int) -> None:
    line = f"federation join p{n} --invitation reading/invitations/p{n} --data {n}.csv"
    done = command(*split(line))
    assert done.code == 0, done.err


def invites(command: Command, request: str) -> Printed:
    return command("federation", "invite", "reading", "--node", request)


def test_a_peer_that_was_invited_is_ready_to_run(folder: Path, command: Command) -> None:
    founded(command, "--users 5")
    assert invites(command, "p3/request.json").code == 0
    for n in range(4):
        joined(command, n)
        with closing(PeerFolder(folder / f"p{n}")) as peer:
            assert (peer.me.number, len(peer.rows), peer.node().events) == (n, 12, 0)
            assert [one.addresses for one in peer.bootstraps] == [
                ("10.0.0.1:9411",),
                ("10.0.0.2:9411",),
            ]
            assert peer.listen == (f"10.0.0.{n + 1}:9411" if n < 3 else "0.0.0.0:0")
        private = ("identity.key", "store.sqlite")
        assert {(folder / f"p{n}" / name).stat().st_mode & 0o77 for name in private} == {0}
    told = command("federation", "status", "p0", "p1", "--json").json["peers"]
    assert [(one["name"], one["number"], one["running"]) for one in told] == [
        ("p0", 0, False),
        ("p1", 1, False),
    ]
    secrets = [(folder / f"p{n}" / "identity.key").read_text().strip() for n in range(4)]
    sent = "".join(path.read_text() for path in (folder / "reading").rglob("*") if path.is_file())
    assert not any(secret in sent for secret in secrets) and "u0" not in sent
    given = "".join(
        path.read_text() for path in (folder / "reading" / "invitations" / "p2").iterdir()
    )
    assert "p1" not in given, "other peers' names are the operator's alone"


def test_a_peer_whose_pushes_carry_no_noise_has_an_owner_who_said_so(
    folder: Path, command: Command
) -> None:
    founded(command, "--profile paper")
    before = contents(folder)
    join = split("federation join p0 --invitation reading/invitations/p0 --data 0.csv")
    error = command(*join).error
    assert "who receives a model can hold it against the base model" in error
    assert "expected noise; --profile paper" in error
    assert contents(folder) == before
    assert command(*join, "--profile", "paper").code == 0


def test_bad_input_is_one_line_and_writes_nothing(folder: Path, command: Command) -> None:
    """What else `new` refuses is in commands/test_federation.py."""
    asked = requests(command)
    first = "--node p0/request.json"
    lines = {
        "--listen: got 'here'": "federation identity other --name x --listen here",
        "--advertise: got ':1'": "federation identity other --name x --advertise :1",
        "'p3' is to be a bootstrap": f"{FOUND} --node p3/request.json {asked}",
        "'p0' with 2 users; expected one": f"{FOUND} {asked}".replace(first, f"{first}:2"),
        "how often: got 1": f"{FOUND} {first} --users 5",
        "'p0' or its key is or was a node": f"{FOUND} {asked} {first}",
        "'p2' with 1 user, and 0 are left": f"{FOUND} {asked} --users 2",
        "no rounds where the topology is 'peers'": f"{FOUND} {asked} --rounds 3",
        "fpl needs a server": f"{FOUND} {asked} --algorithm fpl",
        "period: got '0.0'": f"{FOUND} {asked} --period 0",
        "terms.json: no such file": "federation invite nowhere --node p3/request.json",
        "no folder was named": "federation status",
    }
    refuses(command, lines, folder)


def test_an_invitation_is_for_one_key_and_one_user(folder: Path, command: Command) -> None:
    founded(command)
    own = "federation join p0 --invitation reading/invitations/p0 --data"
    lines = {
        "is not for 'p1' with this key": f"{own} 1.csv".replace("join p0", "join p1"),
        "40 users; expected 1": f"{own} all.csv",
        "and 0 are left": "federation invite reading --node p3/request.json",
        "peers have no rounds": "federation rewind reading/operator --rounds 1",
    }
    refuses(command, lines, folder)
    joined(command, 0)
    assert "has joined already" in command(*split(f"{own} 0.csv")).error


def test_a_ticket_ends_and_is_renewed(folder: Path, command: Command) -> None:
    founded(command, "--days -1")
    for n in range(3):
        joined(command, n)
    assert "its ticket ended on 2" in command("node", "p2").error
    assert "3 new tickets" in command("federation", "renew", "reading", "--days", "2").err
    assert command("federation", "join", "p2", "--invitation", "reading/invitations/p2").code == 0
    with closing(PeerFolder(folder / "p2")) as peer:
        peer.check_ticket(peer.me.ticket.until - 1.5 * 86_400)
    line = command("federation", "join", "p1", "--invitation", "reading/invitations/p2").error
    assert "is not for 'p1' with this key" in line


def test_a_peer_that_was_shut_out_is_told_and_comes_back_under_no_name(
    folder: Path, command: Command
) -> None:
    founded(command, "--users 5")
    joined(command, 2)
    assert "revoked.json" in command("federation", "shut-out", "reading", "p2").err
    first = (folder / "reading/operator/revoked.json").read_text()
    (folder / "p2" / "revoked.json").write_text(first)
    assert "its key was shut out by the operator" in command("node", "p2").error
    assert "is or was a node" in invites(command, "p2/request.json").error
    said = json.loads(first)
    (folder / "p2" / "revoked.json").write_text(json.dumps(said | {"keys": []}))
    assert "is not signed by this federation's operator" in command("node", "p2").error
    (folder / "p2" / "revoked.json").write_text(json.dumps(said | {"keys": ["zz"]}))
    assert "no list of revoked keys" in command("node", "p2").error
    assert invites(command, "p3/request.json").code == 0
    joined(command, 3)
    with closing(PeerFolder(folder / "p3")) as peer:
        assert peer.me.number == 3, "nobody gets the number of somebody else"


def test_a_request_that_is_none_is_refused(folder: Path, command: Command) -> None:
    founded(command)
    good = json.loads((folder / "p3/request.json").read_text())
    before = contents(folder / "reading")
    for wrong in (
        {"listen": 5},
        {"advertise": ["nowhere"]},
        {"listen": "h" * 60 + ":1"},
        {"key": 5},
        {"more": 1},
        {"advertise": 3},
    ):
        (folder / "wrong.json").write_text(json.dumps(good | wrong))
        assert "not a request" in invites(command, "wrong.json").error, wrong
    assert contents(folder / "reading") == before
