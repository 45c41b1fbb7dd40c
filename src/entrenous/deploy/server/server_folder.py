"""The folder of a server: terms, membership list, key, checkpoints, the journal of the open round,
a log, and a lock against a second server."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, TypeVar, final

import numpy as np

from ... import __version__
from ...core.contract.protocols import FederatedAlgorithm, State, arrays_of, model_sha256
from ...core.errors import EntrenousError, EntrenousWarning, InputError, NotYet, may_pass, one_line
from ...core.files import DiskHealth, Trouble, failed, write_text
from ...core.lock import holding, locked
from ...core.types import Array
from ...federation.shard import Ledger
from ...privacy.secure_sum.memory import PastSum
from ...runs import store
from ...runs.recommenders import restore_state
from ..agreement.files import (
    FORMAT,
    IDENTITY,
    check_format,
    read_identity,
    read_json,
    write_json,
)
from ..agreement.members import MEMBERS, Members
from ..agreement.terms import TERMS, FederationTerms
from .journal import Journal, JournalRecord, read
from .log_line import LogFormat, LogLine, written

T = TypeVar("T")
PHASE = "server"
PARTS = 10  # of all rounds, after each of which a model is kept to go back to
LOG, STATUS = "server.log", "status.json"
HALTED = "halted"  # the status of a server whose last round was not counted
SUMS, KEPT_SUMS = "sums.json", 64  # sets of nodes whose sums were asked for, of each group
SPAN = 1_000_000  # attempts at a secure sum: those of a group have numbers of their own
LIARS = "liars.json"


class RoundCount(NamedTuple):
    """The outcomes of the rounds so far. counted: those whose sum is in the model; lost: under
    masks, those whose masked inputs were asked for and gave no sum, since the start or since
    somebody last went back to a kept model; asked: all rounds ever whose masked inputs were asked
    for, which is how many each node may have answered; drawn: which draw of users the next round
    has. A lost round's users are asked again under another number, since nodes answer for no other
    users from the same model.
    """

    counted: int = 0
    lost: int = 0
    asked: int = 0
    drawn: int = 0

    def about(self) -> dict[str, str]:
        """The counts as the metadata of a checkpoint."""
        return {name: str(value) for name, value in self._asdict().items()}

    @classmethod
    def of(cls, about: Mapping[str, str], number: int) -> Self:
        """The counts in a checkpoint after round `number`; in one of before there were counts,
        every round counts.
        """
        if "counted" not in about:
            return cls(number, 0, number, number)
        return cls(*(int(about[name]) for name in cls._fields))


class ServerStanding(NamedTuple):
    """The standing of a federation. round: the number of the next round, larger than that of every
    round before; state: the server's; ledger: what was sent; parties: whose sums it has had from
    this state, as `Members.parties` says it, "" = of all who were ever members; lengths: of its
    newest sums, a device (`watch`).
    """

    round: int
    state: State
    ledger: Ledger
    tally: RoundCount
    parties: str = ""
    lengths: tuple[float, ...] = ()


@final
class ServerFolder:
    """The open folder of a server; `close` releases it. start: that of the server whose worker this
    is, which holds the lock; said: the status that was written last; disk: what could not be
    written; pace: seconds between the commit of a round and the next one, at least, which no term
    says; committed: when the newest round was (seconds since 1970), 0 before the first.

    Raises InputError if another server is using it, or it cannot be written to.
    """

    def __init__(
        self,
        path: Path,
        start: int | None = None,
        log_format: LogFormat = "text",
        pace: float = 0.0,
    ) -> None:
        self.path, self.terms = path, FederationTerms.read(path / TERMS)
        self.members = Members.read(path / MEMBERS, self.terms.users)
        self.key = read_identity(path / IDENTITY)
        own = (
            path / "algorithm"
        )  # the operator's own file, of an algorithm that is none of this package
        self.algorithm = own.read_text(encoding="utf-8").strip() if own.exists() else ""
        self._lock: int | None = None
        self.log_format, self.said = log_format, dict[str, Any]()
        self.disk, self.pace = DiskHealth(path), pace
        self.committed = _newest_write(path)
        self._told = set[str]()  # what was logged of damaged journals
        try:
            self._lock = locked(path / "lock") if start is None else None
            if start is None:
                _clean(path)
            self.start = _next_start(path / "start") if start is None else start
            self._log = os.open(path / LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError as cause:
            if self._lock is not None:
                os.close(self._lock)
            raise _unwritable(path, cause) from None

    def log(self, text: str) -> None:
        """Append a line with the time to the log. It never has an item, a user's name, a vector, or
        content of a frame. Where the disk is full the line is lost, and the round goes on."""
        try:
            os.write(self._log, written(text, self.log_format))
            self.disk.wrote(LOG)
        except OSError as cause:
            self.disk.failed(LOG, cause)

    def newest(self, algorithm: FederatedAlgorithm) -> ServerStanding | None:
        """Returns the newest checkpoint that verifies; None before the first. Logs damaged ones.

        Raises InputError if there are checkpoints and none of them verifies, since starting anew is
        for the operator to decide.
        """
        with warnings.catch_warnings(record=True) as damaged:
            warnings.simplefilter("always", EntrenousWarning)
            found = store.newest_checkpoint(self.path, PHASE)
        for warning in damaged:
            self.log(LogLine(one_line(str(warning.message)), "damaged", level="error"))
        if found is None and not damaged:
            return None
        if found is None:
            fix = "restore the folder from a backup, or remove the checkpoints to start anew"
            raise InputError(
                str(self.path),
                f"none of its {len(damaged)} checkpoints can be read",
                expected="a whole one",
                fix=fix,
            )
        return self._standing(algorithm, found.arrays, found.about)

    def kept(self, algorithm: FederatedAlgorithm, path: Path) -> ServerStanding:
        """Returns the federation's standing when it kept a model. Raises EntrenousError for a
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
        ledger = Ledger(*(int(count) for count in arrays["ledger"]))
        number = int(about["round"])
        lengths = tuple(json.loads(about.get("lengths", "[]")))
        return ServerStanding(
            number, state, ledger, RoundCount.of(about, number), about.get("parties", ""), lengths
        )

    def commit(self, now: ServerStanding) -> None:
        """Store where the federation stands, whole or not at all, and delete the journals of the
        rounds before.
        """
        arrays = {f"server.{name}": array for name, array in arrays_of(now.state).items()}
        arrays["ledger"] = np.array(now.ledger, np.int64)
        about = {
            "run": self.terms.run,
            "format": str(FORMAT),
            "version": __version__,
            **now.tally.about(),
        }
        about |= {"parties": now.parties} if now.parties else {}
        about |= {"lengths": json.dumps(now.lengths)} if now.lengths else {}
        store.write_checkpoint(self.path, PHASE, now.round, arrays, **about)
        keep(self.path, now.round, now.tally.counted, self.terms.rounds)
        self.drop_journals()
        self.committed = time.time()

    def drop_journals(self) -> None:
        """Delete the journals of all rounds: what they hold counts elsewhere."""
        for path in self.path.glob("round-*.journal"):
            path.unlink(missing_ok=True)

    def recorded(self, number: int, attempt: int = 0) -> list[JournalRecord]:
        """The records that were journalled for a round before the server restarted."""
        path = self._journal_path(number, attempt)
        if not path.exists():
            return []
        found = read(path)
        self._tell(number, found.damaged)
        return found.records

    def recorded_of(self, number: int, part: int, of: int) -> list[JournalRecord]:
        """The records of a round that are those of process `part` of as many now, however many
        there were before.
        """
        parts = sorted(
            int(path.stem.rpartition("-")[2])
            for path in self.path.glob(f"round-{number:09d}-*.journal")
        )
        return [
            record for each in parts if each % of == part for record in self.recorded(number, each)
        ]

    def newest_begun(self) -> int:
        """The largest number of a round that has a journal, so that nodes may have been asked about
        it; -1 if none has.
        """
        begun = [int(path.stem.split("-")[1]) for path in self.path.glob("round-*.journal")]
        return max(begun, default=-1)

    def newest_attempt(self, number: int, first: int = 0) -> int:
        """The number of the last attempt at a secure sum that was begun in a round; `first` before
        the first.

        first: the least number that attempts of a group have.
        """
        return max(self._attempts(number, first), default=first)

    def _attempts(self, number: int, first: int) -> dict[int, Path]:
        """The journals of the attempts at a round, of one group, by the numbers of the attempts."""
        found = {
            int(path.stem.rpartition("-")[2]): path
            for path in self.path.glob(f"round-{number:09d}-*.journal")
        }
        return {attempt: path for attempt, path in found.items() if first <= attempt < first + SPAN}

    def journal(self, number: int, attempt: int = 0) -> Journal:
        """Open the journal of a round to append to it. attempt: a secure sum begins anew when too
        few nodes were there.
        """
        journal = Journal(self._journal_path(number, attempt))
        self._tell(number, journal.damaged)
        return journal

    def _tell(self, number: int, damaged: Sequence[str]) -> None:
        """Logs what is damaged in the journals of a round, each place once."""
        for line in damaged:
            if line not in self._told:
                self._told.add(line)
                self.log(LogLine(line, "damaged", level="error", round=number))

    def drop_attempts(self, number: int, newest: int, first: int = 0) -> None:
        """Remove the journals of the attempts before the newest at a secure sum: nothing came of
        them, and nothing is read from them. first: as for `newest_attempt`."""
        for attempt, path in self._attempts(number, first).items():
            if attempt < newest:
                path.unlink(missing_ok=True)

    def _journal_path(self, number: int, attempt: int) -> Path:
        return self.path / f"round-{number:09d}-{attempt:03d}.journal"

    def summed(self) -> tuple[PastSum, ...]:
        """The newest secure sums that nodes were asked to consent to, each set of nodes once."""
        return past_sums(self.path)

    def remember_sum(self, summed: PastSum) -> None:
        """Store whose sum nodes are about to be asked to consent to."""
        others = [each for each in self.summed() if each.parties.keys() != summed.parties.keys()]
        newest = (*others, summed)[-KEPT_SUMS * self.terms.protection.groups :]
        write_json(
            self.path / SUMS, {"sums": [(each.model.hex(), each.parties) for each in newest]}
        )

    def liars(self) -> dict[str, str]:
        """The nodes that have lied in a secure sum, by name, and when and how."""
        path = self.path / LIARS
        return dict(read_json(path)["liars"]) if path.exists() else {}

    def remember_liar(self, name: str, lie: str) -> None:
        """Store who has lied, and how. The first lie of a node stays."""
        known = self.liars()
        if name not in known:
            write_json(self.path / LIARS, {"liars": {**known, name: lie}})

    def finish(self, state: State) -> str:
        """Write the trained model to model.safetensors. Returns its sha256."""
        arrays = {f"server.{name}": array for name, array in arrays_of(state).items()}
        store.write_arrays(self.path / "model.safetensors", arrays, run=self.terms.run)
        return model_sha256(arrays)

    def status(self, said: Mapping[str, Any]) -> None:
        """Write the server's status for people to read. After a disk error the status of the last
        successful write stays, and `disk` says so."""
        self.said = {**said, **self.standing()}
        try:
            write_text(self.path / STATUS, json.dumps({"pid": os.getpid(), **self.said}, indent=1))
            self.disk.wrote(STATUS)
        except OSError as cause:
            self.disk.failed(STATUS, cause)

    def standing(self) -> dict[str, Any]:
        """The figures that an operator watches in addition to the rounds: when the last round was
        committed (seconds since 1970), how many writes have failed, and this package's version."""
        return {
            "committed": round(self.committed, 3),
            "disk_errors": self.disk.errors,
            "version": __version__,
        }

    def trouble(self) -> Trouble | None:
        """Why the server cannot do its work now: a round was halted, as this process or the
        server's status says, or the disk takes nothing. None where nothing is known to be wrong."""
        said = self.said or told(self.path)
        if said.get("status") == HALTED:
            return Trouble(HALTED, str(said.get("reason", "")))
        return self.disk.trouble()

    def close(self) -> None:
        os.close(self._log)
        if self._lock is not None:
            os.close(self._lock)


def past_sums(folder: Path) -> tuple[PastSum, ...]:
    """`ServerFolder.summed` of a folder that need not be open."""
    path = folder / SUMS
    found = read_json(path)["sums"] if path.exists() else []
    return tuple(PastSum(bytes.fromhex(model), parties) for model, parties in found)


# ---- rounds to go back to ------------------------------------------------------------------------


def keep(folder: Path, number: int, counted: int, rounds: int) -> None:
    """Keep the checkpoint of round `number` under a second name, if it is a tenth part of all
    rounds after the last one that was kept.
    """
    kept = folder / f"kept-{PHASE}-{counted:09d}.safetensors"
    if counted % max(1, rounds // PARTS) == 0 and not kept.exists():
        os.link(folder / f"checkpoint-{PHASE}-{number:09d}.safetensors", kept)


def kept_rounds(folder: Path) -> dict[int, Path]:
    """The counts of rounds whose model a server still has, ascending, each with its file; 0 needs
    none.
    """
    found = {
        int(path.stem.rpartition("-")[2]): path
        for path in folder.glob(f"kept-{PHASE}-*.safetensors")
    }
    for path in sorted(folder.glob(f"checkpoint-{PHASE}-*.safetensors")):
        with suppress(EntrenousError):  # a damaged one is none to go back to
            _, about = store.read_arrays(path)
            found.setdefault(RoundCount.of(about, int(about["round"])).counted, path)
    return dict(sorted(found.items()))


def choose_kept(found: Mapping[int, Path], counted: int) -> None:
    """Raise InputError for a count of rounds whose model is not among those that were found."""
    if counted not in (0, *found):
        known = ", ".join(str(each) for each in sorted({0, *found}))
        raise InputError(
            "--rounds", f"the model of round {counted} is not kept", expected=f"one of {known}"
        )


def drop_models(folder: Path, above: int, but: int = -1) -> None:
    """Deletes the kept models of more rounds than `above`, and the trained one. but: the number of
    the only checkpoint that stays; -1 = no checkpoint is deleted."""
    for path in folder.glob(f"kept-{PHASE}-*.safetensors"):
        if int(path.stem.rpartition("-")[2]) > above:
            path.unlink(missing_ok=True)
    for path in folder.glob(f"checkpoint-{PHASE}-*.safetensors"):
        if but >= 0 and int(path.stem.rpartition("-")[2]) != but:
            path.unlink(missing_ok=True)
    (folder / "model.safetensors").unlink(missing_ok=True)


def rewind(folder: Path, number: int) -> int:
    """Make the model after `number` rounds the newest one of a server that is not running. Returns
    how many rounds it had done.

    Raises InputError for a round that is not kept, and for a server at work.
    """
    with holding(folder / "lock"):
        found = kept_rounds(folder)
        choose_kept(found, number)
        newest = folder / f"checkpoint-{PHASE}-{number:09d}.safetensors"
        if number and not newest.exists():
            os.link(found[number], newest)
        later = [path for each, path in found.items() if each > number] + list(
            folder.glob(f"checkpoint-{PHASE}-*.safetensors")
        )
        for path in (*later, *folder.glob("round-*.journal"), folder / "model.safetensors"):
            if path != newest or not number:
                path.unlink(missing_ok=True)
    return max((0, *found))


def _clean(path: Path) -> None:
    """Removes what writes that were cut short have left, and sees whether files can be made here.
    Raises OSError.
    """
    for left in path.glob(".*.tmp"):
        left.unlink(missing_ok=True)
    probe = path / ".writable.tmp"
    os.close(os.open(probe, os.O_WRONLY | os.O_CREAT, 0o600))
    probe.unlink()


def _next_start(path: Path) -> int:
    """A number above that of every start before: of the clock, so that a folder restored from a
    backup has one too. Raises OSError.
    """
    before = path.read_text() if path.exists() else ""
    start = max(int(before) + 1 if before.strip().isdigit() else 0, int(time.time()))
    write_text(path, str(start))
    return start


def _unwritable(path: Path, cause: OSError) -> InputError:
    if may_pass(cause):
        return NotYet(
            str(path),
            f"cannot be written ({cause.strerror})",
            fix="make room; it goes on from where it was",
        )
    fix = "choose a folder that this user may write to"
    return InputError(
        str(path), f"cannot be written ({cause.strerror})", expected="a writable folder", fix=fix
    )


def told(folder: Path) -> dict[str, Any]:
    """The status that a server last wrote about itself; {} before its first word, and where it
    cannot be read.
    """
    try:
        return dict(json.loads((folder / STATUS).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def _newest_write(path: Path) -> float:
    """Returns the time at which the newest checkpoint of a server's folder was written, in seconds
    since 1970; 0 if there is none.
    """
    return max(
        (found.stat().st_mtime for found in path.glob(f"checkpoint-{PHASE}-*.safetensors")),
        default=0.0,
    )


class Logged(Protocol):
    """A folder that has a log and knows how its disk is."""

    @property
    def disk(self) -> DiskHealth: ...
    def log(self, text: str) -> None: ...


def kept(folder: Logged, what: str, act: Callable[[], T], pause: Callable[[float], None]) -> T:
    """Write something by calling `act`, and return its result. While the disk fails nothing counts,
    and it is tried again every second.
    """
    while True:
        try:
            found = act()
            folder.disk.wrote(what)
            return found
        except OSError as cause:
            folder.disk.failed(what, cause)
            line = f"{what} cannot be written ({failed(cause)}); nothing was counted; trying again"
            folder.log(LogLine(line, "disk", level="error"))
            pause(1.0)
