"""FPL's data sets: the same done for each of them."""

from __future__ import annotations

from collections.abc import Callable

from ..data.interactions import Interactions
from .countries import COUNTRIES, present, rows_of
from .grid import FULL, QUICK
from .result import Context, Found
from .study import Study


def studies(context: Context) -> list[Study]:
    """Italy, and Brazil and Canada where their files are in the data folder (not in quick runs); or the given data alone."""
    if context.data is not None:
        return [_study(context, "", context.data)]
    more = [name for name in ("Brazil", "Canada") if not context.quick and present(COUNTRIES[name])]
    return [_study(context, name, rows_of(COUNTRIES[name])) for name in ("Italy", *more)]


def _study(context: Context, country: str, data: Interactions) -> Study:
    grid = context.grid or (QUICK if context.quick else FULL)
    return Study(country=country, data=data, grid=grid, cells=context.cells, seed=context.seed)


def over_studies(one: Callable[[Study], Found]) -> Callable[[Context], Found]:
    """The `run` of an experiment that does the same for every data set."""

    def run(context: Context) -> Found:
        found = Found()
        for study in studies(context):
            found.add(one(study))
        return found

    return run
