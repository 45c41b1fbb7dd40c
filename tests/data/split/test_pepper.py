"""PEPPER's splits: the published parts on small folders with every defect, and on the real files;
and the drawn weighting sets.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from published_splits import Part, free, present, refused_split, write_pepper
from small_data import interactions, random_data, rows_of

from entrenous.core.errors import InputError
from entrenous.data.dataset import dataset
from entrenous.data.interactions import NO_TIME, Interactions
from entrenous.data.split.export import write
from entrenous.data.split.protocol import splits
from entrenous.data.split.types import Split

ITEMS = [f"i{n:03}" for n in range(120)]
ROWS = [
    ("cas", "i009", 3),
    ("ann", "i003", 30),
    ("ann", "i001", 10),
    ("bob", "i005", 10),
    ("ann", "i002", 20),
    ("bob", "i004", 7),
    ("bob", "i006", 5),
    ("bob", "i007", 7),
    ("cas", "i008", 1),
    ("cas", "i010", 2),
    ("dot", "i010", 4),
]
DATA = interactions(ROWS, items=ITEMS, name="ml-100k")
PARTS: list[Part] = [
    ("bob", "i005", "train"),
    ("bob", "i004", "train"),
    ("ann", "i001", "train"),
    ("cas", "i008", "train"),
    ("bob", "i006", "validation"),
    ("ann", "i003", "validation"),
    ("cas", "i009", "validation"),
    ("bob", "i007", "test"),
    ("ann", "i002", "test"),
    ("cas", "i010", "test"),
]
NEGATIVES = {row: free(DATA, row[0], 9) for row in PARTS if row[2] != "train"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder for one test."""
    monkeypatch.setenv("ENTRENOUS_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def folder(home: Path) -> Path:
    """`ml-100k` in it, as published."""
    write_pepper(home / "ml-100k", PARTS, NEGATIVES)
    return home / "ml-100k"


def parts(split: Split) -> list[set[tuple[str, str]]]:
    assert split.validation is not None
    return [rows_of(part) for part in (split.train, split.validation.rows, split.test.rows)]


def published(label: str, users: str = "ann bob cas") -> set[tuple[str, str]]:
    return {(user, item) for user, item, part in PARTS if part == label and user in users.split()}


def candidates(split: Split, user: str) -> list[str]:
    """The candidates of a user's first test row."""
    assert split.test.candidates is not None
    row = split.test.candidates[int(split.test.rows.ptr[split.train.users.index(user)])]
    return [split.train.items[item] if item >= 0 else "-" for item in row.tolist()]


def refused(match: str, data: Interactions = DATA, protocol: str = "pepper-given") -> str:
    """The one line with which a split is refused."""
    return refused_split(match, data, protocol)


# ---- pepper-given --------------------------------------------------------------------------------


def test_the_parts_are_the_published_ones_and_validation_is_the_weighting_set(folder: Path) -> None:
    split = splits("pepper-given", DATA)[0]
    assert parts(split) == [published(label) for label in ("train", "validation", "test")]
    assert (split.name, split.refit, split.weighting) == ("pepper-given", False, True)
    assert rows_of(split.final_train) == published("train")
    assert (
        split.notes[0]
        == "parts: those that PEPPER (Belal et al. 2022) published, of the first 3 of their 3 users"
    )


def test_users_are_numbered_as_published_and_others_are_not_in_the_split_but_every_item_is(
    folder: Path,
) -> None:
    split = splits("pepper-given", DATA)[0]
    assert split.train.users.ids.tolist() == ["bob", "ann", "cas"]  # dot has no published row
    assert split.train.items is DATA.items and split.train.catalogue[:2] == (3, 120)


def test_candidates_are_the_published_ones_in_their_order(folder: Path) -> None:
    split = splits("pepper-given", DATA)[0]
    for user, item, part in NEGATIVES:
        if part == "test":
            assert candidates(split, user) == NEGATIVES[user, item, part]
    assert not [note for note in split.notes if "negatives" in note]


def test_the_seed_has_no_effect(folder: Path) -> None:
    one, other = (splits("pepper-given", DATA, seed=seed)[0] for seed in (0, 7))
    assert parts(one) == parts(other) and np.array_equal(one.test.candidates, other.test.candidates)


def test_a_negative_competes_once_and_never_with_itself(folder: Path) -> None:
    """bob's list holds the held-out i007 and i050 three times; i004 is a training row of his and
    i006 one of his weighting set.
    """
    listed = ["i050", "i007", "i050", "i004", "i060", "i006", "i050", "i061", "i062"]
    write_pepper(folder, PARTS, {**NEGATIVES, ("bob", "i007", "test"): listed})
    split = splits("pepper-given", DATA)[0]
    assert candidates(split, "bob") == [
        "i050",
        "-",
        "-",
        "i004",
        "i060",
        "i006",
        "-",
        "i061",
        "i062",
    ]
    assert split.notes[1:4] == (
        "test candidates that are the held-out item itself, left out: 1",
        "test candidates that repeat in their list, left out: 2",
        "test candidates that their user has a row of, kept: 2",
    )


def test_a_row_of_two_parts_stays_in_the_first_of_training_test_and_validation(
    folder: Path,
) -> None:
    """bob's i004 is test as well, ann's i002 is in her weighting set as well, cas's i009 is
    repeated in it with other negatives.
    """
    more: list[Part] = [
        ("bob", "i004", "test"),
        ("ann", "i002", "validation"),
        ("cas", "i009", "validation"),
    ]
    negatives = {**NEGATIVES, more[0]: free(DATA, "bob", 9), more[1]: free(DATA, "ann", 9)}
    write_pepper(folder, [*PARTS, *more], negatives)
    split = splits("pepper-given", DATA)[0]
    assert parts(split) == [published(label) for label in ("train", "validation", "test")]
    assert split.notes[1:4] == (
        "published rows that stand twice in their part, kept once: 1",
        "published test rows left out, as they are also training rows: 1",
        "published validation rows left out, as they are also training or test rows: 1",
    )


def test_of_two_lists_of_one_row_the_first_counts(folder: Path) -> None:
    frame = pl.read_parquet(folder / "pepper_negatives.parquet")
    again = frame.with_columns(pl.lit([f"i1{n:02}" for n in range(9)]).alias("negative_item_ids"))
    pl.concat([frame, again]).write_parquet(folder / "pepper_negatives.parquet")
    assert candidates(splits("pepper-given", DATA)[0], "bob") == NEGATIVES["bob", "i007", "test"]


def test_it_can_be_exported_and_read_back(folder: Path, tmp_path: Path) -> None:
    split = splits("pepper-given", DATA)[0]
    back = splits("given", given=write(split, tmp_path / "out"))[0]
    assert parts(back) == parts(split) and candidates(back, "ann") == candidates(split, "ann")
    assert back.weighting and not back.refit and back.notes == split.notes


def test_a_folder_that_does_not_say_what_weighs_is_refused(folder: Path, tmp_path: Path) -> None:
    about = write(splits("pepper-given", DATA)[0], tmp_path / "out") / "split.json"
    known = json.loads(about.read_text())
    assert known.pop("weighting") is True
    for wrong in (known, {**known, "weighting": "perhaps"}):
        about.write_text(json.dumps(wrong))
        with pytest.raises(InputError, match="expected an object with name, refit, weighting"):
            splits("given", given=about.parent)


# ---- what it refuses -----------------------------------------------------------------------------


def test_other_data_is_refused_with_the_names_that_have_it(folder: Path) -> None:
    said = refused("no rows that pepper held out", replace(DATA, name="ml-1m"))
    assert "one of foursquare-nyc, gowalla-nyc-pepper, ml-100k" in said


@pytest.mark.parametrize("name", ["ml-100k", "foursquare-nyc", "gowalla-nyc-pepper"])
def test_missing_tables_are_refused_with_where_to_get_them(name: str, home: Path) -> None:
    said = refused("PEPPER's parts are not in", replace(DATA, name=name))
    assert (
        str(dataset(name).path) in said
        and "github.com/YacineBelal/PEPPER" in said
        and "pepper-85-15" in said
    )


@pytest.mark.parametrize("n", [0, 4, 943])
def test_a_number_of_users_they_do_not_have_is_refused(n: int, folder: Path) -> None:
    assert "use pepper-given-3" in refused(
        f"'pepper-given-{n}' asks for {n} users, but .* has 3", protocol=f"pepper-given-{n}"
    )


def broken(folder: Path, name: str, change: pl.Expr) -> None:
    path = folder / f"{name}.parquet"
    pl.read_parquet(path).with_columns(change).write_parquet(path)


@pytest.mark.parametrize(
    ("table", "change", "match"),
    [
        (
            "splits",
            pl.lit("dev").alias("split"),
            "row 0: the part is 'dev'; expected one of train, test, validation",
        ),
        (
            "negatives",
            pl.lit(["x"] * 9).alias("negative_item_ids"),
            "the negative 'x' is no item of the data",
        ),
        (
            "negatives",
            pl.lit("i010").alias("negative_item_ids"),
            "no column 'negative_item_ids' of lists",
        ),
        (
            "negatives",
            pl.col("negative_item_ids").list.head(pl.row_index()),
            "rows differ in length",
        ),
        (
            "negatives",
            pl.lit("train").alias("split"),
            "validation rows without published negatives: 3; the first is of user 'bob'",
        ),
        (
            "negatives",
            pl.lit("ann").alias("user_id"),
            "validation rows without published negatives: 2; the first is of user 'bob'",
        ),
    ],
)
def test_tables_that_cannot_be_theirs_are_refused(
    table: str, change: pl.Expr, match: str, folder: Path
) -> None:
    broken(folder, f"pepper_{table}", change)
    refused(match)


@pytest.mark.parametrize(
    ("table", "column"), [("splits", "item_id"), ("splits", "split"), ("negatives", "user_id")]
)
def test_a_missing_column_is_named(table: str, column: str, folder: Path) -> None:
    path = folder / f"pepper_{table}.parquet"
    pl.read_parquet(path).drop(column).write_parquet(path)
    refused(f"pepper_{table}: no column '{column}'")


# ---- foursquare-nyc: PEPPER's own numbers, rows that the data lacks ------------------------------


def foursquare(home: Path) -> Interactions:
    """`foursquare-nyc`: PEPPER numbers users and venues by first appearance; dot's check-ins were
    not recovered.
    """
    folder = home / "foursquare-nyc"
    write_pepper(folder, [*PARTS, ("bob", "i020", "train")], NEGATIVES)
    numbers = {"bob": 0, "ann": 1, "cas": 2}
    splits_ = pl.read_parquet(folder / "pepper_splits.parquet").with_columns(
        pl.col("user_id").replace_strict(numbers).alias("pepper_user"),
        pl.col("item_id").str.slice(1).cast(int).alias("pepper_item"),
    )
    splits_.write_parquet(folder / "pepper_splits.parquet")
    pl.read_parquet(folder / "pepper_negatives.parquet").select(
        "split",
        pl.col("user_id").replace_strict(numbers).alias("pepper_user"),
        pl.col("item_id").str.slice(1).cast(int).alias("pepper_item"),
        pl.col("negative_item_ids")
        .list.eval(pl.element().str.slice(1).cast(int))
        .alias("negative_pepper_items"),
    ).write_parquet(folder / "pepper_negatives.parquet")
    pl.DataFrame({"item_id": ITEMS[::-1], "first_seen_index": range(119, -1, -1)}).write_parquet(
        folder / "items.parquet"
    )
    return replace(DATA, name="foursquare-nyc")


def test_numbers_by_first_appearance_become_ids(home: Path) -> None:
    split = splits("pepper-given", foursquare(home))[0]
    assert parts(split)[1:] == [published(label) for label in ("validation", "test")]
    assert candidates(split, "bob") == NEGATIVES["bob", "i007", "test"]


def test_rows_that_the_data_lacks_are_kept_without_a_time(home: Path) -> None:
    split = splits("pepper-given", foursquare(home))[0]
    train = split.train
    assert rows_of(train) == published("train") | {("bob", "i020")}
    at = int(train.ptr[1]) - 1  # bob's last item
    assert (
        train.time is not None
        and (train.time == NO_TIME).nonzero()[0].tolist() == [at]
        and train.value[at] == 1
    )
    assert (
        train.row is not None
        and len(np.unique(train.row)) == len(train)
        and train.row[at] > DATA.row.max()
    )  # type: ignore[union-attr]
    assert (
        "published rows that the data lacks, kept with value 1 and without a time: 1" in split.notes
    )


def test_foursquares_items_must_tell_the_numbers(home: Path) -> None:
    data = foursquare(home)
    (home / "foursquare-nyc" / "items.parquet").unlink()
    assert "first_seen_index" in refused("PEPPER's numbers cannot be told", data)


# ---- pepper-85-15 --------------------------------------------------------------------------------

DRAWN = random_data(users=60, items=200, rows=1500, seed=2)


def test_test_and_weighting_set_have_the_same_size() -> None:
    split = splits("pepper-85-15", DRAWN)[0]
    assert split.validation is not None and split.weighting and not split.refit
    expected = [15 * n // 100 for n in DRAWN.counts.tolist()]
    assert split.test.rows.counts.tolist() == split.validation.rows.counts.tolist() == expected
    train, weighing, test = parts(split)
    assert train | weighing | test == rows_of(DRAWN) and len(train) + len(weighing) + len(
        test
    ) == len(DRAWN)
    few = sum(n == 0 for n in expected)
    assert any(
        note.startswith(f"users with too few rows for a test row, who stay in training: {few} ")
        for note in split.notes
    )


def test_other_numbers() -> None:
    split = splits("pepper-60-40", DRAWN)[0]
    assert (
        split.name == "pepper-60-40"
        and split.test.rows.counts.tolist() == (40 * DRAWN.counts // 100).tolist()
    )


def test_each_held_out_row_has_its_own_hundred_candidates() -> None:
    split, consumed = splits("pepper-85-15", DRAWN)[0], rows_of(DRAWN)
    assert split.validation is not None
    for held in (split.validation, split.test):
        assert (
            held.candidates is not None
            and held.candidates.shape == (len(held.rows), 100)
            and held.candidates.min() >= 0
        )
        for user, row in zip(held.rows.user.tolist(), held.candidates.tolist(), strict=True):
            assert (
                len(set(row)) == 100
                and not {(DRAWN.users[user], DRAWN.items[item]) for item in row} & consumed
            )
        assert len({tuple(row) for row in held.candidates.tolist()}) == len(held.rows)


def test_the_seed_draws_it() -> None:
    one, again, other = (splits("pepper-85-15", DRAWN, seed=seed)[0] for seed in (0, 0, 1))
    assert parts(one) == parts(again) and np.array_equal(one.test.candidates, again.test.candidates)
    assert parts(one)[1] != parts(other)[1] and parts(one)[2] != parts(other)[2]


@pytest.mark.parametrize(
    ("protocol", "match"),
    [
        ("pepper-50-50", "leaves no training rows, with a weighting set"),
        ("pepper-30-70", "a test share below 50"),
        ("pepper-85-20", "does not add up"),
        ("pepper-100-0", "two positive percentages"),
    ],
)
def test_shares_that_cannot_be_are_refused(protocol: str, match: str) -> None:
    refused(match, DRAWN, protocol)


def test_a_catalogue_too_small_for_a_hundred_candidates_is_refused() -> None:
    data = random_data(items=110, rows=2000)
    said = refused("100 candidates are needed, but user '", data, "pepper-85-15")
    assert "or loo-full" in said


# ---- the real files ------------------------------------------------------------------------------


def sizes(split: Split) -> list[int]:
    assert split.validation is not None
    return [
        len(split.train.users),
        len(split.train.items),
        len(split.train),
        len(split.validation.rows),
        len(split.test.rows),
    ]


def test_foursquare_nyc(monkeypatch: pytest.MonkeyPatch) -> None:
    split = splits("pepper-given", present("foursquare-nyc", monkeypatch))[0]
    assert sizes(split) == [146, 38_333, 20_045, 2_033, 2_306]
    for note in (
        "published rows that stand twice in their part, kept once: 1,211",
        "published test rows left out, as they are also training rows: 203",
        "published rows that the data lacks, kept with value 1 and without a time: 328",
    ):
        assert note in split.notes


def test_gowalla_nyc_pepper(monkeypatch: pytest.MonkeyPatch) -> None:
    data = present("gowalla-nyc-pepper", monkeypatch)
    split = splits("pepper-given", data)[0]
    assert sizes(split) == [100, 10_978, 17_671, 2_204, 2_259]
    assert data.time is not None and data.time.min() >= 0 and all(data.features["lat"] != "")
    assert not [
        note for note in split.notes if "kept" in note
    ]  # nothing that a user consumed, nothing in two parts


def test_pepper_85_15_of_all_users(monkeypatch: pytest.MonkeyPatch) -> None:
    split = splits("pepper-85-15", present("ml-100k", monkeypatch))[0]
    assert sizes(split) == [943, 1682, 70_846, 14_577, 14_577]
