"""Peers on machines of their own: keys stay where they are made, invitations are for one key, bad input is one line and writes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Command, write_shop

pytest.importorskip("iroh")
pytest.importorskip("msgspec")

from entrenous.deploy.peers.folder import Folder

FOUND = ["peer", "new", "reading", "--items", "items.csv"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: rows of four users, a list of items, keys of four peers of whom three have a port."""
    monkeypatch.chdir(tmp_path)
    header, *lines = write_shop(tmp_path / "all.csv").read_text().splitlines()
    for n in range(4):
        (tmp_path / f"{n}.csv").write_text("\n".join([header, *(line for line in lines if line.startswith(f"u{n},"))]) + "\n")
    items = sorted({line.split(",")[1] for line in lines})
    (tmp_path / "items.csv").write_text("item\n" + "".join(f"{item}\n" for item in items))
    return tmp_path


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


def requests(command: Command) -> list[str]:
    for n in range(4):
        port = ["--listen", f"10.0.0.{n + 1}:9411"] if n < 3 else []
        assert command("peer", "identity", f"p{n}", "--name", f"p{n}", *port).code == 0
    return [part for n in range(3) for part in ("--peer", f"p{n}/request.json")]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_peer_that_was_invited_is_ready_to_run(folder: Path, command: Command) -> None:
    assert command(*FOUND, *requests(command), "--users", "5").code == 0
    assert command("peer", "invite", "reading", "--peer", "p3/request.json").code == 0
    for n in range(4):
        assert command("peer", "join", f"p{n}", "--invitation", f"reading/invitations/p{n}", "--data", f"{n}.csv").code == 0
        peer = Folder(folder / f"p{n}")
        assert (peer.invitation.number, len(peer.rows().histories.item)) == (n, 12)
        assert peer.me.number == n and len(peer.bootstraps()) == 2
        assert [one.addresses for one in peer.invitation.bootstraps] == [["10.0.0.1:9411"], ["10.0.0.2:9411"]]
        assert peer.node().events == 0
        assert {
            path.stat().st_mode & 0o77 for path in (folder / f"p{n}").glob("*") if path.name in ("secret.json", "rows.csv")
        } == {0}
    secrets = [json.loads((folder / f"p{n}" / "secret.json").read_text())["key"] for n in range(4)]
    sent = "".join(path.read_text() for path in (folder / "reading").rglob("*") if path.is_file())
    assert not any(secret in sent for secret in secrets) and "u0" not in sent


def test_bad_input_is_one_line_and_writes_nothing(folder: Path, command: Command) -> None:
    asked = requests(command)
    before = contents(folder)
    for line, words in {
        "there is a key already": ["peer", "identity", "p0", "--name", "p0"],
        "--name: got 'A b'": ["peer", "identity", "other", "--name", "A b"],
        "--listen: got 'here'": ["peer", "identity", "other", "--name", "x", "--listen", "here"],
        "--advertise: got ':1'": ["peer", "identity", "other", "--name", "x", "--advertise", ":1"],
        "'p3' is to be a bootstrap": [*FOUND, "--peer", "p3/request.json", *asked],
        "got 1": [*FOUND, *asked[:2]],
        "'p0' or its key has a number already": [*FOUND, *asked, *asked[:2]],
        "no number is left for 'p2'": [*FOUND, *asked, "--users", "2"],
        "not a peer's request": [*FOUND, *asked, "--peer", "items.csv"],
        "fpl needs a server": [*FOUND, *asked, "--algorithm", "fpl"],
        "--period: got 0": [*FOUND, *asked, "--period", "0"],
        "none.csv": [*FOUND[:4], "none.csv", *asked],
        "operator": ["peer", "invite", "nowhere", "--peer", "p3/request.json"],
    }.items():
        assert line in command(*words).error, words
        assert contents(folder) == before, words


def test_an_invitation_is_for_one_key_and_one_user(folder: Path, command: Command) -> None:
    assert command(*FOUND, *requests(command)).code == 0
    (folder / "unknown.csv").write_text("user,item\nu,nothing\n")
    before = contents(folder)
    own = ["--invitation", "reading/invitations/p0"]
    for line, words in {
        "is not for the key in p1": ["peer", "join", "p1", *own, "--data", "1.csv"],
        "40 users; expected one": ["peer", "join", "p0", *own, "--data", "all.csv"],
        "such as 'nothing'": ["peer", "join", "p0", *own, "--data", "unknown.csv"],
        "has no invitation.json": ["peer", "join", "p0", "--invitation", "p1", "--data", "0.csv"],
        "no number is left": ["peer", "invite", "reading", "--peer", "p3/request.json"],
    }.items():
        assert line in command(*words).error, words
        assert contents(folder) == before, words
    assert command("peer", "join", "p0", *own, "--data", "0.csv").code == 0
    assert "has joined already" in command("peer", "join", "p0", *own, "--data", "0.csv").error
