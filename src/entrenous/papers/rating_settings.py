"""The settings of every system of FBALF's tables: chosen on validation rows, never on test rows.

Found by `entrenous tune --search` with the same number of trials for every system on a data set; the commands and what they found are
in docs/fbalf.md. A system that is not in TUNED has the defaults of its file.
"""

from __future__ import annotations

from .cali3f_settings import Settings, Tuned

# FedRec's two ways of filling are one system. FedRec++ is FedRec with rho = 0 to the bit, however many decoys it has, so its settings were
# chosen with that. RFRecF was not searched: it has the published settings.
FOLLOWS = {
    "fedrec, user average": "fedrec, batch",
    "fedrec, hybrid filling": "fedrec, batch",
}
# how they were chosen
DEFAULTS = "the defaults, better on validation than 5 trials"
TRIALS = "the best of 5 trials on validation"
AS_PMF = "those of the centralised pmf, better on validation than 5 trials"
TWO_TRIALS = "the best look of 2 trials up to round 100, for time"
TUNED: dict[tuple[str, str], Tuned] = {
    ("ml-100k", "fedmf"): Tuned({}, by=DEFAULTS),
    ("ml-100k", "fedrec, batch"): Tuned(
        {"learning_rate": 0.5104, "decay": 0.9251, "reg": 0.01071, "factors": 10, "rounds": 100},
        by=TRIALS,
    ),
    ("ml-100k", "fedrec, stochastic"): Tuned(
        {"rounds": 60, "learning_rate": 0.0163, "decay": 0.9752, "reg": 0.05881, "factors": 20},
        by=TRIALS,
    ),
    ("ml-100k", "fedrec++, batch"): Tuned({}, by=DEFAULTS),
    ("ml-100k", "fedrec++, stochastic"): Tuned(
        {"learning_rate": 0.01, "decay": 0.97, "reg": 0.05, "rounds": 80, "factors": 128},
        by=AS_PMF,
    ),
    ("ml-100k", "metamf"): Tuned({"learning_rate": 0.00498, "reg": 0.004002, "cohort": 256, "rounds": 250}, by=TRIALS),
    ("ml-100k", "rfrec"): Tuned({}, by=DEFAULTS),
    ("ml-100k", "fbalf-bayes"): Tuned(
        {"start": 0, "noise": 1.018, "reg_item": 96.58, "reg_user": 0.125, "reg_item_bias": 36.19, "factors": 8, "rounds": 40},
        by=TRIALS,
    ),
    ("ml-100k", "fbalf"): Tuned(
        {"rounds": 40, "learning_rate": 0.01287, "local_rate": 0.002945, "reg": 0.06663, "decay": 0.9765, "start": 0},
        by=TRIALS,
    ),
    ("hetrec-ml", "fedmf"): Tuned({"learning_rate": 0.07494, "reg": 0.03806, "factors": 20, "rounds": 50}, by=TRIALS),
    ("hetrec-ml", "fedrec, batch"): Tuned({}, by=DEFAULTS),
    ("hetrec-ml", "fedrec, stochastic"): Tuned(
        {"learning_rate": 0.01, "decay": 0.97, "reg": 0.05, "rounds": 40, "factors": 128},
        by=AS_PMF,
    ),
    ("hetrec-ml", "fedrec++, batch"): Tuned(
        {"learning_rate": 0.5104, "decay": 0.9251, "reg": 0.01071, "factors": 10, "rounds": 25},
        by=TRIALS,
    ),
    ("hetrec-ml", "fedrec++, stochastic"): Tuned(
        {"rounds": 60, "learning_rate": 0.0163, "decay": 0.9752, "reg": 0.05881, "factors": 20},
        by=TRIALS,
    ),
    ("hetrec-ml", "metamf"): Tuned(
        {"learning_rate": 0.001499, "reg": 0.0006585, "cohort": 256, "rounds": 100},
        by=TWO_TRIALS,
    ),
    ("hetrec-ml", "rfrec"): Tuned({}, by=DEFAULTS),
    ("hetrec-ml", "fbalf-bayes"): Tuned(
        {
            "start": "middle",
            "noise": 1.488,
            "reg_item": 17.73,
            "reg_user": 0.6473,
            "reg_item_bias": 14.28,
            "factors": 8,
            "rounds": 20,
        },
        by=TRIALS,
    ),
    ("hetrec-ml", "fbalf"): Tuned(
        {"rounds": 40, "learning_rate": 0.02011, "local_rate": 0.002702, "reg": 0.06381, "decay": 0.9792, "start": "middle"},
        by=TRIALS,
    ),
    ("yahoo-r3", "fedmf"): Tuned({"learning_rate": 0.1145, "reg": 0.1936, "factors": 20, "rounds": 300}, by=TRIALS),
    ("yahoo-r3", "fedrec, batch"): Tuned({}, by=DEFAULTS),
    ("yahoo-r3", "fedrec, stochastic"): Tuned(
        {"rounds": 60, "learning_rate": 0.0163, "decay": 0.9752, "reg": 0.05881, "factors": 20},
        by=TRIALS,
    ),
    ("yahoo-r3", "fedrec++, batch"): Tuned(
        {"learning_rate": 0.8428, "decay": 0.9097, "reg": 0.06516, "factors": 20, "rounds": 100},
        by=TRIALS,
    ),
    ("yahoo-r3", "fedrec++, stochastic"): Tuned(
        {"learning_rate": 0.01, "decay": 0.97, "reg": 0.05, "rounds": 80, "factors": 128},
        by=AS_PMF,
    ),
    ("yahoo-r3", "metamf"): Tuned(
        {"learning_rate": 0.001499, "reg": 0.0006585, "cohort": 256, "rounds": 300}, by="the best of 4 trials on validation"
    ),
    ("yahoo-r3", "rfrec"): Tuned({}, by=DEFAULTS),
    ("yahoo-r3", "fbalf-bayes"): Tuned(
        {"start": 0, "noise": 1.529, "reg_item": 26.34, "reg_user": 0.1834, "reg_item_bias": 10.51, "factors": 8, "rounds": 40},
        by=TRIALS,
    ),
    ("yahoo-r3", "fbalf"): Tuned(
        {"rounds": 40, "learning_rate": 0.01287, "local_rate": 0.002945, "reg": 0.06663, "decay": 0.9765, "start": 0},
        by=TRIALS,
    ),
    ("ml-1m", "fedmf"): Tuned({}, by=DEFAULTS),
    ("ml-1m", "fedrec, batch"): Tuned({}, by=DEFAULTS),
    ("ml-1m", "fedrec, stochastic"): Tuned(
        {"learning_rate": 0.01, "decay": 0.97, "reg": 0.05, "rounds": 80, "factors": 128},
        by=AS_PMF,
    ),
    ("ml-1m", "fedrec++, batch"): Tuned({}, by=DEFAULTS),
    ("ml-1m", "fedrec++, stochastic"): Tuned(
        {"learning_rate": 0.01, "decay": 0.97, "reg": 0.05, "rounds": 80, "factors": 128},
        by=AS_PMF,
    ),
    ("ml-1m", "metamf"): Tuned({"learning_rate": 0.001499, "reg": 0.0006585, "cohort": 256, "rounds": 300}, by=TRIALS),
    ("ml-1m", "rfrec"): Tuned(
        {"learning_rate": 0.08318, "reg": 0.04373, "consensus": 21.86, "factors": 20, "rounds": 100},
        by=TRIALS,
    ),
    ("ml-1m", "fbalf-bayes"): Tuned({}, by=DEFAULTS),
    ("ml-1m", "fbalf"): Tuned({}, by=DEFAULTS),
}


def tuned(data: str, system: str) -> Tuned:
    """What validation chose for a system on a data set, or for the one that it follows."""
    return TUNED.get((data, FOLLOWS.get(system, system)), Tuned())


__all__ = ["Settings", "Tuned", "tuned"]
