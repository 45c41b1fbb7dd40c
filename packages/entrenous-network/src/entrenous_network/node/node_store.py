"""The store of a node, in one SQLite file: its users' rows, and what the node has learnt from them.

With a server that is the users' private vectors and the answers that the node has last given; a
peer uses the tables of entrenous_network/peers/state.py.

A round's new private state and the answer made with it are written in one transaction, before the
answer leaves. So a node that dies at any moment gives the same answer again when it is asked again,
and trains nobody twice.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from time import time as now
from typing import Any, NamedTuple, final

import numpy as np
from pydantic import TypeAdapter, ValidationError

from entrenous.core.errors import EntrenousError, InputError, NotYet, may_pass
from entrenous.core.files import write_private
from entrenous.core.types import Array, Int64Array
from entrenous.data.interactions import (
    NO_TIME,
    SECOND,
    Interactions,
    Vocabulary,
    build,
)
from entrenous.data.visits import VisitColumns, visit_columns, with_visits

from ..agreement.catalogue import Items
from ..agreement.files import FORMAT, check_format, missing
from ..frames.row_tests import RowTests
from ..secure_sum.party_list import PartyList
from ..secure_sum.terms import Floors

STORE = "store.sqlite"
NODE = "node.json"  # the decisions of a node's owner, and the address of the server
# Private states and answers of so many newest rounds are kept: a server may ask for a round again,
# and a request may come twice.
KEPT = 4
# Facts that change while a node lives: how often its rows have changed, how often some of them were
# forgotten, whether its owner has paused it, and what a user wants no more (a JSON list of item
# numbers, by user).
CHANGES = "changes"
FORGOTTEN = "forgotten"
PAUSED = "paused"
UNWANTED = "unwanted {}"
# Tests of a user's new rows, `RowTests`, that no answer has carried yet.
TESTED = "tested {}"
AHEAD = 86_400 * SECOND  # microseconds by which the time of a row may be ahead of the clock here
NO_TESTS: Mapping[int, RowTests] = {}  # nobody writes to it
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
                         people integer not null, time integer) strict;
create table summed (round integer primary key, model blob not null,
                     parties text not null) strict;
create table masked (one integer primary key check (one = 1), model blob not null,
                     vector blob not null) strict;
"""


class GivenAnswer(NamedTuple):
    """An answer that a node gave."""

    round: int
    asked: bytes
    """The sha256 of the request."""
    frame: bytes


class MaskedVector(NamedTuple):
    """The message that a node put under masks last."""

    model: bytes
    """The sha256 of the model from which its device trained."""
    vector: Int64Array
    carries: RowTests | None = None
    """The tests in it that no answer has carried before; of one from the store none."""


class LeftDevice(NamedTuple):
    """The counts of what left one device in one round; None where nothing was counted."""

    round: int
    user: int
    rows: int | None
    """Rows of items."""
    positives: int | None
    """Rows of items that its user has consumed."""
    numbers: int | None
    """Numbers in all arrays."""
    people: int
    """Users in the sum that left the node; 1 = the update left singly."""
    time: int | None = None
    """Seconds since 1970; None where nobody noted it."""


# Makes another private state of all users of one, arrays by name.
Anew = Callable[[dict[str, Array]], Mapping[str, Array]]


class AddedRow(NamedTuple):
    """A row that comes to a node."""

    user: int
    """The federation's number."""
    item: int
    value: float
    time: int
    """Microseconds since 1970."""


class StoredRow(NamedTuple):
    """A row of a node's user."""

    item: int
    value: float
    time: int | None
    """Microseconds since 1970; None if it is not known."""


class RowsForgotten(Exception):
    """Raised where an answer was made with rows that were forgotten meanwhile."""


class StoreStanding(NamedTuple):
    """The progress of a node."""

    rounds: int
    """The rounds that it has trained in or missed."""
    model: int | None
    """The round of its newest model; None before the first."""


@final
class NodeStore:
    """The SQLite file of one node, readable by its owner alone. Use it from one thread at a
    time.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            raise missing(path)
        try:
            self.connection = _connected(path)
            number = self.fact("format")
        except sqlite3.DatabaseError as bad:
            if may_pass(bad):
                problem = f"cannot be used now ({bad})"
                fix = "make room, or wait; nothing is lost"
                raise NotYet(str(path), problem, fix=fix) from None
            raise EntrenousError(
                f"{path}: cannot be read ({bad}); restore it from a backup, or enrol the node anew"
            ) from None
        check_format(path, number)
        noted = self.connection.execute("select name from pragma_table_info('given_away')")
        # Older stores have no times of answers.
        if ("time",) not in noted.fetchall():
            self.connection.execute("alter table given_away add column time integer")

    @staticmethod
    def create(path: Path, rows: Interactions, users: Int64Array) -> NodeStore:
        """Makes a new store with the rows of a node's users. users: int64 [m], ascending: the
        federation's numbers of rows.users, in their order."""
        # Made empty first, so that nobody else can read it from the first byte on.
        write_private(path, b"")
        # The secret is drawn here, on the node, and never leaves this file.
        secret = str(secrets.randbits(256))
        facts = {"format": str(FORMAT), "secret": secret}
        times: list[int | None] = [None] * len(rows)
        if rows.time is not None:
            times = rows.time.tolist()
        # The order of the rows in their source, which breaks ties in time.
        sources = list(range(len(rows)))
        if rows.row is not None:
            sources = rows.row.tolist()
        owners = users[rows.user]
        items = rows.item
        values = rows.value
        columns = (owners.tolist(), items.tolist(), values.tolist(), times, sources)
        visits = visit_columns(rows)
        db = _connected(path)
        with db:
            db.executescript(TABLES)
            # Whole, or not at all: a store without all of its rows would train on a part of them.
            people = zip(users.tolist(), rows.users.ids.tolist(), strict=True)
            db.executemany("insert into fact values (?, ?)", facts.items())
            db.executemany("insert into user values (?, ?)", people)
            db.executemany("insert into row values (?, ?, ?, ?, ?)", zip(*columns, strict=True))
            if visits is not None:
                visitors = users[visits.user]
                visited = [visitors, visits.item, visits.time, visits.row]
                by_visit = zip(*(column.tolist() for column in visited), strict=True)
                db.executemany("insert into visit values (?, ?, ?, ?)", by_visit)
        db.close()
        return NodeStore(path)

    def _one(self, query: str, *values: Any) -> Any:
        """Returns the first row of a query; None if there is none."""
        return self.connection.execute(query, values).fetchone()

    # ---- the users and their rows ----------------------------------------------------------------

    def fact(self, name: str) -> str | None:
        """Returns the stored text of a name; None if nothing was stored under it."""
        row = self._one("select value from fact where name = ?", name)
        if row is None:
            return None
        return str(row[0])

    def note(self, name: str, value: str) -> None:
        """Stores a text under a name."""
        with self.connection as db:
            db.execute("insert or replace into fact values (?, ?)", (name, value))

    @property
    def users(self) -> Int64Array:
        """The federation's numbers of this node's users, int64 [m], ascending."""
        rows = self.connection.execute("select number from user order by number")
        return np.array([number for (number,) in rows], np.int64)

    @property
    def secret(self) -> int:
        """The number, of 256 bits, that the node's secret draws follow from."""
        return int(self.fact("secret") or 0)

    def rows(self, items: Items) -> Interactions:
        """Returns the rows of the node's users, without those of retired items, which nobody trains
        on. User r of the result is `users[r]`.
        """
        numbers = self.users
        query = self.connection.execute("select id from user order by number")
        ids = [name for (name,) in query]
        # In the order of their source, as a simulation reads them.
        query = self.connection.execute("select user, item, value, time from row order by source")
        retired = set(items.retired)
        table = [row for row in query if row[1] not in retired]
        user = np.array([row[0] for row in table], np.int64)
        time = None
        if any(row[3] is not None for row in table):
            times = [NO_TIME if row[3] is None else row[3] for row in table]
            time = np.array(times, np.int64)
        features: dict[str, Array] = {}
        if items.known is not None:
            features = dict(items.known.texts)
        if items.places is not None:
            latitudes, longitudes = items.places.astype(str).T
            features |= {"lat": latitudes, "lon": longitudes}
        data = build(
            np.searchsorted(numbers, user),
            [row[1] for row in table],
            value=[row[2] for row in table],
            time=time,
            users=Vocabulary(ids, kind="user"),
            items=items.vocabulary,
            features=features,
            name=str(self.path),
        )
        query = self.connection.execute("select user, item, time, source from visit")
        visits = [visit for visit in query if visit[1] not in retired]
        if not visits:
            return data
        visitor, item, visited, source = np.array(visits, np.int64).T
        columns = VisitColumns(np.searchsorted(numbers, visitor), item, visited, source)
        return with_visits(data, columns, str(self.path))

    # ---- what happens to a user ------------------------------------------------------------------

    def count(self, name: str) -> int:
        """Returns a stored count, such as CHANGES; 0 before the first."""
        return int(self.fact(name) or 0)

    def add_rows(self, rows: Sequence[AddedRow], tests: Mapping[int, RowTests] = NO_TESTS) -> None:
        """Stores rows, in their order, with the tests of them by user, all or none. Each row takes
        the place of its user's row of the same item, if there is one.
        """
        with self.connection as db:
            (source,) = db.execute("select coalesce(max(source), -1) from row").fetchone()
            (visit,) = db.execute("select max(source) from visit").fetchone()
            for place, row in enumerate(rows, start=1):
                stored = row.user, row.item, row.value, row.time, source + place
                db.execute("insert or replace into row values (?, ?, ?, ?, ?)", stored)
                # Where single visits are kept, a row is one more.
                if visit is not None:
                    visited = row.user, row.item, row.time, visit + place
                    db.execute("insert into visit values (?, ?, ?, ?)", visited)
            for user, tested in tests.items():
                self._note_tests(user, self.tests_of(user).plus(tested))
            self._add_one(CHANGES)

    def tests_of(self, user: int) -> RowTests:
        """Returns the tests of a user's new rows that no answer has carried yet."""
        return RowTests.parse(self.fact(TESTED.format(user)))

    def _note_tests(self, user: int, tests: RowTests) -> None:
        """Stores tests of a user, within the transaction of its caller."""
        stored = TESTED.format(user), tests.text()
        self.connection.execute("insert or replace into fact values (?, ?)", stored)

    def rows_of(self, user: int) -> list[StoredRow]:
        """Returns the rows of a user in the order in which they came."""
        query = "select item, value, time from row where user = ? order by source"
        return [StoredRow(*row) for row in self.connection.execute(query, (user,))]

    def unwanted(self, user: int) -> list[int]:
        """Returns the numbers of the items that a user wants no more."""
        return list(json.loads(self.fact(UNWANTED.format(user)) or "[]"))

    def leave_out(self, user: int, item: int) -> None:
        """Stores that a user wants an item no more."""
        items = {*self.unwanted(user), item}
        self.note(UNWANTED.format(user), json.dumps(sorted(items)))

    def forget(self, user: int, item: int | None, anew: Anew | None = None) -> int:
        """Deletes a user's row of an item, or all rows (None), from the file itself, and the
        answers that were made with them. Returns the number of rows.

        anew: makes the private state of all users from now on, arrays by name, of the newest one;
        None = it stays. Raises NotYet if the rows are deleted, and the log of writes still has
        their bytes, since another process reads from it.
        """
        which = "user = ?"
        named: tuple[int, ...] = (user,)
        if item is not None:
            which += " and item = ?"
            named += (item,)
        # Deleted cells are overwritten with zeros.
        self.connection.execute("pragma secure_delete = on")
        with self.connection as db:
            gone = db.execute(f"delete from row where {which}", named).rowcount
            db.execute(f"delete from visit where {which}", named)
            # Tests do not say of which rows they were.
            db.execute("delete from fact where name = ?", (TESTED.format(user),))
            # Nothing that was made with these rows may leave later: neither an answer that is asked
            # for again, nor a sum that waits for its masks.
            db.execute("delete from answer")
            db.execute("delete from masked")
            newest = "select max(round) from state"
            db.execute(f"delete from state where round < ({newest})")
            if anew is not None:
                # Read here, where no round can end meanwhile: its state would be lost.
                ((number, arrays),) = db.execute("select round, arrays from state")
                private = _blob(anew(_arrays(arrays)))
                db.execute("update state set arrays = ? where round = ?", (private, number))
                db.execute("delete from fact where name = ?", (UNWANTED.format(user),))
            self._add_one(FORGOTTEN)
            self._add_one(CHANGES)
        # Free pages and the log of writes still have the bytes of before.
        self.connection.execute("vacuum")
        (is_read, *_) = self.connection.execute("pragma wal_checkpoint(truncate)").fetchone()
        if is_read:
            problem = "the rows are deleted, and the log of writes still has their bytes"
            raise NotYet(str(self.path), problem, fix="forget once more")
        return int(gone)

    def _add_one(self, name: str) -> None:
        """Adds one to a count, within the transaction of its caller."""
        counted = (
            "insert into fact values (?, '1') on conflict (name) do update set value = value + 1"
        )
        self.connection.execute(counted, (name,))

    # ---- rounds ----------------------------------------------------------------------------------

    def state_before(self, number: int) -> dict[str, Array] | None:
        """Returns the private state of the users before round `number`, arrays by name; None if it
        is no longer stored.
        """
        query = "select arrays from state where round <= ? order by round desc limit 1"
        row = self._one(query, number)
        if row is None:
            return None
        return _arrays(row[0])

    def newest_state(self) -> tuple[int, dict[str, Array]] | None:
        """Returns the newest private state, arrays by name, with the number of the round that it
        precedes; None before the first.
        """
        return self._state("select round, arrays from state order by round desc limit 1")

    def _state(self, query: str) -> tuple[int, dict[str, Array]] | None:
        """Returns the first of some rows of a round and its arrays; None if there is none."""
        row = self._one(query)
        if row is None:
            return None
        number, arrays = row
        return int(number), _arrays(arrays)

    def standing(self) -> StoreStanding:
        """Returns how far the node is, without reading an array."""
        rounds, model = self._one(
            "select (select max(round) from state), (select max(round) from model)"
        )
        return StoreStanding(int(rounds or 0), model)

    def version(self) -> int:
        """Returns a number that changes when another connection has written to the store."""
        return int(self._one("pragma data_version")[0])

    def counted(self) -> tuple[int, int]:
        """Returns the number of users and of rows that the node has."""
        users, rows = self._one("select (select count(*) from user), (select count(*) from row)")
        return users, rows

    def begin(self, private: Mapping[str, Array]) -> None:
        """Stores the private state before the first round, arrays by name."""
        with self.connection:
            self.connection.execute("insert into state values (0, ?)", (_blob(private),))

    def answered(self, number: int) -> GivenAnswer | None:
        """Returns the answer that the node gave in round `number`; None if there is none."""
        row = self._one("select round, asked, frame from answer where round = ?", number)
        if row is None:
            return None
        return GivenAnswer(*row)

    def advance(
        self,
        given: GivenAnswer,
        private: Mapping[str, Array],
        download: Mapping[str, Array] | None,
        facts: Mapping[str, str],
        masked: MaskedVector | None = None,
        left: Sequence[LeftDevice] = (),
        forgotten: int | None = None,
    ) -> None:
        """Stores what a round changed, in one transaction: the private state, the answer, facts,
        what was put under masks, the model if all users received the same, and for receipts what
        left each device.

        forgotten: the count FORGOTTEN when the round's rows were read; None = it does not matter.
        Raises RowsForgotten, and stores nothing, if rows were forgotten since.
        """
        after = given.round + 1
        columns = ", ".join(LeftDevice._fields)
        # State and answer together: a node that dies between the two would train somebody twice.
        with self.connection as db:
            # A state of a later round, from before a rewind, would be taken for the newest.
            db.execute("delete from state where round > ?", (given.round,))
            # Looked at now, when no other process can write.
            if forgotten is not None and forgotten != self.count(FORGOTTEN):
                raise RowsForgotten
            db.execute("insert into state values (?, ?)", (after, _blob(private)))
            db.execute("delete from answer where round >= ?", (given.round,))
            db.execute("insert into answer values (?, ?, ?)", given)
            for table in ("state", "answer"):
                newest = f"select round from {table} order by round desc limit ?"
                db.execute(f"delete from {table} where round not in ({newest})", (KEPT,))
            db.executemany("insert or replace into fact values (?, ?)", facts.items())
            db.executemany(f"insert into given_away ({columns}) values (?, ?, ?, ?, ?, ?, ?)", left)
            if masked is not None:
                blobs = masked.model, masked.vector.tobytes()
                db.execute("insert or replace into masked values (1, ?, ?)", blobs)
                if masked.carries is not None:
                    user = int(self.users[0])
                    # Others may have come meanwhile.
                    told = self.tests_of(user).plus(masked.carries, times=-1)
                    self._note_tests(user, told)
            if download is not None:
                self._keep_model(given.round, download)

    def given_away(self, user: int) -> list[LeftDevice]:
        """Returns what has left the device of a user, in the order in which it left."""
        columns = ", ".join(LeftDevice._fields)
        query = f"select {columns} from given_away where user = ? order by number"
        return [LeftDevice(*row) for row in self.connection.execute(query, (user,))]

    def user_number(self, user: str) -> int | None:
        """Returns the federation's number of a user by external id; None for a user who is not of
        this node.
        """
        row = self._one("select number from user where id = ?", user)
        if row is None:
            return None
        return int(row[0])

    @property
    def first_user(self) -> str:
        """The external id of the node's first user; "" where it has none."""
        row = self._one("select id from user order by number")
        return "" if row is None else str(row[0])

    def masked(self) -> MaskedVector | None:
        """Returns what the node put under masks last; None before the first."""
        row = self._one("select model, vector from masked")
        if row is None:
            return None
        model, vector = row
        # Copied, so that it may be written to.
        return MaskedVector(model, np.frombuffer(vector, np.int64).copy())

    def past_sums(self) -> tuple[PartyList, ...]:
        """Returns the secure sums that the node has consented to, from the first one."""
        rows = self.connection.execute("select model, parties from summed order by round")
        return tuple(PartyList(model, tuple(json.loads(parties))) for model, parties in rows)

    def remember_sum(self, number: int, summed: PartyList) -> None:
        """Stores the secure sum of a round, before the node's consent leaves."""
        row = number, summed.model, json.dumps(summed.people)
        with self.connection:
            self.connection.execute("insert or replace into summed values (?, ?, ?)", row)

    def rewind(self, number: int) -> int:
        """Makes the newest private state the one before round `number`, for a server that goes on
        from an old backup. Returns the round before which that state was. Raises InputError for a
        round that is still to come.
        """
        row = self._one("select round, arrays from state order by round desc limit 1")
        newest, arrays = (0, b"") if row is None else row
        # There is one private state of now, and none of a round to come.
        if row is None or number > newest:
            problem = f"round {number} is still to come"
            raise InputError(str(self.path), problem, expected=f"at most {newest}")
        # The answers of the rounds to come again go, since their requests are for another model.
        with self.connection as db:
            db.execute("delete from answer where round >= ?", (number,))
            db.execute("delete from state")
            db.execute("insert into state values (?, ?)", (number, arrays))
        return int(newest)

    def receive_model(self, number: int, download: Mapping[str, Array]) -> None:
        """Stores a received model to recommend by, that of round `number`."""
        with self.connection:
            self._keep_model(number, download)

    def _keep_model(self, number: int, download: Mapping[str, Array]) -> None:
        self.connection.execute(
            "insert or replace into model values (1, ?, ?)", (number, _blob(download))
        )

    def model(self) -> tuple[int, dict[str, Array]] | None:
        """Returns the newest received model with its round; None before the first."""
        return self._state("select round, arrays from model")

    def copy(self, to: Path) -> None:
        """Copies the whole store, as it is at one moment, to a new file that its owner alone may
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


def floors_of(folder: Path, about: Mapping[str, Any]) -> Floors:
    """Returns the demands of a node's owner, as its node.json has them. Raises InputError for what
    `join` cannot have written. about: the content of that file.
    """
    try:
        floors = Floors(**about.get("floors", {}))
        # As JSON, in which no text passes for a number.
        return TypeAdapter(Floors).validate_json(json.dumps(asdict(floors)), strict=True)
    except (TypeError, ValidationError):
        expected = "numbers, as `entrenous federation join` writes them"
        fix = "put the file back from a copy of the folder, or join anew in a new folder"
        raise InputError(str(folder / NODE), "bad floors", expected=expected, fix=fix) from None


def check_times(where: str, times: Int64Array) -> None:
    """Raises InputError for rows from before 1970 or from the future. times: microseconds since
    1970, or NO_TIME.
    """
    known = times[times != NO_TIME]
    latest = now() * SECOND + AHEAD
    wrong = known[(known < 0) | (known > latest)]
    if len(wrong):
        raise InputError(
            where,
            f"a row is of {wrong[0] / SECOND:.0f} s since 1970",
            expected=f"at most {latest / SECOND:.0f}, a day from now",
            fix="correct the time, or this machine's clock",
        )


def _connected(path: Path) -> sqlite3.Connection:
    """Opens a store. Answers leave only after the disk has them: synchronous = full, in a
    write-ahead log."""
    db = sqlite3.connect(path, check_same_thread=False, timeout=10)
    db.execute("pragma journal_mode = wal")
    db.execute("pragma synchronous = full")
    return db


def _blob(arrays: Mapping[str, Array]) -> bytes:
    """Returns arrays as safetensors, which hold names, types and shapes, and nothing to run."""
    from safetensors.numpy import save

    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return save(contiguous)


def _arrays(blob: bytes) -> dict[str, Array]:
    """Returns arrays that this program has written, copied so that they may be overwritten."""
    from safetensors.numpy import load

    return {name: array.copy() for name, array in load(blob).items()}
