"""The three countries of FPL's tables: their shapes (table 1), and the real rows where there are files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ..core.errors import InputError
from ..data.home import data_home
from ..data.interactions import Interactions
from ..data.load import load
from ..data.sets.foursquare_italy import read
from .effort import Budget
from .fpl_grid import FULL, QUICK
from .result import Context
from .source import RowSource
from .study import Study
from .values import printed


class Country(NamedTuple):
    """Table 1: users, items and interactions (X+) of the training rows. data: the data set's name, which is also its folder."""

    name: str
    data: str
    users: int
    items: int
    interactions: int


def _country(name: str, shape: Mapping[tuple[str, str, str], float]) -> Country:
    data = f"foursquare-{name.lower()}"
    return Country(name, data, *(int(shape[data, "shape", size]) for size in ("users", "items", "interactions")))


COUNTRIES = {name: _country(name, printed("fpl", "table1")) for name in ("Brazil", "Canada", "Italy")}
FILES = ("interactions.parquet", "items.parquet")  # laid out like those of foursquare-italy


def rows_of(country: Country) -> Interactions:
    """The users with at least 20 venues. Raises InputError if the files are not in the data folder."""
    if country.name == "Italy":
        return load(country.data)
    folder = data_home() / country.data
    if not present(country):
        fix = "the authors did not publish these rows; make the files from the TIST2015 check-ins"
        raise InputError(country.data, f"it is not in {folder}", expected=" and ".join(FILES), fix=fix)
    return replace(read(folder), name=country.data)


def present(country: Country) -> bool:
    """Whether the files of a country are in the data folder."""
    return all((data_home() / country.data / name).is_file() for name in FILES)


def countries(context: Context, notes: Sequence[str] = ()) -> list[Study]:
    """Italy, and Brazil and Canada where their files are in the data folder (not in quick runs); or the given data alone.

    Raises InputError if Italy's rows are absent.
    """
    if context.data is not None:
        return [fpl_study(context, context.data)]
    more = [name for name in ("Brazil", "Canada") if not context.quick and present(COUNTRIES[name])]
    return [fpl_study(context, rows_of(COUNTRIES[name])) for name in ("Italy", *more)]


def fpl_study(context: Context, data: Interactions) -> Study:
    """One data set under FPL's protocol."""
    source, grid = RowSource(data.name, "temporal-80-20", label=data.name), context.grid or (QUICK if context.quick else FULL)
    return Study(source=source, data=data, cells=context.cells, budget=Budget(), grid=grid, quick=grid.quick, seed=context.seed)
