"""NCF's own test rows: on a small data folder with every defect, and on the real files where they
are.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from paths import SHARED
from published_splits import free, present, refused_split, write_ncf, write_rows
from small_data import interactions, rows_of

from entrenous.core.keys import key
from entrenous.data.dataset import dataset
from entrenous.data.interactions import NO_TIME, Interactions
from entrenous.data.split.export import write
from entrenous.data.split.leave_one_out import draw_candidates
from entrenous.data.split.protocol import splits

ITEMS = [f"i{n:03}" for n in range(120)]
ROWS = [
    ("ann", "i003", 30),
    ("ann", "i001", 10),
    ("ann", "i002", 20),
    ("bob", "i005", 10),
    ("bob", "i004", NO_TIME),
    ("bob", "i006", 5),
    ("bob", "i007", 7),
    ("cas", "i009", 2),
    ("cas", "i008", 1),
    ("dot", "i010", 4),
]
TEST = {
    "ann": "i002",
    "bob": "i006",
    "cas": "i009",
    "dot": "i010",
}  # neither the latest nor the first of their users
DATA = interactions(ROWS, items=ITEMS, name="ml-1m")
NEGATIVES = {user: free(DATA, user) for user in TEST}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder for one test."""
    monkeypatch.setenv("ENTRENOUS_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def folder(home: Path) -> Path:
    """`ml-1m` in it, whole."""
    made = write_rows(home, DATA)
    write_ncf(made, TEST, NEGATIVES)
    return made


def refused(match: str, data: Interactions = DATA, protocol: str = "ncf-99") -> str:
    """The one line with which a split is refused."""
    return refused_split(match, data, protocol)


# ---- what it holds out ---------------------------------------------------------------------------


def test_test_rows_are_the_published_ones_and_so_are_their_candidates(folder: Path) -> None:
    split = splits("ncf-99", DATA, seed=4)[0]
    assert split.name == "ncf-99" and split.refit
    assert rows_of(split.test.rows) == set(TEST.items())
    assert split.test.candidates is not None and split.test.candidates.shape == (4, 99)
    for user, row in zip(
        split.test.rows.user.tolist(), split.test.candidates.tolist(), strict=True
    ):
        assert [DATA.items[item] for item in row] == NEGATIVES[DATA.users[user]]
    assert (
        split.notes[0]
        == "test rows: those that NCF (He et al. 2017) held out; each against the 99 negatives"
        " published with it"
    )


def test_validation_is_the_latest_remaining_row_where_all_times_are_known(folder: Path) -> None:
    """ann has i001 at 10 and i003 at 30 left; cas only i008, which stays in training; of bob's
    three rows one has no time.
    """
    split = splits("ncf-99", DATA)[0]
    assert split.validation is not None
    held = rows_of(split.validation.rows)
    assert ("ann", "i003") in held and {user for user, _ in held} == {"ann", "bob"}
    assert rows_of(split.train) >= {("ann", "i001"), ("cas", "i008")}
    said = (
        "the latest remaining row of 1 users; a remaining row drawn at random of 1 users whose"
        " times are not all known"
    )
    assert f"validation rows: {said}" in split.notes
    expected = draw_candidates(
        DATA, split.validation.rows.user, 99, key(0, "candidates", "validation")
    )
    assert np.array_equal(split.validation.candidates, expected)


def test_without_a_time_the_seed_draws_the_validation_row(folder: Path) -> None:
    drawn = set()
    for seed in range(20):
        split = splits("ncf-99", DATA, seed=seed)[0]
        assert split.validation is not None and rows_of(split.test.rows) == set(TEST.items())
        drawn |= {item for user, item in rows_of(split.validation.rows) if user == "bob"}
    assert drawn == {
        "i004",
        "i005",
        "i007",
    }  # a fair draw misses one of three in 20 with probability 0.0009


@pytest.mark.parametrize(
    ("user", "negative", "left", "note"),
    [
        ("bob", "i006", [99, 98, 99, 99], "that are the held-out item itself"),
        ("ann", "i001", [98, 99, 99, 99], "that their user has a row of"),
    ],
)
def test_a_negative_that_its_user_has_does_not_compete(
    folder: Path, user: str, negative: str, left: list[int], note: str
) -> None:
    write_ncf(folder, TEST, {**NEGATIVES, user: [negative, *NEGATIVES[user][1:]]})
    split = splits("ncf-99", DATA)[0]
    assert split.test.candidates is not None
    assert (split.test.candidates >= 0).sum(axis=1).tolist() == left
    assert split.test.candidates[left.index(98), 0] == -1
    assert f"test candidates {note}, left out: 1" in split.notes


def test_it_can_be_exported_and_read_back(folder: Path, tmp_path: Path) -> None:
    split = splits("ncf-99", DATA)[0]
    back = splits("given", given=write(split, tmp_path / "out"))[0]
    assert rows_of(back.test.rows) == set(TEST.items()) and back.test.candidates is not None
    assert {back.train.items[item] for item in back.test.candidates[0].tolist()} == set(
        NEGATIVES["ann"]
    )


# ---- pinterest-20: test rows without candidates, more users than the data has, no times ----------


def test_pinterest_draws_its_candidates_and_says_so(home: Path) -> None:
    data = interactions([row[:2] for row in ROWS], items=ITEMS, times=False, name="pinterest-20")
    write_rows(home, DATA).rename(home / "pinterest-20-partial")
    test = {**TEST, "eve": "i011", "fay": "i000"}
    write_ncf(home / "pinterest-20-partial", test, {})
    split = splits("ncf-99", data, seed=5)[0]
    assert rows_of(split.test.rows) == set(TEST.items()) and split.validation is not None
    assert {user for user, _ in rows_of(split.validation.rows)} == {"ann", "bob"}
    assert np.array_equal(
        split.test.candidates, draw_candidates(data, np.arange(4), 99, key(5, "candidates", "test"))
    )
    assert split.notes[:3] == (
        (
            "test rows: those that NCF (He et al. 2017) held out; NCF's negatives of pinterest-20"
            " could not be found, so 99 candidates are drawn as in loo-99"
        ),
        "test rows of NCF left out, as their users are not in the data: 2",
        "validation rows: a remaining row drawn at random of 2 users whose times are not all known",
    )


# ---- what it refuses -----------------------------------------------------------------------------


def test_data_of_which_ncf_published_nothing_is_refused_with_the_names_that_have_it(
    folder: Path,
) -> None:
    said = refused("no rows that ncf held out", replace(DATA, name="shop"))
    assert (
        said.startswith("shop: ") and "one of ml-1m, pinterest-20" in said and "use loo-99" in said
    )


@pytest.mark.parametrize("name", ["ml-1m", "pinterest-20"])
def test_missing_files_are_refused_with_where_to_get_them(name: str, home: Path) -> None:
    said = refused("NCF's test rows are not in", replace(DATA, name=name))
    assert (
        str(dataset(name).path) in said
        and "github.com/hexiangnan/neural_collaborative_filtering" in said
    )


def test_another_number_of_candidates_is_refused(folder: Path) -> None:
    assert "use ncf-99, or loo-50" in refused(
        "'ncf-50' asks for 50 candidates, but NCF published 99", protocol="ncf-50"
    )


def test_rows_that_a_filter_took_away_are_refused(folder: Path) -> None:
    fewer = DATA.select(DATA.item != DATA.items.index("i001"))
    assert "load ml-1m by name and without filters" in refused(
        "9 rows are not the 10 that NCF's test rows belong to", fewer
    )


def test_as_many_rows_but_others_are_refused(folder: Path) -> None:
    rows = [("cas", "i020", 2) if row[1] == "i009" else row for row in ROWS]
    refused(
        r"\(user 'cas', item 'i009' in .*ncf_test.csv\) is not among the rows",
        interactions(rows, items=ITEMS, name="ml-1m"),
    )


def test_a_user_without_a_test_row_is_refused(folder: Path) -> None:
    fewer = {user: item for user, item in TEST.items() if user != "bob"}
    write_ncf(folder, fewer, {user: NEGATIVES[user] for user in fewer})
    refused("user 'bob' has 0 test rows")


@pytest.mark.parametrize(
    ("negatives", "match"),
    [
        (
            {**NEGATIVES, "dot": [*NEGATIVES["dot"][:-1], "i999"]},
            "candidate 'i999' of user 'dot' is no item of the data",
        ),
        (
            {user: NEGATIVES[user][:7] for user in NEGATIVES},
            "7 negatives for each test row .* are not the 99 of NCF",
        ),
        ({**NEGATIVES, "ann": NEGATIVES["ann"][:7]}, "the lists of candidates differ in length"),
        (
            {user: NEGATIVES[user] for user in ("ann", "bob", "cas")},
            "its users are not those of the held-out rows",
        ),
    ],
)
def test_candidates_that_cannot_be_ncfs_are_refused(
    negatives: dict[str, list[str]], match: str, folder: Path
) -> None:
    write_ncf(folder, TEST, negatives)
    refused(match)


def test_tables_without_their_columns_are_refused(folder: Path) -> None:
    pl.DataFrame({"user_id": list(TEST), "item_ids": ["i001"] * 4}).write_parquet(
        folder / "ncf_test_negatives.parquet"
    )
    refused("no column 'item_ids' of lists")
    pl.DataFrame({"user_id": list(TEST), "film": list(TEST.values())}).write_csv(
        folder / "ncf_test.csv"
    )
    refused("no column 'item_id'")


# ---- the real files ------------------------------------------------------------------------------


def test_movielens_1m(monkeypatch: pytest.MonkeyPatch) -> None:
    data = present("ml-1m", monkeypatch)
    split = splits("ncf-99", data)[0]
    assert split.validation is not None and split.test.candidates is not None
    assert [len(split.train), len(split.validation.rows), len(split.test.rows)] == [
        988_129,
        6_040,
        6_040,
    ]
    frame = (
        pl.read_parquet(SHARED / "ml-1m" / "interactions.parquet")
        .filter("ncf_test")
        .select("user_id", "item_id")
        .cast(pl.String)
    )
    assert rows_of(split.test.rows) == set(frame.iter_rows())
    assert int((split.test.candidates < 0).sum()) == 156  # about 6,040 x 99 / 3,541
    assert any(
        "of 1,020 users; a remaining row drawn at random of 5,020 users" in note
        for note in split.notes
    )
    assert split.test.rows.time is not None and (split.test.rows.time != NO_TIME).all()


@pytest.mark.parametrize(
    ("name", "problem"),
    [("ml-1m", "519881 of 1000209 rows have no time"), ("pinterest-20", "the data has no times")],
)
def test_leave_one_out_refuses_rows_without_times_and_names_what_works(
    name: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = present(name, monkeypatch)
    assert "use random-80-20, or ncf-99 for a data set of which NCF published test rows" in refused(
        problem, data, "loo-100"
    )


def test_one_hundred_candidates_as_in_section_iv_b_of_cali3f(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    split = splits("loo-100", present("ml-100k", monkeypatch))[0]
    assert (
        split.test.candidates is not None
        and split.test.candidates.shape == (943, 100)
        and split.name == "loo-100"
    )
