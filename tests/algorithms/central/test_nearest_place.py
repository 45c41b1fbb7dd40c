"""What lies nearest to where one has been."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_data import interactions

from entrenous.core.errors import InputError
from entrenous.systems.central.nearest_place import NearestPlace

ROWS = [("ann", "paris"), ("ann", "tokyo"), ("bob", "paris")]
ITEMS = ["paris", "tokyo", "versailles", "osaka", "nowhere"]
PLACES = {
    "lat": np.array(["48.86", "35.68", "48.80", "34.69", ""]),
    "lon": np.array(["2.35", "139.69", "2.13", "135.50", ""]),
}


def test_the_nearer_to_any_own_place_the_better() -> None:
    data = interactions(ROWS, items=ITEMS, users=["ann", "bob", "eve"], features=PLACES)
    algorithm = NearestPlace()
    scores = algorithm.score(algorithm.fit(data, np.uint64(0)), data, np.array([0, 1, 2]))
    km = 6371 * np.sqrt(-scores.astype(np.float64))  # straight through the Earth
    assert km[0, 2] == pytest.approx(17, abs=3) and km[0, 3] == pytest.approx(
        397, abs=8
    )  # from Paris, from Tokyo
    assert (
        km[1, 3] > 8000 and np.argsort(-scores[0])[4] == 4
    )  # Osaka is far from Paris; nowhere comes last
    assert (scores[2] == -4).all()


def test_data_without_places_is_refused_in_one_line() -> None:
    with pytest.raises(InputError, match="nearest-place: the data does not say where items are"):
        NearestPlace().fit(replace(interactions(ROWS), features={}), np.uint64(0))
