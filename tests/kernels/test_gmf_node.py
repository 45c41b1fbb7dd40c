"""GMF on one peer: its step against finite differences, its ranking against plain NumPy, and both
without a compiler.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from plain_python import printed_both_ways

from entrenous.core.contract.gossip import Weighing
from entrenous.core.keys import folds, key
from entrenous.kernels import gmf_node, gmf_train

ITEMS, FACTORS, NODES = 37, 5, 3
SHAPE = gmf_node.shape_of(ITEMS, FACTORS)


def rates(**change: Any) -> gmf_train.GMFRates:
    numbers = {
        "item": 0.1,
        "user": 0.05,
        "output": 0.02,
        "reg": 0.0,
        "decay": 0.0,
        "epochs": 1,
        "negatives": 2,
    } | change
    return gmf_train.GMFRates(
        *(np.float32(numbers[name]) for name in ("item", "user", "output", "reg", "decay")),
        numbers["epochs"],
        numbers["negatives"],
    )


def models(seed: int = 0) -> np.ndarray:
    pool, random = np.zeros((NODES, SHAPE.width), np.float32), np.random.default_rng(seed)
    for model in pool:
        model[: FACTORS * SHAPE.stride].reshape(FACTORS, SHAPE.stride)[:, :ITEMS] = random.normal(
            0, 0.5, (FACTORS, ITEMS)
        )
        model[FACTORS * SHAPE.stride :][: FACTORS + 1] = random.normal(0, 1, FACTORS + 1)
    return pool


def private(seed: int = 1) -> gmf_node.GMFPrivate:
    user = np.random.default_rng(seed).normal(0, 0.5, (NODES, FACTORS)).astype(np.float32)
    squares = np.zeros((NODES, SHAPE.stride), np.float32)
    return gmf_node.GMFPrivate(
        user,
        squares,
        np.zeros(NODES, np.float32),
        np.zeros(NODES, np.float32),
        np.zeros(NODES, np.int64),
    )


# Node 1 has no rows.
PTR = np.array([0, 4, 4, 7])
ITEM = np.array([1, 8, 9, 30, 0, 2, 36], np.int32)
NO_SETS = Weighing(np.zeros(NODES + 1, np.int64), ITEM[:0], np.empty((0, 1), np.int32))
ROWS = gmf_train.GMFRows(PTR, ITEM, PTR, ITEM, NO_SETS)
WHO = np.arange(NODES)


def trained(pool: np.ndarray, own: gmf_node.GMFPrivate, how: gmf_train.GMFRates) -> None:
    gmf_train.train(pool, WHO, own, WHO, ROWS, how, SHAPE, folds(key(5, "train"), WHO))


def parts(model: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Q [items, factors], h, c in float64."""
    table = (
        model[: FACTORS * SHAPE.stride]
        .reshape(FACTORS, SHAPE.stride)[:, :ITEMS]
        .T.astype(np.float64)
    )
    rest = model[FACTORS * SHAPE.stride :].astype(np.float64)
    return table, rest[:FACTORS], float(rest[FACTORS])


def test_scores_are_the_logits() -> None:
    pool, own = models(), private()
    found = gmf_node.scores(pool, WHO, own.user, WHO, SHAPE)
    for u in WHO:
        table, h, c = parts(pool[u])
        np.testing.assert_allclose(found[u], table @ (h * own.user[u]) + c, rtol=1e-5, atol=1e-6)


def loss(
    table: np.ndarray, h: np.ndarray, c: float, p: np.ndarray, rows: np.ndarray, drawn: np.ndarray
) -> float:
    """Binary cross-entropy summed over consumed rows and the negatives, each drawn once, in
    float64.
    """
    logits = table @ (h * p) + c
    return float(np.logaddexp(0, -logits[rows]).sum() + np.logaddexp(0, logits[drawn]).sum())


def test_a_step_goes_down_the_gradient_of_the_cross_entropy() -> None:
    """The first step of a vector is its rate times the gradient over that gradient's own root mean
    square. Finite differences, where the vectors that moved tell which negatives were drawn, each
    once.
    """
    pool, own, how = models(), private(), rates(negatives=1)
    before, user = pool.copy(), own.user.copy()
    trained(pool, own, how)
    told = 0
    for u, rows in ((0, ITEM[:4]), (2, ITEM[4:])):
        (table, h, c), after = parts(before[u]), parts(pool[u])
        moved = np.flatnonzero(np.abs(after[0] - table).sum(axis=1) > 0)
        drawn = np.setdiff1d(moved, rows)
        assert set(rows) <= set(moved) and 0 < len(drawn) <= len(rows)
        error = 1 / (1 + np.exp(-(table @ (h * user[u]) + c))) - np.isin(np.arange(ITEMS), rows)
        for (
            i
        ) in moved:  # of an item drawn twice the gradient has another length, but this step has not
            down = error[i] * h * user[u]
            np.testing.assert_allclose(
                after[0][i] - table[i],
                -0.1 * down / np.sqrt((down**2).mean()),
                rtol=1e-3,
                atol=1e-5,
            )
        if len(drawn) == len(rows):
            told += 1
            slope = slopes(
                lambda p, q=table, o=h, b=c, r=rows, d=drawn: loss(q, o, b, p, r, d), user[u]
            )
            np.testing.assert_allclose(
                own.user[u] - user[u],
                -0.05 * slope / np.sqrt((slope**2).mean()),
                rtol=1e-2,
                atol=1e-5,
            )
            slope = slopes(
                lambda o, q=table, p=user[u], b=c, r=rows, d=drawn: loss(q, o, b, p, r, d), h
            )
            bias = slopes(
                lambda b, q=table, p=user[u], o=h, r=rows, d=drawn: loss(q, o, b[0], p, r, d),
                np.array([c]),
            )
            size = np.sqrt((np.append(slope, bias) ** 2).mean())
            np.testing.assert_allclose(after[1] - h, -0.02 * slope / size, rtol=1e-2, atol=1e-5)
            np.testing.assert_allclose(after[2] - c, -0.02 * bias[0] / size, rtol=1e-2, atol=1e-5)
    assert told


def slopes(of: Any, at: np.ndarray, width: float = 1e-5) -> np.ndarray:
    """Central finite differences."""
    return np.array(
        [(of(at + width * unit) - of(at - width * unit)) / (2 * width) for unit in np.eye(len(at))]
    )


def test_decay_divides_the_rates_of_later_steps() -> None:
    """With decay 1 the first step is half as long, and nothing else differs."""
    plain, other = (models(), private()), (models(), private())
    trained(*plain, rates())
    trained(*other, rates(decay=1.0))
    start, user = models(), private().user
    np.testing.assert_allclose(other[0] - start, 0.5 * (plain[0] - start), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(
        other[1].user - user, 0.5 * (plain[1].user - user), rtol=1e-3, atol=1e-5
    )


def test_reg_shortens_what_a_step_moves() -> None:
    """Decoupled: the difference it makes to the first step is rate * reg * vector, for moved
    vectors only.
    """
    plain, other = (models(), private()), (models(), private())
    start, user = models(), private().user
    trained(*plain, rates())
    trained(*other, rates(reg=0.5))
    for u in (0, 2):
        q0, q1, q2 = (parts(pool[u])[0] for pool in (start, plain[0], other[0]))
        moved = np.abs(q1 - q0).sum(axis=1) > 0
        np.testing.assert_allclose((q1 - q2)[moved], 0.1 * 0.5 * q0[moved], rtol=1e-3, atol=1e-6)
        assert (q2[~moved] == q0[~moved]).all()
        np.testing.assert_allclose(
            plain[1].user[u] - other[1].user[u], 0.05 * 0.5 * user[u], rtol=1e-2, atol=1e-6
        )


def test_performance_is_hit_ratio_and_ndcg_of_the_weighting_set() -> None:
    """By hand: scores are item numbers times the first factor; item 10 among 5 better ones has
    place 5, item 36 is first.
    """
    pool, user = np.zeros((1, SHAPE.width), np.float32), np.ones((1, FACTORS), np.float32)
    pool[0, :ITEMS], pool[0, FACTORS * SHAPE.stride] = np.arange(ITEMS), 1
    ptr, item = np.array([0, 2]), np.array([10, 36], np.int32)
    candidates = np.array([[11, 12, 13, 14, 15, 3, -1], [0, 1, 2, 3, 4, 5, 6]], np.int32)
    one, sets = np.zeros(1, np.int64), Weighing(ptr, item, candidates)
    hr, ndcg = gmf_node.performance(pool, one, user, one, sets, gmf_node.discounts(6), SHAPE)
    assert hr.tolist() == [1.0] and ndcg[0] == pytest.approx((np.log(2) / np.log(5 + 2) + 1) / 2)
    hr, ndcg = gmf_node.performance(pool, one, user, one, sets, gmf_node.discounts(5), SHAPE)
    assert hr.tolist() == [0.5] and ndcg[0] == pytest.approx(0.5)


def test_equal_scores_count_against_an_item() -> None:
    pool, user, one = (
        np.zeros((1, SHAPE.width), np.float32),
        np.ones((1, FACTORS), np.float32),
        np.zeros(1, np.int64),
    )
    sets = Weighing(np.array([0, 1]), np.array([0], np.int32), np.array([[1, 2, 3]], np.int32))
    hr, _ = gmf_node.performance(pool, one, user, one, sets, gmf_node.discounts(3), SHAPE)
    assert hr.tolist() == [0.0]


CODE = """
from entrenous.kernels.merging import merge
from tests.kernels.test_gmf_node import *
pool, own = models(), private()
for _ in range(3):
    trained(pool, own, rates(epochs=2, reg=0.1))
merge(pool, np.array([0]), np.array([2]), np.array([1]), np.array([0.3], np.float32))
candidates = np.arange(7 * 30, dtype=np.int32).reshape(7, 30) % ITEMS
hr = gmf_node.performance(pool, WHO, own.user, WHO, Weighing(PTR, ITEM, candidates), gmf_node.discounts(9), SHAPE)
import hashlib
print(hashlib.sha256(b"".join(a.tobytes() for a in (pool, *own, *hr))).hexdigest())
"""


def test_compiled_and_uncompiled_give_the_same_bits() -> None:
    assert len(printed_both_ways(CODE)) == 64
