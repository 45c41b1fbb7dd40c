"""The systems that papers of federated recommendation compare: with the leak of some programs, and
honest. No paper has this table.

Each system is trained with the settings of its program, with negatives that avoid the held-out
items (leaky), whether its program does that or not, and without that (honest); then once more,
honest, with settings and rounds that validation rows chose from equally many trials (chosen). Where
a system has the setting `aggregation`, it is trained with aggregation off too: then nothing is
learnt from anybody, and an honest figure is that of chance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from entrenous.core.errors import InputError
from entrenous.core.registry.discover import is_place, short
from entrenous.data.interactions import Interactions
from entrenous.data.load import load
from entrenous.privacy import evidence
from entrenous.report.axes import axis_of
from entrenous.report.figures import MUTED, Canvas, FigureFormat, LegendEntry, Point, mark, path
from entrenous.runs.plan import algorithm_of
from entrenous.systems.named import algorithms

from .field_run import HONEST, LEAKY, RANKED, WORST, FieldPoint, FieldRunner, draws
from .findings import tested_columns, verdict
from .result import Context, Found, Row, row
from .table import PaperTable, seed_row
from .values import listed, stored, worded
from .values import said as worded_settings

HR, NDCG = RANKED
LEAK, TRUE, CHOSEN, OFF_LEAK, OFF = (
    "leaky",
    "honest",
    "chosen",
    "leaky, aggregation off",
    "honest, aggregation off",
)
# Further figures of the chosen settings, and what the table calls them.
TAKEN = {
    **{f"full {name}": f"full {name}" for name in RANKED},
    WORST: WORST,
    "up": "kB up, a device and round",
    "down": "kB down, a device and round",
    "cpu": "CPU s a device",
}
MESSAGES, SUMS, ROUNDS = "attack on messages", "attack on sums", "rounds"
ALONE = {"aggregation": "off"}
SEVERAL = 2  # users or more that a test needs


class FieldBudget(NamedTuple):
    """How much is trained on a data set. trials: settings that validation rows choose from. rounds:
    the most of each of them. cut: the most of a training as its program does, 0 = its own. alone:
    seeds with aggregation off, which only shows the leak; 0 = all of them."""

    protocol: str
    seeds: int
    trials: int
    rounds: int
    cut: int = 0
    alone: int = 0


class FieldSystem(NamedTuple):
    """A line of the table. algorithm: a name, or the place of a researcher's own class. program:
    the name with the settings of the authors' program, "" = the same. attacked: the name under
    which audits measured its messages, "" = the same. most_users: it is left out of larger data,
    where one training takes hours, 0 = of none. most_alone: the same of trainings with aggregation
    off, which take more memory. whole: its own number of rounds is never cut, since it has hardly
    begun by then, and its rounds are cheap."""

    label: str
    algorithm: str
    program: str = ""
    attacked: str = ""
    most_users: int = 0
    most_alone: int = 0
    whole: bool = False

    @property
    def as_program(self) -> str:
        """The name that stands for the authors' program, where this version has it."""
        return self.program if self.program in algorithms() else self.algorithm

    def fits(self, data: Interactions) -> bool:
        """True unless the data have more users than it can be trained with here."""
        return not self.most_users or data.catalogue.users <= self.most_users

    def fits_alone(self, data: Interactions) -> bool:
        """The same with aggregation off, where it has that setting."""
        fits = not self.most_alone or data.catalogue.users <= self.most_alone
        return fits and self.can_be_alone

    @property
    def can_be_alone(self) -> bool:
        """True if it has a setting that switches aggregation off."""
        try:
            algorithm_of(self.as_program, ALONE)
        except InputError:
            return False
        return True


THEIRS = (
    FieldSystem("FedMF", "fedmf", "fedmf-printed"),
    FieldSystem("FedNCF", "fedncf", "fedncf-printed"),
    FieldSystem("PFedRec", "pfedrec", "pfedrec-printed"),
    FieldSystem("FedRAP", "fedrap", "fedrap-printed", most_alone=2500),
    FieldSystem("GPFedRec", "gpfedrec", "gpfedrec-as-run", most_users=1000),
    FieldSystem("FedRecon", "fedrecon", "fedrecon-printed", whole=True),
    FieldSystem("CoLR", "colr", "colr-printed", whole=True),
)
OURS = (
    FieldSystem("FPL", "pfpl+"),
    FieldSystem("FCF", "fcf"),
    FieldSystem("fcf-newton", "fcf-newton"),
    FieldSystem("Cali3F", "cali3f-neumf"),
    FieldSystem("Ditto", "ditto-neumf"),
    FieldSystem("FedFast", "fedfast-neumf"),
    FieldSystem("PEPPER", "pepper-gmf"),
    FieldSystem("iALS", "ials"),
    FieldSystem("EASE", "ease"),
    FieldSystem("popular", "popular"),
)
QUICK = (
    *(each.label for each in THEIRS),
    *("FPL", "fcf-newton", "iALS", "EASE", "popular"),
)


class Measured(NamedTuple):
    """A system on one data set: a point for each seed of each reading; None for a reading that it
    does not have."""

    system: FieldSystem
    points: Mapping[str, Sequence[FieldPoint] | None]
    said: str
    """The settings that were chosen."""

    def values(self, reading: str, metric: str) -> list[float]:
        """A figure of each seed; none if one of the trainings diverged."""
        points = self.points[reading] or ()
        found = [point.metrics[metric] for point in points if metric in point.metrics]
        return found if len(found) == len(points) else []

    def users(self, reading: str, metric: str) -> np.ndarray | None:
        """Each user's value under each seed; None without figures, or if seeds have other
        users.
        """
        points = self.points[reading] or ()
        columns = [point.per_user.get(metric, []) for point in points]
        if not columns or len({len(column) for column in columns}) > 1:
            return None
        return np.array(columns) if len(columns[0]) >= SEVERAL else None


# ---- what is trained -----------------------------------------------------------------------------


def budgets(quick: bool) -> dict[str, FieldBudget]:
    """The budgets of the data sets, the quickest first; "" stands for other data."""
    known = stored("trained", "budgets")["field"]["quick" if quick else "full"]
    return {data: FieldBudget(**budget) for data, budget in known.items()}


def systems_of(quick: bool, own: Sequence[str], notes: list[str]) -> list[FieldSystem]:
    """The systems of the table that this version has, and the researcher's own files below."""
    known = algorithms()
    systems = [each for each in (*THEIRS, *OURS) if not quick or each.label in QUICK]
    missing = [each.label for each in systems if each.algorithm not in known]
    if missing:
        notes.append(f"Not in this version: {', '.join(missing)}.")
    there = [each for each in systems if each.algorithm in known]
    return [*there, *(FieldSystem(short(place), place) for place in own)]


def before(context: Context, own: Sequence[str] = ()) -> Found:
    """Trains and measures every system on every data set, seed by seed."""
    found = Found()
    excerpt = context.quick or context.data is not None
    known = budgets(excerpt)
    systems = systems_of(excerpt, own, found.notes)
    for data, budget in _sources(context, known, found.notes):
        seeds = context.seed_numbers(budget.seeds)
        runner = FieldRunner(
            data=data, protocol=budget.protocol, folder=context.cells.folder, seed=context.seed
        )
        every = _measured(context, runner, budget, systems, seeds, found.notes)
        context.cells.computed += runner.counts["computed"]
        found.add(_found(data, budget, every, seeds))
    return found


def _sources(
    context: Context, known: Mapping[str, FieldBudget], notes: list[str]
) -> Iterator[tuple[Interactions, FieldBudget]]:
    """The rows of each data set that is here and asked for, or the context's own."""
    if context.data is not None:
        yield context.data, known[""]
        return
    for name, budget in known.items():
        if not name or not context.wants(name):
            continue
        try:
            yield load(name), budget
        except InputError as missing:
            notes.append(f"Left out: {missing}")


def _measured(
    context: Context,
    runner: FieldRunner,
    budget: FieldBudget,
    systems: Sequence[FieldSystem],
    seeds: Sequence[int],
    notes: list[str],
) -> list[Measured]:
    """Every system; one that cannot be trained on these rows is named in a note."""
    points: dict[FieldSystem, dict[str, list[FieldPoint]]] = {}
    chosen: dict[FieldSystem, str] = {}
    steps = count(1)
    for large in (each for each in systems if not each.fits(runner.data)):
        notes.append(
            f"{runner.data.name}, left out: {large.label}, whose server compares the tables of"
            f" every two users: it is trained with {large.most_users:,} users at most"
        )
    systems = [each for each in systems if each.fits(runner.data)]
    for large in (each for each in systems if each.can_be_alone):
        if not large.fits_alone(runner.data):
            notes.append(
                f"{runner.data.name}, left out: {large.label} with aggregation off, where each"
                " device keeps two tables of its own: with more than"
                f" {large.most_alone:,} users they pass the memory here"
            )
    total = len(seeds) * len(systems)
    # Seeds one after the other, so that what is remembered is whole for the first ones.
    for seed in seeds:
        for system in systems:
            if seed != seeds[0] and system not in points:
                continue
            try:
                said, found = _point(runner, budget, system, seed)
            except InputError as refused:
                notes.append(f"{runner.data.name}, left out: {system.label}: {refused}")
                continue
            if not is_place(system.algorithm):
                context.uses(system.algorithm, runner.data)
                context.uses(system.as_program, runner.data)
            chosen[system] = said
            for reading, point in found.items():
                points.setdefault(system, {}).setdefault(reading, []).append(point)
            context.cells._progress(next(steps), total, f"seed {seed}: {system.label}")
    readings = (LEAK, TRUE, CHOSEN, OFF_LEAK, OFF)
    return [
        Measured(system, {each: of.get(each) for each in readings}, chosen[system])
        for system, of in points.items()
    ]


def _point(
    runner: FieldRunner, budget: FieldBudget, system: FieldSystem, seed: int
) -> tuple[str, dict[str, FieldPoint]]:
    """One seed of a system in every reading, and the chosen settings in words."""
    best = runner.searched(system.algorithm, {}, trials=budget.trials, rounds=budget.rounds)
    train = partial(runner.point, system.as_program, seed=seed)
    cut = 0 if system.whole else budget.cut
    rounds = _rounds(system.as_program, runner.data, cut)
    found = {
        TRUE: train({}, rounds=rounds, negatives=HONEST),
        CHOSEN: runner.point(system.algorithm, best.settings, seed=seed, rounds=best.rounds),
    }
    if draws(system.as_program):
        found[LEAK] = train({}, rounds=rounds, negatives=LEAKY)
        if system.fits_alone(runner.data) and (not budget.alone or seed < budget.alone):
            found[OFF_LEAK] = train(ALONE, rounds=rounds, negatives=LEAKY)
            found[OFF] = train(ALONE, rounds=rounds, negatives=HONEST)
    made: Any = algorithm_of(system.algorithm, {})
    usual = dict(made)
    changed = {key: value for key, value in best.settings.items() if usual.get(key) != value}
    return f"{worded_settings(changed) or 'as they come'}; rounds {best.rounds or '-'}", found


def _rounds(algorithm: str, data: Interactions, cut: int) -> int | None:
    """The rounds of a training as its program does; None of one that has none."""
    made: Any = algorithm_of(algorithm, {})
    if not hasattr(made, "default_rounds"):
        return None
    usual = int(made.configured(data.catalogue).default_rounds(data.catalogue))
    return min(usual, cut) if cut else usual


# ---- rows, tests, words --------------------------------------------------------------------------


def _found(
    data: Interactions, budget: FieldBudget, every: Sequence[Measured], seeds: Sequence[int]
) -> Found:
    """The table of one data set."""
    rows = [line for one in every for line in _rows(data.name, budget, one, seeds)]
    tests = _tests(data.name, every)
    once = worded("field", "once", count=budget.alone) if budget.alone else ""
    notes = [
        worded(
            "field",
            "protocol",
            name=data.name,
            budget=budget,
            seeds=", ".join(map(str, seeds)),
            held=worded("field", "ncf" if budget.protocol.startswith("ncf") else "loo"),
            alone=once,
        ),
        *_diverged(data.name, every),
        *_orders(data.name, every),
        *_alone(data.name, every),
        *(f"{data.name}, {HR}: {verdict(test)}." for test in tests if test["metric"] == HR),
    ]
    return Found(rows=rows, notes=notes, tests=tests, figures=_figures(data.name, every))


def _diverged(data: str, every: Sequence[Measured]) -> list[str]:
    """The trainings whose numbers grew beyond what can be added up."""
    said = []
    for one in every:
        for reading, points in one.points.items():
            why = next((point.failed for point in points or () if point.failed), "")
            if why:
                said.append(
                    worded(
                        "field",
                        "diverged",
                        name=data,
                        label=one.system.label,
                        reading=reading,
                        why=why,
                    )
                )
    return said


def _rows(data: str, budget: FieldBudget, one: Measured, seeds: Sequence[int]) -> Iterator[Row]:
    """Every figure of a system: accuracy in each reading, costs of the chosen settings, and what
    attacks were measured to find."""
    label = one.system.label
    said = (
        f"{budget.protocol}, no refit; leaky and honest: {one.system.as_program}; chosen:"
        f" {one.system.algorithm}, of {budget.trials} settings"
        f" on validation rows: {one.said}; seeds"
        f" {', '.join(map(str, seeds))}"
        + (f"; aggregation off: the first {budget.alone} of them" if budget.alone else "")
    )
    for metric in RANKED:
        for reading in (LEAK, TRUE, CHOSEN, OFF_LEAK, OFF):
            values = one.values(reading, metric)
            yield _figure(data, label, f"{reading} {metric}", values, said)
    for metric, name in TAKEN.items():
        yield _figure(data, label, name, one.values(CHOSEN, metric), said)
    rounds = [float(point.rounds) for point in one.points[CHOSEN] or () if point.rounds]
    yield _figure(data, label, ROUNDS, rounds, said)
    for name, views in ((MESSAGES, ("individual", "neighbour")), (SUMS, ("sum", "difference"))):
        yield row(data, label, name, paper=None, obtained=_attack(one.system, views), protocol=said)


def _figure(
    data: str,
    label: str,
    metric: str,
    values: Sequence[float],
    said: str,
) -> Row:
    """A row over seeds; an empty one where a system has no such figure."""
    if not values:
        return row(data, label, metric, paper=None, obtained=None, protocol=said)
    return seed_row(data, label, metric, values, None, said)


def _attack(system: FieldSystem, views: Sequence[str]) -> float | None:
    """The R-precision of the best attack that audits of this package have measured; None if none
    was."""
    best = [
        attack["r_precision"]
        for entry in evidence.measured(system.attacked or system.algorithm)
        if entry["view"] in views and (attack := evidence.best(entry)) is not None
    ]
    return max(best, default=None)


def _tests(data: str, every: Sequence[Measured]) -> list[dict[str, Any]]:
    """Each system leaky against honest, and the chosen settings of each against those of the most
    accurate one: over users and seeds, Holm over the pairs of a metric, with effect sizes."""
    found = list[dict[str, Any]]()
    for metric in RANKED:
        leaks = [
            (f"{one.system.label}, {LEAK}", f"{one.system.label}, {TRUE}", leaky, honest)
            for one in every
            if (leaky := one.users(LEAK, metric)) is not None
            and (honest := one.users(TRUE, metric)) is not None
        ]
        chosen = {
            one.system.label: users
            for one in every
            if (users := one.users(CHOSEN, metric)) is not None
        }
        ordered = sorted(chosen, key=lambda label: -float(chosen[label].mean()))
        pairs = [
            (f"{ordered[0]}, {CHOSEN}", f"{other}, {CHOSEN}", chosen[ordered[0]], chosen[other])
            for other in ordered[1:]
        ]
        for group in (leaks, pairs):
            for test, (_, _, x, y) in zip(tested_columns(data, metric, group), group, strict=True):
                found.append({**test, "t": test["t"] or 0.0, "effect": _effect(x - y)})
    return found


def _effect(differences: np.ndarray) -> float | None:
    """Cohen's d over users: the mean by the standard deviation; None where all are the same.
    differences: [seeds, users].
    """
    of_user = differences.mean(axis=0)
    deviation = of_user.std(ddof=1)
    return float(of_user.mean() / deviation) if deviation else None


def _orders(data: str, every: Sequence[Measured]) -> list[str]:
    """The order of the systems with the leak, without it, and with chosen settings."""
    said = []
    for reading in (LEAK, TRUE, CHOSEN):
        means = {
            one.system.label: float(np.mean(values))
            for one in every
            if (values := one.values(reading, HR))
        }
        ordered = dict(sorted(means.items(), key=lambda entry: -entry[1]))
        if ordered:
            said.append(
                worded("field", "order", name=data, reading=reading, said=listed(ordered, ".3f"))
            )
    return said


def _alone(data: str, every: Sequence[Measured]) -> list[str]:
    """What each personalised system scores when nobody learns from anybody."""
    said = []
    for one in every:
        leaky, honest = one.values(OFF_LEAK, HR), one.values(OFF, HR)
        if leaky and honest:
            said.append(
                f"{one.system.label}: leaky {np.mean(leaky):.3f}, honest {np.mean(honest):.3f}"
            )
    return [worded("field", "alone", name=data, said="; ".join(said))] if said else []


def _figures(data: str, every: Sequence[Measured]) -> dict[str, str]:
    """Leaky against honest, one dot a system, and the diagonal on which there is no leak."""
    points = {
        one.system.label: (float(np.mean(honest)), float(np.mean(leaky)))
        for one in every
        if (leaky := one.values(LEAK, HR)) and (honest := one.values(TRUE, HR))
    }
    if not points:
        return {}
    look = FigureFormat(f"HR@10 on {data}", x_label="honest", y_label="with the leak")
    return {f"field-{data}": diagonal(points, look)}


def diagonal(points: Mapping[str, Point], look: FigureFormat) -> str:
    """A named point for each system on two axes with the same ends, and the dashed line on which
    both values are equal.
    """
    both = axis_of([[value for point in points.values() for value in point]])
    frame = Canvas(look, both, both)
    ends = [float(both.low), float(both.high)]
    shapes = [path(frame.places(ends, ends), MUTED, "4 3", width=1)]
    legend = [LegendEntry("equal", path([(0, 0), (22, 0)], MUTED, "4 3", width=1))]
    for number, (label, (x, y)) in enumerate(points.items()):
        shapes += [mark(number, place, 1.2) for place in frame.places(x, y)]
        legend.append(LegendEntry(label, mark(number, (11, 0), 1.2)))
    return frame.drawn(shapes, legend)


def with_own(own: Sequence[str] = ()) -> PaperTable:
    """The table, with the researcher's own files as further lines."""
    return PaperTable(
        title="the systems that today's papers compare: leaky and honest (in no paper)",
        data=lambda context, notes: (),
        before=partial(before, own=own),
    )


EXPERIMENTS = {"field": with_own()}
