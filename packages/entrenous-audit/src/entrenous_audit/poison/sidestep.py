"""FedRecAttack against defences that tell by the bias whether a row raises its item: half of the
colluders lower the target's bias.

Ours: their rows count as such that lower it, which defences let be longer, while the vectors raise
it for the users that are aimed at.
"""

from __future__ import annotations

import numpy as np

from entrenous.core.contract.update import Update

from ..colluders import Craft, Plot, Poison, Sight, by_popularity
from . import fedrecattack


def begin(plot: Plot) -> Craft:
    """The function that makes their updates."""
    inner = fedrecattack.begin(plot)

    def craft(sight: Sight) -> Update:
        update = inner(sight)
        tables = sight.tables
        vectors = [name for name in update.rows if name in tables.field and name != tables.bias]
        if tables.bias not in update.rows or not vectors:
            return update
        device = update.device
        aside = (update.item == plot.target) & (device % 2 == 1)
        # A little of the vector's length, so that the row counts as one that lowers the target.
        vector = update.rows[vectors[0]].reshape(len(device), -1).astype(np.float64)
        length = np.sqrt((vector**2).sum(axis=1))
        bias = update.rows[tables.bias].copy()
        down = -np.sign(tables.gain[tables.bias]) * plot.setting("lower") * length
        bias[aside] = down[aside].reshape(-1, *([1] * (bias.ndim - 1)))
        return update._replace(rows={**update.rows, tables.bias: bias})

    return craft


POISONS = {
    "sidestep": Poison(
        source="ours, after Rong et al., ICDE 2022",
        knows="as fedrecattack, and the defence",
        settings={**fedrecattack.SETTINGS, "lower": 1e-3},
        promotes=True,
        profile=by_popularity,
        begin=begin,
        needs_rows=True,
    ),
}
