"""`Recipe`: a published data set that the user downloads by hand, read untouched by a preset. Each
table of recipes in `data/sets/` becomes the DATASETS of its file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, final

from .columns import assemble
from .dataset import Dataset
from .fetch import FileSource
from .files import read_table
from .folders import add_features, first_file, part_files, read_folder
from .home import find
from .interactions import Interactions
from .likes import ANY
from .options import LoadOptions
from .presets import preset_options


@final
class ItemsFile(NamedTuple):
    """The file that describes the items of a data set."""

    name: str
    """Its name."""
    columns: Mapping[str, str]
    """The column of each feature."""
    options: Mapping[str, Any] = {}
    """The options of loading by name."""


@final
class Recipe(NamedTuple):
    """A published data set: where it is, on what terms, and how its files are read."""

    name: str
    """The name by which it is loaded."""
    summary: str
    """Size and kind, one line."""
    preset: str
    """The preset that reads the rows."""
    files: tuple[str, ...]
    """The files of the rows, any of which will do; with none, the folder holds parts of them."""
    origin: str
    """The place to get them from."""
    terms: str
    """The permitted use."""
    citation: str
    """The work to cite."""
    items: ItemsFile | None = None
    """The file of the items."""
    asks: str = ""
    """What the user has to say before rows count as likes; "" if the rows leave nothing to ask."""
    sources: tuple[FileSource, ...] = ()
    """The sources of `fetch`."""
    folder: str = ""
    """The folder below the data folder; that of the name by default."""
    family: str = ""
    """The data sets of one kind that are listed as one."""


def datasets_of(recipes: Iterable[Recipe]) -> dict[str, Dataset]:
    """Returns the data sets of some recipes by name."""
    return {recipe.name: _dataset(recipe) for recipe in recipes}


def _dataset(recipe: Recipe) -> Dataset:
    return Dataset(
        name=recipe.name,
        summary=recipe.summary,
        terms=recipe.terms,
        citation=recipe.citation,
        origin=recipe.origin,
        folder=recipe.folder or recipe.name,
        files=recipe.files,
        sources=recipe.sources,
        asks=recipe.asks,
        family=recipe.family,
        read=lambda folder: _read(recipe, folder),
    )


def _read(recipe: Recipe, folder: Path) -> Interactions:
    """Returns the interactions in a folder, with the features of the items if their file is there
    too.
    """
    # Where the user is asked, all rows are read, and the user's rule judges them.
    rule = {"likes": ANY} if recipe.asks else {}
    asked = LoadOptions.parse({"format": recipe.preset, **rule}, recipe.name)
    if part_files(folder):
        options = preset_options(first_file(folder), asked)
        data = read_folder(folder, options, name=recipe.name)
    else:
        path = find(folder, *recipe.files)
        assert path is not None
        options = preset_options(path, asked)
        data = assemble(read_table(path, options), options, name=recipe.name)
    if recipe.asks:
        data = _unjudged(data)
    items = None if recipe.items is None else find(folder, recipe.items.name)
    if recipe.items is None or items is None:
        return data
    reading = LoadOptions.parse(recipe.items.options, recipe.name)
    return add_features(data, items, reading, columns=recipe.items.columns)


def _unjudged(data: Interactions) -> Interactions:
    """Returns all rows as rows that no rule has judged yet."""
    said = f"(likes={ANY})"
    notes = tuple(note for note in data.reading.notes if said not in note)
    return replace(data, reading=data.reading._replace(likes="", notes=notes))
