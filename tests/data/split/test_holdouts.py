"""Temporal and random hold-out per user, and k-fold over all rows."""

import numpy as np
import pytest
from paths import real
from small_data import interactions, random_data, rows_of

from entrenous.data.split.protocol import splits
from entrenous.data.split.types import share

TEN = [("ann", f"i{n}", n) for n in range(10)]
FOUR = [("bob", f"i{n}", n) for n in range(4)]


def test_the_newest_fifth_is_test_and_the_newest_fifth_of_the_rest_validation():
    split = splits("temporal-80-20", interactions(TEN + FOUR))[0]
    assert rows_of(split.test.rows) == {("ann", "i9"), ("ann", "i8")}  # int(0.2 * 10) = 2
    assert rows_of(split.validation.rows) == {("ann", "i7")}  # int(0.2 * 8) = 1
    assert rows_of(split.train) == {("ann", f"i{n}") for n in range(7)} | {
        ("bob", f"i{n}") for n in range(4)
    }
    assert split.refit
    assert split.notes[0] == "users with too few rows for a test row, who stay in training: 1 (bob)"


RARE = [("eve", f"i{n}", n) for n in range(4)] + [("eve", "rare", 5), ("max", "odd", 5)]


def test_fpl_has_no_items_but_those_of_its_training_rows():
    """eve's newest row is of an item that nobody else has: it is held out, and counted as
    missed.
    """
    data = interactions([*TEN, *FOUR, *RARE])
    whole, split = splits("temporal-80-20", data)[0], splits("fpl-80-20", data)[0]
    assert "rare" in whole.train.items.ids.tolist() and split.name == "fpl-80-20" and split.refit
    assert split.train.items.ids.tolist() == [
        *(f"i{n}" for n in range(8)),
        "odd",
    ]  # i8 and i9 are test rows of ann alone
    assert rows_of(split.final_train) == rows_of(whole.final_train)
    assert (
        rows_of(split.test.rows)
        == {row for row in rows_of(whole.test.rows) if row[1] in split.train.items.ids.tolist()}
        == set()
    )
    assert dict(zip(split.train.users.ids.tolist(), split.test.absent.tolist(), strict=True)) == {
        "ann": 2,
        "bob": 0,
        "eve": 1,
        "max": 0,
    }
    assert split.validation.absent is None and rows_of(split.validation.rows) == rows_of(
        whole.validation.rows
    )
    assert "the catalogue: the 9 of 12 items with a training or validation row" in split.notes


@pytest.mark.parametrize("percent", [10, 20, 25, 50])
def test_shares_are_those_of_the_authors(percent):
    counts = np.arange(1, 3000)
    assert share(counts, percent).tolist() == [int(percent / 100 * n) for n in counts.tolist()]


def test_foursquare_italy_splits_as_in_the_paper():
    pl = pytest.importorskip("polars")
    frame = pl.read_parquet(real("foursquare-italy", "interactions.parquet")).filter(
        pl.len().over("user_id") >= 20
    )
    rows = list(
        zip(frame["user_id"].cast(pl.String), frame["item_id"], frame["timestamp"], strict=True)
    )
    split = splits("temporal-80-20", interactions(rows))[0]
    final = split.final_train
    assert [len(final), len(split.test.rows), int((final.counts > 0).sum())] == [
        54_088,
        12_883,
        1_353,
    ]
    assert int((final.popularity > 0).sum()) == 25_498


def test_a_random_hold_out_takes_the_same_numbers_from_anywhere():
    data = random_data(users=30, items=100, rows=2000)
    split, other = splits("random-80-20", data, seed=0)[0], splits("random-80-20", data, seed=1)[0]
    assert split.test.rows.counts.tolist() == share(data.counts, 20).tolist()
    assert (
        split.validation.rows.counts.tolist()
        == share(data.counts - split.test.rows.counts, 20).tolist()
    )
    assert rows_of(split.test.rows) != rows_of(other.test.rows)


def test_a_random_hold_out_is_uniform_over_a_users_rows():
    """1,000 seeds, 2 of 10 rows for test: each 200 times, standard deviation 12.6 = sqrt(1000 * 1/5
    * 4/5).
    """
    data = interactions(TEN + FOUR)
    counts = sum(
        splits("random-80-20", data, seed=seed)[0].test.rows.popularity for seed in range(1000)
    )
    assert abs(counts - 200).max() < 4.5 * 12.6


def test_a_random_hold_out_needs_no_times():
    split = splits("random-80-20", interactions(TEN, times=False))[0]
    assert [len(split.train), len(split.validation.rows), len(split.test.rows)] == [7, 1, 2]


def test_every_row_is_tested_in_exactly_one_fold():
    data = random_data(rows=333)
    folds = splits("kfold-5", data, seed=4)
    tested = [rows_of(fold.test.rows) for fold in folds]
    assert set.union(*tested) == rows_of(data) and sum(map(len, tested)) == len(data)
    assert max(map(len, tested)) - min(map(len, tested)) <= 1
    assert [fold.name for fold in folds] == [f"kfold-5/{k}" for k in (1, 2, 3, 4, 5)]


def test_each_fold_cuts_a_fifth_of_its_training_rows_for_validation():
    data = random_data(rows=333)
    for fold in splits("kfold-5", data):
        assert len(fold.validation.rows) == (len(data) - len(fold.test.rows)) // 5
        assert fold.refit


def test_the_validation_rows_of_the_folds_are_drawn_apart():
    """A validation row of one fold is one of another's with a chance of 3/4 (it is not tested
    there) of 1/5.
    """
    parts = [
        rows_of(fold.validation.rows)
        for fold in splits("kfold-5", random_data(users=100, items=60, rows=4000))
    ]
    shared = [len(one & other) / len(one) for n, one in enumerate(parts) for other in parts[:n]]
    assert len(shared) == 10 and max(abs(share - 0.15) for share in shared) < 0.1
