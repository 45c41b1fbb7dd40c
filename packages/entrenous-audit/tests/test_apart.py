"""The process of the attacks sees the transcript and nothing else: an attack that looks elsewhere
fails, and is said to have failed.
"""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from entrenous_audit.apart import _followed, attempts, begun
from entrenous_audit.claims import read_claims
from entrenous_audit.transcript import Transcript, write_transcript
from onlooker import observe

from entrenous.core.contract.protocols import silent
from entrenous.core.errors import EntrenousError
from entrenous.data.synthetic import synthetic

POPULARITY = "Claims(np.arange(t.users), np.tile(t.popularity.astype(np.float32), (t.users, 1)))"


@pytest.fixture(scope="module")
def seen() -> Transcript:
    return observe(
        "fpl", synthetic(users=30, items=40, interactions=300, seed=0), settings={"factors": 4}
    )


def program(body: str) -> str:
    """The attacking process with a single attack, whose `run(t)` is `body`."""
    lines = (
        "import os, sys; sys.path[:0] = sys.argv[1].split(os.pathsep)",
        "import numpy as np",
        "from entrenous_audit import attacker, known",
        "from entrenous_audit.claims import Attack, Claims",
        "def run(t):",
        *(f"    {line}" for line in body.splitlines()),
        f"    return {POPULARITY}",
        (
            "known.known = lambda: {'own': Attack('own', ('individual',), 'ours', lambda t: True,"
            " run)}"
        ),
        "attacker.main(sys.argv[2:])",
    )
    return "\n".join(lines)


def said(seen: Transcript, folder: Path, body: str) -> dict[str, Any]:
    """What the process says of an attack of this body."""
    folder.mkdir(exist_ok=True)
    write_transcript(folder / "transcript", seen)
    (folder / "claims").mkdir(exist_ok=True)
    with (
        open(folder / "errors", "w+") as errors,
        begun(folder / "transcript", folder / "claims", (), errors, program(body)) as one,
    ):
        assert one.stdout is not None
        lines = [json.loads(line) for line in one.stdout]
        assert one.wait() == 0, (folder / "errors").read_text()
    return {**lines[0], **lines[1]}


def test_an_attack_gets_the_transcript_and_writes_claims(seen: Transcript, tmp_path: Path) -> None:
    found = said(seen, tmp_path, "assert len(t.rounds) == 1 and t.about['algorithm'] == 'fpl'")
    assert found["attacks"] == ["own"] and found["failed"] == ""
    claims = read_claims(tmp_path / "claims" / "own")
    assert (
        claims.score.shape == (30, 40)
        and claims.score[7].tolist() == seen.popularity.tolist()
        and claims.claimed is None
    )


def test_the_environment_of_the_parent_is_not_there(
    seen: Transcript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENTRENOUS_DATA", "/where/the/data/are")
    found = said(seen, tmp_path, "raise ValueError(sorted(os.environ))")
    assert "ENTRENOUS" not in found["failed"] and "HOME" not in found["failed"]


@pytest.mark.parametrize(
    "body",
    [
        "open({file!r}).read()",
        "np.load({file!r})",
        "os.open({file!r}, os.O_RDONLY)",
        "os.listdir({folder!r})",
        "open('/proc/%d/environ' % os.getppid()).read()",
        "import socket; socket.create_connection(('127.0.0.1', {port}), 1)",
        "import subprocess; subprocess.run([{python!r}, '-c', 'pass'])",
        "os.system('true')",
        "os.kill(os.getppid(), 0)",
        "open({file!r} + '.copy', 'w')",
        "os.symlink({file!r}, 'here'); open('here').read()",
        "import entrenous; entrenous.load({file!r})",
    ],
)
def test_an_attack_that_looks_elsewhere_fails(seen: Transcript, tmp_path: Path, body: str) -> None:
    secret = tmp_path / "data"
    secret.mkdir()
    (secret / "history.csv").write_text("user,item\n1,2\n")
    with socket.create_server(("127.0.0.1", 0)) as server:
        where = {
            "file": str(secret / "history.csv"),
            "folder": str(secret),
            "python": sys.executable,
            "port": server.getsockname()[1],
        }
        found = said(seen, tmp_path, body.format(**where))
    assert "an attack may not" in found["failed"], found["failed"]
    assert not (secret / "history.csv.copy").exists()


def test_an_attack_that_fails_does_not_end_the_others(seen: Transcript, tmp_path: Path) -> None:
    both = program("pass").replace(
        "attacker.main",
        "own = known.known()['own']\ndef fails(t): raise ValueError('no rows')\n"
        "known.known = lambda: {'a': own._replace(name='a', run=fails), 'b': own}\nattacker.main",
    )
    write_transcript(tmp_path / "transcript", seen)
    (tmp_path / "claims").mkdir()
    with (
        open(tmp_path / "errors", "w+") as errors,
        begun(tmp_path / "transcript", tmp_path / "claims", (), errors, both) as one,
    ):
        first, last = _followed(one, tmp_path / "claims", silent)
    assert (
        (first.failed, first.claims) == ("ValueError: no rows", None)
        and last.failed == ""
        and last.claims is not None
    )


def test_a_process_that_cannot_begin_is_told_of_in_one_line(
    seen: Transcript, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "entrenous_audit.apart.write_transcript",
        lambda path, transcript: path.write_text("not a transcript"),
    )
    with pytest.raises(EntrenousError, match="the process of the attacks ended with 1"):
        attempts(seen)
