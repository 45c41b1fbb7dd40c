"""Fake users: devices that keep to the protocol, with a made-up profile of the target and fillers
(shilling; FedRecAttack's baselines).
"""

from __future__ import annotations

from ..colluders import FILLERS, Poison, at_random, bandwagon, by_popularity

SOURCE = "Lam and Riedl, WWW 2004; as baselines in Rong et al., FedRecAttack, ICDE 2022"
SETTINGS = {"fillers": float(FILLERS)}

POISONS = {
    "fake": Poison(SOURCE, "how popular items are", SETTINGS, True, by_popularity),
    "fake-random": Poison(SOURCE, "which items there are", SETTINGS, True, at_random),
    "fake-bandwagon": Poison(SOURCE, "the most popular items", SETTINGS, True, bandwagon),
}
