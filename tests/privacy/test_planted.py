"""A server that designs the model reads nobody out of an honest sum under `private`.

All devices see the same model, and the sum of 300 people carries the noise of `private`; the model
is made so that one person's numbers stand out. Each attack is tried twice: without the bound on the
device it reads that person's history, with it it finds no more than a list of popular items.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from entrenous.core.contract.declared import bound, followed
from entrenous.core.keys import key
from entrenous.core.types import Array
from entrenous.data.interactions import Interactions
from entrenous.data.synthetic import synthetic
from entrenous.federation.shard import Shard
from entrenous.privacy.protection import PRIVATE, Protection, protection_of
from entrenous.runs.options import RunPlan
from entrenous.runs.plan import make, with_set
from entrenous.systems.fcf import FCFModel

PEOPLE = 300
ITEMS = 1_600
# The lead of the attack over popularity that the bound may leave.
MOST = 0.02
# What one answer tells without the bound.
READ = 0.7
# Numbers that a model may have, and that lead a private vector far away.
HUGE = 300.0
CERTAIN = 30_000.0


FREE: dict[str, Any] = {"clip": 0, "multiple": None, "noise": 3.0}


@pytest.fixture(scope="module")
def rows() -> Interactions:
    return synthetic(users=PEOPLE, items=ITEMS, interactions=30_000, seed=3)


def private(name: str, rows: Interactions, **changed: Any) -> tuple[Any, Protection]:
    """The algorithm and the protection of `private`, with the settings that it brings."""
    asked = RunPlan(algorithm=name, profile=PRIVATE, protect={"noise_by": "server"})
    plan = with_set(asked, len(rows.users))
    algorithm = make(plan, rows).configured(rows.catalogue)
    protect = {**plan.protect, **changed}
    return algorithm, protection_of(PRIVATE, protect, algorithm.traits)


def summed(shard: Shard, download: Any, devices: Any, name: str) -> Array:
    """The sum of everybody's message with its noise, as the server sees it: one row an item."""
    users = np.arange(PEOPLE)
    total, _ = shard.work(download, devices, users, key(0, "round"))
    total = shard.protected.on_sum(total, key(0, "round"))
    table = total.rows.get(name)
    if table is None:
        table = total.dense[name][0]
    return np.asarray(table, np.float64) / 2**16


def precision(scores: Array, history: Array) -> float:
    """R-precision of a history in a ranking."""
    named = np.argsort(-scores, kind="stable")[: len(history)]
    return float(np.isin(named, history).mean())


def popularity(rows: Interactions, history: Array) -> float:
    """R-precision of the most popular items for the same person."""
    counts = np.bincount(rows.item, minlength=ITEMS).astype(np.float64)
    return precision(counts, history)


def lone_buyers(rows: Interactions) -> list[tuple[int, int]]:
    """People with an item that few others have: each with the rarest of their items."""
    counts = np.bincount(rows.item, minlength=ITEMS)
    pairs = []
    for user in range(PEOPLE):
        history = rows.histories(np.array([user])).item
        rarest = int(history[np.argmin(counts[history])])
        pairs.append((int(counts[rarest]), user, rarest))
    return [(user, item) for _, user, item in sorted(pairs)[:12]]


def trap(algorithm: Any, item: int) -> Array:
    """Item factors of which all are 0 but one item's: who does not have the item answers 0."""
    y = np.zeros((ITEMS, algorithm.factors), np.float32)
    confidence = 1 + algorithm.alpha
    # The length at which x_u of a buyer is longest.
    y[item, 0] = np.sqrt(algorithm.reg / confidence)
    return y


@pytest.mark.parametrize("bounded", [False, True])
def test_a_model_planted_for_the_buyers_of_one_item(
    rows: Interactions, bounded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    algorithm, protection = private("fcf", rows, **({} if bounded else FREE))
    if not bounded:
        # The matrix of a server that makes a buyer's x_u as long as it likes.
        def believed(self: Any, download: Any) -> FCFModel:
            gram = np.zeros((algorithm.factors, algorithm.factors))
            gram[0, 0] = 1 - algorithm.reg - algorithm.alpha * float(download.y.max()) ** 2
            return FCFModel(download.y, gram)

        monkeypatch.setattr(type(algorithm), "follow", believed)
    shard = Shard(algorithm, rows.catalogue, rows, np.arange(PEOPLE), protection=protection)
    found, popular = [], []
    for user, item in lone_buyers(rows):
        download = algorithm.download(
            algorithm.init_server(rows.catalogue, key(0, "server"))._replace(
                y=trap(algorithm, item)
            )
        )
        sums = summed(shard, download, shard.init_devices(key(0, "devices")), "f")
        history = rows.histories(np.array([user])).item
        found.append(precision(sums[:, 0], history))
        popular.append(popularity(rows, history))
    if bounded:
        assert np.mean(found) <= np.mean(popular) + MOST
    else:
        assert np.mean(found) > READ


@pytest.mark.parametrize("bounded", [False, True])
def test_vectors_that_models_have_led_away(rows: Interactions, bounded: bool) -> None:
    algorithm, protection = private("pfpl+", rows, **({} if bounded else FREE))
    shard = Shard(algorithm, rows.catalogue, rows, np.arange(PEOPLE), protection=protection)
    contract = bound(algorithm, rows.catalogue)
    server = algorithm.init_server(rows.catalogue, key(0, "server"))
    nothing = algorithm.download(server)._replace(
        q=np.zeros((ITEMS, algorithm.factors), np.float32), b=np.zeros(ITEMS, np.float32)
    )
    # Each triple of an even item and an odd one moves p_u by the same step, and no other does.
    led = nothing._replace(q=nothing.q.copy(), b=nothing.b.copy())
    led.q[::2, 0] = HUGE
    led.b[::2] = -CERTAIN
    found, popular = [], []
    for user in range(0, PEOPLE, 25):
        alone = np.array([user])
        devices = shard.init_devices(key(0, "devices"))
        history = rows.histories(alone).item
        # The person is the only one who was in all earlier sums, whose models led p_u away.
        for number in range(3):
            own = type(devices)(*(array[alone] for array in devices))
            received = followed(algorithm, contract.delivered(led, alone))
            histories = rows.histories(alone)
            own, _ = algorithm.local(received, own, histories, alone, key(1, "round", number))
            devices.p[alone] = own.p
        sums = summed(shard, nothing, devices, "q")
        found.append(precision(np.sign(devices.p[user, 0]) * sums[:, 0], history))
        popular.append(popularity(rows, history))
    if bounded:
        assert np.mean(found) <= np.mean(popular) + MOST
    else:
        assert np.mean(found) > READ
