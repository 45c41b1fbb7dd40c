"""Noise that is said as a multiple of the clip."""

from __future__ import annotations

from typing import Any

import pytest

from entrenous.core.contract.declared import bound
from entrenous.core.errors import InputError
from entrenous.data.synthetic import synthetic
from entrenous.privacy.lengths import usual_limits
from entrenous.privacy.protection import Protection, ProtectionInForce
from entrenous.runs.options import RunPlan
from entrenous.runs.plan import brought, protection_in, with_set
from entrenous.systems.named import algorithms


def test_noise_is_a_multiple_of_the_clip() -> None:
    protection = Protection.parse({"multiple": 0.25, "clip": "8"}, "")
    assert protection.noise == 2
    assert Protection.parse(protection.model_dump(), "") == protection
    assert "multiple" not in Protection().model_dump()
    assert Protection().model_dump(exclude_defaults=True) == {}
    rows = synthetic(users=40, items=60, interactions=400, seed=3)
    contract = bound(algorithms()["fcf"]().configured(rows.catalogue), rows.catalogue)
    with pytest.raises(InputError, match="no clip"):
        ProtectionInForce(Protection.parse({"multiple": 0.25}, ""), contract)


@pytest.mark.parametrize(
    "beside", [{"noise": 3.0}, {"epsilon": 8.0, "noise_from": "system", "sampling": "poisson"}]
)
def test_noise_is_said_once(beside: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="multiple without noise and epsilon"):
        Protection.parse({"multiple": 0.25, "clip": 8.0, **beside}, "")


def test_a_multiple_stands_in_the_place_of_the_noise_that_private_brings() -> None:
    plan = RunPlan(algorithm="fcf", profile="private", protect={"multiple": 0.25})
    whole = with_set(plan, 943)
    assert "noise" not in whole.protect
    clip = usual_limits("fcf", 943)["clip"]
    assert protection_in(whole, algorithms()["fcf"]()).noise == 0.25 * clip
    assert any("multiple 0.25; tested: multiple" in line for line in brought(whole, 943))
