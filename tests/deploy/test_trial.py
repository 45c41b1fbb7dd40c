"""`entrenous federation try`: a server and nodes as processes, over TLS, end with the simulation's
model; killed in between it goes on.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from federation_links import ratings

from entrenous.core.errors import InputError
from entrenous.core.lock import is_held
from entrenous.deploy.operate import trial, trial_peers
from entrenous.deploy.operate.plans import TrialPlan

pytest.importorskip("uvicorn")


def command(folder: Path, rounds: int, profile: str) -> list[str]:
    rows = ratings(24)
    lines = [
        f"{rows.users[u]},{rows.items[i]},{t}"
        for u, i, t in zip(rows.user, rows.item, rows.time, strict=True)
    ]
    (folder.parent / "visits.csv").write_text("\n".join(["user,item,time", *lines]) + "\n")
    return [
        sys.executable,
        "-m",
        "entrenous",
        "federation",
        "try",
        str(folder),
        "--data",
        str(folder.parent / "visits.csv"),
        "--protocol",
        "loo-full",
        "--nodes",
        "3",
        "--rounds",
        str(rounds),
        "--set",
        "factors=4",
        "--profile",
        profile,
        "--json",
    ]


def done(asked: list[str], folder: Path) -> dict[str, object]:
    ended = subprocess.run(
        asked, cwd=folder.parent, capture_output=True, text=True, timeout=240, check=False
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    return json.loads(ended.stdout)


def test_a_federation_is_tried_in_one_command(tmp_path: Path) -> None:
    """Under the profile private, whose noise is repeated here; and a list for a user is made on a
    node.
    """
    found = done(command(tmp_path / "f", 3, "private"), tmp_path / "f")
    assert found["same"] and found["network"] == found["simulation"]
    assert (
        len(found["items"]) == 10
        and found["profile"] == "private"
        and found["paper"] != found["metrics"]
    )


@pytest.mark.slow
def test_killed_in_the_middle_nobody_is_left_behind_and_it_goes_on(tmp_path: Path) -> None:
    """SIGKILL of the command alone: its processes end by themselves; the same command goes on from
    where the folders stand.
    """
    folder = tmp_path / "f"
    asked = command(folder, 30, "paper")
    first = subprocess.Popen(
        asked, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    status, until = folder / "server" / "status.json", time.monotonic() + 240
    while time.monotonic() < until and (
        not status.exists() or json.loads(status.read_text())["round"] < 3
    ):
        time.sleep(0.2)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    locks = [folder / "server" / "lock", *(node / "lock" for node in (folder / "nodes").iterdir())]
    until = time.monotonic() + 240
    while any(is_held(lock) for lock in locks) and time.monotonic() < until:
        time.sleep(0.2)
    assert not any(is_held(lock) for lock in locks)
    assert json.loads(status.read_text())["round"] < 30
    assert done(asked, folder)["same"]
    assert "going on after round" in (folder / "server" / "server.log").read_text()


def test_a_full_folder_is_refused_before_any_data_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").write_text("")
    for name in ("trial.material", "trial_peers.load"):
        monkeypatch.setattr(
            f"entrenous.deploy.operate.{name}", lambda *_: pytest.fail("data were fetched")
        )
    with pytest.raises(InputError, match="is not empty"):
        trial.begin(tmp_path, TrialPlan())
    with pytest.raises(InputError, match="is not empty"):
        trial_peers.show(tmp_path, TrialPlan(peers=True, seconds=1.0), print)
