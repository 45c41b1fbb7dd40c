"""Explicit promotion: one row, which raises the target's bias by the setting `strength`. In a model
without biases it moves the target's vector towards popular items.
"""

from __future__ import annotations

import numpy as np

from entrenous.core.contract.update import Update

from ..colluders import POPULAR, Craft, Plot, Poison, Sight, by_popularity, only_rows


def begin(plot: Plot) -> Craft:
    """The function that makes their updates."""
    target = np.array([plot.target])

    def craft(sight: Sight) -> Update:
        strength = plot.setting("strength")
        bias = sight.tables.bias
        moves = {}
        for name, field in sight.tables.field.items():
            array = sight.model[field]
            if name == bias:
                moves[name] = np.full((1, *array.shape[1:]), strength)
            elif bias:
                # The bias alone does it: the vector stays.
                moves[name] = np.zeros((1, *array.shape[1:]))
            else:
                # Users for whom popular items score high then score the target high, too.
                towards = array[plot.best(POPULAR)].astype(np.float64).mean(axis=0)
                length = max(float(np.linalg.norm(towards)), 1e-12)
                moves[name] = strength * np.atleast_1d(towards)[None] / length
        return only_rows(sight, target, moves)

    return craft


POISONS = {
    "boost": Poison(
        source="Zhang et al., PipAttack, WSDM 2022 (explicit promotion)",
        knows="nothing",
        settings={"strength": 1000.0},
        promotes=True,
        profile=by_popularity,
        begin=begin,
        needs_rows=True,
    ),
}
