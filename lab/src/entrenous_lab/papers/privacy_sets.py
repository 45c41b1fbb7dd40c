"""What `private` brings, chosen: of some settings of an algorithm the most accurate on validation
rows among those whose final model tells little by participation; then what the choice costs, and
tells, with seeds that chose nothing.

The size of cohorts is not chosen here, nor is any noise smaller than the first that is tried:
attacks on sums decide them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import NamedTuple

import numpy as np
from entrenous_audit.measures import ADVANTAGE

from entrenous.data.load import load
from entrenous.privacy.protection import PAPER, PRIVATE
from entrenous.runs.plan import in_words

from .result import Context, Found, Row
from .set_runner import TEST, SetRunner, Settings
from .set_trials import TELLS, Tried, candidates, fronts, told_by, tried_by, tried_rows
from .table import PaperTable, seed_row

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
            tried_by(runner, algorithm, settings, sets.seeds, tell) for settings in several
        ]
        for runner in runners
    }
    place = choice(tried)
    chosen = several[place]
    lines = list[Row]()
    for runner in runners:
        lines += tried_rows(
            algorithm, runner, tried[runner.data.name], f"for {sets.label}", sets.seeds
        )
        lines += _measured_rows(algorithm, runner, chosen, seeds)
    said = in_words(chosen)
    most = max(mine[place].most for mine in tried.values())
    note = (
        f"{algorithm}, {sets.label}: of {len(several)} settings validation rows of"
        f" {' and '.join(tried)} and what the models tell by participation choose {said}, which"
        f" tells at most {most:.3f} there (bound {ADVANTAGE:g})."
    )
    return Found(rows=lines, notes=[note], figures=dict(fronts(algorithm, tried)))


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
    told = told_by(runner, algorithm, chosen, seeds)
    for share, metric in TELLS.items():
        yield seed_row(
            name, f"{algorithm}, {CHOSEN}", metric, told[share], None, private, seeds=list(seeds)
        )


EXPERIMENTS = {
    "privacy-sets": PaperTable(
        title="what `private` brings: settings by accuracy on validation rows and by what the model"
        " tells of those who took part",
        data=lambda context, notes: (),
        before=found,
    )
}
