"""A federation of peers for trying it out: folders for the first users of a data set, all on this machine.

In earnest every peer makes its own key and hands the operator the public half; here one process makes all of them.
"""

from __future__ import annotations

import csv
import secrets
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ...core.discover import kind_of
from ...core.errors import InputError, at_least
from ...core.files import write_private
from ...core.gossip_learning import GossipLearning
from ...core.program import source_sha256
from ...data.interactions import NO_TIME, Interactions
from .charter import Charter
from .folder import (
    INVITATION,
    ITEMS,
    ROWS,
    SECRET,
    Bootstrap,
    Invitation,
    PeerSecret,
    charter_of,
    items_sha256,
    write_json,
)
from .identity import new_key, public_key, ticket

BOOTSTRAPS = 2
OPERATOR = "operator.key"


class FoundedPeers(NamedTuple):
    """A federation of peers on disk: its folder, its shared settings, and the folder of each peer."""

    folder: Path
    charter: Charter
    peers: list[Path]


def found(
    folder: Path,
    data: Interactions,
    peers: int,
    algorithm: str,
    *,
    settings: Mapping[str, Any] | None = None,
    seed: int = 0,
    draws: str = "secret",
    period: float = 10.0,
) -> FoundedPeers:
    """Make the folders `peer-00` .. for the first `peers` users of a data set, each with its user's rows alone. The first two
    are the bootstraps, on ports of this machine that are free now. Raises InputError."""
    at_least("--peers", peers, BOOTSTRAPS + 1)
    if peers > len(data.users):
        raise InputError("--peers", f"got {peers}", expected=f"at most {len(data.users)}, the users of {data.name}")
    if not 0.05 <= period <= 86_400:
        raise InputError("--period", f"got {period:g}", expected="0.05 to 86400 seconds")
    if folder.exists() and any(folder.iterdir()):
        raise InputError(str(folder), "is not empty", expected="a new folder")
    operator, ids = new_key(), [data.items[i] for i in range(len(data.items))]
    charter = Charter(
        name=data.name, algorithm=algorithm, settings=whole(algorithm, settings or {}), users=peers, items=len(ids),
        items_sha256=items_sha256(ids), seed=seed, draws=draws, period=period, operator=public_key(operator).hex(),
        algorithm_sha256=source_sha256(kind_of(algorithm)[0]),
    )  # fmt: skip
    charter.made  # noqa: B018  # for what it refuses, before anything is written
    keys = [new_key() for _ in range(peers)]
    ports = _free_ports(BOOTSTRAPS)
    bootstraps = [Bootstrap(n, public_key(keys[n]).hex(), [f"127.0.0.1:{ports[n]}"]) for n in range(BOOTSTRAPS)]
    write_json(folder / "charter.json", charter_of(charter))
    write_private(folder / OPERATOR, f"{operator.hex()}\n".encode(), new=False)
    paths = []
    for n, key in enumerate(keys):
        path = folder / f"peer-{n:02d}"
        path.mkdir(mode=0o700)
        said = ticket(operator, charter.schema, n, public_key(key)).hex()
        listen = bootstraps[n].addresses[0] if n < BOOTSTRAPS else "127.0.0.1:0"
        write_json(path / INVITATION, Invitation(charter_of(charter), n, said, bootstraps, listen))
        write_json(path / SECRET, PeerSecret(key.hex(), secrets.randbits(63)), private=True)
        write_rows(path / ROWS, data, n)
        _write_items(path / ITEMS, data, ids)
        paths.append(path)
    return FoundedPeers(folder, charter, paths)


def whole(algorithm: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """All settings of an algorithm, with defaults filled in, so that a later version with other defaults cannot change a
    federation."""
    kind, preset = kind_of(algorithm)
    if not issubclass(kind, GossipLearning):
        raise InputError("--algorithm", f"{algorithm} needs a server", expected="one that does", fix="try --algorithm pepper-gmf")
    return dict(kind.parse({**preset, **settings}).model_dump(mode="json"))


def _free_ports(count: int) -> list[int]:
    """UDP ports that nobody listens at now."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def write_rows(path: Path, data: Interactions, user: int) -> None:
    """Write the rows of one user as a CSV file, in the order of the source where it has one."""
    low, high = int(data.ptr[user]), int(data.ptr[user + 1])
    places = sorted(range(low, high), key=lambda r: 0 if data.row is None else int(data.row[r]))
    write_private(path, b"item,value,time\n", new=False)
    with open(path, "a", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        for r in places:
            time = "" if data.time is None or data.time[r] == NO_TIME else int(data.time[r])
            rows.writerow([data.items[int(data.item[r])], f"{float(data.value[r]):g}", time])


def _write_items(path: Path, data: Interactions, ids: list[str]) -> None:
    columns = [name for name in ("title", "lat", "lon") if name in data.features]
    with open(path, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["item", *columns])
        for i, name in enumerate(ids):
            rows.writerow([name, *(str(data.features[column][i]) for column in columns)])
