"""Explicit promotion: one row, of the target, which raises its bias by the setting `strength`;
without a bias it moves the target's vector towards popular items.
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
            array = sight.model[field]
            if name == bias:
                moves[name] = np.full((1, *array.shape[1:]), strength)
            elif bias:
                # The bias alone does it: the vector stays.
                moves[name] = np.zeros((1, *array.shape[1:]))
            else:
                towards = array[plot.best(POPULAR)].astype(np.float64).mean(axis=0)
                length = max(float(np.linalg.norm(towards)), 1e-12)
                moves[name] = strength * np.atleast_1d(towards)[None] / length
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
