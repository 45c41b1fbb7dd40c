"""A peer's process: its folder, a link, and the loop until it is told to end; where it stands; and
a replay of what all have recorded.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, final

from ...core.errors import InputError
from ...runs.store import model_sha256
from ..links.metrics import DiskHealth, Trouble, counter, counters, gauge, process, served, text_of
from .folder import PeerFolder
from .node import PeerNode
from .peer import Peer, pace
from .port import Machine
from .replay import Recording, Replayed, replay


def run(
    path: Path, stop: threading.Event, say: Callable[[str], None], metrics: int | None = None
) -> None:
    """Run a peer until `stop` is set, then save its state. metrics: the port on 127.0.0.1 that
    tells what is counted, None = none. Raises InputError for a malformed folder and a ticket that
    does not count, EntrenousError if the peer cannot go on.
    """
    with closing(PeerFolder(path)) as folder, folder.locked(), served(PeerTold(path), metrics):
        folder.check_ticket(time.time())
        node = folder.node()
        say(folder.terms.limits())
        if line := folder.terms.other_source():
            say(f"warning: {line}")
        asyncio.run(_run(folder, node, stop, say))
    say(f"peer {folder.me.number}: saved after event {node.events}")


async def _run(
    folder: PeerFolder, node: PeerNode, stop: threading.Event, say: Callable[[str], None]
) -> None:
    from .iroh_link import listen

    link = await listen(folder.me.key.private_bytes_raw(), folder.listen, folder.advertise)
    peer = Peer(
        folder.terms,
        folder.me,
        node,
        link,
        Machine(),
        state=folder.state,
        revoked=folder.revoked,
        keep=lambda newer: newer.write(folder.folder),
        bootstraps=folder.bootstraps,
        pace=pace(folder.terms.period),
        say=say,
    )
    went_on = f", goes on after event {node.events}" if node.events else ""
    say(
        f"peer {folder.me.number} of run {folder.terms.run} listens at"
        f" {', '.join(link.addresses())}{went_on}"
    )
    ending = asyncio.get_running_loop().run_in_executor(None, stop.wait)
    ending.add_done_callback(lambda _: peer.stop())
    try:
        await peer.run()
    finally:
        stop.set()  # whatever ended it: else the thread that waits for it would not end
        await link.close()


def status(path: Path) -> dict[str, Any]:
    """The summary that a peer last saved (counts, hit rate), with its number, its federation, the
    end of its ticket and whether it runs now."""
    with closing(PeerFolder(path)) as folder:
        end = datetime.fromtimestamp(folder.me.ticket.until, UTC)
        about = {
            "name": folder.name,
            "number": folder.me.number,
            "run": folder.terms.run,
            "ticket_ends": f"{end:%Y-%m-%d}",
        }
        about["ticket_until"] = folder.me.ticket.until
        return {**about, **folder.state.about(), "running": folder.is_running()}


@final
class PeerTold:
    """What a running peer's /metrics and /v1/health tell, by what it has saved last: before each
    push.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._disk = path, DiskHealth(path)

    def text(self) -> str:
        """The text of /metrics."""
        found = status(self._path)
        number = lambda key: float(found.get(key) or 0)  # noqa: E731
        families = [
            counter("events_total", "Trainings, pushes and merged models.", number("events")),
            counter(
                "pushes_total",
                "Models that were pushed, each to all its receivers.",
                number("pushes"),
            ),
            gauge("peers_known", "Peers whose address is known.", number("known")),
            gauge("connections_open", "Connections now.", number("connections")),
            counter(
                "errors_total",
                "Messages that broke the protocol, and faults of a loop.",
                number("errors"),
            ),
            gauge(
                "last_saved_seconds",
                "When this was saved, since 1970; 0 before the first push.",
                number("time"),
            ),
            gauge(
                "ticket_ends_seconds", "When the ticket ends, since 1970.", number("ticket_until")
            ),
            counters(
                "tally_total",
                "What became of pushes, models and exchanges of addresses.",
                found.get("tally", {}),
                "event",
            ),
            *process(),
        ]
        return text_of(families)

    def trouble(self) -> Trouble | None:
        """Why the peer cannot do its work now: the disk, or nobody is known to it."""
        if (disk := self._disk.trouble()) is not None:
            return disk
        found = status(self._path)
        if found.get("pushes") and not found.get("known"):
            return Trouble("alone", "no other peer's address is known: is a bootstrap up?")
        return None


class Verdict(NamedTuple):
    """Two hashes of one peer's final model: as stored on its disk, and as a replay of all recorded
    events computes it.
    """

    number: int
    events: int
    kept: str
    replayed: str


def check(paths: Sequence[Path]) -> list[Verdict]:
    """Replay the events that all peers of a federation recorded, and compare the models. Raises
    ReplayError if the recordings contradict each other, InputError while a peer runs."""
    with ExitStack() as opened:
        folders = [opened.enter_context(closing(PeerFolder(path))) for path in paths]
        for folder in folders:
            if folder.is_running():
                raise InputError(
                    str(folder.folder), "is running", fix="stop all peers of the federation first"
                )
        folders = [folder for folder in folders if folder.state.about()]
        if not folders:
            raise InputError("FOLDER", "no peer has recorded anything", fix="run some first")
        nodes, terms = [folder.trained() for folder in folders], folders[0].terms
        recordings = [
            Recording(node.number, node.seed, node.data, folder.state.events())
            for folder, node in zip(folders, nodes, strict=True)
        ]
    again = replay(terms.gossip, terms.catalogue, terms.seed, recordings)
    return [_verdict(d, node, again, len(recordings[d].events)) for d, node in enumerate(nodes)]


def _verdict(d: int, node: PeerNode, again: Replayed, events: int) -> Verdict:
    """The model and all private arrays count."""
    own = {
        "model": node.pool[0],
        **{name: array[0] for name, array in node.nodes._asdict().items()},
    }
    theirs = {
        "model": again.models[d],
        **{name: array[d] for name, array in again.nodes._asdict().items()},
    }
    return Verdict(node.number, events, model_sha256(own), model_sha256(theirs))
