"""FedMF and FedNCF: federated averaging by the names of the field, and the field's protocol."""

from __future__ import annotations

import numpy as np
import pytest
from entrenous_field import fedncf
from small_federations import SMALL, same, sent, shop, started

from entrenous.core.contract.protocols import Catalogue
from entrenous.core.keys import key
from entrenous.data.interactions import Interactions
from entrenous.kernels import ncf
from entrenous.privacy.lengths import usual_limits
from entrenous.privacy.protection import PRIVATE
from entrenous.runs import plan
from entrenous.runs.conformance import conform
from entrenous.runs.options import RunPlan
from entrenous.systems import fedavg
from entrenous.systems._federated_ncf import data_of, one_network
from entrenous.systems.named import maker_of

TWINS = {"fedmf": "fedavg-gmf", "fedncf": "fedavg-neumf", "fedncf-mlp": "fedavg-mlp"}
PRINTED = ["fedmf-printed", "fedncf-printed"]


def test_private_brings_what_was_tested_with_it() -> None:
    """A set that was tested with more than eight factors says nothing of fewer; the printed systems
    have none.
    """
    whole = RunPlan(algorithm="fedncf", profile=PRIVATE)
    limits = plan.in_words(usual_limits("fedncf", 900))
    brings = f"private brings: factors 16, rounds 40, cohort 900, {limits}"
    assert plan.brought(whole, 900) == [brings]
    assert plan.tested("fedmf", 900)
    assert not any(plan.tested(name, 900) for name in PRINTED)


@pytest.fixture(scope="module")
def data() -> Interactions:
    return shop()


@pytest.mark.parametrize(("name", "twin"), TWINS.items())
def test_the_fields_name_gives_the_models_of_federated_averaging(
    name: str, twin: str, data: Interactions
) -> None:
    ours, theirs = maker_of(name)(), maker_of(twin)()
    assert ours.aggregation == "on"
    assert isinstance(ours, fedncf.FedNCF) and isinstance(theirs, fedavg.FedAvg)
    assert {**dict(theirs), **dict(ours)} == dict(ours)
    users = np.array([1, 4, 5])
    models = []
    for one in (ours, theirs):
        server, devices = started(one, data)
        private, update, total = sent(one, server, devices, data, users)
        models.append((one.aggregate(server, total), private, update.rows, update.dense))
    (a, of_a, rows_a, dense_a), (b, of_b, rows_b, dense_b) = models
    assert same(a.item, b.item) and same(a.network, b.network) and same(of_a.user, of_b.user)
    assert same(rows_a["item"], rows_b["item"]) and same(dense_a["network"], dense_b["network"])


@pytest.mark.parametrize("name", PRINTED)
def test_as_printed_it_has_the_protocol_of_the_field(name: str) -> None:
    made = maker_of(name)()
    whole = Catalogue(users=943, items=1682, interactions=100_000, scale=None)
    assert made.shape.row == 32 and made.negatives == 4 and made.batch == 256
    assert made.default_rounds(whole) == 100 and made.devices_of(whole) == 943
    assert made.server_rate_item == 1 and made.optimiser == "adam" and made.local_epochs == 1


ALONE = {**SMALL, "aggregation": "off"}


def test_without_aggregation_nothing_leaves_and_each_device_goes_on_alone(
    data: Interactions,
) -> None:
    """Two rounds of a device are two trainings of its whole model, one after the other, in plain
    arrays.
    """
    alone, user = fedncf.FedNCF(**ALONE), np.array([3])
    server, devices = started(alone, data)
    histories = data.histories(user)
    own = type(devices)(devices.user[user], devices.own_network[user], devices.own_item[user])
    item, network, vector = server.item.copy(), server.network.copy(), own.user
    for number in range(2):
        own, update = alone.local(server, own, histories, user, key(0, number))
        assert update.nbytes == 0 and not update.dense and update.weight.tolist() == [1]
        told = data_of(histories, user, key(0, number))
        learnt = ncf.train(alone.shape, alone.rates(), vector, item, network, one_network(1), told)
        item[learnt.item] += learnt.row
        network += learnt.network
        vector = learnt.user
    assert same(own.user, vector)
    assert np.allclose(own.own_item.over(server.item, 0), item, atol=1e-6)
    assert np.allclose(server.network + own.own_network, network, atol=1e-6)
    expected = ncf.scores(alone.shape, vector, item, network, one_network(1))
    assert np.allclose(alone.score(server, own, histories), expected, atol=1e-5)


@pytest.mark.parametrize("aggregation", ["on", "off"])
def test_it_conforms(aggregation: str) -> None:
    conform(fedncf.FedNCF(**{**SMALL, "aggregation": aggregation}))
