"""The settings of every system of PEPPER's tables: chosen on the weighting sets of seed 0, by NDCG@10, never on test rows.

Found by `entrenous tune --search` over the ranges in SPACES, with the same number of trials for every system of a split, beside the
defaults of the file. A system that is not in TUNED has those defaults. Where `rounds` is None, the experiments themselves choose the
round: the best on the weighting sets, of seed 0.
"""

from __future__ import annotations

from .cali3f_settings import Settings, Tuned

# What was searched: the ranges of `entrenous tune --search name=..`, over curves of these rounds.
NCF = {"learning_rate": "0.01..0.2:log", "reg": "0.001..0.03:log", "factors": "8,16,64", "local_epochs": "1,2"}
GOSSIP = {"learning_rate": "0.005..0.1:log", "learning_rate_user": "0.03..1:log", "reg": "0.03..1:log", "local_epochs": "1,2"}
SPACES: dict[str, dict[str, str]] = {
    "fedavg-gmf": {**NCF, "learning_rate_item": "1..30:log"},
    "reptile-gmf": {**NCF, "learning_rate_item": "1..30:log", "adapt_epochs": "0,1,3"},
    "fedfast-gmf": {**NCF, "learning_rate_item": "0.1..3:log", "clusters": "5,10,20"},
    "gossip-average-gmf": GOSSIP,
    "gossip-age-gmf": GOSSIP,
    "gossip-reptile-gmf": {**GOSSIP, "meta_epochs": "20,60,120"},
    "pepper-gmf": GOSSIP,
    "ials": {"factors": "8,16,24,48", "alpha": "1..40:log", "reg": "1..60:log"},
    "central-gmf": {
        "learning_rate": "0.001..0.03:log",
        "reg": "0.002..0.1:log",
        "factors": "8,16,64",
        "epochs": "10..60",
        "batch": "256,1024,4096",
    },
}
# how they were chosen
TEN = "the best of the defaults and 10 trials on the weighting sets"
FIVE = "the best of the defaults and 5 trials on the weighting sets"
DEFAULTS = "the defaults, better on the weighting sets than 5 trials"
OWN = "the defaults; on the weighting sets the best of 10 trials is .005 above them, at twice the work"
OF_100 = "those chosen on the 100 users"
OF_PEPPER = "what is best of 5 trials for PEPPER and for decentralised FedAvg"
FOURSQUARE, FILTERED = "foursquare-nyc, pepper-given", "foursquare-nyc, pepper-85-15, 10 or more rows"
HUNDRED, WHOLE = "ml-100k, pepper-given", "ml-100k, pepper-given-943"
SLOW = {"learning_rate": 0.008465, "learning_rate_user": 0.07992, "reg": 0.1825}
TWO_EPOCHS = {"learning_rate": 0.02502, "learning_rate_user": 0.04373, "reg": 0.7217, "local_epochs": 2}
AVERAGED = {"learning_rate": 0.01693, "reg": 0.002587, "factors": 16, "learning_rate_item": 2.746, "adapt_epochs": 0}
FAST = {"learning_rate": 0.04037, "learning_rate_user": 0.7576, "reg": 0.4455}
IALS = {"factors": 16, "alpha": 5.559, "reg": 24.74}
TUNED: dict[tuple[str, str], Tuned] = {
    (HUNDRED, "fedavg-gmf"): Tuned(
        {"learning_rate": 0.08075, "reg": 0.02292, "factors": 16, "learning_rate_item": 3.607}, by=TEN
    ),
    (HUNDRED, "reptile-gmf"): Tuned(AVERAGED, by=TEN),
    (HUNDRED, "fedfast-gmf"): Tuned(
        {"learning_rate": 0.02939, "reg": 0.0286, "factors": 16, "learning_rate_item": 0.6465}, by=TEN
    ),
    (HUNDRED, "gossip-average-gmf"): Tuned(SLOW, by=TEN),
    (HUNDRED, "gossip-age-gmf"): Tuned(TWO_EPOCHS, by=TEN),
    (HUNDRED, "gossip-reptile-gmf"): Tuned({**SLOW, "meta_epochs": 20}, by=TEN),
    (HUNDRED, "pepper-gmf"): Tuned(by=OWN),
    (HUNDRED, "ials"): Tuned(IALS, by=TEN),
    (HUNDRED, "central-gmf"): Tuned(
        {"learning_rate": 0.003401, "reg": 0.09465, "factors": 16, "epochs": 49, "batch": 1024}, by=TEN
    ),
    (WHOLE, "fedavg-gmf"): Tuned(by=DEFAULTS),
    (WHOLE, "reptile-gmf"): Tuned(AVERAGED, by=FIVE),
    (WHOLE, "fedfast-gmf"): Tuned(by=DEFAULTS),
    (WHOLE, "gossip-average-gmf"): Tuned(SLOW, by=OF_100),
    (WHOLE, "gossip-age-gmf"): Tuned(TWO_EPOCHS, by=OF_100),
    (WHOLE, "gossip-reptile-gmf"): Tuned({**SLOW, "meta_epochs": 20}, by=OF_100),
    (WHOLE, "pepper-gmf"): Tuned(by="the defaults, which the 100 users' weighting sets chose"),
    (WHOLE, "ials"): Tuned(IALS, by=FIVE),
    (WHOLE, "central-gmf"): Tuned(by=DEFAULTS),
    (FOURSQUARE, "fedavg-gmf"): Tuned(by=DEFAULTS),
    (FOURSQUARE, "reptile-gmf"): Tuned(AVERAGED, by=FIVE),
    (FOURSQUARE, "fedfast-gmf"): Tuned(
        {"learning_rate": 0.08075, "reg": 0.02292, "factors": 16, "learning_rate_item": 0.3607, "clusters": 10}, by=FIVE
    ),
    (FOURSQUARE, "gossip-average-gmf"): Tuned(FAST, by=FIVE),
    (FOURSQUARE, "gossip-age-gmf"): Tuned(FAST, by=OF_PEPPER),
    (FOURSQUARE, "gossip-reptile-gmf"): Tuned(FAST, by=OF_PEPPER),
    (FOURSQUARE, "pepper-gmf"): Tuned(FAST, by=FIVE),
    (FOURSQUARE, "ials"): Tuned(IALS, by=FIVE),
    (FILTERED, "fedavg-gmf"): Tuned(by=DEFAULTS),
    (FILTERED, "reptile-gmf"): Tuned(by=DEFAULTS),
    (FILTERED, "fedfast-gmf"): Tuned(by=DEFAULTS),
    (FILTERED, "ials"): Tuned(IALS, by=FIVE),
}


def tuned(split: str, algorithm: str) -> Tuned:
    """What the weighting sets chose for an algorithm on a split, such as ("ml-100k, pepper-given", "fedavg-gmf")."""
    return TUNED.get((split, algorithm), Tuned())


__all__ = ["SPACES", "Settings", "Tuned", "tuned"]
