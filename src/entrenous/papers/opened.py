"""Opens the data sets of a table: a `Study` for each that is there, a note for each that is not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ..core.errors import InputError
from ..data.home import data_home
from ..data.interactions import Interactions
from ..data.load import load
from ..data.sets.foursquare_italy import read
from . import fpl_grid
from .effort import FULL, QUICK, Budget, Effort, pepper_budget
from .result import Context
from .source import RowSource, ratings
from .study import Study
from .values import printed

Open = Callable[[Context, list[str]], list[Study]]
LENGTHS = (5, 10, 20)  # of PEPPER's lists
KEPT = tuple(f"{metric}@{n}" for metric in ("hr", "ndcg", "f1_user") for n in LENGTHS)  # of every user, of tests
FOLDS = 5


def opened(sources: Iterable[RowSource], made: Callable[[RowSource], Study], needed: str, notes: list[str]) -> list[Study]:
    """The studies of the sources that are there and can be split; the others are named in a note. needed: a part that they must have."""
    found = []
    for source in sources:
        try:
            study = made(source)
            study.part(needed)
        except InputError as missing:
            notes.append(f"Left out: {missing}")
        else:
            found.append(study)
    return found


# ---- Cali3F --------------------------------------------------------------------------------------------------------------------------


def cali3f_study(context: Context, effort: Effort, data: Interactions) -> Study:
    """Cali3F's systems on one data set under the protocol of its budget."""
    budget = effort.budget(data.name)
    return Study(
        source=RowSource(data.name, budget.protocol, label=data.name),
        data=data,
        cells=context.cells,
        budget=budget,
        family="ncf",
        quick=effort.quick,
        epochs=effort.epochs,
        clusters=effort.clusters,
        seed=context.seed,
    )


def cali3f(only: Sequence[str] = ()) -> Open:
    """The data sets of a budget (of `only`), or the context's own."""

    def opens(context: Context, notes: list[str]) -> list[Study]:
        effort = context.effort or (QUICK if context.quick else FULL)
        names = [name for name in effort.budgets if not only or name in only]
        sources = [RowSource(name) for name in names] if context.data is None else [RowSource(context.data.name)]
        return opened(sources, lambda source: cali3f_study(context, effort, context.data or source.read()), "test", notes)

    return opens


# ---- FBALF ---------------------------------------------------------------------------------------------------------------------------


def rating_study(context: Context, source: RowSource) -> Study:
    """Rating prediction under cross-validation (section 5.1.4); quick: two folds of five."""
    data = replace(source.read() if context.data is None else context.data, name=str(source))
    budget = Budget(folds=2 if context.quick else FOLDS)
    return Study(
        source=source, data=data, cells=context.cells, budget=budget, family="rating", chosen_on=source.data, seed=context.seed
    )


def rated(*sources: RowSource) -> Open:
    """These data sets, the first alone in quick runs, or the context's own."""

    def opens(context: Context, notes: list[str]) -> list[Study]:
        several = sources[:1] if context.quick else sources
        own = several if context.data is None else (ratings(context.data.name),)
        return opened(own, lambda source: rating_study(context, source), "test", notes)

    return opens


# ---- PEPPER --------------------------------------------------------------------------------------------------------------------------


def pepper_study(context: Context, source: RowSource, data: Interactions | None = None, **more: Any) -> Study:
    """PEPPER's systems on one split."""
    more.setdefault("budget", pepper_budget(source.data, context.quick))
    return Study(
        source=source,
        data=source.read() if data is None else data,
        cells=context.cells,
        family="pepper",
        chosen_by="the weighting sets",
        lengths=LENGTHS,
        kept=KEPT,
        quick=context.quick,
        seed=context.seed,
        **more,
    )


def pepper(*sources: RowSource) -> Open:
    """These splits, the first alone in quick runs, or the context's own data under the 85-15 rule."""

    def opens(context: Context, notes: list[str]) -> list[Study]:
        several = sources[:1] if context.quick else sources
        own = several if context.data is None else (RowSource(context.data.name, "pepper-85-15"),)
        return opened(own, lambda source: pepper_study(context, source, context.data), "validation", notes)

    return opens


# ---- FPL -----------------------------------------------------------------------------------------------------------------------------


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
    source, grid = (
        RowSource(data.name, "temporal-80-20", label=data.name),
        context.grid or (fpl_grid.QUICK if context.quick else fpl_grid.FULL),
    )
    return Study(source=source, data=data, cells=context.cells, budget=Budget(), grid=grid, quick=grid.quick, seed=context.seed)
