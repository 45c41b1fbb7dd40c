"""Groups of users by what is known about them (Cali3F, sections III-B and IV-D3).

The paper clusters users by their embeddings, or by metadata, and says that the metadata of
MovieLens-100K part its users "at best" into about 30 clusters. It names no measure and no
metadata. Here age, gender and occupation become a vector for each user: age in its standard
deviations, the others as one of several numbers that is 1 over the square root of 2, so that two
users of another gender differ by 1. K-means parts the vectors into k clusters for each k of
NUMBERS, and the best k is the one with the highest mean silhouette (Rousseeuw 1987). Nothing is
trained.

`cali3f_printed` trains with these groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from entrenous.core.keys import key
from entrenous.core.types import Float32Array, Float64Array, Int32Array
from entrenous.data.dataset import datasets
from entrenous.data.user_groups import UserGroups
from entrenous.report.figures import FigureFormat, lines
from entrenous.systems._user_clusters import first_centroids, k_means

from .opened import cali3f
from .result import Row
from .study import Study, System
from .table import PaperTable, Trained, seed_row
from .values import worded

NUMBERS = (5, 10, 15, 20, 25, 30, 35, 40, 50, 60, 80, 100)
MEANT = 30
"""The number of clusters of which the paper speaks."""
SILHOUETTE = "mean silhouette"
BEST = "clusters at the highest silhouette"
GROUPS = "groups"
TRAITS = ("occupation", "gender")
SEEN = ("k-means of occupation and gender", "k-means of age, gender and occupation")
"""Which metadata are clustered."""


class Partition(NamedTuple):
    """K-means of one kind of metadata."""

    silhouettes: dict[int, list[float]]
    """{k: the mean silhouette of each seed}."""

    @property
    def best(self) -> list[int]:
        """The k with the highest mean silhouette in each seed, the first of equals."""
        seeds = range(len(next(iter(self.silhouettes.values()))))
        return [max(self.silhouettes, key=lambda k: self.silhouettes[k][n]) for n in seeds]


def metadata(study: Study) -> pl.DataFrame | None:
    """The metadata of the users in the order of the data; None if the data set has none."""
    known = datasets().get(study.data.name)
    path = known.path / "users.parquet" if known else None
    if path is None or not path.is_file():
        return None
    table = pl.read_parquet(path).with_columns(pl.col("user_id").cast(pl.String))
    ids = pl.DataFrame({"user_id": study.data.users.ids.astype(str)})
    return ids.join(table, on="user_id", how="left", maintain_order="left")


def grouped(table: pl.DataFrame, *traits: str) -> UserGroups:
    """One group for each value of a trait, or of several together."""
    of_user = table.select(pl.concat_str(traits, separator=", ")).to_series().to_list()
    names, numbers = np.unique(np.array(of_user, object), return_inverse=True)
    return UserGroups(numbers.astype(np.int32), names.tolist())


def vectors(table: pl.DataFrame, *, with_age: bool) -> Float32Array:
    """A vector for each user, float32 [users, traits and age]."""
    columns = list[Float64Array]()
    for trait in TRAITS:
        groups = grouped(table, trait)
        columns.append(np.eye(len(groups.names))[groups.of] * np.sqrt(0.5))
    if with_age:
        age = table["age"].to_numpy().astype(np.float64)
        columns.append(((age - age.mean()) / age.std())[:, None])
    return np.concatenate(columns, axis=1).astype(np.float32)


def clustered(points: Float32Array, k: int, seed: int) -> Int32Array:
    """The cluster of each user, int32 [users], by k-means from the start of a seed."""
    first = first_centroids(points, k, key(seed, "metadata", f"{k} clusters"))
    return k_means(points, first)[0]


def groups_of(table: pl.DataFrame, k: int) -> UserGroups:
    """K-means of all metadata into k clusters, from the start of seed 0."""
    cluster = clustered(vectors(table, with_age=True), k, 0)
    names, numbers = np.unique(cluster, return_inverse=True)
    return UserGroups(numbers.astype(np.int32), [str(name) for name in names])


def distances(points: Float32Array) -> Float64Array:
    """The distance of every two users, float64 [users, users]."""
    wide = points.astype(np.float64)
    square = (wide**2).sum(axis=1)
    squares = square[:, None] + square[None, :] - 2 * wide @ wide.T
    return np.sqrt(np.maximum(squares, 0))


def silhouette(apart: Float64Array, cluster: Int32Array) -> float:
    """The mean over users of (b - a) / max(a, b): a is the mean distance from the others of one's
    cluster, b that from the users of the nearest other cluster. 0 for a user who is alone.

    >>> apart = np.array([[0, 1, 4], [1, 0, 4], [4, 4, 0]], float)
    >>> silhouette(apart, np.array([0, 0, 1], np.int32))  # 3/4 of two users, 0 of the third
    0.5
    """
    member = np.eye(int(cluster.max()) + 1)[cluster]
    sizes = member.sum(axis=0)
    sums = apart @ member
    own = sizes[cluster]
    users = np.arange(len(cluster))
    a = sums[users, cluster] / np.maximum(own - 1, 1)
    means = sums / np.maximum(sizes, 1)
    means[:, sizes == 0] = np.inf
    means[users, cluster] = np.inf
    b = means.min(axis=1)
    largest = np.maximum(np.maximum(a, b), 1e-12)
    return float(np.where(own > 1, (b - a) / largest, 0.0).mean())


def partition(points: Float32Array, seeds: Sequence[int]) -> Partition:
    """K-means into every number of clusters that there are users for."""
    apart = distances(points)
    numbers = [k for k in NUMBERS if k < len(points)]
    return Partition(
        {k: [silhouette(apart, clustered(points, k, seed)) for seed in seeds] for k in numbers}
    )


def parted(study: Study, _: Sequence[System]) -> Trained:
    """Clusters the metadata; `more`: {which metadata: `Partition`}, and the table."""
    table = metadata(study)
    if table is None:
        return Trained(study=study, systems=[], more=({}, None))
    found = {name: partition(vectors(table, with_age="age" in name), study.seeds) for name in SEEN}
    return Trained(study=study, systems=[], more=(found, table))


# ---- the table -----------------------------------------------------------------------------------


def rows_of(trained: Trained) -> list[Row]:
    """The groups that the values of traits make, the silhouette of each number of clusters, and the
    best number.
    """
    partitions: Mapping[str, Partition] = trained.more[0]
    table = trained.more[1]
    if table is None:
        return []
    name = trained.name
    more = {"seeds": list(trained.study.seeds)}
    said = f"metadata of the {len(table)} users of {name}"
    rows = list[Row]()
    for traits in (("occupation",), TRAITS):
        number = float(len(grouped(table, *traits).names))
        one_each = f"{said}; one group for each value"
        rows.append(seed_row(name, " and ".join(traits), GROUPS, [number], MEANT, one_each))
    for kind, found in partitions.items():
        best = [float(k) for k in found.best]
        tried = ", ".join(map(str, found.silhouettes))
        chosen = f"{said}; highest {SILHOUETTE} of {tried} clusters; five starts of k-means"
        rows.append(seed_row(name, kind, BEST, best, MEANT, chosen, **more))
        for k, values in found.silhouettes.items():
            of_k = f"{said}; five starts of k-means"
            rows.append(seed_row(name, f"{kind}, {k}", SILHOUETTE, values, None, of_k, **more))
    return rows


def parts_note(trained: Trained) -> list[str]:
    """States the best number of clusters, and how far 30 is from it."""
    said = list[str]()
    for kind, found in trained.more[0].items():
        means = {k: float(np.mean(values)) for k, values in found.silhouettes.items()}
        top = max(means, key=lambda k: means[k])
        at_30 = f", {means[MEANT]:.3f} at {MEANT}" if MEANT in means else ""
        said.append(f"{kind}: {means[top]:.3f} at {top} clusters{at_30}")
    if not said:
        return [worded("cali3f", "no-metadata", name=trained.name)]
    return [worded("cali3f", "metadata", name=trained.name, said="; ".join(said))]


def silhouettes_drawn(trained: Trained) -> dict[str, str]:
    """The silhouette over the number of clusters, mean over seeds."""
    series = {
        kind: (
            list(found.silhouettes),
            [float(np.mean(some)) for some in found.silhouettes.values()],
        )
        for kind, found in trained.more[0].items()
    }
    if not series:
        return {}
    about = FigureFormat(
        title=f"Metadata of {trained.name}", x_label="clusters", y_label=SILHOUETTE
    )
    return {f"silhouette-{trained.name}": lines(series, about)}


EXPERIMENTS = {
    "cali3f-metadata": PaperTable(
        title="into how many clusters metadata part the users (Cali3F, section IV-D3)",
        data=cali3f(("ml-100k",)),
        train=parted,
        rows=rows_of,
        findings=(parts_note,),
        figures=silhouettes_drawn,
    )
}
