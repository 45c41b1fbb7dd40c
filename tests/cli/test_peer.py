"""`entrenous peer` from a terminal: founding, inviting, running, asking; what is wrong is one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Command
from network_namespace import quiet

pytest.importorskip("iroh")

ROWS = "user,item,value,time\n" + "".join(
    f"u{u},i{(7 * u + 3 * k) % 50},{1 + k % 5},{100 + k}\n" for u in range(12) for k in range(12)
)


def entrenous(*arguments: str, code: int = 0, **more: str) -> str:
    with quiet():
        ran = subprocess.run(
            [sys.executable, "-m", "entrenous", "peer", *arguments],
            capture_output=True,
            text=True,
            timeout=240,
            env={**os.environ, **more},
        )
    assert ran.returncode == code, ran.stderr
    assert "Traceback" not in ran.stderr
    return ran.stdout if code == 0 else ran.stderr


@pytest.fixture
def rows(tmp_path: Path) -> str:
    (tmp_path / "rows.csv").write_text(ROWS)
    return str(tmp_path / "rows.csv")


def test_a_federation_is_founded_and_what_is_wrong_is_one_line(
    tmp_path: Path, rows: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, command = tmp_path / "try", Command(capsys)
    made = json.loads(entrenous("prepare", str(folder), "--data", rows, "--peers", "4", "--set", "factors=4", "--json"))
    assert len(made["peers"]) == 4
    told = command("peer", "status", folder, "--json").json["peers"]
    assert [(one["number"], one["running"]) for one in told] == [(n, False) for n in range(4)]
    for wrong, said in (
        (("prepare", str(folder), "--data", rows, "--peers", "4"), "is not empty"),
        (
            ("prepare", str(tmp_path / "b"), "--data", rows, "--peers", "4", "--algorithm", "fcf"),
            "does not gossip|needs a server",
        ),
        (("prepare", str(tmp_path / "b"), "--data", rows, "--peers", "4", "--set", "alpha=0"), "expected one at random"),
        (("recommend", str(folder / "peer-02")), "has not learnt anything yet"),
        (("replay", str(folder)), "no peer has recorded anything"),
        (("run", str(tmp_path)), "is not the folder of a peer"),
        (("status",), "no folder was named"),
    ):
        line = command("peer", *wrong).error
        assert any(part in line for part in said.split("|")), line
    (folder / "peer-01" / "invitation.json").write_text(
        (folder / "peer-01" / "invitation.json").read_text().replace('"listen": "127.0.0.1', '"listen": "192.0.2.1')
    )
    assert "cannot be listened at" in entrenous("run", str(folder / "peer-01"), code=2)
