"""A replay of what peers did on a real network, in one process: the same events end with the same
models.

    python -m entrenous_lab.trials.replayed FOLDER...

FOLDER is that of a peer, or one that holds all peers of a federation; none may be running. A
message needs its push to have happened, and a peer's events have their order. Nothing else
matters: any order that respects both gives the same bytes, and so must this one.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple, final

from entrenous_network.peers.events import MESSAGE, PUSH, START, PeerEvent
from entrenous_network.peers.folder import PeerFolder
from entrenous_network.peers.node import PeerNode, Pushed, ReceivedModel
from entrenous_network.wire.pushed import unpack

from entrenous.core.contract.gossip import ACCEPTED, REFUSALS
from entrenous.core.contract.protocols import model_sha256
from entrenous.core.errors import EntrenousError, InputError

KINDS = ("start", "push", "message")


class Recording(NamedTuple):
    """What one peer did."""

    node: PeerNode
    """The peer before its first event. A replay trains it."""
    events: Sequence[PeerEvent]
    """All its events in order."""


class ReplayError(EntrenousError):
    """Raised when recordings contradict each other; names the peer and the event."""


def replay(recordings: Sequence[Recording]) -> None:
    """Has peers do again what they recorded. Raises ReplayError for a recording of which a peer
    that does it again says something else.
    """
    again = _Replay(recordings)
    unfinished = list(recordings)
    # Each peer goes as far as it can, then the next one.
    while unfinished:
        repeated = sum(again.advance(one) for one in unfinished)
        unfinished = [one for one in unfinished if one.node.events < len(one.events)]
        # Each peer left waits for a push: of another that waits too, or of none.
        if unfinished and not repeated:
            raise again.stuck(unfinished)


@final
class _Replay:
    """The pushes of peers that do again what they recorded."""

    def __init__(self, recordings: Sequence[Recording]) -> None:
        # The pushes that are recorded, and how many messages still need each: by the numbers of
        # the sender and of the push.
        self._recorded: set[tuple[int, int]] = set()
        self._awaited: Counter[tuple[int, int]] = Counter()
        self._sent: dict[tuple[int, int], Pushed] = {}
        for one in recordings:
            for event in one.events:
                if event.kind == PUSH:
                    self._recorded.add((one.node.number, event.push))
                if event.kind == MESSAGE:
                    self._awaited[event.sender, event.push] += 1

    def advance(self, one: Recording) -> int:
        """Repeats events of a peer as far as they can happen yet. Returns how many."""
        before = one.node.events
        for event in one.events[before:]:
            # A message waits until its push has happened; the other peers go on meanwhile.
            if event.kind == MESSAGE and (event.sender, event.push) not in self._sent:
                break
            self._repeat(one.node, event)
        return one.node.events - before

    def _repeat(self, node: PeerNode, event: PeerEvent) -> None:
        """Has a peer do again what it recorded. Raises ReplayError where it does something else."""
        where = _at(node, event)
        if event.kind == START:
            node.start()
        elif event.kind == PUSH:
            self._keep(node.number, node.push())
        else:
            self._take(node, event, where)
        here = node.fresh[-1]
        if here != event:
            recorded = event.digest.hex()[:12]
            model = here.digest.hex()[:12]
            raise ReplayError(f"{where}: the model is {model} here, {recorded} in the recording")

    def _keep(self, number: int, pushed: Pushed) -> None:
        """Keeps a push that somebody has recorded; most reach nobody."""
        if self._awaited[number, pushed.number]:
            self._sent[number, pushed.number] = pushed

    def _take(self, node: PeerNode, event: PeerEvent, where: str) -> None:
        """Has a peer take a model again. Raises ReplayError if it refuses the model here."""
        name = event.sender, event.push
        pushed = self._sent[name]
        model = unpack(pushed.body, len(node.pool[0]))
        received = ReceivedModel(*name, pushed.headers, model, pushed.digest)
        refused = node.merge(received)
        if refused != ACCEPTED:
            why = REFUSALS[refused]
            raise ReplayError(f"{where}: the model was taken, but here it is {why}")
        self._awaited[name] -= 1
        if not self._awaited[name]:
            del self._sent[name]

    def stuck(self, unfinished: Sequence[Recording]) -> ReplayError:
        """Returns the reason why nothing can happen any more: a peer waits for a model that nobody
        is recorded to have sent, and the others for that peer.
        """
        for one in unfinished:
            event = one.events[one.node.events]
            if (event.sender, event.push) not in self._recorded:
                break
        why = "no recording says that this model was sent before"
        return ReplayError(f"{_at(one.node, event)}: {why}")


def _at(node: PeerNode, event: PeerEvent) -> str:
    """Returns the place of a peer's next event, for an error."""
    whose = ""
    if event.kind == MESSAGE:
        whose = f" {event.push} of peer {event.sender}"
    return f"peer {node.number}, event {node.events} ({KINDS[event.kind]}{whose})"


class Verdict(NamedTuple):
    """How a replay of all recorded events ended for one peer."""

    events: int
    """The number of its recorded events."""
    same: bool
    """True if it ended with the bytes on the peer's disk."""


def check(paths: Sequence[Path]) -> list[Verdict]:
    """Replays the events that all peers of a federation recorded, and compares what they end with.
    Raises ReplayError if the recordings contradict each other."""
    kept = []
    recordings = []
    with ExitStack() as opened:
        for path in paths:
            folder = opened.enter_context(closing(PeerFolder(path)))
            # A peer that never ran has pushed to nobody.
            if folder.state.about():
                kept.append(model_sha256(folder.trained().arrays()))
                recordings.append(Recording(folder.new_node(), folder.state.events()))
    replay(recordings)
    verdicts = []
    for sha256, one in zip(kept, recordings, strict=True):
        same = model_sha256(one.node.arrays()) == sha256
        verdicts.append(Verdict(len(one.events), same))
    return verdicts


def main(words: Sequence[str] | None = None) -> int:
    """Prints whether each peer ends with the same bytes. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m entrenous_lab.trials.replayed")
    parser.add_argument("folders", nargs="+", type=Path)
    peers: list[Path] = []
    for folder in parser.parse_args(words).folders:
        # The folder of a federation stands for all peers below it.
        inside = sorted(folder.glob("nodes/*"))
        peers += inside or [folder]
    try:
        verdicts = check(peers)
    except EntrenousError as why:
        parser.exit(2 if isinstance(why, InputError) else 1, f"error: {why}\n")
    same = sum(verdict.same for verdict in verdicts)
    events = sum(verdict.events for verdict in verdicts)
    print(f"{same} of {len(peers)} peers end with the same bytes, after {events} events")
    return 0 if same == len(peers) else 1


if __name__ == "__main__":
    sys.exit(main())
