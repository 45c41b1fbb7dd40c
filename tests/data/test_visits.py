"""Repeated visits: kept where a table says when and nothing else, through every cut of the rows, to
files and back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from entrenous.core.errors import InputError
from entrenous.data.filters import k_core
from entrenous.data.interactions import NO_TIME, SECOND, Interactions, in_seconds
from entrenous.data.load import load
from entrenous.data.split.protocol import splits
from entrenous.data.split.types import union
from entrenous.data.visits import VisitColumns, visit_columns, with_visits

LINES = "ann,a,5\nann,b,9\nann,a,7\nann,c,6\nbob,b,7\nbob,c,8\nbob,b,3\neve,d,\neve,b,2\neve,d,4\n"


@pytest.fixture
def data(tmp_path: Path) -> Interactions:
    (tmp_path / "visits.csv").write_text("user_id,item_id,timestamp\n" + LINES)
    return load(str(tmp_path / "visits.csv"))


def by_name(data: Interactions) -> dict[tuple[str, str], list[int]]:
    """The times of the visits of each row, in seconds."""
    assert data.visits is not None
    pairs = [
        (data.users[int(u)], data.items[int(i)]) for u, i in zip(data.user, data.item, strict=True)
    ]
    return {
        pair: in_seconds(data.visits.time[data.visits.ptr[r] : data.visits.ptr[r + 1]]).tolist()
        for r, pair in enumerate(pairs)
    }


WHOLE = {
    ("ann", "a"): [5, 7],
    ("ann", "b"): [9],
    ("ann", "c"): [6],
    ("bob", "b"): [3, 7],
    ("bob", "c"): [8],
    ("eve", "d"): [NO_TIME, 4],
    ("eve", "b"): [2],
}


def test_a_table_keeps_every_visit_and_a_row_is_the_last(data: Interactions) -> None:
    assert by_name(data) == WHOLE
    (repeats,) = data.reading.left_out
    assert repeats.reason.endswith("is kept, with the times of all") and repeats.rows == 3
    assert data.visits is not None and data.time is not None
    assert data.time.tolist() == data.visits.time[data.visits.ptr[1:] - 1].tolist()


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("user_id,item_id,timestamp\nann,a,5\nann,b,9\nbob,b,7\nbob,c,8\n", {}),  # none is repeated
        (
            "user_id,item_id,rating,timestamp\nann,a,5,5\nann,a,5,9\nbob,b,2,7\nbob,c,1,8\n",
            {},
        ),  # a rating given twice is one
        ("user_id,item_id\nann,a\nann,a\nbob,b\nbob,c\n", {}),  # nobody knows when
        (
            "user_id,item_id,timestamp\n" + LINES,
            {"duplicates": "first"},
        ),  # the first alone was asked for
    ],
)
def test_other_tables_have_no_visits(tmp_path: Path, text: str, options: dict[str, str]) -> None:
    (tmp_path / "rows.csv").write_text(text)
    assert load(str(tmp_path / "rows.csv"), **options).visits is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "cut",
    [
        lambda data: data.select(np.arange(len(data)) % 2 == 0),
        lambda data: data.of_users(np.array([2, 0])),
        lambda data: data.of_users(np.array([1, 2])),
        lambda data: data.of_items(data.popularity > 1),
        lambda data: k_core(data, users=3),
        lambda data: k_core(data, items=2),
        lambda data: splits("random-50-50", data)[0].train,
    ],
)
def test_every_cut_leaves_rows_their_visits(
    data: Interactions, cut: Callable[[Interactions], Interactions]
) -> None:
    part = by_name(cut(data))
    assert part and part == {pair: WHOLE[pair] for pair in part}


def test_parts_come_together_again(data: Interactions) -> None:
    some = np.arange(len(data)) % 3 == 0
    assert by_name(union(data.select(some), data.select(~some))) == WHOLE


def test_visits_tell_data_apart(data: Interactions) -> None:
    assert data.visits is not None
    later = data.visits._replace(time=data.visits.time + (data.visits.time == 5 * SECOND))
    assert (
        len(
            {
                data.sha256(),
                replace(data, visits=later).sha256(),
                replace(data, visits=None).sha256(),
            }
        )
        == 3
    )


def test_columns_and_back(data: Interactions) -> None:
    found = visit_columns(data)
    assert found is not None and visit_columns(replace(data, visits=None)) is None
    shuffled = VisitColumns(*(column[::-1] for column in found))
    assert by_name(with_visits(replace(data, visits=None), shuffled, "here")) == WHOLE


def test_visits_that_are_not_of_the_rows_are_refused_by_name(data: Interactions) -> None:
    found = visit_columns(data)
    assert found is not None
    with pytest.raises(
        InputError, match="here: 3 rows have no visit, such as that of user 'ann', item 'a'"
    ):
        with_visits(data, VisitColumns(*(column[found.user != 0] for column in found)), "here")
    with pytest.raises(
        InputError, match="here: 1 visits are of no row, such as that of user 'ann', item 'd'"
    ):
        strange = VisitColumns(
            *(np.append(column, more) for column, more in zip(found, (0, 3, 5, 99), strict=True))
        )
        with_visits(data, strange, "here")
    with pytest.raises(ValueError, match="other rows"):
        replace(data, item=data.item[:-1])
