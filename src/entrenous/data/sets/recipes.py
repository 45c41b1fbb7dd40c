"""The data sets that recipes name (`recipes.toml`), which the user downloads by hand."""

from __future__ import annotations

from ..recipe import data_sets

DATASETS = data_sets()
