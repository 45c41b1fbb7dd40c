"""FPL against the paper: eq. 3-7 by hand, pi, presets, and what the ledger counts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from entrenous.core.contract.protocols import Catalogue, Histories
from entrenous.core.contract.update import Update, add_update, empty_total
from entrenous.core.keys import below, draw, fold_name, key, uniform
from entrenous.core.types import Float32Array, Int32Array
from entrenous.data.interactions import Interactions, Vocabulary, build
from entrenous.data.synthetic import synthetic
from entrenous.federation.rounds import Rounds
from entrenous.kernels.sampling import below_low, negative
from entrenous.systems.fpl import FPL, FPLDevices, FPLServer
from entrenous.systems.named import algorithms

BRAZIL = Catalogue(17_473, 47_270, 599_958)


@pytest.fixture
def data() -> Interactions:
    return synthetic(users=40, items=60, interactions=400, skew=0.5, seed=1)


def one_user(*items: int, catalogue: int) -> Histories:
    """A single device that consumed `items`."""
    user = np.zeros(len(items), np.int64)
    vocabulary = Vocabulary(size=1, kind="user"), Vocabulary(size=catalogue, kind="item")
    return build(user, items, users=vocabulary[0], items=vocabulary[1]).histories(np.array([0]))


def one_triple(
    fpl: FPL, theta: FPLServer, p: np.ndarray, history: Histories
) -> tuple[FPLDevices, Update]:
    return fpl.local(theta, FPLDevices(p[None, :]), history, np.array([0]), key(5))


# ---- section 4.2, steps 2 and 3, on one device: as a person reads it -----------------------------


def plain_local(
    fpl: FPL, theta: FPLServer, p_u: Float32Array, history: Int32Array, key: np.uint64
) -> tuple[Float32Array, dict[int, tuple[Float32Array, float]]]:
    """Runs one round of one device in plain NumPy. Returns the new p_u, float32 [F], and {item:
    (update of q, update of b)} that it sends.

    fpl: configured, with pi a number. theta: the received model. history: int32, the consumed
    items, ascending. key: the device's in this round. It draws the same triples as the compiled
    loop.
    """
    triples, alpha, reg_u, reg_i, reg_j, per_triple = fpl.numbers()
    q, b = theta
    pi = float(fpl.pi)  # type: ignore[arg-type]
    unseen = len(b) - len(history)
    summed = np.zeros_like(p_u)
    sent: dict[int, tuple[Float32Array, float]] = {}
    for t in range(triples if len(history) and unseen else 0):
        # (u, i, j) of K_u, and the chance of its positive
        bits = np.uint64(draw(key, 2 * t))
        chance = np.uint64(draw(key, 2 * t + 1))
        i = int(history[below(bits, len(history))])
        j = int(negative(history, below_low(bits, unseen)))
        # 2. Federated Optimization
        x_uij = b[i] + p_u @ q[i] - b[j] - p_u @ q[j]  # (4)
        d = math.exp(-x_uij) / (1 + math.exp(-x_uij))  # (3)
        updates = {j: (-d * p_u - reg_j * q[j], -d)}  # (5), theta = q_j, b_j
        # 3. Transmission to Server: pi lets the positive update through
        if uniform(chance) < pi:
            updates[i] = (d * p_u - reg_i * q[i], d)  # (5), theta = q_i, b_i
        for item, (dq, db) in updates.items():
            before_q, before_b = sent.get(item, (np.zeros_like(p_u), 0.0))
            sent[item] = (before_q + dq, before_b + db)
        step = d * (q[i] - q[j]) - reg_u * p_u  # (5), theta = p_u
        if per_triple:
            p_u = p_u + alpha * step  # (6) at once, as run
        else:
            summed = summed + step
    return (p_u + alpha * summed).astype(np.float32), sent  # (6), as printed


# ---- the arithmetic of section 4.2 ---------------------------------------------------------------


def test_one_triple_is_the_papers_equations_3_to_7() -> None:
    """Two items: i = 0 consumed, j = 1 not, so the triple is (u, 0, 1) whatever is drawn. Every
    number by hand.
    """
    q = np.array([[0.5, -0.25], [0.25, 0.5]], np.float32)
    b, p = np.array([0.125, -0.125], np.float32), np.array([1.0, 0.5], np.float32)
    fpl = FPL(
        factors=2, triples=1, learning_rate=0.5, reg_user=0.1, reg_positive=0.2, reg_negative=0.02
    )
    devices, update = one_triple(fpl, FPLServer(q, b), p, one_user(0, catalogue=2))
    x = (0.125 + 1.0 * 0.5 + 0.5 * -0.25) - (-0.125 + 1.0 * 0.25 + 0.5 * 0.5)  # (4)
    d = math.exp(-x) / (1 + math.exp(-x))  # (3)
    row = {int(item): place for place, item in enumerate(update.item)}
    assert sorted(row) == [0, 1]
    assert update.rows["q"][row[0]] == pytest.approx(d * p - 0.2 * q[0], abs=1e-6)  # (5), q_i
    assert update.rows["q"][row[1]] == pytest.approx(-d * p - 0.02 * q[1], abs=1e-6)  # (5), q_j
    assert update.rows["b"][[row[0], row[1]]] == pytest.approx(
        [d, -d], abs=1e-6
    )  # (5), b_i and b_j
    assert devices.p[0] == pytest.approx(p + 0.5 * (d * (q[0] - q[1]) - 0.1 * p), abs=1e-6)  # (6)
    after = fpl.aggregate(FPLServer(q, b), add_update(empty_total(update, 2), update))
    assert after.q[0] == pytest.approx(
        q[0] + 0.5 * (d * p - 0.2 * q[0]), abs=2e-5
    )  # (7), on the grid of 2^-16
    assert after.b == pytest.approx(b + 0.5 * np.array([d, -d]), abs=2e-5)


@pytest.mark.parametrize(
    ("pi", "user_step"), [(1.0, "triple"), (0.5, "triple"), (0.0, "once"), (0.5, "once")]
)
def test_the_compiled_loop_is_the_plain_reading_of_section_4_2(
    data: Interactions, pi: float, user_step: str
) -> None:
    fpl = FPL(
        factors=5, triples=30, pi=pi, learning_rate=0.1, user_step=user_step, init_std=0.4
    ).configured(data.catalogue)  # type: ignore[arg-type]
    theta, users = fpl.init_server(data.catalogue, key(3)), np.arange(len(data.users))
    devices, histories = fpl.init_devices(users, data.catalogue, key(4)), data.histories(users)
    after, update = fpl.local(theta, devices, histories, users, key(5))
    for u in users:
        history = histories.item[histories.ptr[u] : histories.ptr[u + 1]]
        p_u, sent = plain_local(fpl, theta, devices.p[u], history, fold_name(key(5), int(u)))
        rows = slice(update.ptr[u], update.ptr[u + 1])
        assert sorted(update.item[rows].tolist()) == sorted(sent)
        assert np.allclose(after.p[u], p_u, atol=1e-5)
        for item, q, b in zip(
            update.item[rows], update.rows["q"][rows], update.rows["b"][rows], strict=True
        ):
            assert (
                np.allclose(q, sent[int(item)][0], atol=1e-5) and abs(b - sent[int(item)][1]) < 1e-5
            )


def test_p_moves_once_as_printed_or_after_each_triple_as_run() -> None:
    """With two items every triple is the same. Printed: p + alpha * (sum of T equal steps). Run: T
    steps, each from the last p.
    """
    q, b = np.array([[0.5], [-0.5]], np.float32), np.zeros(2, np.float32)
    p = np.array([0.25], np.float32)
    history = one_user(0, catalogue=2)

    def moved(step: str) -> float:
        fpl = FPL(factors=1, triples=3, learning_rate=0.5, reg_user=0.1, user_step=step)  # type: ignore[arg-type]
        return float(one_triple(fpl, FPLServer(q, b), p, history)[0].p[0, 0])

    def sigma(value: float) -> float:
        return 1 / (1 + math.exp(value))

    printed = 0.25 + 0.5 * 3 * (sigma(0.25) * 1.0 - 0.1 * 0.25)
    run = 0.25
    for _ in range(3):
        run += 0.5 * (sigma(run) * 1.0 - 0.1 * run)
    assert moved("once") == pytest.approx(printed, abs=1e-6)
    assert moved("triple") == pytest.approx(run, abs=1e-6)
    assert printed != pytest.approx(run, abs=1e-3)


def test_a_huge_score_does_not_overflow() -> None:
    q, b = np.array([[-100.0], [100.0]], np.float32), np.zeros(2, np.float32)
    fpl = FPL(factors=1, triples=1, reg_user=0, reg_positive=0, reg_negative=0)
    for p, d in ((np.array([100.0], np.float32), 1.0), (np.array([-100.0], np.float32), 0.0)):
        update = one_triple(fpl, FPLServer(q, b), p, one_user(0, catalogue=2))[1]
        assert np.abs(update.rows["b"]) == pytest.approx([d, d], abs=1e-6)


# ---- what is sent: pi ----------------------------------------------------------------------------


def test_a1_with_pi_0_no_row_of_a_consumed_item_ever_leaves(data: Interactions) -> None:
    """A1 of the privacy research: 40 devices x 250 rounds = 10,000 device rounds, no sign of a
    positive, no consumed item.
    """
    leaks = 0

    def watch(update: Update, keys: object) -> Update:
        nonlocal leaks
        leaks += int((update.rows["b"] > 0).sum())
        for d in range(update.devices):
            leaks += int(np.isin(update.item[update.ptr[d] : update.ptr[d + 1]], own[d]).sum())
        return update

    own = [data.item[data.ptr[u] : data.ptr[u + 1]] for u in range(40)]
    runner = Rounds(FPL(factors=4, triples=5, pi=0.0), data, limits=[watch], block=40)
    runner.advance(runner.start(), 250)
    assert leaks == 0


@pytest.mark.parametrize("pi", [0.1, 0.5, 0.9])
def test_a1_a_drawn_positive_is_sent_with_probability_pi(data: Interactions, pi: float) -> None:
    """T = 1, so that every row is one draw: the share of positives is pi within three standard
    errors.
    """
    fpl = FPL(factors=2, triples=1, pi=pi)
    runner = Rounds(fpl, data)
    training = runner.advance(runner.start(), 200)
    draws = 40 * 200
    share = training.ledger.rows_up / draws - 1
    assert abs(share - pi) < 3 * math.sqrt(pi * (1 - pi) / draws)


# ---- devices on which nothing can be learnt ------------------------------------------------------


def test_a_user_without_items_or_with_all_items_sends_nothing_and_keeps_p() -> None:
    user = np.array([1, 1, 1, 2])
    vocabularies = {
        "users": Vocabulary(size=3, kind="user"),
        "items": Vocabulary(size=3, kind="item"),
    }
    data = build(user, np.array([0, 1, 2, 1]), **vocabularies)
    fpl = FPL(factors=4, triples=10)
    everyone = np.arange(3)
    before = fpl.init_devices(everyone, data.catalogue, key(0))
    after, update = fpl.local(
        fpl.init_server(data.catalogue, key(1)), before, data.histories(everyone), everyone, key(2)
    )
    assert np.diff(update.ptr)[:2].tolist() == [0, 0] and update.ptr[-1] > 0
    assert np.array_equal(before.p[:2], after.p[:2]) and not np.array_equal(before.p[2], after.p[2])


def test_long_histories_draw_what_short_ones_draw() -> None:
    """Beyond 64 items the search bisects first; every non-consumed item is still reached, and no
    consumed one.
    """
    consumed = np.arange(0, 600, 2)
    fpl = FPL(factors=1, triples=4_000, pi=0.0)
    history = one_user(*consumed.tolist(), catalogue=601)
    catalogue = Catalogue(1, 601, 300)
    theta = fpl.init_server(catalogue, key(0))
    _, update = fpl.local(
        theta, fpl.init_devices(np.array([0]), catalogue, key(1)), history, np.array([0]), key(3)
    )
    assert sorted(update.item.tolist()) == [*range(1, 600, 2), 600]


# ---- presets, epochs and what is counted ---------------------------------------------------------


def test_presets_are_those_of_section_5_2() -> None:
    shapes = {}
    for name in ("sfpl", "sfpl+", "pfpl", "pfpl+"):
        own = algorithms()[name]().configured(BRAZIL)
        shapes[name] = own.cohort, own.triples
    assert shapes == {"sfpl": (1, 1), "sfpl+": (1, 34), "pfpl": (17_473, 1), "pfpl+": (17_473, 34)}


def test_rounds_per_epoch_by_both_readings() -> None:
    printed, run = {}, {}
    for name in ("sfpl", "sfpl+", "pfpl", "pfpl+"):
        printed[name] = algorithms()[name](rounds_per_epoch="printed").rounds_an_epoch(BRAZIL)
        run[name] = algorithms()[name](rounds_per_epoch="run").rounds_an_epoch(BRAZIL)
    assert printed == {"sfpl": 599_958, "sfpl+": round(599_958 / 34), "pfpl": 34, "pfpl+": 1}
    assert run == {"sfpl": 599_958, "sfpl+": 599_958, "pfpl": 34, "pfpl+": 34}


def test_the_ledger_counts_what_the_formula_estimates(data: Interactions) -> None:
    """T = 1 and pi = 1: two rows a device and round, so vectors = rounds x devices x (|I| + 2),
    exactly CCE's count.
    """
    fpl = FPL(factors=4, triples=1, pi=1.0)
    runner = Rounds(fpl, data)
    ledger = runner.advance(runner.start(), 10).ledger
    assert ledger.vectors == 10 * 40 * (60 + 2)
    assert ledger.bytes_up == 10 * 40 * 2 * (4 + 4 * 4 + 4)
    assert ledger.bytes_down == 10 * 40 * 60 * (4 * 4 + 4)
