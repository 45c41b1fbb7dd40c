"""The named data sets: a suite run over every one that is discovered, and what each is known to
hold.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from paths import SHARED, absent

from entrenous.core.errors import InputError
from entrenous.core.registry.discover import offers
from entrenous.data.dataset import dataset
from entrenous.data.interactions import NO_TIME, SECOND, Interactions
from entrenous.data.load import load

SHAPES = {  # users, items, rows
    "foursquare-italy": (1353, 29772, 66971),
    "foursquare-italy-all": (6596, 34332, 89616),
    "foursquare-nyc": (1083, 38333, 91536),
    "gowalla-nyc": (2347, 2437, 41029),
    "gowalla-nyc-pepper": (100, 10978, 22134),
    "hetrec-ml": (2113, 8527, 171967),
    "ml-100k": (943, 1682, 100000),
    "ml-1m": (6040, 3706, 1000209),
    "pinterest-20": (37501, 9836, 1000154),
    "synthetic-fpl-brazil": (17473, 47270, 599958),
    "synthetic-fpl-canada": (1340, 29518, 63514),
    "yahoo-r3": (15400, 1000, 365704),
    "yahoo-r3-user": (15400, 1000, 311704),
}
# ml-100k.inter and .item in recbole 1.2.1
INTER_SHA256 = "4edb74e2a81178c2ba9ff381495f754f996c4aea351b1272ca36b43da0935eff"
ITEM_SHA256 = "51d7cdf777ce5c0f5b32c1d947a4a81fe07d75e78abbe761e0cd4d0756064532"
# u.data in GroupLens's ml-100k.zip
U_DATA_SHA256 = "06416e597f82b7342361e41163890c81036900f418ad91315590814211dca490"


@pytest.fixture(autouse=True)
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENTRENOUS_DATA", str(SHARED))


@cache
def present(name: str) -> Interactions:
    """The data set, read once by each process; the test is skipped where it is absent."""
    if not dataset(name).present():
        absent(name)
    return load(name, fetch=False)


@pytest.mark.parametrize("name", SHAPES)
def test_conformance(name: str) -> None:
    one, data = dataset(name), present(name)
    assert one.name == name == data.name
    assert all((one.summary, one.terms, one.citation, one.origin))
    assert data.notes and all(note.isprintable() and note for note in data.notes)
    check_arrays(data)
    again = load(name, fetch=False)
    for field in ("ptr", "item", "value", "time", "row"):
        left, right = getattr(data, field), getattr(again, field)
        assert (left is None and right is None) or np.array_equal(left, right), field
    assert np.array_equal(data.users.ids, again.users.ids) and np.array_equal(
        data.items.ids, again.items.ids
    )
    assert data.notes == again.notes


def check_arrays(data: Interactions) -> None:
    """The invariants of Interactions."""
    assert (data.ptr.dtype, data.item.dtype, data.value.dtype) == (np.int64, np.int32, np.float32)
    assert data.ptr[0] == 0 and data.ptr[-1] == len(data) and len(data.ptr) == len(data.users) + 1
    counts = data.counts
    assert counts.min() >= 1 and counts.max() < len(data.items)
    inside = np.diff(data.item) > 0  # ascending, no repeats, except where the next user begins
    inside[data.ptr[1:-1] - 1] = True
    assert inside.all()
    assert data.item.min() >= 0 and data.item.max() < len(data.items)
    assert np.isfinite(data.value).all()
    for column in (data.time, data.row):
        assert column is None or (column.dtype == np.int64 and len(column) == len(data))
    assert (
        data.row is None
        or np.array_equal(np.sort(data.row), np.arange(len(data)))
        or len(np.unique(data.row)) == len(data)
    )
    for names in (data.users, data.items):
        assert len(np.unique(names.ids)) == len(names)
    for column in data.features.values():
        assert isinstance(column[0], str) and len(column) == len(data.items)


@pytest.mark.parametrize("name", SHAPES)
def test_shape(name: str) -> None:
    data = present(name)
    assert (len(data.users), len(data.items), len(data)) == SHAPES[name]


def test_every_named_set_has_a_known_shape() -> None:
    # Those of recipes are read as look-alikes: packages/entrenous-field/tests/test_recipes.py.
    assert set(SHAPES) == set(offers("entrenous.data.sets", "DATASETS"))


def test_movielens_titles_categories_and_first_row() -> None:
    data = present("ml-100k")
    toy_story = data.items.index("1")
    assert data.features["title"][toy_story] == "Toy Story (1995)"
    assert data.features["category"][toy_story] == "Animation|Children's|Comedy"
    assert data.row is not None and data.time is not None
    first = int(np.argmin(data.row))
    assert (data.users[int(data.user[first])], data.items[int(data.item[first])]) == ("196", "242")
    assert (data.value[first], data.time[first]) == (3, 881250949 * SECOND)
    assert data.features["title"][data.items.index("267")] == "unknown"


def recbole_files(folder: Path) -> None:
    """The two files of the wheel, byte for byte, written anew from the Parquet files."""
    rows = pl.read_parquet(SHARED / "ml-100k" / "interactions.parquet").write_csv(
        separator="\t", include_header=False
    )
    films = ["item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq"]
    for item, title, _, genres in pl.read_parquet(SHARED / "ml-100k" / "items.parquet").iter_rows():
        found = re.fullmatch(r"(.*) \((\d{4}|V)\) ?", title)
        name, year = found.groups() if found else ("unkonwn", "unkonwn")
        films.append(f"{item}\t{name}\t{year}\t{genres.replace('|', ' ')}")
    (folder / "ml-100k.inter").write_text(
        "user_id:token\titem_id:token\trating:float\ttimestamp:float\n" + rows
    )
    (folder / "ml-100k.item").write_bytes(("\n".join(films) + "\n").encode())


def grouplens_files(folder: Path) -> None:
    """u.data as GroupLens ships it, and a u.item of its form: Latin-1, one flag for each of 19
    genres.
    """
    genres = (
        "unknown Action Adventure Animation Children's Comedy Crime Documentary Drama Fantasy"
        " Film-Noir Horror Musical Mystery"
    )
    genres = [*genres.split(), "Romance", "Sci-Fi", "Thriller", "War", "Western"]
    films = []
    for item, title, date, mine in pl.read_parquet(
        SHARED / "ml-100k" / "items.parquet"
    ).iter_rows():
        flags = "|".join("1" if genre in mine.split("|") else "0" for genre in genres)
        films.append(
            f"{item}|{title}|{date or ''}||http://us.imdb.com/M/title-exact?{item}|{flags}\n"
        )
    rows = pl.read_parquet(SHARED / "ml-100k" / "interactions.parquet").write_csv(
        separator="\t", include_header=False
    )
    (folder / "u.data").write_text(rows)
    (folder / "u.item").write_bytes("".join(films).encode("latin-1"))


@pytest.mark.parametrize("write", [recbole_files, grouplens_files])
def test_all_sources_of_movielens_are_the_same_data(
    write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parquet = present("ml-100k")
    (tmp_path / "ml-100k").mkdir()
    write(tmp_path / "ml-100k")
    monkeypatch.setenv("ENTRENOUS_DATA", str(tmp_path))
    other = load("ml-100k", fetch=False)
    for field in ("ptr", "item", "value", "time", "row"):
        assert np.array_equal(getattr(parquet, field), getattr(other, field)), field
    assert np.array_equal(parquet.users.ids, other.users.ids) and np.array_equal(
        parquet.items.ids, other.items.ids
    )
    for feature in ("title", "category"):
        assert np.array_equal(parquet.features[feature], other.features[feature]), feature


def test_the_files_above_are_those_of_the_wheel_and_the_archive(tmp_path: Path) -> None:
    present("ml-100k")
    recbole_files(tmp_path)
    grouplens_files(tmp_path)
    digest = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in tmp_path.iterdir()
    }
    assert digest["ml-100k.inter"] == INTER_SHA256
    assert digest["ml-100k.item"] == ITEM_SHA256
    assert digest["u.data"] == U_DATA_SHA256


def test_foursquare_italy_is_the_papers_selection_and_says_so() -> None:
    data, whole = present("foursquare-italy"), present("foursquare-italy-all")
    assert data.counts.min() == 20
    assert any("users with >= 20 and" in note for note in data.notes)
    assert set(data.users.ids) <= set(whole.users.ids)
    assert len(set(data.features["category"])) == 9
    assert "Coffee Shop" in set(data.features["title"])


def test_missing_times_of_ml_1m_are_marked_and_said() -> None:
    data = present("ml-1m")
    assert data.time is not None
    assert int((data.time == NO_TIME).sum()) == 519881
    assert "rows without a time: 519,881 of 1,000,209" in data.notes


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean 'ml-100k'"):
        load("ml100k")


def test_a_named_set_is_read_its_own_way() -> None:
    with pytest.raises(InputError, match="'user' does not apply"):
        load("ml-100k", user="uid")


def test_likes_of_a_named_set_keep_their_ratings() -> None:
    data, liked = present("ml-100k"), load("ml-100k", likes="at_least=4")
    assert len(liked) == int((data.value >= 4).sum()) == 55375
    assert set(liked.value.tolist()) == {4, 5} and liked.reading.likes == "at_least=4"
    # The scale that the data set declares stays that of the ratings.
    assert liked.rating_scale == (1, 5)
