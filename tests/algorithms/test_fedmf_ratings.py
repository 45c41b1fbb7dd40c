"""FedMF against the paper's formulas, by both ways of sending."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_data import few_ratings

from entrenous.core.contract.item_features import ItemFeatures
from entrenous.core.contract.update import Update
from entrenous.core.errors import InputError, NonFiniteError
from entrenous.core.keys import key
from entrenous.data.interactions import Interactions
from entrenous.federation.rounds import Rounds, Training
from entrenous.federation.shard import Threads
from entrenous.systems.fedmf_ratings import FedMFRatings

USERS, ITEMS = 7, 12
EVERYONE = np.arange(USERS)
PUBLISHED: dict[str, Any] = {
    "factors": 3,
    "learning_rate": 0.01,
    "reg": 0.05,
    "step": "sum",
    "init": 0.01,
    "init_std": 0.3,
}
MEANS: dict[str, Any] = {**PUBLISHED, "learning_rate": 0.1, "step": "mean"}


@pytest.fixture
def data() -> Interactions:
    return few_ratings(USERS, ITEMS)


def unchanged(update: Update, keys: Any) -> Update:
    """A limit that does nothing, but keeps the algorithm from adding up by itself."""
    return update


def stored(training: Training) -> list[bytes]:
    return [array.tobytes() for array in (*training.server, *training.devices)] + [
        repr(training.ledger).encode()
    ]


@pytest.mark.parametrize("settings", [PUBLISHED, MEANS])
@pytest.mark.parametrize("send", ["part", "full"])
def test_rounds_are_the_papers(settings: dict, send: str, data: Interactions) -> None:
    fedmf = FedMFRatings(**settings, send=send)
    rounds = Rounds(fedmf, data)
    start, rate, mean = rounds.start(), settings["learning_rate"], settings["step"] == "mean"
    u, v = start.devices.u.astype(float), start.server.v.astype(float)
    for _ in range(4):
        sums, raters = np.zeros_like(v), np.zeros(ITEMS)
        for i in EVERYONE:
            j, r = data.item[data.user == i], data.value[data.user == i].astype(float)
            slope = (-2 * v[j] * (r - v[j] @ u[i])[:, None] + 2 * 0.05 * u[i]).sum(axis=0)
            u[i] -= rate * slope / (len(j) if mean else 1)
            sums[j] += -2 * u[i] * (r - v[j] @ u[i])[:, None] + 2 * 0.05 * v[j]  # with the new u_i
            raters[j] += 1
        v -= rate * sums / (np.maximum(raters, 1)[:, None] if mean else 1)
    after = rounds.advance(rounds.start(), 4)
    assert np.allclose(after.devices.u, u, atol=2e-4) and np.allclose(after.server.v, v, atol=2e-4)
    assert np.allclose(
        fedmf.score(after.server, after.devices, data.histories(EVERYONE)), u @ v.T, atol=2e-3
    )


def test_gradients_are_those_of_the_squared_errors(data: Interactions) -> None:
    """By finite differences of sum e^2 + lambda (|u|^2 + |v|^2) for each rating, in u at the old
    and in v at the new u.
    """
    fedmf, history = (
        FedMFRatings(**{**PUBLISHED, "learning_rate": 1.0}, send="part"),
        data.histories(EVERYONE),
    )
    start = Rounds(fedmf, data).start()
    v, old = start.server.v.astype(float), start.devices.u.astype(float)
    after, update = fedmf.local(start.server, start.devices, history, EVERYONE, key(1))
    new = after.u.astype(float)

    def loss(u: Any, v: Any) -> float:
        e = data.value - (u[data.user] * v[data.item]).sum(axis=1)
        return float(
            (
                e**2
                + 0.05 * (u[data.user] ** 2).sum(axis=1)
                + 0.05 * (v[data.item] ** 2).sum(axis=1)
            ).sum()
        )

    summed = np.zeros((ITEMS, 3))
    np.add.at(summed, update.item, update.rows["v"].astype(float))
    for row, f in ((0, 0), (3, 2), (6, 1)):
        bump_u, bump_v = np.zeros((USERS, 3)), np.zeros((ITEMS, 3))
        bump_u[row, f] = bump_v[row, f] = 1e-6
        slope = (loss(old + bump_u, v) - loss(old - bump_u, v)) / 2e-6
        assert old[row, f] - new[row, f] == pytest.approx(slope, rel=1e-3, abs=1e-3)
        slope = (loss(new, v + bump_v) - loss(new, v - bump_v)) / 2e-6
        assert summed[row, f] == pytest.approx(slope, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("settings", [PUBLISHED, MEANS])
@pytest.mark.parametrize("send", ["part", "full"])
def test_adding_up_on_the_way_gives_the_same_bits_and_bytes(
    settings: dict, send: str, data: Interactions
) -> None:
    """With a limit on updates every one is made in full and added; without, zeros are left out. So
    it is on threads.
    """
    fedmf = FedMFRatings(**settings, send=send)
    ways = [
        Rounds(fedmf, data),
        Rounds(fedmf, data, limits=[unchanged], block=3),
        Rounds(fedmf, data, executor=Threads(2), block=2),
    ]
    first, *others = [stored(rounds.advance(rounds.start(), 5)) for rounds in ways]
    assert all(other == first for other in others)


def test_full_and_part_learn_the_same_and_differ_in_what_they_send(data: Interactions) -> None:
    part, full = (Rounds(FedMFRatings(**MEANS, send=send), data) for send in ("part", "full"))
    one, other = part.advance(part.start(), 5), full.advance(full.start(), 5)
    assert stored(one)[:2] == stored(other)[:2]
    assert (
        one.ledger.bytes_up == 5 * len(data) * (4 + 4 * 4)
        and other.ledger.bytes_up == 5 * USERS * ITEMS * 4 * 4
    )
    assert (one.ledger.rows_up, other.ledger.rows_up) == (5 * len(data), 0)


def test_in_full_every_item_is_sent_and_the_others_rows_are_zero(data: Interactions) -> None:
    fedmf = FedMFRatings(**PUBLISHED, send="full")
    start = Rounds(fedmf, data).start()
    update = fedmf.local(start.server, start.devices, data.histories(EVERYONE), EVERYONE, key(1))[1]
    has = np.zeros((USERS, ITEMS), bool)
    has[data.user, data.item] = True
    assert update.dense["v"].shape == (USERS, ITEMS, 3) and len(update.item) == 0
    assert (update.dense["v"].any(axis=2) == has).all()


def test_factors_that_start_alike_stay_alike(data: Interactions) -> None:
    """What the published start, 0.01 everywhere, comes to: one factor."""
    rounds = Rounds(FedMFRatings(**{**PUBLISHED, "init_std": 0.0}, send="full"), data)
    start, after = rounds.start(), rounds.advance(rounds.start(), 50)
    assert (start.server.v == np.float32(0.01)).all() and (
        start.devices.u == np.float32(0.01)
    ).all()
    assert (after.server.v == after.server.v[:, :1]).all() and (
        after.devices.u == after.devices.u[:, :1]
    ).all()
    assert np.abs(after.server.v - start.server.v).max() > 0.1


@pytest.mark.parametrize("settings", [PUBLISHED, MEANS])
def test_training_fits_the_ratings(settings: dict, data: Interactions) -> None:
    fedmf = FedMFRatings(**{**settings, "reg": 0.0}, send="full")
    rounds = Rounds(fedmf, data)
    after = rounds.advance(rounds.start(), 500)
    scores = fedmf.score(after.server, after.devices, data.histories(EVERYONE))
    assert (
        np.sqrt(((scores[data.user, data.item] - data.value) ** 2).mean()) < 0.5 * data.value.std()
    )


def test_what_cannot_be_learnt_is_refused(data: Interactions) -> None:
    with pytest.raises(InputError, match="no ratings to learn from"):
        FedMFRatings().configured(data.catalogue._replace(scale=(1.0, 1.0)))
    rounds = Rounds(FedMFRatings(**{**PUBLISHED, "learning_rate": 5.0}, send="full"), data)
    with pytest.raises(NonFiniteError, match="the model is unchanged"):
        rounds.advance(rounds.start(), 100)


def test_features_of_items_change_nothing(data: Interactions) -> None:
    """As MovieLens has them: compiled code receives arrays alone."""
    rounds = Rounds(FedMFRatings(**MEANS, send="part"), data)
    start, history = rounds.start(), data.histories(EVERYONE)
    assert history.features is None
    known = history._replace(features=ItemFeatures({"genre": np.full(len(data.items), "a|b")}))
    sent = [
        rounds.algorithm.local(start.server, start.devices, one, EVERYONE, key(1))[1].rows["v"]
        for one in (history, known)
    ]
    assert sent[0].tobytes() == sent[1].tobytes()
