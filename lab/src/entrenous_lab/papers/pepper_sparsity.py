"""PEPPER, figure 7: PEPPER against FedAvg on a dense, the original and a sparse MovieLens-100K,
made by k-means over users.

The paper: dense are the users of the most dense cluster, sparse "all of the outliers". It says no
more. Here every user is the vector of ones over her items, scaled to length 1, and k-means makes
three clusters, which are of about the paper's sizes. Dense are the users of the cluster with the
most rows a user. Outliers are the users that lie farthest from the centroid of their cluster, as
many as the paper has. Each set is data of its own: items that none of its users has are not in it.
Sparsity is equation 3.

The paper's dense set cannot be: 579 users at a sparsity of .64 have 579 x .36 x 1,682 = 350,596 of
the 100,000 ratings, or else its catalogue has at most 100,000 / (579 x .36) = 479 items.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from entrenous.core.keys import key
from entrenous.core.types import Float32Array, Int32Array
from entrenous.data.filters import compact
from entrenous.data.interactions import Interactions
from entrenous.report.figures import FigureFormat, bars
from entrenous.systems._user_clusters import first_centroids, k_means

from .effort import RowSource
from .findings import against, verdict
from .opened import opened, pepper_study
from .pepper_accuracy import WHOLE_MOVIELENS
from .result import Context, Found
from .study import Study, System
from .table import PaperTable, Trained
from .values import worded

CLUSTERS, STARTS = 3, 5  # the best of some starts, by the sum of squared distances
SYSTEMS = tuple(map(System, ("pepper-gmf", "fedavg-gmf", "gossip-average-gmf", "ials", "popular")))
METRICS = ("hr@20", "hr@10", "ndcg@10")
ORIGINAL = RowSource("ml-100k", "pepper-85-15")
PRINTED = {"dense": (0.64, 579), "original": (0.93, 943), "sparse": (0.99, 201)}  # sparsity, users
OUTLIERS = PRINTED["sparse"][1] / PRINTED["original"][1]  # share of the users
POSSIBLE = 1_682, 100_000  # items and ratings of MovieLens-100K


def sets(data: Interactions) -> dict[str, Interactions]:
    """{"dense": .., "original": .., "sparse": ..}."""
    cluster, far = clusters(data)
    each = np.array(
        [
            data.counts[cluster == c].mean() if (cluster == c).any() else np.nan
            for c in range(CLUSTERS)
        ]
    )
    outliers = np.argsort(-far, kind="stable")[: max(1, round(OUTLIERS * len(far)))]
    users = cluster == np.nanargmax(each), np.isin(np.arange(len(far)), outliers)
    dense, sparse = (compact(data.select(some[data.user])) for some in users)
    named = {"dense": dense, "original": data, "sparse": sparse}
    return {name: replace(some, name=f"{data.name}, {name}") for name, some in named.items()}


def clusters(data: Interactions) -> tuple[Int32Array, Float32Array]:
    """The cluster of each user, int32 [users], of the start with the smallest sum of squared
    distances; and the squared distance of each from its centroid, float32 [users]."""
    points = np.zeros((len(data.users), len(data.items)), np.float32)
    points[data.user, data.item] = 1
    points /= np.sqrt(np.maximum(points.sum(axis=1, keepdims=True), 1))
    tried = [
        k_means(points, first_centroids(points, CLUSTERS, key(start, "sparsity")))
        for start in range(STARTS)
    ]
    far = [
        (cluster, np.square(points - centroids[cluster]).sum(axis=1))
        for cluster, centroids in tried
    ]
    return min(far, key=lambda found: float(found[1].sum(dtype=np.float64)))


def sparsity(data: Interactions, items: int = 0) -> float:
    """Equation 3: 1 - mean rows of a user / items (of the set, or as many as given)."""
    return 1 - len(data) / len(data.users) / (items or len(data.items))


def whole(context: Context) -> Interactions:
    """The rows that the sets are made of. Raises InputError if they are absent."""
    return ORIGINAL.read() if context.data is None else context.data


def studies(context: Context, notes: list[str]) -> list[Study]:
    """One for each set, with the settings chosen on all users."""
    made = {some.name: some for some in sets(whole(context)).values()}
    sources = [RowSource(name, ORIGINAL.protocol) for name in made]
    chosen_on = str(WHOLE_MOVIELENS)
    return opened(
        sources,
        lambda source: pepper_study(context, source, made[source.data], chosen_on=chosen_on),
        "test",
        notes,
    )


def sets_note(context: Context) -> Found:
    """The sets, and whether the paper's dense one is possible."""
    rows, each = whole(context), []
    for name, data in sets(rows).items():
        sizes = {
            "users": len(data.users),
            "items": len(data.items),
            "rows": len(data),
            "all": len(rows.items),
        }
        own, over_all = sparsity(data), sparsity(data, len(rows.items))
        each.append(
            worded(
                "pepper", "set", name=name, own=own, whole=over_all, printed=PRINTED[name], **sizes
            )
        )
    (dense, users), (items, ratings) = PRINTED["dense"], POSSIBLE
    of = {
        "users": users,
        "dense": dense,
        "share": 1 - dense,
        "items": items,
        "needed": users * (1 - dense) * items,
    }
    return Found(
        notes=[
            worded("pepper", "sets", clusters=CLUSTERS, each="; ".join(each), ratings=ratings, **of)
        ]
    )


def tests_of(trained: Trained) -> list[dict[str, Any]]:
    """PEPPER against FedAvg: the claim is that the sparser, the better for PEPPER (RQ3)."""
    return against(trained, SYSTEMS[0], [SYSTEMS[1]], METRICS)


def ahead(trained: Trained) -> list[str]:
    """The same in words."""
    said = (
        "; ".join(test["metric"] + " " + verdict(test) for test in trained.tests)
        or "a training diverged"
    )
    return [f"{trained.name}, sparsity {sparsity(trained.study.data):.3f}: {said}."]


def _figure(done: Sequence[Trained]) -> Found:
    names = [trained.study.data.name.rpartition(", ")[2] for trained in done]
    means = [trained.means(SYSTEMS, "hr@20") for trained in done]
    series = {
        str(system): [mean.get(str(system), float("nan")) for mean in means] for system in SYSTEMS
    }
    return Found(
        figures={
            "sparsity": bars(
                names, series, FigureFormat(title="Figure 7: sparsity", x_label="HR@20", y_label="")
            )
        }
    )


EXPERIMENTS = {
    "pepper-fig7": PaperTable(
        title="PEPPER and FedAvg on dense and sparse MovieLens-100K (PEPPER, figure 7)",
        before=sets_note,
        data=studies,
        systems=SYSTEMS,
        metrics=METRICS,
        tests=tests_of,
        findings=(ahead,),
        after=_figure,
    )
}
