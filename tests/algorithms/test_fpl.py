"""FPL against the paper: eq. 3-7 by finite differences and by hand, pi, presets, and the printed
communication costs.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from entrenous.core.contract.protocols import Catalogue, Histories
from entrenous.core.contract.update import Update, add_update, empty_total
from entrenous.core.keys import fold_name, key
from entrenous.data.interactions import Interactions, Vocabulary, build
from entrenous.data.synthetic import synthetic
from entrenous.federation.rounds import Rounds
from entrenous.privacy.choice import Choice
from entrenous.systems.fpl import (
    FPL,
    FPLDevices,
    FPLServer,
    plain_local,
)
from entrenous.systems.named import algorithms

BRAZIL = Catalogue(17_473, 47_270, 599_958)


@pytest.fixture
def data() -> Interactions:
    return synthetic(users=40, items=60, interactions=400, skew=0.5, seed=1)


def communication_cost_per_epoch(fpl: FPL, catalogue: Catalogue) -> float:
    """The communication cost per epoch of section 6.3, CCE = rpe |U-| (|I| + T (1 + pi)), in
    exchanged vectors.
    """
    configured = fpl.configured(catalogue)
    pi = fpl.pi
    assert isinstance(pi, float)
    vectors = catalogue.items + configured.triples * (1 + pi)
    return fpl.rounds_an_epoch(catalogue) * configured.cohort * vectors


def total_communication_cost(fpl: FPL, catalogue: Catalogue, epochs: float) -> float:
    """The cost of a training, TCC = CCE x epochs (table 4)."""
    return communication_cost_per_epoch(fpl, catalogue) * epochs


def one_user(*items: int, catalogue: int) -> Histories:
    """A single device that consumed `items`."""
    user = np.zeros(len(items), np.int64)
    vocabulary = Vocabulary(size=1, kind="user"), Vocabulary(size=catalogue, kind="item")
    return build(user, items, users=vocabulary[0], items=vocabulary[1]).histories(np.array([0]))


def one_triple(
    fpl: FPL, theta: FPLServer, p: np.ndarray, history: Histories
) -> tuple[FPLDevices, Update]:
    return fpl.local(theta, FPLDevices(p[None, :]), history, np.array([0]), key(5))


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


def test_updates_are_the_gradient_of_the_bpr_criterion() -> None:
    """d/dtheta of ln sigma(x_uij), eq. 2, by central differences, for q_i, q_j, b and p_u (no
    regularisation).
    """
    rng = np.random.default_rng(0)
    q, b, p = rng.normal(size=(2, 7)), rng.normal(size=2), rng.normal(size=7)
    fpl = FPL(factors=7, triples=1, learning_rate=1.0, reg_user=0, reg_positive=0, reg_negative=0)
    theta = FPLServer(q.astype(np.float32), b.astype(np.float32))
    devices, update = one_triple(fpl, theta, p.astype(np.float32), one_user(0, catalogue=2))

    def criterion(q: np.ndarray, b: np.ndarray, p: np.ndarray) -> float:
        x = b[0] + p @ q[0] - b[1] - p @ q[1]
        return -math.log1p(math.exp(-x))

    def slope(name: str, place: tuple[int, ...]) -> float:
        values = {"q": q.copy(), "b": b.copy(), "p": p.copy()}
        values[name][place] += 1e-6
        up = criterion(**values)
        values[name][place] -= 2e-6
        return (up - criterion(**values)) / 2e-6

    order = np.argsort(update.item)
    for f in range(7):
        assert devices.p[0, f] - np.float32(p[f]) == pytest.approx(slope("p", (f,)), abs=1e-5)
        for k in range(2):
            assert update.rows["q"][order][k, f] == pytest.approx(slope("q", (k, f)), abs=1e-5)
    for k in range(2):
        assert update.rows["b"][order][k] == pytest.approx(slope("b", (k,)), abs=1e-5)


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


def sent_positives(fpl: FPL, data: Interactions, rounds: int) -> np.ndarray:
    """Every (user, item) pair of consumed items in the transcript of a training, one entry a time
    it was sent.
    """
    seen: list[np.ndarray] = []

    def watch(update: Update, keys: object) -> Update:
        seen.append(update.item[update.rows["b"] > 0])
        return update

    runner = Rounds(fpl, data, limits=[watch])
    runner.advance(runner.start(), rounds)
    return np.concatenate(seen)


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


def test_each_user_and_each_item_can_have_its_own_pi(data: Interactions) -> None:
    """User 3 shares nothing, except their first item, which they always share; everybody else
    shares everything.
    """
    first = int(data.item[data.ptr[3]])
    choice = Choice(1.0, {3: 0.0}, {(3, first): 1.0})
    sent: list[tuple[int, int]] = []

    def watch(update: Update, keys: object) -> Update:
        owner = np.repeat(np.arange(40), np.diff(update.ptr))
        mine = (owner == 3) & np.isin(update.item, data.item[data.ptr[3] : data.ptr[4]])
        sent.extend((3, int(item)) for item in update.item[mine])
        return update

    runner = Rounds(FPL(factors=2, triples=5, pi=choice), data, limits=[watch], block=40)
    runner.advance(runner.start(), 50)
    assert set(sent) == {(3, first)}


def test_pi_1_sends_positives_of_every_user(data: Interactions) -> None:
    assert len(np.unique(sent_positives(FPL(factors=2, triples=5), data, 20))) > 30


def test_what_is_sent_holds_neither_p_nor_the_history(data: Interactions) -> None:
    """A2: no run of bytes of a user's private vector occurs in what they send."""
    fpl = FPL(factors=8, triples=6)
    runner = Rounds(fpl, data)
    training = runner.advance(runner.start(), 5)
    everyone = np.arange(40)
    private, update = fpl.local(
        training.server, training.devices, data.histories(everyone), everyone, key(9)
    )
    wire = update.item.tobytes() + b"".join(rows.tobytes() for rows in update.rows.values())
    for p in (*training.devices.p, *private.p):
        assert p[:2].tobytes() not in wire


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


def test_negatives_are_uniform_over_what_was_not_consumed() -> None:
    """12 items, {0, 5, 11} consumed: 9 negatives, chi-square with 8 degrees of freedom below its p
    = .001 value.
    """
    history = one_user(0, 5, 11, catalogue=12)
    fpl = FPL(factors=1, triples=1, pi=0.0, init_std=0.0)
    theta = fpl.init_server(Catalogue(1, 12, 3), key(0))
    counts = np.zeros(12)
    for draw in range(3_600):
        _, update = fpl.local(
            theta, FPLDevices(np.zeros((1, 1), np.float32)), history, np.array([0]), key(draw)
        )
        counts[update.item] += 1
    assert counts[[0, 5, 11]].tolist() == [0, 0, 0]
    rest = np.delete(counts, [0, 5, 11])
    assert ((rest - 400) ** 2 / 400).sum() < 26.1


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


# ---- presets, epochs and the printed costs -------------------------------------------------------


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


@pytest.mark.parametrize(("pi", "printed"), [(0.1, 1.27623), (0.5, 1.27624), (1.0, 1.27625)])
def test_table_4_of_sfpl_is_45_epochs(pi: float, printed: float) -> None:
    fpl = FPL(cohort=1, triples=1, pi=pi)
    assert total_communication_cost(fpl, BRAZIL, 45) / 1e12 == pytest.approx(printed, abs=6e-6)


@pytest.mark.parametrize(("pi", "printed"), [(0.1, 1.41913), (0.5, 1.41955), (1.0, 1.42006)])
def test_table_4_of_sfpl_plus_is_50_epochs_of_rounds_that_ignore_t(
    pi: float, printed: float
) -> None:
    """The paper's T = X+ / |U| = 34.336 is not rounded in its cost, ours is 34: they agree to 2e-5
    of the cost.
    """
    fpl = FPL(cohort=1, triples=34, pi=pi, rounds_per_epoch="run")
    assert total_communication_cost(fpl, BRAZIL, 50) / 1e12 == pytest.approx(printed, rel=2e-5)


def test_communication_cost_per_epoch_is_rpe_cohort_items_plus_updates() -> None:
    fpl = FPL(cohort=10, triples=4, pi=0.25)
    catalogue = Catalogue(100, 50, 2_000)
    assert communication_cost_per_epoch(fpl, catalogue) == (2_000 / (10 * 4)) * 10 * (
        50 + 4 * (1 + 0.25)
    )


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
