"""Opens the data sets of a table: a `Study` for each that is there, a note for each that is not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from entrenous.core.errors import InputError
from entrenous.data.home import data_home
from entrenous.data.interactions import Interactions
from entrenous.data.load import load
from entrenous.data.sets.foursquare_italy import read

from .effort import FULL, GRIDS, PEPPER, QUICK, Budget, Effort, RowSource, pepper_place, ratings
from .result import Context
from .study import Study
from .values import printed

Open = Callable[[Context, list[str]], list[Study]]
LENGTHS = (5, 10, 20)  # of PEPPER's lists
KEPT = tuple(
    f"{metric}@{n}" for metric in ("hr", "ndcg", "f1_user") for n in LENGTHS
)  # of every user, of tests
FOLDS = 5
FPL_SEEDS = 3


def opened(
    sources: Iterable[RowSource], made: Callable[[RowSource], Study], needed: str, notes: list[str]
) -> list[Study]:
    """The studies of the sources that are there and can be split; the others are named in a note.
    needed: a part that they must have.
    """
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


def opening(
    sources: Sequence[RowSource],
    own: Callable[[str], RowSource],
    made: Callable[[Context, RowSource], Study],
    needed: str,
) -> Open:
    """Opens these sources, the first alone in quick runs; or the context's own data, whose source
    is made of its name.
    """

    def opens(context: Context, notes: list[str]) -> list[Study]:
        several = [
            source
            for source in (sources[:1] if context.quick else sources)
            if context.wants(source.data, str(source))
        ]
        chosen = several if context.data is None else (own(context.data.name),)
        return opened(chosen, lambda source: made(context, source), needed, notes)

    return opens


def _study(
    context: Context, source: RowSource, data: Interactions | None = None, **more: Any
) -> Study:
    """A study in a context, whose own rows come first."""
    own = context.data if data is None else data
    rows = source.read() if own is None else own
    context.cells.pins[rows.name] = rows.sha256()
    if context.seeds and not more["budget"].folds:
        more["budget"] = replace(more["budget"], seeds=context.seeds)
    return Study(
        source=source,
        data=rows,
        cells=context.cells,
        seed=context.seed,
        **{"quick": context.quick, **more},
    )


# ---- each paper ----------------------------------------------------------------------------------


def cali3f_study(
    context: Context, effort: Effort, data: Interactions, family: str = "ncf"
) -> Study:
    """Cali3F's systems on one data set under the protocol of its budget."""
    budget = effort.budget(data.name)
    source = RowSource(data.name, budget.protocol, label=data.name)
    more = {"quick": effort.quick, "epochs": effort.epochs, "clusters": effort.clusters}
    context.cells.settings.update(effort.places(data.name))
    return _study(context, source, data, budget=budget, family=family, **more)


def cali3f(
    only: Sequence[str] = (),
    efforts: Mapping[bool, Effort] = {False: FULL, True: QUICK},
    family: str = "ncf",
) -> Open:
    """The data sets of a budget (of `only`), or the context's own. efforts: {whether it is an
    excerpt: how much is trained}.
    """

    def opens(context: Context, notes: list[str]) -> list[Study]:
        effort = context.effort or efforts[context.quick]
        names = [
            name for name in effort.budgets if (not only or name in only) and context.wants(name)
        ]
        sources = (
            [RowSource(name) for name in names]
            if context.data is None
            else [RowSource(context.data.name)]
        )
        return opened(
            sources,
            lambda source: cali3f_study(
                context, effort, source.read() if context.data is None else context.data, family
            ),
            "test",
            notes,
        )

    return opens


def rating_study(context: Context, source: RowSource) -> Study:
    """Rating prediction under cross-validation (section 5.1.4); quick: two folds of five."""
    data = replace(source.read() if context.data is None else context.data, name=str(source))
    budget = Budget(folds=2 if context.quick else source.folds or FOLDS)
    return _study(
        context, source, data, budget=budget, family="rating", chosen_on=source.data, quick=False
    )


def rated(*sources: RowSource) -> Open:
    """FBALF's: these data sets under cross-validation."""
    return opening(sources, ratings, rating_study, "test")


def pepper_study(
    context: Context, source: RowSource, data: Interactions | None = None, **more: Any
) -> Study:
    """PEPPER's systems on one split."""
    place = pepper_place(source.data, context.quick)
    context.cells.settings.add(place)
    usual = {"budget": PEPPER[place[-1]], "chosen_by": "the weighting sets"}
    return _study(
        context, source, data, family="pepper", lengths=LENGTHS, kept=KEPT, **{**usual, **more}
    )


def pepper(*sources: RowSource) -> Open:
    """PEPPER's: these splits; the 85-15 rule on the context's own data."""
    return opening(
        sources, lambda name: RowSource(name, "pepper-85-15"), pepper_study, "validation"
    )


def fpl_study(context: Context, data: Interactions) -> Study:
    """One data set under FPL's protocol, whose items are those with training rows: the authors'
    program reads no other file. Its split has no seed; seeds are those of trainings."""
    source, grid = (
        RowSource(data.name, "temporal-80-20", label=data.name),
        context.grid or GRIDS[context.quick],
    )
    context.cells.settings.add(("trained", "grids", "quick" if grid.quick else "full"))
    return _study(
        context,
        source,
        data,
        budget=Budget(seeds=1 if grid.quick else FPL_SEEDS),
        grid=grid,
        quick=grid.quick,
        trained_items=True,
    )


# ---- FPL's countries -----------------------------------------------------------------------------


class Country(NamedTuple):
    """Table 1: users, items and interactions (X+) of the training rows. data: the data set's name,
    which is also its folder.
    """

    name: str
    data: str
    users: int
    items: int
    interactions: int


def _country(name: str, shape: Mapping[tuple[str, str, str], float]) -> Country:
    data = f"foursquare-{name.lower()}"
    return Country(
        name,
        data,
        *(int(shape[data, "shape", size]) for size in ("users", "items", "interactions")),
    )


COUNTRIES = {
    name: _country(name, printed("fpl", "table1")) for name in ("Brazil", "Canada", "Italy")
}
FILES = ("interactions.parquet", "items.parquet")  # laid out like those of foursquare-italy


def rows_of(country: Country) -> Interactions:
    """The users with at least 20 venues. Raises InputError if the files are not in the data
    folder.
    """
    if country.name == "Italy":
        return load(country.data)
    folder = data_home() / country.data
    if not present(country):
        fix = "the authors did not publish these rows; make the files from the TIST2015 check-ins"
        raise InputError(
            country.data, f"it is not in {folder}", expected=" and ".join(FILES), fix=fix
        )
    return replace(read(folder), name=country.data)


def present(country: Country) -> bool:
    """Whether the files of a country are in the data folder."""
    return all((data_home() / country.data / name).is_file() for name in FILES)


def countries(context: Context, notes: Sequence[str] = ()) -> list[Study]:
    """Italy, and Brazil and Canada where their files are in the data folder (not in quick runs); or
    the given data alone.

    Raises InputError if Italy's rows are absent.
    """
    if context.data is not None:
        return [fpl_study(context, context.data)]
    more = [name for name in ("Brazil", "Canada") if not context.quick and present(COUNTRIES[name])]
    several = [COUNTRIES[name] for name in ("Italy", *more)]
    return [
        fpl_study(context, rows_of(country)) for country in several if context.wants(country.data)
    ]
