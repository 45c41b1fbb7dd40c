"""A peer's process: its folder, a link, and the loop until it is told to end; and what can be asked of a folder while nobody runs it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from ...core.errors import InputError
from ...core.types import Float32Array, Int64Array
from ...core.vocabulary import Vocabulary
from ...data.interactions import Interactions
from ...evaluate.recommend import recommend as best_items
from ...federation.replay import Recording, Replayed, replay
from ...runs.store import model_sha256
from .folder import STATE, Folder
from .keeping import Keeping
from .node import PeerNode
from .peer import Peer, pace
from .port import Machine


def run(path: Path, say: Callable[[str], None]) -> None:
    """Run a peer until SIGTERM or SIGINT, then save its state. Raises InputError for a malformed folder, EntrenousError if the
    peer cannot go on."""
    folder = Folder(path)
    with folder.locked():
        node, me = folder.node(), folder.me
        kept = folder.kept(node)
        if kept is not None:
            node.restore(kept.arrays)
        keeping = Keeping(path / STATE)
        try:
            asyncio.run(_run(folder, node, keeping, say))
        finally:
            keeping.close()
    say(f"peer {me.number}: saved after event {node.events}")


async def _run(folder: Folder, node: PeerNode, keeping: Keeping, say: Callable[[str], None]) -> None:
    from .iroh_link import listen

    invitation, charter = folder.invitation, folder.charter
    link = await listen(bytes.fromhex(folder.secret.key), invitation.listen, invitation.advertise)
    peer = Peer(
        charter,
        folder.me,
        node,
        link,
        Machine(),
        keeping=keeping,
        bootstraps=folder.bootstraps(),
        pace=pace(charter.period),
        say=say,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, peer.stop)
    went_on = f", goes on after event {node.events}" if node.events else ""
    say(f"peer {invitation.number} of '{charter.name}' listens at {', '.join(link.addresses())}{went_on}")
    try:
        await peer.run()
    finally:
        await link.close()


# ---- while nobody runs it -------------------------------------------------------------------------------------------------------------


def recommend(path: Path, n: int) -> list[dict[str, Any]]:
    """The n best items that the peer's user does not have: [{"item", "title", "score"}]. The federation's seed orders equal scores.

    Raises InputError before the peer's first training, NonFiniteError if a score is NaN or infinite.
    """
    folder = Folder(path)
    node, items, charter = restored(folder), folder.items, folder.charter
    own, known = _rows_of(folder), np.ones(len(items.ids), np.bool_)  # other peers have learnt of what this user has not touched
    label = f"{path}: {charter.algorithm}"
    best = best_items(_Own(node), own, np.zeros(1, np.int64), n, known=known, label=label, seed=charter.seed)
    listed = zip(best.item[0].tolist(), best.score[0].tolist(), strict=True)
    return [{"item": items.ids[i], "title": items.title[i], "score": float(score)} for i, score in listed if i >= 0]


@final
class _Own:
    """The one user of a peer, as a recommender."""

    def __init__(self, node: PeerNode) -> None:
        self._node = node

    def scores(self, users: Int64Array) -> Float32Array:
        """float32 [len(users), items]; `users` are all 0."""
        return np.tile(self._node.scores(), (len(users), 1))


def _rows_of(folder: Folder) -> Interactions:
    """What the peer's user has consumed, as a data set of one user."""
    own, names = folder.rows().histories, Vocabulary([str(folder.invitation.number)], kind="user")
    return Interactions(ptr=own.ptr, item=own.item, value=own.value, time=None, row=None, users=names,
                        items=Vocabulary(folder.items.ids, kind="item"))  # fmt: skip


def restored(folder: Folder) -> PeerNode:
    """The node of a peer in the state in which it was last saved. Raises InputError if the peer never ran."""
    node = folder.node()
    kept = folder.kept(node)
    if kept is None:
        raise InputError(str(folder.path), "has not learnt anything yet", fix=f"run it: entrenous peer run {folder.path}")
    node.restore(kept.arrays)
    return node


def status(path: Path) -> dict[str, Any]:
    """The summary that a peer last saved (counts, hit rate), with its number, its federation and whether it runs now."""
    folder = Folder(path)
    about: dict[str, Any] = {}
    if (path / STATE).is_file():
        keeping = Keeping(path / STATE, reading=True)
        about = keeping.about()
        keeping.close()
    return {"number": folder.invitation.number, "federation": folder.charter.name, **about, "running": folder.is_running()}


class Verdict(NamedTuple):
    """Two hashes of one peer's final model: as stored on its disk, and as a replay of all recorded events computes it."""

    number: int
    events: int
    kept: str
    replayed: str


def check(paths: Sequence[Path]) -> list[Verdict]:
    """Replay the events that all peers of a federation recorded, and compare the models. Raises ReplayError if the recordings
    contradict each other, InputError while a peer runs."""
    folders = [Folder(path) for path in paths]
    for folder in folders:
        if folder.is_running():
            raise InputError(str(folder.path), "is running", fix="stop all peers of the federation first")
    folders = [folder for folder in folders if (folder.path / STATE).is_file()]
    if not folders:
        raise InputError("entrenous peer replay", "no peer has recorded anything", fix="run some first")
    nodes, recordings = [restored(folder) for folder in folders], []
    for folder, node in zip(folders, nodes, strict=True):
        keeping = Keeping(folder.path / STATE, reading=True)
        recordings.append(Recording(node.number, node.seed, node.data, keeping.events()))
        keeping.close()
    charter = folders[0].charter
    again = replay(charter.made, charter.catalogue, charter.seed, recordings)
    return [_verdict(d, node, again, len(recordings[d].events)) for d, node in enumerate(nodes)]


def _verdict(d: int, node: PeerNode, again: Replayed, events: int) -> Verdict:
    """The model and all private arrays count."""
    own = {"model": node.pool[0], **{name: array[0] for name, array in node.nodes._asdict().items()}}
    theirs = {"model": again.models[d], **{name: array[d] for name, array in again.nodes._asdict().items()}}
    return Verdict(node.number, events, model_sha256(own), model_sha256(theirs))
