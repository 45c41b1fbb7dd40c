"""Noise that is said as a multiple of the clip."""

from __future__ import annotations

from typing import Any

import pytest

from entrenous.core.contract.declared import bound
from entrenous.core.errors import InputError
from entrenous.data.synthetic import synthetic
from entrenous.privacy.protection import Protection, ProtectionInForce
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
