"""CoLR against its formulas: the basis, the device's steps, the sum; with r = F it is FedMF."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from entrenous_field.colr import CoLR, CoLRServer
from small_federations import same, shop, started

from entrenous.core.contract.update import add_update, empty_total
from entrenous.core.errors import InputError
from entrenous.core.keys import key
from entrenous.data.interactions import Interactions
from entrenous.federation.recorder import Recorder
from entrenous.federation.rounds import Rounds
from entrenous.kernels import ncf
from entrenous.privacy.protection import Protection
from entrenous.runs.conformance import conform
from entrenous.runs.plan import algorithm_of
from entrenous.systems._federated_ncf import GlobalNCF, data_of, one_network
from entrenous.systems.named import maker_of

F = 6
SMALL: dict[str, Any] = {"factors": F, "rank": 2, "learning_rate": 0.3, "init_std": 0.4}


@pytest.fixture(scope="module")
def data() -> Interactions:
    return shop()


def of_round(colr: CoLR, data: Interactions, users: np.ndarray) -> tuple[CoLRServer, Any, Any, Any]:
    """The server before a round, the devices after it, what they sent, and its sum."""
    server, devices = started(colr, data)
    own = type(devices)(devices.user[users])
    after, update = colr.local(
        colr.download(server), own, data.histories(users), users, key(3, "round")
    )
    total = add_update(empty_total(update, len(data.items)), update)
    return server, after, update, total


@pytest.mark.parametrize("rank", [1, 4, F])
def test_the_rows_of_the_basis_are_orthonormal_and_stretched(rank: int) -> None:
    basis = CoLR(factors=F, rank=rank).basis(key(1, "b")).astype(float)
    assert np.allclose(basis @ basis.T, F / rank * np.eye(rank), atol=1e-6)


def test_a_basis_is_new_in_each_round_and_follows_from_the_key(data: Interactions) -> None:
    colr = CoLR(**SMALL)
    users = np.array([0, 1])
    server, _, _, total = of_round(colr, data, users)
    again, _, _, _ = of_round(colr, data, users)
    after = colr.aggregate(server, total)
    assert same(server.basis, again.basis)
    assert np.abs(after.basis - server.basis).max() > 0.01
    assert same(after.basis, colr.aggregate(again, total).basis)


def test_the_server_divides_by_who_touched_an_item(data: Interactions) -> None:
    """Q + (sum A / c) B, in plain float64."""
    colr = CoLR(**SMALL)
    server, _, update, total = of_round(colr, data, np.array([1, 2, 7]))
    expected = server.item.astype(float)
    for i in np.unique(update.item):
        mean = update.rows["a"][update.item == i].astype(float).mean(0)
        expected[i] += mean @ server.basis.astype(float)
    assert len(np.unique(update.item)) < len(update.item)
    assert np.allclose(colr.aggregate(server, total).item, expected, atol=5e-5)


@pytest.mark.parametrize("reg", [0.0, 0.02])
def test_with_the_full_rank_a_device_takes_the_steps_of_fedmf(
    reg: float, data: Interactions
) -> None:
    """The same samples in batches of one: kernels/ncf.py with h = 1 and the network held still."""
    users = np.array([2, 5, 11])
    colr = CoLR(**{**SMALL, "rank": F, "batch": 1, "reg": reg})
    server, after, update, _ = of_round(colr, data, users)
    fedmf = maker_of("fedmf")(
        **{"factors": F, "batch": 1, "local_epochs": 2, "optimiser": "sgd", "reg": 2 * reg},
        learning_rate=0.3,
        learning_rate_item=0.3,
        learning_rate_network=0.0,
    )
    network = np.zeros((1, fedmf.shape.network), np.float32)
    network[0, fedmf.shape.head : fedmf.shape.head + F] = 1
    _, devices = started(colr, data)
    w = GlobalNCF(server.item, network)
    learnt = ncf.train(
        fedmf.shape,
        fedmf.rates(),
        devices.user[users],
        w.item,
        w.network,
        one_network(3),
        data_of(data.histories(users), users, key(3, "round")),
    )
    assert same(learnt.item, update.item) and same(learnt.ptr, update.ptr)
    assert np.allclose(update.rows["a"] @ server.basis, learnt.row, atol=2e-5)
    assert np.abs(learnt.row).max() > 0.05
    assert np.allclose(after.user, learnt.user, atol=2e-5)


def test_noise_on_counts_divides_by_no_less_than_the_least(data: Interactions) -> None:
    """The settings of `private`, and noise that makes counts negative."""
    recorder = Recorder("sum")
    colr = algorithm_of("colr", {"factors": 8, "rank": 2}, "private")
    assert isinstance(colr, CoLR) and colr.least == 30
    protection = Protection(noise=30.0, rows="all")
    rounds = Rounds(colr, data, recorder=recorder, protection=protection)
    start = rounds.start()
    after = rounds.advance(start, 1)
    seen = recorder.rounds[0].sent
    assert np.all(seen["senders"] == len(data.users)) and seen["count"].min() < 0
    mean = seen["a"] / np.maximum(seen["count"], 30)[:, None]
    step = mean @ start.server.basis.astype(float)
    assert np.allclose(after.server.item - start.server.item, step, atol=1e-4)


def test_the_presets_are_those_of_the_paper() -> None:
    printed = maker_of("colr-printed")()
    assert (printed.factors, printed.rank, printed.cohort, printed.rounds) == (64, 4, 120, 2000)
    assert (printed.learning_rate, printed.reg, printed.local_epochs) == (0.5, 5e-4, 2)
    with pytest.raises(InputError, match="rank at most factors; rank=9 is above factors=8"):
        CoLR.parse({"factors": 8, "rank": 9})


@pytest.mark.parametrize("rank", [1, 3])
def test_it_conforms(rank: int) -> None:
    conform(CoLR(**{**SMALL, "rank": rank, "batch": 7}))
