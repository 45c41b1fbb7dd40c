"""FedAvg over networks: the mean by n_k in plain float64; the settings that all federated networks
share.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_federations import SMALL, same, sent, shop, started

from entrenous.core.contract.declared import bound
from entrenous.core.contract.protocols import Catalogue
from entrenous.core.errors import InputError
from entrenous.data.interactions import Interactions
from entrenous.systems._federated_ncf import NCFSettings
from entrenous.systems.fedavg import FedAvg


@pytest.fixture(scope="module")
def data() -> Interactions:
    return shop()


@pytest.mark.parametrize("rate", [1.0, 3.0])
def test_the_server_averages_models_by_interactions(data: Interactions, rate: float) -> None:
    """sum_k (n_k / n) w_k over the round's devices: an item that a device did not touch counts as
    it was. Items go `rate` times as far.
    """
    algorithm, users = FedAvg(**SMALL, server_rate_item=rate), np.array([1, 4, 5, 20])
    server, devices = started(algorithm, data)
    private, update, total = sent(algorithm, server, devices, data, users)
    n_k = np.diff(data.ptr)[users].astype(float)
    assert len(set(n_k)) > 1 and same(update.weight, n_k.astype(np.float32))
    item, network = server.item.astype(float), server.network[0].astype(float)
    models = np.repeat(item[None], len(users), axis=0)
    for k in range(len(users)):
        for r in range(update.ptr[k], update.ptr[k + 1]):
            models[k, update.item[r]] += update.rows["item"][r] / n_k[k]
    after = algorithm.aggregate(server, total)
    mean = np.einsum("k,kif->if", n_k / n_k.sum(), models)
    assert np.allclose(after.item, item + rate * (mean - item), atol=2e-5 * rate)
    networks = network + update.dense["network"] / n_k[:, None]
    assert np.allclose(after.network[0], n_k / n_k.sum() @ networks, atol=2e-5)
    assert (private.user != devices.user[users]).any(axis=1).all()


# ---- settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "layers"),
    [("16,8", (16, 8)), ("", ()), ("5", (5,)), (" 4 , 3 ", (4, 3)), ((7, 2), (7, 2))],
)
def test_layers_are_lengths_with_commas(text: Any, layers: tuple[int, ...]) -> None:
    settings = FedAvg.parse({"layers": text})
    assert settings.layers == layers and FedAvg.parse(settings.model_dump()) == settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"factors": 0, "layers": ""}, "expected factors, layers or both"),
        ({"layers": "4,x"}, "--set layers: got 'x'; expected a valid integer"),
        ({"layers": "0"}, "--set layers: got '0'; expected greater than or equal to 1"),
        ({"optimiser": "adm"}, "--set optimiser: got 'adm'; expected 'sgd' or 'adam'"),
        ({"learning_rate": 0}, "--set learning_rate: got '0'; expected greater than 0"),
        ({"client": "gradient", "local_epochs": 2}, "with client=gradient, local_epochs=1"),
    ],
)
def test_settings_that_make_no_model(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as refused:
        FedAvg.parse(settings)
    assert message in str(refused.value) and "\n" not in str(refused.value)


def test_a_rate_for_each_part_or_one_for_all() -> None:
    one = FedAvg(**{**SMALL, "learning_rate": 0.5}).rates()
    assert (one.user, one.item, one.network, one.pull) == (0.5, 0.5, 0.5, 0)
    parts = FedAvg(
        **{**SMALL, "learning_rate": 0.5, "learning_rate_item": 2.0, "learning_rate_network": 0.0}
    ).rates(epochs=7)
    assert (parts.user, parts.item, parts.network, parts.epochs) == (0.5, 2.0, 0.0, 7)


def test_small_federations_say_every_setting() -> None:
    """So that a default may change without changing what the tests hold against it."""
    assert set(SMALL) == set(NCFSettings.model_fields)


def test_a_cohort_is_a_number_of_users() -> None:
    catalogue = Catalogue(10, 5, 30)
    assert [NCFSettings(cohort=m).configured(catalogue).cohort for m in (0, 3, 99)] == [10, 3, 10]
    usual = {
        users: NCFSettings().configured(Catalogue(users, 5, 30))
        for users in (10, 700, 1000, 1003, 9000)
    }
    assert {users: own.cohort for users, own in usual.items()} == {
        10: 10,
        700: 500,
        1000: 500,
        1003: 501,
        9000: 4500,
    }
    assert all(
        bound(FedAvg(), Catalogue(users, 5, 30)).cohort == own.cohort
        for users, own in usual.items()
    )
    assert FedAvg.parse({"cohort": -1}) == FedAvg()
    with pytest.raises(InputError, match="expected greater than or equal to -1"):
        FedAvg.parse({"cohort": -2})
