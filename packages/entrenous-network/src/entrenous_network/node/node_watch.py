"""`NodeWatch`: the status of a node's process for its owner: rounds, answers, refusals, the last
word of the server, and the disk.

It names no user, no item and no number of a model. It is kept in status.json of the node's folder,
for `entrenous federation status`, and told at /metrics and /v1/health of `entrenous node
--metrics`.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import Any, final

from entrenous import __version__
from entrenous.core.files import write_text
from entrenous.core.lock import is_held

from ..agreement.files import read_json
from ..agreement.notice import known_addresses
from ..agreement.terms import TERMS, FederationTerms
from ..frames.frames import Code, opened, reason
from ..links.health import DiskHealth, Trouble
from ..links.metrics import (
    Family,
    counter,
    counters,
    gauge,
    rounds,
    text_of,
)
from ..server.server_folder import STATUS, told
from .node_store import NODE, STORE, NodeStore, StoreStanding
from .secure_node import budget_of

EVERY = 5.0  # seconds between two writes of the status
# Kinds of answers after which a node's store is further.
TRAINED = ("update", "sum", "mask", "consent")
HAS_MODEL = ("taken", "kept")
# Seconds without a word of the server after which health says so; a server holds a question for 20.
AWAY = 120.0


@final
class NodeWatch:
    """The status of a running node.

    look: returns how far its store is; it is called after an answer in the thread that gave it.
    clock: seconds since 1970. every: seconds between two writes of the status. given: answers by
    kind of frame. refused: refused requests by code. contact: the last word of the server, seconds
    since 1970; 0 = none."""

    def __init__(
        self,
        folder: Path,
        terms: FederationTerms,
        look: Callable[[], StoreStanding],
        clock: Callable[[], float] = time.time,
        every: float = EVERY,
    ) -> None:
        self._folder = folder
        self.terms = terms
        self._look = look
        self._clock = clock
        self._every = every
        self.disk = DiskHealth(folder)
        self.standing = look()
        self.given = Counter[str]()
        self.refused = Counter[str]()
        self.contact = 0.0
        self._answer = 0.0  # when it answered last, seconds since 1970; 0 = never
        self._lost = ""  # why the connection was lost; "" = it is there
        self._failed = ""  # why the last request was not answered; "" = it was
        self._began = clock()
        self._again = 0.0  # when it asks the server next, where that is known
        self._written = 0.0
        # True while the newest of its answers are of rounds, as of a server that has gone back.
        self._trains = False
        self._turn = Lock()

    # ---- what happens ----------------------------------------------------------------------------

    def answered(self, answer: bytes) -> None:
        """Notes an answer, whatever it says."""
        frame = opened(answer)
        head = frame.head
        failed = ""
        with self._turn:
            if head.kind == "refused":
                # The text of a refusal may quote a server; only known words are counted.
                text = bytes(frame.body[:120])
                code = reason(text) or "unknown"
                self.refused[code] += 1
                if code == Code.FAILED.value:
                    failed = text.decode("ascii", "replace").partition("\n")[2]
            else:
                self.given[head.kind] += 1
            self._answer = self._clock()
            self._failed = failed
            if head.kind in TRAINED + HAS_MODEL:
                self._trains = head.kind in TRAINED
                self.standing = self._look()
        self._write()

    def heard(self, again: float) -> None:
        """Notes a word of the server, and that the node asks it again after so many seconds."""
        self.contact = self._clock()
        self._again = self.contact + again
        self._lost = ""
        self._write()

    def lost(self, why: str) -> None:
        """Notes that the server cannot be reached."""
        self._lost = why
        self._write()

    def finished(self) -> bool:
        """Tells if the model after the last round is here: the server has no more to give."""
        model = self.standing.model
        return model is not None and model >= self.terms.rounds and not self._trains

    def close(self) -> None:
        """Writes the status once more."""
        self._write(0.0)

    # ---- what is told ----------------------------------------------------------------------------

    def about(self) -> dict[str, Any]:
        """Returns the status as it is written."""
        return {
            "pid": os.getpid(),
            "version": __version__,
            "last_contact": round(self.contact, 3),
            "last_answer": round(self._answer, 3),
            "connection_lost": self._lost,
            "failed": self._failed,
            "answers": dict(sorted(self.given.items())),
            "refused": dict(sorted(self.refused.items())),
            "disk_errors": self.disk.errors,
        }

    def trouble(self) -> Trouble | None:
        """Returns why the node cannot do its work now. None where nothing is known to be wrong, and
        once it has the trained model.
        """
        disk = self.disk.trouble()
        if disk is not None:
            return disk
        if self._failed:
            return Trouble("failed", f"the last request was not answered: {self._failed}")
        silent = self._clock() - max(self.contact, self._began, self._again)
        if silent > AWAY and not self.finished():
            lost = f": {self._lost}" if self._lost else ""
            return Trouble("server", f"no word for {silent:.0f} s{lost}")
        return None

    def _write(self, every: float | None = None) -> None:
        """Writes the status, unless that was done within so many seconds; None = as it comes."""
        every = self._every if every is None else every
        with self._turn:
            now = self._clock()
            # Negative where the clock was set back: then it is written.
            if 0 <= now - self._written < every:
                return
            self._written = now
            status = json.dumps(self.about(), indent=1)
            # A full disk stops no training: it is noted, and told.
            try:
                write_text(self._folder / STATUS, status)
                self.disk.failing.pop(STATUS, None)
            except OSError as cause:
                self.disk.failed(STATUS, cause)


@final
class ShopWatch:
    """The `Telling` of a node, or of a shop: the watches of its customers' devices together."""

    def __init__(self, watches: Sequence[NodeWatch]) -> None:
        self._watches = watches

    def text(self) -> str:
        """Returns the text of /metrics, as `told_of` has it."""
        return text_of(told_of(self._watches))

    def trouble(self) -> Trouble | None:
        """Returns what the first device that cannot do its work says, and how many cannot."""
        found = [trouble for watch in self._watches if (trouble := watch.trouble())]
        if not found:
            return None
        first = found[0]
        if len(self._watches) == 1:
            return first
        of = f"{len(found)} of {len(self._watches)} devices"
        return Trouble(first.kind, f"{of}, the first: {first.text}")


def told_of(watches: Sequence[NodeWatch]) -> list[Family]:
    """Returns what is told of the nodes of a process: counts added up, of progress the least, and
    the longest that a node has not heard its server.
    """
    standings = [watch.standing for watch in watches]
    models = [-1 if standing.model is None else standing.model for standing in standings]
    codes: Counter[str] = Counter()
    for watch in watches:
        # A copy: answers go on meanwhile.
        codes.update(dict(watch.refused), given=watch.given.total())
    return [
        gauge(
            "rounds_done",
            "Rounds that this node has trained in, or that were over before.",
            min(standing.rounds for standing in standings),
        ),
        rounds(max(watch.terms.rounds for watch in watches)),
        gauge(
            "model_round", "The round of the newest model here; -1 before the first.", min(models)
        ),
        gauge(
            "finished",
            "1 when the model after the last round is here.",
            all(watch.finished() for watch in watches),
        ),
        gauge(
            "last_contact_seconds",
            "When the server was last heard, since 1970; 0 before.",
            min(watch.contact for watch in watches),
        ),
        counters(
            "answers_total",
            "Requests of the server: answers that were given, and refusals by code.",
            codes,
        ),
        counter(
            "disk_errors_total",
            "Writes of the status that failed.",
            sum(watch.disk.errors for watch in watches),
        ),
    ]


def node_status(folder: Path) -> dict[str, Any]:
    """Returns the status of a node, running or not: by its store, and by what its process wrote
    last. Raises InputError for a folder that has not joined.
    """
    about = read_json(folder / NODE)
    terms = FederationTerms.read(folder / TERMS)
    status = {
        "name": about["name"],
        "run": terms.run,
        "profile": terms.limits(),
        "server": known_addresses(folder, about.get("server", ""))[0],
        "running": is_held(folder / "lock"),
        "rounds": terms.rounds,
    }
    with closing(NodeStore(folder / STORE)) as store:
        standing = store.standing()
        users, rows = store.counted()
        budget = budget_of(store, terms)
    status |= {
        "round": standing.rounds,
        "model_round": standing.model,
        # A lost round has a number, too.
        "finished": (standing.model or 0) >= terms.rounds,
        "users": users,
        "rows": rows,
    }
    if budget.days:
        status["budget"] = budget.told(time.time())
    written = dict(told(folder))
    # The number of a process that may be gone, or another by now.
    written.pop("pid", None)
    return {**status, **written}
