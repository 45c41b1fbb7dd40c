"""PEPPER, figure 7: PEPPER against FedAvg on a dense, the original and a sparse MovieLens-100K, made by k-means over users.

The paper does not say how. Here: every user is the vector of ones over her items, scaled to length 1; k-means into three clusters, which
are of about the paper's sizes. Dense are the users of the cluster with the most rows a user, sparse those of the one with the fewest.
Each is a data set of its own: items that none of its users has are not in it. Sparsity is equation 3.

The paper's dense set cannot be: 579 users at a sparsity of .64 have 579 x .36 x 1,682 = 350,596 of the 100,000 ratings, or else its
catalogue has at most 100,000 / (579 x .36) = 479 items.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..core.errors import InputError
from ..core.keys import key
from ..core.types import Float32Array, Int32Array
from ..core.vocabulary import Vocabulary
from ..data.interactions import Interactions, build
from ..kernels.user_clusters import first_centroids, k_means
from ..report.figures import bars
from .cell import Look
from .pepper_plan import Source, System
from .pepper_study import PepperStudy, study_of
from .pepper_tables import WHOLE_MOVIELENS
from .result import Context, Experiment, Found
from .seed_rows import against, verdict

CLUSTERS, STARTS = 3, 5  # the best of some starts, by the sum of squared distances
SYSTEMS = tuple(map(System, ("pepper-gmf", "fedavg-gmf", "gossip-average-gmf", "ials", "popular")))
METRICS = ("hr@20", "hr@10", "ndcg@10")
ORIGINAL = Source("ml-100k", "pepper-85-15")
PRINTED = {"dense": (0.64, 579), "original": (0.93, 943), "sparse": (0.99, 201)}  # sparsity, users


def sets(data: Interactions) -> dict[str, Interactions]:
    """{"dense": .., "original": .., "sparse": ..}."""
    cluster = clusters(data)
    each = np.array([data.counts[cluster == c].mean() if (cluster == c).any() else np.nan for c in range(CLUSTERS)])
    dense, sparse = (part(data, cluster == c) for c in (np.nanargmax(each), np.nanargmin(each)))
    named = {"dense": dense, "original": data, "sparse": sparse}
    return {name: replace(one, name=f"{data.name}, {name}") for name, one in named.items()}


def clusters(data: Interactions) -> Int32Array:
    """The cluster of each user, int32 [users]: the start with the smallest sum of squared distances."""
    points = np.zeros((len(data.users), len(data.items)), np.float32)
    points[data.user, data.item] = 1
    points /= np.sqrt(np.maximum(points.sum(axis=1, keepdims=True), 1))
    tried = [k_means(points, first_centroids(points, CLUSTERS, key(start, "sparsity"))) for start in range(STARTS)]
    return min(tried, key=lambda found: _spread(points, *found))[0]


def _spread(points: Float32Array, cluster: Int32Array, centroids: Float32Array) -> float:
    return float(np.square(points - centroids[cluster]).sum(dtype=np.float64))


def part(data: Interactions, users: np.ndarray) -> Interactions:
    """The rows of some users, bool [users], with their items alone."""
    keep = users[data.user]
    owners, user = np.unique(data.user[keep], return_inverse=True)
    known, item = np.unique(data.item[keep], return_inverse=True)
    return build(
        user,
        item,
        value=data.value[keep],
        time=None if data.time is None else data.time[keep],
        users=Vocabulary([data.users[u] for u in owners.tolist()], kind="user"),
        items=Vocabulary([data.items[i] for i in known.tolist()], kind="item"),
        name=data.name,
    )


def sparsity(data: Interactions, items: int = 0) -> float:
    """Equation 3: 1 - mean rows of a user / items (of the set, or as many as given)."""
    return 1 - len(data) / len(data.users) / (items or len(data.items))


def run(context: Context) -> Found:
    """PEPPER, FedAvg and others on the three sets."""
    found, whole = Found(), ORIGINAL.read() if context.data is None else context.data
    made = sets(whole)
    looks, said = dict[str, Mapping[System, list[Look]]](), []
    for name, data in made.items():
        study = study_of(context, Source(data.name, "pepper-85-15"), data, chosen_on=str(WHOLE_MOVIELENS))
        try:
            study.part("test")
        except InputError as refused:
            found.notes.append(f"Left out: {refused}")
            continue
        mine = study.fitting(SYSTEMS, found)
        looks[name], rounds = study.tested(mine), study.rounds(mine)
        for system in mine:
            values = {metric: [look.metrics[metric] for look in looks[name][system]] for metric in METRICS}
            found.rows.extend(study.rows(system, values, {}, rounds[system]))
        said.append(_verdict(study, name, data, looks[name], found))
    found.notes.extend([_sets_note(made, whole), *said])
    found.figures["sparsity"] = _figure(looks)
    return found


def _verdict(study: PepperStudy, name: str, data: Interactions, looks: Mapping[System, list[Look]], found: Found) -> str:
    """PEPPER against FedAvg on one set: the claim is that the sparser, the better for PEPPER (RQ3)."""
    tests = against(study.name, looks, SYSTEMS[0], [SYSTEMS[1]], METRICS)
    found.tests.extend(tests)
    about = f"{study.name}, sparsity {sparsity(data):.3f}"
    return f"{about}: {'; '.join(test['metric'] + ' ' + verdict(test) for test in tests) or 'a training diverged'}."


def _sets_note(made: Mapping[str, Interactions], whole: Interactions) -> str:
    each = [
        f"{name} {len(data.users)} users, {len(data.items)} items, {len(data)} rows, sparsity {sparsity(data):.3f} (over all "
        f"{len(whole.items)} items {sparsity(data, len(whole.items)):.3f}; paper {PRINTED[name][0]}, {PRINTED[name][1]} users)"
        for name, data in made.items()
    ]
    return (
        f"The sets, by k-means of users into {CLUSTERS} clusters: {'; '.join(each)}. The paper's dense set is not possible: 579 users at a "
        "sparsity of .64 over 1,682 items have 579 x .36 x 1,682 = 350,596 ratings, and there are 100,000."
    )


def _figure(looks: Mapping[str, Mapping[System, list[Look]]]) -> str:
    series = {
        str(system): [
            float(np.mean([look.metrics["hr@20"] for look in mine[system]])) if mine.get(system) else float("nan")
            for mine in looks.values()
        ]
        for system in SYSTEMS
    }
    return bars(list(looks), series, x_label="HR@20", y_label="", title="Figure 7: sparsity")


EXPERIMENTS = {"pepper-fig7": Experiment("PEPPER and FedAvg on dense and sparse MovieLens-100K (PEPPER, figure 7)", {}, run)}
