"""Untargeted: colluders send their own updates turned round, enlarged, or numbers without
meaning.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from entrenous.core.contract.update import Update
from entrenous.core.types import Float32Array

from ..colluders import Craft, Plot, Poison, Sight, edited, without_target

SOURCE = "Li et al., RSA, AAAI 2019; Blanchard et al., NeurIPS 2017"


def turned(plot: Plot) -> Craft:
    """Updates times a negative number."""
    return lambda sight: edited(sight, -plot.setting("factor"))


def enlarged(plot: Plot) -> Craft:
    """Updates times a large number."""
    return lambda sight: edited(sight, plot.setting("factor"))


def noise(plot: Plot) -> Craft:
    """Updates of normal numbers in place of honest ones, of the same shapes."""

    def craft(sight: Sight) -> Update:
        draws = plot.draws("noise", sight.number)
        scale = plot.setting("scale")

        def drawn(arrays: Mapping[str, Float32Array]) -> dict[str, Float32Array]:
            return {
                name: draws.normal(values.shape, scale).astype(np.float32)
                for name, values in arrays.items()
            }

        rows = drawn(sight.mine.rows)
        return sight.mine._replace(rows=rows, dense=drawn(sight.mine.dense))

    return craft


POISONS = {
    "sign-flip": Poison(SOURCE, "nothing", {"factor": 1.0}, False, without_target, turned),
    "scaling": Poison(SOURCE, "nothing", {"factor": 10.0}, False, without_target, enlarged),
    "noise": Poison(SOURCE, "nothing", {"scale": 1.0}, False, without_target, noise),
}
