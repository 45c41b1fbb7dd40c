"""FedRec++, lossless federated recommendation with explicit feedback.

F. Liang, W. Pan, Z. Ming, "FedRec++: lossless federated recommendation with explicit feedback",
AAAI 2021. FedRec's made-up ratings bias the server's mean. Here an ordinary device u sends its
gradients of rated items and decoys to the server as before, and those of its decoys once more, as
noise, to one of the denoising devices; a denoising device adds up the noise that it gets and sends
only sums on. With

    G_i = sum_u grad V_ui (rated items and decoys)  -  sum of noise_i,     count_i = senders of row
    i  -  those for whom i was a decoy,

the server steps V_i <- V_i - gamma G_i / count_i: exactly FedRec's step with rho = 0. A denoising
device sends no decoys' gradients: its rated gradients alone, among the sums. U's own step takes
rated items alone (eq. 7 is lost in our copy; the text and the figures say so).

Deviations. To list a device's noise is to list its decoys, and so, together with what the server
saw, its rated items. With `pads` (the default; not in the paper) a device draws 48 bits for every
number it sends: server and denoiser get value + pad and noise + pad, modulo 2^48 in steps of 2^-16,
over the same rows, and the sums of the pads cancel exactly. Either part by itself is noise through
and through: which rows are decoys is seen only by putting them together. Without pads the rows are
as published, but that zeros stand where the published noise has no row. The stochastic style, which
the paper lacks, is there for fair comparisons with FedRec's. The ledger counts what each device
sends to the server and to its denoiser, not the sums that denoisers send on.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple, final

import numpy as np
from numba import njit
from pydantic import Field

from ..core.contract.declarations import SentArray, axes, rows
from ..core.contract.protocols import Catalogue, Histories
from ..core.contract.update import LIMIT, STEP, Total, Update
from ..core.errors import NonFiniteError
from ..core.keys import draw, fold_name, folds
from ..core.lanes.simd import SCALE
from ..core.types import BoolArray, Float32Array, Int64Array, UInt64Array
from ..privacy.decoys import Mixed
from .fedrec import FedRecDevices, FilledFactorisation, iteration, stepped

UNIT = np.float32(STEP)
LIMB = (
    1 << 24
)  # a padded number of 48 bits goes as two whole numbers below 2^24, which float32 holds exactly


class FedRecPPServer(NamedTuple):
    """The global model. v: item factors V. step: rounds done. epoch: rounds in an iteration over
    the users. denoiser: the devices that denoise, ascending, chosen once. A device receives all of
    it.
    """

    v: Annotated[Float32Array, axes("items", "factors")]
    step: Annotated[Int64Array, axes(1, least=0)]
    epoch: Annotated[Int64Array, axes(1, least=1)]
    denoiser: Annotated[Int64Array, axes("denoisers", below="users")]


@final
class FedRecPP(FilledFactorisation):
    """FedRec++: FedRec whose decoys hide what was rated but not bias the model, since denoising
    devices take their sum out again.
    """

    denoisers: float = Field(
        0.25, gt=0, description="how many devices denoise: a share of all below 1, else a number"
    )
    pads: bool = Field(
        True,
        description=(
            "hide from server and denoisers which rows are decoys, by a random number that both get"
            " and that cancels"
        ),
    )

    holds: ClassVar[type] = FedRecPPServer
    receives: ClassVar[type] = FedRecPPServer
    sends: ClassVar[tuple[SentArray, ...]] = (
        rows(
            "v",
            "numbers",
            "limbs",
            when="each round, to the server: a row for every rated item and every decoy",
            reveals=(
                "gradients of V_i and a 1 for the count. With pads, seen singly, only which items"
                " were rated or are decoys (with rho 0: were rated). Together with the device's"
                " noise, or without pads, all that FedRec's rows reveal: U_u, the integer ratings,"
                " and which items were rated"
            ),
        ),
        rows(
            "noise",
            "numbers",
            "limbs",
            when="with every row of v, to one denoiser, without a name; the server sees sums of it",
            reveals=(
                "the decoys' gradients and ones. With pads, seen singly, no more than v; without,"
                " which of somebody's rows are decoys. The sums of v and noise give the server the"
                " sum of rated gradients and how many rated each item: of all devices in batch"
                " style, but of one device in the stochastic style, where decoys then hide nothing"
            ),
        ),
    )
    decoys_move_u: ClassVar[bool] = False
    decoys_count: ClassVar[bool] = False

    def sizes(self, catalogue: Catalogue) -> dict[str, int]:
        """Sizes of the declared arrays. numbers: of a row, a gradient and a 1. limbs: parts that
        each of them goes in. denoisers: devices that denoise."""
        many = max(
            1,
            min(
                catalogue.users,
                int(self.denoisers * (catalogue.users if self.denoisers < 1 else 1)),
            ),
        )
        return {
            **super().sizes(catalogue),
            "numbers": self.factors + 1,
            "limbs": 2 if self.pads else 1,
            "denoisers": many,
        }

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> FedRecPPServer:
        """The initial item factors V, and the devices that denoise."""
        epoch = np.array([self.rounds_an_epoch(catalogue)], np.int64)
        order = np.argsort(
            folds(fold_name(key, "denoisers"), np.arange(catalogue.users)), kind="stable"
        )
        denoiser = np.sort(order[: self.sizes(catalogue)["denoisers"]])
        return FedRecPPServer(
            self.first_items(catalogue, key), np.zeros(1, np.int64), epoch, denoiser
        )

    def download(self, server: FedRecPPServer) -> FedRecPPServer:
        """The global model, which every device receives whole."""
        return server

    def local(
        self,
        download: FedRecPPServer,
        devices: FedRecDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
    ) -> tuple[FedRecDevices, Update]:
        """Local training: makes grad V_ui of rated items and decoys, and those of the decoys once
        more as noise; U_u moves by rated items alone."""
        after, filled, g = self.gradients(download, devices, histories, key)
        v, noise = (np.empty((len(g), self.factors + 1), np.float32) for _ in range(2))
        _split(filled, np.isin(users, download.denoiser), g, v, noise)
        if self.pads:
            pads = folds(fold_name(key, "pads"), devices.key)
            sent = {"v": padded(filled.ptr, v, pads), "noise": padded(filled.ptr, noise, pads)}
        else:
            sent = {"v": v[..., None], "noise": noise[..., None]}
        return after, Update(filled.ptr, filled.item, sent, {}, np.ones(len(users), np.float32))

    def aggregate(self, server: FedRecPPServer, total: Total) -> FedRecPPServer:
        """The server's step, V_i <- V_i - gamma G_i / count_i, in which the decoys' gradients have
        been taken out again.
        """
        difference = total.rows["v"] - total.rows["noise"]
        g = (
            without_pads(difference) if self.pads else difference[..., 0]
        )  # G_i and, in fixed point, count_i
        v = stepped(server.v, g, g[:, -1] >> 16, float(self.rate(iteration(server))))
        return server._replace(v=v, step=server.step + 1)

    @property
    def row_bytes(self) -> int:
        """Bytes of one sent row: item id, and two rows of F + 1 numbers, which pads make twice as
        long.
        """
        return 4 + 8 * (self.factors + 1) * (2 if self.pads else 1)


@njit(cache=True, nogil=True)
def _split(
    filled: Mixed, denoises: BoolArray, g: Float32Array, v: Float32Array, noise: Float32Array
) -> None:
    """v - noise [n, F + 1] is g [n, F] and a 1 for rated items, 0 for decoys; an ordinary device
    has them all in v, its decoys in noise.
    """
    factors = g.shape[1]
    for d in range(len(denoises)):
        for r in range(filled.ptr[d], filled.ptr[d + 1]):
            to_server, to_denoiser = (
                filled.rated[r] or not denoises[d],
                not filled.rated[r] and not denoises[d],
            )
            for f in range(factors + 1):
                value = g[r, f] if f < factors else np.float32(1)
                v[r, f] = value if to_server else np.float32(0)
                noise[r, f] = value if to_denoiser else np.float32(0)


def padded(ptr: Int64Array, values: Float32Array, keys: UInt64Array) -> Float32Array:
    """Values [n, w] in fixed point, plus a pad for each from its device's key, modulo 2^48: two
    limbs in whole steps, float32 [n, w, 2]. Raises NonFiniteError for a value that fixed point does
    not hold.
    """
    if not bool(np.all(np.abs(values) < LIMIT)):
        raise NonFiniteError(
            "update: a value is not finite or beyond +-32768; the model is unchanged"
        )
    out = np.empty((*values.shape, 2), np.float32)
    _pad(ptr, values, keys, out)
    return out


@njit(cache=True, nogil=True)
def _pad(ptr: Int64Array, values: Float32Array, keys: UInt64Array, out: Float32Array) -> None:
    width, low = values.shape[1], np.int64(LIMB - 1)
    for d in range(len(keys)):
        for r in range(ptr[d], ptr[d + 1]):
            for f in range(width):
                pad = np.int64(draw(keys[d], (r - ptr[d]) * width + f) >> np.uint64(16))
                share = pad + np.int64(np.rint(values[r, f] * SCALE))
                out[r, f, 0] = np.float32(share & low) * UNIT
                out[r, f, 1] = np.float32((share >> 24) & low) * UNIT


def without_pads(difference: Int64Array) -> Int64Array:
    """Sums of padded values less sums of as many padded by the same: [items, w, 2] -> fixed point
    [items, w], below 2^47.
    """
    joined = (difference[..., 1] * LIMB + difference[..., 0]) & (LIMB * LIMB - 1)
    return np.where(joined >= LIMB * LIMB // 2, joined - LIMB * LIMB, joined)


ALGORITHMS = {"fedrec++": FedRecPP}
