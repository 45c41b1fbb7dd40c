"""The process of a peer: its folder, a link, and the loop until it is told to end. Also its
status.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, final

from entrenous.core.lock import holding

from ..links.health import DiskHealth, Trouble
from ..links.metrics import counter, counters, gauge, served, text_of
from .folder import PeerFolder
from .node import PeerNode
from .peer import Membership, Peer, pace
from .port import Machine


def run(
    path: Path, stop: threading.Event, say: Callable[[str], None], metrics: int | None = None
) -> None:
    """Runs a peer until `stop` is set, then saves its state. metrics: the port on 127.0.0.1 that
    answers GET /metrics; None = none. Raises InputError for a malformed folder and for a ticket
    that is not valid, EntrenousError if the peer cannot continue.
    """
    lock = path / "lock"  # keeps a second process from running this peer
    with closing(PeerFolder(path)) as folder, holding(lock), served(PeerTold(path), metrics):
        folder.check_ticket(time.time())
        node = folder.node()
        say(folder.terms.limits())
        warning = folder.terms.other_source()
        if warning:
            say(f"warning: {warning}")
        asyncio.run(_run(folder, node, stop, say))
    say(f"peer {folder.me.number}: saved after event {node.events}")


async def _run(
    folder: PeerFolder, node: PeerNode, stop: threading.Event, say: Callable[[str], None]
) -> None:
    from .iroh_link import listen  # which only a peer that runs needs

    link = await listen(folder.me.key.private_bytes_raw(), folder.listen, folder.advertise)
    membership = Membership(
        folder.terms,
        folder.me,
        folder.bootstraps,
        folder.revoked,
        keep=lambda newer: newer.write(folder.folder),
    )
    peer = Peer(membership, node, link, Machine(), pace(folder.terms.period), folder.state, say)
    went_on = f", goes on after event {node.events}" if node.events else ""
    addresses = ", ".join(link.addresses())
    say(f"peer {peer.me.number} of run {folder.terms.run} listens at {addresses}{went_on}")
    # A signal sets the event of a thread; the loop learns of it by waiting in one.
    ending = asyncio.get_running_loop().run_in_executor(None, stop.wait)
    ending.add_done_callback(lambda _: peer.stop())
    try:
        await peer.run()
    finally:
        stop.set()  # whatever ended the peer, or the thread that waits for the event would not end
        await link.close()


def status(path: Path) -> dict[str, Any]:
    """Returns the summary that a peer last saved (counts, hit rate), with its number, its
    federation, the end of its ticket and whether it runs now."""
    with closing(PeerFolder(path)) as folder:
        until = folder.me.ticket.until
        return {
            "name": folder.name,
            "number": folder.me.number,
            "run": folder.terms.run,
            "ticket_ends": f"{datetime.fromtimestamp(until, UTC):%Y-%m-%d}",
            "ticket_until": until,
            **folder.state.about(),
            "running": folder.is_running(),
        }


@final
class PeerTold:
    """The metrics of a running peer, from the state that it saves before each push; a `Telling`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._disk = DiskHealth(path)

    def text(self) -> str:
        """Returns the text of /metrics."""
        about = status(self._path)

        def number(key: str) -> float:
            return float(about.get(key) or 0)

        saved = "When this was saved, since 1970; 0 before the first push."
        errors = "Messages that broke the protocol, and faults of a loop."
        tally = "What became of pushes, models and exchanges of addresses."
        families = [
            gauge("peers_known", "Peers whose address is known.", number("known")),
            counter("errors_total", errors, number("errors")),
            gauge("last_saved_seconds", saved, number("time")),
            gauge(
                "ticket_ends_seconds", "When the ticket ends, since 1970.", number("ticket_until")
            ),
            counters("tally_total", tally, about.get("tally", {}), "event"),
        ]
        return text_of(families)

    def trouble(self) -> Trouble | None:
        """Returns the reason why the peer cannot do its work now: its disk, or that it knows no
        other peer. None if it can.
        """
        disk = self._disk.trouble()
        if disk is not None:
            return disk
        about = status(self._path)
        # Before its first push a peer may not have met anybody yet.
        if about.get("pushes") and not about.get("known"):
            return Trouble("alone", "no other peer's address is known: is a bootstrap up?")
        return None
