"""MetaMF, meta matrix factorisation for federated rating predictions, in its on-device form.

Y. Lin, P. Ren, Z. Chen, Z. Ren, D. Yu, J. Ma, M. de Rijke, X. Cheng, "Meta matrix factorization for
federated rating predictions", SIGIR 2020. The server holds a meta network (kernels/meta_network.py)
that makes, from the embedding of a user, an item table A_u B_u and a predictor of that user's own;
the device predicts

    r^_ui = middle of the scale + w2 . relu(W1^T (A_u[i] B_u) + b1) + b2

and returns the gradient of (r_ui - r^_ui)^2 by A_u[i], B_u and the predictor for a batch of its
ratings; the server goes on from there with back-propagation through the meta network (algorithm 1)
and takes one Adam step, with weight decay and a bound on the gradient's norm.

The published program (TempSDU/MetaMF) runs none of this on devices: it is trained centrally, by
batches of 64 ratings of anybody. Here a round is `batch` ratings of each of `cohort` devices, which
come in turns, as many as they have batches, as far as the server knows that: small batches of
single ratings in epochs, as the authors'. Of A_u only the rows of items that are rated in a round
are computed where rounds are simulated (`many_rounds`), and only what made them moves (`sparse`).
Larger batches of fewer devices, drawn evenly, cost the server less a rating and are less accurate.

Deviations from the published program: hidden layers are 128 wide, not 512; the learning rate is ten
times higher, for a fifteenth of the epochs, and shrinks by `rate_decay` after each; weight decay
shrinks weights apart from Adam's step; the table travels as its two factors, a quarter of its size
(nothing between the factors and the predictor's first layer is nonlinear, so the device never needs
their product); predictions start from the middle of the scale; a layer's weights and biases are
generated from the same hidden layer; what the generated models share does not start at 0, where the
product A_u B_u has a saddle that weight decay makes hard to leave.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, NamedTuple, Self, final

import numpy as np
from numba import njit
from pydantic import Field

from ..core.contract.declarations import SentArray, Traits, axes, shown
from ..core.contract.protocols import Catalogue, Histories, rated
from ..core.contract.settings import Settings
from ..core.contract.update import Total, Update, add_update, empty_total, gathered
from ..core.keys import fold, fold_name, folds, select_key
from ..core.types import Float32Array, Int32Array, Int64Array, UInt64Array
from ..kernels import meta_network
from ..kernels.adam import AdamStep, adam_step, direction, moment
from ..kernels.meta_network import MetaSizes
from ..kernels.sampling import cohort, in_turns, shuffled

NONE = np.float32(-1)  # where a device has fewer ratings than a batch


class MetaMFServer(NamedTuple):
    """The state of the server. theta: all parameters of the meta network, float32 [n]; m, s: Adam's
    moments of them. users, items: int64 [1]. ratings: float32 [users], how many each has: the mean
    until they showed it. scale: float32 [2], lowest and highest rating. step: int64 [1], Adam's
    steps so far. epoch: int64 [1], rounds with as many ratings as there are. key: uint64 [1], which
    names the order in which devices have their turns.
    """

    theta: Float32Array
    m: Float32Array
    s: Float32Array
    users: Int64Array
    items: Int64Array
    ratings: Float32Array
    scale: Float32Array
    step: Int64Array
    epoch: Int64Array
    key: UInt64Array


class MetaMFDownload(NamedTuple):
    """The models that the server makes for m devices. low: A_u, float32 [m, items, L]; rise: B_u,
    [m, L, D]; first: [m, (D + 1) P], weights [D, P] and biases; second: [m, P + 1], weights and a
    bias. middle: float32 [1], of the scale.
    """

    low: Annotated[Float32Array, axes("devices", "items", "low")]
    rise: Annotated[Float32Array, axes("devices", "low", "factors")]
    first: Annotated[Float32Array, axes("devices", "first")]
    second: Annotated[Float32Array, axes("devices", "second")]
    middle: Annotated[Float32Array, axes(1)]


class MetaMFDevices(NamedTuple):
    """Private state of m devices, beside their ratings; their models the server makes anew in each
    round. done: how many ratings a device drew so far. key: which names the order in which it draws
    them. None of it leaves.
    """

    done: Annotated[Int64Array, axes(least=0)]
    key: Annotated[UInt64Array, axes()]


@final
class MetaMF(Settings):
    """Meta matrix factorisation: the server generates a rating predictor for each user, and learns
    from the gradients devices return.
    """

    user: int = Field(
        32, ge=1, le=1024, description="length of a user's embedding, which the server holds"
    )
    taste: int = Field(
        128,
        ge=16,
        le=4096,
        multiple_of=16,
        description="length of the collaborative vector made from it",
    )
    hidden: int = Field(
        128,
        ge=16,
        le=4096,
        multiple_of=16,
        description="width of each generator's hidden layer; 512 as published",
    )
    low: int = Field(
        8, ge=1, le=1024, description="L: the item table is generated as [items, L] times [L, D]"
    )
    factors: int = Field(
        32, ge=1, le=1024, description="D, the length of a generated item embedding"
    )
    predictor: int = Field(
        8, ge=1, le=1024, description="P, the width of the generated predictor's hidden layer"
    )
    batch: int = Field(
        4,
        ge=1,
        le=100000,
        description="B_u, ratings that a device draws in a round, no more than are left",
    )
    cohort: int = Field(64, ge=0, description="S, devices in a round; 0 = all")
    drawn: Literal["turns", "evenly"] = Field(
        "turns",
        description=(
            "turns: in an epoch each device has as many as its ratings fill batches, so that each"
            " rating counts once; evenly: devices are drawn at random, whatever they have"
        ),
    )
    rounds: int = Field(
        6,
        ge=1,
        description=(
            "training length: epochs, in which each rating counts once; with drawn=evenly rounds"
        ),
    )
    learning_rate: float = Field(0.001, gt=0, le=10, description="of Adam; 0.0001 as published")
    rate_decay: float = Field(
        0.7,
        gt=0,
        le=1,
        description="what the learning rate is multiplied by after every epoch; 1 as published",
    )
    reg: float = Field(
        0.5, ge=0, le=100, description="weight decay; 0.001 as published, with decay=gradient"
    )
    decay: Literal["gradient", "apart"] = Field(
        "apart",
        description=(
            "weight decay is added to the gradient, as published, or shrinks parameters apart from"
            " Adam's step (AdamW)"
        ),
    )
    init_std: float = Field(
        0.3,
        ge=0,
        description=(
            "standard deviation of the first biases of output layers, which all users' models"
            " share; 0 as published"
        ),
    )
    clip: float = Field(5.0, gt=0, le=1e9, description="largest norm of the gradient of a round")
    sparse: bool = Field(
        True,
        description=(
            "Adam and weight decay leave alone what a round did not touch: embeddings of other"
            " users and the weights of other items' rows; off: all parameters move in every round,"
            " as published, at several times the work"
        ),
    )

    holds: ClassVar[type] = MetaMFServer
    receives: ClassVar[type] = MetaMFDownload
    keeps: ClassVar[type] = MetaMFDevices
    sends: ClassVar[tuple[SentArray, ...]] = (
        shown(
            "item",
            "batch",
            when="each round a device takes part in, by name",
            reveals=(
                "which items were rated, plainly: no item but a rated one is listed, and in some"
                " rounds all are"
            ),
            below="items",
            least=-1,
        ),
        shown(
            "low",
            "batch",
            "low",
            when="with every item, by name",
            reveals=(
                "the rating: the gradient of A_u[i] is the error times numbers that the server made"
                " itself, so it can divide"
            ),
        ),
        shown(
            "ratings",
            1,
            when="each round a device takes part in, by name",
            reveals="how many ratings the user has",
            below="counts",
            least=0,
        ),
        shown(
            "rise",
            "low",
            "factors",
            when="each round a device takes part in, by name",
            reveals="a summary of its batch",
        ),
        shown(
            "first",
            "first",
            when="each round a device takes part in, by name",
            reveals="a summary of its batch",
        ),
        shown(
            "second",
            "second",
            when="each round a device takes part in, by name",
            reveals=(
                "a summary of its batch; the last number is the sum of its errors. Nothing that a"
                " device sends can be hidden in a sum over devices: the server goes on through the"
                " network it made for this user, whose embedding it also holds"
            ),
        ),
    )
    traits: ClassVar[Traits] = Traits(predicts_ratings=True, draws_negatives=False)

    def configured(self, catalogue: Catalogue) -> Self:
        """A copy of the settings in which the cohort is a number of devices of this federation.
        Raises InputError for data without ratings."""
        rated(catalogue.scale, "metamf")
        return self.model_copy(
            update={"cohort": min(self.cohort, catalogue.users) or catalogue.users}
        )

    def default_rounds(self, catalogue: Catalogue) -> int:
        """Training rounds if none are asked for: those of `rounds` epochs."""
        return self.rounds * self.rounds_an_epoch(catalogue)

    def rounds_an_epoch(self, catalogue: Catalogue) -> int:
        """Rounds in which each rating counts once, where all devices fill their batches; 1 if
        devices are drawn evenly.
        """
        return (
            1
            if self.drawn == "evenly"
            else max(1, catalogue.interactions // (self.configured(catalogue).cohort * self.batch))
        )

    def sizes(self, catalogue: Catalogue) -> dict[str, int]:
        """Sizes of the declared arrays. first, second: numbers in the layers of a generated
        predictor. counts: how many numbers of ratings a user can have, from none to one for each
        item.
        """
        return {
            "first": self.meta_sizes(1, 1).first,
            "second": self.predictor + 1,
            "counts": catalogue.items + 1,
        }

    def meta_sizes(self, users: int, items: int) -> MetaSizes:
        """Sizes of the meta network's layers."""
        return MetaSizes(
            users, items, self.user, self.taste, self.hidden, self.low, self.factors, self.predictor
        )

    def _sizes(self, server: MetaMFServer) -> MetaSizes:
        return self.meta_sizes(int(server.users[0]), int(server.items[0]))

    # ---- on the server: algorithm 1, generation --------------------------------------------------

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> MetaMFServer:
        """The initial meta network: Xavier-normal weights; biases 0, but for what all generated
        models share.
        """
        theta = meta_network.first_parameters(
            self.meta_sizes(catalogue.users, catalogue.items), key, self.init_std
        )
        users, items = np.array([catalogue.users]), np.array([catalogue.items])
        ratings = np.full(
            catalogue.users, max(1, catalogue.interactions // max(1, catalogue.users)), np.float32
        )
        scale, epoch = (
            np.array(catalogue.scale, np.float32),
            np.array([self.rounds_an_epoch(catalogue)], np.int64),
        )
        step, moments = np.zeros(1, np.int64), (np.zeros_like(theta), np.zeros_like(theta))
        turns = np.array([fold_name(key, "turns")], np.uint64)
        return MetaMFServer(theta, *moments, users, items, ratings, scale, step, epoch, turns)

    def init_devices(self, users: Int64Array, key: np.uint64) -> MetaMFDevices:
        """The initial private state of the devices of `users`: no rating drawn."""
        return MetaMFDevices(np.zeros(len(users), np.int64), folds(key, users))

    def select(self, server: MetaMFServer, catalogue: Catalogue, key: np.uint64) -> Int64Array:
        """The round's devices S: in turns, in each epoch as many for a device as its ratings fill
        batches; or drawn evenly.
        """
        many = self.configured(catalogue).cohort
        if self.drawn == "evenly":
            return cohort(key, many, catalogue.users)
        epoch, place = divmod(int(server.step[0]), int(server.epoch[0]))
        turns = -(-server.ratings.astype(np.int64) // self.batch)
        return in_turns(np.uint64(fold(server.key[0], epoch)), place * many, many, turns)

    def download(self, server: MetaMFServer) -> MetaMFServer:
        """The whole server state, from which `deliver` makes each user's model."""
        return server

    def deliver(self, download: MetaMFServer, users: Int64Array) -> MetaMFDownload:
        """The models that the meta network makes for `users`: the factored item table and the
        predictor of each.
        """
        sizes = self._sizes(download)
        made = meta_network.generate(meta_network.views(download.theta, sizes), sizes, users)
        return MetaMFDownload(*made, download.scale.mean(keepdims=True))

    # ---- on the device ---------------------------------------------------------------------------

    def local(
        self,
        download: MetaMFDownload,
        devices: MetaMFDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
    ) -> tuple[MetaMFDevices, Update]:
        """The gradient of the squared errors by all received parameters, added over a batch of each
        device's ratings.
        """
        item, value, done = self._drawn(histories, np.arange(len(users)), devices)
        low = download.low[np.arange(len(users))[:, None], np.maximum(item, 0).astype(np.int64)]
        counts = np.diff(histories.ptr)
        return devices._replace(done=done), self._sent(
            download._replace(low=low), item, value, counts, users
        )

    def _drawn(
        self, histories: Histories, rows: Int64Array, devices: MetaMFDevices
    ) -> tuple[Float32Array, Float32Array, Int64Array]:
        """The batches of the devices in some rows of `histories`: items, NONE where there are
        fewer, and ratings, float32 [m, B]; and how many each drew since it began, int64 [m].
        devices: of these rows.
        """
        item, done = np.full((len(rows), self.batch), NONE, np.float32), devices.done.copy()
        value = np.zeros_like(item)
        _draw_batches(
            histories.ptr, histories.item, histories.value, rows, devices.key, done, item, value
        )
        return item, value, done

    def _sent(
        self,
        made: MetaMFDownload,
        item: Float32Array,
        value: Float32Array,
        counts: Int64Array,
        users: Int64Array,
    ) -> Update:
        """What devices send after their batches. made: their models, of A_u the rows of their
        batches alone, low [m, B, L].
        """
        m, parts = len(users), [np.zeros_like(np.asarray(array)) for array in made[:4]]
        _gradients(made, item, value, *parts)
        shown = {
            "item": item,
            **dict(zip(made._fields[:4], parts, strict=True)),
            "ratings": counts.astype(np.float32)[:, None],
        }
        nothing, weight = np.zeros(m + 1, np.int64), np.ones(m, np.float32)
        return Update(nothing, np.empty(0, np.int32), {}, {}, weight, shown=shown, sender=users)

    def score(
        self, download: MetaMFDownload, devices: MetaMFDevices, histories: Histories
    ) -> Float32Array:
        """Predicted ratings r^_ui of every item, float32 [m, items]."""
        out = np.empty(download.low.shape[:2], np.float32)
        _score(download, out)
        return out

    # ---- on the server: algorithm 1, back-propagation --------------------------------------------

    def aggregate(self, server: MetaMFServer, total: Total) -> MetaMFServer:
        """The server's step (algorithm 1): back-propagation of the mean over the round's ratings,
        device by device in the order of users, and a step of Adam."""
        return self._step(_copied(server), total, np.zeros_like(server.theta))

    def _step(self, server: MetaMFServer, total: Total, slope: Float32Array) -> MetaMFServer:
        """`aggregate` in place. slope: room for the gradient, all 0 before and after."""
        sender, shown = gathered(total)
        sizes, batches, step = self._sizes(server), shown["item"], int(server.step[0])
        server.ratings[sender] = shown["ratings"][:, 0]
        scale = np.float32(1 / max(1, int((batches >= 0).sum())))
        rise = shown["rise"].reshape(len(sender), self.low * self.factors)
        parts = batches, shown["low"], rise, shown["first"], shown["second"]
        meta_network.back(
            meta_network.views(server.theta, sizes),
            sender,
            *parts,
            scale,
            meta_network.views(slope, sizes),
        )
        rate = self.learning_rate * self.rate_decay ** (step // int(server.epoch[0]))
        regs = (self.reg, 0.0) if self.decay == "gradient" else (0.0, rate * self.reg)
        touched = np.array([[0, len(slope)]])
        if self.sparse:
            touched = sizes.touched(sender, np.unique(batches[batches >= 0]).astype(np.int64))
        _descend(
            server.theta,
            server.m,
            server.s,
            slope,
            touched,
            self.clip,
            *regs,
            adam_step(rate, step + 1),
        )
        return server._replace(step=server.step + 1)

    # ---- rounds in which nobody looks at what devices send, one after the other ------------------

    def many_rounds(
        self,
        server: MetaMFServer,
        devices: MetaMFDevices,
        histories: Histories,
        rounds: range,
        key: np.uint64,
        catalogue: Catalogue,
    ) -> tuple[MetaMFServer, MetaMFDevices, int, int]:
        """`rounds` over all users' devices, in which of every A_u the rows of the batch alone are
        made; the same bits as one round at a time. Returns the new server, the devices, how many
        took part, and how many bytes were sent.
        """
        server, done = _copied(server), devices.done.copy()
        slope, sizes, counts, took, sent = (
            np.zeros_like(server.theta),
            self._sizes(server),
            np.diff(histories.ptr),
            0,
            0,
        )
        for number in rounds:
            users = self.select(server, catalogue, np.uint64(select_key(key, number)))
            own = MetaMFDevices(done[users], devices.key[users])
            item, value, done[users] = self._drawn(histories, users, own)
            made = meta_network.generate(
                meta_network.views(server.theta, sizes), sizes, users, item
            )
            update = self._sent(
                MetaMFDownload(*made, server.scale.mean(keepdims=True)),
                item,
                value,
                counts[users],
                users,
            )
            server = self._step(
                server, add_update(empty_total(update, catalogue.items), update), slope
            )
            took, sent = took + len(users), sent + update.nbytes
        return server, devices._replace(done=done), took, sent


def _copied(server: MetaMFServer) -> MetaMFServer:
    """A state whose large arrays may be overwritten."""
    theta, m, s, ratings = (
        array.copy() for array in (server.theta, server.m, server.s, server.ratings)
    )
    return server._replace(theta=theta, m=m, s=s, ratings=ratings)


# ---- in plain loops ------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _through(rise: Float32Array, first: Float32Array, through: Float32Array) -> None:
    """B_u W1, [L, P]: from a row of A_u straight to the predictor's hidden layer. first: [(D + 1)
    P].
    """
    length, width = through.shape
    for k in range(length):
        for p in range(width):
            through[k, p] = np.float32(0)
        for f in range(rise.shape[1]):
            for p in range(width):
                through[k, p] += rise[k, f] * first[f * width + p]


@njit(cache=True, nogil=True)
def _predict(
    row: Float32Array,
    through: Float32Array,
    first: Float32Array,
    second: Float32Array,
    z: Float32Array,
) -> np.float32:
    """The predictor on a row of A_u, without the middle; z: its hidden layer before the
    rectifier.
    """
    length, width = through.shape
    for p in range(width):
        z[p] = first[len(first) - width + p]
    for k in range(length):
        for p in range(width):
            z[p] += row[k] * through[k, p]
    out = second[width]
    for p in range(width):
        if z[p] > np.float32(0):
            out += second[p] * z[p]
    return out  # type: ignore[return-value]  # a number


@njit(cache=True, nogil=True)
def _score(received: MetaMFDownload, out: Float32Array) -> None:
    """r^_ui of all devices and items."""
    width, middle = received.second.shape[1] - 1, received.middle[0]
    through, z = np.empty((received.rise.shape[1], width), np.float32), np.empty(width, np.float32)
    for d in range(len(out)):
        low, first, second = received.low[d], received.first[d], received.second[d]
        _through(received.rise[d], first, through)
        for i in range(out.shape[1]):
            out[d, i] = middle + _predict(low[i], through, first, second, z)


@njit(cache=True, nogil=True)
def _gradients(
    made: MetaMFDownload,
    items: Float32Array,
    values: Float32Array,
    d_low: Float32Array,
    d_rise: Float32Array,
    d_first: Float32Array,
    d_second: Float32Array,
) -> None:
    """The gradients of the squared errors of all devices' batches, added to d_low and the others.
    made.low: [m, B, L].
    """
    length, width = made.rise.shape[1], made.second.shape[1] - 1
    through, d_through = (
        np.empty((length, width), np.float32),
        np.empty((length, width), np.float32),
    )
    z, zero, two = np.empty(width, np.float32), np.float32(0), np.float32(2)
    for d in range(len(items)):
        low, rise, first, second = made.low[d], made.rise[d], made.first[d], made.second[d]
        _through(rise, first, through)
        d_through[:, :] = zero
        biases = len(first) - width
        for n in range(items.shape[1]):
            if items[d, n] < zero:
                continue
            guess = made.middle[0] + _predict(low[n], through, first, second, z)
            error = two * (guess - values[d, n])
            d_second[d, width] += error
            for p in range(width):
                if z[p] > zero:
                    d_second[d, p] += error * z[p]
                    slope = error * second[p]
                    d_first[d, biases + p] += slope
                    for k in range(length):
                        d_low[d, n, k] += slope * through[k, p]
                        d_through[k, p] += slope * low[n, k]
        for k in range(length):
            for f in range(rise.shape[1]):
                for p in range(width):  # through = B W1
                    d_rise[d, k, f] += d_through[k, p] * first[f * width + p]
                    d_first[d, f * width + p] += rise[k, f] * d_through[k, p]


@njit(cache=True, nogil=True)
def _draw_batches(
    ptr: Int64Array,
    item: Int32Array,
    value: Float32Array,
    rows: Int64Array,
    keys: UInt64Array,
    done: Int64Array,
    items: Float32Array,
    values: Float32Array,
) -> None:
    """The items and ratings that each device draws, ascending: the next of a random order of all
    that it has, and another one after each. No batch is of two orders, so that the last of an order
    may be short. done: counts on, in place.
    """
    place = np.empty(items.shape[1], np.int64)
    for d in range(len(rows)):
        start, count = ptr[rows[d]], ptr[rows[d] + 1] - ptr[rows[d]]
        if count == 0:
            continue
        order, first = done[d] // count, done[d] % count
        many, key = min(len(place), count - first), fold(keys[d], order)
        for n in range(many):
            at, k = shuffled(key, first + n, count), n
            while k > 0 and place[k - 1] > at:
                place[k] = place[k - 1]
                k -= 1
            place[k] = at
        for n in range(many):
            items[d, n], values[d, n] = np.float32(item[start + place[n]]), value[start + place[n]]
        done[d] += many


@njit(cache=True, nogil=True)
def _norm(slope: Float32Array, touched: Int64Array) -> float:
    """The length of a vector that is 0 but in the parts `touched`, added in float64 from first to
    last.
    """
    total = 0.0
    for part in range(len(touched)):
        for k in range(touched[part, 0], touched[part, 1]):
            total += np.float64(slope[k]) * np.float64(slope[k])
    return np.sqrt(total)  # type: ignore[no-any-return]


@njit(cache=True, nogil=True)
def _descend(
    theta: Float32Array,
    m: Float32Array,
    s: Float32Array,
    slope: Float32Array,
    touched: Int64Array,
    clip: float,
    reg: float,
    shrink: float,
    step: AdamStep,
) -> None:
    """In place, in the parts `touched` (from, to): the slope cut to length `clip`, plus reg theta,
    then a step of Adam; theta also shrinks by a share of itself. The slope is 0 after it."""
    shorter = np.float32(min(1.0, clip / (_norm(slope, touched) + 1e-6)))
    decay, kept, zero = np.float32(reg), np.float32(1 - shrink), np.float32(0)
    for part in range(len(touched)):
        for k in range(touched[part, 0], touched[part, 1]):
            g = shorter * slope[k] + decay * theta[k]
            slope[k] = zero
            m[k] = moment(m[k], g, step.beta1, step.rest1)
            s[k] = moment(s[k], g * g, step.beta2, step.rest2)
            theta[k] = kept * theta[k] - direction(
                m[k], s[k], step.first, step.second, step.epsilon
            )


ALGORITHMS = {"metamf": MetaMF}
