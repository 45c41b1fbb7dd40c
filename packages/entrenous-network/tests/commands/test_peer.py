"""`entrenous federation --peers` and `entrenous node` from a terminal; what is wrong is one
line.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Command
from network_namespace import quiet
from small_gossip import shop

pytest.importorskip("iroh")

from entrenous_network.operate.founding import found
from entrenous_network.operate.plans import FoundingPlan


def entrenous(*arguments: str, code: int = 2) -> str:
    """The error of a command in a process of its own."""
    with quiet():
        ran = subprocess.run(
            [sys.executable, "-m", "entrenous", *arguments],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    assert ran.returncode == code and "Traceback" not in ran.stderr, ran.stderr
    return ran.stderr


def test_what_is_wrong_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command, folder = Command(capsys), tmp_path / "try"
    plan = FoundingPlan(peers=True, settings={"factors": 4})
    made = found(folder, shop(4), plan, nodes=4)
    told = command("federation", "status", folder, "--json").json["peers"]
    assert [(one["number"], one["running"], one["run"]) for one in told] == [
        (n, False, made.terms.run) for n in range(4)
    ]
    for wrong, said in (
        (("federation", "recommend", made.nodes["node-3"]), "has not learnt anything yet"),
        (("federation", "try", folder, "--peers"), "is not empty"),
        (("node", tmp_path), "node.json: no such file"),
        (("node", made.nodes["node-3"], "--serve", "8080"), "--serve: a peer does not have it"),
        (("node", made.nodes["node-3"], "--threads", "2"), "--threads: a peer does not have it"),
    ):
        line = command(*wrong).error
        assert said in line, line
    about = made.nodes["node-2"] / "node.json"
    for address, code in (
        ("192.0.2.1:0", 75),
        ("nowhere:9411", 2),
    ):  # a private network may come up late; that is no address
        about.write_text(json.dumps(json.loads(about.read_text()) | {"listen": address}))
        assert "cannot be listened at" in entrenous("node", str(made.nodes["node-2"]), code=code)
