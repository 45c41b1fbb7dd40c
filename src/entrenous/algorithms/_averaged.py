"""What FedAvg, Ditto and Reptile share: one global w[I, N] on the server, the mean of what m devices learnt, w[U] on the devices."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from pydantic import Field

from ..core.protocols import Catalogue, Disclosed
from ..core.sampling import cohort
from ..core.types import Float32Array, Int64Array
from ._ncf import NCFSettings


class Server(NamedTuple):
    """w[I, N]. item: float32 [items, row]; network: float32 [1, network]. A device receives both whole."""

    item: Float32Array
    network: Float32Array


def disclosed(what: str) -> tuple[Disclosed, ...]:
    """The arrays that leave a device; `what`: "the move" or a multiple of it."""
    return (
        Disclosed(
            "item",
            "[rows, row] float32",
            f"each round: {what} of every item that the device consumed or drew as a negative",
            "seen singly, which items were touched, and by the direction of the move which of them were consumed; the touched ones are "
            "the history and its random negatives. A sum over a cohort hides who sent what",
        ),
        Disclosed(
            "network",
            "[network] float32",
            f"each round: {what} of the non-embedding part",
            "seen singly, a summary of the history; in a sum, the cohort's taste",
        ),
    )


class AveragedNCF(NCFSettings):
    """The server's side of a plain average, and the settings that suit it."""

    learning_rate_item: float | None = Field(
        10.0,
        ge=0,
        le=10000,
        description="of the item embeddings, if another: large, since the average counts devices that did not touch an item",
    )
    reg: float = Field(0.003, ge=0, description="lambda of lambda/2 (|p_u|^2 + |q_i|^2), for each sample")
    rounds: int = Field(80, ge=1, description="training length")

    def update_bytes(self, catalogue: Catalogue) -> int:
        """A row for each touched item, at most all of them, and the network."""
        return catalogue.items * (4 + 4 * self.shape.row) + 4 * self.shape.network

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> Server:
        """The first w[I, N]."""
        return Server(self.first_items(catalogue.items, key), self.first_network(key))

    def select(self, server: Server, catalogue: Catalogue, key: np.uint64) -> Int64Array:
        """S_t: m devices, uniformly at random."""
        return cohort(key, self.configured(catalogue).cohort, catalogue.users)

    def download(self, server: Server) -> Server:
        """w."""
        return server
