"""K-means against Lloyd's algorithm in plain NumPy; empty clusters, too few distinct points."""

from __future__ import annotations

import numpy as np
import pytest

from entrenous.core.keys import key
from entrenous.systems._user_clusters import ITERATIONS, first_centroids, k_means


def blobs(seed: int = 0, n: int = 120, clusters: int = 4, width: int = 3) -> np.ndarray:
    """Points around far-apart centres, n / clusters each, in turn."""
    rng = np.random.default_rng(seed)
    centres = rng.permutation(np.arange(clusters))[:, None] * 10 + rng.normal(
        size=(clusters, width)
    )
    return (centres[np.arange(n) % clusters] + rng.normal(size=(n, width)) * 0.5).astype(np.float32)


def lloyd(points: np.ndarray, centroids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Assign, average, until nothing changes; no cluster may become empty."""
    points, centroids, cluster = (
        points.astype(np.float64),
        centroids.astype(np.float32),
        np.full(len(points), -1),
    )
    for _ in range(ITERATIONS):
        new = (
            ((points[:, None] - centroids.astype(np.float64)[None]) ** 2).sum(axis=2).argmin(axis=1)
        )
        if (new == cluster).all():
            break
        cluster = new
        centroids = np.stack(
            [points[cluster == c].mean(axis=0) for c in range(len(centroids))]
        ).astype(np.float32)
    return cluster, centroids


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("clusters", [1, 2, 4, 7])
def test_it_is_lloyds_algorithm(seed: int, clusters: int) -> None:
    points = np.random.default_rng(seed).normal(size=(150, 5)).astype(np.float32)
    start = first_centroids(points, clusters, key(seed))
    cluster, centroids = k_means(points, start)
    expected, means = lloyd(points, start)
    assert (cluster == expected).all() and cluster.dtype == np.int32
    assert np.allclose(centroids, means, atol=1e-6) and centroids.dtype == np.float32


def test_the_first_centroids_are_distinct_points_far_apart() -> None:
    points = blobs()
    for seed in range(10):
        first = first_centroids(points, 4, key(seed))
        at = [int(np.flatnonzero((points == centroid).all(axis=1))[0]) for centroid in first]
        assert (
            len({place % 4 for place in at}) == 4
        )  # one of each blob: squared distances make another choice most unlikely
    assert (first_centroids(points, 4, key(0)) == first_centroids(points, 4, key(0))).all()
    assert (first_centroids(points, 4, key(0)) != first_centroids(points, 4, key(1))).any()


def test_equals_go_to_the_first_cluster() -> None:
    points = np.array([[0.0], [1.0], [2.0]], np.float32)
    assert k_means(points, points[[0, 2]])[0].tolist() == [0, 0, 1]


def test_an_empty_cluster_takes_the_farthest_point_of_a_cluster_of_several() -> None:
    points = np.array([[0.0], [1.0], [2.0], [9.0], [50.0]], np.float32)
    start = np.array([[1.0], [50.0], [1000.0]], np.float32)  # the third attracts nobody
    cluster, centroids = k_means(points, start)
    assert cluster.tolist() == [
        0,
        0,
        0,
        2,
        1,
    ]  # 9 was farthest from its centroid, 1; 50 is alone in its cluster
    assert centroids.tolist() == [[1.0], [50.0], [9.0]]


def test_with_fewer_distinct_points_than_clusters_some_stay_empty() -> None:
    points = np.repeat(np.array([[0.0, 1.0], [5.0, 5.0]], np.float32), 4, axis=0)
    cluster, centroids = k_means(points, first_centroids(points, 5, key(0)))
    assert (
        len(set(cluster.tolist())) == 2
        and len(set(cluster[:4].tolist())) == len(set(cluster[4:].tolist())) == 1
    )
    assert np.isfinite(centroids).all()
    same = np.ones((6, 3), np.float32)
    assert not k_means(same, first_centroids(same, 3, key(0)))[0].any()
