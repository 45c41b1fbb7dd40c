"""One moment for all users (case 28 of ../shared/cases), and ties in time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_data import interactions, random_data, rows_of

from entrenous.core.errors import InputError
from entrenous.data.interactions import NO_TIME, SECOND, Interactions
from entrenous.data.split.protocol import splits
from entrenous.data.split.types import Split, refitted
from entrenous.runs.pipeline import run

DAY = 86_400 * SECOND


def log(rows: str) -> Interactions:
    """Rows from texts such as `ann a 3`: user, item, day of January 1970 counted from 0."""
    parts = [row.split() for row in rows.split(", ")]
    return interactions([(user, item, int(day) * DAY) for user, item, day in parts])


def times_of(rows: Interactions) -> np.ndarray:
    assert rows.time is not None
    return rows.time


def held(split: Split) -> Interactions:
    assert split.validation is not None
    return split.validation.rows


@pytest.mark.parametrize("name", ["global-80-20", "global-60-40", "global-at-1970-01-14"])
@pytest.mark.parametrize("seed", range(5))
def test_no_held_out_row_is_before_a_row_to_train_on(name: str, seed: int) -> None:
    data = random_data(items=140, rows=900, seed=seed)
    data = replace(data, time=times_of(data) * DAY)
    [split] = splits(name, data)
    tested = times_of(split.test.rows).min()
    assert times_of(split.final_train).max() < tested
    assert times_of(split.train).max() < times_of(held(split)).min()
    if "at" not in name:
        # The last B percent, and the rows that share the moment of the first of them.
        percent = int(name[-2:])
        last = np.sort(times_of(data))[-(len(data) * percent // 100) :]
        assert tested >= last[0]
        later = times_of(data) >= last[0]
        assert len(split.test.rows) <= later.sum()
    else:
        assert tested == 13 * DAY


def test_a_tie_at_the_moment_is_tested_whole() -> None:
    data = log("a x 0, b x 0, a y 1, b y 1, a z 2, b z 2, a p 2, b q 2, c x 0, c y 2")
    [split] = splits("global-80-20", data)
    # The rows of z, p and q, which nobody had before, are missed.
    assert rows_of(split.test.rows) == {("c", "y")}
    assert split.test.absent is not None and split.test.absent.sum() == 4
    assert "the 5 of 10 rows at or after it (50.0 %) test" in split.notes[0]
    backward = interactions(
        [
            (data.users[u], data.items[i], int(t))
            for u, i, t in zip(data.user[::-1], data.item[::-1], times_of(data)[::-1], strict=True)
        ]
    )
    assert rows_of(splits("global-80-20", backward)[0].test.rows) == rows_of(split.test.rows)


NEWCOMERS = (
    "a x 0, b x 1, b y 2, a y 3, a z 4, d x 4, d y 5, a w 9, a q 9, new x 9, new y 10, gone x 2"
)


def test_new_users_and_new_items_are_left_out_and_counted() -> None:
    data = log(NEWCOMERS)
    [split] = splits("global-at-1970-01-10", data)
    # Rows of new items are missed, and nobody knows of the items before.
    assert rows_of(split.test.rows) == set()
    assert split.test.absent is not None and split.test.absent.sum() == 2
    assert set(split.train.items.ids) == {"x", "y", "z"} and "new" not in split.train.users
    assert (
        "users without a row before the moment, who cannot be tested: 1 (new); test rows"
        in (split.notes[2])
    )
    assert split.notes[2].endswith("left out: 2")
    assert "items without a row before the moment" in split.notes[3]
    assert "2 (q, w); test rows of theirs, which count as missed: 2" in split.notes[3]
    assert "users without a row at or after the moment, who are not tested: 3" in split.notes
    # The user d began among the validation rows, and is trained on in the end.
    assert rows_of(split.final_train) == rows_of(data) - {
        ("a", "w"),
        ("a", "q"),
        ("new", "x"),
        ("new", "y"),
    }
    assert refitted(split, False).final_train is split.train


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("global-at-1970-02-30", "day is out of range for month"),
        ("global-at-1970-13-01", "month must be in 1..12"),
        ("global-at-0-1-1", "year 0 is out of range"),
        (
            "global-at-1980-01-11",
            "no row is at or after 1980-01-11T00:00:00.*01T00.* to 1970-01-11",
        ),
        ("global-at-1970-01-01", "no row is before 1970-01-01T00:00:00"),
        ("global-80-30", "two positive percentages with sum 100; use global-80-20"),
        ("global-95-5", "leaves no test rows out of 12"),
    ],
)
def test_a_moment_that_divides_nothing_is_refused(name: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        splits(name, log(NEWCOMERS))


def test_users_on_one_side_of_the_moment_each_are_refused() -> None:
    apart = log("a x 0, a y 1, b x 5, b y 6, c z 1")
    with pytest.raises(InputError, match="no user has rows both before and after 1970-01-04"):
        splits("global-at-1970-01-04", apart)


@pytest.mark.parametrize("name", ["fpl", "fcf", "fedavg-gmf"])
def test_another_future_changes_no_model(name: str) -> None:
    data = random_data(items=140, rows=900)
    data = replace(data, time=times_of(data) * DAY)
    moment = "global-at-1970-01-14"
    whole = run(name, data, protocol=moment, rounds=2)
    early = times_of(data) < 13 * DAY
    # Of the rows after the moment, only one of a known user and item is left.
    known = np.isin(data.item, data.item[early]) & np.isin(data.user, data.user[early])
    one = early.copy()
    one[np.flatnonzero(known & ~early)[:1]] = True
    other = run(name, data.select(one), protocol=moment, rounds=2)
    assert other.manifest["model_sha256"] == whole.manifest["model_sha256"]


def test_a_moment_needs_times_on_all_rows() -> None:
    data = log(NEWCOMERS)
    for time, said in (
        (None, "the data has no times"),
        (np.where(np.arange(12) == 3, NO_TIME, times_of(data)), "1 of 12 rows have no time"),
    ):
        for name in ("global-80-20", "global-at-1970-01-10"):
            with pytest.raises(InputError, match=said):
                splits(name, replace(data, time=time))


def test_a_run_says_the_moment() -> None:
    data = random_data(items=140, rows=900)
    data = replace(data, time=times_of(data) * DAY)
    made = run("popular", data, protocol="global-80-20")
    assert made.manifest["protocol"] == "global-80-20"
    assert any(note.startswith("one moment for all users") for note in made.manifest["notes"])


# ---- ties ----------------------------------------------------------------------------------------

TIED = (
    # ann's two last rows are tied, bob's second and third last, eve's first two; dan has one row.
    "ann a 1, ann b 2, ann c 5, ann d 5, bob a 1, bob b 4, bob c 4, bob d 6, "
    "eve a 3, eve b 3, eve c 4, eve d 5, dan a 1"
)
RULE = "the last one in the source is the latest"


def test_ties_that_decide_are_counted_and_the_file_decides() -> None:
    [split] = splits("loo-full", log(TIED))
    assert f"1 of 3 users have ties that decide their test rows: {RULE}" in split.notes
    assert f"1 of 3 users have ties that decide their validation rows: {RULE}" in split.notes
    assert ("ann", "d") in rows_of(split.test.rows)
    assert ("bob", "c") in rows_of(held(split))
