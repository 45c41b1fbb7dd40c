"""Dirt in whole files, after reports from the field: bad rows are refused or left out and counted,
repeats are kept, dropped or added up, and programs among the users are left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from entrenous.core.errors import InputError
from entrenous.data.interactions import Interactions
from entrenous.data.load import from_frame, load


def log(rows: int = 200) -> list[str]:
    """Lines of 20 users who rate 10 of 50 items each."""
    header = "user_id,item_id,rating,timestamp"
    lines = [f"u{n % 20},i{n // 20 + n % 40},{n % 5 + 1},{1000000000 + n}" for n in range(rows)]
    return [header, *lines]


def written(folder: Path, lines: list[str], end: str = "\n", name: str = "log.csv") -> str:
    path = folder / name
    path.write_text("\n".join(lines) + end)
    return str(path)


def loaded(folder: Path, lines: list[str], end: str = "\n", **options: Any) -> Interactions:
    return load(written(folder, lines, end), **options)


def refused(folder: Path, lines: list[str], end: str = "\n", **options: Any) -> str:
    with pytest.raises(InputError) as refusal:
        loaded(folder, lines, end, **options)
    message = str(refusal.value)
    assert "\n" not in message
    return message


# ---- bad rows ------------------------------------------------------------------------------------

BAD = {
    "no user": ",i1,3,1000000000",
    "no item": "u1, ,3,1000000000",
    "decimal id": "1.0,i1,3,1000000000",
    "long id": "u1," + "x" * 300 + ",3,1000000000",
    "no value": "u1,i49,,1000000000",
    "word for a value": "u1,i49,good,1000000000",
    "nan": "u1,i49,NaN,1000000000",
    "infinite": "u1,i49,-inf,1000000000",
    "time before 1970": "u1,i49,3,-5",
    "word for a time": "u1,i49,3,noon",
    "header again": "user_id,item_id,rating,timestamp",
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_row_is_refused_or_left_out_and_counted(tmp_path: Path, kind: str) -> None:
    """Case 12 (implicit#84: empty artist ids) and its kind."""
    lines = log()
    lines.insert(100, BAD[kind])
    message = refused(tmp_path, lines)
    assert message.startswith(f"{tmp_path}/log.csv:101: ")
    # The remedy that the message names works as it is printed.
    assert "or leave out the bad row of 201: bad_rows='drop' (--load bad_rows=drop)" in message
    data = loaded(tmp_path, lines, bad_rows="drop")
    assert data.sha256() == loaded(tmp_path, log()).sha256()
    (entry,) = data.reading.left_out
    assert (entry.rows, entry.first) == (1, f"{tmp_path}/log.csv:101")
    assert any(entry.reason in note and ":101" in note for note in data.notes)


def test_the_first_bad_line_is_named_whatever_is_wrong_with_it(tmp_path: Path) -> None:
    """Case 30 (polars `unique` in no order) and its kind."""
    lines = log()
    for place, kind in enumerate(BAD, 1):
        lines.insert(10 * place, BAD[kind])
    for place, _ in enumerate(BAD, 1):
        line = 10 * place + 1
        assert refused(tmp_path, lines).startswith(f"{tmp_path}/log.csv:{line}: ")
        lines[line - 1] = f"u1,new{place},3,1000000000"
    assert len(loaded(tmp_path, lines)) == 200 + len(BAD)


def test_the_share_of_bad_rows_has_a_ceiling(tmp_path: Path) -> None:
    good = log(990)
    bad = [BAD["no item"], BAD["nan"]] * 5
    data = loaded(tmp_path, good + bad, bad_rows="drop")
    assert sum(entry.rows for entry in data.reading.left_out) == 10
    assert data.sha256() == loaded(tmp_path, good).sha256()
    # One more is one too many.
    lines = [*good, *bad, BAD["no user"]]
    message = refused(tmp_path, lines, bad_rows="drop")
    assert message.startswith(f"{tmp_path}/log.csv: 11 of 1,001 rows are bad: ")
    assert "the user id is empty: 1, the first at 1002;" in message
    assert "--load bad_share=0.011" in message
    assert len(loaded(tmp_path, lines, bad_rows="drop", bad_share=0.011)) == len(data)
    # Without the policy the message names both options at once.
    assert "--load bad_rows=drop --load bad_share=0.011" in refused(tmp_path, lines)


def test_rows_that_are_all_bad_are_no_data(tmp_path: Path) -> None:
    lines = [log()[0], *[BAD["nan"]] * 50]
    for share in (0.01, 1):
        message = refused(tmp_path, lines, bad_rows="drop", bad_share=share)
        assert "the value is NaN" in message
    # Leaving them out is no way on, so that no message names it.
    assert "bad_rows" not in refused(tmp_path, lines)


@pytest.mark.parametrize("cut", ["u1,i49,", "u1,", "u1,i49,3,"])
def test_a_file_that_was_cut_off_is_refused_whatever_the_policy(tmp_path: Path, cut: str) -> None:
    """Behind a last line that was cut off, rows are missing that nobody counted."""
    lines = ["user_id,item_id,rating", *(line.rpartition(",")[0] for line in log()[1:])]
    if cut.endswith("3,"):
        lines = log()
    message = refused(tmp_path, [*lines, cut], "", bad_rows="drop")
    assert message.startswith(f"{tmp_path}/log.csv:202: ") and "cut off" in message
    assert "bad_rows" not in refused(tmp_path, [*lines, cut], "")


def test_frames_have_the_same_policies() -> None:
    frame = {
        "user": ["a", "a", "b", None, "c"],
        "item": ["x", "x", "y", "z", "z"],
        "count": [2.0, 3.0, 1.0, 9.0, 4.0],
    }
    with pytest.raises(InputError, match=r"^frame:row 3: the user id is empty.*bad_rows='drop'"):
        from_frame(frame, duplicates="sum")
    data = from_frame(frame, duplicates="sum", bad_rows="drop")
    assert data.value.tolist() == [5, 1, 4]
    assert data.reading.left_out[0].first == "frame:row 3"


# ---- repeats -------------------------------------------------------------------------------------

LINES = ["user_id,item_id,count", "1,a,5", "1,a,4", "2,b,3", "3,c,3"]


def test_purchases_add_up(tmp_path: Path) -> None:
    """Case 40 (Spotlight#63: order lines and listening logs)."""
    assert "or 'sum' for counts and purchases" in refused(tmp_path, LINES)
    data = loaded(tmp_path, LINES, duplicates="sum")
    assert data.value.tolist() == [9, 3, 3]
    assert "rows of a repeated (user, item) pair, added up with the last one: 1" in data.notes


def test_a_sum_has_the_last_time(tmp_path: Path) -> None:
    header = "user_id,item_id,count,timestamp"
    rows = ["1,a,5,1000000009", "1,a,4,1000000003", "2,b,3,1000000001", "3,c,1,1000000000"]
    data = loaded(tmp_path, [header, *rows], duplicates="sum")
    other = loaded(tmp_path, [header, *reversed(rows)], duplicates="sum")
    assert data.value.tolist() == other.value.tolist() == [9, 3, 1]
    assert data.time is not None and other.time is not None
    assert data.time.tolist() == other.time.tolist()
    assert data.time[0] == data.time.max()


def test_a_sum_that_is_rounded_is_said(tmp_path: Path) -> None:
    lines = [*LINES[:3], "2,b,16777216", "2,b,1", "3,c,16777216", "3,c,2"]
    notes = loaded(tmp_path, lines, duplicates="sum").notes
    assert "sums beyond 16,777,216 that are rounded: 1" in notes
    assert not [
        note for note in loaded(tmp_path, LINES, duplicates="sum").notes if "beyond" in note
    ]


def test_the_order_of_rows_does_not_round_a_sum(tmp_path: Path) -> None:
    numbers = np.random.default_rng(3).normal(size=4000) * 10.0 ** np.arange(4000).clip(0, 30)
    rows = [f"1,a,{number!r}" for number in numbers.tolist()] + ["2,b,1", "1,b,1", "3,c,1"]
    sums = set()
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(rows))
        shuffled = [rows[place] for place in order]
        data = loaded(tmp_path, ["user_id,item_id,count", *shuffled], duplicates="sum")
        sums.add(float(data.value[0]))
    assert len(sums) == 1


def test_a_sum_beyond_a_rating_is_refused_at_its_first_row(tmp_path: Path) -> None:
    lines = [*LINES[:3], "2,b,3e38", "2,c,1", "2,b,3e38", "3,c,3"]
    message = refused(tmp_path, lines, duplicates="sum")
    assert message.startswith(f"{tmp_path}/log.csv:4: the values of this (user, item) pair add up")
    assert "duplicates=last" in message
    assert loaded(tmp_path, lines, duplicates="last").value.max() > 2e38
    # The scale holds for what algorithms see.
    message = refused(tmp_path, LINES, duplicates="sum", scale=(1, 5))
    assert ":2: the values of this (user, item) pair add up to 9; expected a sum from 1 to 5" in (
        message
    )


def test_the_first_row_that_disagrees_is_named_also_if_times_go_backwards(tmp_path: Path) -> None:
    lines = [
        "user_id,item_id,rating,timestamp",
        "1,a,5,1000000001",
        "1,a,4,1000000009",
        "2,b,3,1000000000",
        "1,a,5,1000000003",
        "3,c,3,1000000000",
    ]
    assert ":3: the (user, item) pair has value 4 here and 5 at 2" in refused(tmp_path, lines)


# ---- programs among the users --------------------------------------------------------------------


def test_a_user_with_too_many_items_is_left_out_and_counted(tmp_path: Path) -> None:
    lines = log() + [f"bot,i{number},1,1000000000" for number in range(45)]
    data = loaded(tmp_path, lines, max_items_of_a_user=20)
    assert "bot" not in data.users and len(data.users) == 20
    (note,) = (note for note in data.notes if "users with <= 20 items" in note)
    assert note.endswith("dropped rows: 45, users: 1, items: 0")


@pytest.mark.parametrize("given", [{"ids": "whole"}, {"bad_rows": "drop", "bad_share": 0.2}])
def test_ids_that_became_decimals_are_read_as_whole_numbers(given: dict[str, Any]) -> None:
    users = [1.0, 2.0, 1.0, 2.0, float("nan"), 3.0] if "bad_rows" in given else [1.0, 2.0, 1.0]
    data = from_frame({"user": users, "item": list(range(len(users)))}, **given)
    assert data.users.ids.tolist()[:2] == ["1", "2"]
    assert "written as decimals" in " ".join(data.notes)
    with pytest.raises(InputError, match="floating-point numbers"):
        from_frame({"user": [1.5, 2.0], "item": [1, 2]}, **given)
