"""Keys: the same names give the same numbers everywhere, and the numbers look random."""

from __future__ import annotations

import numpy as np

from entrenous.core.keys import (
    below,
    draw,
    draws,
    fold,
    fold_name,
    folds,
    key,
    local_key,
    normals,
    select_key,
    uniform,
)


def test_a_key_depends_on_every_name_and_on_their_order() -> None:
    keys = [
        key(0, "a", 1),
        key(0, "a", 2),
        key(1, "a", 1),
        key(0, 1, "a"),
        key(0, "a"),
        key(0, "b", 1),
    ]
    assert len({int(one) for one in keys}) == len(keys)
    assert key(0, "a", 1) == fold_name(key(0, "a"), 1) == np.uint64(fold(key(0, "a"), 1))


def test_known_values_never_change() -> None:
    """SplitMix64 from state 0 yields these outputs (Steele, Lea & Flood 2014; the reference stream
    of the generator).
    """
    assert [int(draw(np.uint64(0), c)) for c in range(3)] == [
        0xE220A8397B1DCDAF,
        0x6E789E6AA1B965F4,
        0x06C45D188009454F,
    ]


def test_draws_are_draws() -> None:
    parent = key(5, "many")
    assert draws(parent, 100).tolist() == [int(draw(parent, c)) for c in range(100)]


def test_folds_is_fold_for_each_name() -> None:
    parent = key(3, "x")
    assert folds(parent, np.arange(5)).tolist() == [int(fold(parent, name)) for name in range(5)]


def test_round_keys_differ_between_rounds_and_purposes() -> None:
    rounds = key(0, "rounds")
    assert (
        len({int(make(rounds, number)) for make in (select_key, local_key) for number in range(50)})
        == 100
    )


def test_integers_below_n_are_uniform() -> None:
    n, many = 7, 70_000
    counts = np.bincount(
        [below(np.uint64(draw(key(0, "u"), c)), n) for c in range(many)], minlength=n
    )
    expected = many / n
    assert (
        (counts - expected) ** 2 / expected
    ).sum() < 22.5  # chi-square with 6 degrees of freedom at p = .001


def test_uniform_is_in_the_unit_interval_with_mean_one_half() -> None:
    values = np.array([uniform(np.uint64(draw(key(1, "v"), c))) for c in range(20_000)])
    assert values.min() >= 0 and values.max() < 1
    assert abs(values.mean() - 0.5) < 4 * np.sqrt(1 / 12 / len(values))


def test_normals_have_the_asked_moments_and_rows_depend_on_their_key_alone() -> None:
    keys = folds(key(2, "n"), np.arange(5_000))
    values = normals(keys, 8, 0.1)
    assert values.dtype == np.float32 and values.shape == (5_000, 8)
    assert abs(values.mean()) < 4 * 0.1 / np.sqrt(values.size)
    assert abs(values.std() / 0.1 - 1) < 0.02
    assert np.array_equal(normals(keys[7:9], 8, 0.1), values[7:9])
