"""Recipes: how the files of a published data set are read untouched, by the name of the data set
(`format=book-crossing`), and which data sets among them are loaded by a name. A recipe is a table
of a TOML file that an installed package brings (`entrenous.recipes`), as this one does. The library
asks by the engine `recipes` (core/registry/neighbours.py).
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, final

from pydantic import Field, model_validator

from entrenous.core.contract.settings import Settings
from entrenous.core.errors import InputError
from entrenous.core.registry.discover import pick
from entrenous.core.registry.plugins import plugged
from entrenous.data.columns import assemble
from entrenous.data.dataset import Dataset
from entrenous.data.fetch import LARGEST, Archive
from entrenous.data.files import HEAD, OPENERS, formats, read_table, unpacked
from entrenous.data.folders import add_features, first_file, part_files, read_folder
from entrenous.data.home import find
from entrenous.data.interactions import Interactions
from entrenous.data.options import LoadOptions

from .._tables import read_declared

# The entry point `entrenous.recipes`.
RECIPES = Path(__file__).with_name("recipes.toml")


@final
class PublishedFile(Settings):
    """A file of a data set as it was published: one table of interactions."""

    name: str = Field(description="its name")
    header: str = Field("", description="how its first line begins, without quotes")
    begins: str = Field("", description="the form of that line, a regular expression")
    options: LoadOptions = Field(description="the options of loading: all other keys")

    @model_validator(mode="before")
    @classmethod
    def _take_options(cls, table: Any) -> Any:
        if not isinstance(table, dict):
            return table
        options = {key: value for key, value in table.items() if key not in cls.model_fields}
        return {key: table[key] for key in table.keys() - options.keys()} | {"options": options}

    def begins_like(self, line: str) -> bool:
        """Returns True if the first line of a file, without quotes, is one of this file."""
        return line.startswith(self.header) and re.match(self.begins, line) is not None


@final
class NamedSet(Settings):
    """A data set that the user downloads by hand."""

    name: str = Field(description="the name by which it is loaded")
    summary: str = Field(description="size and kind, one line")
    files: tuple[str, ...] = Field(description="the files of the rows, any of which will do")
    origin: str = Field(description="the place to get them from")
    terms: str = Field(description="the permitted use")
    citation: str = Field(description="the work to cite")
    items: str = Field("", description="the file that describes the items")
    items_columns: Mapping[str, str] = Field({}, description="the column of each feature in it")
    items_options: LoadOptions = Field(LoadOptions(), description="the options of loading it")
    archive: str = Field("", description="the address of an archive with the files")
    digest: str = Field("", description="the hash of the archive")
    members: Mapping[str, str] = Field({}, description="the place of each file in it")
    largest: int = Field(LARGEST, gt=0, description="the most bytes of the archive")
    folder: str = Field("", description="the folder below the data folder; else that of the name")


@final
class Recipe(Settings):
    """A published data set: its files, and the data sets with a name among them."""

    about: str = Field(description="the rows, one line")
    files: tuple[PublishedFile, ...] = Field(description="the files, told apart by first lines")
    sets: tuple[NamedSet, ...] = Field((), description="the data sets with a name")


@cache
def recipes() -> dict[str, Recipe]:
    """Returns every recipe by name: those of installed packages (`entrenous.recipes`), each of
    which names a file. Raises InputError for a name that two files have.
    """
    known: dict[str, Recipe] = {}
    for path in plugged("recipes").values():
        brought = read_recipes(path)
        taken = known.keys() & brought.keys()
        if taken:
            raise InputError(str(path), f"another file has '{min(taken)}'", fix="rename it")
        known |= brought
    return dict(sorted(known.items()))


def read_recipes(path: Path) -> dict[str, Recipe]:
    """Returns the recipes in a file by name. Raises InputError with the place of a key that is
    unknown or has a wrong value.
    """
    keys = [*LoadOptions.model_fields, *NamedSet.model_fields, *Recipe.model_fields]
    return read_declared(path, dict[str, Recipe], keys)


# ---- files by the name of a recipe ---------------------------------------------------------------


def preset_options(path: Path, options: LoadOptions) -> LoadOptions:
    """Returns the options with those of the recipe that `options.format` names, as far as the user
    left them at their default.

    Raises InputError for an unknown name, and for a file that does not begin like the published
    one.
    """
    assert options.format is not None
    recipe = pick("format", options.format, {**formats(), **recipes()})
    rows = first_file(path) if path.is_dir() else path
    line = _first_line(rows).replace('"', "")
    for published in recipe.files:
        if published.begins_like(line):
            # The name of the recipe gives way to the format of its file, if that has to be said.
            unnamed = options.model_copy(update={"format": None})
            return _filled(unnamed, published.options)
    names = " or ".join(dict.fromkeys(published.name for published in recipe.files))
    raise InputError(
        f"{rows}:1",
        f"the file does not begin like {names}",
        expected=f"the published file of {options.format}",
        fix="leave format out, and name the columns (user=, item=, ...)",
    )


def _first_line(path: Path) -> str:
    """Returns the first line of a file, decompressed, without a byte order mark. Raises InputError
    as `read_table` does.
    """
    packed = path.suffix.lower()
    head = b""
    # A damaged stream raises errors of a dozen kinds.
    with suppress(Exception), open(path, "rb") as file:
        opened = OPENERS[packed](file) if packed in OPENERS else file
        head = opened.read(HEAD)
    # An archive is read as a whole, and so is a damaged file, which then says what is wrong.
    if not head or packed == ".zip":
        head = unpacked(path).content
    line = head.removeprefix(codecs.BOM_UTF8).lstrip(b"\r\n").partition(b"\n")[0]
    return line[:HEAD].decode("utf-8", "replace").rstrip("\r")


def _filled(options: LoadOptions, published: LoadOptions) -> LoadOptions:
    default = LoadOptions()
    # These judge the values of the recipe's own column, not those of another one.
    judging = ("likes", "not_rated") if options.value is not None else ()
    left = {
        name: getattr(published, name)
        for name in published.model_fields_set
        if getattr(options, name) == getattr(default, name) and name not in judging
    }
    return options.model_copy(update=left)


# ---- data sets by their name ---------------------------------------------------------------------


def data_sets() -> dict[str, Dataset]:
    """Returns the data sets of all recipes by name."""
    return {
        each.name: _dataset(name, each)
        for name, recipe in recipes().items()
        for each in recipe.sets
    }


def _dataset(recipe: str, each: NamedSet) -> Dataset:
    sources: tuple[Archive, ...] = ()
    if each.archive:
        sources = (Archive(each.archive, each.digest, each.members, each.largest),)
    return Dataset(
        name=each.name,
        summary=each.summary,
        terms=each.terms,
        citation=each.citation,
        origin=each.origin,
        folder=each.folder or each.name,
        files=each.files,
        sources=sources,
        read=partial(_read, recipe, each),
    )


def _read(recipe: str, each: NamedSet, folder: Path) -> Interactions:
    """Returns the interactions in a folder, with the features of the items if their file is there
    too.
    """
    asked = LoadOptions.parse({"format": recipe}, each.name)
    if part_files(folder):
        options = preset_options(first_file(folder), asked)
        data = read_folder(folder, options, name=each.name)
    else:
        path = find(folder, *each.files)
        assert path is not None
        options = preset_options(path, asked)
        data = assemble(read_table(path, options), options, name=each.name)
    items = find(folder, each.items) if each.items else None
    if items is None:
        return data
    return add_features(data, items, each.items_options, columns=each.items_columns)


DATASETS = data_sets()
