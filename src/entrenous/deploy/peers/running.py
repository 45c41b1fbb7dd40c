"""A peer's process: its folder, a link, and the loop until it is told to end; where it stands; and a replay of what all have recorded."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from ...core.errors import InputError
from ...federation.replay import Recording, Replayed, replay
from ...runs.store import model_sha256
from .folder import PeerFolder
from .node import PeerNode
from .peer import Peer, pace
from .port import Machine


def run(path: Path, stop: threading.Event, say: Callable[[str], None]) -> None:
    """Run a peer until `stop` is set, then save its state. Raises InputError for a malformed folder and a ticket that does not count,
    EntrenousError if the peer cannot go on."""
    with closing(PeerFolder(path)) as folder, folder.locked():
        folder.check_ticket(time.time())
        node = folder.node()
        say(folder.terms.limits())
        if line := folder.terms.other_source():
            say(f"warning: {line}")
        asyncio.run(_run(folder, node, stop, say))
    say(f"peer {folder.me.number}: saved after event {node.events}")


async def _run(folder: PeerFolder, node: PeerNode, stop: threading.Event, say: Callable[[str], None]) -> None:
    from .iroh_link import listen

    link = await listen(folder.me.key.private_bytes_raw(), folder.listen, folder.advertise)
    peer = Peer(
        folder.terms, folder.me, node, link, Machine(), state=folder.state, revoked=folder.revoked,
        keep=lambda newer: newer.write(folder.folder), bootstraps=folder.bootstraps, pace=pace(folder.terms.period), say=say,
    )  # fmt: skip
    went_on = f", goes on after event {node.events}" if node.events else ""
    say(f"peer {folder.me.number} of run {folder.terms.run} listens at {', '.join(link.addresses())}{went_on}")
    ending = asyncio.get_running_loop().run_in_executor(None, stop.wait)
    ending.add_done_callback(lambda _: peer.stop())
    try:
        await peer.run()
    finally:
        stop.set()  # whatever ended it: else the thread that waits for it would not end
        await link.close()


def status(path: Path) -> dict[str, Any]:
    """The summary that a peer last saved (counts, hit rate), with its number, its federation, the end of its ticket and whether it
    runs now."""
    with closing(PeerFolder(path)) as folder:
        end = datetime.fromtimestamp(folder.me.ticket.until, UTC)
        about = {"name": folder.name, "number": folder.me.number, "run": folder.terms.run, "ticket_ends": f"{end:%Y-%m-%d}"}
        return {**about, **folder.state.about(), "running": folder.is_running()}


class Verdict(NamedTuple):
    """Two hashes of one peer's final model: as stored on its disk, and as a replay of all recorded events computes it."""

    number: int
    events: int
    kept: str
    replayed: str


def check(paths: Sequence[Path]) -> list[Verdict]:
    """Replay the events that all peers of a federation recorded, and compare the models. Raises ReplayError if the recordings
    contradict each other, InputError while a peer runs."""
    with ExitStack() as opened:
        folders = [opened.enter_context(closing(PeerFolder(path))) for path in paths]
        for folder in folders:
            if folder.is_running():
                raise InputError(str(folder.folder), "is running", fix="stop all peers of the federation first")
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
    own = {"model": node.pool[0], **{name: array[0] for name, array in node.nodes._asdict().items()}}
    theirs = {"model": again.models[d], **{name: array[d] for name, array in again.nodes._asdict().items()}}
    return Verdict(node.number, events, model_sha256(own), model_sha256(theirs))
