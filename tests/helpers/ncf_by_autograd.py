"""He et al.'s formulas in plain float64 NumPy, differentiated by autograd: what the compiled
networks are held against.
"""

from __future__ import annotations

import autograd.numpy as anp
import numpy as np
from autograd import grad

from entrenous.core.keys import below, draw, fold
from entrenous.kernels import ncf
from entrenous.kernels.sampling import negative


def places(shape: ncf.NCFShape, layers: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Where the numbers of each part of the network lie in the flat, padded one."""
    out, inputs = (
        {},
        np.concatenate([np.arange(shape.embedding), shape.mlp + np.arange(shape.embedding)]),
    )
    for n, length in enumerate(layers):
        out[f"W{n}"] = shape.weight[n] + inputs[:, None] * shape.width[n + 1] + np.arange(length)
        out[f"b{n}"] = shape.bias[n] + np.arange(length)
        inputs = np.arange(length)
    last = shape.head + shape.gmf
    out["h"] = np.concatenate(
        [shape.head + np.arange(shape.factors), last + np.arange(layers[-1] if layers else 0)]
    )
    out["h0"] = last + shape.width[-1:]
    return out


def padding(shape: ncf.NCFShape, layers: tuple[int, ...]) -> np.ndarray:
    """The places of the network that fill up."""
    return np.setdiff1d(
        np.arange(shape.network),
        np.concatenate([at.ravel() for at in places(shape, layers).values()]),
    )


def model(shape, layers, user, item, network) -> dict[str, np.ndarray]:
    """The parts of a device's model by name, float64. user [row], item [items, row], network
    [network].
    """
    parts = {name: network[at].astype(np.float64) for name, at in places(shape, layers).items()}
    return {"user": user.astype(np.float64), "item": item.astype(np.float64), **parts}


def logit(parts, i, factors, layers):
    """h . [p^G * q^G; a_L] + h_0."""
    user, item = parts["user"], parts["item"][i]
    a = anp.concatenate([user[factors:], item[factors:]])
    for n in range(len(layers)):
        a = anp.maximum(0, anp.dot(a, parts[f"W{n}"]) + parts[f"b{n}"])
    return (
        anp.dot(parts["h"], anp.concatenate([user[:factors] * item[:factors], a])) + parts["h0"][0]
    )


def loss(parts, batch, factors, layers, reg=0.0, pull=0.0, anchors=None):
    """Mean over the batch of cross-entropy + reg/2 (|p|^2 + |q|^2), and pull/2 |. - anchor|^2 of
    user and network.
    """
    total = 0.0
    for i, label in batch:
        s = logit(parts, i, factors, layers)
        squares = anp.sum(parts["user"] ** 2) + anp.sum(parts["item"][i] ** 2)
        total = total + (anp.logaddexp(0.0, s) - label * s + reg / 2 * squares) / len(batch)
    for name in parts if pull else ():
        if name != "item":
            total = total + pull / 2 * anp.sum((parts[name] - anchors[name]) ** 2)
    return total


def drawn(
    data: ncf.NCFData, d: int, epoch: int, negatives: int, items: int
) -> list[tuple[int, float]]:
    """The samples of a device in an epoch: its items in the order of a Fisher-Yates shuffle, after
    each its negatives.
    """
    key = np.uint64(fold(data.keys[d], epoch))
    history, avoid = (
        data.item[data.ptr[d] : data.ptr[d + 1]],
        data.avoid[data.avoid_ptr[d] : data.avoid_ptr[d + 1]],
    )
    order = list(range(len(history)))
    for r in range(len(history) - 1, 0, -1):
        other = below(np.uint64(draw(key, r)), r + 1)
        order[r], order[other] = order[other], order[r]
    out, free = [], items - len(avoid)
    for place, r in enumerate(order):
        out.append((int(history[r]), 1.0))
        start = len(history) + place * (1 + negatives) + 1
        out += [
            (negative(avoid, below(np.uint64(draw(key, start + k)), free)), 0.0)
            for k in range(negatives if free else 0)
        ]
    return out


def adam_step(first, second, rows, g, t: int, epsilon: float):
    """Adam's step t for some rows, without its rate; moves their moments in place."""
    first[rows] = 0.9 * first[rows] + 0.1 * g
    second[rows] = 0.999 * second[rows] + 0.001 * g * g
    return first[rows] / (1 - 0.9**t) / (np.sqrt(second[rows] / (1 - 0.999**t)) + epsilon)


def trained(shape, layers, rates: ncf.NCFRates, parts, data: ncf.NCFData, d: int, anchors=None):
    """The model of device d after its epochs, and the set of items that it touched."""
    slope, factors, touched = grad(loss), shape.factors, set()
    speed = {
        name: float({"user": rates.user, "item": rates.item}.get(name, rates.network))
        for name in parts
    }
    parts, first, second, t = (
        dict(parts),
        {n: 0 * a for n, a in parts.items()},
        {n: 0 * a for n, a in parts.items()},
        0,
    )
    for epoch in range(rates.epochs):
        samples = drawn(data, d, epoch, rates.negatives, len(parts["item"]))
        for low in range(0, len(samples), rates.batch):
            batch, t = samples[low : low + rates.batch], t + 1
            touched |= {i for i, _ in batch}
            gradient = slope(
                parts, batch, factors, layers, float(rates.reg), float(rates.pull), anchors
            )
            for name in parts:
                rows = sorted({i for i, _ in batch}) if name == "item" else slice(None)
                g = gradient[name][rows]
                if rates.adam:
                    g = adam_step(first[name], second[name], rows, g, t, float(rates.epsilon))
                parts[name] = parts[name].copy()
                parts[name][rows] -= speed[name] * g
    return parts, touched
