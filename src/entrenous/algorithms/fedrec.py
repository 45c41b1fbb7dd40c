"""FedRec, federated recommendation with explicit feedback.

G. Lin, F. Liang, W. Pan, Z. Ming, "FedRec: federated recommendation with explicit feedback", IEEE Intelligent Systems 36(5), 2021. The
model is r_ui = U_u . V_i, without a mean or biases (or SVD++, r_ui = (U_u + sum_k O_k / sqrt |I_u|) . V_i over the rated items k). A device
rates int(rho |I_u|) items that it never rated by a made-up r', so that the rows it sends do not list what it did rate:

    e_ui = r_ui - U_u . V_i            (r' for a made-up rating)
    grad V_ui = -e_ui U_u + lambda V_i           to the server:  V_i <- V_i - gamma mean_u grad V_ui     over all who sent row i
    grad U_u  = mean_i (-e_ui V_i + lambda U_u)  on the device:  U_u <- U_u - gamma grad U_u             over rated and made-up items
    r'_ui = the user's mean rating, or U'_u . V_i of a temporary U'_u once `predict_after` iterations have passed (hybrid filling)

after which gamma <- 0.9 gamma. In the stochastic style devices come one by one and U_u moves after
each item; grad V_ui takes the U_u before.

Deviations from the authors' program. Decoys are the same in every round (`redraw` draws them anew, as theirs does). An item's rows go by
ascending item. gamma of the stochastic style, which is not published, is 0.01. SVD++'s O is theirs unprotected and shared; here a device
sends O's gradients for what it rated, zeros for decoys. After an item every O_k of the device moves, with lambda O_k in its gradient.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Self, final

import numpy as np
from pydantic import Field, model_validator

from ..core.protocols import Catalogue, Disclosed, Histories
from ..core.types import Int64Array
from ..core.update import Total, Update
from ._filled import Devices, FilledFactorisation, Server
from ._filling import step_means


@final
class FedRec(FilledFactorisation):
    """FedRec: rating prediction by matrix factorisation (or SVD++) in which devices also rate items that they never rated."""

    model: Literal["pmf", "svd++"] = Field("pmf", description="U_u . V_i, or SVD++ with implicit factors O (stochastic style)")

    decoys_move_u: ClassVar[bool] = True
    decoys_count: ClassVar[bool] = True
    disclosure: ClassVar[tuple[Disclosed, ...]] = (
        Disclosed(
            "v",
            "[rows, F] float32 ([rows, 2 F] with SVD++)",
            "each round, a row for every rated item and every decoy",
            "the gradients of V_i. Seen singly: with rho 0 the rows are the rated items, and with any rho the row of item i is "
            "lambda V_i - e U_u, so that two rounds of one device give U_u by arithmetic, and then e and the integer ratings; made-up "
            "ratings stand out as those that are not integers. With SVD++ the second half is zero for decoys: the rated items can be read "
            "off. Only a sum over many devices hides this, and the stochastic style has no sum: a round is one device",
        ),
    )

    @model_validator(mode="after")
    def _as_published(self) -> Self:
        """SVD++ comes in the stochastic style alone."""
        if self.model == "svd++" and self.style == "batch":
            raise ValueError("style=stochastic with model=svd++, which has no batch style")
        return self

    @property
    def width(self) -> int:
        """Numbers that the server keeps of an item: V_i, and O_i with SVD++."""
        return self.factors * (2 if self.model == "svd++" else 1)

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> Server:
        """The first V (and O)."""
        epoch = np.array([self.rounds_an_epoch(catalogue)], np.int64)
        return Server(self.first_items(catalogue, key), np.zeros(1, np.int64), epoch)

    def download(self, server: Server) -> Server:
        """All of it."""
        return server

    def local(
        self, download: Server, devices: Devices, histories: Histories, users: Int64Array, key: np.uint64
    ) -> tuple[Devices, Update]:
        """grad V_ui for rated items and decoys; U_u moves."""
        after, rows, g = self.gradients(download, devices, histories, key)
        return after, Update(rows.ptr, rows.item, {"v": g}, {}, np.ones(len(users), np.float32))

    def aggregate(self, server: Server, total: Total) -> Server:
        """V_i <- V_i - gamma mean_u grad V_ui over all who sent a row, made-up ratings among them."""
        v = server.v.copy()
        step_means(v, total.rows["v"], total.senders, float(self.rate(int(server.step[0] // server.epoch[0]))))
        return server._replace(v=v, step=server.step + 1)


ALGORITHMS = {"fedrec": FedRec}
