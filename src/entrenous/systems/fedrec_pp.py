"""FedRec++, lossless federated recommendation with explicit feedback.

F. Liang, W. Pan, Z. Ming, "FedRec++: lossless federated recommendation with explicit feedback",
AAAI 2021. FedRec's made-up ratings bias the server's mean. Here an ordinary device u sends its
gradients of rated items and decoys to the server as before, and sends those of its decoys once
more, as noise, to one of the denoising devices. A denoising device adds up the noise that it gets
and passes on sums only. With

    G_i     = sum_u grad V_ui (rated items and decoys) - sum of noise_i
    count_i = senders of row i - those for whom i was a decoy

the server steps V_i <- V_i - gamma G_i / count_i: exactly FedRec's step with rho = 0. A denoising
device sends no gradients of decoys; its rated gradients are among the sums. The step of U takes
rated items alone (eq. 7 is lost in our copy; the text and the figures say so).

Deviations. A list of a device's noise is a list of its decoys, and so, with the rows that the
server saw, a list of its rated items. With `pads` (the default; not in the paper) a device draws 48
bits for every number it sends: server and denoiser get value + pad and noise + pad, modulo 2^48 in
steps of 2^-16, over the same rows, and the sums of the pads cancel exactly. Either part by itself
is uniform noise: only both together show which rows are decoys. Without pads the rows are as
published, except that zeros stand where the published noise has no row. The stochastic style, which
the paper lacks, makes comparisons with FedRec fair. The ledger counts what each device sends to the
server and to its denoiser, not the sums that denoisers pass on.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple, final

import numpy as np
from pydantic import Field

from ..core.compiling import njit
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
# A padded number of 48 bits goes as two whole numbers below 2^24, which float32 holds exactly.
LIMB = 1 << 24


class FedRecPPServer(NamedTuple):
    """The global model, which a device receives whole."""

    v: Annotated[Float32Array, axes("items", "factors")]
    """float32 [items, F], item factors V."""
    step: Annotated[Int64Array, axes(1, least=0)]
    """int64 [1], rounds done."""
    epoch: Annotated[Int64Array, axes(1, least=1)]
    """int64 [1], rounds in an iteration over the users."""
    denoiser: Annotated[Int64Array, axes("denoisers", below="users")]
    """int64 [denoisers], the devices that denoise, ascending, chosen once."""


@final
class FedRecPP(FilledFactorisation):
    """FedRec++: FedRec whose decoys hide what was rated and do not bias the model, because
    denoising devices subtract their sum.
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
        """Returns the sizes of the declared arrays: numbers of a row, a gradient and a 1 (numbers),
        the parts that each of them goes in (limbs), and the devices that denoise (denoisers).
        """
        denoisers = self.denoisers
        if denoisers < 1:
            denoisers *= catalogue.users
        return {
            **super().sizes(catalogue),
            "numbers": self.factors + 1,
            "limbs": 2 if self.pads else 1,
            "denoisers": max(1, min(catalogue.users, int(denoisers))),
        }

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> FedRecPPServer:
        """Returns the initial item factors V, and the devices that denoise."""
        item = self.first_items(catalogue, key)
        epoch = np.array([self.rounds_an_epoch(catalogue)], np.int64)
        # The denoisers are the first devices in a random order.
        drawn = folds(fold_name(key, "denoisers"), np.arange(catalogue.users))
        order = np.argsort(drawn, kind="stable")
        denoiser = np.sort(order[: self.sizes(catalogue)["denoisers"]])
        return FedRecPPServer(item, np.zeros(1, np.int64), epoch, denoiser)

    def download(self, server: FedRecPPServer) -> FedRecPPServer:
        """Returns the global model, which every device receives whole."""
        return server

    def local(
        self,
        download: FedRecPPServer,
        devices: FedRecDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
    ) -> tuple[FedRecDevices, Update]:
        """Trains the devices: makes grad V_ui of rated items and decoys, and those of the decoys
        once more as noise. U_u moves by rated items alone.
        """
        after, filled, g = self.gradients(download, devices, histories, key)
        # One number more in each row: the 1 of the count.
        v = np.empty((len(g), self.factors + 1), np.float32)
        noise = np.empty_like(v)
        _split(filled, np.isin(users, download.denoiser), g, v, noise)
        # Server and denoiser get the same pads, which cancel in the difference of the sums.
        if self.pads:
            pads = folds(fold_name(key, "pads"), devices.key)
            sent = {"v": padded(filled.ptr, v, pads), "noise": padded(filled.ptr, noise, pads)}
        else:
            sent = {"v": v[..., None], "noise": noise[..., None]}
        return after, Update(filled.ptr, filled.item, sent, {}, np.ones(len(users), np.float32))

    def aggregate(self, server: FedRecPPServer, total: Total) -> FedRecPPServer:
        """Returns the new global model, V_i <- V_i - gamma G_i / count_i, without the decoys'
        gradients.
        """
        difference = total.rows["v"] - total.rows["noise"]
        # G_i and, in fixed point, count_i
        g = without_pads(difference) if self.pads else difference[..., 0]
        v = stepped(server.v, g, g[:, -1] >> 16, float(self.rate(iteration(server))))
        return server._replace(v=v, step=server.step + 1)

    @property
    def row_bytes(self) -> int:
        """The bytes of one sent row: item id, and two rows of F + 1 numbers, which pads make twice
        as long.
        """
        return 4 + 8 * (self.factors + 1) * (2 if self.pads else 1)


@njit(cache=True, nogil=True)
def _split(
    filled: Mixed, denoises: BoolArray, g: Float32Array, v: Float32Array, noise: Float32Array
) -> None:
    """Splits g, float32 [n, F], into v and noise, float32 [n, F + 1], so that v - noise is g and a
    1 for rated items, 0 for decoys. An ordinary device has all rows in v, and its decoys in noise;
    a denoising device has no decoys in either.
    """
    factors = g.shape[1]
    for d in range(len(denoises)):
        for r in range(filled.ptr[d], filled.ptr[d + 1]):
            to_server = filled.rated[r] or not denoises[d]
            to_denoiser = not filled.rated[r] and not denoises[d]
            for f in range(factors + 1):
                value = g[r, f] if f < factors else np.float32(1)
                v[r, f] = value if to_server else np.float32(0)
                noise[r, f] = value if to_denoiser else np.float32(0)


def padded(ptr: Int64Array, values: Float32Array, keys: UInt64Array) -> Float32Array:
    """Returns values, float32 [n, w], in fixed point plus a pad for each from its device's key,
    modulo 2^48: two limbs in whole steps, float32 [n, w, 2]. Raises NonFiniteError for a value that
    fixed point does not hold.
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
    width = values.shape[1]
    low = np.int64(LIMB - 1)
    for d in range(len(keys)):
        for r in range(ptr[d], ptr[d + 1]):
            for f in range(width):
                pad = np.int64(draw(keys[d], (r - ptr[d]) * width + f) >> np.uint64(16))
                # modulo 2^48: the limbs below drop what is above
                share = pad + np.int64(np.rint(values[r, f] * SCALE))
                out[r, f, 0] = np.float32(share & low) * UNIT
                out[r, f, 1] = np.float32((share >> 24) & low) * UNIT


def without_pads(difference: Int64Array) -> Int64Array:
    """Returns a difference of two sums that have the same pads, int64 [items, w, 2], in fixed
    point, int64 [items, w], below 2^47.
    """
    # A number in the upper half stands for a negative one.
    joined = (difference[..., 1] * LIMB + difference[..., 0]) & (LIMB * LIMB - 1)
    return np.where(joined >= LIMB * LIMB // 2, joined - LIMB * LIMB, joined)


ALGORITHMS = {"fedrec++": FedRecPP}
