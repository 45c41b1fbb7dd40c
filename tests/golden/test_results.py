"""Every algorithm on real data for a few rounds: the model, the metrics and the bytes are what they
were.
"""

from __future__ import annotations

import json

import pytest
from paths import SHARED, real

from entrenous.systems.named import algorithms
from tests.golden.record import RESULTS, cases, result

CASES, EXPECTED = cases(), json.loads(RESULTS.read_text())
QUICK = {
    "fpl", "sfpl", "pfpl+", "fcf", "fedmf-ratings", "cali3f-neumf", "fedavg-gmf", "fedfast-gmf", "ditto-mlp", "reptile-gmf", "metamf", "rfrec",
    "fedrecon", "gpfedrec", "pfedrec", "fedrap",
    "fbalf", "fbalf-bayes", "fedrec", "fedrec++", "pepper-gmf", "pepper-prme-g", "gossip-age-gmf", "gossip-average-gmf", "fedavg-prme-g",
    "bpr-mf", "pmf", "central-gmf",
}  # fmt: skip  # at least one of each file of algorithms; `make test-slow` runs all


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in CASES],
)
def test_the_result_is_what_it_was(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if CASES[name].algorithm not in algorithms():
        pytest.skip("entrenous-field is not installed")
    real(CASES[name].data.removesuffix("-pepper"))
    monkeypatch.setenv("ENTRENOUS_DATA", str(SHARED))
    found = result(CASES[name])
    expected = EXPECTED[name]
    # A metric that came later changes nothing that is recorded.
    found["metrics"] = {metric: found["metrics"].get(metric) for metric in expected["metrics"]}
    assert found == expected


def test_every_result_has_a_case() -> None:
    assert EXPECTED.keys() == CASES.keys()
