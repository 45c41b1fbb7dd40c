"""What user-level differential privacy costs, by how many devices there are: accuracy against
epsilon on two real data sets, and in federations of 100,000 and 1,000,000 synthetic devices with
planted tastes. Every training is done once a seed, and the table has means.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import isnan
from typing import Any, NamedTuple, final

from entrenous.core.errors import InputError
from entrenous.data.load import load
from entrenous.data.split.protocol import splits
from entrenous.runs import pipeline
from entrenous.systems.fbalf import FBALF
from entrenous_lab.planted import planted

from .epsilon import OF_RANKING, OF_RATINGS, DpCell, DpRows, of_some_users, with_epsilon
from .result import Context, Found, Row
from .table import PaperTable, seed_row

EPSILONS, CHOSEN_AT, QUICK_EPSILONS = (8.0, 4.0, 2.0, 1.0), 4.0, (8.0, 1.0)
CHEAP = {OF_RANKING: 0.02, OF_RATINGS: 0.005}  # as much as the profile `private` may cost
EVALUATED = 5000  # users of the large federations
SEEDS, QUICK_SEEDS = 3, 1
POPULAR, FEW = "popular", 200  # items, below which 99 candidates may not be found
AS_PRIVATE = FBALF.traits.private_settings
OF_FBALF: dict[str, Any] = {
    "factors": 8,
    **{name: value for name, value in AS_PRIVATE.items() if name != "rounds"},
}


def _cells(
    algorithm: str,
    rounds: int,
    clips: Sequence[float],
    quantiles: Sequence[float] = (0.0,),
    **own: Any,
) -> list[DpCell]:
    """The settings among which validation chooses."""
    return [
        DpCell(algorithm=algorithm, rounds=rounds, settings=own, clip=clip, quantile=quantile)
        for clip in clips
        for quantile in quantiles
    ]


@final
@dataclass(frozen=True, kw_only=True)
class DpScale:
    """A federation. name: a data set, or what `devices` synthetic devices are called. delta: below
    1 / users. cells: for each algorithm those to choose from."""

    name: str
    delta: float
    cells: Sequence[Sequence[DpCell]]
    devices: int = 0
    ranked: str = "loo-99"
    rated: str = "random-80-20"
    epsilons: Sequence[float] = EPSILONS

    def called(self, context: Context) -> str:
        """The name of its rows in a table."""
        return context.data.name if context.data else self.name

    def protocol(self, algorithm: str) -> str:
        """How rows are held out for an algorithm; "" where it is the same for all."""
        return "" if self.devices else self.rated if algorithm == "fbalf" else self.ranked

    def split(self, protocol: str, context: Context) -> DpRows:
        """The rows of one seed. Raises InputError for a data set that is not here."""
        if self.devices:
            return of_some_users(
                planted(users=self.devices, seed=context.seed), EVALUATED, context.seed
            )
        rows = context.data or load(self.name)
        few = protocol == self.ranked and len(rows.items) < FEW
        return DpRows(splits("loo-20" if few else protocol, rows, seed=context.seed)[0])


class SeededRows(NamedTuple):
    """The rows of a federation, split once for each seed; `contexts` differ in their seed alone."""

    contexts: Sequence[Context]
    splits: Sequence[DpRows]

    @property
    def seeds(self) -> list[int]:
        """Those of the splits, and of the trainings on them."""
        return [context.seed for context in self.contexts]

    def chosen(self, cells: Sequence[DpCell]) -> DpCell:
        """The cell that is best on the validation rows of the first seed."""
        return self.splits[0].chosen(cells, self.contexts[0])

    def measured(self, cell: DpCell) -> list[dict[str, float]]:
        """What a cell scores with each seed."""
        return [
            rows.measured(cell, context)
            for context, rows in zip(self.contexts, self.splits, strict=True)
        ]


def seeded(scale: DpScale, protocol: str, context: Context) -> SeededRows:
    """Raises InputError for a data set that is not here."""
    contexts = [
        replace(context, seed=seed)
        for seed in context.seed_numbers(QUICK_SEEDS if context.quick else SEEDS)
    ]
    return SeededRows(contexts, [scale.split(protocol, one) for one in contexts])


SCALES = (
    DpScale(
        name="ml-100k",
        delta=1e-5,
        cells=(
            _cells("fpl", 60, (1.0, 3.0), factors=8, cohort=200),
            _cells("fcf", 40, (1.0,), (0.0, 0.5), factors=8, cohort=200),
            _cells("fedavg-gmf", 60, (20.0, 60.0), factors=8, cohort=200),
            _cells("fbalf", 30, (3.0, 8.0), **OF_FBALF),
        ),
    ),
    DpScale(
        name="ml-1m",
        delta=1e-5,
        ranked="ncf-99",
        cells=(
            _cells("fpl", 100, (0.5, 1.0), factors=8, cohort=604),
            _cells("fcf", 60, (1.0,), (0.0, 0.5), factors=8, cohort=604),
            _cells("fedavg-gmf", 60, (60.0, 200.0), factors=8, cohort=604),
            _cells("fbalf", 30, (3.0, 8.0), **OF_FBALF),
        ),
    ),
    DpScale(
        name="planted-100k",
        delta=1e-6,
        devices=100_000,
        cells=(
            _cells("fpl", 200, (1.0, 3.0), factors=8, cohort=5_000),
            _cells("fcf", 30, (1.0,), (0.0, 0.5), factors=8, cohort=5_000),
            _cells("fedavg-gmf", 60, (6.0, 20.0), factors=8, cohort=10_000),
            _cells("fbalf", 10, (3.0,), **OF_FBALF),
        ),
    ),
    DpScale(
        name="planted-1m",
        delta=1e-7,
        devices=1_000_000,
        epsilons=(4.0, 1.0),
        cells=(
            _cells("fcf", 30, (1.0,), (0.5,), factors=8, cohort=5_000),
            _cells("fpl", 150, (3.0,), factors=8, cohort=20_000),
            _cells("fedavg-gmf", 60, (6.0,), factors=8, cohort=20_000),
        ),
        # without FBALF, of which every device takes part in every round: 100,000 say as much in a
        # tenth of the time
    ),
)


def measured(
    scale: DpScale, rows: SeededRows, cells: Sequence[DpCell], context: Context
) -> Iterator[Row]:
    """The rows of an algorithm: without a limit and under each budget, with the settings that
    validation chose.
    """
    users = len(rows.splits[0].split.train.users)
    able = [
        replace(
            cell,
            settings=_fitting(cell.settings, users),
            rounds=10 if context.data else cell.rounds,
        )
        for cell in cells
    ]
    tried = [with_epsilon(cell, CHOSEN_AT, scale.delta) for cell in able]
    chosen = tried[0] if context.quick or len(tried) == 1 else rows.chosen(tried)
    budgets = QUICK_EPSILONS if context.quick else scale.epsilons
    for epsilon in (None, *budgets[-1 if context.data else 0 :]):
        yield _row(scale, with_epsilon(chosen, epsilon, scale.delta), rows, context)


def _fitting(settings: Mapping[str, Any], users: int) -> Mapping[str, Any]:
    """Settings with a cohort of half the users at most."""
    return {
        name: min(value, users // 2) if name == "cohort" else value
        for name, value in settings.items()
    }


def _row(scale: DpScale, cell: DpCell, rows: SeededRows, context: Context) -> Row:
    """A training of every seed, and what it scored on the test rows; nothing where one diverged."""
    split = rows.splits[0].split
    context.uses(cell.algorithm, split.all_rows)
    found, metric = rows.measured(cell), OF_RATINGS if cell.algorithm == "fbalf" else OF_RANKING
    column = (
        f"{metric}, no limit" if cell.epsilon is None else f"{metric}, epsilon {cell.epsilon:g}"
    )
    z = f"; delta {scale.delta:g}, z {found[0]['z']:.3f}" if cell.epsilon else ""
    validation = ", ".join(f"{one['validation']:.4f}" for one in found)
    said = f"{split.name}; {_listed(rows.seeds)}; {cell.said}{z}; validation {validation}"
    values = [one["test"] for one in found]
    more = {
        "epsilon": cell.epsilon,
        "seeds": rows.seeds,
        "seconds": round(sum(one["seconds"] for one in found), 1),
    }
    return seed_row(
        scale.called(context),
        cell.algorithm,
        column,
        [] if any(map(isnan, values)) else values,
        None,
        said,
        **more,
    )


def _listed(seeds: Sequence[int]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"


def popular(scale: DpScale, rows: SeededRows, context: Context) -> Row:
    """The row of the list that everybody gets, which needs counts alone."""
    found = [
        pipeline.run(POPULAR, one.split.train, parts=[one.split], seed=seed).metrics[OF_RANKING]
        for seed, one in zip(rows.seeds, rows.splits, strict=True)
    ]
    said = f"{rows.splits[0].split.name}; {_listed(rows.seeds)}; counts of everybody"
    return seed_row(
        scale.called(context),
        POPULAR,
        f"{OF_RANKING}, no limit",
        found,
        None,
        said,
        seeds=rows.seeds,
    )


def cheap_from(rows: Sequence[Row]) -> str:
    """The least epsilon at which an algorithm loses no more than CHEAP against itself without a
    limit; in words.
    """
    figures = {line["epsilon"]: line["obtained"] for line in rows}
    metric = OF_RATINGS if rows[0]["metric"].startswith(OF_RATINGS) else OF_RANKING
    free, sign = figures.pop(None), 1 if metric == OF_RANKING else -1
    able = [
        epsilon
        for epsilon, figure in figures.items()
        if free and figure and sign * (free - figure) <= CHEAP[metric]
    ]
    return (
        f"{rows[0]['system']} from epsilon {min(able):g}"
        if able
        else f"{rows[0]['system']} at none of these"
    )


def before(context: Context) -> Found:
    """Every federation, the smallest first; what is not here or does not fit is named in a note."""
    found = Found()
    for scale in SCALES[: 1 if context.quick or context.data else None]:
        if context.data or context.wants(scale.name):
            found.add(_federation(scale, context))
    found.notes.append(NOTE)
    return found


def _federation(scale: DpScale, context: Context) -> Found:
    """All algorithms in one federation."""
    found, said = Found(), list[str]()
    rows = cache(lambda protocol: seeded(scale, protocol, context))
    for cells in scale.cells:
        try:
            lines = list(measured(scale, rows(scale.protocol(cells[0].algorithm)), cells, context))
        except InputError as refused:
            found.notes.append(
                f"{scale.called(context)}, {cells[0].algorithm}, left out: {refused}"
            )
            continue
        found.rows.extend(lines)
        said.append(cheap_from(lines))
    if said:
        found.rows.append(popular(scale, rows(scale.protocol(POPULAR)), context))
        within = (
            f"within {CHEAP[OF_RANKING]:g} of HR@10 or {CHEAP[OF_RATINGS]:g} of RMSE of the same"
            " without a limit"
        )
        found.notes.append(f"{scale.called(context)}, {within}: {'; '.join(said)}.")
    return found


NOTE = (
    "Noise and sampling come from the seed here, so that the table can be repeated: the noise has"
    " the size that epsilon needs, and these trainings themselves prove no epsilon, since whoever"
    " knows the seed can take it away. `--profile dp` draws from the operating system. Clip and its"
    " quantile were chosen on validation rows of the first seed at epsilon 4. Neither that choice"
    " nor the figures are in the budget. planted-100k and planted-1m are 100,000 and 1,000,000"
    " synthetic devices with planted tastes."
)

EXPERIMENTS = {
    "privacy-epsilon": PaperTable(
        title="what user-level differential privacy costs, by how many devices there are",
        data=lambda context, notes: (),
        before=before,
    )
}
