"""The data sets that a user downloads by hand, by name: those that a table of recipes declares."""

from __future__ import annotations

from entrenous.data.sets import amazon, by_hand, movielens

RECIPES = {**amazon.DATASETS, **by_hand.DATASETS, **movielens.DATASETS}
