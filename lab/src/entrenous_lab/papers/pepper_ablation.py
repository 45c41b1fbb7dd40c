"""What PEPPER's two ideas are worth, each alone, both and neither: a table that the paper does not
have.

Weighting (algorithm 2): a received model is taken by how well it does, or by one half whatever it
does. Personalised sampling (algorithm 3): two of three peers are the best heard from, or all are
drawn at random (alpha = 1). All four begin alike, learn alike and are trained for the same rounds,
those that the weighting sets chose for PEPPER as published. Beside real data there are planted
tastes, where each user belongs to one of some groups: there a node has peers like itself to find,
if anywhere. Beside them stands another weighting (`pepper_evidence.py`: by how sure a node is that
a model is better), and the same with equal weights, each for rounds of its own.
"""

from __future__ import annotations

from typing import Any

from entrenous.data.interactions import Interactions
from entrenous_lab.planted import planted

from .effort import RowSource
from .findings import tested_pairs, verdict
from .opened import opened, pepper_study
from .pepper_accuracy import FOURSQUARE, GOWALLA, MOVIELENS, WHOLE_MOVIELENS
from .result import Context
from .study import Study, System
from .table import PaperTable, Trained
from .values import worded

FEW = RowSource("ml-100k", "pepper-given-25")
REAL = (MOVIELENS, FEW, WHOLE_MOVIELENS, FOURSQUARE, GOWALLA)
GROUPS, EACH = (2, 8), 40  # planted groups of users, and rows of a user
NODES, ITEMS, LEAN = (
    160,
    600,
    12.0,
)  # each group likes its own items 12 times as much as equally popular others
# Whose settings are taken, where they are not the set's own. All 943 users have half the factors of
# the other tables: 30 trainings there.
CHOSEN_ON = {
    FEW: str(MOVIELENS),
    GOWALLA: str(FOURSQUARE),
    WHOLE_MOVIELENS: f"{WHOLE_MOVIELENS}, 16 factors",
}

HALF, RANDOM = {"aggregation": "half"}, {"alpha": 1.0}
BOTH = System("pepper-gmf", called="weighting and sampling (PEPPER)")
WEIGHTING = System("pepper-gmf", called="weighting alone").replaced(**RANDOM)
SAMPLING = System("pepper-gmf", called="sampling alone").replaced(**HALF)
NEITHER = System("pepper-gmf", called="neither").replaced(**HALF, **RANDOM)
EVIDENCE = System("pepper-evidence-gmf")
EQUAL = EVIDENCE.replaced(trust=0.0)
SYSTEMS = (BOTH, WEIGHTING, SAMPLING, NEITHER)
IDEAS = {
    "weighting, beside sampling": (BOTH, SAMPLING),
    "weighting, without it": (WEIGHTING, NEITHER),
    "sampling, beside weighting": (BOTH, WEIGHTING),
    "sampling, without it": (SAMPLING, NEITHER),
}
EFFECTS = {
    **IDEAS,
    "evidence for performance": (EVIDENCE, BOTH),
    "evidence for equal weights": (EVIDENCE, EQUAL),
}
METRICS = ("hr@20", "hr@10", "hr@5", "ndcg@10")


def groups(tastes: int) -> tuple[RowSource, Interactions]:
    """Synthetic rows of users in so many groups, and what they are called."""
    data = planted(users=NODES, items=ITEMS, each=EACH, tastes=tastes, lean=LEAN)
    return RowSource(
        f"planted-{tastes}", "pepper-85-15", label=f"{tastes} planted groups, {NODES} users"
    ), data


def studies(context: Context, notes: list[str]) -> list[Study]:
    """Real data, few and many nodes, and planted groups; quick: the first of each. Or the context's
    own.
    """
    if context.data is not None:
        return opened(
            [RowSource(context.data.name, "pepper-85-15")],
            lambda source: pepper_study(context, source),
            "validation",
            notes,
        )
    real, several = (REAL[:1], GROUPS[-1:]) if context.quick else (REAL, GROUPS)
    found = opened(
        [source for source in real if context.wants(source.data, str(source))],
        lambda source: pepper_study(context, source, chosen_on=CHOSEN_ON.get(source, str(source))),
        "validation",
        notes,
    )
    made = [pair for pair in map(groups, several) if context.wants(pair[0].data, str(pair[0]))]
    return [*found, *(pepper_study(context, source, data) for source, data in made)]


def tests_of(trained: Trained) -> list[dict[str, Any]]:
    """Each idea with and without the other: tests over users and seeds, Holm over the pairs of a
    metric.
    """
    pairs = [pair for pair in EFFECTS.values() if all(trained.looks.get(system) for system in pair)]
    return tested_pairs(trained, pairs, METRICS)


def effects(trained: Trained) -> list[str]:
    """What each idea is worth, in words."""
    of = {(test["a"], test["b"]): test for test in trained.tests if test["metric"] == METRICS[1]}
    said = [
        f"{name}: {verdict(of[key])}"
        for name, pair in EFFECTS.items()
        if (key := (str(pair[0]), str(pair[1]))) in of
    ]
    return [
        worded("pepper", "ablation", name=trained.name, metric=METRICS[1], said="; ".join(said))
    ]


EXPERIMENTS = {
    "pepper-ablation": PaperTable(
        title="PEPPER's weighting and personalised sampling, each alone (not in the paper)",
        data=studies,
        systems=(*SYSTEMS, EVIDENCE, EQUAL),
        metrics=METRICS,
        tests=tests_of,
        findings=(effects,),
    ),
}
