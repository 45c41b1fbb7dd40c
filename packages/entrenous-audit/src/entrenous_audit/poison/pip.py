"""As PipAttack: the target's row is moved in among those of the most popular items, and its bias
above theirs, in steps of bounded length.

S. Zhang, H. Yin, T. Chen, Z. Huang, Q. V. H. Nguyen, L. Cui, "PipAttack: Poisoning federated
recommender systems for manipulating item promotion", WSDM 2022. Theirs learns a classifier of
popularity levels and a distance constraint; here the goal is the mean of the most popular rows
itself, of which the attackers know that they are popular.
"""

from __future__ import annotations

import numpy as np

from entrenous.core.contract.update import Update

from ..colluders import POPULAR, Craft, Plot, Poison, Sight, by_popularity, only_rows


def begin(plot: Plot) -> Craft:
    """The function that makes their updates."""
    target = np.array([plot.target])

    def craft(sight: Sight) -> Update:
        best = plot.best(POPULAR)
        moves = {}
        for name, field in sight.tables.field.items():
            array = sight.model[field].astype(np.float64)
            if name == sight.tables.bias:
                # Above all biases of popular items.
                goal = array[best].max(axis=0) + 1
            else:
                # Among their vectors, or somewhat beyond.
                goal = plot.setting("beyond") * array[best].mean(axis=0)
            moves[name] = (goal - array[plot.target])[None]
        return only_rows(sight, target, moves, most=plot.setting("norm"))

    return craft


POISONS = {
    "pip": Poison(
        source="after Zhang et al., PipAttack, WSDM 2022",
        knows="how popular items are",
        settings={"beyond": 1.5, "norm": 6.0},
        promotes=True,
        profile=by_popularity,
        begin=begin,
        needs_rows=True,
    ),
}
