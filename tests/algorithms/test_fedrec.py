"""FedRec against its formulas in plain Python, finite differences of its loss, and its own other
ways of computing the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from plain_python import printed_both_ways
from small_data import few_ratings
from within_contract import within_contract

from entrenous.core.contract.update import add_update, empty_total, real
from entrenous.core.errors import InputError, NonFiniteError
from entrenous.core.keys import key
from entrenous.data.interactions import Interactions
from entrenous.federation.rounds import Rounds, Training
from entrenous.privacy.decoys import Mixed, with_decoys
from entrenous.systems.fedrec import FedRec, Filling, fill

USERS, ITEMS = 7, 12
EVERYONE = np.arange(USERS)
BASE: dict[str, Any] = {
    "factors": 3,
    "rho": 1.0,
    "filling": "hybrid",
    "predict_after": 1,
    "local_iterations": 2,
    "reg": 0.02,
}
BATCH = {**BASE, "style": "batch", "learning_rate": 0.5, "decay": 0.9}
STOCHASTIC = {**BASE, "style": "stochastic", "learning_rate": 0.05, "decay": 0.9}


@pytest.fixture
def data() -> Interactions:
    return few_ratings(USERS, ITEMS)


def stored(training: Training) -> list[bytes]:
    return [array.tobytes() for array in (*training.server, *training.devices)] + [
        repr(training.ledger).encode()
    ]


def decoys(fedrec: FedRec, training: Training, data: Interactions) -> Mixed:
    """The rows of every device, in rounds that do not redraw."""
    return with_decoys(data.histories(EVERYONE), fedrec.rho, training.devices.key, ITEMS)


def test_average_filling_is_the_mean_of_the_users_ratings() -> None:
    mixed = Mixed(
        np.array([0, 4]),
        np.array([0, 2, 5, 7], np.int32),
        np.array([5, 0, 2, 0], np.float32),
        np.array([True, False, True, False]),
    )
    v, u = np.zeros((8, 3), np.float32), np.zeros((1, 3), np.float32)
    average = Filling(False, 2, np.float32(0.1), np.float32(0.5), False)
    assert fill(mixed, v, u, average).value.tolist() == [5, 3.5, 2, 3.5]


@pytest.mark.parametrize("each", [False, True])
def test_predicted_filling_trains_a_temporary_vector_on_rated_items(each: bool) -> None:
    """With SVD++'s implicit part, which does not move; two steps in plain float64."""
    rng = np.random.default_rng(3)
    mixed = Mixed(
        np.array([0, 5]),
        np.arange(5, dtype=np.int32),
        rng.random(5).astype(np.float32),
        np.array([1, 0, 1, 1, 0], bool),
    )
    v, p = rng.normal(size=(5, 2)).astype(np.float32), rng.normal(size=(1, 2)).astype(np.float32)
    o = rng.normal(size=(5, 2)).astype(np.float32)
    known = v @ o[[0, 2, 3]].sum(axis=0) / np.sqrt(3)
    value = fill(
        mixed, np.hstack([v, o]), p, Filling(True, 2, np.float32(0.1), np.float32(0.5), each)
    ).value
    x = p[0].astype(float)
    for _ in range(2):
        at = []
        for r in (0, 2, 3):
            e = mixed.value[r] - known[r] - x @ v[r]
            slope = 0.5 * x - e * v[r]
            if each:
                x = x - 0.1 * slope
            at.append(slope)
        if not each:
            x = x - 0.1 * np.mean(at, axis=0)
    expected = np.where(mixed.rated, mixed.value, known + v @ x)
    assert np.allclose(value, expected, atol=1e-5)
    frozen = fill(
        mixed, np.hstack([v, o]), p, Filling(True, 0, np.float32(0.1), np.float32(0), each)
    ).value
    assert np.allclose(frozen[[1, 4]], (known + v @ p[0])[[1, 4]], atol=1e-6)


def test_batch_rounds_are_the_papers(data: Interactions) -> None:
    """Three rounds in float64: averages in the first, predictions of a temporary U' after it; the
    server's mean takes decoys in.
    """
    fedrec = FedRec(**BATCH)
    rounds = Rounds(fedrec, data)
    start = rounds.start()
    v, u, rows = (
        start.server.v.astype(float),
        start.devices.u.astype(float),
        decoys(fedrec, start, data),
    )
    assert not rows.rated.all()
    for t in range(3):
        rate, total, count = 0.5 * 0.9**t, np.zeros_like(v), np.zeros(ITEMS)
        for d in EVERYONE:
            part = slice(rows.ptr[d], rows.ptr[d + 1])
            item, rated, r = rows.item[part], rows.rated[part], rows.value[part].astype(float)
            own, x = item[rated], u[d].copy()
            for _ in range(2):
                x -= rate * np.mean(
                    [0.02 * x - (a - x @ v[i]) * v[i] for i, a in zip(own, r[rated], strict=True)],
                    axis=0,
                )
            r[~rated] = v[item[~rated]] @ x if t >= 1 else r[rated].mean()
            e = r - v[item] @ u[d]
            total[item] += 0.02 * v[item] - e[:, None] * u[d]
            count[item] += 1
            u[d] -= rate * (0.02 * u[d] - e[:, None] * v[item]).mean(axis=0)
        seen = count > 0
        v[seen] -= rate * total[seen] / count[seen, None]
    after = rounds.advance(rounds.start(), 3)
    assert np.allclose(after.server.v, v, atol=2e-4) and np.allclose(after.devices.u, u, atol=2e-4)
    assert after.server.step.tolist() == [3]
    assert after.ledger.rows_up == 3 * len(rows.item)


def test_what_is_sent_is_the_gradient_of_the_loss(data: Interactions) -> None:
    """1/2 e^2 + lambda / 2 |V_i|^2 by finite differences, at values that are not tiny."""
    fedrec = FedRec(**{**BATCH, "rho": 0.0, "learning_rate": 1.0})
    rng, rounds = np.random.default_rng(1), Rounds(fedrec, data)
    start = rounds.start()
    v, u = (
        rng.normal(size=(ITEMS, 3)).astype(np.float32),
        rng.normal(size=(USERS, 3)).astype(np.float32),
    )
    history = data.histories(EVERYONE)
    after, update = fedrec.local(
        start.server._replace(v=v), start.devices._replace(u=u), history, EVERYONE, key(1)
    )
    owner = np.repeat(EVERYONE, np.diff(history.ptr))

    def loss(u: Any, v: Any, rows: slice = slice(None)) -> float:
        who, what = owner[rows], history.item[rows]
        e = history.value[rows] - (u[who] * v[what]).sum(axis=1)
        return float(
            (e**2 + 0.02 * (u[who] ** 2).sum(axis=1) + 0.02 * (v[what] ** 2).sum(axis=1)).sum() / 2
        )

    for r in (0, len(owner) // 2):
        for f in range(3):
            bump = np.zeros((ITEMS, 3))
            bump[history.item[r], f] = 1e-5
            one = slice(r, r + 1)
            slope = (loss(u, v + bump, one) - loss(u, v - bump, one)) / 2e-5
            assert update.rows["v"][r, f] == pytest.approx(slope, rel=1e-3, abs=1e-3)
    d = 2
    bump = np.zeros((USERS, 3))
    bump[d, 1] = 1e-5
    own = slice(history.ptr[d], history.ptr[d + 1])
    slope = (loss(u + bump, v, own) - loss(u - bump, v, own)) / 2e-5 / (own.stop - own.start)
    assert u[d, 1] - after.u[d, 1] == pytest.approx(slope, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("model", ["pmf", "svd++"])
def test_stochastic_rounds_are_plain_sgd_device_by_device(model: str, data: Interactions) -> None:
    """Two passes in float64. U moves after each item; grad V takes the U before; every O_k of the
    device moves after each item.
    """
    fedrec = FedRec(**{**STOCHASTIC, "model": model, "local_iterations": 1})
    rounds = Rounds(fedrec, data)
    start, wide = rounds.start(), model == "svd++"
    table, u, rows = (
        start.server.v.astype(float),
        start.devices.u.astype(float),
        decoys(fedrec, start, data),
    )
    assert table.shape == (ITEMS, 6 if wide else 3)
    v, o = table[:, :3], table[:, 3:] if wide else np.zeros((ITEMS, 3))
    for t in range(2):
        rate = 0.05 * 0.9**t
        for d in EVERYONE:
            part = slice(rows.ptr[d], rows.ptr[d + 1])
            item, rated, r = rows.item[part], rows.rated[part], rows.value[part].astype(float)
            own, root = item[rated], np.sqrt(rated.sum())
            y, x = o[own].sum(axis=0) / root, u[d].copy()
            for i, a in zip(own, r[rated], strict=True):
                x -= rate * (0.02 * x - (a - (x + y) @ v[i]) * v[i])
            r[~rated] = v[item[~rated]] @ (x + y) if t >= 1 else r[rated].mean()
            for i, a in zip(item, r, strict=True):
                y, before, v_i = o[own].sum(axis=0) / root, u[d].copy(), v[i].copy()
                e = a - (before + y) @ v_i
                v[i] -= rate * (0.02 * v_i - e * (before + y))
                u[d] -= rate * (0.02 * before - e * v_i)
                if wide:
                    o[own] -= rate * (0.02 * o[own] - e * v_i / root)
    after = rounds.advance(rounds.start(), 2 * USERS)
    assert np.allclose(after.devices.u, u, atol=1e-4) and np.allclose(
        after.server.v, table, atol=1e-4
    )
    everyone = data.histories(EVERYONE)
    y = np.array(
        [
            o[data.item[data.user == d]].sum(axis=0) / np.sqrt(max(1, (data.user == d).sum()))
            for d in EVERYONE
        ]
    )
    assert np.allclose(
        fedrec.score(after.server, after.devices, everyone), (u + y) @ v.T, atol=1e-3
    )


@pytest.mark.parametrize(
    "change", [{}, {"model": "svd++"}, {"redraw": True}, {"filling": "average"}, {"rho": 0.0}]
)
def test_a_run_of_one_device_rounds_has_the_bits_of_plain_rounds(
    change: dict, data: Interactions
) -> None:
    """Stopping in the middle of a pass included."""
    rounds = Rounds(FedRec(**{**STOCHASTIC, **change}), data, seed=2)
    fast = rounds.advance(rounds.advance(rounds.start(), 5), 3 * USERS + 2)
    slow = rounds.start()
    for _ in range(3 * USERS + 2):
        slow = rounds.one_round(slow)
    assert stored(fast) == stored(slow)


PROGRAM = """
import hashlib, sys
import tests.algorithms.test_fedrec as here
from entrenous.systems.fedmf_ratings import FedMFRatings
from entrenous.systems.fedrec_pp import FedRecPP
systems = {
    here.FedRec(**here.BATCH): 3,
    here.FedRec(**{**here.STOCHASTIC, "model": "svd++"}): 2 * here.USERS,
    FedRecPP(**here.BATCH, denoisers=2.0, pads=True): 3,
    FedMFRatings(factors=3, learning_rate=0.1, reg=0.05, step="mean", send="part", init_std=0.3): 3,
}
found = hashlib.sha256()
for system, until in systems.items():
    rounds = here.Rounds(system, here.few_ratings(here.USERS, here.ITEMS), seed=1)
    found.update(b"".join(here.stored(rounds.advance(rounds.start(), until))))
print(found.hexdigest())
"""


def test_the_same_bits_without_compiling() -> None:
    """FedRec, and those whose kernels are like it."""
    assert len(printed_both_ways(PROGRAM)) == 64


def test_decoys_stay_the_same_unless_redrawn(data: Interactions) -> None:
    for redraw in (False, True):
        fedrec = FedRec(**{**BATCH, "redraw": redraw})
        start = Rounds(fedrec, data).start()
        sent = [
            fedrec.local(
                start.server,
                start.devices,
                data.histories(EVERYONE),
                EVERYONE,
                key(0, "round", number),
            )[1].item
            for number in range(2)
        ]
        assert (sent[0].tolist() == sent[1].tolist()) is not redraw


def test_rows_are_rated_items_and_decoys(data: Interactions) -> None:
    fedrec = FedRec(**{**BATCH, "rho": 0.5})
    start = Rounds(fedrec, data).start()
    update = fedrec.local(start.server, start.devices, data.histories(EVERYONE), EVERYONE, key(1))[
        1
    ]
    for d in EVERYONE:
        own = set(data.item[data.user == d].tolist())
        sent = update.item[update.ptr[d] : update.ptr[d + 1]].tolist()
        assert own <= set(sent) and len(sent) == len(own) + min(len(own) // 2, ITEMS - len(own))
    assert np.allclose(
        real(add_update(empty_total(update, ITEMS), update).rows["v"]).sum(axis=0),
        update.rows["v"].sum(axis=0),
        atol=1e-3,
    )


def test_training_fits_the_ratings(data: Interactions) -> None:
    fedrec = FedRec(
        **{**BATCH, "factors": 4, "decay": 1.0, "rho": 0.0, "reg": 0.001, "learning_rate": 0.1}
    )
    rounds = Rounds(fedrec, data)

    def rmse(training: Training) -> float:
        scores = fedrec.score(training.server, training.devices, data.histories(EVERYONE))
        return float(np.sqrt(((scores[data.user, data.item] - data.value) ** 2).mean()))

    assert (
        rmse(rounds.advance(rounds.start(), 300))
        < 0.5 * data.value.std()
        < 0.5 * rmse(rounds.start())
    )


def test_what_does_not_go_together_is_refused(data: Interactions) -> None:
    with pytest.raises(InputError, match=r"style=stochastic with model=svd\+\+"):
        FedRec.parse({"model": "svd++", "style": "batch"})
    with pytest.raises(InputError, match="no ratings to learn from"):
        FedRec().configured(data.catalogue._replace(scale=(1.0, 1.0)))


@pytest.mark.parametrize("style", ["batch", "stochastic"])
def test_a_rate_that_is_too_high_is_refused_by_name(style: str, data: Interactions) -> None:
    rounds = Rounds(FedRec(**{**BASE, "style": style, "learning_rate": 10.0, "decay": 1.0}), data)
    with pytest.raises(NonFiniteError, match="the model is unchanged"):
        rounds.advance(rounds.start(), 100 * USERS)


def test_rounds_count_passes(data: Interactions) -> None:
    assert FedRec(style="batch", rounds=9).default_rounds(data.catalogue) == 9
    stochastic = FedRec(style="stochastic", rounds=9)
    assert (
        stochastic.default_rounds(data.catalogue)
        == 9 * USERS
        == 9 * stochastic.rounds_an_epoch(data.catalogue)
    )
    start = Rounds(stochastic, data).start()
    turns = [
        int(stochastic.select(start.server._replace(step=np.array([n])), data.catalogue, key(0))[0])
        for n in range(USERS + 2)
    ]
    assert turns == [*range(USERS), 0, 1]


@pytest.mark.parametrize(
    "settings",
    [BATCH, STOCHASTIC, {**STOCHASTIC, "model": "svd++"}, {**BATCH, "rho": 0.0, "redraw": True}],
)
def test_devices_receive_keep_and_send_what_is_declared(
    settings: dict[str, Any], data: Interactions
) -> None:
    fedrec, stochastic = FedRec(**settings), settings["style"] == "stochastic"
    contract = within_contract(fedrec, data, 2 * USERS if stochastic else 2)
    assert contract.cohort == (1 if stochastic else USERS)
    assert contract.most_bytes == ITEMS * (4 + 4 * fedrec.width)
    assert (
        contract.declaration.traits.predicts_ratings
        and not contract.declaration.traits.draws_negatives
    )
