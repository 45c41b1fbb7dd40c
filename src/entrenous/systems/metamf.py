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
batches of 64 ratings of any users. Here a round is `batch` ratings of each of `cohort` devices,
which come in turns, as often as the batches that their ratings fill, as far as the server knows
these numbers: small batches of single ratings in epochs, as the authors'. Simulated rounds
(`many_rounds`) compute only the rows of A_u that are rated in the round, and only their parameters
move (`sparse`). Larger batches of fewer devices, drawn evenly, cost the server less for each rating
and are less accurate.

Deviations from the published program: hidden layers are 128 wide, not 512; the learning rate is ten
times higher, for a fifteenth of the epochs, and shrinks by `rate_decay` after each; weight decay
shrinks weights apart from Adam's step; the table travels as its two factors, a quarter of its size
(nothing between the factors and the predictor's first layer is nonlinear, so the device never needs
their product); predictions start from the middle of the scale; a layer's weights and biases are
generated from the same hidden layer; the shared part of the generated models does not start at 0,
where the product A_u B_u has a saddle that weight decay makes hard to leave.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, NamedTuple, Self, final

import numpy as np
from pydantic import Field

from ..core.compiling import njit
from ..core.contract.declarations import SentArray, Traits, axes, shown
from ..core.contract.protocols import Catalogue, Histories, rated
from ..core.contract.update import Total, Update, add_update, empty_total, gathered
from ..core.keys import fold, fold_name, folds, select_key
from ..core.lanes.memory import sealed
from ..core.types import Float32Array, Int32Array, Int64Array, UInt64Array
from ..kernels import meta_network
from ..kernels.adam import AdamStep, adam_step, direction, moment
from ..kernels.meta_network import MetaSizes
from ..kernels.sampling import cohort, in_turns, shuffled
from ._cohort import InCohorts

# Stands for an item where a device has fewer ratings than a batch.
NONE = np.int32(-1)


class MetaMFServer(NamedTuple):
    """The state of the server."""

    theta: Float32Array
    """float32 [n], all parameters of the meta network."""
    m: Float32Array
    """Adam's first moment of `theta`."""
    s: Float32Array
    """Adam's second moment of `theta`."""
    users: Int64Array
    """int64 [1], the number of users."""
    items: Int64Array
    """int64 [1], the number of items."""
    ratings: Float32Array
    """float32 [users], the number of ratings of each; the mean until a device has shown its own."""
    scale: Float32Array
    """float32 [2], lowest and highest rating."""
    step: Int64Array
    """int64 [1], Adam's steps so far."""
    epoch: Int64Array
    """int64 [1], rounds that take as many ratings as there are."""
    key: UInt64Array
    """uint64 [1], names the order in which devices have their turns."""


class MetaMFDownload(NamedTuple):
    """The models that the server makes for m devices."""

    low: Annotated[Float32Array, axes("devices", "items", "low")]
    """float32 [m, items, L], A_u."""
    rise: Annotated[Float32Array, axes("devices", "low", "factors")]
    """float32 [m, L, D], B_u."""
    first: Annotated[Float32Array, axes("devices", "first")]
    """float32 [m, (D + 1) P], weights [D, P] and biases."""
    second: Annotated[Float32Array, axes("devices", "second")]
    """float32 [m, P + 1], weights and a bias."""
    middle: Annotated[Float32Array, axes(1)]
    """float32 [1], the middle of the scale."""


class MetaMFDevices(NamedTuple):
    """Private state of m devices. Nothing of it leaves. The server makes their models anew in each
    round.
    """

    done: Annotated[Int64Array, axes(least=0)]
    """int64 [m], how many ratings a device drew so far."""
    key: Annotated[UInt64Array, axes()]
    """uint64 [m], names the order in which a device draws its ratings."""


class MetaMFBatches(NamedTuple):
    """Ratings that m devices drew in a round."""

    item: Int32Array
    """int32 [m, B], ascending, NONE where there are fewer. They are float32 where devices show
    them, as all that is shown."""
    value: Float32Array
    """float32 [m, B]."""


@final
class MetaMF(InCohorts):
    """Meta matrix factorisation: the server generates a rating predictor for each user, and learns
    from the gradients devices return.
    """

    # The meta network.
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
    # The models that it generates.
    low: int = Field(
        8, ge=1, le=1024, description="L: the item table is generated as [items, L] times [L, D]"
    )
    factors: int = Field(
        32, ge=1, le=1024, description="D, the length of a generated item embedding"
    )
    predictor: int = Field(
        8, ge=1, le=1024, description="P, the width of the generated predictor's hidden layer"
    )
    # The federation.
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
    # The server's step.
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
        """Returns a copy of the settings in which the cohort is a number of devices of this
        federation. Raises InputError for data without ratings.
        """
        rated(catalogue.scale, "metamf")
        return super().configured(catalogue)

    def default_rounds(self, catalogue: Catalogue) -> int:
        """Returns the number of training rounds if none is asked for: those of `rounds` epochs."""
        return self.rounds * self.rounds_an_epoch(catalogue)

    def rounds_an_epoch(self, catalogue: Catalogue) -> int:
        """Returns the rounds in which each rating counts once, where all devices fill their
        batches; 1 if devices are drawn evenly.
        """
        if self.drawn == "evenly":
            return 1
        ratings_a_round = self.configured(catalogue).cohort * self.batch
        return max(1, catalogue.interactions // ratings_a_round)

    def sizes(self, catalogue: Catalogue) -> dict[str, int]:
        """Returns the sizes of the declared arrays: numbers in the two layers of a generated
        predictor (first, second), and one more than the ratings that a user can have (counts).
        """
        return {
            "first": self.meta_sizes(1, 1).first,
            "second": self.predictor + 1,
            "counts": catalogue.items + 1,
        }

    def meta_sizes(self, users: int, items: int) -> MetaSizes:
        """Returns the sizes of the meta network's layers."""
        return MetaSizes(
            users, items, self.user, self.taste, self.hidden, self.low, self.factors, self.predictor
        )

    def _sizes(self, server: MetaMFServer) -> MetaSizes:
        return self.meta_sizes(int(server.users[0]), int(server.items[0]))

    # ---- on the server: algorithm 1, generation --------------------------------------------------

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> MetaMFServer:
        """Returns the initial meta network: Xavier-normal weights, and biases 0 but for the output
        layers, whose biases all generated models share.
        """
        sizes = self.meta_sizes(catalogue.users, catalogue.items)
        theta = meta_network.first_parameters(sizes, key, self.init_std)
        mean_count = max(1, catalogue.interactions // max(1, catalogue.users))
        return MetaMFServer(
            theta=theta,
            m=np.zeros_like(theta),
            s=np.zeros_like(theta),
            users=np.array([catalogue.users]),
            items=np.array([catalogue.items]),
            ratings=np.full(catalogue.users, mean_count, np.float32),
            scale=np.array(catalogue.scale, np.float32),
            step=np.zeros(1, np.int64),
            epoch=np.array([self.rounds_an_epoch(catalogue)], np.int64),
            key=np.array([fold_name(key, "turns")], np.uint64),
        )

    def init_devices(
        self, users: Int64Array, catalogue: Catalogue, key: np.uint64
    ) -> MetaMFDevices:
        """Returns the initial private state of the devices of `users`: no rating drawn."""
        return MetaMFDevices(np.zeros(len(users), np.int64), folds(key, users))

    def select(self, server: MetaMFServer, catalogue: Catalogue, key: np.uint64) -> Int64Array:
        """Returns the devices S of a round: in turns, of which a device has in each epoch as many
        as its ratings fill batches; or drawn evenly.
        """
        m = self.configured(catalogue).cohort
        # An epoch is a list of all turns in a random order, of which each round takes the next m.
        if self.drawn == "evenly":
            return cohort(key, m, catalogue.users)
        epoch, place = divmod(int(server.step[0]), int(server.epoch[0]))
        # Batches of each device, the last of which may be short.
        turns = -(-server.ratings.astype(np.int64) // self.batch)
        return in_turns(np.uint64(fold(server.key[0], epoch)), place * m, m, turns)

    def deliver(self, download: MetaMFServer, users: Int64Array) -> MetaMFDownload:
        """Returns the models that the meta network makes for `users`: the factored item table and
        the predictor of each.
        """
        return self._generated(download, users, None)

    def _generated(
        self, server: MetaMFServer, users: Int64Array, item: Int32Array | None
    ) -> MetaMFDownload:
        """Returns the models of `users`. item: int32 [m, B], the only rows of their A_u that are
        wanted; None = all."""
        sizes = self._sizes(server)
        meta = meta_network.views(server.theta, sizes)
        models = meta_network.generate(meta, sizes, users, item)
        return MetaMFDownload(*models, server.scale.mean(keepdims=True))

    # ---- on the device ---------------------------------------------------------------------------

    def local(
        self,
        download: MetaMFDownload,
        devices: MetaMFDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
    ) -> tuple[MetaMFDevices, Update]:
        """Makes the gradient of the squared errors by all received parameters, added over a batch
        of each device's ratings.
        """
        each = np.arange(len(users))
        batches, done = self._drawn(histories, each, devices)
        # Of A_u the rows of the batch alone; that of NONE is not read.
        low = download.low[each[:, None], np.maximum(batches.item, 0)]
        sent = _sent(download._replace(low=low), batches, np.diff(histories.ptr), users)
        return devices._replace(done=done), sent

    def _drawn(
        self, histories: Histories, rows: Int64Array, devices: MetaMFDevices
    ) -> tuple[MetaMFBatches, Int64Array]:
        """Draws the batches of the devices in some rows of `histories`. Returns them, and how many
        ratings each device drew since it began, int64 [m]. devices: of these rows.
        """
        item = np.full((len(rows), self.batch), NONE, np.int32)
        batches = MetaMFBatches(item, np.zeros(item.shape, np.float32))
        done = devices.done.copy()
        _draw_batches(histories[:3], rows, devices.key, done, batches)
        return batches, done

    def score(
        self, download: MetaMFDownload, devices: MetaMFDevices, histories: Histories
    ) -> Float32Array:
        """Returns the predicted ratings r^_ui of every item, float32 [m, items]."""
        out = np.empty(download.low.shape[:2], np.float32)
        _score(download, out)
        return out

    # ---- on the server: algorithm 1, back-propagation --------------------------------------------

    def aggregate(self, server: MetaMFServer, total: Total) -> MetaMFServer:
        """Returns the new state (algorithm 1): back-propagation of the mean over the round's
        ratings, device by device in the order of users, and a step of Adam."""
        return self._step(_copied(server), total, np.zeros_like(server.theta))

    def _step(self, server: MetaMFServer, total: Total, slope: Float32Array) -> MetaMFServer:
        """Does `aggregate` in place. slope: room for the gradient, all 0 before and after."""
        # What each device shows, by user.
        sizes = self._sizes(server)
        sender, shown = gathered(total)
        server.ratings[sender] = shown["ratings"][:, 0]
        # A shown number between two integers stands for the lower one: below 0 is no item.
        item = np.floor(shown["item"]).astype(np.int32)
        listed = item >= 0
        # Algorithm 1: from the gradients by the generated models to those by the meta network, as
        # means over the ratings of the round.
        by_models = meta_network.GeneratedModels(
            shown["low"],
            shown["rise"].reshape(len(sender), self.low * self.factors),
            shown["first"],
            shown["second"],
        )
        scale = np.float32(1 / max(1, int(listed.sum())))
        theta = meta_network.views(server.theta, sizes)
        meta_network.back(theta, sender, item, by_models, scale, meta_network.views(slope, sizes))
        # The spans of parameters that this round moves.
        if self.sparse:
            touched = sizes.touched(sender, np.unique(item[listed]).astype(np.int64))
        else:
            touched = np.array([[0, len(slope)]])
        step = int(server.step[0])
        rate = self.learning_rate * self.rate_decay ** (step // int(server.epoch[0]))
        apart = self.decay == "apart"
        numbers = MetaMFDescent(
            clip=self.clip,
            reg=0.0 if apart else self.reg,
            shrink=rate * self.reg if apart else 0.0,
            step=adam_step(rate, step + 1),
        )
        _descend(server.theta, server.m, server.s, slope, touched, numbers)
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
        """Runs `rounds` over all users' devices, and makes only the rows of each A_u that are in a
        batch; the same bits as one round at a time. Returns the new server, the devices, how many
        took part, and how many bytes were sent.
        """
        server = _copied(server)
        # One gradient for all rounds: a step leaves it at 0.
        slope = np.zeros_like(server.theta)
        done = devices.done.copy()
        counts = np.diff(histories.ptr)
        took_part = 0
        sent = 0
        for number in rounds:
            users = self.select(server, catalogue, np.uint64(select_key(key, number)))
            drawing = MetaMFDevices(done[users], devices.key[users])
            batches, done[users] = self._drawn(histories, users, drawing)
            # A_u of the batch alone: the whole table would be most of the work.
            models = self._generated(server, users, batches.item)
            update = _sent(models, batches, counts[users], users)
            total = add_update(empty_total(update, catalogue.items), update)
            server = self._step(server, total, slope)
            took_part += len(users)
            sent += update.nbytes
        return server, devices._replace(done=done), took_part, sent


def _copied(server: MetaMFServer) -> MetaMFServer:
    """Returns a state whose large arrays may be overwritten."""
    return server._replace(
        theta=server.theta.copy(),
        m=server.m.copy(),
        s=server.s.copy(),
        ratings=server.ratings.copy(),
    )


def _sent(
    models: MetaMFDownload, batches: MetaMFBatches, counts: Int64Array, users: Int64Array
) -> Update:
    """Returns what devices send after their batches. models: theirs, of A_u the rows of their
    batches alone, low [m, B, L].
    """
    models = MetaMFDownload(*map(sealed, models))
    # One array for each of A_u, B_u, first and second.
    gradients = [np.zeros_like(np.asarray(array)) for array in models[:4]]
    _gradients(models, batches, *gradients)
    low, rise, first, second = gradients
    shown = {
        "item": batches.item.astype(np.float32),
        "low": low,
        "rise": rise,
        "first": first,
        "second": second,
        "ratings": counts.astype(np.float32)[:, None],
    }
    no_rows = np.zeros(len(users) + 1, np.int64), np.empty(0, np.int32)
    return Update(*no_rows, {}, {}, np.ones(len(users), np.float32), shown=shown, sender=users)


# ---- in plain loops ------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _through(rise: Float32Array, first: Float32Array, through: Float32Array) -> None:
    """Writes B_u W1, from a row of A_u straight to the predictor's hidden layer, to through: [L,
    P]. first: [(D + 1) P].
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
    """Returns the prediction for a row of A_u, without the middle of the scale. Writes the hidden
    layer before the rectifier to z.
    """
    length, width = through.shape
    # hidden layer: the biases stand behind the weights in `first`
    for p in range(width):
        z[p] = first[len(first) - width + p]
    for k in range(length):
        for p in range(width):
            z[p] += row[k] * through[k, p]
    # output layer, behind the rectifier
    out = second[width]
    for p in range(width):
        if z[p] > np.float32(0):
            out += second[p] * z[p]
    return out  # type: ignore[return-value]  # a number


@njit(cache=True, nogil=True)
def _score(received: MetaMFDownload, out: Float32Array) -> None:
    """Writes r^_ui of all devices and items to out: [m, items]."""
    width = received.second.shape[1] - 1
    middle = received.middle[0]
    through = np.empty((received.rise.shape[1], width), np.float32)
    z = np.empty(width, np.float32)
    for d in range(len(out)):
        low = received.low[d]
        first = received.first[d]
        second = received.second[d]
        _through(received.rise[d], first, through)
        for i in range(out.shape[1]):
            out[d, i] = middle + _predict(low[i], through, first, second, z)


@njit(cache=True, nogil=True)
def _gradients(
    models: MetaMFDownload,
    batches: MetaMFBatches,
    d_low: Float32Array,
    d_rise: Float32Array,
    d_first: Float32Array,
    d_second: Float32Array,
) -> None:
    """Adds the gradients of the squared errors of all devices' batches to d_low and the others.
    models.low: [m, B, L].
    """
    items = batches.item
    values = batches.value
    middle = models.middle[0]
    length = models.rise.shape[1]
    width = models.second.shape[1] - 1
    through = np.empty((length, width), np.float32)
    d_through = np.empty((length, width), np.float32)
    z = np.empty(width, np.float32)
    zero = np.float32(0)
    two = np.float32(2)
    for d in range(len(items)):
        low = models.low[d]
        rise = models.rise[d]
        first = models.first[d]
        second = models.second[d]
        _through(rise, first, through)
        d_through[:, :] = zero
        biases = len(first) - width
        for n in range(items.shape[1]):
            if items[d, n] == NONE:
                continue
            guess = middle + _predict(low[n], through, first, second, z)
            error = two * (guess - values[d, n])
            # the second layer: its bias, then the weights of the hidden units that are not 0
            d_second[d, width] += error
            for p in range(width):
                if z[p] > zero:
                    d_second[d, p] += error * z[p]
                    slope = error * second[p]
                    d_first[d, biases + p] += slope
                    for k in range(length):
                        d_low[d, n, k] += slope * through[k, p]
                        d_through[k, p] += slope * low[n, k]
        # through = B_u W1
        for k in range(length):
            for f in range(rise.shape[1]):
                for p in range(width):
                    d_rise[d, k, f] += d_through[k, p] * first[f * width + p]
                    d_first[d, f * width + p] += rise[k, f] * d_through[k, p]


@njit(cache=True, nogil=True)
def _draw_batches(
    ratings: tuple[Int64Array, Int32Array, Float32Array],
    rows: Int64Array,
    keys: UInt64Array,
    done: Int64Array,
    batches: MetaMFBatches,
) -> None:
    """Writes to `batches` the ratings that each device draws, ascending: the next of a random order
    of all that it has, and of another order after each. No batch is of two orders, so that the last
    of an order may be short. ratings: (ptr, item, value) of Histories. done: counts on, in place.
    """
    ptr, item, value = ratings
    items = batches.item
    values = batches.value
    place = np.empty(items.shape[1], np.int64)
    for d in range(len(rows)):
        start = ptr[rows[d]]
        count = ptr[rows[d] + 1] - start
        if count == 0:
            continue
        # Each pass over the ratings has an order of its own, drawn by its number.
        order = done[d] // count
        first = done[d] % count
        many = min(len(place), count - first)
        key = fold(keys[d], order)
        # Insertion sort of the places that the order names next.
        for n in range(many):
            at = shuffled(key, first + n, count)
            k = n
            while k > 0 and place[k - 1] > at:
                place[k] = place[k - 1]
                k -= 1
            place[k] = at
        for n in range(many):
            items[d, n] = item[start + place[n]]
            values[d, n] = value[start + place[n]]
        done[d] += many


@njit(cache=True, nogil=True)
def _norm(slope: Float32Array, touched: Int64Array) -> float:
    """Returns the length of a vector that is 0 but in the parts `touched`, added in float64 from
    first to last.
    """
    total = 0.0
    for part in range(len(touched)):
        for k in range(touched[part, 0], touched[part, 1]):
            total += np.float64(slope[k]) * np.float64(slope[k])
    return np.sqrt(total)  # type: ignore[no-any-return]


class MetaMFDescent(NamedTuple):
    """Constants of a step."""

    clip: float
    """The largest length of the gradient."""
    reg: float
    """Weight decay that is added to the gradient."""
    shrink: float
    """Weight decay apart from Adam's step."""
    step: AdamStep


@njit(cache=True, nogil=True)
def _descend(
    theta: Float32Array,
    m: Float32Array,
    s: Float32Array,
    slope: Float32Array,
    touched: Int64Array,
    numbers: MetaMFDescent,
) -> None:
    """Takes a step of Adam in place, in the parts `touched` (from, to), along the slope cut to
    length `clip`, plus reg theta; theta also shrinks by a share of itself. The slope is 0 after it.
    """
    step = numbers.step
    # the factor that cuts the gradient to length `clip`
    shorter = np.float32(min(1.0, numbers.clip / (_norm(slope, touched) + 1e-6)))
    decay = np.float32(numbers.reg)
    kept = np.float32(1 - numbers.shrink)
    zero = np.float32(0)
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
