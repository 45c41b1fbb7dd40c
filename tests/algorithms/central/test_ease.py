"""EASE against what defines it: each column is a ridge regression on the others."""

from __future__ import annotations

import numpy as np
import pytest
from small_data import random_data

from entrenous.core.errors import InputError
from entrenous.core.keys import key
from entrenous.data.interactions import build
from entrenous.systems.central import ease
from entrenous.systems.central.ease import Ease


@pytest.mark.parametrize("reg", [0.5, 20.0])
def test_every_column_is_the_ridge_regression_on_the_others(reg: float) -> None:
    data = random_data(users=30, items=12, rows=150)
    model = Ease(reg=reg).fit(data, key(0))
    users, items = len(data.users), len(data.items)
    x = np.zeros((users, items))
    x[data.user, data.item] = 1
    for j in range(items):
        others = np.delete(np.arange(items), j)
        z = x[:, others]
        column = np.linalg.solve(z.T @ z + reg * np.eye(items - 1), z.T @ x[:, j])
        assert np.allclose(model.B[others, j], column, atol=1e-6) and model.B[j, j] == 0
    some = np.array([4, 0, 29])
    assert np.allclose(Ease().score(model, data, some), x[some] @ model.B, atol=1e-5)


def test_every_row_counts_as_consumption_whatever_its_value() -> None:
    data = random_data(users=20, items=8, rows=60)
    parts = {"users": data.users, "items": data.items}
    rated = build(data.user, data.item, value=1 + np.arange(60) % 5, **parts)
    assert np.array_equal(Ease().fit(rated, key(0)).B, Ease().fit(data, key(1)).B)
    low = build(data.user, data.item, value=-np.arange(60), **parts)
    assert np.array_equal(Ease().fit(low, key(0)).B, Ease().fit(data, key(1)).B)


def test_a_catalogue_that_needs_too_much_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ease, "MOST", 7)
    with pytest.raises(
        InputError, match=r"^ease: a matrix of 8 x 8 items; expected at most 7 items; ials$"
    ):
        Ease().fit(random_data(users=20, items=8, rows=60), key(0))
