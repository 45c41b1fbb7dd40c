"""PRME-G around a server: both vectors of every venue on the server, the mean of what m devices learnt, the user vector on the device."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from pydantic import Field

from ..core.keys import fold_name, folds
from ..core.protocols import Catalogue, Disclosed, Histories
from ..core.sampling import cohort
from ..core.types import Float32Array, Int64Array, UInt64Array
from ..kernels import prme_node, prme_score
from ._prme import HOW, PRMESettings


class Server(NamedTuple):
    """w. item: float32 [items, 2 factors], P and S of every venue. A device receives it whole."""

    item: Float32Array


def disclosed(what: str) -> Disclosed:
    """What leaves a device of every venue that it touched; `what`: "n_k times the move" or the like."""
    return Disclosed(
        "item",
        "[rows, 2 factors] float32",
        f"each round: {what} of both vectors of every venue that the device went to or drew as another",
        "seen singly, which venues were touched, and by the direction of the move which of them were visited, and which after which; "
        "the touched ones are the history and a random venue for each visit. A sum over a cohort hides who sent what",
    )


class FederatedPRME(PRMESettings):
    """What a device does in a round and how it scores, and how many take part."""

    learning_rate: float = Field(0.02, gt=0, le=10, description="of SGD, one step for each transition")
    cohort: int = Field(500, ge=0, description="m, devices in a round; 0 = all; at most all")
    rounds: int = Field(100, ge=1, description="training length")

    def configured(self, catalogue: Catalogue) -> Self:
        """The same settings with the cohort as a number."""
        return self.model_copy(update={"cohort": min(self.cohort, catalogue.users) or catalogue.users})

    def default_rounds(self, catalogue: Catalogue) -> int:
        """`rounds`, whatever the data."""
        return self.rounds

    def update_bytes(self, catalogue: Catalogue) -> int:
        """A row for each venue, at most all."""
        return catalogue.items * (4 + 8 * self.factors)

    def usual_bytes(self, catalogue: Catalogue) -> int:
        """What a device sends with a history of the mean length and no venue drawn twice."""
        touched = catalogue.interactions / max(1, catalogue.users) * (1 + self.local_epochs)
        return int(self.update_bytes(catalogue) * min(1.0, touched / max(1, catalogue.items)))

    def learnt(
        self, item: Float32Array, user: Float32Array, histories: Histories, users: Int64Array, key: np.uint64
    ) -> prme_node.Sent:
        """E passes of each device over its transitions, from w."""
        return prme_node.moves(item, user, self.rows(histories), self.rates(), folds(key, users))

    def scores(self, item: Float32Array, user: Float32Array, histories: Histories) -> Float32Array:
        """-D(u, c, l) of every venue l, float32 [m, items]; c as `contexts` says."""
        here, pool = np.arange(len(user)), np.ascontiguousarray(item).reshape(1, -1)
        how, alpha = HOW[self.contexts], np.float32(self.preference)
        return prme_score.scores(pool, 0 * here, user, here, self.rows(histories), how, alpha, len(item))

    def adapted_scores(
        self, item: Float32Array, user: Float32Array, histories: Histories, epochs: int, keys: UInt64Array
    ) -> Float32Array:
        """As `scores`, each device by w after that many passes over its transitions."""
        everyone, rates = self.rows(histories), self.rates()._replace(epochs=epochs)
        out, one = np.empty((len(user), len(item)), np.float32), np.zeros(1, np.int64)
        how, alpha = HOW[self.contexts], np.float32(self.preference)
        for d in range(len(out)):
            rows = everyone._replace(ptr=everyone.ptr[d : d + 2], avoid_ptr=everyone.avoid_ptr[d : d + 2])
            pool, own = item.reshape(1, -1).copy(), user[d : d + 1].copy()
            prme_node.train(pool, one, own, one, rows, rates, len(item), keys[d : d + 1])
            out[d] = prme_score.scores(pool, one, own, one, rows, how, alpha, len(item))
        return out


class AveragedPRME(FederatedPRME):
    """The server's side of a plain average."""

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> Server:
        """The first w."""
        return Server(self.first_items(catalogue.items, fold_name(key, "item")))

    def select(self, server: Server, catalogue: Catalogue, key: np.uint64) -> Int64Array:
        """S_t: m devices, uniformly at random."""
        return cohort(key, self.configured(catalogue).cohort, catalogue.users)

    def download(self, server: Server) -> Server:
        """w."""
        return server
