"""FedRecAttack: private user vectors are estimated from the few interactions that are public, and
rows are written that promote the target to these users.

D. Rong, S. Ye, R. Zhao, H. N. Yuen, J. Chen, Q. He, "FedRecAttack: Model poisoning attack to
federated recommendation", ICDE 2022, algorithm 1: for each user u, the score of the last item of
u's list of K is compared with that of the target,

    L = sum_u g(x_u,last - x_u,target),   g(x) = x for x > 0, exp(x) - 1 else (eq. 9),

and the gradients of at most kappa items are sent, in rows no longer than C.
"""

from __future__ import annotations

import numpy as np

from entrenous.core.contract.update import Update
from entrenous.core.types import Float64Array

from ..colluders import Craft, Plot, Poison, Sight, by_popularity, only_rows

LIST = 10  # K, the length of the lists that the target is to enter
# of BPR on the public interactions in a round, and its learning rate
STEPS = 30
RATE = 0.1
SETTINGS = {"xi": 0.01, "kappa": 60.0, "norm": 1.0, "rate": 1.0}


def begin(plot: Plot) -> Craft:
    """The function that makes their updates; it remembers the user vectors that it has
    estimated.
    """
    p: Float64Array | None = None

    def craft(sight: Sight) -> Update:
        nonlocal p
        q, b = _model(sight)
        if p is None:
            p = plot.draws("vectors").normal((plot.honest, q.shape[1]), 0.1)
        # User vectors stay on devices, so they are fitted to what is public.
        p = estimated(p, q, b, plot, sight.number)
        seen = np.unique(plot.public[:, 0])
        dq, db = gradient(p[seen], q, b, plot)
        # The items whose rows matter most, the target among them.
        size = (dq**2).sum(axis=1) + db**2
        size[plot.target] = np.inf
        most = min(int(plot.setting("kappa")), sight.contract.sizes["rows"])
        items = np.sort(np.argsort(-size, kind="stable")[:most])
        rate = plot.setting("rate")
        moves = {}
        for name in sight.tables.field:
            slope = db if name == sight.tables.bias else dq
            moves[name] = -rate * slope[items]
        return only_rows(sight, items, moves, most=plot.setting("norm"))

    return craft


def _model(sight: Sight) -> tuple[Float64Array, Float64Array]:
    """Item vectors and biases, zeros where the model has none."""
    bias = sight.tables.bias
    field = sight.tables.field
    first = next(name for name in field if name != bias)
    q = sight.model[field[first]].astype(np.float64)
    b = sight.model[field[bias]].astype(np.float64) if bias else np.zeros(len(q))
    return q, b


def estimated(
    p: Float64Array, q: Float64Array, b: Float64Array, plot: Plot, number: int
) -> Float64Array:
    """User vectors after some more steps of BPR on the public interactions (section IV-B). number:
    of the round, which names the draws.
    """
    user, item = plot.public.T
    draws = plot.draws("negatives", number)
    for _ in range(STEPS):
        other = draws.integers(len(q), len(user))
        apart = q[item] - q[other]
        x = (p[user] * apart).sum(axis=1) + b[item] - b[other]
        # sigma(-x) (q_i - q_j), added up over the pairs of each user.
        weight = 1 + np.exp(np.clip(x, -50, 50))
        step = np.zeros_like(p)
        np.add.at(step, user, apart / weight[:, None])
        p = p + RATE * (step - 0.01 * p)
    return p


def gradient(
    p: Float64Array, q: Float64Array, b: Float64Array, plot: Plot
) -> tuple[Float64Array, Float64Array]:
    """The gradient of L by item vectors [items, F] and biases [items], over the users of p (eq.
    10).
    """
    # The last item of each user's list without the target, and how far it scores above the target.
    scores = p @ q.T + b
    scores[:, plot.target] = -np.inf
    last = np.argsort(-scores, axis=1, kind="stable")[:, LIST - 1]
    gap = scores[np.arange(len(p)), last] - (p @ q[plot.target] + b[plot.target])
    # g'(x): 1 above 0, e^x below.
    slope = np.where(gap > 0, 1.0, np.exp(np.minimum(gap, 0)))
    dq = np.zeros_like(q)
    db = np.zeros_like(b)
    np.add.at(dq, last, slope[:, None] * p)
    np.add.at(db, last, slope)
    dq[plot.target] -= slope @ p
    db[plot.target] -= slope.sum()
    return dq, db


POISONS = {
    "fedrecattack": Poison(
        source="Rong et al., FedRecAttack, ICDE 2022",
        knows="a share xi of all interactions",
        settings=SETTINGS,
        promotes=True,
        profile=by_popularity,
        begin=begin,
        needs_rows=True,
    ),
}
