"""One training under a budget of differential privacy, what it scores, and the choice of its
settings on validation rows.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from entrenous.core.contract.declared import bound, predicts_ratings
from entrenous.core.contract.protocols import Catalogue
from entrenous.core.errors import NonFiniteError
from entrenous.core.keys import key
from entrenous.core.registry.program import program_sha256
from entrenous.core.types import Int64Array
from entrenous.data.interactions import Interactions
from entrenous.data.split.leave_one_out import draw_candidates
from entrenous.data.split.types import Held, Split
from entrenous.evaluation.protocol import evaluate
from entrenous.federation.shard import Threads
from entrenous.privacy.accountant import multiplier_for
from entrenous.privacy.protection import DP, PAPER, PROTECT, Protection
from entrenous.runs.options import RunPlan
from entrenous.runs.plan import make, protection_in
from entrenous.runs.store import write_atomically
from entrenous.runs.train import Phase, Setup, Watch, train_phase

from .result import Context

CANDIDATES = 99
OF_RANKING, OF_RATINGS = "hr@10", "rmse"
FIGURES = ("validation", "test", "z", "seconds")  # of a training that is remembered


@final
@dataclass(frozen=True, kw_only=True)
class DpCell:
    """One training. settings: of the algorithm, `cohort` among them. epsilon: the budget, None = no
    limit at all, 0 = the clip without noise. clip, quantile: as in `Protection`, the latter 0 for a
    clip that stays.
    """

    algorithm: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    rounds: int
    epsilon: float | None = None
    delta: float = 1e-5
    clip: float = 1.0
    quantile: float = 0.0

    @property
    def plan(self) -> RunPlan:
        """The same as a plan, without its noise: see `rehearsed`."""
        if self.epsilon is None:
            return RunPlan(
                algorithm=self.algorithm, settings=self.settings, rounds=self.rounds, profile=PAPER
            )
        protect = {"epsilon": None, "clip": self.clip, "noise_from": "seed", "people": 1}
        return RunPlan(
            algorithm=self.algorithm,
            settings=self.settings,
            rounds=self.rounds,
            profile=DP,
            protect=protect,
        )

    @property
    def said(self) -> str:
        """Its settings in words."""
        own = "".join(f", {name}={value}" for name, value in self.settings.items())
        moving = f", clip_quantile={self.quantile:g}" if self.quantile else ""
        limited = "" if self.epsilon is None else f", clip={self.clip:g}{moving}"
        return f"{self.algorithm}{own}, {self.rounds} rounds{limited}"


class Rehearsed(NamedTuple):
    """A protection that rehearses one with an epsilon, and its noise multiplier z, 0 without
    noise.
    """

    protection: Protection
    z: float


def rehearsed(cell: DpCell, algorithm: Any, catalogue: Catalogue) -> Rehearsed:
    """The protection of a training that costs what its epsilon costs and proves nothing.

    Its noise has the size that epsilon needs and comes from the seed, so that a table can be
    repeated. Whoever knows the seed can take such noise away again: no epsilon holds, and the
    protection names none. A training that is to protect somebody is `--profile dp`."""
    own = protection_in(cell.plan, algorithm)
    if not cell.epsilon:
        return Rehearsed(own, 0.0)
    cohort = bound(algorithm.configured(catalogue), catalogue).cohort
    z = multiplier_for(cell.epsilon, cell.delta, cohort / catalogue.users, cell.rounds)
    asked = {**dict(own), "noise": z * cell.clip, "clip_quantile": cell.quantile}
    return Rehearsed(Protection.parse(asked, PROTECT), z)


@final
class DpRows:
    """A data set, split once: every cell trains on the same rows and is evaluated on the validation
    rows and on the test rows.
    """

    def __init__(self, split: Split) -> None:
        self.split = split
        assert split.validation is not None
        self.validation = split.validation

    @cached_property
    def sha256(self) -> str:
        """The identity of the rows."""
        return (
            f"{self.split.train.sha256()} {self.validation.rows.sha256()}"
            f" {self.split.test.rows.sha256()}"
        )

    def measured(self, cell: DpCell, context: Context) -> dict[str, float]:
        """`validation` and `test`, by HR@10 or RMSE (NaN for a training that diverged), the noise
        multiplier `z` and `seconds`; remembered from an earlier run if there was one."""
        algorithm = make(cell.plan, self.split.train)
        about = {
            **asdict(cell),
            "rows": self.sha256,
            "seed": context.seed,
            "settings": repr(algorithm),
        }
        program = program_sha256(type(algorithm).__module__, __name__)
        name = hashlib.sha256(json.dumps([about, program], sort_keys=True).encode()).hexdigest()[
            :40
        ]
        path = None if context.cells.folder is None else context.cells.folder / f"dp-{name}.json"
        if path is not None and (before := _remembered(path)):
            return before
        found = self._trained(cell, algorithm, context)
        if path is not None:
            write_atomically(path, json.dumps({"found": found, **about}).encode())
        return found

    def _trained(self, cell: DpCell, algorithm: Any, context: Context) -> dict[str, float]:
        began, split = time.perf_counter(), self.split
        protection, z = rehearsed(cell, algorithm, split.train.catalogue)
        try:
            model = train_phase(
                algorithm,
                split.train,
                cell.rounds,
                Setup(seed=context.seed, executor=Threads(0), protection=protection),
                Watch(),
                Phase("final", cell.algorithm, []),
            )
        except NonFiniteError:
            return {
                "validation": float("nan"),
                "test": float("nan"),
                "z": float("nan"),
                "seconds": time.perf_counter() - began,
            }
        ratings = predicts_ratings(algorithm)
        scores = {}
        for part, held, masked in (
            ("validation", self.validation, None),
            ("test", split.test, self.validation.rows),
        ):
            found = evaluate(
                model.recommender,
                split.train,
                held,
                label=cell.algorithm,
                n=(10,),
                seed=context.seed,
                also_mask=masked,
                ratings=ratings,
            )
            scores[part] = found.metrics[OF_RATINGS if ratings else OF_RANKING]
        return {**scores, "z": z, "seconds": round(time.perf_counter() - began, 1)}

    def chosen(self, cells: Sequence[DpCell], context: Context) -> DpCell:
        """The cell that is best on the validation rows; the first of equals."""
        errors = predicts_ratings(make(cells[0].plan, self.split.train))
        found = [self.measured(cell, context)["validation"] for cell in cells]
        order = np.array(found) if errors else -np.array(found)
        return cells[int(np.nanargmin(order))]


def _remembered(path: Path) -> dict[str, float]:
    """What a training scored, as its file has it; {} if there is none, or it is damaged: it then
    trains again.
    """
    try:
        found = json.loads(path.read_text())["found"]
        return {name: float(found[name]) for name in FIGURES}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def of_some_users(data: Interactions, users: int, seed: int) -> DpRows:
    """The rows of a federation too large to evaluate whole: two rows of each of `users` users,
    spread evenly, are held out, one for validation and one for testing, each against 99 items that
    the user has not; all others train.
    """
    able = np.flatnonzero((data.counts >= 3) & (data.counts <= len(data.items) - CANDIDATES))
    some = able[np.linspace(0, len(able) - 1, min(users, len(able))).astype(np.int64)]
    places = np.array([_two(data, int(user), seed) for user in some])
    parts = [_only(data, np.sort(places[:, column])) for column in range(2)]
    train = data.select(~np.isin(np.arange(len(data)), places))
    held = [
        Held(part, draw_candidates(data, part.user, CANDIDATES, key(seed, "candidates", label)))
        for part, label in zip(parts, ("validation", "test"), strict=True)
    ]
    return DpRows(Split(f"{len(some)} users held out", train, held[0], held[1], False))


def _two(data: Interactions, user: int, seed: int) -> Int64Array:
    """The places of two rows of a user, drawn at random."""
    low, high = int(data.ptr[user]), int(data.ptr[user + 1])
    first, second = (
        int(key(seed, "planted", "held", user, number)) % (high - low - number)
        for number in range(2)
    )
    return np.array([low + first, low + second + (second >= first)])


def _only(data: Interactions, rows: Int64Array) -> Interactions:
    chosen = np.zeros(len(data), np.bool_)
    chosen[rows] = True
    return data.select(chosen)


def with_epsilon(cell: DpCell, epsilon: float | None, delta: float) -> DpCell:
    """The same training under another budget."""
    return replace(cell, epsilon=epsilon, delta=delta)
