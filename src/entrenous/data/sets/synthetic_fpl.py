"""Synthetic data in the shape of FPL's table 1 (training records) where the real data is not
public: Brazil and Canada.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..dataset import Dataset
from ..interactions import Interactions
from ..synthetic import synthetic

SHAPES = {"brazil": (17_473, 47_270, 599_958), "canada": (1_340, 29_518, 63_514)}
# The top 1 % of items then hold about as many rows as in Foursquare's Italy (17.5 %) and New York
# (14.8 %).
SKEW = 0.65


def _reader(country: str) -> Callable[[Path], Interactions]:
    users, items, interactions = SHAPES[country]
    return lambda folder: synthetic(
        users=users,
        items=items,
        interactions=interactions,
        skew=SKEW,
        name=f"synthetic-fpl-{country}",
    )


DATASETS = {
    f"synthetic-fpl-{country}": Dataset(
        name=f"synthetic-fpl-{country}",
        summary=(
            f"SYNTHETIC, in the shape of FPL's {country.title()}: {users:,} users x {items:,}"
            f" items, {interactions:,} rows"
        ),
        terms="none: made here, says nothing about real users",
        citation="shape: V. W. Anelli et al., FPL, table 1",
        origin="made on demand from a seed",
        read=_reader(country),
    )
    for country, (users, items, interactions) in SHAPES.items()
}
