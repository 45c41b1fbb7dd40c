"""Data sets that a user downloads by hand are read by their names. The files are look-alikes of a few
hundred rows, which `lookalikes` makes in the forms of the published ones.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lookalikes import ITEMS, rows, write
from recipes import RECIPES

import entrenous
from entrenous.cli import main
from entrenous.core.errors import InputError
from entrenous.data.dataset import dataset
from entrenous.data.fetch import Archive, Unavailable
from entrenous.data.load import load
from entrenous.data.recipe import data_sets, read_recipes, recipes

# The look-alike of the rows of each data set, and the name of its file where that is another one.
LIKE = {
    "amazon-video": ("amazon-2014 reviews", "reviews_Amazon_Instant_Video_5.json.gz"),
    "amazon-2018-All_Beauty": ("amazon-2018", "All_Beauty.csv"),
    "amazon-2018-Video_Games": ("amazon-2014 reviews", "Video_Games_5.json.gz"),
    "amazon-2023-Video_Games": ("amazon-2023", "Video_Games.jsonl.gz"),
    "douban-movie": ("douban", None),
    "filmtrust": ("filmtrust", None),
    "gowalla": ("gowalla", None),
    "hetrec-2k": ("hetrec-movielens", None),
    "kuairec": ("kuairec", None),
    "kuairec-small": ("kuairec", "small_matrix.csv"),
    "lastfm-2k": ("lastfm-hetrec", None),
    "mind": ("mind", None),
    "ml-10m": ("movielens 1m", None),
    "ml-20m": ("movielens", None),
    "ml-25m": ("movielens", None),
    "ml-32m": ("movielens", None),
    "netflix": ("netflix", None),
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
    rule: dict[str, Any] = {"likes": "positive"} if RECIPES[name].asks else {}
    data = load(name, fetch=False, **rule)
    lost = 10 if name == "mind" else 0
    assert data.name == name and len(rows_of()) - lost <= len(data) <= len(rows_of())
    assert path.name in RECIPES[name].files
    run = entrenous.run("popular", data, protocol="random-80-20", progress=False)
    assert len(run.recommend(data.users[0], 3)) == 3


def rows_of() -> list[tuple[int, int, int]]:
    return list(rows())


RECIPE = """
[fair]
about = "ratings of stalls"
terms = "none"

[[fair.files]]
name = "stalls.csv"
header = "who;stall;stars"
delimiter = ";"
user = "who"
item = "stall"
value = "stars"

[[fair.sets]]
name = "fair-CATEGORY"
categories = ["In_Spring", "2020"]
summary = "ratings of stalls: CATEGORY"
files = ["CATEGORY.csv"]
origin = "fair.example"
citation = "nobody"
"""


@pytest.fixture
def brought(
    home: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """A file of recipes as an installed package brings it."""
    path = tmp_path_factory.mktemp("package") / "more.toml"
    path.write_text(RECIPE)
    monkeypatch.setattr("entrenous.data.recipe.plugged", lambda group: {group: path})
    recipes.cache_clear()
    yield path
    recipes.cache_clear()


def test_an_installed_package_brings_recipes(brought: Path, home: Path) -> None:
    sets = data_sets()
    assert {"yelp", "fair-In_Spring", "fair-2020"} <= sets.keys()
    one = sets["fair-In_Spring"]
    assert (one.summary, one.family) == ("ratings of stalls: In Spring", "fair-CATEGORY")
    one.path.mkdir()
    lines = [f"{user};{item};{1 + user % 5}" for user, item, _ in rows()]
    (one.path / "In_Spring.csv").write_text("\n".join(["who;stall;stars", *lines, ""]))
    assert len(one.load(fetch=False)) == len(rows_of())


def test_a_recipe_of_another_file_is_not_replaced(brought: Path) -> None:
    brought.write_text(RECIPE.replace("fair", "yelp"))
    with pytest.raises(InputError, match=r"more\.toml: another file has 'yelp'"):
        recipes()


@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [
        ("user =", "usr =", ":10: 'usr' is wrong: .*; did you mean 'user'"),
        ("categories", "categoris", ":16: 'categoris' is wrong: .*; did you mean 'categories'"),
        ("terms", "licence", ":4: 'licence' is wrong"),
        ('files = ["CATEGORY.csv"]', "files = 3", ":18: 'files' is wrong: .* tuple"),
        ('about = "ratings of stalls"', "", ":2: 'about' is wrong: Field required"),
        ("[[fair.files]]", "[fair.files]", ":2: 'files' is wrong"),
        ('delimiter = ";"', 'delimiter = "long"', " delimiter: got 'long'"),
        ("name =", "name ", ": it is no TOML: .* line 7"),
    ],
)
def test_a_wrong_key_is_refused_with_its_line(
    right: str, wrong: str, says: str, tmp_path: Path
) -> None:
    path = tmp_path / "more.toml"
    path.write_text(RECIPE.replace(right, wrong, 1))
    with pytest.raises(InputError, match=f"more.toml{says}"):
        read_recipes(path)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_says_what_to_do(name: str, home: Path) -> None:
    one = RECIPES[name]
    assert all((one.summary, one.terms, one.citation, one.origin, one.files)) and not one.present()
    rule: dict[str, Any] = {"likes": "any"} if one.asks else {}
    with pytest.raises(InputError) as refused:
        load(name, fetch=False, **rule)
    message = str(refused.value)
    assert str(home / one.path.name) in message and one.files[0] in message
    assert one.terms in message and (one.origin in message or "data fetch" in message)


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


def test_kuairec_asks_which_share_is_a_like(home: Path) -> None:
    path = put("kuairec", home)
    path.write_text(path.read_text().replace(",0.5\n", ",0.0\n", 3))
    with pytest.raises(InputError, match="say from which share on") as refused:
        load("kuairec", fetch=False)
    assert "--load likes=positive" in refused.value.fix
    assert len(load("kuairec", fetch=False, likes="positive")) == len(rows_of()) - 3
    everything = load("kuairec", fetch=False, likes="any")
    assert len(everything) == len(rows_of()) and everything.reading.likes == "any"
    with pytest.raises(InputError, match="no row is a like"):
        load("kuairec", fetch=False, likes="at_least=2")


def test_what_was_shown_and_not_clicked_is_left_out_and_said(home: Path) -> None:
    put("tenrec-qb-article", home)
    data = load("tenrec-qb-article", fetch=False)
    (left_out,) = data.reading.left_out
    assert left_out.rows == len(rows_of()) and "'click' says no" in left_out.reason
    assert any("share" in use.name and not use.role for use in data.reading.columns)


def test_the_parts_of_netflix_are_one_table(home: Path) -> None:
    path = put("netflix", home)
    text = path.read_text()
    middle = text.index("\n30:\n") + 1
    path.write_text(text[:middle])
    (path.parent / "combined_data_2.txt").write_text(text[middle:])
    assert len(load("netflix", fetch=False)) == len(rows_of())


def test_the_list_has_terms_recipes_and_questions(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put("amazon-2023-Video_Games", home)
    with pytest.raises(SystemExit, match="0"):
        main(["data", "list"])
    listed = capsys.readouterr().out
    assert re.search("amazon-2018-CATEGORY +by hand", listed)
    assert "amazon-2023-Video_Games  here" in listed
    assert f"get: kuairec.com: big_matrix.csv; put it into {home / 'kuairec'}" in listed
    assert "asks: a view of any share" in listed
    assert listed.count("amazon-2018-") == 1


def test_an_archive_may_have_the_hash_that_its_makers_publish(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("ml/ratings.csv", "x")
    raw = content.getvalue()
    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: io.BytesIO(raw))
    md5 = f"md5:{hashlib.md5(raw).hexdigest()}"
    source = Archive("https://example.org/a.zip", md5, {"ratings.csv": "ml/ratings.csv"})
    assert source.read() == {"ratings.csv": b"x"}
    for digest in ("md5:" + "0" * 32, "0" * 64):
        with pytest.raises(Unavailable, match="changed on the way"):
            replace(source, digest=digest).read()
    with pytest.raises(Unavailable, match="more than 20 bytes"):
        replace(source, largest=20).read()
