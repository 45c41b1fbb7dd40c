"""Explicit promotion: one row, of the target, which raises its bias by as much as is asked for;
without a bias, towards popular items.
"""

from __future__ import annotations

import numpy as np

from ...core.contract.update import Update
from ..colluders import Craft, Plot, Poison, Sight, by_popularity, only_rows

POPULAR = 20  # items whose mean row stands for what many users like


def begin(plot: Plot) -> Craft:
    """The function that makes their updates."""
    target = np.array([plot.target])

    def craft(sight: Sight) -> Update:
        strength, bias = plot.setting("strength"), sight.tables.bias
        moves = {}
        for name, field in sight.tables.field.items():
            towards = sight.model[field][plot.best(POPULAR)].astype(np.float64).mean(axis=0)
            length = max(float(np.linalg.norm(towards)), 1e-12)
            moves[name] = (
                np.zeros((1, *np.shape(towards)))
                if bias and name != bias
                else strength * np.atleast_1d(towards)[None] / length
            )
        if bias:
            moves[bias] = np.full((1, *sight.model[sight.tables.field[bias]].shape[1:]), strength)
        return only_rows(sight, target, moves)

    return craft


POISONS = {
    "boost": Poison(
        "Zhang et al., PipAttack, WSDM 2022 (explicit promotion)",
        "nothing",
        {"strength": 1000.0},
        True,
        by_popularity,
        begin,
        True,
    ),
}
