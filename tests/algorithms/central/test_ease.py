"""EASE against what defines it: each column is a ridge regression on the others."""

from __future__ import annotations

import numpy as np
import pytest
from small_data import random_data

from entrenous.core.errors import InputError
from entrenous.core.keys import key
from entrenous.data.interactions import Vocabulary, build
from entrenous.systems.central import ease
from entrenous.systems.central.ease import Ease


@pytest.mark.parametrize("reg", [0.5, 20.0])
@pytest.mark.parametrize("items", [12, 45])
def test_every_column_is_the_ridge_regression_on_the_others(items: int, reg: float) -> None:
    """With 30 users: 12 items by the Gram matrix of items, 45 by that of users."""
    data = random_data(users=30, items=items, rows=150)
    model = Ease(reg=reg).fit(data, key(0))
    x = np.zeros((len(data.users), items))
    x[data.user, data.item] = 1
    for j in range(items):
        others = np.delete(np.arange(items), j)
        z = x[:, others]
        column = np.linalg.solve(z.T @ z + reg * np.eye(items - 1), z.T @ x[:, j])
        assert np.allclose(model.B[others, j], column, atol=1e-6) and model.B[j, j] == 0
    some = np.array([4, 0, 29])
    assert np.allclose(Ease().score(model, data, some), x[some] @ model.B, atol=1e-5)


def test_items_and_users_without_rows_weigh_nothing() -> None:
    data = build([0, 0, 2], [1, 3, 3], users=Vocabulary(size=3), items=Vocabulary(size=5))
    weights = Ease(reg=1.0).fit(data, key(0)).B
    primal = ease._from_items(data, 1.0)
    assert np.allclose(weights, primal, atol=1e-7)
    assert not weights[[0, 2, 4]].any() and not weights[:, [0, 2, 4]].any()


def test_a_catalogue_that_needs_too_much_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ease, "MOST", 7)
    with pytest.raises(
        InputError, match=r"^ease: a matrix of 8 x 8 items; expected at most 7 items; ials$"
    ):
        Ease().fit(random_data(users=20, items=8, rows=60), key(0))
