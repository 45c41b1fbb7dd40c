"""The data sets that a user downloads by hand, by name: those that a table of recipes declares."""

from __future__ import annotations

from entrenous.data.recipe import data_sets

RECIPES = data_sets()
