"""PMF, biased MF and SVD++: their steps are the gradients they claim, and what is unknown is left
out.
"""

from __future__ import annotations

import numpy as np
import pytest

from entrenous.core.contract.protocols import silent
from entrenous.core.errors import InputError
from entrenous.core.keys import fold, key
from entrenous.data.interactions import Interactions, Vocabulary, build
from entrenous.kernels.sampling import shuffle
from entrenous.systems.central import biased_mf, pmf, svd_pp
from entrenous.systems.central._ratings import (
    RatingRows,
    RatingStep,
)
from entrenous.systems.central.biased_mf import BiasedMf, BiasedMfModel
from entrenous.systems.central.pmf import Pmf, PmfModel
from entrenous.systems.central.svd_pp import SvdPp, SvdPpModel
from entrenous.systems.central.user_mean import UserMean

KINDS = (Pmf, BiasedMf, SvdPp)
FACTORS, PADDED = 18, 32  # a register and a bit
ALPHA, REG, REG_BIAS = np.float32(0.05), np.float32(0.3), np.float32(0.2)
STEP = RatingStep(ALPHA, REG, REG_BIAS)


def rated(users: int, items: int, *, seed: int = 0, share: float = 0.5) -> Interactions:
    """Ratings 1 to 5 at random, none of the last user nor of the last item."""
    rng = np.random.default_rng(seed)
    user, item = np.nonzero(rng.random((users - 1, items - 1)) < share)
    value = rng.integers(1, 6, len(user))
    return build(
        user,
        item,
        value=value,
        users=Vocabulary(size=users),
        items=Vocabulary(size=items),
        scale=(1.0, 5.0),
    )


def used_room() -> svd_pp.SvdPpRoom:
    """Working memory in which other numbers are left."""
    return svd_pp.SvdPpRoom(np.ones((1, PADDED), np.float32), np.ones((1, PADDED), np.float32))


def table(rows: int, seed: int) -> np.ndarray:
    out = np.zeros((rows, PADDED), np.float32)
    out[:, :FACTORS] = np.random.default_rng(seed).normal(0, 0.5, (rows, FACTORS))
    return out


def numbers(size: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.5, size).astype(np.float32)


def gradient(objective, parts: list[np.ndarray]) -> list[np.ndarray]:
    """Finite differences of objective(*parts), in float64."""
    parts = [part.astype(np.float64) for part in parts]
    found = [np.zeros_like(part) for part in parts]
    for part, out in zip(parts, found, strict=True):
        for at in np.ndindex(part.shape):
            was = part[at]
            part[at] = was + 1e-4
            up = objective(*parts)
            part[at] = was - 1e-4
            out[at] = (up - objective(*parts)) / 2e-4
            part[at] = was
    return found


def assert_steps_down(before: list[np.ndarray], after: list[np.ndarray], objective) -> None:
    """after = before - alpha / 2 times the gradient of the objective."""
    for old, new, slope in zip(before, after, gradient(objective, before), strict=True):
        np.testing.assert_allclose((new.astype(np.float64) - old) / ALPHA, -slope / 2, atol=2e-5)


# ---- steps ---------------------------------------------------------------------------------------


def test_pmf_goes_down_the_gradient():
    before = [table(1, 1), table(1, 2)]
    P, Q = (part.copy() for part in before)
    one = np.zeros(1, np.int32), np.zeros(1, np.int32), np.array([4.0], np.float32)
    model = PmfModel(P, Q, np.array([0.5], np.float32))
    pmf.learn(model, RatingRows(*one), ALPHA, REG, key(0))
    assert_steps_down(
        before,
        [P, Q],
        lambda p, q: (4 - 0.5 - p[0] @ q[0]) ** 2 + REG * ((p**2).sum() + (q**2).sum()),
    )
    assert not P[:, FACTORS:].any() and not Q[:, FACTORS:].any()


def test_biased_mf_goes_down_the_gradient():
    before = [table(1, 1), table(1, 2), numbers(1, 3), numbers(1, 4)]
    after = [part.copy() for part in before]
    one = np.zeros(1, np.int32), np.zeros(1, np.int32), np.array([4.0], np.float32)
    model = BiasedMfModel(*after, np.array([3.5], np.float32))
    biased_mf.learn(model, RatingRows(*one), STEP, key(0))

    def objective(p, q, b, c):
        error = 4 - 3.5 - b[0] - c[0] - p[0] @ q[0]
        return error**2 + REG * ((p**2).sum() + (q**2).sum()) + REG_BIAS * (b[0] ** 2 + c[0] ** 2)

    assert_steps_down(before, after, objective)


def koren(P, Q, Y, b, c, mean, data, own):
    """An epoch of Koren's steps as they are printed: at every rating, every y_j of the user
    moves.
    """
    visit, order = np.empty(len(P), np.int32), np.empty(len(data), np.int32)
    shuffle(visit, 0, len(P), own)
    for u in visit:
        start, stop = data.ptr[u], data.ptr[u + 1]
        shuffle(order, start, stop, np.uint64(fold(own, int(u))))
        mine = data.item[start:stop]
        for r in order[start:stop]:
            i, g = data.item[r], len(mine) ** -0.5
            z = P[u] + g * Y[mine].sum(axis=0)
            e, q, p = data.value[r] - (mean + b[u] + c[i] + Q[i] @ z), Q[i].copy(), P[u].copy()
            b[u] += ALPHA * (e - REG_BIAS * b[u])
            c[i] += ALPHA * (e - REG_BIAS * c[i])
            Q[i] += ALPHA * (e * z - REG * q)
            P[u] += ALPHA * (e * q - REG * p)
            Y[mine] += ALPHA * (e * g * q - REG * Y[mine])


def test_svd_pp_takes_koren_s_steps():
    data = rated(6, 9)
    parts = [table(6, 1), table(9, 2), table(9, 3), numbers(6, 4), numbers(9, 5)]
    printed = [part.astype(np.float64) for part in parts]
    koren(*printed, 3.5, data, key(7))
    first = parts[2].copy()
    model = SvdPpModel(*parts, np.array([3.5], np.float32))
    rows = svd_pp.SvdPpRows(data.ptr, data.item, data.value)
    svd_pp.learn(model, rows, STEP, key(7), used_room())
    for ours, theirs in zip(parts, printed, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-5)
    assert np.abs(first[:8] - parts[2][:8]).max() > 0.01


# ---- order and steps of an epoch -----------------------------------------------------------------


def test_a_shuffle_holds_every_place_once_and_any_may_come_first():
    firsts, order = set(), np.full(9, -1, np.int32)
    for n in range(100):
        shuffle(order, 2, 8, key(0, n))
        assert sorted(order[2:8]) == [2, 3, 4, 5, 6, 7] and order[[0, 1, 8]].tolist() == [
            -1,
            -1,
            -1,
        ]
        firsts.add(int(order[2]))
    assert firsts == {2, 3, 4, 5, 6, 7}


def test_steps_shrink_and_every_epoch_has_its_own_key():
    reports = []
    kept = list(
        Pmf(epochs=3, learning_rate=0.5, decay=0.5).passes(
            key(0), lambda done, of, what: reports.append((done, of, what))
        )
    )
    assert [float(alpha) for _, alpha in kept] == [0.5, 0.25, 0.125]
    assert len({int(own) for own, _ in kept}) == 3
    assert reports == [(1, 3, "epochs"), (2, 3, "epochs"), (3, 3, "epochs")]


def test_tables_have_the_wanted_deviation_and_rows_of_their_own():
    many = Pmf(factors=20, init_std=0.3).table(500, key(0), "P")
    assert many[:, :20].std() == pytest.approx(0.3, rel=0.05) and not many[:, 20:].any()
    few = Pmf(factors=20, init_std=0.3).table(3, key(0), "P")
    assert few.tobytes() == many[:3].tobytes()
    assert few.tobytes() != Pmf(factors=20, init_std=0.3).table(3, key(0), "Q").tobytes()


# ---- predictions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [BiasedMf, SvdPp])
def test_a_prediction_is_mean_and_biases_and_product(kind):
    data, users = rated(12, 10), np.array([3, 0, 11])
    algorithm = kind(factors=3, epochs=5, learning_rate=0.05, reg=0.1, reg_bias=0.1)
    model = algorithm.fit(data, key(0))
    user, item = algorithm.biases(model, data, users)
    np.testing.assert_allclose(
        user, data.value.mean() + model.user[users], atol=1e-6
    )  # so that only the product is left
    assert item.tobytes() == model.item.tobytes()
    p = model.P[users]
    if kind is SvdPp:
        sets = [data.item[data.ptr[u] : data.ptr[u + 1]] for u in users]
        p = p + np.array([model.Y[of].sum(axis=0) / max(len(of), 1) ** 0.5 for of in sets])
    expected = user[:, None] + item + p @ model.Q.T
    np.testing.assert_allclose(algorithm.score(model, data, users), expected, atol=1e-5)
    assert np.abs(model.user[users[:2]]).min() > 0.01  # so that they matter above


@pytest.mark.parametrize("kind", [BiasedMf, SvdPp])
def test_who_and_what_is_unknown_says_nothing(kind):
    data = rated(12, 10)  # user 11 and item 9 have no rows
    algorithm = kind(factors=3, epochs=5, learning_rate=0.05, reg=0.1)
    model = algorithm.fit(data, key(0))
    scores = algorithm.score(model, data, np.arange(12))
    mean = model.mean[0]
    np.testing.assert_array_equal(scores[11], model.item + mean)
    np.testing.assert_array_equal(scores[:, 9], model.user + mean)
    assert scores[11, 9] == mean == np.float32(data.value.mean(dtype=np.float64))


def test_pmf_predicts_the_unknown_with_the_mean_vector():
    data = rated(12, 10)
    algorithm = Pmf(factors=3, epochs=20, learning_rate=0.05, reg=0.1, centred=False)
    model = algorithm.fit(data, key(0))
    np.testing.assert_allclose(model.P[11], model.P[:11].mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(model.Q[9], model.Q[:9].mean(axis=0), rtol=1e-6)
    assert (
        model.mean[0] == 0 and algorithm.score(model, data, np.array([11]))[0, 9] > 2
    )  # on the scale of the ratings
    centred = Pmf(factors=3, epochs=1, init_std=0.0, centred=True)
    assert (
        centred.score(centred.fit(data, key(0)), data, np.arange(12))
        == np.float32(data.value.mean(dtype=np.float64))
    ).all()


# ---- learning ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_one_rating_only_is_refused(kind):
    user, item = np.nonzero(np.ones((4, 4)))
    data = build(
        user, item, value=np.full(16, 4.0), users=Vocabulary(size=4), items=Vocabulary(size=4)
    )
    with pytest.raises(InputError, match=r"no ratings to learn from.*value=COLUMN"):
        kind().fit(data, key(0), silent)


def test_the_users_mean_predicts_all_items_alike_and_new_users_with_the_mean_of_all():
    rows = build(
        np.array([0, 0, 1]),
        np.array([0, 1, 2]),
        value=np.array([2.0, 5.0, 1.0]),
        users=Vocabulary(size=3),
        items=Vocabulary(size=4),
    )
    algorithm = UserMean()
    model = algorithm.fit(rows, key(0))
    scores = algorithm.score(model, rows, np.arange(3))
    np.testing.assert_array_equal(model.means, np.float32([3.5, 1.0, 8 / 3]))
    np.testing.assert_array_equal(scores, np.repeat(model.means[:, None], 4, axis=1))
