"""PEPPER, figure 9 and table 8: what learning costs a node, until its own model has converged:
processor time, and rounds of communication.

The paper does not say when a node has converged, nor on which rows. Here: at the first look at
which HR@20 is within 5 % of the node's best, on rows that are set apart from its training, and that
nobody weighs or tests by. On the weighting sets, by which PEPPER chooses what it takes and its
competitors nothing, the same is told beside it: there PEPPER is judged by what it optimises. A
node's seconds are the models it had received by then, times the processor seconds of one received
model in the same run (judging, merging, a local epoch), as a device would have spent them;
decentralised Reptile's fine-tuning comes after and is not in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from entrenous.core.types import Float64Array
from entrenous.report.figures import FigureFormat, lines

from .cell import Outcome
from .findings import tested_columns
from .measures import WITHIN
from .opened import pepper
from .pepper_accuracy import GOSSIP, MOVIELENS
from .pepper_tails import steps
from .study import Study, System
from .table import PaperTable, Trained, Values, on_test_rows
from .values import printed, worded

CONVERGED = "hr@20"
APART, WEIGHED = "apart", "validation"
SYSTEMS = tuple(System(f"{name}-gmf") for name in GOSSIP)
PEPPER = System("pepper-gmf")
ROUNDS, MILLISECONDS, MODELS, COST = "rounds", "CPU ms", "models received", "us a model"
ROUNDS_WEIGHED = "rounds, on weighting sets"
PRINTED_9 = ("pepper", "gossip-reptile", "gossip-age")
# Shares of nodes that compute less and more than the median node of model-age until they have
# converged: the two groups of figure 9a.
QUICKER, SLOWER = "nodes quicker than model-age's", "nodes slower than model-age's"
MODEL_AGE = System("gossip-age-gmf")
FIGURE_9, TABLE_8 = printed("pepper", "fig9", "fig9a"), printed("pepper", "table8")


class Costs(NamedTuple):
    """Until each node's convergence, float64 [nodes]: rounds, models received, processor seconds.
    each: seconds of one model.
    """

    rounds: Float64Array
    models: Float64Array
    seconds: Float64Array
    each: float


def costs(study: Study, outcome: Outcome, part: str = APART) -> Costs | None:
    """What one training cost every node that has rows in the part; None if it diverged before the
    first look.
    """
    looks = outcome.looks
    if not looks:
        return None
    nodes, per_user = (
        np.flatnonzero(study.part(part).held.rows.counts),
        [look.per_user[CONVERGED] for look in looks],
    )
    values, received = np.array(per_user), np.array([look.nodes["received"] for look in looks])
    at = np.argmax(values >= (1 - WITHIN) * values.max(axis=0), axis=0)
    models = received[at, nodes].astype(np.float64)
    each = looks[-1].cpu_seconds / max(1, int(received[-1].sum()))
    return Costs(
        np.array([looks[k].rounds for k in at.tolist()], np.float64), models, models * each, each
    )


def costs_of_all(
    study: Study, systems: Sequence[System], part: str = APART
) -> dict[System, list[Costs]]:
    """The costs of every seed, trained one after another; none if one of them diverged."""
    found = dict[System, list[Costs]]()
    for system, outcomes in study.curves(
        systems, study.seeds, (CONVERGED,), part=part, timed=True
    ).items():
        each = [cost for outcome in outcomes if (cost := costs(study, outcome, part)) is not None]
        found[system] = each if len(each) == len(outcomes) else []
    return found


def on_curves(study: Study, systems: list[System]) -> Trained:
    """The `train` of figure 9; `more` is {part: {system: the costs of every seed}}."""
    return Trained(
        study=study,
        systems=systems,
        more={part: costs_of_all(study, systems, part) for part in (APART, WEIGHED)},
    )


# ---- figure 9 ------------------------------------------------------------------------------------


def values_of(trained: Trained, system: System) -> Values:
    """Rounds and seconds over nodes; and the rounds by the rows that PEPPER weighs by."""
    weighed = [cost.rounds.mean() for cost in trained.more[WEIGHED][system]]
    apart = trained.more[APART]
    values = {**costs_in_numbers(apart[system]), ROUNDS_WEIGHED: weighed}
    return {**values, **_groups(apart[system], apart.get(MODEL_AGE, ()))}


def _groups(mine: Sequence[Costs], of_model_age: Sequence[Costs]) -> Values:
    """Returns the shares of nodes that take fewer and more processor seconds than the median node
    of model-age of the same seed; nothing without model-age.
    """
    if len(mine) != len(of_model_age):
        return {}
    pairs = [
        (cost.seconds, np.median(other.seconds))
        for cost, other in zip(mine, of_model_age, strict=True)
    ]
    return {
        QUICKER: [float(np.mean(seconds < median)) for seconds, median in pairs],
        SLOWER: [float(np.mean(seconds > median)) for seconds, median in pairs],
    }


def costs_in_numbers(mine: Sequence[Costs]) -> Values:
    """What each seed cost."""
    return {
        ROUNDS: [cost.rounds.mean() for cost in mine],
        f"{ROUNDS} p50": [np.percentile(cost.rounds, 50) for cost in mine],
        f"{ROUNDS} p99": [np.percentile(cost.rounds, 99) for cost in mine],
        MODELS: [cost.models.mean() for cost in mine],
        COST: [1e6 * cost.each for cost in mine],
        MILLISECONDS: [1e3 * cost.seconds.mean() for cost in mine],
        f"{MILLISECONDS} p99": [1e3 * np.percentile(cost.seconds, 99) for cost in mine],
    }


def convergence_note(trained: Trained) -> list[str]:
    """When a node has converged."""
    horizon, every = trained.study.budget.gossip
    return [
        worded(
            "pepper", "converged", name=trained.name, within=WITHIN, horizon=horizon, every=every
        )
    ]


def pace_tests(trained: Trained) -> list[dict[str, Any]]:
    """PEPPER's rounds against each other system's: tests over nodes and seeds, Holm over the
    systems.
    """
    found = list[dict[str, Any]]()
    for part, metric in ((APART, ROUNDS), (WEIGHED, ROUNDS_WEIGHED)):
        rounds = {
            system: np.array([cost.rounds for cost in mine])
            for system, mine in trained.more[part].items()
            if mine
        }
        own = rounds.pop(PEPPER, None)
        if own is not None:
            found += tested_columns(
                trained.name,
                metric,
                [(str(PEPPER), str(other), own, theirs) for other, theirs in rounds.items()],
            )
    return found


def saved_rounds(trained: Trained) -> list[str]:
    """The rounds that PEPPER saves, and how unevenly its nodes receive models."""
    if not trained.more[APART].get(PEPPER):
        return []
    name, known = (
        trained.name,
        {who: FIGURE_9[str(MOVIELENS), f"{who}-gmf", ROUNDS] for who in PRINTED_9},
    )
    reptile, age = (1 - known["pepper"] / known[who] for who in PRINTED_9[1:])
    ahead = {
        metric: _ahead(trained, part, metric)
        for part, metric in ((APART, ROUNDS), (WEIGHED, ROUNDS_WEIGHED))
    }
    received = np.concatenate(
        [cost.models / np.maximum(cost.rounds, 1) for cost in trained.more[APART][PEPPER]]
    )
    low, high = np.percentile(received, [10, 90])
    of = {"ahead": ahead[ROUNDS], "weighed": ahead[ROUNDS_WEIGHED], "reptile": reptile, "age": age}
    return [
        worded("pepper", "saved", name=name, **of),
        worded("pepper", "received", name=name, low=low, high=high),
    ]


def _ahead(trained: Trained, part: str, metric: str) -> str:
    """PEPPER's saving against each other system, with the p of its test."""
    p = {test["b"]: test["p_holm"] for test in trained.tests if test["metric"] == metric}
    mean = {system: mean_rounds(mine) for system, mine in trained.more[part].items() if mine}
    own = mean.pop(PEPPER)
    return ", ".join(
        f"{1 - own / rounds:+.0%} against {system} (p = {p[str(system)]:.2g})"
        for system, rounds in mean.items()
    )


def mean_rounds(mine: Sequence[Costs]) -> float:
    """Until convergence, mean over nodes and seeds."""
    return float(np.mean([cost.rounds.mean() for cost in mine]))


def _figures(trained: Trained) -> dict[str, str]:
    drawn, costs = {}, trained.more[APART]
    for name, what in (
        ("seconds", "processor seconds to convergence"),
        ("rounds", "rounds to convergence"),
    ):
        found = {
            str(system): [getattr(cost, name) for cost in mine]
            for system, mine in costs.items()
            if mine
        }
        series = {
            system: steps(np.concatenate(values).tolist()) for system, values in found.items()
        }
        title, label = f"Figure 9: {trained.name}", "share of nodes"
        drawn[f"{name}-{trained.slug}"] = lines(
            series, FigureFormat(title=title, x_label=what, y_label=label), marks=False
        )
    return drawn


# ---- table 8: a peer set of 3 or of 6 ------------------------------------------------------------

VIEWS = (3, 6)
VIEW_SYSTEMS = {
    view: System("pepper-gmf", more=(("view", view),), own_rounds=True) for view in VIEWS
}
HR, RATIO = "hr@20", "CPU, x view 3"


def on_both(study: Study, systems: list[System]) -> Trained:
    """HR on the test rows at each one's best round; rounds and seconds of the curves."""
    return replace(on_test_rows(study, systems), more=costs_of_all(study, systems))


def view_values(trained: Trained, system: System) -> Values:
    """Hit ratio, rounds, models and seconds, and seconds over those of the first view."""
    mine, first = trained.more[system], trained.more[trained.systems[0]]
    return {
        HR: [look.metrics[HR] for look in trained.looks[system]],
        **{
            name: values
            for name, values in costs_in_numbers(mine).items()
            if name in (ROUNDS, MODELS, MILLISECONDS)
        },
        RATIO: [a.seconds.mean() / b.seconds.mean() for a, b in zip(mine, first, strict=False)],
    }


def view_notes(trained: Trained) -> list[str]:
    """The claim: six peers converge in fewer rounds and compute more; and what one received model
    costs.
    """
    mine = [trained.more.get(system, ()) for system in VIEW_SYSTEMS.values()]
    if not all(mine):
        return []
    rounds, seconds = (
        [TABLE_8[str(MOVIELENS), str(s), name] for s in VIEW_SYSTEMS.values()]
        for name in (ROUNDS, MILLISECONDS)
    )
    received = [known * view for known, view in zip(rounds, VIEWS, strict=True)]
    theirs = [cost / models for cost, models in zip(seconds, received, strict=True)]
    ours = [1e3 * float(np.mean([cost.each for cost in some])) for some in mine]
    change = {
        "ours": mean_rounds(mine[1]) / mean_rounds(mine[0]) - 1,
        "paper": rounds[1] / rounds[0] - 1,
    }
    times = {"theirs_times": theirs[1] / theirs[0], "ours_times": ours[1] / ours[0]}
    return [
        worded("pepper", "views", name=trained.name, **change),
        worded("pepper", "models", received=received, theirs=theirs, ours=ours, **times),
    ]


# ---- who receives fewer models -------------------------------------------------------------------

FEW_OVER_REST = "models a round, nodes of few rows over the rest"


def few_over_rest(trained: Trained, system: System) -> Values:
    """The models that nodes with fewer rows than the median node receive in a round, over those of
    the others: the stated cause of the two groups of figure 9a.
    """
    part = trained.study.part(APART)
    rows = part.rows.counts[part.held.rows.counts > 0]
    few = rows < np.median(rows)
    received = [cost.models / np.maximum(cost.rounds, 1) for cost in trained.more[system]]
    return {FEW_OVER_REST: [models[few].mean() / models[~few].mean() for models in received]}


def few_note(trained: Trained) -> list[str]:
    """The ratios of all systems in a sentence."""
    ratios = [row["obtained"] for row in trained.rows]
    return [
        f"{trained.name}: in a round, nodes of few rows receive {min(ratios):.2f} to"
        f" {max(ratios):.2f} times as many models as the rest. The text has fewer."
    ]


EXPERIMENTS = {
    "pepper-received": PaperTable(
        title="models that nodes of few rows receive, over those of the rest (PEPPER, 5.5.6)",
        data=pepper(MOVIELENS),
        systems=SYSTEMS,
        train=on_both,
        metrics=few_over_rest,
        findings=(few_note,),
    ),
    "pepper-fig9": PaperTable(
        title="computing time and rounds until a node's model has converged (PEPPER, figure 9)",
        data=pepper(MOVIELENS),
        systems=SYSTEMS,
        train=on_curves,
        metrics=values_of,
        printed=FIGURE_9,
        tests=pace_tests,
        findings=(convergence_note, saved_rounds),
        figures=_figures,
    ),
    "pepper-table8": PaperTable(
        title="a peer set of 3 or 6: accuracy, rounds, seconds (PEPPER, table 8)",
        data=pepper(MOVIELENS),
        systems=tuple(VIEW_SYSTEMS.values()),
        train=on_both,
        metrics=view_values,
        printed=TABLE_8,
        findings=(view_notes,),
    ),
}
