"""Cold items: nothing of them is in training, and the hit rate is the chance under equal scores."""

from __future__ import annotations

import numpy as np
import pytest
from entrenous_field.fedcold import FedCold
from entrenous_lab.cold_items import by_features, choose, divide, hit_rate, measure, table

from entrenous.data.interactions import Interactions, text_array
from entrenous.data.load import from_frame

USERS, ITEMS = 30, 60


@pytest.fixture(scope="module")
def data() -> Interactions:
    """Users of two tastes, each of which likes the items of one kind."""
    rng = np.random.default_rng(3)
    rows = []
    for user in range(USERS):
        kind = np.arange(ITEMS) % 2 == user % 2
        liked = rng.permutation(np.flatnonzero(kind))[:20]
        rows += [(user, int(item)) for item in liked]
    kinds = [("even", "odd")[item % 2] for item in range(ITEMS)]
    return from_frame(rows, items={"item_id": list(range(ITEMS)), "category": kinds})


def test_cold_items_are_not_in_training(data: Interactions) -> None:
    cold = divide(data, 0, "test")
    assert len(cold.rows.items) == ITEMS // 10 and len(cold.known.items) == ITEMS - ITEMS // 10
    assert not set(cold.rows.items.ids) & set(cold.known.items.ids)
    assert len(cold.rows) + len(cold.known) == len(data)
    kinds = cold.features.texts["category"][len(cold.known.items) :]
    assert kinds.tolist() == [("even", "odd")[int(item) % 2] for item in cold.rows.items.ids]
    other = divide(cold.known, 0, "validation")
    assert not set(other.rows.items.ids) & set(cold.rows.items.ids)
    assert divide(data, 1, "test").rows.items.ids.tolist() != cold.rows.items.ids.tolist()


def test_the_hit_rate_of_equal_scores_is_the_chance() -> None:
    rows = from_frame([(0, 3), (1, 5), (1, 6), *((2, item) for item in range(28)), (3, 28)])
    some = rows.of_users(np.array([0, 1]))
    scores = np.zeros((2, len(rows.items)))
    competing = len(rows.items) - np.array([0, 1, 1])
    assert hit_rate(some, scores) == pytest.approx((10 / competing).mean())
    first = scores.copy()
    first[0, some.item[0]] = 1
    assert hit_rate(some, first) > hit_rate(some, scores)
    first[0] = 1
    first[0, some.item[0]] = 0
    assert hit_rate(some, first) == pytest.approx((0 + 2 * 10 / competing[1]) / 3)


def test_what_is_known_of_new_items_is_of_use(
    data: Interactions, capsys: pytest.CaptureFixture
) -> None:
    found = measure(data, FedCold(factors=4, rounds=5), 0)
    assert list(found)[:2] == ["fedcold", "popularity of their features"]
    assert all(0 <= value <= 1 for value in found.values())
    assert found["random"] == pytest.approx(found["popularity"])
    lines = table([found, found])
    assert lines[1].startswith("fedcold") and lines[1].endswith("0.0000")
    assert choose(data, {"factors": (2, 3)}, 0)["factors"] in (2, 3)
    assert capsys.readouterr().out.count("validation") == 2


def test_popularity_by_hand() -> None:
    rows = [(user, item) for user in range(4) for item in range(20) if (user + item) % 4]
    kinds = ["a"] * 10 + ["b"] * 10
    data = from_frame(rows, items={"item_id": list(range(20)), "category": kinds})
    cold = divide(data, 0, "test")
    kind = cold.features.texts["category"]
    known = len(cold.known.items)
    means = {of: cold.known.popularity[kind[:known] == of].mean() for of in "ab"}
    assert by_features(cold).tolist() == pytest.approx([means[of] for of in kind[known:]])


def test_data_without_features_is_refused(data: Interactions) -> None:
    from dataclasses import replace

    with pytest.raises(ValueError, match="has no item features"):
        divide(replace(data, features={"title": text_array(["x"] * ITEMS)}), 0, "test")
