"""A small season: a federation to which windows of real rows happen, and its rounds made again."""

from __future__ import annotations

import numpy as np
import pytest
from entrenous_lab.benches.new_items import _used_by, new_items
from entrenous_lab.benches.season import season
from entrenous_lab.benches.season_rates import season_rates
from entrenous_lab.benches.season_rows import Season, SeasonRows, _by_first, rows_of
from paths import SHARED, real

SMALL = Season(
    data="ml-100k",
    people=60,
    windows=3,
    rounds=2,
    awake=0.7,
    vanish=0.1,
    floor=5,
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


@pytest.mark.usefixtures("movielens")
def test_rows_are_in_the_order_of_their_times_and_numbers_count_up() -> None:
    rows = rows_of("ml-100k", 60)
    assert np.all(np.diff(rows.time) >= 0)
    for numbers in (rows.user, rows.item):
        highest = np.maximum.accumulate(numbers)
        assert numbers[0] == 0 and np.all(np.diff(highest) <= 1)
    assert len(rows.ids) == 1 + rows.item.max() and len(rows.user) + rows.left_out == 100_000


def test_numbers_by_first_use() -> None:
    numbers, of = _by_first(np.array([7, 3, 7, 9]))
    assert numbers.tolist() == [0, 1, 0, 2] and of.tolist() == [7, 3, 9]


@pytest.mark.usefixtures("movielens")
def test_the_first_half_of_a_season_chooses_rate_and_rounds() -> None:
    plan = SMALL._replace(windows=5, founders=0.3)
    found = season_rates(1, lambda *said: None, plan=plan, rates=(0.0001, 0.05), rounds=(1,))
    first = {rate: found[f"first_half_1_rounds_rate_{rate}"] for rate in ("0.0001", "0.05")}
    assert found["chosen_rounds"] == 1
    assert found["chosen_rate"] == float(max(first, key=lambda rate: first[rate]))
    second = found[f"second_half_1_rounds_rate_{found['chosen_rate']:g}"]
    assert found["ratio"] == second / found["second_half_popularity"]


@pytest.mark.usefixtures("movielens")
def test_new_items_are_asked_for_two_windows_after_their_twentieth_use() -> None:
    plan = SMALL._replace(people=943, windows=5, founders=0.3, rounds=1)
    rows = SeasonRows(plan)
    listed = range(rows.listed(-1), rows.listed(4))
    item, window = next((item, at) for item in listed if 0 < (at := _used_by(rows, item)) < 5)
    uses = np.flatnonzero(rows.rows.item == item)
    assert np.count_nonzero(uses < rows.cuts[window + 1]) >= 20
    assert np.count_nonzero(uses < rows.cuts[window]) < 20
    found = new_items(1, lambda *said: None, plan=plan)
    assert 0 < found["recommended"] <= found["new_items"]
    for known in ("with_everybody", "by_ials_32", "by_ials_64", "by_item_knn"):
        assert 0 <= found[f"recommended_{known}"] <= found["new_items"]
    # Neighbours need no more than a few uses.
    assert found["recommended_by_item_knn"] > found["recommended"]
