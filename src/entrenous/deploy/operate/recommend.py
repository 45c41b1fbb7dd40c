"""Recommendations of a node or a peer to its own users, on its own machine. Nothing is sent to
anybody.
"""

from __future__ import annotations

import warnings
from contextlib import closing
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import NamedTuple, Self, final

import numpy as np

from ...core.contract.protocols import Scorer
from ...core.errors import EntrenousWarning, InputError
from ...core.keywords import at_least
from ...core.types import BoolArray
from ...evaluation.recommend import Allowed, Recommended
from ...evaluation.recommend import recommend as best_items
from ..agreement.files import read_json
from ..agreement.terms import TERMS, FederationTerms
from ..node.node import FederatedNode
from ..node.node_store import NODE, NodeStore
from ..peers.folder import PeerFolder


class NodeRecommendations(NamedTuple):
    """The recommendations of a node."""

    user: str
    """The user's external id."""
    round: int
    """The round of the model; of a peer the number of its pushes."""
    items: list[Recommended]
    """The items, best first."""


@final
class OpenNode:
    """A node or a peer that is held open to recommend to its own users, also while another process
    runs it; a newer model counts from the next call on. Calls from several threads take turns.
    `close` it, or use it in `with`.

    Raises InputError for a folder that is no node's.
    """

    def __init__(self, folder: Path | str) -> None:
        self._folder = Path(folder)
        has_server = FederationTerms.read(self._folder / TERMS).has_server
        self._node = FederatedNode(self._folder) if has_server else PeerFolder(self._folder)
        place = str(read_json(self._folder / NODE).get("algorithm", ""))
        warning = self._node.terms.other_source(place)
        if warning:
            warnings.warn(warning, EntrenousWarning, stacklevel=2)
        # Every item counts as known: other nodes have trained on items that no user here has.
        self._known: BoolArray = np.ones(len(self._node.items.ids), np.bool_)
        self._seen = -1  # the version of the store that `_model` was read from
        self._model: tuple[int, Scorer] | None = None
        self._turn = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the node's store."""
        self._node.close()

    @property
    def users(self) -> list[str]:
        """The external ids of the node's users."""
        return [str(user) for user in self._node.rows.users.ids]

    def recommend(self, user: str | None = None, n: int = 10) -> NodeRecommendations:
        """Recommends n items that a user does not have, by the newest model. user: None = the
        node's first.

        Raises InputError for a node that has no model yet, and for a user of another node.
        """
        at_least("n", n, 1)
        # SQLite's connections and a node's arrays serve one thread at a time.
        with self._turn:
            node = self._node
            place = self._place(user)
            number, recommender = self._newest()
            best = best_items(
                recommender,
                node.rows,
                np.array([place]),
                n,
                # The rows of a few users do not tell which items others have.
                allowed=Allowed(self._known),
                label=node.terms.algorithm,
                seed=node.terms.seed,
            )
            ids = node.items.ids
            titles = node.items.titles
            places = best.item[0].tolist()
            scores = best.score[0].tolist()
            items: list[Recommended] = []
            for i, score in zip(places, scores, strict=True):
                # -1 fills the list of a user who has almost all items.
                if i >= 0:
                    items.append({"item": ids[i], "title": titles[i], "score": float(score)})
            return NodeRecommendations(node.rows.users[place], number, items)

    def _place(self, user: str | None) -> int:
        """Returns where a user is among the node's. Raises InputError, which names no other user:
        its reader may be none of them.
        """
        if user is None:
            return 0
        place = int(self._node.rows.users.indices([user])[0])
        if place < 0:
            problem = "no user of this node has that id"
            raise InputError("--user", problem, expected="an id of the rows that it joined with")
        return place

    def _newest(self) -> tuple[int, Scorer]:
        """Returns the newest model, read again only when another connection has written to the
        store."""
        store: NodeStore = self._node.store
        version = store.version()
        if self._model is None or version != self._seen:
            self._model = self._node.recommender()
            self._seen = version
        return self._model


def open_node(folder: Path | str) -> OpenNode:
    """Opens the folder of a node or a peer to recommend to its own users, again and again: `with
    open_node(folder) as node: node.recommend("u7", 10)`. Raises InputError."""
    return OpenNode(folder)


def recommend(folder: Path, user: str | None, n: int) -> NodeRecommendations:
    """Recommends n items to one of a node's users, once; see `OpenNode`."""
    with closing(OpenNode(folder)) as node:
        return node.recommend(user, n)
