"""A library that is missing is named with the extra that brings it."""

from __future__ import annotations

import tomllib

import pytest
from entrenous_network.commands import libraries
from paths import NETWORK

from entrenous.core.errors import InputError


@pytest.mark.parametrize(
    ("missing", "extra"), [("iroh", "peers"), ("httpx", "network"), ("msgspec", "network")]
)
def test_a_missing_library_of_the_network_is_named_with_the_extra_that_brings_it(
    missing: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libraries, "find_spec", lambda name: None if name == missing else name)
    with pytest.raises(InputError) as refused:
        libraries.need_libraries("federation", *libraries.NETWORK, "iroh")
    said = f"federation: {missing} not installed; pip install 'entrenous[{extra}]'"
    assert str(refused.value) == said
    declared = NETWORK.parents[1].joinpath("pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(declared)["project"]
    brought = project["optional-dependencies"].get(extra, project["dependencies"])
    assert any(requirement.startswith(missing) for requirement in brought)
