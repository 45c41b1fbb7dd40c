"""`Served`: the lists, scores and predictions of a trained algorithm by external ids, as frames of
the caller's kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeAlias

import numpy as np

from ..core.errors import InputError
from ..core.keywords import at_least
from ..core.registry.discover import short
from ..core.types import Array, Int64Array
from ..data.interactions import Interactions, Vocabulary
from ..evaluate.list_options import ListOptions, Seen, Unknown
from ..evaluate.predict import predictions
from ..evaluate.recommend import competing_of, lists_of, score_blocks, title_of
from ..runs.newcomer import scores_for
from ..runs.recommenders import (
    Algorithm,
    CentralRecommender,
    FederatedRecommender,
    GossipRecommender,
)
from .arguments import FrameT, Ids, ids_asked, in_python
from .frames import frame_of, frame_of_records

Trained: TypeAlias = FederatedRecommender | GossipRecommender | CentralRecommender


class Served(Generic[FrameT]):
    """A trained algorithm with the rows it was trained on. Ids have the type that they had in the
    caller's frame.
    """

    manifest: dict[str, Any]
    """At least `algorithm`, `seed` and `rounds` of the training."""
    recommender: Trained
    train: Interactions
    frames: str
    """The library whose frames the results are."""

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm, with its settings made concrete for these rows."""
        return self.recommender.algorithm

    @property
    def name(self) -> str:
        """The algorithm's name in tables."""
        return short(self.manifest["algorithm"])

    def recommend(
        self,
        users: Ids | None = None,
        n: int = 10,
        *,
        items: Ids | None = None,
        without: Ids = (),
        seen: Seen = "hide",
        unknown: Unknown = "refuse",
    ) -> FrameT:
        """The n best items for one user, for several or (None) for all: a frame of `user`, `rank`,
        `item`, `title`, `score`, best first.

        users, items, without: an id, or a list of ids, as text or whole numbers. items: the
        candidates; None = all items with a training row. without: those that may not be
        recommended. seen: "hide" leaves out the items that a user has, "keep" lets them compete.
        unknown: "refuse" raises InputError that names the users and items which were not in
        training; "skip" warns of them and serves the others; "popular" gives such users the most
        popular items, whose score is null.
        """
        with in_python():
            options = ListOptions(
                items=None if items is None else ids_asked("items", items),
                without=ids_asked("without", without),
                seen=seen,
                unknown=unknown,
            )
            lists = lists_of(
                self.recommender,
                self.train,
                self._users(users),
                n,
                options,
                label=self.name,
                seed=self.manifest["seed"],
            )
        return self._lists(lists.users, lists.item, lists.score)

    def recommend_for(self, items: Ids, n: int = 10) -> FrameT:
        """The n best items for somebody who was not in training, from the items they have: a frame
        of `rank`, `item`, `title`, `score`.

        Their device trains on these items alone, as often as a device did on average, and sends
        nothing. Raises InputError for an unknown item, and for an algorithm that can do it for
        nobody but the users it was trained with.
        """
        with in_python():
            at_least("--n", n, 1)
            own = np.unique(self._items(items)).astype(np.int32)
            scores = scores_for(self.recommender, self.train, own, self.manifest, self.name)
        # Nobody is recommended the items that they have, nor an item of which nothing was learnt.
        scores[own] = -np.inf
        scores[self.train.popularity == 0] = -np.inf
        left = int(np.isfinite(scores).sum())
        best = np.argsort(-scores, kind="stable")[: min(n, left)]
        return self._lists(None, best[None, :], scores[best][None, :])

    def predict(self, user: Ids, *items: Ids) -> FrameT:
        """Predicted ratings of a user for some items, by their ids: a frame of what
        `evaluate.predict.predictions` describes.
        """
        with in_python():
            names = [name for each in items for name in ids_asked("items", each)]
            users = ids_asked("user", user)
            if len(users) != 1:
                raise InputError("user", f"got {len(users)} users", expected="one")
            rows = predictions(self.recommender, self.train, users[0], names, label=self.name)
        columns = {name: [row[name] for row in rows] for name in (rows[0] if rows else ("item",))}
        numbers = self.train.items.indices(columns["item"])
        return self._frame({**columns, "item": self.train.items.given[numbers]})

    def scores(self, users: Ids | None = None, items: Ids | None = None) -> FrameT:
        """The raw scores of items for users, the items that a user has too: a frame of `user`,
        `item`, `score`, with a row for each pair.

        users, items: ids; None = all in training. The scale is the algorithm's own; only the order
        of the scores of one user means something for all algorithms. Raises InputError for an
        unknown id.
        """
        with in_python():
            numbers = np.array([self.train.users.index(user) for user in self._users(users)], int)
            wanted = np.arange(len(self.train.items)) if items is None else self._items(items)
            blocks = score_blocks(
                self.recommender,
                self.train.users,
                len(self.train.items),
                numbers,
                label=self.name,
            )
            scores = np.concatenate([block[:, wanted] for _, block in blocks])
        columns = {
            "user": self.train.users.given[np.repeat(numbers, len(wanted))],
            "item": self.train.items.given[np.tile(wanted, len(numbers))],
            "score": scores.reshape(-1),
        }
        return self._frame(columns)

    def candidates(self, user: Ids, *, seen: Seen = "hide") -> FrameT:
        """The items that compete for the places in a user's list: a frame of `item`, `title`. seen:
        as of `recommend`. Raises InputError for an unknown user.
        """
        with in_python():
            (number,) = [self.train.users.index(name) for name in ids_asked("user", user)[:1]]
            competing = competing_of(self.train, number, ListOptions(seen=seen))
        titles = [title_of(self.train, item) for item in competing.tolist()]
        return self._frame({"item": self.train.items.given[competing], "title": titles})

    def _users(self, users: Ids | None) -> list[str]:
        names: list[str] = self.train.users.ids.tolist()
        return names if users is None else ids_asked("users", users)

    def _items(self, items: Ids) -> Int64Array:
        """The numbers of items, int64. Raises InputError for an unknown id."""
        names = ids_asked("items", items)
        return np.array([self.train.items.index(name) for name in names], np.int64)

    def _lists(self, users: Sequence[str] | None, item: Array, score: Array) -> FrameT:
        """A frame of lists. item, score: [users, n]; item is -1 where a list is shorter. users:
        None = those of one person without an id.
        """
        # One line of the frame for each item of a list; lists may be shorter.
        row, place = np.nonzero(item >= 0)
        items = item[row, place]
        columns: dict[str, Any] = {
            "rank": place + 1,
            "item": self.train.items.given[items],
            "title": [title_of(self.train, number) for number in items.tolist()],
            "score": score[row, place],
        }
        if users is not None:
            columns = {"user": _given(users, self.train.users)[row], **columns}
        return self._frame(columns)

    def _frame(self, columns: dict[str, Any]) -> FrameT:
        frame: FrameT = frame_of(columns, self.frames)
        return frame

    def _records(self, records: Sequence[dict[str, Any]], *names: str) -> FrameT:
        frame: FrameT = frame_of_records(records, self.frames, names)
        return frame


def _given(ids: Sequence[str], vocabulary: Vocabulary) -> Array:
    """Ids in the type in which those of the vocabulary came, text where one is no whole number."""
    texts = np.empty(len(ids), dtype=object)
    texts[:] = ids
    try:
        return texts.astype(vocabulary.whole) if vocabulary.whole else texts
    except (ValueError, OverflowError):
        # An unknown user may have any id.
        return texts
