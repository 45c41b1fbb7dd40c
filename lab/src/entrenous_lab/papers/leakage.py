"""What attacks find out in one setting of a training, beside its accuracy and what it sends: what
the tables on privacy consist of.

Every setting is trained and attacked once a seed, and the table has means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from entrenous_audit.examine import audited
from entrenous_audit.measures import SURE
from entrenous_audit.plan import AuditPlan

from entrenous.data.interactions import Interactions
from entrenous.data.load import load
from entrenous.privacy.evidence import best
from entrenous.privacy.told import verdict_of
from entrenous.runs import pipeline
from entrenous.runs.options import RunPlan
from entrenous.runs.plan import protection_in, usual_protocol
from entrenous.runs.recommenders import FederatedRecommender

from .result import Context, Found, Row, row
from .table import seed_row

DATA, FEW = "ml-100k", 200  # items, below which 99 candidates may not be found
SEEDS, QUICK_SEEDS = 3, 1
R_PRECISION, POPULARITY, EXACT, KB_UP = (
    "R-precision",
    "popularity alone",
    "named exactly",
    "kB up, a device and round",
)
BY_SERVER = {
    "noise_by": "server"
}  # the same noise as by shares of the devices, in a simulation much sooner
ACCURACIES = ("hr@10", "rmse")


class LeakPoint(NamedTuple):
    """One setting, measured with one seed, or the mean over several. system: its row; family: its
    line in a figure; plan: how it was attacked. accuracy: of the training to its end, by the metric
    called `metric`. r_precision: of the best attack (None: none was tried); popularity: of the
    guess; exact: the share of histories that an attack names with a precision of .9 or more (None:
    none was tried); kb: up, of a device in a round. attack, verdict: of the best attack, of every
    seed where they differ.
    """

    system: str
    family: str
    plan: AuditPlan
    metric: str
    accuracy: float
    r_precision: float | None
    popularity: float
    exact: float | None
    attack: str
    verdict: str
    kb: float


def rows_of(context: Context) -> Interactions:
    """The data of the experiment, or those that were given in their place."""
    return context.data or load(DATA)


def measured_point(
    system: str,
    family: str,
    plan: AuditPlan,
    context: Context,
    *,
    rounds: int | None = None,
    run: pipeline.RunResult | None = None,
) -> LeakPoint:
    """Trains and attacks in one setting. rounds: of the training whose accuracy counts, None = the
    algorithm's own. run: that training, of `trained_point`, where points differ in what is seen of
    it alone.
    """
    run, plan = run or trained_point(plan, context, rounds=rounds), _on(plan, context)
    found = audited(plan, rows_of(context))
    metric = next(name for name in ACCURACIES if name in run.metrics)
    attack = best(found) or {}
    attacks = found["attacks"]
    sure = [one["recall"] or 0.0 for one in attacks if (one["precision"] or 0) >= SURE]
    exact = max(sure, default=0.0) if attack else None
    return LeakPoint(
        system,
        family,
        plan,
        metric,
        run.metrics[metric],
        attack.get("r_precision"),
        found["popularity"]["r_precision"] or 0.0,
        exact,
        attack.get("name", "none"),
        verdict_of(found),
        _bytes_up(run) / 1e3,
    )


def trained_point(
    plan: AuditPlan, context: Context, *, rounds: int | None = None
) -> pipeline.RunResult:
    """The training of a setting to its end, whose accuracy and bytes count. rounds: None = the
    algorithm's own.
    """
    rows, plan = rows_of(context), _on(plan, context)
    context.uses(plan.algorithm, rows)
    rounds = min(rounds or 5, 5) if context.quick and context.data else rounds
    cohort = {"cohort": plan.cohort} if plan.cohort else {}
    return pipeline.run(
        plan.algorithm,
        rows,
        protocol=plan.protocol,
        seed=plan.seed,
        rounds=rounds,
        settings={**plan.settings, **cohort},
        profile=plan.profile,
        protect=plan.protect,
        network=plan.network,
    )


def _on(plan: AuditPlan, context: Context) -> AuditPlan:
    """A plan on the data of the experiment."""
    rows = rows_of(context)
    return replace(
        plan,
        data=rows.name,
        seed=context.seed,
        quick=True,
        protocol=_protocol(rows, plan.algorithm),
    )


def _bytes_up(run: pipeline.RunResult) -> float:
    """What a device sends in a round: counted; or with a row for every item where it adds noise,
    which a simulation adds to the sum.
    """
    sent, recommender = run.manifest["ledger"], run.recommender
    if isinstance(recommender, FederatedRecommender) and recommender.contract.way("rows"):
        plan = RunPlan(
            algorithm=run.manifest["algorithm"],
            profile=run.manifest["profile"],
            protect=run.manifest["protect"],
        )
        if protection_in(plan, recommender.algorithm).noise:
            return recommender.contract.sizes["items"] * recommender.contract.row_bytes
    return float(sent["bytes_up"] / max(1, sent["device_rounds"]))


def _protocol(rows: Interactions, algorithm: str) -> str:
    return usual_protocol(rows, algorithm) if len(rows.items) >= FEW else "loo-20"


def mean(points: Sequence[LeakPoint]) -> LeakPoint:
    """One setting over seeds. An attack applies to all seeds of a setting or to none."""
    figures = {
        name: [getattr(point, name) for point in points]
        for name in ("accuracy", "r_precision", "popularity", "exact", "kb")
    }
    words = {
        name: " or ".join(dict.fromkeys(getattr(point, name) for point in points))
        for name in ("attack", "verdict")
    }
    means = {
        name: None if None in values else float(np.mean(values)) for name, values in figures.items()
    }
    more: dict[str, Any] = {**means, **words}
    return points[0]._replace(**more)


def table_rows(points: Sequence[Sequence[LeakPoint]], context: Context) -> list[Row]:
    """A row for each figure of each setting, of which there is a point for each seed."""
    return [line for seeded in points for line in _setting_rows(seeded, context)]


def _setting_rows(seeded: Sequence[LeakPoint], context: Context) -> Iterator[Row]:
    whole, seeds = mean(seeded), [point.plan.seed for point in seeded]
    more: dict[str, Any] = {"seeds": seeds, "attack": whole.attack, "verdict": whole.verdict}
    said = f"{_said(whole, context)}; seeds {', '.join(map(str, seeds))}"
    for metric, figure in _values(whole).items():
        known = (rows_of(context).name, whole.system, metric)
        if figure is None:
            yield row(*known, paper=None, obtained=None, protocol=said, **more)
        else:
            each = [value for point in seeded if (value := _values(point)[metric]) is not None]
            yield seed_row(*known, each, None, said, **more)


def _values(point: LeakPoint) -> Mapping[str, float | None]:
    return {
        point.metric: point.accuracy,
        R_PRECISION: point.r_precision,
        POPULARITY: point.popularity,
        EXACT: point.exact,
        KB_UP: point.kb,
    }


def _said(point: LeakPoint, context: Context) -> str:
    """How a point came about."""
    plan = point.plan
    seen = f"view {plan.view}, {plan.rounds} rounds attacked"
    protect = "".join(f", {name}={value}" for name, value in plan.protect.items())
    settings = "".join(f", {name}={value}" for name, value in plan.settings.items())
    how = (
        f"{plan.algorithm}{settings}; profile {plan.profile}{protect}; {seen}; best attack"
        f" {point.attack}"
    )
    return f"{plan.protocol}; {how}{'; quick excerpt' if context.quick else ''}"


def said_of(points: Sequence[LeakPoint], what: str) -> str:
    """A paragraph: the best attack of every point beside popularity."""
    each = "; ".join(
        f"{point.system} {_number(point.r_precision)} ({point.attack}; popularity"
        f" {point.popularity:.3f}; {_accuracy(point)})"
        for point in points
    )
    return f"{what}, R-precision of the best attack: {each}."


def by_family(points: Sequence[LeakPoint], beside: str = "") -> list[str]:
    """A paragraph on each family of points, in the order of the points. beside: what to say after
    its name.
    """
    families = dict.fromkeys(point.family for point in points)
    return [
        said_of([point for point in points if point.family == family], f"{family}{beside}")
        for family in families
    ]


def _accuracy(point: LeakPoint) -> str:
    return f"{point.metric} {point.accuracy:.4f}"


def _number(value: float | None) -> str:
    return "not attacked" if value is None else f"{value:.3f}"


def front(points: Sequence[LeakPoint]) -> list[LeakPoint]:
    """The points that no other one beats: none is at least as accurate and tells no more, and
    better in one of both (Pareto). For a metric of which more is better."""
    known = [point for point in points if point.r_precision is not None]

    def leak(point: LeakPoint) -> float:
        """What an attack finds beyond popularity: below it nothing is gained by being lower."""
        return max(0.0, (point.r_precision or 0.0) - point.popularity)

    def beaten(one: LeakPoint) -> bool:
        return any(
            (other.accuracy >= one.accuracy and leak(other) <= leak(one))
            and (other.accuracy, -leak(other)) != (one.accuracy, -leak(one))
            for other in known
        )

    return [point for point in known if not beaten(point)]


Measure = Callable[[Context], Iterable[LeakPoint]]
Finding = Callable[[Sequence[LeakPoint]], Sequence[str]]


def found_of(
    measure: Measure,
    finding: Finding,
    figure: Callable[[Sequence[LeakPoint]], Mapping[str, str]] | None = None,
) -> Any:
    """The `before` of a table that consists of points: it needs no study. measure: the points of
    one seed, in the same order for each.
    """

    def before(context: Context) -> Found:
        if not context.wants(DATA):
            return Found()
        seeds = context.seed_numbers(QUICK_SEEDS if context.quick else SEEDS)
        points = list(zip(*(measure(replace(context, seed=seed)) for seed in seeds), strict=True))
        means = [mean(seeded) for seeded in points]
        figures = dict(figure(means)) if figure else {}
        return Found(rows=table_rows(points, context), notes=[*finding(means)], figures=figures)

    return before
