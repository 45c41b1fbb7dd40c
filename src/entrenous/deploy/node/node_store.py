"""What a node keeps to itself, in one SQLite file: its users' rows, and what it has learnt from
them.

With a server that is the users' private vectors and the answers that it has last given; a peer's
tables are those of peers/state.py.

A round's new private state and the answer made with it are written in one transaction, before the
answer leaves. So a node that dies at any moment gives the same answer again when it is asked again,
and trains nobody twice.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, final

import numpy as np

from ...core.errors import EntrenousError, InputError, NotYet, may_pass
from ...core.files import write_private
from ...core.types import Array, Int64Array
from ...core.vocabulary import Vocabulary
from ...data.interactions import NO_TIME, Interactions, build
from ...data.visits import VisitColumns, visit_columns, with_visits
from ...privacy.secure_sum.memory import PastSum, sharing
from ..agreement.catalogue import Items
from ..agreement.files import FORMAT, check_format

STORE, NODE = (
    "store.sqlite",
    "node.json",
)  # node.json: what its owner has decided, and where the server is
# private states and answers, of the newest rounds: a server may ask for a round again, and a
# request may come twice
KEPT = 4
TABLES = """
create table fact (name text primary key, value text not null) strict;
create table user (number integer primary key, id text not null) strict;
create table row (user integer not null, item integer not null, value real not null, time integer,
                  source integer not null, primary key (user, item)) strict, without rowid;
create table visit (user integer not null, item integer not null, time integer not null,
                    source integer not null) strict;
create table state (round integer primary key, arrays blob not null) strict;
create table answer (round integer primary key, asked blob not null, frame blob not null) strict;
create table model (one integer primary key check (one = 1), round integer not null,
                    arrays blob not null) strict;
create table peer (one integer primary key check (one = 1), arrays blob not null,
                   sha256 blob not null, about text not null) strict;
create table event (number integer primary key, kind integer not null, sender integer not null,
                    push integer not null, digest blob not null) strict;
create table met (number integer primary key, record blob not null) strict;
create table given_away (number integer primary key, round integer not null, user integer not null,
                         rows integer, positives integer, numbers integer,
                         people integer not null) strict;
create table summed (round integer primary key, model blob not null, parties text not null,
                     own blob not null) strict;
create table masked (one integer primary key check (one = 1), model blob not null,
                     users blob not null, vector blob not null) strict;
"""


class GivenAnswer(NamedTuple):
    """An answer that a node gave. asked: sha256 of the request."""

    round: int
    asked: bytes
    frame: bytes


class MaskedVector(NamedTuple):
    """What a node put under masks last. model: sha256 of what its devices trained from; users:
    int64; vector: int64.
    """

    model: bytes
    users: Int64Array
    vector: Int64Array


class LeftDevice(NamedTuple):
    """What left one device in one round. rows: of items; positives: of items that its user has
    consumed; numbers: in all arrays (None: not counted); people: in the sum that left the node, 1 =
    it left singly.
    """

    round: int
    user: int
    rows: int | None
    positives: int | None
    numbers: int | None
    people: int


class StoreStanding(NamedTuple):
    """How far a node is. rounds: before which its private state is, so many it has trained in or
    missed; model: the round of its newest model, None before the first; sums: secure sums that it
    remembers.
    """

    rounds: int
    model: int | None
    sums: int


@final
class NodeStore:
    """The SQLite file of one node, readable by its owner alone. Use it from one thread at a
    time.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            raise InputError(
                str(path),
                "no such store",
                expected="a node's folder",
                fix="make one with `entrenous federation new`",
            )
        try:
            self.connection = _connected(path)
            found = self.fact("format")
        except sqlite3.DatabaseError as bad:
            if may_pass(bad):
                raise NotYet(
                    str(path),
                    f"cannot be used now ({bad})",
                    fix="make room, or wait; nothing is lost",
                ) from None
            raise EntrenousError(
                f"{path}: cannot be read ({bad}); restore it from a backup, or enrol the node anew"
            ) from None
        check_format(path, found)

    @staticmethod
    def create(path: Path, rows: Interactions, users: Int64Array) -> NodeStore:
        """Make a new store with the rows of a node's users. users: int64 [m], ascending: the
        federation's numbers of rows.users, in their order."""
        write_private(path, b"")
        db = _connected(path)
        with db:
            db.executescript(TABLES)
            facts = {"format": FORMAT, "secret": secrets.randbits(256)}
            db.executemany(
                "insert into fact values (?, ?)",
                [(name, str(value)) for name, value in facts.items()],
            )
            db.executemany(
                "insert into user values (?, ?)",
                zip(users.tolist(), rows.users.ids.tolist(), strict=True),
            )
            times: list[int | None] = (
                [None] * len(rows) if rows.time is None else rows.time.tolist()
            )
            source = range(len(rows)) if rows.row is None else rows.row.tolist()
            columns = zip(
                users[rows.user].tolist(),
                rows.item.tolist(),
                rows.value.tolist(),
                times,
                source,
                strict=True,
            )
            db.executemany("insert into row values (?, ?, ?, ?, ?)", columns)
            if (visits := visit_columns(rows)) is not None:
                visited = (users[visits.user], visits.item, visits.time, visits.row)
                db.executemany(
                    "insert into visit values (?, ?, ?, ?)",
                    zip(*(c.tolist() for c in visited), strict=True),
                )
        db.close()
        return NodeStore(path)

    # ---- what it holds ---------------------------------------------------------------------------

    def fact(self, name: str) -> str | None:
        """The stored text of a name; None if nothing was stored under it."""
        found = self.connection.execute("select value from fact where name = ?", (name,)).fetchone()
        return None if found is None else str(found[0])

    def note(self, name: str, value: str) -> None:
        """Store a text under a name."""
        with self.connection:
            self.connection.execute("insert or replace into fact values (?, ?)", (name, value))

    @property
    def users(self) -> Int64Array:
        """The federation's numbers of this node's users, int64 [m], ascending."""
        return np.array(
            [
                number
                for (number,) in self.connection.execute("select number from user order by number")
            ],
            np.int64,
        )

    @property
    def secret(self) -> int:
        """The number, of 256 bits, that the node's secret draws follow from."""
        return int(self.fact("secret") or 0)

    def rows(self, items: Items) -> Interactions:
        """All rows of the node's users. User r of the result is `users[r]`."""
        numbers = self.users
        ids = [name for (name,) in self.connection.execute("select id from user order by number")]
        found = self.connection.execute(
            "select user, item, value, time from row order by source"
        ).fetchall()
        user, item, value, time = (
            (list(column) for column in zip(*found, strict=True)) if found else ([], [], [], [])
        )
        known = any(when is not None for when in time)
        places = items.places
        columns = (
            {}
            if places is None
            else {"lat": places[:, 0].astype(str), "lon": places[:, 1].astype(str)}
        )
        data = build(
            np.searchsorted(numbers, np.array(user, np.int64)),
            item,
            value=value,
            time=[NO_TIME if when is None else when for when in time] if known else None,
            users=Vocabulary(ids, kind="user"),
            items=items.vocabulary,
            features=columns,
            name=str(self.path),
        )
        visits = np.array(
            self.connection.execute("select user, item, time, source from visit").fetchall(),
            np.int64,
        ).reshape(-1, 4)
        if not len(visits):
            return data
        who = np.searchsorted(numbers, visits[:, 0])
        return with_visits(data, VisitColumns(who, *visits[:, 1:].T), str(self.path))

    # ---- rounds ----------------------------------------------------------------------------------

    def state_before(self, number: int) -> dict[str, Array] | None:
        """The private state of the users before round `number`, arrays by name; None if it is no
        longer stored.
        """
        found = self.connection.execute(
            "select arrays from state where round <= ? order by round desc limit 1", (number,)
        ).fetchone()
        return None if found is None else _arrays(found[0])

    def newest_state(self) -> tuple[int, dict[str, Array]] | None:
        """The newest private state, arrays by name, with the number of the round that it precedes;
        None before the first.
        """
        found = self.connection.execute(
            "select round, arrays from state order by round desc limit 1"
        ).fetchone()
        return None if found is None else (int(found[0]), _arrays(found[1]))

    def standing(self) -> StoreStanding:
        """How far the node is, without reading an array."""
        query = (
            "select (select max(round) from state), (select max(round) from model), (select"
            " count(*) from summed)"
        )
        rounds, model, sums = self.connection.execute(query).fetchone()
        return StoreStanding(int(rounds or 0), model, sums)

    def version(self) -> int:
        """A number that changes when another connection has written to the store."""
        return int(self.connection.execute("pragma data_version").fetchone()[0])

    def counted(self) -> tuple[int, int]:
        """How many users and how many rows the node has."""
        users, rows = self.connection.execute(
            "select (select count(*) from user), (select count(*) from row)"
        ).fetchone()
        return users, rows

    def begin(self, private: Mapping[str, Array]) -> None:
        """Store the private state before the first round, arrays by name."""
        with self.connection:
            self.connection.execute("insert into state values (0, ?)", (_blob(private),))

    def answered(self, number: int) -> GivenAnswer | None:
        """The answer that the node gave in round `number`; None if there is none."""
        found = self.connection.execute(
            "select round, asked, frame from answer where round = ?", (number,)
        ).fetchone()
        return None if found is None else GivenAnswer(*found)

    def advance(
        self,
        given: GivenAnswer,
        private: Mapping[str, Array],
        download: Mapping[str, Array] | None,
        facts: Mapping[str, str],
        masked: MaskedVector | None = None,
        left: Sequence[LeftDevice] = (),
    ) -> None:
        """Store what a round changed, in one transaction: the private state, the answer, facts,
        what was put under masks, the model if all users received the same, and for receipts what
        left each device.
        """
        after = given.round + 1
        with self.connection:
            self.connection.execute("delete from state where round > ?", (given.round,))
            self.connection.execute("insert into state values (?, ?)", (after, _blob(private)))
            self.connection.execute(
                "delete from state where round not in (select round from state order by round desc"
                " limit ?)",
                (KEPT,),
            )
            self.connection.execute("delete from answer where round >= ?", (given.round,))
            self.connection.execute("insert into answer values (?, ?, ?)", given)
            self.connection.execute(
                "delete from answer where round not in (select round from answer order by round"
                " desc limit ?)",
                (KEPT,),
            )
            self.connection.executemany("insert or replace into fact values (?, ?)", facts.items())
            columns = ", ".join(LeftDevice._fields)
            self.connection.executemany(
                f"insert into given_away ({columns}) values (?, ?, ?, ?, ?, ?)", left
            )
            if masked is not None:
                blobs = masked.model, masked.users.tobytes(), masked.vector.tobytes()
                self.connection.execute("insert or replace into masked values (1, ?, ?, ?)", blobs)
            if download is not None:
                self._keep_model(given.round, download)

    def given_away(self, user: int) -> list[LeftDevice]:
        """What has left the device of a user, in the order in which it left."""
        columns = ", ".join(LeftDevice._fields)
        return [
            LeftDevice(*row)
            for row in self.connection.execute(
                f"select {columns} from given_away where user = ? order by number", (user,)
            )
        ]

    def user_number(self, user: str) -> int | None:
        """The federation's number of a user by external id; None for one who is not of this
        node.
        """
        found = self.connection.execute("select number from user where id = ?", (user,)).fetchone()
        return None if found is None else int(found[0])

    def masked(self) -> MaskedVector | None:
        """What the node put under masks last; None before the first."""
        found = self.connection.execute("select model, users, vector from masked").fetchone()
        if found is None:
            return None
        return MaskedVector(
            found[0], np.frombuffer(found[1], np.int64), np.frombuffer(found[2], np.int64).copy()
        )

    def past_sums(self) -> tuple[PastSum, ...]:
        """The secure sums that the node has consented to, from the first one."""
        found = self.connection.execute(
            "select model, parties, own from summed order by round"
        ).fetchall()
        sums: list[PastSum] = []
        for model, parties, own in found:
            one = PastSum(
                model, json.loads(parties), frozenset(np.frombuffer(own, np.int64).tolist())
            )
            sums.append(sharing(reversed(sums), one))
        return tuple(sums)

    def remember_sum(self, number: int, summed: PastSum) -> None:
        """Store the secure sum of a round, before the node's consent leaves."""
        own = np.array(sorted(summed.own), np.int64).tobytes()
        with self.connection:
            self.connection.execute(
                "insert or replace into summed values (?, ?, ?, ?)",
                (number, summed.model, json.dumps(summed.parties), own),
            )

    def rewind(self, number: int) -> int:
        """Make the newest private state the one before round `number`, for a server that goes on
        from an old backup. Returns the round it was of. Raises InputError for a round that is still
        to come.
        """
        found = self.connection.execute(
            "select round, arrays from state order by round desc limit 1"
        ).fetchone()
        if found is None or number > found[0]:
            problem = f"round {number} is still to come"
            raise InputError(
                str(self.path), problem, expected=f"at most {found[0] if found else 0}"
            )
        with self.connection:
            self.connection.execute("delete from answer where round >= ?", (number,))
            self.connection.execute("delete from state")
            self.connection.execute("insert into state values (?, ?)", (number, found[1]))
        return int(found[0])

    def receive_model(self, number: int, download: Mapping[str, Array]) -> None:
        """Store a received model to recommend by, that of round `number`."""
        with self.connection:
            self._keep_model(number, download)

    def _keep_model(self, number: int, download: Mapping[str, Array]) -> None:
        self.connection.execute(
            "insert or replace into model values (1, ?, ?)", (number, _blob(download))
        )

    def model(self) -> tuple[int, dict[str, Array]] | None:
        """The newest received model with its round; None before the first."""
        found = self.connection.execute("select round, arrays from model").fetchone()
        return None if found is None else (int(found[0]), _arrays(found[1]))

    def copy(self, to: Path) -> None:
        """Copy the whole store, as it is at one moment, to a new file that its owner alone may
        read. Raises InputError if the file exists."""
        try:
            write_private(to, b"")
        except FileExistsError:
            raise InputError(str(to), "is there already", fix="choose another name") from None
        target = sqlite3.connect(to)
        self.connection.backup(target)
        target.close()

    def close(self) -> None:
        self.connection.close()


def _connected(path: Path) -> sqlite3.Connection:
    """Answers leave only after the disk has them: synchronous = full, in a write-ahead log."""
    db = sqlite3.connect(path, check_same_thread=False, timeout=10)
    db.execute("pragma journal_mode = wal")
    db.execute("pragma synchronous = full")
    return db


def _blob(arrays: Mapping[str, Array]) -> bytes:
    from safetensors.numpy import save

    return save({name: np.ascontiguousarray(array) for name, array in arrays.items()})


def _arrays(blob: bytes) -> dict[str, Array]:
    """Arrays of our own writing, copied so that they may be overwritten."""
    from safetensors.numpy import load

    return {name: array.copy() for name, array in load(blob).items()}
