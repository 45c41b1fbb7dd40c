"""`conform`, in words: nobody at all, scores asked for twice, models of one key; and what of the
package is quick to train.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from mean_embedding import MeanEmbedding

from entrenous import Settings
from entrenous.core.contract.declared import ContractError
from entrenous.runs.conformance import conform
from entrenous.systems.named import maker_of

SETTINGS: dict[str, dict[str, Any]] = {
    "cali3f-gmf": {"clusters": 3},
    "fedfast-gmf": {"clusters": 3},
    "bpr-mf": {"epochs": 1},
}
QUICK = (
    "popular",
    "random",
    "item-knn",
    "user-knn",
    "bpr-mf",
    "fpl",
    "fcf",
    "fedmf-ratings",
    "fbalf",
    "fedavg-gmf",
    "cali3f-gmf",
    "fedfast-gmf",
)


@pytest.mark.parametrize("name", QUICK)
def test_an_algorithm_of_the_package_conforms(name: str) -> None:
    conform(maker_of(name)(**SETTINGS.get(name, {})))


class NeedsSomebody(MeanEmbedding):
    """Divides by the number of its devices."""

    def local(self, download: Any, devices: Any, histories: Any, users: Any, key: Any) -> Any:
        assert 1 // len(users) >= 0
        return super().local(download, devices, histories, users, key)


class Moody(MeanEmbedding):
    """Scores differ from call to call."""

    def score(self, download: Any, devices: Any, histories: Any) -> Any:
        return super().score(download, devices, histories) + np.float32(
            np.random.default_rng().random()
        )


class CountModel(NamedTuple):
    count: Any


class Counting(Settings):
    """A centralised algorithm that counts."""

    holds = CountModel

    def fit(self, data: Any, key: Any, progress: Any = None) -> CountModel:
        return CountModel(data.popularity.astype(np.float32))

    def score(self, model: CountModel, data: Any, users: Any) -> Any:
        return np.tile(model.count, (len(users), 1))


class Unseeded(Counting):
    def fit(self, data: Any, key: Any, progress: Any = None) -> CountModel:
        return CountModel(np.random.default_rng().random(len(data.items)).astype(np.float32))


class Double(Counting):
    def score(self, model: CountModel, data: Any, users: Any) -> Any:
        return super().score(model, data, users).astype(np.float64)


class Half(Settings):
    """A class with half of the members."""

    holds = CountModel

    def aggregate(self, server: Any, total: Any) -> Any:
        return server


def test_a_central_algorithm_conforms() -> None:
    conform(Counting())


@pytest.mark.parametrize(
    ("algorithm", "said"),
    [
        (NeedsSomebody(), "NeedsSomebody: local: ZeroDivisionError with no device"),
        (Moody(), "Moody: score: other scores when asked again; expected the same"),
        (Unseeded(), "Unseeded: 'count': another model for the same key; expected the same bits"),
        (Double(), "Double: score: float64 (30, 40); expected float32 (30, 40)"),
        (Half(), "Half: a federated algorithm without `receives`"),
        (Settings(), "Settings: is no algorithm"),
    ],
)
def test_what_breaks_a_rule_is_named(algorithm: Any, said: str) -> None:
    with pytest.raises(ContractError) as broken:
        conform(algorithm)
    assert said in str(broken.value) and "\n" not in str(broken.value)
