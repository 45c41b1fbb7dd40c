"""FBALF, the federated bias-aware latent factor model: gradient steps, and a server that moves
after each device.

J. Gao, Y. Ran, J. Chen, "Federated latent factor model for bias-aware recommendation with
privacy-preserving", arXiv:2504.15090, eq. 3-13 (the formulas are lost in the text at hand; the
words around them leave little open). With r = p_u . q_i + b_u + b_i (4) and e = r_ui - r,

    p_u <- p_u - eta (-e q_i + lambda p_u)    on the device, rating by rating    (10, 11)
    b_u <- b_u - eta (-e + lambda b_u)
    q_i <- q_i - eta (-e p_u + lambda q_i)    on the server, as they are sent    (13)
    b_i <- b_i - eta (-e + lambda b_i)

In a visit the device goes `local_iterations` times over its rated items. It then sends the
gradients of q_i, b_i at its new p_u, b_u, for its rated items and for int(rho |I_u|) decoys. A
decoy's made-up rating (6) is the user's mean in the first `threshold` passes, and after that the
prediction of the new p_u, b_u; the prediction of those before the visit is subtracted from it to
give e (with the new ones e would be 0).

Two sentences of section 4.3.1 have another reading, and each is a setting. The section reduces the
loss over rated and synthetic ratings to one element and takes steps on that for p_u and b_u as
well: `decoys_move_u`. Its gradients are those of the state t - 1: `gradients_at`. Neither is the
default, because both err more on validation rows (docs/fbalf.md).

Our choices where the text is silent, and differences: a device takes its ratings by ascending item;
eta of (11) and of (13) are two settings, and both shrink by `decay` after every pass; lambda of the
biases can be set apart; r has a constant, the middle of the scale or the user's mean, from which
the biases deviate; decoys are the same in every pass (drawn anew, they would expose the rated
items, which always come); in the stochastic style the server, as the text has it, moves after each
device, in batch style along the mean over all who sent a row.

The device's steps are compiled, in kernels/biased_sgd.py. tests/algorithms/test_fbalf.py has them
in plain NumPy (`Plain`) and compares both.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, NamedTuple, Self, final

import numpy as np
from pydantic import Field

from ..core.contract.declarations import SentArray, Traits, axes, rows
from ..core.contract.protocols import Catalogue, Histories, rated
from ..core.contract.update import Total, Update, real
from ..core.errors import NonFiniteError
from ..core.keys import fold_name, folds, normals
from ..core.types import Float32Array, Int64Array, UInt64Array
from ..kernels import biased_sgd, bpr_mf
from ..privacy.decoys import COUNTED, Mixed
from ._in_turn import InTurn


class FBALFServer(NamedTuple):
    """The global model of FBALF, which a device receives whole."""

    q: Annotated[Float32Array, axes("items", "factors")]
    """float32 [items, f], item factors q_i."""
    b: Annotated[Float32Array, axes("items")]
    """float32 [items], item biases b_i."""
    scale: Annotated[Float32Array, axes(2)]
    """float32 [2], lowest and highest rating."""
    step: Annotated[Int64Array, axes(1, least=0)]
    """int64 [1], rounds done."""
    epoch: Annotated[Int64Array, axes(1, least=1)]
    """int64 [1], rounds in a pass over the users."""


class FBALFDevices(NamedTuple):
    """Private state of m devices. Nothing of it leaves."""

    p: Annotated[Float32Array, axes("factors")]
    """float32 [m, f], user factors p_u."""
    bias: Annotated[Float32Array, axes()]
    """float32 [m], user biases b_u."""
    key: Annotated[UInt64Array, axes()]
    """uint64 [m], from which a device draws its decoys."""


@final
class FBALF(InTurn):
    """FBALF: gradient steps along fixed learning rates, and a server that moves after each
    device.
    """

    # The model and the length of training.
    factors: int = Field(128, ge=1, le=1024, description="f, the length of p_u and q_i")
    rounds: int = Field(75, ge=1, description="passes over all users")
    local_iterations: int = Field(
        10,
        ge=1,
        le=1000,
        description="how often a device goes over its ratings in a visit, moving p_u and b_u",
    )
    # Gradient descent.
    learning_rate: float = Field(0.013, gt=0, le=10, description="of the server (13)")
    local_rate: float = Field(0.0013, gt=0, le=10, description="of the device (11)")
    decay: float = Field(
        0.97, gt=0, le=1, description="what both rates are multiplied by after every pass"
    )
    reg: float = Field(
        0.04,
        ge=0,
        description=(
            "lambda, at each row that is sent or learnt from: decoys add to it, so take less (0.03)"
            " with rho 3"
        ),
    )
    reg_bias: float | None = Field(
        None, ge=0, description="lambda of b_u and b_i; default: reg, as printed"
    )
    # The training bias (section 4.2.1), for asking what it buys.
    user_bias: bool = Field(True, description="b_u is learnt; off: it stays 0")
    item_bias: bool = Field(True, description="b_i is learnt; off: it stays 0")
    # Decoys: their made-up ratings, and the two readings of section 4.3.1.
    threshold: int = Field(
        10,
        ge=0,
        description="passes after which decoys are rated by prediction, not by the user's mean",
    )
    decoys_move_u: bool = Field(
        False,
        description=(
            "p_u and b_u learn from decoys and the ratings made up for them too (4.3.1 read"
            " literally), not from ratings alone"
        ),
    )
    gradients_at: Literal["after", "before"] = Field(
        "after",
        description=(
            "the p_u and b_u at which the sent gradients are taken: after the local steps, or"
            " before them (the state t - 1)"
        ),
    )
    # Predictions before training.
    start: Literal["middle", "mean"] | float = Field(
        "middle",
        description=(
            "the constant of a prediction: the middle of the scale, mean: the user's mean rating,"
            " or a number"
        ),
    )
    init_std: float = Field(0.002, gt=0, description="standard deviation of the first p and q")
    # The federation.
    style: Literal["batch", "stochastic"] = Field(
        "stochastic",
        description=(
            "stochastic: a round is one device, in turn; batch: a round is all devices and the"
            " server takes the mean (which wants a learning_rate near 1)"
        ),
    )

    # Sums with noise, in which the server cannot count rows.
    counts: float = Field(
        0,
        ge=0,
        le=100,
        description=(
            "what a device sends in a further row as the count of each of its rows, for sums with a"
            " row of it for every item; 0 = the server counts rows"
        ),
    )
    least: float = Field(
        1, ge=1, description="devices by which the mean over those who sent a row divides, at least"
    )

    holds: ClassVar[type] = FBALFServer
    receives: ClassVar[type] = FBALFServer
    keeps: ClassVar[type] = FBALFDevices
    sends: ClassVar[tuple[SentArray, ...]] = (
        rows(
            "q",
            "factors",
            when="each round, a row for every rated item and every decoy",
            reveals=(
                "lambda q_i - e p_u, from which the server, which knows q_i and lambda, has p_u's"
                " direction at once, and with b p_u itself. The stochastic style has no sum that"
                " could hide it: a round is one device. With rho 0 the rows are the rated items"
            ),
        ),
        rows(
            "b",
            when="each round, a number for every rated item and every decoy",
            reveals=(
                "lambda b_i - e: the error of the device's prediction by arithmetic, so that with"
                " p_u the ratings come back up to the user's bias; real ones are then whole numbers"
                " apart and made-up ones are not, and so decoys do not hide from a server that"
                " looks at one device what it rated. They do from one that sees sums, and from the"
                " network which items a device asks about"
            ),
        ),
        COUNTED,
    )
    traits: ClassVar[Traits] = Traits(
        predicts_ratings=True,
        draws_negatives=False,
        private_settings={
            "style": "batch",
            "rounds": 100,
            "learning_rate": 1.6,
            "counts": 0.1,
            "least": 120.0,
        },
    )

    # ---- the federation --------------------------------------------------------------------------

    def configured(self, catalogue: Catalogue) -> Self:
        """Returns the same settings. Raises InputError if nothing is rated."""
        rated(catalogue.scale, "fbalf")
        return self

    def sizes(self, catalogue: Catalogue) -> dict[str, int]:
        """Returns the sizes of the declared arrays: devices in a round (cohort), and the rows that
        a device sends at most (rows) and as a rule (usual_rows)."""
        cohort = 1 if self.style == "stochastic" else catalogue.users
        return {"cohort": cohort, "rows": catalogue.items, "usual_rows": self.usual_rows(catalogue)}

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> FBALFServer:
        """Returns the initial model: item factors q ~ N(0, init_std^2), item biases b = 0."""
        return FBALFServer(
            q=normals(folds(key, np.arange(catalogue.items)), self.factors, self.init_std),
            b=np.zeros(catalogue.items, np.float32),
            scale=np.array(catalogue.scale, np.float32),
            step=np.zeros(1, np.int64),
            epoch=np.array([self.rounds_an_epoch(catalogue)], np.int64),
        )

    def init_devices(self, users: Int64Array, catalogue: Catalogue, key: np.uint64) -> FBALFDevices:
        """Returns the initial private state of the devices of `users`: p ~ N(0, init_std^2), b_u =
        0, and the key of the decoys.
        """
        p = normals(folds(key, users), self.factors, self.init_std)
        bias = np.zeros(len(users), np.float32)
        return FBALFDevices(p, bias, folds(fold_name(key, "decoys"), users))

    def download(self, server: FBALFServer) -> FBALFServer:
        """Returns the global model, which every device receives whole."""
        return server

    # ---- predictions (section 4.2.1) -------------------------------------------------------------

    def score(
        self, download: FBALFServer, devices: FBALFDevices, histories: Histories
    ) -> Float32Array:
        """Returns the predicted ratings of every item, not clipped to the scale (eq. 4), float32
        [m, items].
        """
        of_user, of_item = self.biases(download, devices, histories)
        products = bpr_mf.scores(devices.p, download.q, of_item)
        return products + of_user[:, None]  # (4)

    def biases(
        self, download: FBALFServer, devices: FBALFDevices, histories: Histories
    ) -> tuple[Float32Array, Float32Array]:
        """Returns the parts of a prediction that no taste explains: the constant and b_u, float32
        [m], and b_i, float32 [items].
        """
        return self.starts(download, histories) + devices.bias, download.b

    def starts(self, download: FBALFServer, histories: Histories) -> Float32Array:
        """Returns the constant of each device's predictions, float32 [m]: the middle of the scale,
        a given number, or the mean of the user's ratings."""
        middle = download.scale.mean()
        constant = np.float32(middle if isinstance(self.start, str) else self.start)
        if self.start == "mean":
            return biased_sgd.means(histories, constant)
        return np.full(len(histories.ptr) - 1, constant, np.float32)

    # ---- hybrid filling (section 4.2.2) ----------------------------------------------------------

    def over(
        self, mixed: Mixed, download: FBALFServer, histories: Histories
    ) -> biased_sgd.BiasedSGDRows:
        """Returns the rows that devices go over: the rated items I_u, the decoys I'_u, and the
        rating that decoys have before pass `threshold` (eq. 6)."""
        mean = biased_sgd.means(histories, np.float32(download.scale.mean()))  # (6), first case
        # mixed.rated is (7).
        return biased_sgd.BiasedSGDRows(*mixed, self.starts(download, histories), mean)

    def numbers(self, t: int) -> biased_sgd.BiasedSGDNumbers:
        """Returns the constants of pass t, which counts from 0."""
        shrunk = self.decay**t
        return biased_sgd.BiasedSGDNumbers(
            steps=self.local_iterations,
            rate=np.float32(self.learning_rate * shrunk),
            local_rate=np.float32(self.local_rate * shrunk),
            reg=np.float32(self.reg),
            reg_bias=np.float32(self.reg if self.reg_bias is None else self.reg_bias),
            predict=t >= self.threshold,  # (6), second case
            decoys=self.decoys_move_u,
            before=self.gradients_at == "before",
            user_bias=self.user_bias,
            item_bias=self.item_bias,
        )

    # ---- on the device (section 4.3.1) -----------------------------------------------------------

    def local(
        self,
        download: FBALFServer,
        devices: FBALFDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
    ) -> tuple[FBALFDevices, Update]:
        """Trains the devices: p_u, b_u learn from the device's ratings (eq. 10, 11). The gradients
        of q_i, b_i are sent, for rated items and decoys."""
        mixed = self.mixed(devices.key, histories, len(download.q), key)
        over = self.over(mixed, download, histories)
        # (10), (11)
        p, bias, g_q, g_b = biased_sgd.visits(
            download.q,
            download.b,
            devices.p,
            devices.bias,
            over,
            self.numbers(passes(download)),
        )
        rows = {"q": g_q, "b": g_b}
        if self.counts:
            rows["count"] = np.full(len(mixed.item), self.counts, np.float32)
        weight = np.ones(len(users), np.float32)
        update = Update(mixed.ptr, mixed.item, rows, {}, weight)
        return devices._replace(p=p, bias=bias), update

    # ---- on the server (section 4.3.2) -----------------------------------------------------------

    def aggregate(self, server: FBALFServer, total: Total) -> FBALFServer:
        """Returns the new model (eq. 13): q_i, b_i move along the gradient of the one device, or
        along the mean over all who sent a row.
        """
        eta = float(self.numbers(passes(server)).rate)
        # Items that nobody sent stay.
        sent = total.senders > 0
        counts = real(total.rows["count"]) / self.counts if self.counts else total.senders
        senders = np.maximum(counts[sent], self.least)
        q = server.q.copy()
        b = server.b.copy()
        of_q = eta * real(total.rows["q"][sent])
        q[sent] -= (of_q / senders[:, None]).astype(np.float32)  # (13)
        of_b = eta * real(total.rows["b"][sent])
        b[sent] -= (of_b / senders).astype(np.float32)  # (13)
        return server._replace(q=q, b=b, step=server.step + 1)

    # ---- a run of rounds with one device each, compiled ------------------------------------------

    def solo_rounds(
        self,
        server: FBALFServer,
        devices: FBALFDevices,
        histories: Histories,
        rounds: range,
        key: np.uint64,
    ) -> tuple[FBALFServer, FBALFDevices, int, int]:
        """Runs `rounds` of the stochastic style over all users' devices; the same bits as one round
        at a time.

        Returns the new server, the new devices, and how many rows and bytes were sent.
        """
        items = len(server.q)
        users = len(devices.p)
        work = biased_sgd.in_turn(server.q, server.b, devices.p, devices.bias)
        mixed = self.mixed_in_turn(devices.key, histories, items, key, 0)
        sent = 0
        number = rounds.start
        # One call for the devices of each pass, whose constants are the same.
        while number < rounds.stop:
            t, first = divmod(number, users)
            last = min(users, first + rounds.stop - number)
            if self.redraw:
                mixed = self.mixed_in_turn(devices.key, histories, items, key, t * users)
            over = self.over(mixed, server, histories)
            if not biased_sgd.solo(work, over, self.numbers(t), first, last):
                raise NonFiniteError(
                    "update: a value is not finite or beyond +-32768; the model is unchanged"
                )
            number += last - first
            sent += int(mixed.ptr[last] - mixed.ptr[first])
        q = work.q[:, : self.factors].copy()
        after = server._replace(q=q, b=work.b, step=server.step + len(rounds))
        return after, devices._replace(p=work.p, bias=work.bias), sent, sent * self.row_bytes

    @property
    def row_bytes(self) -> int:
        """The bytes of one sent row: item id and gradients."""
        return 4 + 4 * (self.factors + 1)


def passes(server: FBALFServer) -> int:
    """Returns the number of passes over all users that were completed so far."""
    return int(server.step[0] // server.epoch[0])


ALGORITHMS = {"fbalf": FBALF}
