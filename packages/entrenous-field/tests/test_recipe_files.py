"""Recipes of published data sets: files that installed packages bring, and what is wrong in one."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from entrenous_field.sets.recipes import data_sets, read_recipes, recipes

from entrenous.core.errors import InputError
from entrenous.data.fetch import Archive, Unavailable
from entrenous.data.load import load

RECIPE = """
[fair]
about = "ratings of stalls"

[[fair.files]]
name = "stalls.csv"
header = "who;stall;stars"
delimiter = ";"
user = "who"
item = "stall"
value = "stars"

[[fair.sets]]
name = "fair"
summary = "ratings of stalls"
files = ["stalls.csv"]
origin = "fair.example"
citation = "nobody"
terms = "none"
"""


STALLS = "who;stall;stars\nann;a;1\nann;b;2\nbob;a;3\nbob;c;4\n"
OTHER = RECIPE.replace("fair", "market").replace("who;", "whom;")


@pytest.fixture
def brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Path]]:
    """The files of recipes that installed packages bring, which a test may change."""
    paths = {"fair": tmp_path / "fair.toml", "market": tmp_path / "market.toml"}
    paths["fair"].write_text(RECIPE)
    paths["market"].write_text(OTHER)
    monkeypatch.setenv("ENTRENOUS_DATA", str(tmp_path / "home"))
    monkeypatch.setattr("entrenous_field.sets.recipes.plugged", lambda group: paths)
    recipes.cache_clear()
    yield paths
    recipes.cache_clear()


@pytest.mark.usefixtures("brought")
def test_installed_packages_bring_data_sets_and_formats(tmp_path: Path) -> None:
    one = data_sets()["fair"]
    assert one.summary == "ratings of stalls" and "market" in data_sets() and not one.present()
    one.path.mkdir(parents=True)
    path = one.path / "stalls.csv"
    path.write_text(STALLS)
    assert one.load(fetch=False).sha256() == load(path, format="fair", strict=True).sha256()
    with pytest.raises(InputError, match=r"stalls\.csv:1: .* published file of market"):
        load(path, format="market")


def test_a_recipe_of_another_file_is_not_replaced(brought: dict[str, Path]) -> None:
    brought["market"].write_text(RECIPE)
    with pytest.raises(InputError, match=r"market\.toml: another file has 'fair'"):
        recipes()


@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [
        ("user =", "usr =", r" \[fair.files.0.options\]: 'usr' is wrong: .*; did you mean 'user'"),
        ("citation", "citatoin", r" \[fair.sets.0\]: 'citatoin' is wrong: .* mean 'citation'"),
        ("terms", "licence", r" \[fair.sets.0\]: 'licence' is wrong"),
        ('files = ["stalls.csv"]', "files = 3", r" \[fair.sets.0\]: 'files' is wrong: .* tuple"),
        ('about = "ratings of stalls"', "", r" \[fair\]: 'about' is wrong: Field required"),
        ("[[fair.files]]", "[fair.files]", r" \[fair\]: 'files' is wrong"),
        ('delimiter = ";"', 'delimiter = "long"', " delimiter: got 'long'"),
        ("name =", "name ", ": it is no TOML: .* line 6"),
    ],
)
def test_a_wrong_key_is_refused_with_its_place(
    right: str, wrong: str, says: str, tmp_path: Path
) -> None:
    path = tmp_path / "more.toml"
    path.write_text(RECIPE.replace(right, wrong, 1))
    with pytest.raises(InputError, match=f"more.toml{says}"):
        read_recipes(path)


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
