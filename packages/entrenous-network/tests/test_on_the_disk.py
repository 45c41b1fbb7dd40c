"""A machine that loses power after a command has ended keeps all that the command has written:
keys, terms, tickets, certificates.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from entrenous_network.agreement.catalogue import Items
from entrenous_network.operate.enrolment import accept, identity, join
from entrenous_network.operate.founding import found, found_federation
from entrenous_network.operate.membership import (
    renew_certificate,
    renew_tickets,
    shut_out,
)
from entrenous_network.operate.newcomers import end_links, make_link
from entrenous_network.operate.plans import FoundingPlan, JoinPlan
from small_gossip import shop

from entrenous.data.synthetic import synthetic

DATA = synthetic(users=6, items=20, interactions=60, seed=0)
BY_SQLITE = "store.sqlite"  # begins the names of what SQLite flushes itself


class Disk:
    """What of a folder is on the disk: files by the content that was flushed, folders by the names
    that they had then.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.content, self.names = dict[int, bytes](), dict[int, dict[str, int]]()
        flush = os.fsync

        def flushed(handle: int) -> None:
            flush(handle)
            path, found = Path(os.readlink(f"/proc/self/fd/{handle}")), os.fstat(handle)
            if path.is_dir():
                self.names[found.st_ino] = {
                    each.name: each.stat().st_ino for each in path.iterdir()
                }
            else:
                self.content[found.st_ino] = path.read_bytes()

        patch.setattr(os, "fsync", flushed)

    def lost(self, folder: Path) -> list[str]:
        """What of a folder, and of the folders in it, a loss of power would cost."""
        found = list[str]()
        for path in sorted(folder.rglob("*")):
            number, named = path.stat().st_ino, self.names.get(path.parent.stat().st_ino, {})
            if named.get(path.name) != number and not path.name.startswith(f"{BY_SQLITE}-"):
                found.append(f"the name of {path.relative_to(folder)}")
            if (
                path.is_file()
                and not path.name.startswith(BY_SQLITE)
                and self.content.get(number) != path.read_bytes()
            ):
                found.append(f"the content of {path.relative_to(folder)}")
        return found


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    yield Disk(monkeypatch)


def test_a_federation_with_a_server_is_on_the_disk_at_each_step(tmp_path: Path, disk: Disk) -> None:
    requests = [(identity(tmp_path / "nodes" / name, name), 2) for name in ("one", "two")]
    assert disk.lost(tmp_path) == []
    made = found_federation(
        tmp_path / "f",
        Items.of(DATA),
        requests,
        FoundingPlan(algorithm="fpl", rounds=2, profile="paper").with_catalogue(DATA.catalogue),
    )
    assert disk.lost(tmp_path) == []
    folder = tmp_path / "nodes" / "one"
    join(
        folder,
        made.nodes["one"],
        DATA.of_users(range(2)),
        JoinPlan(profile="paper", public_draws=True),
    )
    assert disk.lost(tmp_path) == []
    accept(folder, made.nodes["one"])
    assert disk.lost(tmp_path) == []
    make_link(tmp_path / "f", uses=1, days=1, an_hour=1)
    assert disk.lost(tmp_path) == []
    end_links(tmp_path / "f")
    renew_certificate(tmp_path / "f")
    shut_out(tmp_path / "f", "two")
    assert disk.lost(tmp_path) == []


def test_a_federation_of_peers_is_on_the_disk(tmp_path: Path, disk: Disk) -> None:
    plan = FoundingPlan(peers=True, settings={"factors": 4})
    found(tmp_path / "f", shop(3, items=30, each=6), plan, nodes=3)
    assert disk.lost(tmp_path) == []
    renew_tickets(tmp_path / "f")
    shut_out(tmp_path / "f", "node-3")
    assert disk.lost(tmp_path) == []
