"""What `private` brings, chosen: of some settings of an algorithm the most accurate on validation
rows among those whose final model tells little by participation; then what the choice costs, and
tells, with seeds that chose nothing.

The size of cohorts is not chosen here, nor is any noise smaller than the first that is tried:
attacks on sums decide them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count, product
from typing import NamedTuple

import numpy as np

from entrenous.auditing.measures import ADVANTAGE
from entrenous.data.load import load
from entrenous.privacy.protection import PAPER, PRIVATE
from entrenous.report.figures import FigureFormat, scatter
from entrenous.runs.plan import in_words

from .result import Context, Found, Row
from .set_runner import KNOWN, TEST, VALIDATION, SetRunner, Settings
from .table import PaperTable, seed_row

TELLS = {share: f"tells by participation, {words}" for words, share in KNOWN.items()}
CHOSEN, PUBLISHED = "private", "as published"
SEEDS, QUICK_SEEDS = (1, 2, 3), (1,)


class SizedSets(NamedTuple):
    """The settings that are tried for federations of one size. data: the data sets that choose
    together, each with its protocol. grid: {algorithm: {setting, or `noise`: values}}. seeds: those
    of the choice; what few people tell varies by a third from seed to seed.
    """

    label: str
    data: Mapping[str, str]
    grid: Mapping[str, Mapping[str, Sequence[float]]]
    seeds: tuple[int, ...] = (0,)


PFPL_GRID = {"factors": (8, 16), "epochs": (23, 46), "noise": (0.3, 0.6)}
ALL_FCF = {"alpha": (3.0,), "noise": (3.0,)}
FEW_FCF = {**ALL_FCF, "factors": (24, 32), "rounds": (20,), "reg": (10.0, 15.0, 20.0)}
MANY_FCF = {**ALL_FCF, "factors": (16, 32), "rounds": (20, 30), "reg": (10.0, 20.0)}
FEDNCF_GRID = {"factors": (8, 12, 16)}
MANY_FEDNCF = {"factors": (16, 32), "noise": (0.3,)}
SIZES = (
    SizedSets(
        "below 1,000 people",
        {"ml-100k": "loo-99"},
        {"fcf": FEW_FCF, "pfpl+": PFPL_GRID, "fedncf": FEDNCF_GRID, "fedmf": FEDNCF_GRID},
        seeds=(0, 4),
    ),
    SizedSets(
        "1,000 to 5,000 people",
        {"gowalla-nyc": "loo-99"},
        {"fcf": MANY_FCF, "pfpl+": PFPL_GRID, "fedncf": MANY_FEDNCF},
    ),
    SizedSets(
        "5,000 people or more",
        {"ml-1m": "ncf-99"},
        {"fcf": MANY_FCF, "pfpl+": PFPL_GRID, "fedncf": MANY_FEDNCF},
    ),
)
OF_TESTS = {"fcf": {"alpha": (1.0, 3.0), "rounds": (2,)}}


def candidates(grid: Mapping[str, Sequence[float]]) -> list[dict[str, float]]:
    """Returns every combination of the values of a grid.

    >>> candidates({"a": (1, 2), "b": (3,)})
    [{'a': 1, 'b': 3}, {'a': 2, 'b': 3}]
    """
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


class Tried(NamedTuple):
    """A candidate on one data set, a figure for each seed of the choice."""

    settings: Settings
    validation: Sequence[float]
    tells: Mapping[float, Sequence[float]]
    """R-precision by participation, for each share that the attacker knows beforehand."""

    @property
    def accuracy(self) -> float:
        """The mean accuracy on validation rows."""
        return float(np.mean(self.validation))

    @property
    def most(self) -> float:
        """What the model tells by participation, on average, to the attacker who finds most, with
        the standard error of that: of several candidates at the bound the one that seems to tell
        least was lucky.
        """
        return max(_with_its_error(told) for told in self.tells.values())


def _with_its_error(values: Sequence[float]) -> float:
    """The mean of some values plus its standard error; of a single value the value.

    >>> round(_with_its_error([0.01, 0.03]), 4), _with_its_error([0.01])
    (0.03, 0.01)
    """
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return float(np.mean(values) + error)


def choice(tried: Mapping[str, Sequence[Tried]]) -> int:
    """Returns the place of the chosen candidate. tried: {data set: its candidates, in one order}.

    The most accurate on validation rows, as the mean over data sets of its share of the best there,
    among those that tell at most `ADVANTAGE` on every data set; if there are none, the candidate
    that tells least.

    >>> of = lambda accuracy, told: Tried({}, [accuracy], {0.5: [told]})
    >>> choice({"x": [of(0.6, 0.03), of(0.5, 0.01), of(0.4, 0.0)]})
    1
    >>> choice({"x": [of(0.6, 0.05), of(0.5, 0.03)]})
    1
    """
    of_each = [
        np.array([one.accuracy for one in mine]) / max(one.accuracy for one in mine)
        for mine in tried.values()
    ]
    accuracy = np.mean(of_each, axis=0)
    most = np.max([[one.most for one in mine] for mine in tried.values()], axis=0)
    allowed = most <= ADVANTAGE
    if not allowed.any():
        return int(np.argmin(most))
    return int(np.argmax(np.where(allowed, accuracy, -np.inf)))


def found(context: Context) -> Found:
    """Chooses for every size and algorithm, and measures the choice."""
    whole = Found()
    sizes = [*_sizes(context)]
    total = sum(
        len(sets.data) * len(candidates(grid)) for sets in sizes for grid in sets.grid.values()
    )
    steps = count(1)

    def tell(what: str) -> None:
        context.cells._progress(next(steps), total, what)

    for sets in sizes:
        runners = [_runner(name, sets, context) for name in sets.data]
        for algorithm, grid in sets.grid.items():
            for runner in runners:
                context.uses(algorithm, runner.data)
            seeds = QUICK_SEEDS if context.quick else SEEDS
            whole.add(_of_algorithm(sets, algorithm, candidates(grid), runners, seeds, tell))
        for runner in runners:
            context.cells.computed += runner.counts["computed"]
    return whole


def _sizes(context: Context) -> Iterable[SizedSets]:
    """The sizes that are asked for; of given rows one, with a small grid."""
    if context.data is not None:
        return [SizedSets("given", {context.data.name: "loo-20"}, OF_TESTS)]
    wanted = [sets for sets in SIZES if context.wants(*sets.data)]
    return wanted[:1] if context.quick else wanted


def _runner(name: str, sets: SizedSets, context: Context) -> SetRunner:
    rows = context.data or load(name)
    # Given rows may be of fewer people than a sum must have.
    protect = {} if context.data is None else {"people": 1}
    folder = context.cells.folder
    return SetRunner(data=rows, protocol=sets.data[name], folder=folder, protect=protect)


def _of_algorithm(
    sets: SizedSets,
    algorithm: str,
    several: Sequence[Settings],
    runners: Sequence[SetRunner],
    seeds: Sequence[int],
    tell: Callable[[str], None],
) -> Found:
    """What was tried of one algorithm, the choice, and what it costs and tells."""
    tried = {
        runner.data.name: [
            _tried(runner, algorithm, settings, sets.seeds, tell) for settings in several
        ]
        for runner in runners
    }
    place = choice(tried)
    chosen = several[place]
    lines = list[Row]()
    for runner in runners:
        lines += _tried_rows(sets, algorithm, runner, tried[runner.data.name])
        lines += _measured_rows(algorithm, runner, chosen, seeds)
    said = in_words(chosen)
    most = max(mine[place].most for mine in tried.values())
    note = (
        f"{algorithm}, {sets.label}: of {len(several)} settings validation rows of"
        f" {' and '.join(tried)} and what the models tell by participation choose {said}, which"
        f" tells at most {most:.3f} there (bound {ADVANTAGE:g})."
    )
    return Found(rows=lines, notes=[note], figures=dict(_figures(algorithm, tried)))


def _tried(
    runner: SetRunner,
    algorithm: str,
    settings: Settings,
    seeds: Sequence[int],
    tell: Callable[[str], None],
) -> Tried:
    """Trains and attacks a candidate with the seeds of the choice."""
    tell(f"{runner.data.name}: {algorithm} {dict(settings)}")
    tells = _told(runner, algorithm, settings, seeds)
    validation = [runner.validation(algorithm, settings, seed) for seed in seeds]
    return Tried(settings, validation, tells)


def _told(
    runner: SetRunner, algorithm: str, settings: Settings, seeds: Sequence[int]
) -> dict[float, list[float]]:
    """What models tell by participation, by the known share, for each seed."""
    of_seeds = [runner.tells(algorithm, settings, seed) for seed in seeds]
    return {share: [told[share] for told in of_seeds] for share in KNOWN.values()}


def _tried_rows(
    sets: SizedSets, algorithm: str, runner: SetRunner, tried: Sequence[Tried]
) -> Iterator[Row]:
    """A row for each figure of each candidate."""
    for one in tried:
        said = in_words(one.settings)
        seeds = ", ".join(map(str, sets.seeds))
        protocol = (
            f"{runner.protocol}; profile private; {said}; seeds {seeds}, trained on training rows;"
            f" one of those tried for {sets.label}"
        )
        figures = {VALIDATION: one.validation} | {
            TELLS[share]: told for share, told in one.tells.items()
        }
        for metric, values in figures.items():
            yield seed_row(
                runner.data.name,
                f"{algorithm}, {said}",
                metric,
                list(values),
                None,
                protocol,
                seeds=list(sets.seeds),
            )


def _measured_rows(
    algorithm: str, runner: SetRunner, chosen: Settings, seeds: Sequence[int]
) -> Iterator[Row]:
    """The choice on test rows, as published and under `private`, with seeds that chose nothing."""
    said = in_words(chosen)
    protocol = f"{runner.protocol}; seeds {', '.join(map(str, seeds))}"
    name = runner.data.name
    published = [runner.test(algorithm, {}, seed, PAPER) for seed in seeds]
    own = f"{protocol}; its own settings, profile {PAPER}"
    yield seed_row(name, f"{algorithm}, {PUBLISHED}", TEST, published, None, own, seeds=list(seeds))
    private = f"{protocol}; {said}, profile {PRIVATE}"
    scored = [runner.test(algorithm, chosen, seed, PRIVATE) for seed in seeds]
    yield seed_row(name, f"{algorithm}, {CHOSEN}", TEST, scored, None, private, seeds=list(seeds))
    told = _told(runner, algorithm, chosen, seeds)
    for share, metric in TELLS.items():
        yield seed_row(
            name, f"{algorithm}, {CHOSEN}", metric, told[share], None, private, seeds=list(seeds)
        )


def _figures(algorithm: str, tried: Mapping[str, Sequence[Tried]]) -> Iterator[tuple[str, str]]:
    """Accuracy over what is told by participation, a colour for each value of the first setting."""
    for name, mine in tried.items():
        series: dict[str, tuple[list[float], list[float]]] = {}
        for one in mine:
            setting, value = next(iter(one.settings.items()))
            told, accuracy = series.setdefault(f"{setting} {value:g}", ([], []))
            told.append(float(np.mean(one.tells[0.5])))
            accuracy.append(one.accuracy)
        look = FigureFormat(
            title=f"{algorithm}, {name}",
            x_label="told by participation, half of each history known",
            y_label="HR@10 on validation rows",
        )
        yield f"{algorithm.replace('+', '-plus')}-{name}", scatter(series, look)


EXPERIMENTS = {
    "privacy-sets": PaperTable(
        title="what `private` brings: settings by accuracy on validation rows and by what the model"
        " tells of those who took part",
        data=lambda context, notes: (),
        before=found,
    )
}
