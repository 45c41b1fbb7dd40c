"""Every algorithm on real data for a few rounds: the model, the metrics and the bytes are what they were."""

from __future__ import annotations

import json

import pytest
from paths import SHARED

from tests.golden.record import RESULTS, cases, result

CASES, EXPECTED = cases(), json.loads(RESULTS.read_text())


@pytest.mark.parametrize("name", CASES)
def test_the_result_is_what_it_was(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (SHARED / CASES[name].data.removesuffix("-pepper")).is_dir():
        pytest.skip(f"{CASES[name].data} is not here")
    monkeypatch.setenv("ENTRENOUS_DATA", str(SHARED))
    assert result(CASES[name]) == EXPECTED[name]


def test_every_result_has_a_case() -> None:
    assert EXPECTED.keys() == CASES.keys()
