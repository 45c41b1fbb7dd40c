"""The settings of every system of Cali3F's tables: chosen on validation rows, never on test rows.

Found by `entrenous tune --search`; the commands and what they found are in docs/cali3f.md. A system that is not in TUNED has the
defaults of its file. Where `rounds` is None, the experiments themselves choose the round: the best on validation, of seed 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..algorithms._federated_ncf import NCFSettings
from ..core.discover import algorithms

Settings = dict[str, Any]


class Tuned(NamedTuple):
    """settings: where they differ from the defaults. rounds: of federated training. by: the search, in words; "" = the defaults."""

    settings: Mapping[str, Any] = {}  # nobody changes it
    rounds: int | None = None
    by: str = ""


# MovieLens-100K is where the defaults come from: 34 trials of `entrenous tune --search` (they led to the region) and about 60 settings
# chosen one after the other by their NDCG@10 on the validation rows of seed 0, the last few of seeds 0 to 2. See docs/cali3f.md.
DEFAULTS = "the defaults, which its validation rows chose"
BY_HAND = "chosen by hand on the validation rows of seed 0"
ML_1M = {
    "cohort": 1000,
    "learning_rate": 0.06,
    "learning_rate_item": 1.0,
    "learning_rate_network": 0.01,
    "epsilon": 0.0003,
    "batch": 200,
    "reg": 0.002,
    "init_std": 0.1,
}
PINTEREST = {"cohort": 10000, "learning_rate": 0.06, "learning_rate_item": 1.0, "init_std": 0.1}
TUNED: dict[tuple[str, str], Tuned] = {
    **{
        ("ml-100k", name): Tuned(by=DEFAULTS)
        for name in ("cali3f-neumf", "fedavg-neumf", "central-gmf", "central-mlp", "central-neumf")
    },
    **{("ml-1m", f"cali3f-{model}"): Tuned(ML_1M, 120, BY_HAND) for model in ("gmf", "mlp", "neumf")},
    **{("ml-1m", f"{name}-neumf"): Tuned({**ML_1M, "learning_rate_item": 4.0}, 110, BY_HAND) for name in ("fedavg", "ditto")},
    **{("pinterest-20", f"cali3f-{model}"): Tuned(PINTEREST, 60, "a guess, not searched") for model in ("gmf", "mlp", "neumf")},
    ("pinterest-20", "fedavg-neumf"): Tuned({**PINTEREST, "learning_rate_item": 10.0}, 60, "a guess, not searched"),
}


def tuned(data: str, algorithm: str) -> Tuned:
    """What validation chose for an algorithm on a data set."""
    return TUNED.get((data, algorithm), Tuned())


def shared(data: str, algorithm: str) -> Tuned:
    """Cali3F's settings for another federated algorithm over the same model: "the same hyper-parameter setting" (section IV-D).

    What only that algorithm has (Ditto's reg_global) stays as it was chosen for it. The number of rounds is its own.
    """
    theirs, usual = _whole(data, f"cali3f-{algorithm.partition('-')[2]}"), algorithms()[algorithm]().model_dump()
    alike = {*NCFSettings.model_fields} - {"rounds"}
    common = {name: value for name, value in theirs.items() if name in alike and value != usual[name]}
    own = {name: value for name, value in tuned(data, algorithm).settings.items() if name not in NCFSettings.model_fields}
    return Tuned({**common, **own}, by="Cali3F's settings")


def _whole(data: str, algorithm: str) -> Settings:
    """The chosen settings and, for all others, the defaults of the algorithm's file: two files may differ in them."""
    whole: Settings = algorithms()[algorithm](**tuned(data, algorithm).settings).model_dump()
    return whole
