"""Neural collaborative filtering on one device: GMF, MLP and NeuMF.

X. He, L. Liao, H. Zhang, L. Nie, X. Hu, T.-S. Chua, "Neural collaborative filtering", WWW 2017. The
probability that u likes i is

    y_ui = sigma(h . [p_u^G * q_i^G ; a_L] + h_0)
    a_0 = [p_u^M ; q_i^M]
    a_l = max(0, a_{l-1} W_l + b_l)

with * element by element. Without layers it is GMF, without factors the MLP, with both NeuMF. The
model has three parts (Cali3F, section III): user embedding [p^G ; p^M], item embedding [q^G ; q^M],
and the non-embedding part (W, b, h, h_0), here `network`, one flat array.

`train` is the local training of every federated NCF system (sections 3.1 to 3.3 with the history of
one device as the data). A device works on private copies of the model, of which it copies only the
item rows that it touches. Its loss is the binary cross-entropy over the consumed items in a random
order, each with `negatives` others drawn anew in every epoch; it steps along the mean gradient of
every `batch` samples, by SGD or Adam.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ..core.compiling import njit
from ..core.errors import InputError
from ..core.keys import below, draw, fold, folds
from ..core.lanes.memory import padded, sealed, starts_of, zeros
from ..core.lanes.simd import LANES, Lanes, every, inside, load, store, sum_of, unless_negative
from ..core.lanes.tiles import add_outer, products, weighted
from ..core.types import Float32Array, Int32Array, Int64Array, UInt64Array
from .adam import BETA1, BETA2, direction, moment
from .logistic import logistic
from .sampling import count_gaps, fill_gaps, shuffle


class NCFShape(NamedTuple):
    """The layout of a model in flat arrays. Parts are padded to whole lanes with numbers that are 0
    and stay so.
    """

    factors: int
    """The length of p^G."""
    embedding: int
    """The length of p^M."""
    gmf: int
    """The length of p^G, padded."""
    mlp: int
    """The length of p^M, padded."""
    width: Int64Array
    """int64 [L + 1], the padded widths of a_0 .. a_L."""
    weight: Int64Array
    """int64 [L], where W_l [width[l], width[l + 1]] begins in `network`."""
    bias: Int64Array
    """int64 [L], where b_l begins in `network`."""
    head: int
    """Where h begins in `network`; h_0 follows it."""
    top: int
    """Where a_L begins in a_0 .. a_L."""

    @property
    def row(self) -> int:
        """The length of an embedding of a user or an item, without padding."""
        return self.factors + self.embedding

    @property
    def network(self) -> int:
        """The length of the non-embedding part; h_0 starts at a new lane."""
        return self.head + self.gmf + int(self.width[-1]) + LANES


@cache
def shape_of(factors: int, layers: tuple[int, ...]) -> NCFShape:
    """Returns the layout for p^G of length `factors` and a tower of layers with outputs of these
    lengths; p^M has the length of the first.
    """
    embedding = layers[0] if layers else 0
    mlp = padded(embedding)
    widths = [2 * mlp, *map(padded, layers)] if layers else [0]
    width = np.array(widths, np.int64)
    # W_l, then b_l, layer after layer.
    weights = width[:-1] * width[1:]
    weight = starts_of(weights + width[1:])
    return NCFShape(
        factors=factors,
        embedding=embedding,
        gmf=padded(factors),
        mlp=mlp,
        width=width,
        weight=weight[:-1],
        bias=weight[:-1] + weights,
        head=int(weight[-1]),
        top=int(width[:-1].sum()),
    )


def unpadded(shape: NCFShape, row: Float32Array) -> Float32Array:
    """Returns rows without padding, float32 [n, row]."""
    of_mlp = row[:, shape.gmf : shape.gmf + shape.embedding]
    return np.concatenate([row[:, : shape.factors], of_mlp], axis=1)


# ---- one sample ----------------------------------------------------------------------------------


class NCFParts(NamedTuple):
    """The three parts of some models, padded; or the gradients by them."""

    user: Float32Array
    """float32 [users, gmf + mlp]."""
    item: Float32Array
    """float32 [items, gmf + mlp]."""
    net: Float32Array
    """float32 [networks, network]."""


class NCFPlace(NamedTuple):
    """One user, item and network among `NCFParts`."""

    user: int
    """The flat position of the user embedding."""
    item: int
    """The flat position of the item embedding."""
    net: int
    """The number of the network."""


class NCFTower(NamedTuple):
    """Working memory for the layers of one sample, a_0 .. a_L one behind the other, [1, all widths
    and LANES more].
    """

    act: Float32Array
    """The outputs a_l of the layers."""
    pre: Float32Array
    """The numbers that the rectifier receives, a_{l-1} W_l + b_l."""
    back: Float32Array
    """The gradient on its way back."""


def tower_of(shape: NCFShape) -> NCFTower:
    """Returns working memory for one sample."""
    size = int(shape.width.sum()) + LANES
    return NCFTower(zeros(1, size), zeros(1, size), zeros(1, size))


@inside
def forward(shape: NCFShape, model: NCFParts, at: NCFPlace, tower: NCFTower) -> np.float32:
    """Returns the logit h . [p^G * q^G ; a_L] + h_0 of one user and item; leaves tower.act and
    tower.pre behind.
    """
    user = model.user
    item = model.item
    net = model.net
    act = tower.act
    pre = tower.pre
    gmf = shape.gmf
    mlp = shape.mlp
    layers = len(shape.weight)
    last = shape.width[layers]
    own = at.net * net.shape[1]
    head = own + shape.head
    # h . (p^G * q^G)
    total = every(np.float32(0))
    for f in range(0, gmf, LANES):
        product = load(user, at.user + f) * load(item, at.item + f)
        total = total + load(net, head + f) * product
    if layers:
        # a_0 = [p^M ; q^M]
        copy(user, at.user + gmf, act, 0, mlp)
        copy(item, at.item + gmf, act, mlp, mlp)
        # a_l = max(0, a_{l-1} W_l + b_l), sixteen outputs at a time.
        into = 0
        for layer in range(layers):
            wide = shape.width[layer]
            narrow = shape.width[layer + 1]
            weight = own + shape.weight[layer]
            bias = own + shape.bias[layer]
            out = into + wide
            for o in range(0, narrow, LANES):
                z = load(net, bias + o)
                for f in range(0, wide, LANES):
                    tile = weight + f * narrow + o
                    z = z + weighted(net, tile, narrow, act, into + f)
                # The way back needs z: the rectifier passes gradients on where it is above 0.
                store(pre, out + o, z)
                store(act, out + o, unless_negative(z, z))
            into = out
        # h . a_L
        for f in range(0, last, LANES):
            total = total + load(net, head + gmf + f) * load(act, into + f)
    return sum_of(total) + net[at.net, shape.head + gmf + last]


@inside
def backward(
    shape: NCFShape,
    model: NCFParts,
    at: NCFPlace,
    tower: NCFTower,
    error: np.float32,
    reg: Lanes,
    gradient: NCFParts,
    to: NCFPlace,
) -> None:
    """Adds the gradient of a sample's loss to `gradient`: by the network at `at.net`, and, of
    network 0 alone, by the embeddings at `to`. error: y_ui less its label. Expects tower.act and
    tower.pre as `forward` left them.
    """
    user = model.user
    item = model.item
    net = model.net
    act = tower.act
    pre = tower.pre
    back = tower.back
    gu = gradient.user
    gi = gradient.item
    gnet = gradient.net
    gmf = shape.gmf
    mlp = shape.mlp
    layers = len(shape.weight)
    last = shape.width[layers]
    own = at.net * net.shape[1]
    head_gmf = own + shape.head
    head_mlp = head_gmf + gmf
    into = shape.top
    e = every(error)
    # h_0.
    gnet[at.net, shape.head + gmf + last] += error
    # h, p and q of the GMF part. A second network learns beside the embeddings, without moving
    # them.
    for f in range(0, gmf, LANES):
        p = load(user, at.user + f)
        q = load(item, at.item + f)
        h = load(net, head_gmf + f)
        store(gnet, head_gmf + f, load(gnet, head_gmf + f) + e * (p * q))
        if at.net == 0:
            store(gu, to.user + f, load(gu, to.user + f) + (e * (h * q) + reg * p))
            store(gi, to.item + f, load(gi, to.item + f) + (e * (h * p) + reg * q))
    if layers:
        # h of the MLP part, and the gradient by a_L.
        for f in range(0, last, LANES):
            h = load(net, head_mlp + f)
            store(gnet, head_mlp + f, load(gnet, head_mlp + f) + e * load(act, into + f))
            store(back, into + f, e * h)
        for layer in range(layers - 1, -1, -1):
            wide = shape.width[layer]
            narrow = shape.width[layer + 1]
            weight = own + shape.weight[layer]
            bias = own + shape.bias[layer]
            out = into
            into = out - wide
            # Back through the rectifier, whose gradient is that of b_l.
            for o in range(0, narrow, LANES):
                dz = unless_negative(load(pre, out + o), load(back, out + o))
                store(back, out + o, dz)
                store(gnet, bias + o, load(gnet, bias + o) + dz)
            # W_l, and the gradient by a_{l-1}: each tile of W_l is read once for both.
            for f in range(0, wide, LANES):
                dx = every(np.float32(0))
                for o in range(0, narrow, LANES):
                    dz = load(back, out + o)
                    tile = weight + f * narrow + o
                    dx = dx + products(net, tile, narrow, dz)
                    add_outer(gnet, tile, narrow, act, into + f, dz)
                store(back, into + f, dx)
        # p and q of the MLP part, which are a_0.
        u_to = to.user + gmf
        i_to = to.item + gmf
        moving = mlp if at.net == 0 else 0
        for f in range(0, moving, LANES):
            p = load(user, at.user + gmf + f)
            q = load(item, at.item + gmf + f)
            of_p = load(back, f) + reg * p
            of_q = load(back, mlp + f) + reg * q
            store(gu, u_to + f, load(gu, u_to + f) + of_p)
            store(gi, i_to + f, load(gi, i_to + f) + of_q)


@inside
def slope(logit: np.float32, label: bool) -> np.float32:
    """Returns the slope of the loss by the logit: y_ui less its label."""
    # y_ui - 1 would lose digits where y_ui is nearly 1.
    return -logistic(-logit) if label else logistic(logit)


@njit(cache=True, inline="always")
def adam(
    moments: Float32Array, m: int, v: int, gradient: Lanes, c1: Lanes, c2: Lanes, epsilon: Lanes
) -> Lanes:
    """Returns Adam's step for sixteen numbers, without its rate. Rows that a batch does not touch
    keep their moments, as in sparse Adam.
    """
    beta1 = every(np.float32(BETA1))
    rest1 = every(np.float32(1 - BETA1))
    beta2 = every(np.float32(BETA2))
    rest2 = every(np.float32(1 - BETA2))
    mean = moment(load(moments, m), gradient, beta1, rest1)
    square = moment(load(moments, v), gradient * gradient, beta2, rest2)
    store(moments, m, mean)
    store(moments, v, square)
    return direction(mean, square, c1, c2, epsilon)


# ---- rows in lanes -------------------------------------------------------------------------------


@inside
def copy(source: Float32Array, at: int, target: Float32Array, to: int, size: int) -> None:
    """Copies `size` numbers, whole lanes, from one flat position to another."""
    for f in range(0, size, LANES):
        store(target, to + f, load(source, at + f))


@inside
def copy_padded(
    shape: NCFShape, source: Float32Array, at: int, target: Float32Array, to: int
) -> None:
    """Copies one embedding to where it has padding."""
    for f in range(0, shape.factors, LANES):
        store(target, to + f, load(source, at + f, shape.factors - f))
    at_mlp = at + shape.factors
    to_mlp = to + shape.gmf
    for f in range(0, shape.embedding, LANES):
        store(target, to_mlp + f, load(source, at_mlp + f, shape.embedding - f))


@inside
def clear(target: Float32Array, at: int, size: int) -> None:
    """Writes 0 to `size` numbers, whole lanes, from a flat position on."""
    for f in range(0, size, LANES):
        store(target, at + f, every(np.float32(0)))


# ---- one device ----------------------------------------------------------------------------------


class NCFRates(NamedTuple):
    """Constants of the training of a device."""

    user: np.float32
    """The learning rate of the user embedding."""
    item: np.float32
    """The learning rate of item embeddings."""
    network: np.float32
    """The learning rate of the network."""
    reg: np.float32
    """The regularisation of the embeddings, for each sample."""
    pull: np.float32
    """The strength by which network and user are held to their anchors (Ditto's lambda)."""
    adam: bool
    """True for Adam, False for SGD."""
    epsilon: np.float32
    """Adam's epsilon."""
    epochs: int
    """Local epochs of a training."""
    negatives: int
    """Items drawn for each consumed item."""
    batch: int
    """Samples of a step."""


class NCFData(NamedTuple):
    """The private data of m devices: `Histories` without values, and the key each draws from."""

    ptr: Int64Array
    """int64 [m + 1] from 0."""
    item: Int32Array
    """int32 [ptr[m]], consumed items."""
    avoid_ptr: Int64Array
    """int64 [m + 1] from 0."""
    avoid: Int32Array
    """Items that a device never draws, ascending."""
    keys: UInt64Array
    """uint64 [m]."""


class NCFLearnt(NamedTuple):
    """The result of training m devices: the changes to the model, and their new embeddings."""

    ptr: Int64Array
    """int64 [m + 1], as in an Update."""
    item: Int32Array
    """int32 [n], ascending within a device: the order of learning would tell what was consumed."""
    row: Float32Array
    """float32 [n, row], the movement of each item embedding."""
    network: Float32Array
    """float32 [m, network], the movement of the network."""
    second: Float32Array
    """float32 [m, network], the movement of the second network; [0, network] without one."""
    user: Float32Array
    """float32 [m, row], the new user embeddings."""


class _NCFGiven(NamedTuple):
    """The start of the devices of one call; read only."""

    item: Float32Array
    """float32 [items, row]."""
    network: Float32Array
    """float32 [groups, network]."""
    group: Int32Array
    """int32 [m], the number of each device's first network."""
    second: Float32Array
    """float32 [0 or 1, network], a second network."""
    user_anchor: Float32Array
    """float32 [m, row], the user embeddings to which devices are pulled."""
    network_anchor: Float32Array
    """float32 [1 or m, network], the networks to which devices are pulled."""


class _NCFTrained(NamedTuple):
    """One part of the model of a device while it learns."""

    numbers: Float32Array
    """The parameters."""
    gradient: Float32Array
    """The sum of the gradients of a batch."""
    anchor: Float32Array
    """The parameters to which it is pulled."""
    moments: Float32Array
    """Adam's: m and v of the user embedding, then m and v of each network."""


class _NCFStep(NamedTuple):
    """Factors of one step, the same in all lanes."""

    mean: Lanes
    """1 / samples in the batch."""
    c1: Lanes
    """Adam's 1 / (1 - beta1^t)."""
    c2: Lanes
    """Adam's 1 / (1 - beta2^t)."""


class _NCFRoom(NamedTuple):
    """Memory for the devices of one call. `ptr` to `moved_second` are results; everything else
    serves one device at a time.
    """

    ptr: Int64Array
    """As in `NCFLearnt`."""
    item: Int32Array
    """As in `NCFLearnt`, with room for more rows."""
    moved: Float32Array
    """`NCFLearnt.row`."""
    moved_network: Float32Array
    """`NCFLearnt.network`."""
    moved_second: Float32Array
    """`NCFLearnt.second`."""
    row: Float32Array
    """Copies of the item embeddings that a device touches, padded."""
    row_at: Int32Array
    """int32 [items], the copy of each item; -1 = not copied yet."""
    u: Float32Array
    """A copy of the user embedding, padded."""
    net: Float32Array
    """Copies of the networks."""
    gu: Float32Array
    """The gradient by `u`."""
    gnet: Float32Array
    """The gradient by `net`."""
    user_anchor: Float32Array
    """Padded."""
    net_anchor: Float32Array
    moments: Float32Array
    """As in `_NCFTrained`."""
    row_moments: Float32Array
    """Adam's m and v of each row of `row`."""
    tower: NCFTower
    gradient: Float32Array
    """The gradients by the rows that a batch touches."""
    row_of: Int32Array
    """The row of each place of `gradient`."""
    slot_of: Int32Array
    """The place in `gradient` of each row; -1 = none."""
    gaps: Int32Array
    """As in `sampling.fill_gaps`."""
    order: Int32Array
    """The order of the consumed items in an epoch."""


def train(
    shape: NCFShape,
    rates: NCFRates,
    user: Float32Array,
    item: Float32Array,
    network: Float32Array,
    group: Int32Array,
    data: NCFData,
    *,
    user_anchor: Float32Array | None = None,
    network_anchor: Float32Array | None = None,
    second: Float32Array | None = None,
) -> NCFLearnt:
    """Trains private copies of the model on each of the m devices of `data`. Returns the movements.

    user: float32 [m, row], each device's own. item: float32 [items, row], of which only the rows
    that a device touches are read. network: float32 [groups, network]; device d starts from row
    group[d] (int32 [m]). The anchors, float32 like user and [m, network] or [1, network], matter
    with rates.pull. second: a second network, float32 [1, network], which every device trains in
    the same pass: on the same samples, and on the embeddings as they are then, which it does not
    move.
    Raises InputError for a group without a network.
    """
    _check_groups(group, network)
    given = _NCFGiven(
        item=sealed(item),
        network=sealed(network),
        group=sealed(group),
        second=sealed(network[:0] if second is None else second),
        user_anchor=sealed(user if user_anchor is None else user_anchor),
        network_anchor=sealed(network[:1] if network_anchor is None else network_anchor),
    )
    learnt_user = np.array(user, order="C")
    room = _room(shape, rates, data, len(item), len(given.second))
    n = _train(shape, rates, given, data, learnt_user, room)
    return NCFLearnt(
        room.ptr,
        room.item[:n],
        room.moved[:n],
        room.moved_network,
        room.moved_second,
        learnt_user,
    )


def _check_groups(group: Int32Array, network: Float32Array) -> None:
    """Raises InputError for a group that does not exist, which compiled loops would read."""
    known = not len(group) or 0 <= int(group.min()) <= int(group.max()) < len(network)
    if not known:
        raise InputError(
            "networks",
            f"groups from {group.min()} to {group.max()}",
            expected=f"numbers from 0, below the {len(network)} networks there are",
        )


def _room(shape: NCFShape, rates: NCFRates, data: NCFData, items: int, further: int) -> _NCFRoom:
    """Returns memory that suffices for the device with the most rows."""
    counts = np.diff(data.ptr)
    # Each device touches its items and those that it draws, but no more than there are.
    touched = np.minimum(counts * (1 + rates.negatives * rates.epochs), items)
    most = int(touched.max(initial=0))
    longest = int(counts.max(initial=0))
    batch = min(rates.batch, max(1, longest * (1 + rates.negatives)))
    width = shape.gmf + shape.mlp
    size = shape.network
    networks = 1 + further
    rows = int(touched.sum())
    return _NCFRoom(
        ptr=np.zeros(len(counts) + 1, np.int64),
        item=np.empty(rows, np.int32),
        # The lanes of the last row may reach beyond it.
        moved=np.empty((rows + LANES, shape.row), np.float32),
        moved_network=np.empty((len(counts), size), np.float32),
        moved_second=np.empty((len(counts) * further, size), np.float32),
        row=zeros(most + 1, width),
        row_at=np.full(items, -1, np.int32),
        u=zeros(1, width),
        net=zeros(networks, size),
        gu=zeros(1, width),
        gnet=zeros(networks, size),
        user_anchor=zeros(1, width),
        net_anchor=zeros(1, size),
        moments=zeros(2, width + networks * size) if rates.adam else zeros(1, 1),
        row_moments=zeros(2 * most + 1, width) if rates.adam else zeros(1, 1),
        tower=tower_of(shape),
        gradient=zeros(batch + 1, width),
        row_of=np.empty(batch + 1, np.int32),
        slot_of=np.full(most + 1, -1, np.int32),
        gaps=np.empty(int(np.diff(data.avoid_ptr).max(initial=0)) + LANES, np.int32),
        order=np.empty(longest, np.int32),
    )


# Arrays are taken out of their tuples, and tuples are made, before the loops: numba counts
# references to every array that a loop takes, hands on or slices, with an atomic instruction each,
# and that would cost more than the arithmetic. What is `inside` a loop counts none and is inlined
# by the compiler: it may take arrays and tuples of arrays, but neither makes nor returns one.


@inside
def descend(
    part: _NCFTrained,
    at: int,
    size: int,
    m: int,
    rates: NCFRates,
    rate: np.float32,
    factors: _NCFStep,
) -> None:
    """Takes a step of `size` numbers of one part, from flat position `at`, along the mean gradient
    and the pull to the anchor, and sets the gradient to 0. m: where the part's moments begin.
    """
    pull = every(rates.pull)
    epsilon = every(rates.epsilon)
    for f in range(0, size, LANES):
        step = factors.mean * load(part.gradient, at + f)
        x = load(part.numbers, at + f)
        # Cleared here, since a pass of its own would take a third of the whole training.
        store(part.gradient, at + f, every(np.float32(0)))
        if rates.pull != 0:
            step = step + pull * (x - load(part.anchor, f))
        if rates.adam:
            step = adam(part.moments, m + f, m + size + f, step, factors.c1, factors.c2, epsilon)
        store(part.numbers, at + f, x - every(rate) * step)


@njit(cache=True, nogil=True, error_model="numpy")
def _train(
    shape: NCFShape,
    rates: NCFRates,
    given: _NCFGiven,
    data: NCFData,
    user: Float32Array,
    room: _NCFRoom,
) -> int:
    """Trains all devices one after the other; writes what they learnt to `room` and `user`, and
    returns how many rows that is.
    """
    ptr = data.ptr
    history = data.item
    avoid_ptr = data.avoid_ptr
    avoid = data.avoid
    keys = data.keys
    table = given.item
    networks = given.network
    group = given.group
    second = given.second
    user_anchors = given.user_anchor
    network_anchors = given.network_anchor
    item = room.item
    out = room.moved
    moved = room.moved_network
    moved_second = room.moved_second
    row = room.row
    row_at = room.row_at
    u = room.u
    net = room.net
    user_anchor = room.user_anchor
    net_anchor = room.net_anchor
    moments = room.moments
    row_moments = room.row_moments
    gradient = room.gradient
    row_of = room.row_of
    slot_of = room.slot_of
    gaps = room.gaps
    order = room.order
    tower = room.tower
    model = NCFParts(u, row, net)
    slopes = NCFParts(room.gu, gradient, room.gnet)
    own_user = _NCFTrained(u, room.gu, user_anchor, moments)
    own_net = _NCFTrained(net, room.gnet, net_anchor, moments)

    factors = shape.factors
    embedding = shape.embedding
    gmf = shape.gmf
    own = factors + embedding
    width = gmf + shape.mlp
    size = net.shape[1]
    items = len(table)
    several = 1 + len(second)
    reg = every(rates.reg)
    epsilon = every(rates.epsilon)
    item_rate = every(rates.item)
    n = 0
    for d in range(len(keys)):
        start = ptr[d]
        length = ptr[d + 1] - ptr[d]
        avoided = avoid_ptr[d + 1] - avoid_ptr[d]
        # Private copies of the user embedding and of the networks.
        copy_padded(shape, user, d * own, u, 0)
        copy(networks, int(group[d]) * size, net, 0, size)
        if several > 1:
            copy(second, 0, net, size, size)
        if rates.pull != 0:
            # One anchor for all devices, or one for each.
            anchor = 0 if len(network_anchors) == 1 else d * size
            copy(network_anchors, anchor, net_anchor, 0, size)
            copy_padded(shape, user_anchors, d * own, user_anchor, 0)
        copies = 0
        fill_gaps(avoid, avoid_ptr[d], avoided, gaps)
        # If nothing is left to draw, the device learns from its items alone.
        extra = rates.negatives if avoided < items else 0
        if rates.adam:
            clear(moments, 0, 2 * (width + several * size))
        # beta^t of Adam, after t steps.
        decay1 = np.float64(1)
        decay2 = np.float64(1)

        for epoch in range(rates.epochs):
            key = fold(keys[d], epoch)
            shuffle(order, 0, length, key)
            samples = length * (1 + extra)
            filled = 0
            taken = 0
            for t in range(samples):
                # The sample: a consumed item, then its negatives.
                which = t % (1 + extra)
                if which == 0:
                    place = order[t // (1 + extra)]
                    i = int(history[start + place])
                    label = True
                else:
                    # The first `length` draws of the key made the order.
                    k = below(draw(key, length + t), items - avoided)
                    i = int(k + count_gaps(gaps, avoided, k))
                    label = False
                # Its row among the copies of this device; a new copy begins without moments.
                r = int(row_at[i])
                if r < 0:
                    r = copies
                    copies += 1
                    row_at[i] = np.int32(r)
                    copy_padded(shape, table, i * own, row, r * width)
                    if rates.adam:
                        clear(row_moments, 2 * r * width, 2 * width)
                # Its place among the gradients of the batch.
                g = int(slot_of[r])
                if g < 0:
                    g = filled
                    filled += 1
                    slot_of[r] = np.int32(g)
                    row_of[g] = np.int32(r)
                    clear(gradient, g * width, width)
                taken += 1
                # One gradient for each network; network 0 alone moves the embeddings.
                for number in range(several):
                    at = NCFPlace(0, r * width, number)
                    logit = forward(shape, model, at, tower)
                    error = slope(logit, label)
                    to = NCFPlace(0, g * width, number)
                    backward(shape, model, at, tower, error, reg, slopes, to)

                # A step at the end of a batch, the last of which may be smaller.
                if taken == rates.batch or t == samples - 1:
                    mean = every(np.float32(1) / np.float32(taken))
                    decay1 *= BETA1
                    decay2 *= BETA2
                    c1 = every(np.float32(1 / (1 - decay1)))
                    c2 = every(np.float32(1 / (1 - decay2)))
                    step = _NCFStep(mean, c1, c2)
                    descend(own_user, 0, width, 0, rates, rates.user, step)
                    for number in range(several):
                        m = 2 * (width + number * size)
                        descend(own_net, number * size, size, m, rates, rates.network, step)
                    # Items move by the rows that the batch touched, without a pull.
                    for g in range(filled):
                        r = int(row_of[g])
                        slot_of[r] = -1
                        for f in range(0, width, LANES):
                            by = mean * load(gradient, g * width + f)
                            if rates.adam:
                                mine = 2 * r * width + f
                                by = adam(row_moments, mine, mine + width, by, c1, c2, epsilon)
                            store(row, r * width + f, load(row, r * width + f) - item_rate * by)
                    filled = 0
                    taken = 0

        # What the device sends: how far everything moved, items in ascending order.
        for i in range(items):
            r = int(row_at[i])
            if r >= 0:
                row_at[i] = -1
                item[n] = np.int32(i)
                for f in range(0, factors, LANES):
                    was = load(table, i * own + f, factors - f)
                    store(out, n * own + f, load(row, r * width + f) - was)
                for f in range(0, embedding, LANES):
                    was = load(table, i * own + factors + f, embedding - f)
                    store(out, n * own + factors + f, load(row, r * width + gmf + f) - was)
                n += 1
        room.ptr[d + 1] = n
        first = int(group[d]) * size
        for f in range(0, size, LANES):
            store(moved, d * size + f, load(net, f) - load(networks, first + f))
        second_size = size if several > 1 else 0
        for f in range(0, second_size, LANES):
            store(moved_second, d * size + f, load(net, size + f) - load(second, f))
        # The user embedding stays on the device.
        for f in range(factors):
            user[d, f] = u[0, f]
        for f in range(embedding):
            user[d, factors + f] = u[0, gmf + f]
    return n


# ---- the first network ---------------------------------------------------------------------------


def init_network(shape: NCFShape, layers: tuple[int, ...], key: np.uint64) -> Float32Array:
    """Returns the initial non-embedding part, float32 [network]: W uniform as in Glorot and Bengio
    (2010), h as in LeCun, biases 0.
    """
    out = np.zeros(shape.network, np.float32)
    inputs = 2 * shape.embedding
    # a_0 = [p ; q] has padding in the middle, every other layer at its end.
    first = np.arange(shape.embedding)
    used = np.concatenate([first, shape.mlp + first])
    for layer, outputs in enumerate(layers):
        wide = int(shape.width[layer])
        narrow = int(shape.width[layer + 1])
        weights = np.zeros((wide, narrow), np.float32)
        limit = np.sqrt(6 / (inputs + outputs))
        drawn = _uniforms(fold(key, layer), inputs, outputs, limit)
        weights[used[:, None], np.arange(outputs)] = drawn
        out[shape.weight[layer] : shape.bias[layer]] = weights.reshape(-1)
        inputs = outputs
        used = np.arange(inputs)
    # h of the GMF part, then of the last layer.
    of_gmf = shape.head + np.arange(shape.factors)
    of_tower = shape.head + shape.gmf + np.arange(layers[-1] if layers else 0)
    at = np.concatenate([of_gmf, of_tower])
    limit = np.sqrt(3 / len(at))
    out[at] = _uniforms(fold(key, len(layers)), len(at), 1, limit)[:, 0]
    return out


def _uniforms(key: np.uint64, rows: int, columns: int, limit: float) -> Float32Array:
    """Draws numbers uniform on [-limit, limit), float32 [rows, columns]."""
    bits = folds(np.uint64(key), np.arange(rows * columns))
    # A float64 has 53 bits.
    unit = (bits >> np.uint64(11)).astype(np.float64) / 2**53
    numbers = (limit * (2 * unit - 1)).astype(np.float32)
    return numbers.reshape(rows, columns)


# ---- scores --------------------------------------------------------------------------------------


def scores(
    shape: NCFShape,
    user: Float32Array,
    item: Float32Array,
    network: Float32Array,
    group: Int32Array,
) -> Float32Array:
    """Returns scores of every item, float32 [m, items]: the logits h . [..] + h_0, whose order is
    that of y_ui. Arguments as in `train`.
    """
    _check_groups(group, network)
    out = np.empty((len(user), len(item)), np.float32)
    model = NCFParts(_filled(shape, user), _filled(shape, item), zeros(1, shape.network))
    _scores(shape, model, sealed(network), sealed(group), tower_of(shape), out)
    return out


def _filled(shape: NCFShape, row: Float32Array) -> Float32Array:
    """Returns rows with padding, float32 [n, gmf + mlp]."""
    out = zeros(len(row), shape.gmf + shape.mlp)
    out[:, : shape.factors] = row[:, : shape.factors]
    out[:, shape.gmf : shape.gmf + shape.embedding] = row[:, shape.factors :]
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def _scores(
    shape: NCFShape,
    model: NCFParts,
    networks: Float32Array,
    group: Int32Array,
    tower: NCFTower,
    out: Float32Array,
) -> None:
    """Writes `forward` of every device and item. model.net: room for one network, which lies where
    a register's worth of memory begins.
    """
    net = model.net
    size = networks.shape[1]
    width = model.user.shape[1]
    for d in range(len(out)):
        copy(networks, int(group[d]) * size, net, 0, size)
        for i in range(out.shape[1]):
            at = NCFPlace(d * width, i * width, 0)
            out[d, i] = forward(shape, model, at, tower)
