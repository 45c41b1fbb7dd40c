"""What left the devices of a node: counted as it leaves, kept in the node's own store, and shown to its users as receipts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, final

import numpy as np

from ..core.errors import InputError
from ..core.own import short
from ..core.types import Int64Array
from ..core.update import Update
from ..data.interactions import Interactions
from ..federation.replay import PUSH
from ..privacy.told import expected, in_words
from .files import read_json
from .node_store import NODE, STORE, LeftDevice, NodeStore
from .terms import TERMS, FederationTerms

SINGLY = "the server could read each message by itself"
GATEWAY = "this node added its users up before anything left it: the server saw sums of {} users, and nothing of one alone"
MASKED = "the server saw masked sums of several nodes, of at least {} people and {} parties"
NEVER = "nothing of this user has left this node so far"
WHOLE = "each answer has numbers for every item at once, made from the whole history: rows are not counted"
UNCOUNTED = "rows were not counted: draws are public, so that others can work out what each device drew"
NO_PROOF = "no guarantee: there is no differential privacy"
PROOF = "differential privacy: epsilon {:.3g} at delta {:g} so far, if {} people in each sum add their noise and keep it to themselves"
PEER = "each push was the whole model of this peer; it holds what the peer has trained on, and whom it went to can read it"


class SentCount(NamedTuple):
    """How many rows one device sent, how many of them of items that its user has consumed (both None: numbers for all items came at once,
    and no row by itself), and how many numbers in all."""

    rows: int | None
    positives: int | None
    numbers: int


@final
class UpdateTally:
    """Counts what the devices of a node send, when they send it. rows: the histories of the node's users, row r that of users[r]."""

    def __init__(self, rows: Interactions, users: Int64Array) -> None:
        self._rows, self._users = rows, users
        self._counts: dict[int, SentCount] = {}
        self._turn = Lock()

    def sent(self, users: Int64Array, update: Update) -> None:
        """Counts the updates of some devices; of one that is trained again, the newest."""
        arrays = (*update.dense.values(), *update.shown.values())
        beside = sum(int(np.prod(array.shape[1:], dtype=np.int64)) for array in arrays)
        width = sum(int(np.prod(row.shape[1:], dtype=np.int64)) for row in update.rows.values())
        items = len(self._rows.items)
        at_once = not update.rows and any(array.shape[1:2] == (items,) for array in update.dense.values())
        for place, user in enumerate(users.tolist()):
            item = update.item[update.ptr[place] : update.ptr[place + 1]]
            own = self._rows.of_users(np.searchsorted(self._users, [user])).item
            found = SentCount(len(item), int(np.isin(item, own).sum()), width * len(item) + beside)
            found = found._replace(rows=None, positives=None) if at_once else found
            with self._turn:
                self._counts[user] = found

    def taken(self) -> dict[int, SentCount]:
        """The counts since the last time, by user."""
        with self._turn:
            found, self._counts = self._counts, {}
        return found


def of_users(number: int, users: Int64Array, counts: Mapping[int, SentCount] | None) -> list[LeftDevice]:
    """The entries of a round for the store. counts: by user, None = nobody counted; a user without one sent what it had sent before, which
    tells nothing new."""
    people = len(users)
    if counts is None:
        return [LeftDevice(number, user, None, None, None, people) for user in users.tolist()]
    again = SentCount(0, 0, 0)
    found = ((user, counts.get(user, again)) for user in users.tolist())
    return [LeftDevice(number, user, one.rows, one.positives, one.numbers, people) for user, one in found]


def receipt_of_node(folder: Path, user: str) -> dict[str, Any]:
    """The receipt of one user of a node, as `entrenous receipt --json` prints it. Raises InputError for a user who is not of this node."""
    about, terms = read_json(folder / NODE), FederationTerms.read(folder / TERMS)
    store = NodeStore(folder / STORE)
    try:
        number = store.user_number(user)
        if number is None:
            raise InputError("--user", f"unknown user '{user}'", expected=f"one of the {len(store.users)} users of this node")
        left = store.given_away(number) if terms.has_server else _pushes(store, number)
        (history,) = store.connection.execute("select count(*) from row where user = ?", (number,)).fetchone()
    finally:
        store.close()
    algorithm = short(terms.algorithm)
    profile = terms.profile
    said = {
        "node": about["name"],
        "user": user,
        "algorithm": algorithm,
        "data": str(folder),
        "profile": profile,
        "history": history,
    }
    rounds = [{name: getattr(one, name) for name in ("round", "rows", "positives", "numbers")} for one in left]
    sums = {name: _sum([one[name] for one in rounds]) for name in ("rows", "positives", "numbers")}
    uncounted = UNCOUNTED if terms.draws == "public" else WHOLE
    sentences = [_sentence(terms, left), *([uncounted] if terms.has_server and None in [one.rows for one in left] else [])]
    least = max(terms.protection.people, int(about.get("floors", {}).get("people", 1)))
    epsilon = terms.proven(least, len(rounds))
    proof = NO_PROOF if epsilon is None else PROOF.format(epsilon, terms.protection.delta, least)
    known = expected(algorithm, profile, len(rounds), terms.settings, dict(terms.protection) if terms.has_server else {})
    told = in_words(known["expected"], history)
    return {
        **said, "rounds": rounds, "rounds_answered": len(rounds), **sums, "sentences": [*sentences, *told, proof], "epsilon": epsilon,
        **known,
    }  # fmt: skip


def _pushes(store: NodeStore, number: int) -> list[LeftDevice]:
    """The pushes of a peer, which its store has as events."""
    found = store.connection.execute(f"select push from event where kind = {PUSH} order by number").fetchall()
    return [LeftDevice(int(push), number, None, None, None, 1) for (push,) in found]


def _sentence(terms: FederationTerms, left: Sequence[LeftDevice]) -> str:
    """Who could see what left."""
    if not left:
        return NEVER
    if not terms.has_server:
        return PEER
    if terms.masked:
        return MASKED.format(terms.protection.people, terms.protection.parties)
    least = min((one.people for one in left), default=1)
    return SINGLY if least == 1 else GATEWAY.format(least)


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
