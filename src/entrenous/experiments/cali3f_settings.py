"""The settings of every system of Cali3F's tables: chosen on validation rows, never on test rows.

Found by `entrenous tune --search`; the commands and what they found are in docs/cali3f.md. A system that is not in TUNED has the
defaults of its file. Where `rounds` is None, the experiments themselves choose the round: the best on validation, of seed 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..algorithms._ncf import NCFSettings
from ..core.discover import algorithms

Settings = dict[str, Any]


class Tuned(NamedTuple):
    """settings: where they differ from the defaults. rounds: of federated training. by: the search, in words; "" = the defaults."""

    settings: Mapping[str, Any] = {}  # nobody changes it
    rounds: int | None = None
    by: str = ""


TUNED: dict[tuple[str, str], Tuned] = {}


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
