"""FBALF-Bayes: a variational Bayesian ensemble that sends FBALF's messages. It is not the paper's
method, which is `fbalf.py`.

J. Gao, Y. Ran, J. Chen, "Federated latent factor model for bias-aware recommendation with
privacy-preserving", arXiv:2504.15090. The model, the parties and what each holds, the messages and
the decoys are the paper's. A rating is

    r_ui = p_u . q_i + b_u + b_i    (4)

p_u, b_u never leave the device; q_i, b_i are the server's. A device goes `local_iterations` times
over its own ratings (11). It then sends the gradients of q_i and b_i (10) for the items it rated
and for int(rho |I_u|) decoys, whose made-up ratings are the user's mean before iteration
`threshold` and the device's prediction from then on (6). The server steps along the sum (13).

Differences from the paper:

* All devices of a round (`cohort`) answer the same model and the server adds up; in the paper it
  moves after each device.
* (11) and (13) are steps along the gradient with one learning rate. Here each coordinate has its
  own rate, 1 / curvature: a step goes to the coordinate's minimum. The server, which never sees the
  curvature, takes the number of senders for it, and has momentum.
* reg of q_i counts once for an item, not once for a rating: an item with few ratings stays near 0.
* `noise` > 0: p_u is known up to the noise of ratings, so that the gradient is its mean over all
  likely p_u, which adds C q_i (C: the covariance of p_u, on the device); the server in turn sends
  the variance of q_i. This is variational Bayes at no extra byte up. 0 is the point estimate of the
  paper.
* `members` independent models predict together, each with its own p_u, b_u, q_i, b_i: their mean. 1
  is the paper's.
* There is no constant, as in (4): b_u starts at 0. `start` may be another number, the middle of the
  scale or the user's mean; reg_user_bias holds b_u there.
* Decoys are the same in every round; drawn anew, they would expose the rated items, which always
  come. The made-up means pull all items together, so the server steps by `early_rate` until
  `threshold`.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, NamedTuple, Self, final

import numpy as np
from pydantic import Field

from entrenous.core.contract.declarations import SentArray, Traits, axes, rows
from entrenous.core.contract.protocols import Catalogue, Histories, rated
from entrenous.core.contract.update import Total, Update, real
from entrenous.core.keys import fold_name, folds, normals
from entrenous.core.lanes.memory import owners_of
from entrenous.core.types import Float32Array, Float64Array, Int64Array, UInt64Array
from entrenous.kernels import biased_mf, bpr_mf
from entrenous.privacy.decoys import COUNTED, SendsDecoys
from entrenous.systems._cohort import InCohorts

# The least number of ratings that an item is taken to have where decoys hide it.
FEWEST = 5.0


class FBALFBayesServer(NamedTuple):
    """The state of the server."""

    q: Annotated[Float32Array, axes("items", "members", "factors")]
    """float32 [items, K, f], item factors q_i."""
    b: Annotated[Float32Array, axes("items", "members")]
    """float32 [items, K], item biases b_i."""
    m_q: Annotated[Float32Array, axes("items", "members", "factors")]
    """Momentum of `q`."""
    m_b: Annotated[Float32Array, axes("items", "members")]
    """Momentum of `b`."""
    seen: Annotated[Int64Array, axes("items", least=0)]
    """int64 [items], rows received for each item in all rounds."""
    reports: Annotated[Int64Array, axes(1, least=0)]
    """int64 [1], devices that reported in all rounds, each as often as it did."""
    users: Annotated[Int64Array, axes(1, least=1)]
    """int64 [1], the number of users."""
    iteration: Annotated[Int64Array, axes(1, least=0)]
    """int64 [1], rounds done."""
    scale: Annotated[Float32Array, axes(2)]
    """float32 [2], lowest and highest rating."""


class FBALFBayesDownload(NamedTuple):
    """The model as a device receives it."""

    q: Annotated[Float32Array, axes("items", "members", "factors")]
    """float32 [items, K, f], item factors q_i."""
    b: Annotated[Float32Array, axes("items", "members")]
    """float32 [items, K], item biases b_i."""
    v: Annotated[Float32Array, axes("items")]
    """float32 [items], the variance of the coordinates of q_i."""
    scale: Annotated[Float32Array, axes(2)]
    """float32 [2], lowest and highest rating."""
    iteration: Annotated[Int64Array, axes(1, least=0)]
    """int64 [1], rounds done."""


class FBALFBayesDevices(NamedTuple):
    """Private state of m devices. Nothing of it leaves."""

    p: Annotated[Float32Array, axes("members", "factors")]
    """float32 [m, K, f], user factors p_u."""
    offset: Annotated[Float32Array, axes("members")]
    """float32 [m, K], user biases b_u less where they start."""
    key: Annotated[UInt64Array, axes()]
    """uint64 [m], from which a device draws its decoys."""


@final
class FBALFBayes(InCohorts, SendsDecoys):
    """FBALF-Bayes: rating prediction by a variational Bayesian ensemble with user and item biases,
    in the messages of FBALF.
    """

    # The ensemble and the length of training.
    factors: int = Field(16, ge=1, le=256, description="f, the length of p_u and q_i of a member")
    members: int = Field(
        3,
        ge=1,
        le=64,
        description="K, independent models whose predictions are averaged; 1 as in the paper",
    )
    rounds: int = Field(40, ge=1, description="N, training length")
    local_iterations: int = Field(
        10, ge=1, le=1000, description="times a device goes over p_u and b_u in a round"
    )
    # Decoys.
    threshold: int = Field(
        10,
        ge=0,
        description="rounds after which decoys are rated by prediction, not by the user's mean",
    )
    # Biases.
    start: Literal["middle", "mean"] | float = Field(
        0.0,
        description=(
            "where b_u starts and is held to: a number, the middle of the scale, or mean: the"
            " user's mean rating"
        ),
    )
    user_bias: bool = Field(
        True,
        description="b_u is learnt; off: it stays at its start (start=mean: at the middle)",
    )
    item_bias: bool = Field(True, description="b_i is learnt; off: it is 0")
    # Priors.
    noise: float = Field(
        1.0,
        ge=0,
        description=(
            "variance of a rating around its prediction; 0 = point estimates as in the paper"
        ),
    )
    reg_user: float = Field(0.4, ge=0, description="weight of p_u's prior, in ratings")
    reg_item: float = Field(
        40.0, ge=0, description="weight of q_i's prior, in ratings: once for an item"
    )
    reg_user_bias: float = Field(1.5, ge=0, description="weight of b_u's start, in ratings")
    reg_item_bias: float = Field(100.0, ge=0, description="weight of b_i = 0, in ratings")
    # The server.
    learning_rate: float = Field(
        0.7,
        gt=0,
        le=2,
        description="of the server, as a share of the way to its estimate of the minimum",
    )
    momentum: float = Field(0.7, ge=0, lt=1, description="of the server")
    early_rate: float = Field(
        0.05,
        gt=0,
        le=1,
        description=(
            "what the learning rate is multiplied by before `threshold`, where there are decoys"
        ),
    )
    damping: float = Field(
        30.0, ge=0, description="senders that the server adds to an item's own when it steps"
    )
    cohort: int = Field(
        0,
        ge=0,
        description=(
            "devices in a round; 0 = all. With few of them take a small learning_rate and no"
            " momentum"
        ),
    )
    init_std: float = Field(0.1, gt=0, description="standard deviation of the first q")
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

    holds: ClassVar[type] = FBALFBayesServer
    receives: ClassVar[type] = FBALFBayesDownload
    keeps: ClassVar[type] = FBALFBayesDevices
    sends: ClassVar[tuple[SentArray, ...]] = (
        rows(
            "q",
            "members",
            "factors",
            when="each round, a row for every rated item and every decoy",
            reveals=(
                "the gradients of q_i: multiples of p_u (with noise > 0 and a rated item, nearly)."
                " Seen singly they tell p_u's direction and, with b, p_u itself; decoys and rated"
                " items can then be told apart. In a sum over a cohort a row that one device alone"
                " sent stands as it is"
            ),
        ),
        rows(
            "b",
            "members",
            when="each round if item_bias, numbers for every rated item and every decoy",
            reveals=(
                "the errors of the device's predictions, with the sign turned. Seen singly, with q"
                " they give back the ratings up to the user's bias, and real ratings are whole"
                " numbers where made-up ones are not: decoys hide nothing from a server that looks"
                " at one device. They hide what was rated from one that sees sums, and which items"
                " a device asks about from the network"
            ),
            only_if="item_bias",
        ),
        COUNTED,
    )
    traits: ClassVar[Traits] = Traits(
        predicts_ratings=True,
        draws_negatives=False,
        private_settings={"counts": 0.1},
    )

    # ---- the federation --------------------------------------------------------------------------

    def configured(self, catalogue: Catalogue) -> Self:
        """Returns a copy of the settings with the cohort as a number. Raises InputError if nothing
        is rated.
        """
        rated(catalogue.scale, "fbalf-bayes")
        return super().configured(catalogue)

    def sizes(self, catalogue: Catalogue) -> dict[str, int]:
        """Returns the sizes of the declared arrays: the rows that a device sends at most (rows) and
        as a rule (usual_rows).
        """
        return {"rows": catalogue.items, "usual_rows": self.usual_rows(catalogue)}

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> FBALFBayesServer:
        """Returns the initial state: item factors q ~ N(0, init_std^2), item biases b = 0."""
        items = catalogue.items
        keys = folds(key, np.arange(items))
        drawn = normals(keys, self.members * self.factors, self.init_std)
        q = drawn.reshape(items, self.members, self.factors)
        b = np.zeros((items, self.members), np.float32)
        return FBALFBayesServer(
            q=q,
            b=b,
            m_q=np.zeros_like(q),
            m_b=b.copy(),
            seen=np.zeros(items, np.int64),
            reports=np.zeros(1, np.int64),
            users=np.array([catalogue.users], np.int64),
            iteration=np.zeros(1, np.int64),
            scale=np.array(catalogue.scale, np.float32),
        )

    def init_devices(
        self, users: Int64Array, catalogue: Catalogue, key: np.uint64
    ) -> FBALFBayesDevices:
        """Returns the initial private state of the devices of `users`: p = 0, which is solved for
        as soon as q arrives, and the key of the decoys."""
        p = np.zeros((len(users), self.members, self.factors), np.float32)
        offset = np.zeros((len(users), self.members), np.float32)
        return FBALFBayesDevices(p, offset, folds(fold_name(key, "decoys"), users))

    def download(self, server: FBALFBayesServer) -> FBALFBayesDownload:
        """Returns the model as every device receives it, with the variance noise / (ratings of the
        item + reg_item) of each q_i.
        """
        # Without noise q_i is taken to be exact.
        v = np.zeros(len(server.q))
        if self.noise:
            v = self.noise / (self.ratings(server) + self.reg_item)
        return FBALFBayesDownload(
            server.q, server.b, v.astype(np.float32), server.scale, server.iteration
        )

    # ---- on the device (section 4.3.1) -----------------------------------------------------------

    def local(
        self,
        download: FBALFBayesDownload,
        devices: FBALFBayesDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
    ) -> tuple[FBALFBayesDevices, Update]:
        """Trains the devices: p_u, b_u learn from the device's ratings (eq. 11). The gradients of
        q_i, b_i (eq. 10) are sent, for rated items and decoys (eq. 7)."""
        mixed = self.mixed(devices.key, histories, len(download.q), key)  # I_u and I'_u
        over = biased_mf.BiasedMFRows(*mixed, self.starts(download, histories))
        after = devices._replace(p=devices.p.copy(), offset=devices.offset.copy())
        rates = self.rates(int(download.iteration[0]))
        g_q, g_b = biased_mf.gradients(
            download.q, download.b, download.v, after.p, after.offset, over, rates
        )
        rows = {"q": g_q}
        if self.item_bias:
            rows["b"] = g_b
        if self.counts:
            rows["count"] = np.full(len(mixed.item), self.counts, np.float32)
        weight = np.ones(len(users), np.float32)
        return after, Update(mixed.ptr, mixed.item, rows, {}, weight)

    def rates(self, iteration: int) -> biased_mf.BiasedMFRates:
        """Returns the constants of local training in an iteration, which counts from 0."""
        return biased_mf.BiasedMFRates(
            steps=self.local_iterations,
            reg=np.float32(self.reg_user),
            reg_bias=np.float32(self.reg_user_bias),
            noise=np.float32(self.noise),
            bias=self.user_bias,
            predict=iteration >= self.threshold,  # (6)
        )

    def starts(self, download: FBALFBayesDownload, histories: Histories) -> Float32Array:
        """Returns the starting values of b_u, float32 [m]: a constant that all know, or the mean of
        the device's ratings, if it has any.
        """
        middle = download.scale.mean() if isinstance(self.start, str) else self.start
        counts = np.diff(histories.ptr)
        if self.start != "mean" or not self.user_bias:
            return np.full(len(counts), middle, np.float32)
        device = owners_of(histories.ptr)
        total = np.bincount(device, histories.value.astype(np.float64), minlength=len(counts))
        mean = total / np.maximum(counts, 1)
        return np.where(counts > 0, mean, middle).astype(np.float32)

    # ---- on the server (section 4.3.2) -----------------------------------------------------------

    def aggregate(self, server: FBALFBayesServer, total: Total) -> FBALFBayesServer:
        """Returns the new state: q_i and b_i move along the sum of their gradients (eq. 13) and of
        their prior's, with momentum.
        """
        senders = self.senders(total)
        seen = server.seen + senders
        reports = server.reports + total.devices
        # The share of all users, so that a pass over all counts the prior once.
        share = total.devices / float(server.users[0])
        # A sum of few devices may lack an item by chance: its curvature is at least the usual one.
        expected = np.maximum(senders, seen / float(reports[0]) * total.devices)
        # Made-up means pull all items together until decoys are rated by prediction.
        early = self.rho > 0 and int(server.iteration[0]) < self.threshold
        rate = self.learning_rate * (self.early_rate if early else 1.0)
        q, m_q = self._stepped(server.q, server.m_q, real(total.rows["q"]), expected, share, rate)
        b = server.b
        m_b = server.m_b
        if self.item_bias:
            b, m_b = self._stepped(b, m_b, real(total.rows["b"]), expected, share, rate)
        return server._replace(
            q=q, b=b, m_q=m_q, m_b=m_b, seen=seen, reports=reports, iteration=server.iteration + 1
        )

    def senders(self, total: Total) -> Int64Array:
        """Returns how many devices sent a row of each item, int64 [items]: as counted, or the
        nearest integer to the sum of their counts.
        """
        if not self.counts:
            return total.senders
        return np.maximum(np.rint(real(total.rows["count"]) / self.counts), 0).astype(np.int64)

    def _stepped(
        self,
        array: Float32Array,
        momentum: Float32Array,
        gradient: Float64Array,
        senders: Float64Array,
        share: float,
        rate: float,
    ) -> tuple[Float32Array, Float32Array]:
        """Returns q (or b, which has one number a member) and its momentum after a step."""
        of_q = array.ndim == 3
        reg = self.reg_item if of_q else self.reg_item_bias
        damping = self.damping if of_q else 0.0
        # A row of numbers, one for each item, for q as for b.
        curvature = (senders + (reg + damping) * share).reshape(-1, *[1] * (array.ndim - 1))
        step = (gradient + reg * share * array) / np.maximum(curvature, 1e-6)
        moved = (self.momentum * momentum + step).astype(np.float32)
        return (array - np.float32(rate) * moved).astype(np.float32), moved

    def ratings(self, server: FBALFBayesServer) -> Float64Array:
        """Returns the estimated number of ratings of each item, as far as the server can tell,
        float64 [items].

        Each of the users - n_i who did not rate it sends a decoy with the chance rho h / (items -
        h), h: the mean number of ratings of a user."""
        users = float(server.users[0])
        # rows in a pass over all users
        received = server.seen / max(1.0, float(server.reports[0])) * users
        if not self.rho or not received.any():
            return received
        history = received.sum() / (1 + self.rho) / users
        chance = min(self.rho * history / max(len(received) - history, 1.0), 0.99)
        return np.maximum((received - users * chance) / (1 - chance), FEWEST)

    # ---- predictions -----------------------------------------------------------------------------

    def score(
        self, download: FBALFBayesDownload, devices: FBALFBayesDevices, histories: Histories
    ) -> Float32Array:
        """Returns the predicted ratings r_ui of eq. 4 for every item, not clipped to the scale,
        float32 [m, items].
        """
        of_user, of_item = self.biases(download, devices, histories)
        # The mean over the members is one product of vectors that hold all of them.
        p = devices.p.reshape(len(devices.p), -1) / np.float32(self.members)
        q = download.q.reshape(len(download.q), -1)
        return bpr_mf.scores(p, q, of_item) + of_user[:, None]

    def biases(
        self, download: FBALFBayesDownload, devices: FBALFBayesDevices, histories: Histories
    ) -> tuple[Float32Array, Float32Array]:
        """Returns the parts of a prediction that no taste explains: b_u, float32 [m], and b_i,
        float32 [items], as means over the members.
        """
        return self.starts(download, histories) + mean(devices.offset), mean(download.b)


def mean(of_members: Float32Array) -> Float32Array:
    """Returns the means over the members of an ensemble, float32 [n]. of_members: float32 [n, K].
    Adds member by member, so that the bits do not depend on n.
    """
    total = np.zeros(len(of_members), np.float32)
    for k in range(of_members.shape[1]):
        total += of_members[:, k]
    return total / np.float32(of_members.shape[1])


ALGORITHMS = {"fbalf-bayes": FBALFBayes}
