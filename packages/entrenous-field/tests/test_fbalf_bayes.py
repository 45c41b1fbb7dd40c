"""FBALF as a Bayesian ensemble: what the server makes of gradients, what one device gives away, what
biases, members and settings mean.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from entrenous_field.fbalf_bayes import FBALFBayes, FBALFBayesServer
from rated_rows import SMALL_BAYES, rated
from small_federations import same

from entrenous.core.contract.update import Total, Update, add_update, empty_total
from entrenous.core.keys import key
from entrenous.data.interactions import Interactions
from entrenous.federation.rounds import Rounds, Training
from entrenous.privacy.protection import Protection
from entrenous.runs.conformance import conform

USERS, ITEMS = 60, 40
DATA = rated()


def bayes(**other: Any) -> FBALFBayes:
    return FBALFBayes(**{**SMALL_BAYES, **other})


def trained(
    algorithm: FBALFBayes, data: Interactions = DATA, rounds: int = 12, **how: Any
) -> Training:
    federation = Rounds(algorithm, data, seed=2, **how)
    return federation.advance(federation.start(), rounds)


def sent(
    algorithm: FBALFBayes,
    now: Training,
    users: np.ndarray,
    number: int = 0,
    data: Interactions = DATA,
) -> Update:
    """What some devices send in a round from where a training stands."""
    own = type(now.devices)(*(array[users] for array in now.devices))
    return algorithm.local(
        algorithm.download(now.server), own, data.histories(users), users, key(0, "round", number)
    )[1]


# ---- the server ----------------------------------------------------------------------------------


def test_a_server_that_sees_sums_counts_senders_by_their_rows_of_counts() -> None:
    """Where noise makes a row of every item, every device has sent one: the counts say who meant
    it, and the model is the same.
    """
    counted, told = trained(bayes()).server, trained(bayes(counts=0.1)).server
    assert same(counted, told)
    every = Protection(noise=1e-6, rows="all")
    assert same(trained(bayes(counts=0.1), protection=every).server.seen, counted.seen)
    assert not same(trained(bayes(), protection=every).server.seen, counted.seen)


def one_step(
    algorithm: FBALFBayes,
    server: FBALFBayesServer,
    rows: dict[int, tuple[float, float]],
    devices: int,
) -> FBALFBayesServer:
    """The server after `devices` devices, of which one each sent {item: (gradient of q, of b)}."""
    item = np.array(sorted(rows), np.int32)
    shape = (len(item), algorithm.members, algorithm.factors)
    q = np.broadcast_to(np.array([rows[i][0] for i in item], np.float32)[:, None, None], shape)
    b = np.broadcast_to(np.array([rows[i][1] for i in item], np.float32)[:, None], shape[:2])
    update = Update(
        np.array([0, len(item)]), item, {"q": q.copy(), "b": b.copy()}, {}, np.ones(1, np.float32)
    )
    total: Total = add_update(empty_total(update, len(server.q)), update)._replace(devices=devices)
    return algorithm.aggregate(server, total)


def test_the_server_steps_as_equation_13_says_with_the_senders_for_curvature() -> None:
    """All 10 users report, one sends item 1: q -= .5 (g + 5 q) / (1 + 5 + 3), b -= .5 (g + 1 b) /
    (1 + 1); then again with momentum.
    """
    algorithm = bayes(rho=0.0)
    start = algorithm.init_server(DATA.catalogue._replace(users=10), key(1))
    q, b = start.q[1].astype(float), start.b[1].astype(float)
    first = one_step(algorithm, start, {1: (2.0, 0.5)}, 10)
    move_q, move_b = (2.0 + 5 * q) / 9, (0.5 + b) / 2
    assert first.q[1] == pytest.approx(q - 0.5 * move_q, abs=1e-6) and first.b[1] == pytest.approx(
        b - 0.5 * move_b, abs=1e-6
    )
    second = one_step(algorithm, first, {1: (2.0, 0.5)}, 10)
    move_q = 0.5 * move_q + (2.0 + 5 * first.q[1].astype(float)) / 9
    assert second.q[1] == pytest.approx(first.q[1] - 0.5 * move_q, abs=1e-6)
    assert first.q[0] == pytest.approx(
        start.q[0] * (1 - 0.5 * 5 / 8), abs=1e-6
    )  # nobody sent item 0: its prior alone


def test_with_decoys_the_server_waits_for_predictions() -> None:
    """Before `threshold` the step is early_rate = .2 of the one after it."""
    algorithm = bayes(momentum=0.0)
    start = algorithm.init_server(DATA.catalogue._replace(users=10), key(1))
    early = one_step(algorithm, start, {1: (2.0, 0.5)}, 10)
    late = one_step(algorithm, start._replace(iteration=np.array([4])), {1: (2.0, 0.5)}, 10)
    assert early.q[1] - start.q[1] == pytest.approx(0.2 * (late.q[1] - start.q[1]), abs=1e-6)


def test_the_server_estimates_the_ratings_of_an_item_from_rows_that_are_half_decoys() -> None:
    data = rated(200, 120, np.linspace(0.05, 0.4, 120))
    truth, now = data.popularity, trained(bayes(rho=1.0), data, rounds=3)
    found = bayes(rho=1.0).ratings(now.server)
    assert np.corrcoef(found, truth)[0, 1] > 0.9 and abs(found.mean() - truth.mean()) < 1
    assert bayes(rho=0.0).ratings(trained(bayes(rho=0.0), data, rounds=3).server) == pytest.approx(
        truth
    )


def test_part_of_the_users_in_a_round_moves_the_prior_by_their_share() -> None:
    algorithm = bayes(rho=0.0, momentum=0.0)
    start = algorithm.init_server(DATA.catalogue._replace(users=10), key(1))
    half = one_step(algorithm, start, {1: (0.0, 0.0)}, 5)
    q = start.q[1].astype(float)
    assert half.q[1] == pytest.approx(q - 0.5 * (5 * 0.5 * q) / (1 + (5 + 3) * 0.5), abs=1e-6)


# ---- decoys (eq. 6, 7) ---------------------------------------------------------------------------


def test_one_device_seen_alone_gives_its_ratings_away_by_arithmetic() -> None:
    """What `sends` says: -g_b = r - b_i - b_u - p.q, and g_q = g_b p tells p; real ratings then
    differ by whole numbers.
    """
    algorithm = bayes(members=1, noise=0.0, rho=1.0)
    now, user = trained(algorithm, rounds=8), 0
    update = sent(algorithm, now, np.array([user]))
    g_q, g_b, i = (
        update.rows["q"][:, 0].astype(float),
        update.rows["b"][:, 0].astype(float),
        update.item,
    )
    p = (g_q / g_b[:, None]).mean(axis=0)
    level = -g_b + now.server.b[i, 0] + now.server.q[i, 0] @ p  # r - b_u
    own = DATA.item[DATA.ptr[user] : DATA.ptr[user + 1]]
    mine, fraction = np.isin(i, own), (level - level[np.isin(i, own)][0]) % 1
    assert (
        np.minimum(fraction, 1 - fraction)[mine].max() < 1e-3
    )  # one shared fraction: they are whole numbers apart
    assert (np.minimum(fraction, 1 - fraction)[~mine] < 1e-3).mean() < 0.2
    assert np.diff(level[mine]) == pytest.approx(
        np.diff(DATA.value[DATA.ptr[user] : DATA.ptr[user + 1]]), abs=1e-3
    )


# ---- biases, members, predictions ----------------------------------------------------------------


def test_a_prediction_is_the_sum_of_its_parts_and_the_mean_of_the_members() -> None:
    algorithm, now = bayes(), trained(bayes())
    download, histories = algorithm.download(now.server), DATA.histories(np.arange(USERS))
    of_user, of_item = algorithm.biases(download, now.devices, histories)
    product = np.einsum("ukf,ikf->uik", now.devices.p, now.server.q).mean(axis=2)
    scores = algorithm.score(download, now.devices, histories)
    assert scores == pytest.approx(product + of_user[:, None] + of_item, abs=1e-5)
    assert of_user == pytest.approx(3 + now.devices.offset.mean(axis=1), abs=1e-6)


def test_the_bias_of_a_user_starts_at_the_middle_or_at_the_users_mean() -> None:
    users, middle, mean = np.arange(USERS), bayes(), bayes(start="mean")
    download = middle.download(middle.init_server(DATA.catalogue, key(1)))
    histories = DATA.histories(users)
    assert set(middle.starts(download, histories).tolist()) == {3.0}
    own = np.array([DATA.value[DATA.ptr[u] : DATA.ptr[u + 1]].mean() for u in users])
    assert mean.starts(download, histories) == pytest.approx(own, abs=1e-6)
    nobody = DATA.select(DATA.user != 5).histories(users)
    assert mean.starts(download, nobody)[5] == 3.0


def test_biases_that_are_switched_off_stay_where_they_are_and_b_is_not_sent() -> None:
    without = trained(bayes(user_bias=False, item_bias=False))
    assert not without.devices.offset.any() and not without.server.b.any()
    assert set(
        sent(bayes(item_bias=False), trained(bayes(item_bias=False), rounds=1), np.arange(3)).rows
    ) == {"q"}
    with_both = trained(bayes())
    assert with_both.devices.offset.any() and with_both.server.b.any()


@pytest.mark.parametrize("change", [{}, {"cohort": 20, "item_bias": False}])
def test_it_conforms(change: dict[str, Any]) -> None:
    conform(bayes(**change))
