"""A small season: a federation to which windows of real rows happen, and its rounds made again."""

from __future__ import annotations

import numpy as np
import pytest
from entrenous_lab.benches.season import season
from entrenous_lab.benches.season_rows import Season, _by_first
from paths import SHARED, real

SMALL = Season(
    data="ml-100k",
    people=60,
    windows=3,
    rounds=2,
    awake=0.7,
    vanish=0.1,
    floor=8,
    noise=0.3,
    deadline=60.0,
    processes=2,
    server_kills=1,
    device_kills=0,
)


@pytest.fixture
def movielens(monkeypatch: pytest.MonkeyPatch) -> None:
    real("ml-100k")
    monkeypatch.setenv("ENTRENOUS_DATA", str(SHARED))


@pytest.mark.usefixtures("movielens")
def test_a_season_with_a_killed_server_has_the_bytes_of_one_process() -> None:
    lines: list[str] = []
    found = season(1, lambda done, total, what: lines.append(what), plan=SMALL)
    assert found["same_bytes"]
    assert (found["rounds_made"], found["lost_rounds"], found["servers_killed"]) == (6, 0, 1)
    assert found["people"] == 60 and found["people_in_sums"][0] >= SMALL.floor
    assert found["vanished"] and len(lines) == 5
    assert 0 < found["hit_rate"] < 1 and 0 < found["hit_rate_of_popularity"] < 1
    assert found["bytes_an_answer"] > 0


def test_numbers_by_first_use() -> None:
    numbers, of = _by_first(np.array([7, 3, 7, 9]))
    assert numbers.tolist() == [0, 1, 0, 2] and of.tolist() == [7, 3, 9]
