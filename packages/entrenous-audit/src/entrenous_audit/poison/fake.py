"""Fake users: devices that keep to the protocol, with a made-up profile of the target and fillers
(shilling; FedRecAttack's baselines).
"""

from __future__ import annotations

from ..colluders import FILLERS, Poison, by_popularity

SOURCE = "Lam and Riedl, WWW 2004; as baselines in Rong et al., FedRecAttack, ICDE 2022"
SETTINGS = {"fillers": float(FILLERS)}

POISONS = {
    "fake": Poison(SOURCE, "how popular items are", SETTINGS, True, by_popularity),
}
