"""Every metric that the files of `evaluation/metrics/` offer keeps the same promises; and hand
arithmetic for each.
"""

import math

import numpy as np
import pytest

from entrenous.core.registry.discover import modules
from entrenous.evaluation.metric_kinds import (
    ListMetric,
    QueryMetric,
    Ranking,
    lists_of,
    metrics,
    ranking_of,
    title,
)
from entrenous.evaluation.metrics.defined import (
    auc,
    average_precision,
    bias_disparity,
    f1,
    gini,
    hr,
    item_coverage,
    mrr,
    ndcg,
    precision,
    recall,
    source_bias,
)

QUERY = {name: metric for name, metric in metrics().items() if isinstance(metric, QueryMetric)}
LISTS = {name: metric for name, metric in metrics().items() if isinstance(metric, ListMetric)}
LENGTHS = (1, 3, 10)


def random_ranking(queries=60, candidates=25, *, seed=0) -> Ranking:
    """Random distinct ranks of 1 to 6 relevant items; some of them can never be listed."""
    rng = np.random.default_rng(seed)
    ranks = []
    for _ in range(queries):
        ranked = (rng.permutation(candidates)[: rng.integers(0, 7)] + 1).tolist()
        ranks.append(ranked + [candidates + 1] * int(rng.integers(not ranked, 3)))
    return ranking_of(ranks, candidates)


# ---- conformance


def test_every_file_offers_a_metric():
    assert all(
        getattr(module, "METRICS", None)
        for module in modules("entrenous.evaluation.metrics").values()
    )
    expected = {
        "precision",
        "recall",
        "f1",
        "hr",
        "ndcg",
        "mrr",
        "map",
        "auc",
        "item_coverage",
        "gini",
        "bias_disparity",
    }
    assert expected <= set(metrics())


@pytest.mark.parametrize("name", metrics())
def test_every_metric_is_defined_and_worked_out_in_its_docstring(name):
    definition, _, example = metrics()[name].value.__doc__.partition(">>>")
    assert len(definition) > 80 and example


def test_titles_name_the_cutoff():
    assert title("ndcg", metrics()["ndcg"], 10) == "ndcg@10"
    assert title("auc", metrics()["auc"], 10) == "auc"


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("name", QUERY)
def test_values_lie_between_0_and_1(name, n):
    ranking = random_ranking()
    values = QUERY[name].value(ranking, n)
    assert values.shape == (60,) and values.dtype == np.float64
    assert (values >= 0).all() and (values <= 1).all() and values.std() > 0


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("name", QUERY)
def test_a_perfect_ranking_has_the_best_value(name, n):
    """m relevant items at ranks 1..m have the value that the metric itself names its best."""
    metric = QUERY[name]
    values = metric.value(ranking_of([list(range(1, m + 1)) for m in range(1, 8)], 30), n)
    assert values.tolist() == pytest.approx([metric.best(m, n) for m in range(1, 8)], abs=1e-15)


def test_the_best_values_of_a_list_that_holds_too_little_or_too_much():
    """Precision cannot exceed m / n, nor recall and AP n / m, when one list cannot hold all."""
    best = {name: (metric.best(2, 5), metric.best(8, 5)) for name, metric in QUERY.items()}
    assert best["precision"] == (2 / 5, 1)
    assert best["recall"] == best["map"] == (1, 5 / 8)
    assert best["f1"] == (4 / 7, 10 / 13)
    assert best["ndcg"] == best["hr"] == (1, 1)


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("name", QUERY)
def test_the_worst_ranking_and_missed_items_have_value_0(name, n):
    assert QUERY[name].value(ranking_of([[29, 30], [31], [31, 31]], 30), n).tolist() == [0, 0, 0]


@pytest.mark.parametrize("name", QUERY)
def test_what_can_be_in_no_list_is_missed_by_a_list_longer_than_what_competes(name):
    """Three items compete and the list has ten places: rank 4 is none of them."""
    assert QUERY[name].value(ranking_of([[4], [4, 4]], 3), 10).tolist() == [0, 0]


@pytest.mark.parametrize("name", QUERY)
def test_no_metric_depends_on_the_other_queries(name):
    whole = random_ranking()
    for q in (0, 17, 59):
        alone = ranking_of([whole.rank[whole.ptr[q] : whole.ptr[q + 1]].tolist()], 25)
        assert QUERY[name].value(alone, 5)[0] == QUERY[name].value(whole, 5)[q]


@pytest.mark.parametrize("name", [name for name, metric in QUERY.items() if metric.cutoff])
def test_what_lies_beyond_the_cutoff_does_not_count(name):
    assert np.array_equal(
        QUERY[name].value(ranking_of([[2, 11]], 25), 10),
        QUERY[name].value(ranking_of([[2, 24]], 25), 10),
    )


@pytest.mark.parametrize("name", LISTS)
def test_metrics_of_lists_do_not_depend_on_the_order_of_users_or_numbers_of_items(name):
    lists, popularity = [[0, 1, 2], [0, 1, 3], [0, 4, -1]], [5, 4, 3, 2, 1, 1]
    move = [3, 5, 0, 1, 4, 2]  # item i becomes move[i]
    one = lists_of(lists, popularity, {"a": [0, 1, 2], "b": [3, 4, 5]})
    moved = [[move[i] if i >= 0 else -1 for i in row] for row in lists[::-1]]
    renamed = [popularity[move.index(j)] for j in range(6)]
    other = lists_of(
        moved, renamed, {"a": [move[i] for i in (0, 1, 2)], "b": [move[i] for i in (3, 4, 5)]}
    )
    for n in (1, 2, 3):
        assert LISTS[name].value(one, n) == pytest.approx(LISTS[name].value(other, n))


# ---- by hand: ranks 2 and 4 of three relevant items are in the first five places of ten

HAND = ranking_of([[2, 4, 7]], 10)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        (precision, 2 / 5),
        (recall, 2 / 3),
        (f1, 2 * (2 / 5) * (2 / 3) / (2 / 5 + 2 / 3)),
        (hr, 1),
        (mrr, 1 / 2),
        (average_precision, 1 / 3 * (1 / 2 + 2 / 4)),
        (ndcg, (1 / math.log2(3) + 1 / math.log2(5)) / (1 + 1 / math.log2(3) + 1 / math.log2(4))),
        (auc, 1 - 1 / 3 * (1 / 7 + 2 / 7 + 4 / 7)),  # others before the hits: 1, 2 and 4 of 7
    ],
)
def test_a_query_by_hand(metric, expected):
    assert metric(HAND, 5)[0] == pytest.approx(expected, abs=1e-15)


def test_ndcg_divides_by_the_ideal_of_the_relevant_items_there_are():
    """The same query has nDCG@5 .4982 here, .3601 with an ideal of five places."""
    dcg = 1 / math.log2(3) + 1 / math.log2(5)
    assert (
        ndcg(HAND, 5)[0]
        == pytest.approx(dcg / (1 + 1 / math.log2(3) + 1 / 2))
        == pytest.approx(0.4982, abs=5e-5)
    )
    assert dcg / sum(1 / math.log2(place + 1) for place in range(1, 6)) == pytest.approx(
        0.3601, abs=5e-5
    )


def test_ndcg_of_one_relevant_item_is_that_of_pepper():
    for rank in range(1, 11):
        assert ndcg(ranking_of([[rank]], 100), 10)[0] == pytest.approx(
            math.log(2) / math.log((rank - 1) + 2)
        )


def test_auc_without_other_items_is_a_half():
    assert auc(ranking_of([[1, 2], [3]], 2)).tolist() == [0.5, 0]


def test_coverage_counts_items():
    lists = lists_of([[0, 1], [0, 2], [3]], popularity=[1, 1, 1, 1, 1])
    assert [item_coverage(lists, n) for n in (1, 2)] == [2, 4]


def test_gini_is_1_for_equal_and_0_for_concentrated_lists():
    assert gini(lists_of([[0, 1], [2, 3]], popularity=[1] * 4), 2) == pytest.approx(1)
    assert gini(lists_of([[0], [0]], popularity=[1] * 4), 1) == pytest.approx(0)


def test_gini_counts_items_that_are_never_recommended_but_not_items_without_training_rows():
    """Shares 0, 0, 1/4, 3/4 over 4 items: 1 - ((6 - 5) * 1/4 + (8 - 5) * 3/4) / 3 = 1 - 10/12."""
    lists = lists_of([[0], [0], [0], [1]], popularity=[1, 1, 1, 1, 0, 0])
    assert gini(lists, 1) == pytest.approx(1 - (1 / 4 + 3 * 3 / 4) / 3)


def test_bias_disparity_by_hand():
    """Two categories, item 1 in both; training rows 6, 3, 1. B_T: bar 9/10 / (2/3), park 4/10 /
    (2/3). Lists: items 0, 2.
    """
    lists = lists_of(
        [[0], [2]], popularity=[6, 3, 1, 0], category={"bar": [0, 1], "park": [1, 2], "gone": [3]}
    )
    assert source_bias(lists) == {
        "bar": pytest.approx(9 / 10 / (2 / 3)),
        "park": pytest.approx(4 / 10 / (2 / 3)),
    }
    expected = {"bar": (1 / 2 - 9 / 10) / (9 / 10), "park": (1 / 2 - 4 / 10) / (4 / 10)}
    assert bias_disparity(lists, 1) == {
        name: pytest.approx(value) for name, value in expected.items()
    }


def test_bias_disparity_where_items_without_a_training_row_compete():
    """Nobody chose anything of the category `new`, so there is no bias to keep."""
    lists = lists_of([[0], [2]], popularity=[3, 1, 0], category={"old": [0, 1], "new": [2]})
    lists = lists._replace(known=np.ones(3, bool))
    assert source_bias(lists) == {"old": pytest.approx(1 / (2 / 3)), "new": 0}
    assert bias_disparity(lists, 1) == {
        "old": pytest.approx(1 / 2 - 1)
    }  # half of what is recommended is old


def test_bias_disparity_needs_categories():
    assert bias_disparity(lists_of([[0]], popularity=[1]), 1) is None
