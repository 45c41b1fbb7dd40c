"""Fairness by hand, and by full enumeration of what chance can do."""

from itertools import combinations, product
from math import log2, sqrt

import numpy as np
import pytest
from small_data import Scores, random_data

from entrenous.data.split.protocol import splits
from entrenous.evaluation.metric_kinds import ranking_of
from entrenous.evaluation.metrics.defined import Fairness, fairness, std_by_chance, worst_tenth
from entrenous.evaluation.protocol import evaluate, user_values

GAIN = 1 / np.log2(np.arange(2, 12))  # of places 1 to 10


def found_in(ranks: list[list[int]], candidates: int = 100) -> Fairness:
    ranking = ranking_of(ranks, candidates=candidates)
    return fairness(user_values(ranking, (5, 10)), ranking)


def test_four_users_by_hand():
    """NDCG 1, 1/log2(4) = 1/2, 0, 0: mean 3/8, mean square 5/16. AUC of ranks 1, 3, 21, 100 of 100:
    99, 97, 79, 0 of 99.
    """
    found = found_in([[1], [3], [21], [100]])
    assert found.std_ndcg == pytest.approx(sqrt(5 / 16 - 9 / 64))
    assert (found.worst_hr, found.worst_ndcg, found.worst_auc) == (0, 0, 0)  # ceil(4/10): one user
    g1, g2 = GAIN.mean(), (GAIN**2).mean()
    assert found.std_by_chance == pytest.approx(
        sqrt((g2 / 2 - g1**2 / 4) * (1 - 1 / 4))
    )  # h = 1/2, m = 4


def test_names_of_a_manifest():
    assert Fairness(10, 0.3, 0.27, 0.0, 0.1, 0.2, 0.4).named() == {
        "std_ndcg@10": 0.3,
        "std_by_chance": 0.27,
        "worst_decile_hr@10": 0.0,
        "worst_decile_ndcg@10": 0.1,
        "worst_decile_auc": 0.2,
        "std_hr@10": 0.4,
    }


def test_the_worst_tenth_is_rounded_up():
    """Of 10 users one, of 11 two, of 20 two, of one herself."""
    values = np.arange(20.0)[::-1]
    assert [worst_tenth(values[:m]) for m in (10, 11, 20, 1)] == [10, (9 + 10) / 2, (0 + 1) / 2, 19]


def enumerated(
    relevant: list[int], of_user: list[int], n: int, p: float, places: int
) -> tuple[float, float]:
    """(expected HR over users, root of the expected population variance of NDCG over users), over
    all that can happen.

    relevant: held-out items of each query. of_user: whose query it is. Each item is in the list
    with probability p; those that are lie at equally likely distinct places (of more than fit, none
    is missed).
    """
    outcomes = []
    for r in relevant:
        ideal, own = sum(1 / log2(i + 2) for i in range(min(r, n))), []
        for ins in product([False, True], repeat=r):
            chance, k = p ** sum(ins) * (1 - p) ** (r - sum(ins)), min(sum(ins), places)
            spots = list(combinations(range(places), k))
            own += [
                (chance / len(spots), float(k > 0), sum(1 / log2(i + 2) for i in some) / ideal)
                for some in spots
            ]
        outcomes.append(own)
    users, hr, variance = sorted(set(of_user)), 0.0, 0.0
    for outcome in product(*outcomes):
        chance = np.prod([one[0] for one in outcome])
        hit = [
            np.mean([one[1] for one, who in zip(outcome, of_user, strict=True) if who == user])
            for user in users
        ]
        value = [
            np.mean([one[2] for one, who in zip(outcome, of_user, strict=True) if who == user])
            for user in users
        ]
        hr, variance = hr + chance * np.mean(hit), variance + chance * np.var(value)
    return float(hr), float(np.sqrt(variance))


@pytest.mark.parametrize(
    ("relevant", "of_user", "candidates"),
    [
        ([1, 1, 1], [0, 1, 2], 9),  # one item per user
        ([1, 1, 1, 1], [0, 0, 0, 1], 9),  # sampled ranking: each item a query of its own
        (
            [1, 2, 4],
            [3, 5, 9],
            9,
        ),  # full ranking: several items in a query, more than fit in the list
        ([2, 1], [0, 1], 2),  # fewer candidates than places
    ],
)
@pytest.mark.parametrize("p", [0.0, 0.25, 0.6, 1.0])
def test_chance_is_the_mean_over_everything_that_can_happen(relevant, of_user, candidates, p):
    n = 3
    ranking = ranking_of([list(range(1, r + 1)) for r in relevant], candidates)._replace(
        user=np.array(of_user)
    )
    hit_rate, expected = enumerated(relevant, of_user, n, p, min(n, candidates))
    assert std_by_chance(ranking, hit_rate, n) == pytest.approx(expected, abs=1e-9)


def test_fairness_of_an_evaluation_is_of_its_users():
    """Users without held-out rows are not among the users of the standard deviation."""
    data = random_data()
    part = splits("loo-5", data, seed=0)[0]
    scores = Scores(np.random.default_rng(1).random((len(data.users), len(data.items))))
    found = evaluate(scores, part.final_train, part.test, label="test")
    assert found.candidates_ranking is not None and len(found.user) < len(data.users)
    of = fairness(found.per_user, found.candidates_ranking)
    values = found.per_user["ndcg@10"]
    assert of.std_ndcg == pytest.approx(
        sqrt(((values - values.mean()) ** 2).sum() / len(found.user))
    )
    assert of.worst_auc == pytest.approx(
        np.mean(sorted(found.per_user["auc"])[: -(-len(found.user) // 10)])
    )


def test_one_user_alone():
    ranking = ranking_of([[2]], candidates=2)
    assert fairness(user_values(ranking, (10,)), ranking)[1:3] == (0, 0)
