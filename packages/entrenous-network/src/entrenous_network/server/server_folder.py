"""The folder of a server: terms, membership list, key, checkpoints, the journal of the open round,
a log, and a lock against a second server.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, TypeVar, final

import numpy as np

from entrenous import __version__
from entrenous.core.contract.protocols import FederatedAlgorithm, State, arrays_of, model_sha256
from entrenous.core.errors import EntrenousWarning, InputError, NotYet, may_pass, one_line
from entrenous.core.files import write_text
from entrenous.core.lock import changing, locked
from entrenous.core.printed import plain
from entrenous.core.types import Array
from entrenous.federation.shard import Ledger
from entrenous.runs import store
from entrenous.runs.recommenders import restore_state

from ..agreement.catalogue import ITEMS
from ..agreement.files import (
    FORMAT,
    IDENTITY,
    check_format,
    read_identity,
    read_json,
    write_json,
)
from ..agreement.growth import LISTED, current_items, first_state, grown, listed
from ..agreement.members import MEMBERS, Members
from ..agreement.notice import ADDRESSES, known_number
from ..agreement.terms import TERMS, FederationTerms
from ..links.health import DiskHealth, Trouble, failed
from .journal import Journal, read

T = TypeVar("T")
LogFormat = Literal["text", "json"]

PHASE = "server"
CHECKPOINTS = f"checkpoint-{PHASE}-*.safetensors"
KEPT_MODELS = f"kept-{PHASE}-*.safetensors"
JOURNALS = "round-*.journal"
LISTS = (MEMBERS, ITEMS, ADDRESSES)  # which the operator changes
OF_WORKERS = (*LISTS, LISTED)  # which a worker needs again when they have changed
MODEL = "model.safetensors"
FIRST = "first.safetensors"  # the model that it begins with, if that was trained elsewhere
LOG = "server.log"
STATUS = "status.json"
SUM = "sum.json"
LIARS = "liars.json"
HALTED = "halted"  # the status of a server whose last round was not counted
KEPT = 20  # models to go back to, at most
SPAN = 1_000_000  # attempts at a secure sum: those of a group have numbers of their own


# ---- the log -------------------------------------------------------------------------------------


@final
class LogLine(str):
    """A line of a server's log: a text for people, and the facts that programs look for."""

    event: str
    level: str
    about: dict[str, object]
    """The round, a node's name and a code, where they are known."""

    def __new__(
        cls,
        text: str,
        event: str,
        *,
        level: str = "info",
        round: int | None = None,
        node: str | None = None,
        code: str | None = None,
    ) -> Self:
        line = super().__new__(cls, text)
        line.event = event
        line.level = level
        facts = {"round": round, "node": node, "code": code}
        line.about = {name: value for name, value in facts.items() if value is not None}
        return line


def written(line: LogLine, form: LogFormat) -> bytes:
    """Returns a line as it stands in the log, with the time."""
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    if form == "text":
        return f"{when} {plain(line)}\n".encode()
    facts = {"time": when, "level": line.level, "event": line.event, **line.about}
    facts["text"] = str(line)
    return f"{json.dumps(facts)}\n".encode()


# ---- where a federation stands -------------------------------------------------------------------


class RoundCount(NamedTuple):
    """The counts of rounds so far."""

    counted: int = 0
    """Rounds whose sum is in the model."""
    lost: int = 0
    """Rounds under masks whose masked inputs were asked for and gave no sum, since the start or
    since somebody last went back to a kept model."""

    def about(self) -> dict[str, str]:
        """Returns the counts as a checkpoint has them, next to its arrays."""
        return {name: str(value) for name, value in self._asdict().items()}

    @classmethod
    def of(cls, about: Mapping[str, str]) -> Self:
        """Returns the counts in a checkpoint."""
        return cls(*(int(about[name]) for name in cls._fields))


class ServerStanding(NamedTuple):
    """The state of a federation between two rounds."""

    round: int
    """The number of the next round, larger than that of every round before."""
    state: State
    """The server's state."""
    ledger: Ledger
    """The traffic so far."""
    tally: RoundCount
    lengths: tuple[float, ...] = ()
    """The lengths of its newest sums, a device (`watch.length`)."""


def standing(folder: ServerFolder, algorithm: FederatedAlgorithm) -> ServerStanding:
    """Returns where a federation stands. Raises InputError if there are checkpoints and none of
    them is whole.
    """
    return folder.newest(algorithm) or first_standing(folder, algorithm)


def first_standing(folder: ServerFolder, algorithm: FederatedAlgorithm) -> ServerStanding:
    """Returns where a federation stands before its first round."""
    terms = folder.terms
    state = first_state(folder.items, terms, algorithm)
    if (folder.path / FIRST).exists():
        # Trained elsewhere, with as many items as there were at the founding.
        arrays, _ = store.read_arrays(folder.path / FIRST)
        state = grown(type(state)(**arrays), state)
    return ServerStanding(0, state, Ledger(), RoundCount())


# ---- the folder ----------------------------------------------------------------------------------


@final
class ServerFolder:
    """The open folder of a server; `close` releases it.

    start: the number of the start of the server whose worker this is; None = this process is the
    server, and takes the lock. pace: seconds at least between the commit of a round and the next
    round, which no term says.

    part: rounds between two models that are kept. said: the status that was written last. disk:
    what could not be written. committed: when the newest round was committed, in seconds since
    1970; 0 before the first.

    Raises InputError if another server is using the folder, or it cannot be written to.
    """

    def __init__(
        self,
        path: Path,
        start: int | None = None,
        log_format: LogFormat = "text",
        pace: float = 0.0,
    ) -> None:
        self.path = path
        self._leads = start is None
        self.terms = FederationTerms.read(path / TERMS)
        self._first = self.terms.items
        self.items = current_items(path, self.terms)
        self.members = Members(self.terms.users)
        self.key = read_identity(path / IDENTITY)
        self.algorithm = own_algorithm(path)
        self.log_format = log_format
        self.pace = pace
        self.said = dict[str, Any]()
        self.disk = DiskHealth(path)
        self.committed = _newest_write(path)
        self._told = set[Path]()  # damaged journals that were logged
        self._lock: int | None = None
        try:
            if start is None:
                self._lock = locked(path / "lock")
                _clean(path)
                start = _next_start(path / "start")
            self.start = start
            self._log = os.open(path / LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            self.read_lists()
        except BaseException as cause:
            if self._lock is not None:
                os.close(self._lock)
            if isinstance(cause, OSError):
                raise _unwritable(path, cause) from None
            raise
        if self._leads:
            self._drop_cut_line()

    def _drop_cut_line(self) -> None:
        """Takes off the end of the list of members what a process wrote that was killed."""
        path = self.path / MEMBERS
        with changing(self.path):
            self.members.follow(path)
            if path.stat().st_size > self.members.length:
                self.members.write(path, ())
                self._lists = _written(self.path)
                line = f"{MEMBERS}: its last line was cut short, and is dropped"
                self.log(LogLine(line, "damaged", level="error"))

    def read_lists(self) -> None:
        """Reads terms, members, items and the number of the newest notice of addresses. A server,
        not its workers, makes the operator's newest list of items its own, unless a round is open.
        """
        self._lists = _written(self.path)
        path = self.path / ITEMS
        is_open = self._has_open_round()
        if self._leads and not is_open:
            # Raises InputError for what is no line, before it counts.
            self.items.follow(path)
            if listed(self.path) != self.items.length:
                write_text(self.path / LISTED, str(self.items.length))
        self.items.follow(path, listed(self.path))
        self._waits = is_open and path.stat().st_size > self.items.length
        self.terms = self.terms.with_items(self.items)
        self.part = self.terms.part
        self.members.follow(self.path / MEMBERS)
        self.moved = known_number(self.path)

    def reload(self) -> None:
        """Reads the lists of members and of items, and the notice of addresses, again: the operator
        has changed one of them.
        """
        self.read_lists()
        self.log(LogLine("members, items or addresses have changed", "lists"))

    def is_outdated(self) -> bool:
        """Returns True if the operator has changed members, items or addresses since they were
        read. Between two rounds `reload` takes that up.
        """
        may_adopt = self._waits and not self._has_open_round()
        return may_adopt or _written(self.path) != self._lists

    def _has_open_round(self) -> bool:
        """Returns True if a round was begun and is not over."""
        return self.newest_begun() >= _newest_number(self.path)

    def close(self) -> None:
        os.close(self._log)
        if self._lock is not None:
            os.close(self._lock)

    def log(self, line: LogLine) -> None:
        """Appends a line with the time to the log. It never has an item, a user's name, a vector,
        or content of a frame. If the disk is full the line is lost, and the round goes on.
        """
        try:
            os.write(self._log, written(line, self.log_format))
            self.disk.failing.pop(LOG, None)
        except OSError as cause:
            self.disk.failed(LOG, cause)

    # ---- checkpoints ----

    def newest(self, algorithm: FederatedAlgorithm) -> ServerStanding | None:
        """Returns where the newest checkpoint that verifies stands; None before the first. Damaged
        ones are logged.

        Raises InputError if there are checkpoints and none of them verifies.
        """
        with warnings.catch_warnings(record=True) as damaged:
            warnings.simplefilter("always", EntrenousWarning)
            checkpoint = store.newest_checkpoint(self.path, PHASE)
        for warning in damaged:
            self.log(LogLine(one_line(str(warning.message)), "damaged", level="error"))
        if checkpoint is not None:
            return self._standing(algorithm, checkpoint.arrays, checkpoint.about)
        if not damaged:
            return None
        # To start anew is for the operator to decide.
        raise InputError(
            str(self.path),
            f"none of its {len(damaged)} checkpoints can be read",
            expected="a whole one",
            fix="restore the folder from a backup, or remove the checkpoints to start anew",
        )

    def kept(self, algorithm: FederatedAlgorithm, path: Path) -> ServerStanding:
        """Returns where the federation stood when it kept a model. Raises EntrenousError for a
        damaged file.
        """
        return self._standing(algorithm, *store.read_arrays(path))

    def _standing(
        self, algorithm: FederatedAlgorithm, arrays: Mapping[str, Array], about: Mapping[str, str]
    ) -> ServerStanding:
        check_format(self.path, about.get("format"), about.get("version", ""))
        if about.get("run") != self.terms.run:
            raise InputError(
                str(self.path),
                "its checkpoint is of other terms",
                fix="give the new federation a folder of its own",
            )
        state = restore_state(algorithm, "holds", "server", arrays)
        if self.terms.items > self._first:
            # Items that came since the checkpoint begin as they would have at the founding.
            first = first_standing(self, algorithm).state
            state = grown(state, first)
        return ServerStanding(
            int(about["round"]),
            state,
            Ledger(*(int(count) for count in arrays["ledger"])),
            RoundCount.of(about),
            tuple(json.loads(about.get("lengths", "[]"))),
        )

    def commit(self, now: ServerStanding) -> None:
        """Stores where the federation stands, whole or not at all, and deletes the journals of the
        rounds before.
        """
        arrays = server_arrays(now.state)
        arrays["ledger"] = np.array(now.ledger, np.int64)
        about = {"run": self.terms.run, "format": str(FORMAT), "version": __version__}
        about |= now.tally.about()
        if now.lengths:
            about["lengths"] = json.dumps(now.lengths)
        store.write_checkpoint(self.path, PHASE, now.round, arrays, **about)
        keep(self.path, now.round, now.tally.counted, self.part)
        # Only now: until the checkpoint is whole, the journals are all there is of the round.
        self.drop_journals()
        self.committed = time.time()

    def finish(self, state: State) -> str:
        """Writes the trained model to model.safetensors. Returns its sha256."""
        arrays = server_arrays(state)
        store.write_arrays(self.path / MODEL, arrays, run=self.terms.run)
        return model_sha256(arrays)

    # ---- journals ----

    def journal(self, number: int, attempt: int = 0) -> Journal:
        """Opens the journal of a round to append to it. attempt: a secure sum begins anew when too
        few nodes were there.
        """
        journal = Journal(self._journal_path(number, attempt))
        if journal.damaged:
            self._tell(number, journal.path)
        return journal

    def recorded(self, number: int, attempt: int = 0) -> list[bytes]:
        """Returns the records that were journalled for a round before the server restarted."""
        path = self._journal_path(number, attempt)
        content = read(path)
        if content.damaged:
            self._tell(number, path)
        return content.records

    def recorded_of(self, number: int, part: int, of: int) -> list[bytes]:
        """Returns the records of a round that are those of process `part` of as many now, however
        many there were before.
        """
        records = []
        for before in sorted(self._journals(number)):
            if before % of == part:
                records += self.recorded(number, before)
        return records

    def newest_begun(self) -> int:
        """Returns the largest number of a round that has a journal, so that nodes may have been
        asked about it; -1 if none has.
        """
        begun = [int(path.stem.split("-")[1]) for path in self.path.glob(JOURNALS)]
        return max(begun, default=-1)

    def newest_attempt(self, number: int, first: int = 0) -> int:
        """Returns the number of the last attempt at a secure sum that was begun in a round; `first`
        before the first.

        first: the least number that attempts of a group have.
        """
        return max(self._attempts(number, first), default=first)

    def drop_attempts(self, number: int, newest: int, first: int = 0) -> None:
        """Removes the journals of the attempts before the newest at a secure sum: nothing came of
        them, and nothing is read from them. first: as for `newest_attempt`.
        """
        for attempt, path in self._attempts(number, first).items():
            if attempt < newest:
                path.unlink(missing_ok=True)

    def drop_journals(self) -> None:
        """Deletes the journals of all rounds. Their answers are in a checkpoint by now."""
        for path in self.path.glob(JOURNALS):
            path.unlink(missing_ok=True)

    def _journals(self, number: int) -> dict[int, Path]:
        """Returns the journals of a round, by the numbers of their processes or attempts."""
        paths = self.path.glob(f"round-{number:09d}-*.journal")
        return {number_of(path): path for path in paths}

    def _attempts(self, number: int, first: int) -> dict[int, Path]:
        """Returns the journals of the attempts at a round, of one group, by the numbers of the
        attempts.
        """
        journals = self._journals(number)
        return {n: path for n, path in journals.items() if first <= n < first + SPAN}

    def _journal_path(self, number: int, attempt: int) -> Path:
        return self.path / f"round-{number:09d}-{attempt:03d}.journal"

    def _tell(self, number: int, damaged: Path) -> None:
        """Logs that a journal of a round is damaged, once."""
        if damaged not in self._told:
            self._told.add(damaged)
            line = f"{damaged.name} is damaged: what cannot be read is asked for again"
            self.log(LogLine(line, "damaged", level="error", round=number))

    # ---- secure sums ----

    def note_sum(self, number: int, names: Collection[str]) -> None:
        """Stores whose sums the newest round has, by its number."""
        write_json(self.path / SUM, {"round": number, "nodes": sorted(names)})

    def liars(self) -> dict[str, str]:
        """Returns who has lied in a secure sum, by name, and when and how."""
        path = self.path / LIARS
        if path.exists():
            return dict(read_json(path)["liars"])
        return {}

    def remember_liar(self, name: str, lie: str) -> None:
        """Stores who has lied, and how. The first lie of a node stays."""
        known = self.liars()
        # Later lies tell nothing new of whom not to ask.
        if name not in known:
            write_json(self.path / LIARS, {"liars": {**known, name: lie}})

    # ---- status ----

    def status(self, said: Mapping[str, Any]) -> None:
        """Writes the server's status for people to read. After a disk error the status of the last
        successful write stays, and `disk` says so.
        """
        self.said = {**said, **self.standing()}
        try:
            write_text(self.path / STATUS, json.dumps({"pid": os.getpid(), **self.said}, indent=1))
            self.disk.failing.pop(STATUS, None)
        except OSError as cause:
            self.disk.failed(STATUS, cause)

    def standing(self) -> dict[str, Any]:
        """Returns what an operator watches besides the rounds: when the last one was committed
        (seconds since 1970), how many writes have failed, and the version of this package.
        """
        return {
            "committed": round(self.committed, 3),
            "disk_errors": self.disk.errors,
            "version": __version__,
        }

    def trouble(self) -> Trouble | None:
        """Returns why the server cannot do its work now: a round was halted, as this process or the
        server's status says, or the disk takes nothing. None where nothing is known to be wrong.
        """
        said = self.said or told(self.path)
        if said.get("status") == HALTED:
            return Trouble(HALTED, str(said.get("reason", "")))
        return self.disk.trouble()


def summed(folder: Path, number: int) -> list[str]:
    """Returns the nodes in the sums of round `number`; nobody if it is not the newest that has
    one.
    """
    path = folder / SUM
    newest: dict[str, Any] = read_json(path) if path.exists() else {}
    return list(newest["nodes"]) if newest.get("round") == number else []


def told(folder: Path) -> dict[str, Any]:
    """Returns the status that a server last wrote about itself; {} before its first word, and where
    it cannot be read.
    """
    try:
        return dict(json.loads((folder / STATUS).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def server_arrays(state: State) -> dict[str, Array]:
    """Returns the arrays of a server's state by their names in a file."""
    return {f"server.{name}": array for name, array in arrays_of(state).items()}


def own_algorithm(folder: Path) -> str:
    """Returns the place of the operator's own file, for an algorithm that is none of this package;
    "" for one that is.
    """
    place = folder / "algorithm"
    return place.read_text(encoding="utf-8").strip() if place.exists() else ""


def number_of(path: Path) -> int:
    """Returns the number at the end of a file's name."""
    return int(path.stem.rpartition("-")[2])


# ---- opening a folder ----------------------------------------------------------------------------


def _newest_number(path: Path) -> int:
    """Returns the number of the next round, by the newest checkpoint; 0 before the first."""
    return max(map(number_of, path.glob(CHECKPOINTS)), default=0)


def _written(path: Path) -> list[tuple[int, int]]:
    """Returns when the lists in a server's folder, and its notice of addresses, were written, and
    how long they are.
    """
    found = []
    for name in LISTS:
        if (path / name).exists():
            about = (path / name).stat()
            found.append((about.st_mtime_ns, about.st_size))
    return found


def _clean(path: Path) -> None:
    """Removes what writes that were cut short have left, and checks that files can be made here.
    Raises OSError.
    """
    for left in path.glob(".*.tmp"):
        left.unlink(missing_ok=True)
    probe = path / ".writable.tmp"
    os.close(os.open(probe, os.O_WRONLY | os.O_CREAT, 0o600))
    probe.unlink()


def _next_start(path: Path) -> int:
    """Returns a number above that of every start before, and stores it. Raises OSError."""
    before = path.read_text() if path.exists() else ""
    least = 0
    if before.strip().isdigit():
        least = int(before) + 1
    # Of the clock, so that a folder restored from a backup has a higher number too.
    start = max(least, int(time.time()))
    write_text(path, str(start))
    return start


def _unwritable(path: Path, cause: OSError) -> InputError:
    problem = f"cannot be written ({cause.strerror})"
    if may_pass(cause):
        return NotYet(str(path), problem, fix="make room; it goes on from where it was")
    fix = "choose a folder that this user may write to"
    return InputError(str(path), problem, expected="a writable folder", fix=fix)


def _newest_write(path: Path) -> float:
    """Returns when the newest checkpoint in a server's folder was written, in seconds since 1970; 0
    where there is none.
    """
    written_at = [checkpoint.stat().st_mtime for checkpoint in path.glob(CHECKPOINTS)]
    return max(written_at, default=0.0)


# ---- rounds to go back to ------------------------------------------------------------------------


def keep(folder: Path, number: int, counted: int, part: int) -> None:
    """Keeps the checkpoint of round `number` under a second name after each `part` rounds, the
    newest KEPT of them.
    """
    kept = folder / f"kept-{PHASE}-{counted:09d}.safetensors"
    if counted % part == 0 and not kept.exists():
        os.link(folder / f"checkpoint-{PHASE}-{number:09d}.safetensors", kept)
        for old in sorted(folder.glob(KEPT_MODELS))[:-KEPT]:
            old.unlink(missing_ok=True)


# ---- writing in spite of a full disk -------------------------------------------------------------


def kept(
    folder: ServerFolder, what: str, act: Callable[[], T], pause: Callable[[float], None]
) -> T:
    """Writes something by calling `act`, and returns its result. While the disk fails nothing
    counts, and the write is tried again every second.
    """
    while True:
        try:
            result = act()
            folder.disk.failing.pop(what, None)
            return result
        except OSError as cause:
            folder.disk.failed(what, cause)
            line = f"{what} cannot be written ({failed(cause)}); nothing was counted; trying again"
            folder.log(LogLine(line, "disk", level="error"))
            pause(1.0)
