"""Peers as processes on loopback: what they did is replayed to the byte, whoever was killed; a peer
alone, or from long ago, goes on.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from network_namespace import quiet

pytest.importorskip("iroh")

from entrenous_lab.trials.replayed import ReplayError, check
from entrenous_network.node.node_store import STORE
from entrenous_network.operate.device import recommend
from entrenous_network.operate.founding import FoundedFederation, found
from entrenous_network.operate.plans import FoundingPlan
from entrenous_network.operate.processes import LOG, Processes
from entrenous_network.peers.events import MESSAGE
from entrenous_network.peers.folder import PeerFolder
from entrenous_network.peers.running import run, status
from small_gossip import shop

from entrenous.core.errors import InputError
from entrenous.core.lock import holding

SETTINGS = {"factors": 4, "redraw": 2, "learning_rate_user": 0.05}
PERIOD = 0.5
CUT = (
    "error.dropped",
    "error.stalled",
)  # of a message that its sender was killed in the midst of: no fault of anybody's
PATIENCE = 240.0  # seconds for what takes one on an idle machine: nothing is measured by it


@pytest.fixture
def processes() -> Iterator[Processes]:
    with quiet():
        running = Processes()
        try:
            yield running
        finally:
            running.stop(seconds=10)


class Founded:
    """A federation of peers on disk. peers: their folders; the first two are the bootstraps."""

    def __init__(self, made: FoundedFederation) -> None:
        self.folder, self.peers = made.server, list(made.nodes.values())


def founded(folder: Path, peers: int, algorithm: str = "pepper-gmf", **more: Any) -> Founded:
    return Founded(
        found(
            folder / "peers",
            shop(peers, items=60, each=12),
            FoundingPlan(peers=True, algorithm=algorithm, settings=SETTINGS, period=PERIOD, **more),
            nodes=peers,
        )
    )


def until(
    made: Founded, holds: Callable[[dict[Path, dict[str, Any]]], bool], seconds: float = PATIENCE
) -> None:
    """Waits until something holds for the status of all peers."""
    end = time.monotonic() + seconds
    while not holds(now := {path: status(path) for path in made.peers}):
        assert time.monotonic() < end, "; ".join(
            f"{path.name} {one} {said(path)}" for path, one in now.items()
        )
        time.sleep(0.2)


def said(path: Path) -> str:
    """The end of a peer's log."""
    return (path / LOG).read_text()[-300:] if (path / LOG).exists() else ""


def pushes(path: Path) -> int:
    return int(status(path).get("pushes", 0))


def merged(path: Path) -> int:
    return int(status(path).get("tally", {}).get("merged", 0))


def goes_on(made: Founded, processes: Processes, pushed: int = 6) -> None:
    """Every running peer pushes again, and takes something."""
    before = {path: (pushes(path), merged(path)) for path in processes.of}
    until(
        made,
        lambda now: all(
            now[path]["pushes"] >= count + pushed and now[path]["tally"].get("merged", 0) > taken
            for path, (count, taken) in before.items()
        ),
    )


def a_life(made: Founded, processes: Processes, deaths: int) -> None:
    """All begin; one of them is killed and comes back, as often as asked; if that is more than
    once, a bootstrap dies too, for ever.
    """
    for path in made.peers:
        processes.start(path)
    until(made, lambda now: all(one.get("pushes", 0) >= 3 for one in now.values()))
    if deaths > 1:
        processes.kill(made.peers[0])
    for _ in range(deaths):
        processes.kill(made.peers[5])
        processes.start(made.peers[5])
        goes_on(made, processes, 3)
    assert processes.stop() == []


def same(made: Founded) -> None:
    verdicts = check(made.peers)
    assert len(verdicts) == len(made.peers)
    for one in verdicts:
        assert one.same and one.events > 4, one
    assert sum(one.events for one in verdicts) > 20 * len(verdicts) / 2


@pytest.mark.usefixtures("forked_children")
def test_eight_processes_are_replayed_to_the_byte_whoever_was_killed(
    tmp_path: Path, processes: Processes
) -> None:
    made = founded(tmp_path, 8)
    a_life(made, processes, deaths=1)
    same(made)
    assert [
        name
        for path in made.peers
        for name in status(path)["tally"]
        if name.startswith(("error", "crash")) and name not in CUT
    ] == []
    assert len(recommend(made.peers[5], None, 3)[2]) == 3
    lie_about(made.peers[2])
    with pytest.raises(ReplayError, match=r"event \d+"):
        check(made.peers)


def lie_about(path: Path) -> None:
    """One digest of a recording is another."""
    file = sqlite3.connect(path / STORE)
    file.execute(
        "update event set digest = zeroblob(32) where number = (select max(number) from event"
        f" where kind = {MESSAGE})"
    )
    file.commit()
    file.close()


def test_a_folder_is_run_once_and_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    made = founded(tmp_path, 4)
    with (
        holding(made.peers[0] / "lock"),
        pytest.raises(InputError, match="is at work on it"),
    ):
        run(made.peers[0], threading.Event(), lambda line: None)
    for name in ("identity.key", STORE):
        assert (made.peers[0] / name).stat().st_mode & 0o077 == 0
    assert (made.folder / "identity.key").stat().st_mode & 0o077 == 0
    (made.peers[0] / "items.jsonl").write_text("")
    with pytest.raises(InputError, match=r"not the list of items of the terms"):
        _ = PeerFolder(made.peers[0]).items
    (made.peers[1] / "identity.key").chmod(0o644)
    with pytest.raises(InputError, match="others may read it"):
        PeerFolder(made.peers[1])
    (made.peers[2] / "invitation.json").write_text('{"format": 9, "number": "three"}')
    with pytest.raises(
        InputError, match=r"expected `int`, got `str`.*; expected number, until, ticket"
    ):
        PeerFolder(made.peers[2])
    (made.peers[3] / "store.sqlite").unlink()
    with pytest.raises(InputError, match=r"store.sqlite: no such file"):
        PeerFolder(made.peers[3])
    with pytest.raises(InputError, match=r"node.json: no such file"):
        PeerFolder(tmp_path)
