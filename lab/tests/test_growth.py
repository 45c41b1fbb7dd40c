"""How costs grow: which sizes are compared, and what is called more than linear."""

from __future__ import annotations

import pytest
from entrenous_lab.benches import growth as module
from entrenous_lab.benches.growth import Grown, Measured, Size, growth

from entrenous.core.contract.protocols import silent


def measured(one: Grown, size: Size, threads: int) -> Measured:
    """Square in users, linear in factors, constant in all else."""
    return Measured(size.users**2 * size.factors, size.items, 4.0 * size.factors, 8.0)


def test_each_axis_is_compared_from_the_same_size_and_what_grows_faster_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "measured", measured)
    monkeypatch.setattr(
        module,
        "GROWN",
        (Grown("square", {}, 10**6), Grown("known", {}, 10**4, {"users": "it is a square"})),
    )
    found = growth(1, silent, devices=100_000)
    told = [
        (line["algorithm"], line["axis"], line["to"], line["cpu_growth"], line["memory_growth"])
        for line in found["lines"]
    ]
    assert told[:5] == [
        ("square", "users", 10_000, 10, 0.1),
        ("square", "users", 100_000, 10, 0.1),
        ("square", "items", 8000, 0.25, 1),
        ("square", "factors", 64, 1, 0.25),
        ("square", "interactions", 96, 0.25, 0.25),
    ]
    assert told[5:7] == [("known", "users", 10_000, 10, 0.1), ("known", "items", 8000, 0.25, 1)]
    assert found["beyond"] == ["square users to 10000", "square users to 100000"]


def test_a_small_federation_is_measured() -> None:
    found = module.measured(Grown("pfpl+", {}, 50), Size(50, 40, 4, 3), 1)
    assert found.cpu_seconds > 0 and found.memory_mb > 0 and found.down == 40 * (4 + 1) * 4
    assert 0 < found.up <= 2 * 3 * (4 + 4 * 4 + 4)
