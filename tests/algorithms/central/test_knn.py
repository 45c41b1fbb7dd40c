"""User-kNN and item-kNN: a brute-force oracle, ties, and normalised scores by hand."""

from __future__ import annotations

import numpy as np
import pytest

from entrenous.core.contract.protocols import silent
from entrenous.core.keys import key
from entrenous.data.interactions import Vocabulary, build
from entrenous.systems.central._neighbours import (
    Neighbours,
    NeighbourTable,
    nearest,
    transpose,
)
from entrenous.systems.central.item_knn import ItemKnn
from entrenous.systems.central.user_knn import UserKnn

HISTORIES = ([0, 1], [0, 1, 2], [2, 3], [], [3])  # of users 0..4 over items 0..3


def interactions(histories, items):
    user = np.repeat(np.arange(len(histories)), [len(own) for own in histories])
    item = np.concatenate([np.asarray(own, int) for own in histories])
    return build(user, item, users=Vocabulary(size=len(histories)), items=Vocabulary(size=items))


def rows_of(links: Neighbours):
    return [
        list(zip(links.other[a:b].tolist(), links.similarity[a:b], strict=True))
        for a, b in zip(links.ptr, links.ptr[1:], strict=False)
    ]


@pytest.fixture
def data():
    return interactions(HISTORIES, 4)


@pytest.fixture
def scattered():
    """30 users and 25 items at random, user 7 without any."""
    rng = np.random.default_rng(1)
    return interactions(
        [[] if u == 7 else np.flatnonzero(rng.random(25) < 0.3) for u in range(30)], 25
    )


def test_normalised_item_scores_by_hand(data):
    # the neighbours of 2 are 0, 1, 3 at 1/2 each; user 0 consumed two of them
    all_near = ItemKnn(k=3, normalise=True)
    scores = all_near.score(all_near.fit(data, key(0)), data, np.array([0]))
    assert scores[0] == pytest.approx(
        [1 / (1 + 1 / 2), 1 / (1 + 1 / 2), (1 / 2 + 1 / 2) / (3 / 2), 0]
    )


def test_ties_go_to_the_lower_row():
    same = interactions([[0], [0], [0], [0]], 2)
    assert [[other for other, _ in row] for row in rows_of(UserKnn(k=2).fit(same, key(0)))] == [
        [1, 2],
        [0, 2],
        [0, 1],
        [0, 1],
    ]


@pytest.mark.parametrize("k", [1, 3, 10, 1000])
def test_nearest_agrees_with_brute_force(scattered, k):
    ones = np.zeros((30, 25))
    ones[scattered.user, scattered.item] = 1
    size = ones.sum(axis=1)
    with np.errstate(invalid="ignore"):
        cosine = np.nan_to_num((ones @ ones.T) / np.sqrt(np.outer(size, size))).astype(np.float32)
    np.fill_diagonal(cosine, 0)
    order = np.argsort(-cosine, axis=1, kind="stable")[:, :k]
    expected = [[(int(b), cosine[a, b]) for b in order[a] if cosine[a, b] > 0] for a in range(30)]
    assert (
        rows_of(nearest(NeighbourTable(scattered.ptr, scattered.item), 25, k, silent)) == expected
    )


def test_scores_agree_with_brute_force(scattered):
    ones = np.zeros((30, 25))
    ones[scattered.user, scattered.item] = 1
    for algorithm, by_row in ((UserKnn(k=5), True), (ItemKnn(k=5), False)):
        table = (
            NeighbourTable(scattered.ptr, scattered.item)
            if by_row
            else transpose(NeighbourTable(scattered.ptr, scattered.item), 25)
        )
        weights = np.zeros((30, 30) if by_row else (25, 25))
        for a, row in enumerate(rows_of(nearest(table, 25 if by_row else 30, 5, silent))):
            for b, similarity in row:
                weights[a, b] = similarity
        expected = weights @ ones if by_row else ones @ weights.T
        scores = algorithm.score(algorithm.fit(scattered, key(0)), scattered, np.arange(30))
        assert scores == pytest.approx(expected, abs=1e-6)
