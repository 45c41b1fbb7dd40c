"""What a node or a peer tells its own users, on its own machine: nobody is asked, and nobody told."""

from __future__ import annotations

import warnings
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import EntrenousWarning
from ..evaluate.recommend import recommend as best_items
from .files import read_json
from .node import FederatedNode
from .node_store import NODE
from .peers.folder import PeerFolder
from .terms import TERMS, FederationTerms


def recommend(folder: Path, user: str | None, n: int) -> tuple[str, int, list[dict[str, Any]]]:
    """Recommend n items to one of a node's users, on the node: (user, round of the model, items best first). user: None for the
    node's first. The round of a peer's model is the number of its pushes.

    Raises InputError for a node that has no model yet, and for a user that is not one of its own.
    """
    has_server = FederationTerms.read(folder / TERMS).has_server
    with closing(FederatedNode(folder) if has_server else PeerFolder(folder)) as node:
        if line := node.terms.other_source(str(read_json(folder / NODE).get("algorithm", ""))):
            warnings.warn(line, EntrenousWarning, stacklevel=2)
        number, recommender = node.recommender()
        place = 0 if user is None else node.rows.users.index(user)
        known = np.ones(len(node.items.ids), np.bool_)  # others have learnt of what nobody has touched here
        best = best_items(
            recommender, node.rows, np.array([place]), n, known=known, label=node.terms.algorithm, seed=node.terms.seed
        )
        items = [
            {"item": node.items.ids[i], "title": node.items.titles[i], "score": float(score)}
            for i, score in zip(best.item[0].tolist(), best.score[0].tolist(), strict=True) if i >= 0
        ]  # fmt: skip
        return node.rows.users[place], number, items
