"""`Cell`: one training that is evaluated on its way, what it scored, and the identity under which
that is remembered.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.metadata import version
from typing import Any, Literal, NamedTuple, final

import numpy as np

from entrenous.core.contract.declared import is_gossip
from entrenous.core.keys import key
from entrenous.core.registry.discover import modules
from entrenous.core.registry.program import program_sha256
from entrenous.data.interactions import Interactions
from entrenous.data.split.leave_one_out import draw_candidates
from entrenous.data.split.types import Held, Split, share, shuffled
from entrenous.runs.options import RunPlan
from entrenous.runs.plan import make, network_of

FORMAT = 1  # of a remembered cell
# Rows that `set_apart` takes from training: the percentage of a user's rows, and the candidates of
# each.
APART = 15
AGAINST = 99
N = 10  # the list length that all of the papers' tables have
# trains and evaluates a cell; what it imports is the program behind every outcome
COMPUTED_BY = f"{__package__}.compute"
GOSSIP_ENGINE = (
    "entrenous.federation.gossip",
    "entrenous.federation.swarm",
)  # of which other trainings use nothing


@final
@dataclass(frozen=True, kw_only=True)
class Cell:
    """One training: `algorithm` with `settings` on the training rows of `part`, evaluated after
    each number of epochs in `looks`.

    Where an algorithm knows no epochs, they are rounds; a centralised one has the single look 0.
    network: what is between peers that gossip, as in `RunPlan`. lengths: of lists, 10 among them.
    kept: metrics whose per-user values are kept at every look, of validation too, and with them
    what happened to each node that gossips.
    """

    algorithm: str
    settings: Mapping[str, Any]
    part: Literal["validation", "apart", "test"]
    looks: tuple[int, ...] = (0,)
    seed: int = 0
    network: Mapping[str, Any] = field(default_factory=dict)
    lengths: tuple[int, ...] = (N,)
    kept: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """What a progress bar shows."""
        said = {**self.settings, **self.network}
        return f"{self.part}: {self.algorithm} " + " ".join(
            f"{name}={value}" for name, value in said.items()
        )

    @property
    def plan(self) -> RunPlan:
        """What of it is a plan."""
        return RunPlan(algorithm=self.algorithm, settings=self.settings, network=self.network)

    def made(self, rows: Interactions) -> Any:
        """The algorithm. Raises InputError for a setting it does not take."""
        return make(self.plan, rows)


class CurvePoint(NamedTuple):
    """One evaluation. metrics: means over users by name. by_category: as in Evaluation. ledger:
    what was sent until then.

    per_user: some metrics in the order of ascending users, of test cells only. seconds,
    cpu_seconds: wall and processor time of the training until then, without any evaluation. Where
    the held-out rows have candidates, full: `metrics` of the full ranking; fairness: as in
    `Fairness.named`; also: {name: metrics} of each further ranking of the part. nodes: of peers
    that gossip, by node: models `received`, of those `refused`, `pushed` rounds, and whether it is
    `bad`; where the cell keeps per-user values.
    """

    epochs: int
    rounds: int
    metrics: dict[str, float]
    by_category: dict[str, dict[str, float]]
    ledger: dict[str, int]
    per_user: dict[str, list[float]]
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    full: dict[str, float] = {}  # noqa: RUF012  # nobody changes it
    fairness: dict[str, float] = {}  # noqa: RUF012
    also: dict[str, dict[str, float]] = {}  # noqa: RUF012
    nodes: dict[str, list[int]] = {}  # noqa: RUF012


class Outcome(NamedTuple):
    """The looks of a cell, in order. failed: why training ended early, "" if it did not. seconds:
    wall time with evaluation.

    measured: machine and moment, the same for cells whose seconds can be compared; "" where others
    ran beside it.
    """

    looks: list[CurvePoint]
    failed: str
    seconds: float
    measured: str = ""


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class CellPart:
    """What a cell trains on (`rows`) and what it is evaluated on (`held`).

    masked: further rows that do not compete. weighting: the nodes' weighting sets, of a protocol
    that gives them. also: the same held-out rows under other candidates, by name. trained_items:
    the catalogue of the training is the items with training rows (FPL: its program reads no
    others), so that no others are drawn as negatives or sent; held-out rows of others count as
    missed.
    """

    rows: Interactions
    held: Held
    masked: Interactions | None = None
    weighting: Held | None = None
    also: Mapping[str, Held] = field(default_factory=dict)
    trained_items: bool = False

    @cached_property
    def trained(self) -> Interactions:
        """The rows that are trained on, over the catalogue that the training has."""
        return self.rows.of_items(self.rows.popularity > 0) if self.trained_items else self.rows

    @cached_property
    def sha256(self) -> str:
        """The identity of all of it."""
        helds = (
            self.held,
            *self.also.values(),
            *([] if self.weighting is None else [self.weighting]),
        )
        tables = [held.candidates for held in helds if held.candidates is not None]
        masked = [
            one.sha256()
            for one in (self.masked, self.weighting and self.weighting.rows)
            if one is not None
        ]
        drawn = [
            hashlib.sha256(np.ascontiguousarray(table).tobytes()).hexdigest() for table in tables
        ]
        catalogue = ["trained items"] if self.trained_items else []
        return " ".join(
            [self.rows.sha256(), self.held.rows.sha256(), *masked, *drawn, *self.also, *catalogue]
        )


Parts = Mapping[str, CellPart]


def parts_of(split: Split) -> Parts:
    """{"validation": train -> validation rows, "test": all but the test rows -> test rows}; the
    former if there are any.

    Validation rows that the tested model was not trained on do not compete with the test rows, as
    in `entrenous run`.
    """
    if split.validation is None:
        return {"test": CellPart(rows=split.final_train, held=split.test)}
    masked, weighting = split.left_out, split.weighting_sets
    return {
        "test": CellPart(
            rows=split.final_train, held=split.test, masked=masked, weighting=weighting
        ),
        "validation": CellPart(rows=split.train, held=split.validation, weighting=weighting),
    }


def set_apart(split: Split, *, seed: int) -> tuple[Interactions, Held]:
    """Sets int(0.15 n) of each user's n training rows apart. Returns the other training rows, and
    the rows apart, each against 99 items that its user has no row of.

    No node judges a model by them, and no test counts them: they measure choices, and how fast
    nodes learn. Raises InputError for a user with fewer than 99 items never consumed.
    """
    rows = split.train
    place = shuffled(rows, key(seed, "split", "apart"))
    number = share(rows.counts, APART)
    apart = place < number[rows.user]
    held = rows.select(apart)
    name = key(seed, "candidates", "apart")
    # Negatives are of no row at all, held-out rows included.
    candidates = draw_candidates(split.all_rows, held.user, AGAINST, name, items=held.item)
    return rows.select(~apart), Held(held, candidates, cold=True)


def part_apart(split: Split, seed: int) -> CellPart:
    """Of a split for peers: train without some rows -> those rows, by which no node weighs a model
    (`set_apart`).
    """
    rows, held = set_apart(split, seed=seed)
    return CellPart(rows=rows, held=held, weighting=split.weighting_sets)


def identity(cell: Cell, part: CellPart) -> str:
    """40 hex digits of all that determines an outcome: settings with their defaults, seed, looks,
    rows, the program and its libraries.
    """
    algorithm = cell.made(part.rows)
    plan = {
        "format": FORMAT,
        "algorithm": cell.algorithm,
        "settings": {name: repr(value) for name, value in algorithm.model_dump().items()},
        "seed": cell.seed,
        "looks": cell.looks,
        "rows": part.sha256,
        "part": cell.part,
        "program": program_of(type(algorithm)),
        "libraries": libraries(),
        **({"network": repr(network_of(cell.plan))} if cell.network else {}),
        **({"lengths": cell.lengths} if cell.lengths != (N,) else {}),
        **({"kept": cell.kept} if cell.kept else {}),
    }
    return hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()[:40]


def program_of(algorithm: type[Any]) -> str:
    """The identity of what trains and evaluates an algorithm. What moves models between peers
    counts for those that gossip alone.
    """
    without = () if is_gossip(algorithm) else GOSSIP_ENGINE
    return program_sha256(algorithm.__module__, COMPUTED_BY, *measuring(), without=without)


@cache
def libraries() -> dict[str, str]:
    """The versions of the libraries that compute."""
    return {name: version(name) for name in ("numpy", "numba", "scipy")}


def measuring() -> list[str]:
    """The modules of metrics, which the evaluation finds by name and no import tells of."""
    return [module.__name__ for module in modules("entrenous.evaluation.metrics").values()]
