"""`Grid`: the settings that section 5.3 of the FPL paper explores on the validation rows, and a quick excerpt of them."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from .values import Settings, stored, tuples

PRINTED, RUN = "printed", "run"  # the two readings of rounds per epoch (FPL.rounds_per_epoch)
CONFIGURATIONS = ("sfpl", "sfpl+", "pfpl", "pfpl+")  # section 5.2
FCF = ("fcf", "fcf-huawei")  # as published, and as the paper compared with


@final
@dataclass(frozen=True, kw_only=True)
class Grid:
    """What is tried, all of it on validation rows. quick: whether it is an excerpt.

    learning_rates, factors, epochs: of BPR-MF; FPL and FCF take over the learning rate and factors that it chose.
    pi, epochs: of FPL where an epoch is X+ triples; run_pi, run_epochs: of FPL+ where an epoch is T times as many ("as run").
    fcf_rounds: after which FCF is looked at. neighbours: k of both kNNs. vae: (hidden, latent, epochs) of each topology.
    """

    quick: bool
    neighbours: tuple[int, ...]
    learning_rates: tuple[float, ...]
    factors: tuple[int, ...]
    epochs: tuple[int, ...]
    pi: tuple[float, ...]
    run_pi: tuple[float, ...]
    run_epochs: tuple[int, ...]
    fcf_rounds: tuple[int, ...]
    vae: tuple[tuple[int, int, int], ...]

    def pi_of(self, reading: str) -> tuple[float, ...]:
        """The values of pi tried under a reading of rounds per epoch."""
        return self.run_pi if reading == RUN else self.pi

    def epochs_of(self, reading: str) -> tuple[int, ...]:
        """The numbers of epochs tried under a reading of rounds per epoch."""
        return self.run_epochs if reading == RUN else self.epochs

    def central(self) -> dict[str, list[Settings]]:
        """The settings of each centralised system that has any. Of VAE there are none without torch.

        BPR-MF draws a user, then one of the user's rows, as FPL and Elliot do. Item-kNN's sum is tried both plain and divided by
        the similarities (as Elliot does).
        """
        bpr = [
            {"learning_rate": rate, "factors": factors, "epochs": epochs, "sample": "user"}
            for rate in self.learning_rates
            for factors in self.factors
            for epochs in self.epochs
        ]
        vae = [{"hidden": hidden, "latent": latent, "epochs": epochs} for hidden, latent, epochs in self.vae]
        return {
            "bpr-mf": bpr,
            "user-knn": [{"k": k} for k in self.neighbours],
            "item-knn": [{"k": k, "normalise": divided} for divided in (False, True) for k in self.neighbours],
            "vae": vae if importlib.util.find_spec("torch") else [],
        }

    def sentence(self) -> str:
        """What was tried, in words."""
        tried = self.central()["vae"]
        topologies = ", ".join("{hidden}-{latent}-{hidden} for {epochs} epochs".format(**settings) for settings in tried)
        parts = (
            f"BPR-MF: learning rate {said(self.learning_rates)} x factors {said(self.factors)} x epochs {said(self.epochs)}",
            f"FPL at BPR-MF's learning rate and factors: pi {said(self.pi)}, epochs {said(self.epochs)}",
            f"FPL+ as run: pi {said(self.run_pi)}, epochs {said(self.run_epochs)}",
            f"FCF at BPR-MF's learning rate and factors: rounds {said(self.fcf_rounds)}",
            f"kNN: k {said(self.neighbours)}",
            f"VAE: {topologies or 'left out'}",
        )
        return "; ".join(parts)


def said(values: Sequence[float]) -> str:
    """A set of numbers, in short.

    >>> said((0.005, 0.05)), said((10, 20, 30, 40))
    ('{0.005, 0.05}', '{10, 20, ..., 40}')
    """
    some = [f"{value:g}" for value in values]
    return "{" + ", ".join(some if len(some) < 4 else [*some[:2], "...", some[-1]]) + "}"


FULL, QUICK = (Grid(**tuples(stored("trained", "grids")[name])) for name in ("full", "quick"))
