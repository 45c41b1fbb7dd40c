"""Published files are read untouched by the names of their recipes, and by names of data sets. The
files are look-alikes of a few hundred rows, which `lookalikes` makes in the forms of the published
ones.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from entrenous_field.sets.recipes import DATASETS, recipes
from lookalikes import FILES, ITEMS, of_users, rows, write

from entrenous.core.errors import InputError
from entrenous.data.dataset import dataset
from entrenous.data.load import load

# The look-alike of the rows of each data set, and the name of its file where that is another one.
LIKE = {
    "amazon-video": ("amazon-2014 reviews", "reviews_Amazon_Instant_Video_5.json.gz"),
    "douban-movie": ("douban", None),
    "filmtrust": ("filmtrust", None),
    "gowalla": ("gowalla", None),
    "hetrec-2k": ("hetrec-movielens", None),
    "lastfm-2k": ("lastfm-hetrec", None),
    "mind": ("mind", None),
    "ml-10m": ("movielens 1m", None),
    "ml-20m": ("movielens", None),
    "ml-25m": ("movielens", None),
    "ml-32m": ("movielens", None),
    "steam": ("steam", None),
    "tenrec-qb-article": ("tenrec", None),
    "tenrec-qk-article": ("tenrec", "QK-article.csv"),
    "tenrec-qk-video": ("tenrec video", None),
    "tenrec-qb-video": ("tenrec video", "QB-video.csv"),
    "yelp": ("yelp", None),
}
# The files of items: the name, the lines, and the title of the third item.
FILMS = "movieId,title,genres\n" + "".join(f'{i},"Film, {i}",Drama|War\n' for i in range(ITEMS))
ABOUT = {
    "ml-25m": ("movies.csv", FILMS),
    "ml-10m": ("movies.dat", "".join(f"{i}::Film, {i}::Drama|War\n" for i in range(ITEMS))),
    "lastfm-2k": (
        "artists.dat",
        "id\tname\turl\tpictureURL\n" + "".join(f"{i}\tFilm, {i}\tu\tp\n" for i in range(ITEMS)),
    ),
    "mind": (
        "news.tsv",
        "".join(f"N{i}\tDrama|War\tx\tFilm, {i}\ta\tu\t[]\t[]\n" for i in range(ITEMS)),
    ),
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ENTRENOUS_DATA", str(tmp_path))
    return tmp_path


def put(name: str, home: Path) -> Path:
    """Writes the look-alike of a data set where its recipe says."""
    kind, file = LIKE[name]
    folder = home / dataset(name).path.relative_to(home)
    folder.mkdir(parents=True, exist_ok=True)
    path = write(kind, folder)
    return path.rename(folder / (file or path.name))


@pytest.mark.parametrize("name", LIKE)
def test_a_data_set_by_its_name(name: str, home: Path) -> None:
    path = put(name, home)
    data = load(name, fetch=False)
    lost = 10 if name == "mind" else 0
    assert data.name == name and len(rows_of()) - lost <= len(data) <= len(rows_of())
    assert path.name in DATASETS[name].files


def rows_of() -> list[tuple[int, int, int]]:
    return list(rows())


@pytest.mark.parametrize("name", ABOUT)
def test_the_items_are_described(name: str, home: Path) -> None:
    path = put(name, home)
    file, content = ABOUT[name]
    (path.parent / file).write_text(content)
    data = load(name, fetch=False)
    item = data.items[2]
    assert data.features["title"][2] == f"Film, {item.lstrip('N')}"
    if name != "lastfm-2k":
        assert data.features["category"][2] == "Drama|War"


def test_yelp_has_places_and_categories(home: Path) -> None:
    path = put("yelp", home)
    businesses = load("yelp", fetch=False).items.ids
    about = {"name": "Bar", "categories": "Bars, Food", "latitude": 1.5, "longitude": 2}
    text = "".join(json.dumps({"business_id": each, **about}) + "\n" for each in businesses)
    (path.parent / "yelp_academic_dataset_business.json").write_text(text)
    data = load("yelp", fetch=False)
    assert data.features["title"][0] == "Bar" and data.places is not None
    assert data.places[0].tolist() == [1.5, 2]


def test_what_was_shown_and_not_clicked_is_left_out_and_said(home: Path) -> None:
    put("tenrec-qb-article", home)
    data = load("tenrec-qb-article", fetch=False)
    (left_out,) = data.reading.left_out
    assert left_out.rows == len(rows_of()) and "'click' says no" in left_out.reason
    assert any("share" in use.name and not use.role for use in data.reading.columns)


PAIRS = len(list(rows()))
UNRATED = {"book-crossing", "goodreads", "goodreads poetry"}
WITHOUT_TIMES = {
    "anime",
    "book-crossing",
    "citeulike",
    "filmtrust",
    "goodreads",
    "lastfm-360k",
    "lastfm-hetrec",
    "lightgcn",
    "msd",
    "tenrec",
    "tenrec video",
}


@pytest.mark.parametrize("kind", FILES)
def test_a_published_file_loads_untouched(kind: str, tmp_path: Path) -> None:
    # Strict: a preset leaves nothing to be guessed.
    data = load(write(kind, tmp_path), format=kind.split(" ")[0], strict=True)
    # Each user's two last items are clicked, and the first user has no history.
    lost = len(of_users()[0]) - 2 if kind == "mind" else 0
    pairs = [(user, item) for user, item, _ in rows()]
    if kind in UNRATED:
        # A rating of 0 is none: these rows are left out, and counted.
        pairs = [(user, item) for user, item in pairs if user * item % 6]
    assert len(data) == len(pairs) - lost
    assert len(data.users) == len({user for user, _ in pairs})
    assert (data.time is None) == (kind in WITHOUT_TIMES)


def test_every_look_alike_has_a_recipe() -> None:
    assert {kind.split(" ")[0] for kind in FILES} <= recipes().keys()


@pytest.mark.parametrize("kind", ["yelp", "gowalla", "amazon-2018"])
def test_another_file_is_refused_by_its_first_line(kind: str, tmp_path: Path) -> None:
    path = write("movielens", tmp_path)
    with pytest.raises(InputError, match=rf"ratings.csv:1: .* published file of {kind}"):
        load(path, format=kind)


def test_an_option_of_the_user_comes_first(tmp_path: Path) -> None:
    path = write("kuairec", tmp_path)
    assert load(path, format="kuairec", value="").value.max() == 1
    # Without ratings, a book without one counts like the others.
    assert len(load(write("book-crossing", tmp_path), format="book-crossing", value="")) == PAIRS
