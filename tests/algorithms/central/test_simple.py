"""Random and most popular, by hand."""

from __future__ import annotations

import numpy as np

from entrenous.core.keys import key
from entrenous.data.interactions import Vocabulary, build
from entrenous.systems.central.popular import Popular
from entrenous.systems.central.random import Random


def interactions(rows, users, items):
    """Interactions from (user, item, value) triples."""
    user, item, value = zip(*rows, strict=True)
    return build(
        user, item, value=value, users=Vocabulary(size=users), items=Vocabulary(size=items)
    )


def test_popularity_counts_the_users_who_consumed_an_item():
    data = interactions([(0, 0, 5), (0, 1, 1), (1, 1, 4), (2, 1, 2), (2, 3, 3)], users=3, items=4)
    model = Popular().fit(data, key(0))
    assert model.popularity.tolist() == [1, 3, 0, 1]
    assert Popular().score(model, data, np.array([2, 0])).tolist() == [[1, 3, 0, 1], [1, 3, 0, 1]]


def test_random_scores_are_uniform_and_independent_of_the_block():
    data = interactions([(0, 0, 1)], users=500, items=400)
    model = Random().fit(data, key(7, "fit"))
    scores = Random().score(model, data, np.arange(500))
    assert scores.min() >= 0 and scores.max() < 1
    assert abs(scores.mean() - 0.5) < 5 * np.sqrt(1 / 12 / scores.size)
    assert abs(np.corrcoef(scores[0], scores[1])[0, 1]) < 0.25
    assert np.array_equal(Random().score(model, data, np.array([41, 3])), scores[[41, 3]])
