"""Adding updates: exact in fixed point, in any order, and nothing that is not a number gets in."""

from __future__ import annotations

import numpy as np
import pytest

from entrenous.core.contract import update as module
from entrenous.core.contract.update import (
    STEP,
    Total,
    Update,
    add_update,
    clear_total,
    empty_total,
    fixed,
    merge_totals,
    real,
    tabled,
)
from entrenous.core.errors import EntrenousError, NonFiniteError

ITEMS = 6


def update_of(devices: int, seed: int) -> Update:
    """Devices that send 3 of 6 items each, a row of two numbers for an item and a dense array of
    shape [4].
    """
    rng = np.random.default_rng(seed)
    item = np.concatenate([np.sort(rng.permutation(ITEMS)[:3]) for _ in range(devices)]).astype(
        np.int32
    )
    rows = {
        "q": rng.normal(size=(3 * devices, 2)).astype(np.float32),
        "b": rng.normal(size=3 * devices).astype(np.float32),
    }
    dense = {"g": rng.normal(size=(devices, 4)).astype(np.float32)}
    return Update(np.arange(devices + 1) * 3, item, rows, dense, np.ones(devices, np.float32))


def arrays(total: Total) -> list[np.ndarray]:
    return [
        *total.rows.values(),
        *total.dense.values(),
        *(part for part in total[1:4] if isinstance(part, np.ndarray)),
    ]


def test_the_sum_is_what_adding_the_rounded_rows_gives() -> None:
    update = update_of(5, 0)
    total = add_update(empty_total(update, ITEMS), update)
    expected = np.zeros((ITEMS, 2), np.int64)
    for item, row in zip(update.item, update.rows["q"], strict=True):
        expected[item] += np.rint(row.astype(np.float64) * 65536).astype(np.int64)
    assert np.array_equal(total.rows["q"], expected)
    assert np.array_equal(total.dense["g"][0], fixed(update.dense["g"]).sum(axis=0))
    assert total.devices == 5 and real(total.weight).tolist() == [5.0]


def test_any_order_and_any_grouping_gives_the_same_integers() -> None:
    parts = [update_of(2, seed) for seed in range(6)]
    one, left, right = (empty_total(parts[0], ITEMS) for _ in range(3))
    for part in parts:
        one = add_update(one, part)
    for number in (3, 0, 5):
        left = add_update(left, parts[number])
    for number in (4, 2, 1):
        right = add_update(right, parts[number])
    merged = merge_totals(right, left)
    assert all(np.array_equal(a, b) for a, b in zip(arrays(one), arrays(merged), strict=True))
    assert one.devices == merged.devices == 12


@pytest.mark.parametrize("sides", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("workers", [1, 3])
def test_a_sum_side_by_side_is_the_same_sum(
    sides: tuple[bool, bool], workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PIECE", 4)
    parts = [update_of(2, seed) for seed in range(2)]
    apart, one, other = (empty_total(parts[0], ITEMS) for _ in range(3))
    for part in parts:
        apart = add_update(apart, part)
    one, other = (add_update(total, part) for total, part in zip((one, other), parts, strict=True))
    one, other = (
        tabled(total)[0] if side else total for total, side in zip((one, other), sides, strict=True)
    )
    merged = merge_totals(one, other, workers)
    assert (
        all(np.array_equal(a, b) for a, b in zip(arrays(apart), arrays(merged), strict=True))
        and merged.devices == 4
    )
    assert (
        tabled(merged)[1][:, :4].tolist()
        == np.column_stack([apart.rows["q"], apart.rows["b"], apart.senders]).tolist()
    )
    assert all(not array.any() for array in arrays(clear_total(merged, workers)))


def test_a_cleared_total_is_zero_and_ready() -> None:
    update = update_of(3, 1)
    total = clear_total(add_update(empty_total(update, ITEMS), update))
    assert all(not array.any() for array in arrays(total)) and total.devices == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 40_000.0])
@pytest.mark.parametrize("where", ["q", "b", "g"])
def test_a_value_that_is_not_finite_or_too_large_is_refused(bad: float, where: str) -> None:
    update = update_of(2, 2)
    array = update.dense[where] if where == "g" else update.rows[where]
    array[-1] = bad
    with pytest.raises(NonFiniteError, match="the model is unchanged"):
        add_update(empty_total(update, ITEMS), update)


def test_rounding_is_to_the_nearest_step() -> None:
    assert fixed(np.array([0.0, STEP, 0.4 * STEP, 0.6 * STEP, 1.0])).tolist() == [0, 1, 0, 1, 65536]
    assert fixed(
        np.array([-0.4 * STEP, -0.6 * STEP, 0.5 * STEP, 1.5 * STEP, -2.5 * STEP])
    ).tolist() == [0, -1, 0, 2, -2]
    assert real(np.array([65536, -1])).tolist() == [1.0, -STEP]


def test_bytes_are_those_of_items_rows_and_dense_arrays() -> None:
    assert update_of(2, 3).nbytes == 6 * 4 + 6 * 2 * 4 + 6 * 4 + 2 * 4 * 4


@pytest.mark.parametrize(
    ("group", "groups"), [([0, 3], 3), ([0, -1], 3), ([0, 0], 1), ([0, 1], 2), ([0, 1], 19)]
)
def test_a_group_that_has_no_sum_is_refused_before_anything_is_written(
    group: list[int], groups: int
) -> None:
    update = update_of(2, 0)._replace(
        rows={}, item=np.empty(0, np.int32), ptr=np.zeros(3, np.int64)
    )
    total = empty_total(update._replace(groups=3), ITEMS)
    with pytest.raises(EntrenousError, match=r"devices in .* groups, where there are 3 sums"):
        add_update(total, update._replace(group=np.array(group, np.int32), groups=groups))
    assert not any(array.any() for array in arrays(total))
