"""FedMF and FedNCF: federated averaging by the names of the field, and the field's protocol."""

from __future__ import annotations

import numpy as np
import pytest
from small_federations import same, sent, shop, started

from entrenous.core.contract.protocols import Catalogue
from entrenous.data.interactions import Interactions
from entrenous.systems import fedavg, fedncf
from entrenous.systems.named import maker_of

TWINS = {"fedmf": "fedavg-gmf", "fedncf": "fedavg-neumf", "fedncf-mlp": "fedavg-mlp"}
PRINTED = ["fedmf-printed", "fedncf-printed"]


@pytest.fixture(scope="module")
def data() -> Interactions:
    return shop()


@pytest.mark.parametrize(("name", "twin"), TWINS.items())
def test_the_fields_name_gives_the_models_of_federated_averaging(
    name: str, twin: str, data: Interactions
) -> None:
    ours, theirs = maker_of(name)(), maker_of(twin)()
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
    assert made.server_rate_item == 1 and made.optimiser == "sgd" and made.local_epochs == 1


def test_the_printed_fedncf_is_the_tower_of_the_field() -> None:
    """64 inputs, then 32, 16, 8 and the output."""
    made = maker_of("fedncf-printed")()
    assert (made.factors, made.layers) == (0, (32, 16, 8))
    assert dict(maker_of("fedmf-printed")())["layers"] == ()
