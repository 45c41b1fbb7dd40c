"""What `private` brings, chosen: of some settings of an algorithm the most accurate on validation
rows among those whose final model tells little by participation; then what the choice costs, and
tells, with seeds that chose nothing.

The size of cohorts is not chosen here, nor is any noise smaller than the first that is tried:
attacks on sums decide them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, product
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from entrenous.auditing.examine import told_by_model
from entrenous.auditing.measures import ADVANTAGE
from entrenous.auditing.plan import AuditPlan
from entrenous.core.errors import InputError
from entrenous.core.registry.program import program_sha256
from entrenous.core.values import SettingValue
from entrenous.data.interactions import Interactions
from entrenous.data.load import load
from entrenous.data.split.protocol import splits
from entrenous.evaluation.protocol import evaluate
from entrenous.federation.shard import Threads
from entrenous.privacy.protection import PAPER, PRIVATE, Protection
from entrenous.report.figures import FigureFormat, scatter
from entrenous.runs import pipeline
from entrenous.runs.options import Profile, RunPlan
from entrenous.runs.plan import in_words, make, protection_in, with_set
from entrenous.runs.train import Phase, Setup, Watch, train_phase
from entrenous.systems.named import kind_of

from .remember import trained_once
from .result import Context, Found, Row
from .table import PaperTable, seed_row

FORMAT = 2
"""Of what is remembered: another one after a change of this file that alters an outcome."""
VALIDATION = "validation hr@10"
TEST = "hr@10"
KNOWN = {"half of each history known": 0.5, "a tenth known": 0.1}
TELLS = {share: f"tells by participation, {words}" for words, share in KNOWN.items()}
CHOSEN, PUBLISHED = "private", "as published"
ATTACK = "membership"
SEEDS, QUICK_SEEDS = (1, 2, 3), (1,)

Settings = Mapping[str, Any]


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
        "1,000 people or more",
        {"ml-1m": "ncf-99", "gowalla-nyc": "loo-99"},
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


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class SetRunner:
    """Trains and attacks on one data set. protect: settings of the protection that differ from the
    profile's. folder: where finished figures are remembered, None = nowhere. counts: how many
    figures were computed now, and how many were remembered.
    """

    data: Interactions
    protocol: str
    folder: Path | None
    protect: Mapping[str, SettingValue] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=lambda: {"computed": 0, "remembered": 0})

    def validation(self, algorithm: str, settings: Settings, seed: int) -> float:
        """HR@10 on the validation rows, under `private`, of a model that never saw them."""
        return self._once("validation", algorithm, settings, seed, self._validated)[VALIDATION]

    def tells(self, algorithm: str, settings: Settings, seed: int) -> dict[float, float]:
        """What the final model tells of people because they took part, by the share of each history
        that the attacker knows beforehand: the attack's R-precision by a model of them, less that
        by a model that they are not in. No test rows choose anything.
        """

        def attacked(algorithm: str, settings: Settings, seed: int) -> dict[str, float]:
            own, protect = self._parted(settings)
            plan = AuditPlan(
                algorithm=algorithm,
                data=self.data.name,
                view="model",
                profile=PRIVATE,
                settings=own,
                protect=protect,
                protocol=self.protocol,
                seed=seed,
                refit=False,
                attacks=(ATTACK,),
            )
            figures = {}
            told = told_by_model(plan, self.data, ATTACK, tuple(KNOWN.values()))
            for share, participation in told.items():
                because = participation["because"]
                if because is None:
                    raise InputError(algorithm, f"{ATTACK}: {participation['reason']}")
                figures[f"{share:g}"] = because
            return figures

        found = self._once("tells", algorithm, settings, seed, attacked)
        return {share: found[f"{share:g}"] for share in KNOWN.values()}

    def test(self, algorithm: str, settings: Settings, seed: int, profile: Profile) -> float:
        """HR@10 on the test rows."""

        def run(algorithm: str, settings: Settings, seed: int) -> dict[str, float]:
            own, protect = self._parted(settings)
            done = pipeline.run(
                algorithm,
                self.data,
                protocol=self.protocol,
                seed=seed,
                settings=own,
                profile=profile,
                protect=protect if profile == PRIVATE else {},
            )
            return {TEST: done.metrics[TEST]}

        return self._once(f"test, {profile}", algorithm, settings, seed, run)[TEST]

    def _validated(self, algorithm: str, settings: Settings, seed: int) -> dict[str, float]:
        (split,) = splits(self.protocol, self.data, seed=seed)[:1]
        assert split.validation is not None
        own, protect = self._parted(settings)
        # A sum has the same noise whoever draws it, and a server draws it in a tenth of the time.
        protect["noise_by"] = "server"
        asked = RunPlan(
            algorithm=algorithm, settings=own, profile=PRIVATE, protect=protect, seed=seed
        )
        plan = with_set(asked, len(split.train.users))
        made: Any = make(plan, split.train)
        setup = Setup(seed=seed, executor=Threads(0), protection=protection_in(plan, made))
        rounds = made.default_rounds(split.train.catalogue)
        phase = Phase("final", algorithm, [])
        model = train_phase(made, split.train, rounds, setup, Watch(), phase)
        found = evaluate(
            model.recommender, split.train, split.validation, label=algorithm, n=(10,), seed=seed
        )
        return {VALIDATION: found.metrics[TEST]}

    def _parted(self, settings: Settings) -> tuple[dict[str, Any], dict[str, Any]]:
        """The settings of the algorithm, and those of the protection."""
        protects = Protection.model_fields
        own = {name: value for name, value in settings.items() if name not in protects}
        protect = {name: value for name, value in settings.items() if name in protects}
        return own, {**self.protect, **protect}

    def _once(
        self,
        what: str,
        algorithm: str,
        settings: Settings,
        seed: int,
        compute: Callable[[str, Settings, int], dict[str, float]],
    ) -> dict[str, float]:
        """Figures by name, computed if no file has them."""
        program = program_sha256(kind_of(algorithm)[0].__module__, __name__)
        about = {
            "what": what,
            "algorithm": algorithm,
            "settings": dict(settings),
            "protect": dict(self.protect),
            "seed": seed,
            "protocol": self.protocol,
            "rows": self.data.sha256(),
            "program": program,
            "format": FORMAT,
        }
        cell = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:40]
        path = None if self.folder is None else self.folder / f"set-{cell}.json"
        found, computed = trained_once(
            path,
            {**about, "cell": cell},
            lambda: {"figures": compute(algorithm, settings, seed)},
        )
        self.counts["computed" if computed else "remembered"] += 1
        figures: dict[str, float] = found["figures"]
        return figures


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
