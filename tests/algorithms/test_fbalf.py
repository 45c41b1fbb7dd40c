"""FBALF as printed against its formulas in plain Python, finite differences of its loss, and its
own other ways of computing the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from plain_python import printed_both_ways
from small_data import few_ratings
from within_contract import within_contract

from entrenous.core.contract.update import Update
from entrenous.core.errors import InputError, NonFiniteError
from entrenous.core.keys import key
from entrenous.data.interactions import Interactions
from entrenous.federation.rounds import Rounds, Training
from entrenous.privacy.decoys import Mixed, with_decoys
from entrenous.systems.fbalf import FBALF, FBALFDevices, FBALFServer

USERS, ITEMS = 7, 12
EVERYONE = np.arange(USERS)
BASE: dict[str, Any] = {
    "factors": 3,
    "rho": 1.0,
    "threshold": 1,
    "local_iterations": 2,
    "learning_rate": 0.05,
    "local_rate": 0.03,
    "decay": 0.9,
    "reg": 0.02,
    "reg_bias": 0.1,
    "init_std": 0.3,
    "start": "middle",
    "style": "stochastic",
}


@pytest.fixture
def data() -> Interactions:
    return few_ratings(USERS, ITEMS, idle=True)


def stored(training: Training) -> list[bytes]:
    return [array.tobytes() for array in (*training.server, *training.devices)] + [
        repr(training.ledger).encode()
    ]


def decoys(algorithm: FBALF, training: Training, data: Interactions) -> Mixed:
    """The rows of every device, in rounds that do not redraw."""
    return with_decoys(data.histories(EVERYONE), algorithm.rho, training.devices.key, ITEMS)


class Plain:
    """The paper's federation in float64, one device at a time."""

    def __init__(self, settings: dict[str, Any], start: Training) -> None:
        self.s = settings
        self.q, self.b = start.server.q.astype(float), start.server.b.astype(float)
        self.p, self.bias = start.devices.p.astype(float), start.devices.bias.astype(float)

    def visit(self, d: int, rows: Mixed, t: int) -> tuple[Any, Any, Any]:
        """Local iterations of device d in pass t; its items and their gradients."""
        part, s = slice(rows.ptr[d], rows.ptr[d + 1]), self.s
        item, rated, r = rows.item[part], rows.rated[part], rows.value[part].astype(float)
        mean = r[rated].mean() if rated.any() else 3.0
        constant = mean if s["start"] == "mean" else 3.0
        eta, p, bias = s["local_rate"] * s["decay"] ** t, self.p[d].copy(), self.bias[d]
        before = constant + self.q[item] @ self.p[d] + self.bias[d] + self.b[item]
        known = np.where(rated, r, before if t >= s["threshold"] else mean)  # (6)
        learns = rated | s.get("decoys_move_u", False)
        for _ in range(s["local_iterations"]):
            for i, value in zip(item[learns], known[learns], strict=True):
                e = value - (constant + p @ self.q[i] + bias + self.b[i])
                p = p - eta * (-e * self.q[i] + s["reg"] * p)
                if s.get("user_bias", True):
                    bias = bias - eta * (-e + s["reg_bias"] * bias)
        predicted = constant + self.q[item] @ p + bias + self.b[item]
        at, at_p = (
            (before, self.p[d].copy()) if s.get("gradients_at") == "before" else (predicted, p)
        )
        made_up = predicted - before if t >= s["threshold"] else mean - at
        e = np.where(rated, r - at, made_up)
        self.p[d], self.bias[d] = p, bias
        g_b = s["reg_bias"] * self.b[item] - e
        if not s.get("item_bias", True):
            g_b = np.zeros(len(item))
        return item, s["reg"] * self.q[item] - e[:, None] * at_p, g_b

    def step(self, item: Any, g_q: Any, g_b: Any, t: int) -> None:
        eta = self.s["learning_rate"] * self.s["decay"] ** t
        self.q[item] -= eta * g_q
        self.b[item] -= eta * g_b

    def agrees(self, server: FBALFServer, devices: FBALFDevices) -> None:
        for left, right in (
            (server.q, self.q),
            (server.b, self.b),
            (devices.p, self.p),
            (devices.bias, self.bias),
        ):
            np.testing.assert_allclose(left, right, atol=2e-4)


READINGS: list[dict[str, Any]] = [
    {"decoys_move_u": True},
    {"gradients_at": "before"},
    {"decoys_move_u": True, "gradients_at": "before", "threshold": 0},
]
BIASES: list[dict[str, Any]] = [
    {"user_bias": False},
    {"item_bias": False},
    {"user_bias": False, "item_bias": False},
]


@pytest.mark.parametrize(
    "change",
    [{}, {"start": "mean"}, {"threshold": 9}, {"rho": 0.0}, {"factors": 20}, *READINGS, *BIASES],
)
def test_stochastic_rounds_are_the_papers_device_by_device(
    change: dict, data: Interactions
) -> None:
    """Three passes: averages in the first, predictions after it."""
    settings = {**BASE, **change}
    rounds = Rounds(FBALF(**settings), data)
    start = rounds.start()
    plain, rows = Plain(settings, start), decoys(FBALF(**settings), start, data)
    assert rows.rated.all() == (settings["rho"] == 0)
    for t in range(3):
        for d in EVERYONE:
            plain.step(*plain.visit(d, rows, t), t)
    after = rounds.advance(rounds.start(), 3 * USERS)
    assert abs(plain.q - start.server.q).max() > 0.1
    plain.agrees(after.server, after.devices)
    assert after.ledger.rows_up == 3 * len(rows.item)


@pytest.mark.parametrize("change", [{}, READINGS[2], BIASES[2]])
def test_batch_rounds_step_along_the_mean_over_senders(data: Interactions, change: dict) -> None:
    settings = {**BASE, "style": "batch", "learning_rate": 0.5, **change}
    rounds = Rounds(FBALF(**settings), data)
    start = rounds.start()
    plain, rows = Plain(settings, start), decoys(FBALF(**settings), start, data)
    for t in range(3):
        total_q, total_b, count = np.zeros_like(plain.q), np.zeros_like(plain.b), np.zeros(ITEMS)
        for d in EVERYONE:
            item, g_q, g_b = plain.visit(d, rows, t)
            total_q[item] += g_q
            total_b[item] += g_b
            count[item] += 1
        sent = np.flatnonzero(count)
        plain.step(sent, total_q[sent] / count[sent, None], total_b[sent] / count[sent], t)
    after = rounds.advance(rounds.start(), 3)
    plain.agrees(after.server, after.devices)
    assert after.server.step.tolist() == [3]


def test_what_is_sent_is_the_gradient_of_the_loss_at_the_new_user(data: Interactions) -> None:
    """1/2 e^2 + lambda / 2 |q_i|^2 + lambda_b / 2 b_i^2 by finite differences."""
    algorithm = FBALF(**{**BASE, "rho": 0.0})
    start, history, rng = (
        Rounds(algorithm, data).start(),
        data.histories(EVERYONE),
        np.random.default_rng(1),
    )
    server = start.server._replace(b=rng.normal(size=ITEMS).astype(np.float32))
    after, update = algorithm.local(server, start.devices, history, EVERYONE, key(1))
    owner = np.repeat(EVERYONE, np.diff(history.ptr))
    assert not np.array_equal(after.p, start.devices.p)

    def loss(r: int, q: Any, b: Any) -> float:
        u, i = owner[r], history.item[r]
        e = history.value[r] - (3 + after.p[u].astype(float) @ q[i] + float(after.bias[u]) + b[i])
        return float((e**2 + 0.02 * (q[i] ** 2).sum() + 0.1 * b[i] ** 2) / 2)

    for r in (0, len(owner) // 2, len(owner) - 1):
        for f in range(3):
            bump = np.zeros((ITEMS, 3))
            bump[history.item[r], f] = 1e-5
            slope = (loss(r, server.q + bump, server.b) - loss(r, server.q - bump, server.b)) / 2e-5
            assert update.rows["q"][r, f] == pytest.approx(slope, rel=1e-3, abs=1e-4)
        bump = np.full(ITEMS, 1e-5)
        slope = (loss(r, server.q, server.b + bump) - loss(r, server.q, server.b - bump)) / 2e-5
        assert update.rows["b"][r] == pytest.approx(slope, rel=1e-3, abs=1e-4)


def test_biases_are_held_by_reg_unless_they_have_their_own(data: Interactions) -> None:
    def trained(**change: Any) -> list[bytes]:
        rounds = Rounds(FBALF(**{**BASE, **change}), data)
        return stored(rounds.advance(rounds.start(), USERS))

    assert trained(reg_bias=None) == trained(reg_bias=0.02) != trained(reg_bias=0.1)


@pytest.mark.parametrize(
    "change",
    [{}, {"redraw": True}, {"rho": 0.0}, {"start": "mean"}, {"factors": 20}, {"init_std": 5.0}],
)
def test_a_run_of_one_device_rounds_has_the_bits_of_plain_rounds(
    change: dict, data: Interactions
) -> None:
    """Stopping in the middle of a pass included, and gradients too large for the quick way to
    round.
    """
    slow_rates = {"learning_rate": 1e-5, "local_rate": 1e-5} if "init_std" in change else {}
    rounds = Rounds(FBALF(**{**BASE, **change, **slow_rates}), data, seed=2)
    fast = rounds.advance(rounds.advance(rounds.start(), 5), 3 * USERS + 2)
    slow, largest = rounds.start(), 0.0
    for _ in range(3 * USERS + 2):
        largest = max(
            largest, float(np.abs(sent_by_next(rounds, slow, data).rows["q"]).max(initial=0))
        )
        slow = rounds.one_round(slow)
    assert stored(fast) == stored(slow)
    assert (largest > 128) == ("init_std" in change)


def sent_by_next(rounds: Rounds, training: Training, data: Interactions) -> Update:
    """What the device whose turn it is would send (the decoys of no redrawing)."""
    d = training.server.step % USERS
    own = FBALFDevices(*(array[d] for array in training.devices))
    return rounds.algorithm.local(training.server, own, data.histories(d), d, key(0))[1]


PROGRAM = """
import hashlib, sys
import tests.algorithms.test_fbalf as here
found = hashlib.sha256()
for change, until in (({"factors": 20}, 3 * here.USERS), ({"style": "batch"}, 3)):
    rounds = here.Rounds(here.FBALF(**{**here.BASE, **change}), here.few_ratings(here.USERS, here.ITEMS, idle=True), seed=1)
    found.update(b"".join(here.stored(rounds.advance(rounds.start(), until))))
print(found.hexdigest())
"""


def test_the_same_bits_without_compiling() -> None:
    assert len(printed_both_ways(PROGRAM)) == 64


def test_decoys_stay_the_same_unless_redrawn(data: Interactions) -> None:
    for redraw in (False, True):
        algorithm = FBALF(**{**BASE, "redraw": redraw})
        start, everyone = Rounds(algorithm, data).start(), data.histories(EVERYONE)
        sent = [
            algorithm.local(*start[:2], everyone, EVERYONE, key(0, "round", n))[1].item.tolist()
            for n in range(2)
        ]
        assert (sent[0] == sent[1]) is not redraw


def test_predictions_are_constant_and_biases_and_product(data: Interactions) -> None:
    algorithm, everyone = FBALF(**{**BASE, "start": "mean"}), data.histories(EVERYONE)
    rounds = Rounds(algorithm, data)
    server, devices = rounds.advance(rounds.start(), 2 * USERS)[:2]
    mean = np.array([data.value[data.user == d].mean() for d in EVERYONE[:-1]] + [3.0])
    of_user, of_item = algorithm.biases(server, devices, everyone)
    np.testing.assert_allclose(of_user, mean + devices.bias, rtol=1e-6)
    assert of_item.tobytes() == server.b.tobytes()
    scores = algorithm.score(server, devices, everyone)
    np.testing.assert_allclose(
        scores, of_user[:, None] + of_item + devices.p @ server.q.T, rtol=1e-5
    )


def test_training_fits_the_ratings(data: Interactions) -> None:
    algorithm = FBALF(
        **{**BASE, "factors": 4, "decay": 1.0, "rho": 0.0, "reg": 0.001, "reg_bias": None}
    )
    rounds = Rounds(algorithm, data)

    def rmse(training: Training) -> float:
        scores = algorithm.score(training.server, training.devices, data.histories(EVERYONE))
        return float(np.sqrt(((scores[data.user, data.item] - data.value) ** 2).mean()))

    assert (
        rmse(rounds.advance(rounds.start(), 300 * USERS))
        < 0.2 * data.value.std()
        < 0.2 * rmse(rounds.start())
    )


@pytest.mark.parametrize("style", ["batch", "stochastic"])
def test_a_rate_that_is_too_high_is_refused_by_name(style: str, data: Interactions) -> None:
    rounds = Rounds(
        FBALF(**{**BASE, "style": style, "learning_rate": 10.0, "local_rate": 1.0, "decay": 1.0}),
        data,
    )
    with pytest.raises(NonFiniteError, match="the model is unchanged"):
        rounds.advance(rounds.start(), 100 * USERS)


def test_data_without_ratings_is_refused(data: Interactions) -> None:
    with pytest.raises(InputError, match="no ratings to learn from"):
        FBALF().configured(data.catalogue._replace(scale=(1.0, 1.0)))


def test_rounds_count_passes_and_devices_take_turns(data: Interactions) -> None:
    assert FBALF(style="batch", rounds=9).default_rounds(data.catalogue) == 9
    stochastic = FBALF(style="stochastic", rounds=9)
    assert (
        stochastic.default_rounds(data.catalogue)
        == 9 * USERS
        == 9 * stochastic.rounds_an_epoch(data.catalogue)
    )
    start = Rounds(stochastic, data).start()
    steps = (start.server._replace(step=np.array([n])) for n in range(USERS + 2))
    turns = [int(stochastic.select(server, data.catalogue, key(0))[0]) for server in steps]
    assert turns == [*range(USERS), 0, 1]


@pytest.mark.parametrize("style", ["batch", "stochastic"])
def test_devices_receive_keep_and_send_what_is_declared(style: str, data: Interactions) -> None:
    algorithm = FBALF(**{**BASE, "style": style})
    contract = within_contract(algorithm, data, 2 * USERS if style == "stochastic" else 2)
    assert contract.cohort == (1 if style == "stochastic" else USERS)
    assert contract.most_bytes == ITEMS * (4 + 4 * 4)
    assert (
        contract.declaration.traits.predicts_ratings
        and not contract.declaration.traits.draws_negatives
    )
