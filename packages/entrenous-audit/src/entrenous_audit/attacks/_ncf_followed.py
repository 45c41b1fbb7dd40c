"""Devices of averaged neural collaborative filtering as a receiver of sums follows them: a history
and the public models of the rounds give p_u.

The GMF part of an item's embedding moves along h * p_u: by how much depends on the slope of its
samples, 1 - y for an item that the user consumed, which is in one sample of an epoch, and - y for
one that is drawn, of which there are `negatives` for each consumed item (kernels/ncf.py). A device
trains in batches. Adam's step from moments of 0 makes small gradients g of an item larger: in batch
t it is rate a g / (b |g| + epsilon), a = 0.1 / (1 - 0.9^t) and b^2 = 0.001 / (1 - 0.999^t). A
device sends the move times its weight. p_u begins at 0, the mean of its draw, moves in each round
as expected of batches, and is corrected by the sum. What layers of a perceptron add to a score is
left out, and so are their numbers of the sum.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from entrenous.core.types import BoolArray, Float32Array, Int64Array
from entrenous.kernels.adam import BETA1, BETA2
from entrenous.kernels.ncf import shape_of

from ..transcript import Transcript
from ._followed import (
    Followed,
    Way,
    corrected,
    first_vectors,
    lengths,
    sigmoid,
    sums_noise,
    typical,
    usable,
)
from ._rows_seen import sends

NEEDS = {"client", "optimiser", "epsilon", "batch", "negatives", "local_epochs", "reg", "init_std"}
STEPS = 3  # in which p_u moves through a round
BATCHES = (0.1, 0.5, 0.9)  # of an epoch, at which an item may be touched
MOST = 0.3  # variance of a number of p_u
HALF = np.float32(0.5)  # the slope of a sample of which nothing is known
SMALL = np.float32(1e-5)  # for a difference quotient


class StepRates(NamedTuple):
    """The constants of a device's training."""

    user: float
    """The learning rate of p_u."""
    item: float
    """The learning rate of items."""
    adam: bool
    epsilon: float
    reg: float
    negatives: float
    epochs: int
    batch: Float32Array
    """[m, 1], samples of a step."""
    batches: Float32Array
    """[m, 1], steps of an epoch."""


class Output(NamedTuple):
    """The output layer of the GMF part."""

    h: Float32Array
    """[F]."""
    bias: float


def averaged_filter(transcript: Transcript) -> bool:
    """Checks whether devices send moves of items and of a network, and keep their user vector."""
    hidden = not sends(transcript, "user") and not sends(transcript, "share")
    return hidden and sends(transcript, "item", "network") and transcript.settings.keys() >= NEEDS


def way_of(transcript: Transcript, users: Int64Array) -> Way | str:
    """The way of these filters, or the reason why there is none. users: of the claims,
    ascending.
    """
    factors = int(transcript.setting("factors"))
    if not factors:
        return "no factors: items of a perceptron alone move in no direction that is known"
    rounds = sum(1 for _ in usable(transcript, ("item", "network"), ("item",)))
    follow = partial(_follow, transcript, users)
    return Way(follow, True, sums_noise(transcript), rounds, factors)


def _follow(
    transcript: Transcript, users: Int64Array, chance: Float32Array, some: BoolArray
) -> Iterator[Followed]:
    """Follows everybody's p_u through all rounds. some: items whose sums correct it."""
    factors = int(transcript.setting("factors"))
    noise = sums_noise(transcript)
    length, others = lengths(chance)
    weight = _weight(transcript, length)
    vector, doubt = first_vectors(transcript, len(chance))
    for who, given, total in usable(transcript, ("item", "network"), ("item",)):
        place = np.searchsorted(users, who)
        own = chance[place]
        item = given["item"][:, :factors]
        output = _output(transcript, given["network"])
        rates = _rates(transcript, length[place])
        # Negatives are drawn evenly from what a person has not consumed.
        often = rates.negatives * length[place] / others[place]
        middle, after = _trained(vector[place], own, often, item, output, rates)
        # How far along its direction a person moves an item that was consumed, and another one.
        y = sigmoid(middle @ (output.h * item).T + output.bias)
        x = _move(middle, output.h, rates)
        bend = _bend(middle, output.h, rates)
        up = rates.epochs * weight[place] * _compared(1 - y, middle * output.h, rates)
        once = rates.epochs * weight[place] * _compared(y, middle * output.h, rates)
        down = often * once
        apart = up + down
        multiples = own * up - (1 - own) * down
        number = total["item"][:, :factors]
        rest = number - multiples.T @ x
        # How far the direction is off, from how far p_u is.
        mean_bend = np.square(bend).mean(axis=1) + SMALL**2
        off = mean_bend * doubt[place]
        # What is in doubt adds variance: whether an item was consumed, and how often it was drawn.
        bits = own * (1 - own) * np.square(apart) + (1 - own) * often * np.square(once)
        variance = noise + bits.T @ (np.square(x).mean(axis=1) + off)
        change = corrected(rest[some], multiples[:, some], variance[some], off)
        x = x + change.by
        # Numbers of p_u that hardly move the direction take little of the change.
        vector[place] = after + change.by * bend / (np.square(bend) + 0.3 * mean_bend[:, None])
        # Each step of training moves p_u by draws that nobody outside knows.
        drift = 0.3 * (rates.user**2) * (rates.epochs * rates.batches[:, 0])
        doubt[place] = np.minimum(change.left / mean_bend + drift, MOST)
        scale = typical(up, own)
        yield Followed(place, scale * x, apart / scale, number - multiples.T @ x)


# ---- what is public ------------------------------------------------------------------------------


def _weight(transcript: Transcript, length: Float32Array) -> Float32Array:
    """The weights of devices: the length of the history, unless all are declared to weigh alike."""
    for sent in transcript.about["sends"]:
        if sent["way"] == "weight" and sent.get("usual") is not None:
            return np.full_like(length, sent["usual"])
    return length


def _output(transcript: Transcript, network: Float32Array) -> Output:
    """The output layer in a network."""
    factors = int(transcript.setting("factors"))
    # Settings hold the lengths of the layers as text.
    text = str(transcript.setting("layers"))
    layers = tuple(int(length) for length in re.findall(r"\d+", text))
    shape = shape_of(factors, layers)
    numbers = network[0]
    bias = shape.head + shape.gmf + int(shape.width[-1])
    return Output(numbers[shape.head : shape.head + factors], float(numbers[bias]))


def _rates(transcript: Transcript, length: Float32Array) -> StepRates:
    """The constants of devices with histories of these lengths."""
    setting = transcript.setting
    user = float(setting("learning_rate"))
    item = setting("learning_rate_item")
    negatives = float(setting("negatives"))
    samples = (1 + negatives) * length
    batch = np.minimum(float(setting("batch")), samples)
    one_step = setting("client") == "gradient"
    if one_step:
        batch = samples
    return StepRates(
        user=user,
        item=user if item is None else float(item),
        adam=setting("optimiser") == "adam" and not one_step,
        epsilon=float(setting("epsilon")),
        reg=float(setting("reg")),
        negatives=negatives,
        epochs=int(setting("local_epochs")),
        batch=batch.astype(np.float32),
        batches=np.ceil(samples / batch).astype(np.float32),
    )


# ---- one device ----------------------------------------------------------------------------------


def _trained(
    p: Float32Array,
    own: Float32Array,
    often: Float32Array,
    item: Float32Array,
    output: Output,
    rates: StepRates,
) -> tuple[Float32Array, Float32Array]:
    """p_u on average over a round, and after it, float32 [m, F]. often: float32 [m, 1], how often
    an item that was not consumed is drawn.
    """
    inputs = output.h * item
    samples = own.sum(axis=1, keepdims=True) * (1 + rates.negatives)
    samples = np.maximum(samples, 1)
    steps = rates.epochs * rates.batches / STEPS
    middle = np.zeros_like(p)
    for _ in range(STEPS):
        middle += p / STEPS
        y = sigmoid(p @ inputs.T + output.bias)
        ahead = (own * (1 - y) - (1 - own) * often * y) @ inputs / samples - rates.reg * p
        if rates.adam:
            # Batches differ, and Adam's scale has their squares.
            squares = own * np.square(1 - y) + (1 - own) * often * np.square(y)
            spread = squares @ np.square(inputs) / samples / rates.batch
            ahead = ahead / (np.sqrt(np.square(ahead) + spread) + rates.epsilon)
        p = (p + steps * rates.user * ahead).astype(np.float32)
    return middle, p


def _move(p: Float32Array, h: Float32Array, rates: StepRates) -> Float32Array:
    """The move of an item by a sample of slope one half, float32 [m, F]."""
    return _stepped(HALF * h * p / rates.batch, rates)


def _bend(p: Float32Array, h: Float32Array, rates: StepRates) -> Float32Array:
    """The derivative of that move by p_u, number by number."""
    gradient = HALF * h * p / rates.batch
    above = _stepped(gradient + SMALL, rates)
    below = _stepped(gradient - SMALL, rates)
    return ((above - below) / (2 * SMALL) * HALF * h / rates.batch).astype(np.float32)


def _stepped(gradient: Float32Array, rates: StepRates) -> Float32Array:
    """The optimiser's step along a gradient of an item, on average over the batches of an epoch."""
    if not rates.adam:
        return (rates.item * gradient).astype(np.float32)
    steps = np.zeros_like(gradient)
    for part in BATCHES:
        t = np.maximum(1, part * rates.batches)
        first = (1 - BETA1) / (1 - BETA1**t)
        second = np.sqrt((1 - BETA2) / (1 - BETA2**t))
        steps += first * gradient / (second * np.abs(gradient) + rates.epsilon) / len(BATCHES)
    return (rates.item * steps).astype(np.float32)


def _compared(slope: Float32Array, inputs: Float32Array, rates: StepRates) -> Float32Array:
    """The length of a move by a sample of some slope, compared with that of slope one half, float32
    [m, items]. inputs: h * p_u.
    """
    ratio = slope / HALF
    if not rates.adam:
        return ratio
    size = np.sqrt(np.square(inputs).mean(axis=1, keepdims=True)) / rates.batch / rates.epsilon
    return (ratio * (1 + HALF * size) / (1 + slope * size)).astype(np.float32)
