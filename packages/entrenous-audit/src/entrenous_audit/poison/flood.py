"""Against caps that are taken from the rows of a round: the target's row as long as can be, and as
many other long rows as are allowed.

Ours: colluders that know the defence send rows of items whose score is near that of the target, so
that they are counted with it. Their long parts point anywhere, differ between colluders and so
hardly move the model.
"""

from __future__ import annotations

import numpy as np

from entrenous.core.contract.update import Update

from ..colluders import POPULAR, Craft, Plot, Poison, Sight, by_popularity, only_rows

# By how much the other rows raise their items: enough to be counted among those that do.
SMALL = 1e-3


def begin(plot: Plot) -> Craft:
    """The function that makes their updates."""

    def craft(sight: Sight) -> Update:
        tables = sight.tables
        goal = plot.setting("strength")
        # The target's row, as long as can be.
        moves = {}
        for name, field in tables.field.items():
            if name == tables.bias:
                moves[name] = np.full(1, goal)
            else:
                best = sight.model[field][plot.best(POPULAR)].astype(np.float64)
                moves[name] = goal * best.mean(axis=0)[None]
        update = only_rows(sight, np.array([plot.target]), moves)
        if not update.rows or not tables.bias:
            return update
        # Items with a score near the target's.
        score = sight.model[tables.field[tables.bias]].astype(np.float64)
        order = np.argsort(np.abs(score - score[plot.target]), kind="stable")
        room = sight.contract.sizes["rows"] - 1
        others = np.sort(order[order != plot.target][:room])
        draws = plot.draws("flood", sight.number)
        m = update.devices
        k = 1 + len(others)
        rows = {}
        for name, values in update.rows.items():
            whole = np.empty((m, k, *values.shape[1:]), np.float32)
            whole[:, 0] = values
            shape = whole[:, 1:].shape
            if name == tables.bias:
                whole[:, 1:] = SMALL * np.sign(tables.gain[name])
            else:
                # Normal numbers of which a row has the length `norm`, on average.
                numbers = np.prod(shape[2:], dtype=np.int64)
                sd = plot.setting("norm") / np.sqrt(numbers)
                whole[:, 1:] = sd * draws.normal(shape)
            rows[name] = whole.reshape(m * k, *values.shape[1:])
        item = np.tile(np.concatenate([[plot.target], others]), m).astype(np.int32)
        return update._replace(ptr=np.arange(m + 1, dtype=np.int64) * k, item=item, rows=rows)

    return craft


POISONS = {
    "flood": Poison(
        source="ours",
        knows="the defence, and how popular items are",
        settings={"strength": 100.0, "norm": 6.0},
        promotes=True,
        profile=by_popularity,
        begin=begin,
        needs_rows=True,
    ),
}
