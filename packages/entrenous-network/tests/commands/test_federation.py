"""The commands of a federation: one line and exit code 2 for bad input, nothing written; and
docs/network.md's journey in small.
"""

from __future__ import annotations

import json
from pathlib import Path
from shlex import split

import pytest
from command_line import Command, contents, refuses, write_shop

pytest.importorskip("uvicorn")
pytest.importorskip("msgspec")

LARGE = 20  # users of each gateway; the device has one
NEW = "federation new book --algorithm fpl --items items.csv --interactions 300"
PAPER = f"{NEW} --profile paper"
JOIN = "federation join --profile paper"
JOINED = f"{JOIN} a --invitation book/invitations/a --data a.csv"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: rows of two gateways, of one user and of a late one; a list of items;
    requests of three nodes.
    """
    monkeypatch.chdir(tmp_path)
    header, *lines = write_shop(tmp_path / "all.csv").read_text().splitlines()
    users = sorted({line.split(",")[0] for line in lines}, key=lambda name: int(name[1:]))
    parts = {"a.csv": users[:LARGE], "b.csv": users[LARGE : 2 * LARGE - 1], "one.csv": users[-1:]}
    for name, own in parts.items():
        mine = [line for line in lines if line.split(",")[0] in own]
        (tmp_path / name).write_text("\n".join([header, *mine]) + "\n")
    items = sorted({line.split(",")[1] for line in lines})
    (tmp_path / "items.csv").write_text(
        "item,title\n" + "".join(f"{item},film {item}\n" for item in items)
    )
    return tmp_path


def asked(command: Command, *names: str) -> str:
    """Makes identities. Returns the options of `federation new` for them."""
    for name in names:
        assert command("federation", "identity", name, "--name", name).code == 0
    users = {"a": LARGE, "b": LARGE - 1, "one": 1}
    return " ".join(f"--node {name}/request.json:{users.get(name, 5)}" for name in names)


def founded(command: Command, options: str = "") -> None:
    nodes = asked(command, "a", "b", "one")
    done = command(*split(f"{PAPER} --rounds 4 {nodes} {options}"))
    assert done.code == 0, done.err


def test_bad_input_to_new_and_identity_is_one_line_and_writes_nothing(
    folder: Path, command: Command
) -> None:
    nodes = asked(command, "a")
    (folder / "twice.csv").write_text("item\nx\nx\n")
    (folder / "no-item.csv").write_text("thing\nx\n")
    (folder / "wrong.json").write_text('{"format": 9}')
    whole = f"{PAPER} --rounds 4 {nodes}"
    lines = {
        "there is a key already": "federation identity a --name a",
        "--name: got 'A b'": "federation identity other --name 'A b'",
        "expected REQUEST.json:USERS": f"{PAPER} --rounds 4 --node a/request",
        "none.json: no such file": f"{PAPER} --rounds 4 --node none.json:3",
        "not a request to take part": f"{PAPER} --rounds 4 --node wrong.json:3",
        "did you mean 'fpl'": whole.replace("fpl", "fppl"),
        "rounds": f"{PAPER} --rounds 0 {nodes}",
        "no column `item`": whole.replace("items.csv", "no-item.csv"),
        "an item occurs twice": whole.replace("items.csv", "twice.csv"),
        "--name: missing, with --host 0.0.0.0": f"{whole} --host 0.0.0.0",
        "--port: got 0": f"{whole} --port 0",
        "at most 3, as the terms say": f"{whole} --users 3",
        "is or was a node": f"{whole} {nodes}",
    }
    refuses(command, lines, folder)
    assert not (folder / "book").exists()


def test_bad_input_to_join_and_to_what_runs_is_one_line_and_writes_nothing(
    folder: Path, command: Command
) -> None:
    founded(command)
    asked(command, "stranger")
    (folder / "unknown.csv").write_text(
        "user,item,value,time\n" + "".join(f"u{n % LARGE},nothing{n},1,1\n" for n in range(300))
    )
    unlisted = "300 rows of items that are not on the federation's list"
    lines = {
        "is not for 'stranger'": JOINED.replace(" a ", " stranger "),
        "19 users; expected 20": JOINED.replace("a.csv", "b.csv"),
        unlisted: JOINED.replace("a.csv", "unknown.csv"),
        "none.csv": JOINED.replace("a.csv", "none.csv"),
        "terms.json: no such file": JOINED.replace("book/invitations/a", "nowhere"),
        "place.json: no such file": "server a",
        "--pace: got -1": "server book/server --pace -1",
        "node.json: no such file": "node a",
        "a/store.sqlite: no such file": "federation backup a --out copy.sqlite",
        "no node 'c' on the membership list": "federation shut-out book c",
        "is or was a node": "federation invite book --node a/request.json:5",
        "and 0 are left": "federation invite book --node stranger/request.json:5",
        "--rounds: got -1": "federation rewind a --rounds -1",
        "a/server/terms.json: no such file": "federation renew a",
        "terms.json: no such file; ": "federation shut-out nowhere a",
    }
    refuses(command, lines, folder)


def test_an_owner_who_says_nothing_joins_under_masks_alone(folder: Path, command: Command) -> None:
    nodes = asked(command, "a", "b", "one")
    done = command(*split(f"{PAPER} --rounds 4 {nodes}"))
    assert "each owner who agrees says join --profile paper" in done.err
    before = contents(folder)
    join = ["federation", "join", "a", "--invitation", "book/invitations/a", "--data", "a.csv"]
    read = "profile paper: the server can read what each node sends, of one user or their sum"
    for more in ((), ("--people", "300")):
        error = command(*join, *more).error
        assert f"book/invitations/a: {read}" in error and "R-precision 0.9" in error
        assert error.strip().endswith(
            "expected masks; --profile paper, in Python profile='paper', joins all the same"
        )
        assert contents(folder) == before
    # What the line says to do works, and the owner is told what can be read, with figures.
    said = command(*join, "--profile", "paper")
    assert said.code == 0
    (line,) = [line for line in said.err.splitlines() if line.startswith(read)]
    assert "measured on ml-100k" in line and "R-precision 0.9" in line


def test_what_a_federation_by_lot_lacks_is_said_at_once_and_can_be_pasted(
    folder: Path, command: Command
) -> None:
    asked = split(f"{NEW} --endless --users 40")
    line = command(*asked).error
    assert "of 40 users no lot draws the 300 of a sum; rounds have no end, and nobody" in line
    options = line.partition("; add ")[2].partition(", or other")[0].split()
    assert not (folder / "book").exists()
    done = command(*asked, *options)
    assert (done.code, len(options)) == (0, 4)
    assert "users are in each round" not in done.err
    assert "each owner who agrees says join --people 11" in done.err


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--host", "foo bar"], "--name, --host: got 'foo bar'; expected a host name or an IP"),
        (["--name", ""], "--name, --host: got ''; expected a host name"),
        (["--users", "1000000000000"], "--users: got 1000000000000; expected at most 10000000"),
    ],
)
def test_a_place_or_a_number_that_cannot_be_founds_nothing(
    folder: Path, command: Command, options: list[str], line: str
) -> None:
    lot = "--protect sampling=poisson --protect answers=9 --protect people=15 --set cohort=15"
    users = [] if "--users" in options else ["--users", "60"]
    assert line in command(*split(f"{NEW} --endless {lot}"), *users, *options).error
    assert not (folder / "book").exists()


def test_the_certificate_is_for_where_nodes_reach_the_server(
    folder: Path, command: Command
) -> None:
    founded(command, "--host 10.1.2.3 --port 9000")
    from entrenous_network.agreement.certificates import expiry, names_of

    keys = folder / "book" / "server" / "keys"
    assert json.loads((folder / "book/invitations/a/invitation.json").read_text()) == {
        "format": 9,
        "server": "10.1.2.3:9000",
        "tls": True,
    }
    assert names_of(keys / "server.crt") == ["10.1.2.3"]
    old = (keys / "server.crt").read_bytes()
    done = command("federation", "renew", "book", "--name", "hub.example")
    assert done.code == 0 and f"{expiry(keys):%Y-%m-%d}" in done.err
    assert names_of(keys / "server.crt") == ["10.1.2.3", "hub.example"]
    assert (keys / "server.crt.old").read_bytes() == old

    kept, authority = contents(keys), (keys / "ca.key").rename(folder / "ca.key")
    del kept["ca.key"]
    assert "ca.key: is missing" in command("federation", "renew", "book").error
    assert contents(keys) == kept
    (keys / "ca.crt").unlink()
    done = command("federation", "renew", "book")
    assert "a new authority" in done.err and (keys / "ca.key").exists() and authority.exists()
    assert (folder / "book/invitations/a/ca.crt").read_bytes() == (keys / "ca.crt").read_bytes()


def test_an_invitation_to_another_federation_is_not_accepted(
    folder: Path, command: Command
) -> None:
    founded(command)
    assert command(*split(JOINED)).code == 0
    again = f"{PAPER} --rounds 4 --node a/request.json:{LARGE}".replace("book", "other")
    assert command(*split(again)).code == 0
    before = contents(folder / "a")
    assert (
        "is to another federation"
        in command("federation", "join", "a", "--invitation", "other/invitations/a").error
    )
    assert contents(folder / "a") == before
