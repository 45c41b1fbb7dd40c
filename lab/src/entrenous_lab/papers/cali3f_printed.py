"""Cali3F as algorithm 1 prints it: a client sends one gradient, a twentieth of the clients take
part in a round, and 700 rounds are trained (the paper's best comes at about round 714).

The paper prints the highest figures that it observed, and names no validation rows. So here the
test rows are looked at on the way, and figures that are the best of these looks are called "highest
observed"; the others are those of the last round, a length that no row chose. Learning rates are
chosen on validation rows. FedAvg sends one gradient as well: with the settings of Cali3F, as
section IV-D has it, and with a rate of its own. Clusters are of user embeddings, as in the paper's
experiments, and of what is known about users (section III-B): occupation, gender and age.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from entrenous.evaluation.protocol import RANKING
from entrenous.report.figures import FigureFormat, lines

from .cali3f_clusters import drawn_over_clusters, influence, paces_of
from .cali3f_metadata import MEANT, TRAITS, grouped, groups_of, metadata
from .cali3f_rounds import (
    AT,
    NEAR,
    OMITTED,
    RATIO,
    TABLE_3,
    ratios,
    same_goal,
    still_rises,
)
from .cell import Outcome
from .effort import GRADIENTS
from .findings import against
from .measures import (
    CPU_SECONDS,
    FAIRNESS,
    MB_SENT,
    ROUNDS,
    WITHIN,
    each,
    near_round,
    paces,
    reached,
)
from .opened import cali3f
from .remember import storable
from .result import Row
from .study import Study, System, mean_curve
from .table import PaperTable, Trained, Values, metric_rows
from .values import Printed, listed, printed, worded

Systems = Callable[[Study], Sequence[System]]
METRICS = HR, NDCG = ("hr@10", "ndcg@10")
HIGHEST = "highest observed"
# A goal that is the same for all: within 5 % of the best of FedAvg with the settings of Cali3F.
GOAL_ROUNDS, GOAL_SECONDS = "rounds to FedAvg's goal", "CPU s to FedAvg's goal"
SHARE = 0.05
# Looks that come before those of the budget: the paper's curves are within 5 % at round 10.
EARLY = (1, 5, 10, 15, 20, 30, 40)
USUAL_CLUSTERS = 20
POPULAR = System("popular")
TABLE_2 = printed("cali3f", "table2")
# The printed figures are "highest observed", and stand beside ours of that name.
PRINTED: Printed = {
    **{(data, system, f"{m}, {HIGHEST}"): value for (data, system, m), value in TABLE_2.items()},
    **TABLE_3,
}


def cohort_of(study: Study) -> int:
    """The devices of a round."""
    return max(1, round(SHARE * len(study.data.users)))


def gradients(study: Study, algorithm: str, name: str = "", **more: Any) -> System:
    """A system whose devices send one gradient. name: in tables, "" = that of the algorithm."""
    own = {"client": "gradient", "cohort": cohort_of(study), **more}
    if algorithm.startswith("cali3f-"):
        own = {"clusters": min(USUAL_CLUSTERS, cohort_of(study)), **own}
    return System(algorithm, own=tuple(own.items()), called=name or algorithm)


def pair(study: Study, model: str) -> list[System]:
    """Cali3F, and FedAvg with the settings of Cali3F and with a rate of its own."""
    theirs = gradients(study, f"fedavg-{model}", server_rate_item=1.0)
    own = gradients(study, f"fedavg-{model}", f"fedavg-{model}, own rate", server_rate_item=1.0)
    return [
        gradients(study, f"cali3f-{model}"),
        theirs._replace(label=f"cali3f-{model}"),
        own,
    ]


def with_neumf(study: Study) -> list[System]:
    """NeuMF, of which table III and the text are."""
    return [POPULAR, *pair(study, "neumf")]


def with_metadata(study: Study) -> list[System]:
    """Clusters of embeddings and, where users have metadata, by occupation, by occupation and
    gender, and by k-means of all metadata into as many as the paper speaks of.
    """
    mine = [gradients(study, "cali3f-neumf")]
    table = metadata(study)
    if table is None:
        return mine
    several = {
        "occupation": grouped(table, "occupation"),
        "occupation and gender": grouped(table, *TRAITS),
        f"{MEANT} of k-means": groups_of(table, MEANT),
    }
    return mine + [
        gradients(study, "cali3f-neumf", f"cali3f-neumf, clusters by {name}", groups=groups)
        for name, groups in several.items()
        if len(groups.names) <= cohort_of(study)
    ]


def with_gmf_and_mlp(study: Study) -> list[System]:
    """The other two networks of table II and figure 3."""
    return [POPULAR, *pair(study, "gmf"), *pair(study, "mlp")]


# ---- training, seen on the test rows -------------------------------------------------------------


def looks_of(study: Study) -> tuple[int, ...]:
    """After which rounds the test rows are looked at."""
    budget = study.budget
    early = [number for number in EARLY if number < budget.horizon]
    return tuple(sorted({*early, *budget.looks}))


def seen(study: Study, systems: list[System]) -> Trained:
    """Trains each system once a seed and looks at the test rows on the way; `more` is {system: the
    pace of each seed}, none of a system that diverged.
    """
    rounds = looks_of(study)
    looks = {system: (0,) if system == POPULAR else rounds for system in systems}
    asked = [
        study.pair(system, "test", seed, looks[system])
        for seed in study.seeds
        for system in systems
    ]
    every = iter(study.cells.outcomes_of(asked))
    by_seed = [{system: next(every) for system in systems} for _ in study.seeds]
    curves = {system: [outcomes[system] for outcomes in by_seed] for system in systems}
    whole = {system: ended(outcomes) for system, outcomes in curves.items()}
    return Trained(
        study=study,
        systems=systems,
        looks={system: [outcome.looks[-1] for outcome in mine] for system, mine in whole.items()},
        rounds={system: looks[system][-1] for system in systems},
        curves=whole,
        more={system: paces(mine) for system, mine in whole.items() if system != POPULAR},
    )


def ended(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The trainings of a system, none if one of them diverged."""
    return [] if any(outcome.failed for outcome in outcomes) else [*outcomes]


def accuracy_of(trained: Trained, system: System) -> Values:
    """The figures of the last round, and the highest observed on the way."""
    looks, curves = trained.looks[system], trained.curves[system]
    highest = {
        f"{metric}, {HIGHEST}": [
            max(look.metrics[metric] for look in outcome.looks) for outcome in curves
        ]
        for metric in METRICS
    }
    fair = {} if system == POPULAR else {name: each(looks, name) for name in FAIRNESS}
    return {**{metric: each(looks, metric) for metric in METRICS}, **highest, **fair}


def pace_of(trained: Trained, system: System) -> Values:
    """How soon a curve is within 5 % of the highest observed, and what that took."""
    mine = trained.more.get(system, [])
    if not mine:
        return {}
    near = [pace.near for pace in mine]
    values = {
        AT: [pace.best.rounds for pace in mine],
        NEAR: [look.rounds for look in near],
        OMITTED: [pace.omitted for pace in mine],
        MB_SENT: each(near, MB_SENT),
        CPU_SECONDS: each(near, CPU_SECONDS),
    }
    fedavg = trained.more.get(partner(trained, system))
    return {**values, RATIO: ratios(mine, fedavg)} if fedavg else values


def goal_of(trained: Trained, system: System) -> Values:
    """How soon a curve is where FedAvg with the settings of Cali3F is near its best; nothing where
    a seed never is."""
    goals = trained.more.get(partner(trained, system), [])
    if system == POPULAR or not goals:
        return {}
    found = [
        reached(outcome, (1 - WITHIN) * goal.best.metrics[RANKING.metric])
        for outcome, goal in zip(trained.curves[system], goals, strict=False)
    ]
    looks = [look for look in found if look is not None]
    if len(looks) < len(goals):
        return {}
    return {GOAL_ROUNDS: each(looks, ROUNDS), GOAL_SECONDS: each(looks, CPU_SECONDS)}


def partner(trained: Trained, system: System) -> System | None:
    """FedAvg over the same network with the settings of Cali3F, if it is here."""
    name = f"fedavg-{model_of(system)}"
    return next((other for other in trained.systems if str(other) == name), None)


def rows_of(trained: Trained) -> list[Row]:
    """Accuracy and fairness of each system, then its pace, which is a bound where a curve still
    rises."""
    paced = replace(trained, censored=still_rises(trained.more))
    rows = [
        *metric_rows(trained, accuracy_of, PRINTED),
        *metric_rows(trained, goal_of, {}),
        *metric_rows(paced, pace_of, PRINTED),
    ]
    return [as_trained(row) for row in rows]


def as_trained(row: Row) -> Row:
    """A row whose words say that nothing chose its rounds, and whose settings can be stored."""
    said = row["protocol"].replace(", chosen on validation here", "")
    settings = {name: storable(value) for name, value in row["settings"].items()}
    return {**row, "settings": settings, "protocol": said}


def tests_of(trained: Trained) -> list[dict[str, Any]]:
    """Cali3F at the last round against the others over the same network."""
    found = list[dict[str, Any]]()
    for system in compared_of(trained):
        model = model_of(system)
        others = [
            other for other in trained.systems if other != system and model_of(other) == model
        ]
        found += against(trained, system, others, METRICS)
    return found


def compared_of(trained: Trained) -> list[System]:
    """Cali3F over each network, as it comes."""
    return [system for system in trained.systems if str(system) == f"cali3f-{model_of(system)}"]


def model_of(system: System) -> str:
    """The network of a system: gmf, mlp or neumf."""
    return system.algorithm.partition("-")[2]


def notes_of(trained: Trained) -> list[str]:
    """The protocol, how soon each is near its best, and when it reaches the goal of FedAvg."""
    study, name = trained.study, trained.name
    about = {
        "name": name,
        "cohort": cohort_of(study),
        "users": len(study.data.users),
        "rounds": looks_of(study)[-1],
    }
    near = {str(system): near_round(mine) for system, mine in trained.more.items() if mine}
    lost = [str(system) for system, mine in trained.more.items() if not mine]
    rising = [
        str(system) for system, mine in trained.more.items() if any(pace.rising for pace in mine)
    ]
    said = [
        worded("cali3f", "as-printed", **about),
        worded(
            "cali3f",
            "printed-pace",
            name=name,
            within=WITHIN,
            near=listed(near, ".0f"),
            rising=", ".join(rising) or "none",
            lost=", ".join(lost) or "none",
        ),
    ]
    for system in compared_of(trained):
        fedavg = partner(trained, system)
        if fedavg and trained.more[fedavg] and trained.more[system]:
            goal = same_goal(trained.curves, (fedavg, system))
            said.append(worded("cali3f", "printed-goal", name=name, within=WITHIN, goal=goal))
    return said


def curves_drawn(trained: Trained) -> dict[str, str]:
    """NDCG@10 over the rounds, mean over seeds."""
    series = {
        str(system): mean_curve(trained.curves[system])
        for system, mine in trained.more.items()
        if mine
    }
    about = FigureFormat(
        title=f"One gradient a client: {trained.name}", x_label="round", y_label="NDCG@10"
    )
    return {f"convergence-{trained.name}": lines(series, about, marks=False)}


# ---- figure 5 ------------------------------------------------------------------------------------


def each_number(study: Study) -> list[System]:
    """Cali3F-GMF with every P for which a round has enough devices."""
    return [
        gradients(study, "cali3f-gmf", f"cali3f-gmf, clusters {p}", clusters=p)
        for p in study.clusters
        if p <= cohort_of(study)
    ]


def over_clusters(trained: Trained, system: System) -> Values:
    """The best look, and its round."""
    mine = trained.more[system]
    best = [pace.best.metrics[RANKING.metric] for pace in mine]
    return {AT: [pace.best.rounds for pace in mine], f"{NDCG}, {HIGHEST}": best}


def rows_over_clusters(trained: Trained) -> list[Row]:
    """The best look of every P, a bound where the curve still rises."""
    paced = replace(trained, censored=still_rises(trained.more))
    return [as_trained(row) for row in metric_rows(paced, over_clusters, {})]


def notes_over_clusters(trained: Trained) -> list[str]:
    """How much P changes the best NDCG@10, and the rounds to it."""
    found = paces_of(trained)
    return influence(trained.study, found) if found else []


def figures_over_clusters(trained: Trained) -> dict[str, str]:
    """Rounds and NDCG@10 over P."""
    title = f"Figure 5, one gradient a client: {trained.name}"
    return drawn_over_clusters(trained, title, f", {HIGHEST}")


def compared_table(title: str, systems: Systems, print_beside: Printed) -> PaperTable:
    """A table of accuracy and pace. print_beside: the paper's figures of the same rows."""
    return PaperTable(
        title=title,
        data=OPENED,
        systems=systems,
        train=seen,
        printed=print_beside,
        rows=rows_of,
        tests=tests_of,
        findings=(notes_of,),
        figures=curves_drawn,
    )


OPENED = cali3f(efforts=GRADIENTS, family="ncf-printed")
EXPERIMENTS = {
    "cali3f-printed": compared_table(
        "one gradient a client, over NeuMF (Cali3F, algorithm 1, tables II and III)",
        with_neumf,
        PRINTED,
    ),
    "cali3f-printed-metadata": compared_table(
        "one gradient a client, clusters of metadata (Cali3F, section III-B)",
        with_metadata,
        {},
    ),
    "cali3f-printed-rest": compared_table(
        "one gradient a client, over GMF and MLP (Cali3F, algorithm 1, table II)",
        with_gmf_and_mlp,
        PRINTED,
    ),
    "cali3f-printed-fig5": PaperTable(
        title="one gradient a client, over numbers of clusters (Cali3F, figure 5)",
        data=OPENED,
        systems=each_number,
        train=seen,
        rows=rows_over_clusters,
        findings=(notes_over_clusters,),
        figures=figures_over_clusters,
    ),
}
