"""`Device`: a node or a peer held open by an app or a program on its own machine. It recommends to
the node's own users, and takes what happens to them: a row, a wish to forget, an item that nobody
should recommend again. Nothing is sent to anybody here.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from threading import Lock
from time import time as now
from typing import NamedTuple, Self, TypedDict, final

import numpy as np

from entrenous.core.contract.protocols import Scorer
from entrenous.core.errors import EntrenousWarning, InputError
from entrenous.core.keywords import at_least
from entrenous.core.printed import counted
from entrenous.core.types import Array, BoolArray
from entrenous.data.events import LARGEST, LATEST
from entrenous.data.interactions import NO_TIME, SECOND, Interactions
from entrenous.evaluation.recommend import Allowed, Recommended
from entrenous.evaluation.recommend import recommend as best_items

from ..agreement.files import read_json
from ..agreement.terms import TERMS, FederationTerms
from ..frames.row_tests import RowTests, ranked
from ..node.common import Common
from ..node.node import FederatedNode
from ..node.node_store import CHANGES, NODE, PAUSED, AddedRow, NodeStore, check_times
from ..peers.folder import PeerFolder
from .plans import JoinPlan, TrialProfile
from .receipt import NodeReceipt, receipt_of_node
from .shop import devices_of, name_of

MOST_LISTED = 100  # items of a list


class NodeRecommendations(NamedTuple):
    """The recommendations of a node."""

    user: str
    """The user's external id."""
    round: int
    """The round of the model; of a peer the number of its pushes."""
    items: list[Recommended]
    """The items, best first."""


class OwnRow(TypedDict):
    """A row of a user, as it is given back to the user."""

    user: str
    item: str
    title: str
    value: float
    time: float | None
    """Seconds since 1970; None if it is not known."""


@final
class Device:
    """A node or a peer that is held open on its own machine, also while another process runs it.

    A newer model, and what other processes write, count from the next call on. Calls from several
    threads take turns. `close` it, or use it in `with`. In each method, user: an external id of the
    node's; None = its first, which on a device of one person is that person.

    common: what it shares with other devices of its process and federation. Raises InputError for
    a folder that is no node's.
    """

    def __init__(self, folder: Path | str, *, common: Common | None = None) -> None:
        self._folder = Path(folder)
        self._node: FederatedNode | PeerFolder
        if FederationTerms.read(self._folder / TERMS).has_server:
            self._node = FederatedNode(self._folder, common=common)
        else:
            self._node = PeerFolder(self._folder)
        place = str(read_json(self._folder / NODE).get("algorithm", ""))
        warning = self._node.terms.other_source(place)
        if warning:
            warnings.warn(warning, EntrenousWarning, stacklevel=2)
        # The federation's numbers of the node's users.
        self._numbers = self._node.store.users
        self._seen = (-1, -1)  # the version of the store that `_model` was read from
        self._model: tuple[int, Scorer] | None = None
        # SQLite's connections and a node's arrays serve one thread at a time.
        self._turn = Lock()

    @classmethod
    def join(
        cls,
        folder: Path | str,
        link: str,
        *,
        profile: TrialProfile = "private",
        people: int = 100,
        tell: Callable[[str], None] = lambda line: None,
    ) -> Self:
        """Joins a federation by a link, as a person without rows, and opens the new device.

        profile: with "paper" this device joins also where all that it sends can be read. people:
        this device sends nothing to a sum over fewer. tell: is called with the lines of what the
        owner agrees to, before the server hears of the device. Raises InputError for a link that
        leads nowhere, and for terms that others can see through. Not to be called from an event
        loop.
        """
        from .joining import join_by_link  # with the network's libraries

        plan = JoinPlan(profile=profile, people=people)
        join_by_link(Path(folder), link, None, plan, tell)
        return cls(folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the node's store."""
        self._node.close()

    @property
    def users(self) -> list[str]:
        """The external ids of the node's users."""
        return [str(user) for user in self._node.rows.users.ids]

    # ---- recommending ----------------------------------------------------------------------------

    def recommend(
        self,
        n: int = 10,
        *,
        only: Collection[str] | None = None,
        without: Collection[str] = (),
        scores: bool = False,
        user: str | None = None,
    ) -> NodeRecommendations:
        """Recommends n items that a user does not have, by the newest model.

        n: at most 100, since a longer list tells more of the history that it leaves out. only: ids
        of the items to choose from, such as those in stock; None = all. without: ids of items to
        leave out. Items of `not_for_me` are left out too. scores: False = they are None; with them
        a list tells which items its user has.

        Raises InputError for a node that has no model yet, for a user of another node, and for an
        unknown item.
        """
        at_least("n", n, 1)
        if n > MOST_LISTED:
            raise InputError("n", f"got {n}", expected=f"at most {MOST_LISTED} items")
        # A list cannot be longer than the catalogue.
        with self._turn:
            place = self._place(user)
            number, recommender = self._newest()
            node = self._node
            n = min(n, len(node.items.ids))
            best = best_items(
                recommender,
                node.rows,
                np.array([place]),
                n,
                # The rows of a few users do not tell which items others have.
                allowed=Allowed(self._allowed(place, only, without)),
                label=node.terms.algorithm,
                seed=node.terms.seed,
            )
            ids = node.items.ids
            titles = node.items.titles
            places = best.item[0].tolist()
            items: list[Recommended] = [
                {"item": ids[i], "title": titles[i], "score": float(score) if scores else None}
                for i, score in zip(places, best.score[0], strict=True)
                # -1 fills the list of a user who has almost all items.
                if i >= 0
            ]
            return NodeRecommendations(node.rows.users[place], number, items)

    def _allowed(
        self, place: int, only: Collection[str] | None, without: Collection[str]
    ) -> BoolArray:
        """Returns the items that a list of a user may have, bool [items]."""
        # Every item counts as known: other nodes have trained on items that no user here has.
        allowed = np.ones(len(self._node.items.ids), np.bool_)
        if only is not None:
            allowed[:] = False
            allowed[[self._item(item) for item in only]] = True
        allowed[self._node.unrecommended()] = False
        left_out = [self._item(item) for item in without]
        left_out += self._store.unwanted(self._number(place))
        allowed[left_out] = False
        return allowed

    # ---- what happens to a user ------------------------------------------------------------------

    def consumed(
        self,
        item: str,
        value: float | None = None,
        time: float | None = None,
        *,
        user: str | None = None,
    ) -> None:
        """Adds a row: a user has consumed, bought or rated an item. It takes the place of the
        user's row of the same item. It is not recommended again, and counts in training from the
        next round on.

        value: a rating or a count; None = 1, where the algorithm predicts no ratings. time: seconds
        since 1970; None = now.

        Raises InputError for an unknown item or user, a value or time that is no number, a time
        before 1970 or more than a day ahead, a rating that is missing or not on the scale, and at a
        peer, whose rows are those that it joined with.
        """
        with self._turn:
            place = self._place(user)
            node = self._with_server()
            number = self._item(item)
            if value is None and node.contract.declaration.traits.predicts_ratings:
                problem = "a rating is missing"
                raise InputError("value", problem, expected="a rating on the scale of the data")
            checked = _checked("value", 1.0 if value is None else value, LARGEST)
            _check_ratings(node, "value", np.array([checked]))
            seconds = _checked("time", now() if time is None else time, LATEST / SECOND)
            row = AddedRow(self._number(place), number, checked, round(seconds * SECOND))
            check_times("time", np.array([row.time]))
            self._store.add_rows([row], self._tested([row]))

    def add(self, rows: Interactions, *, ignore_unknown: bool = False) -> int:
        """Adds the rows of several users, as `consumed` does; a row without a time gets that of
        now. Returns the number of rows added.

        ignore_unknown: leaves out rows of users who are not of this node, and of items that are not
        on the federation's list. Raises InputError for such rows otherwise, for ratings and times
        that `consumed` refuses, and at a peer; then nothing is added.
        """
        with self._turn:
            user, item = self._placed(rows, ignore_unknown)
            strange = (user < 0) | (item < 0)
            times = rows.time
            if times is None:
                times = np.full(len(rows), NO_TIME)
            times = np.where(times == NO_TIME, round(now() * SECOND), times)
            known = np.flatnonzero(~strange)
            if rows.row is not None:
                # In the order of their source, so that of a repeated item the last row stays.
                known = known[np.argsort(rows.row[known], kind="stable")]
            added = [
                AddedRow(self._number(user[r]), int(item[r]), float(rows.value[r]), int(times[r]))
                for r in known.tolist()
            ]
            self._store.add_rows(added, self._tested(added))
            return len(added)

    def _placed(self, rows: Interactions, ignore_unknown: bool) -> tuple[Array, Array]:
        """Returns the place of each row's user among the node's and the number of its item, -1 for
        unknown ones. Raises InputError for rows that `add` refuses.
        """
        node = self._with_server()
        user = node.rows.users.indices(rows.users.ids.tolist())[rows.user]
        ids = rows.items.ids.tolist()
        self._look_for(ids)
        item = node.items.vocabulary.indices(ids)[rows.item]
        strange = (user < 0) | (item < 0)
        if strange.any() and not ignore_unknown:
            raise _strangers(rows, user < 0, item < 0)
        _check_ratings(node, rows.name, rows.value)
        if rows.time is not None:
            check_times(rows.name, rows.time)
        return user, item

    def _tested(self, rows: list[AddedRow]) -> dict[int, RowTests]:
        """Tests rows that are about to be added, by user: ranks each by the newest model, which has
        learnt nothing of them. {} where the terms ask for no tests, and before the first model.

        A row of an item that its user has already tests nothing: no list would have had it.
        """
        node = self._with_server()
        if not node.terms.accuracy or not rows or self._store.model() is None:
            return {}
        _, scorer = self._newest()
        found = {}
        for user in sorted({row.user for row in rows}):
            place = int(np.searchsorted(self._numbers, user))
            had = node.rows.of_users(np.array([place])).item
            items = {row.item for row in rows if row.user == user}.difference(had.tolist())
            candidates = self._allowed(place, None, ())
            candidates[had] = False
            (scores,) = scorer.scores(np.array([place]))
            found[user] = ranked(scores, candidates, np.array(sorted(items), np.int64))
        return found

    def forget(self, item: str | None = None, *, user: str | None = None) -> int:
        """Deletes a user's row of an item; without an item all rows, the private vector that was
        learnt from them, and what `not_for_me` left out. Returns the number of rows.

        Whatever leaves the node later was made without these rows, and the node's file has no byte
        of them. The model of the federation has learnt from what left before, and a private vector
        from a single row that is forgotten: neither can be undone here.

        Raises InputError for an unknown item or user, and at a peer.
        """
        with self._turn:
            place = self._place(user)
            node = self._with_server()
            number = None if item is None else self._item(item)
            anew = partial(node.begin_again, place) if item is None else None
            gone = self._store.forget(self._number(place), number, anew)
            return gone

    def not_for_me(self, item: str, *, user: str | None = None) -> None:
        """Leaves an item out of all lists of a user from now on. Training does not learn of it.
        Raises InputError for an unknown item or user.
        """
        with self._turn:
            number = self._number(self._place(user))
            self._store.leave_out(number, self._item(item))

    def pause(self, *, user: str | None = None) -> None:
        """Stops the node's answers until `take_part`: nothing of a user leaves it. It still
        recommends, and takes newer models where the server sends them to all.

        Raises InputError at a peer, for an unknown user, and for one of several users: a node
        pauses as a whole.
        """
        with self._turn:
            self._pausing(user).note(PAUSED, "paused")

    def take_part(self, *, user: str | None = None) -> None:
        """Ends a `pause`. Raises InputError as `pause` does."""
        with self._turn:
            self._pausing(user).note(PAUSED, "")

    def _pausing(self, user: str | None) -> NodeStore:
        """Returns the store of a node whose pause is the user's. Raises InputError."""
        self._place(user)
        if user is not None and len(self._numbers) > 1:
            problem = f"this node has {len(self._numbers)} users, who pause together"
            raise InputError("user", problem, fix="name none")
        return self._with_server().store

    # ---- what a user may see ---------------------------------------------------------------------

    def receipt(self, *, user: str | None = None) -> NodeReceipt:
        """Returns what has left the device of a user so far, and what that tells, as `entrenous
        receipt --json` prints it. Raises InputError for an unknown user.
        """
        with self._turn:
            place = self._place(user)
        return receipt_of_node(self._folder, self._node.rows.users[place])

    def export(self, *, user: str | None = None) -> list[OwnRow]:
        """Returns all rows of a user, in the order in which they came. Raises InputError for an
        unknown user.
        """
        with self._turn:
            place = self._place(user)
            items = self._node.items
            return [
                OwnRow(
                    user=self._node.rows.users[place],
                    item=items.ids[row.item],
                    title=items.titles[row.item],
                    value=row.value,
                    time=None if row.time is None else row.time / SECOND,
                )
                for row in self._store.rows_of(self._number(place))
            ]

    # ---- the node --------------------------------------------------------------------------------

    @property
    def _store(self) -> NodeStore:
        return self._node.store

    def _with_server(self) -> FederatedNode:
        """Returns the node. Raises InputError at a peer."""
        if isinstance(self._node, PeerFolder):
            raise InputError(
                str(self._folder),
                "a peer's rows are those that it joined with, and it pushes while it runs",
                expected="the folder of a node with a server",
            )
        return self._node

    def _item(self, item: str) -> int:
        """Returns the number of an item. Raises InputError for an unknown one."""
        self._look_for([item])
        return self._node.items.vocabulary.index(item)

    def _look_for(self, items: list[str]) -> None:
        """Reads the node anew if it does not know some items: its list may have grown since."""
        strange = self._node.items.vocabulary.indices(items) < 0
        if strange.any() and isinstance(self._node, FederatedNode):
            self._node.refresh()

    def _number(self, place: int) -> int:
        """Returns the federation's number of a user."""
        return int(self._numbers[place])

    def _place(self, user: str | None) -> int:
        """Returns where a user is among the node's. Raises InputError, which names no other user:
        its reader may be none of them.
        """
        if user is None:
            return 0
        place = int(self._node.rows.users.indices([user])[0])
        if place < 0:
            problem = "no user of this node has that id"
            raise InputError("user", problem, expected="an id of the rows that it joined with")
        return place

    def _newest(self) -> tuple[int, Scorer]:
        """Returns the newest model, read again only when the store was written to."""
        # SQLite's number tells of other connections alone, the count of changes of this one too.
        version = self._store.version(), self._store.count(CHANGES)
        if self._model is None or version != self._seen:
            # Rows are read once when they have changed; a model comes with every round.
            if isinstance(self._node, FederatedNode):
                self._node.refresh()
            self._model = self._node.recommender()
            self._seen = version
        return self._model


def add_to_shop(folder: Path, rows: Interactions, *, ignore_unknown: bool = False) -> int:
    """Adds new rows to the devices of a shop's customers, as `Device.add`. Returns the number of
    rows added. Raises InputError, before any is added, for rows that `Device.add` refuses, and for
    those of somebody who is no customer, unless these are left out with `ignore_unknown`.
    """
    known = set(devices_of(folder))
    of_customers = []
    for number, user in enumerate(rows.users.ids.tolist()):
        device = folder / name_of(user)
        if device in known:
            own = rows.of_users(np.array([number]))
            with Device(device) as opened:
                opened._placed(own, ignore_unknown)
            of_customers.append((device, own))
        elif not ignore_unknown:
            raise InputError(
                rows.name,
                f"user {user} is no customer of {folder}",
                expected="rows of its customers",
                fix="join with a link and the rows of new ones, or leave them out:"
                " --ignore-unknown",
            )
    added = 0
    for device, own in of_customers:
        with Device(device) as opened:
            taken = opened.add(own, ignore_unknown=ignore_unknown)
        added += taken
    return added


def recommend(folder: Path, user: str | None, n: int, scores: bool = False) -> NodeRecommendations:
    """Recommends n items to one of a node's users, once; see `Device`."""
    with Device(folder) as device:
        return device.recommend(n, scores=scores, user=user)


def _strangers(rows: Interactions, of_users: BoolArray, of_items: BoolArray) -> InputError:
    """Returns the error of rows whose user or item a node does not know. marks: bool [rows]."""
    counts = []
    for ids, number, marks in (
        (rows.users, rows.user, of_users),
        (rows.items, rows.item, of_items),
    ):
        if marks.any():
            first = ids[number[np.argmax(marks)]]
            strange = counted(int(marks.sum()), "row")
            counts.append(f"{strange} of an unknown {ids.kind}, first '{first}'")
    return InputError(
        rows.name,
        "; ".join(counts),
        expected="users of this node, and items of the federation's list",
        fix="leave these rows out of the file, or say --ignore-unknown",
    )


def _check_ratings(node: FederatedNode, where: str, values: Array) -> None:
    """Raises InputError for a value outside the scale, where the node predicts ratings."""
    low, high = node.terms.scale
    outside = values[(values < low) | (values > high)]
    if len(outside) and node.contract.declaration.traits.predicts_ratings:
        expected = f"a rating from {low:g} to {high:g}, as the terms say"
        raise InputError(where, f"a rating is {outside[0]:g}", expected=expected)


def _checked(name: str, number: float, most: float) -> float:
    """Returns a number as a float. Raises InputError unless it is finite and within `most`."""
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    if not is_number or not math.isfinite(number) or abs(number) > most:
        raise InputError(name, f"is {number!r:.40}", expected=f"a number within {most:g}")
    return float(number)
