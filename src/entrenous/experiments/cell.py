"""`Cell`: one training that is evaluated on its way, what it scored, and the identity under which that is remembered."""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple, final

from .. import recommend
from ..core.discover import modules
from ..data.interactions import Interactions
from ..plan import Plan, make
from ..split.types import Held, Split

FORMAT = 1  # of a remembered cell
SHARED = ("core", "models", "federation", "evaluate", "evaluate.metrics")  # the packages behind every outcome


@final
@dataclass(frozen=True, kw_only=True)
class Cell:
    """One training: `algorithm` with `settings` on the training rows of `part`, evaluated after each number of epochs in `looks`.

    Where an algorithm knows no epochs, they are rounds; a centralised one has the single look 0.
    """

    algorithm: str
    settings: Mapping[str, Any]
    part: Literal["validation", "test"]
    looks: tuple[int, ...] = (0,)
    seed: int = 0

    @property
    def label(self) -> str:
        """What a progress bar shows."""
        return f"{self.part}: {self.algorithm} " + " ".join(f"{name}={value}" for name, value in self.settings.items())

    def made(self, rows: Interactions) -> Any:
        """The algorithm. Raises InputError for a setting it does not take."""
        return make(Plan(algorithm=self.algorithm, settings=self.settings), rows)


class Look(NamedTuple):
    """One evaluation. metrics: means over users by name. by_category: as in Evaluation. ledger: what was sent until then.

    per_user: some metrics in the order of ascending users, of test cells only.
    """

    epochs: int
    rounds: int
    metrics: dict[str, float]
    by_category: dict[str, dict[str, float]]
    ledger: dict[str, int]
    per_user: dict[str, list[float]]


class Outcome(NamedTuple):
    """The looks of a cell, in order. failed: why training ended early, "" if it did not. seconds: wall time with evaluation."""

    looks: list[Look]
    failed: str
    seconds: float


class Part(NamedTuple):
    """What a cell trains on, what it is evaluated on, and the identity of both."""

    rows: Interactions
    held: Held
    sha256: str


Parts = Mapping[str, Part]


def parts_of(split: Split) -> Parts:
    """{"validation": train -> validation rows, "test": all but the test rows -> test rows}; the former if there are any."""
    pairs = {"test": (split.final_train, split.test)}
    if split.validation is not None:
        pairs["validation"] = split.train, split.validation
    return {name: Part(rows, held, f"{rows.sha256()} {held.rows.sha256()}") for name, (rows, held) in pairs.items()}


def identity(cell: Cell, part: Part) -> str:
    """40 hex digits of all that determines an outcome: settings with their defaults, seed, looks, rows, and the program."""
    algorithm = cell.made(part.rows)
    plan = {
        "format": FORMAT,
        "algorithm": cell.algorithm,
        "settings": {name: repr(value) for name, value in algorithm.model_dump().items()},
        "seed": cell.seed,
        "looks": cell.looks,
        "rows": part.sha256,
        "part": cell.part,
        "program": program_sha256(type(algorithm).__module__),
    }
    return hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()[:40]


@lru_cache(maxsize=64)
def program_sha256(module: str) -> str:
    """The identity of the code behind an outcome: the algorithm's own file and what it shares, the rounds and the evaluation.

    Comments, docstrings and layout do not count.
    """
    package = module.rpartition(".")[0]
    own = [part for name, part in sorted(sys.modules.items()) if name == module or name.startswith(f"{package}._")]
    shared = [part for name in SHARED for part in modules(name).values()]
    digest = hashlib.sha256()
    for part in (*own, *shared, recommend):
        digest.update(ast.dump(bare(ast.parse(inspect.getsource(part)))).encode())
    return digest.hexdigest()


def bare(tree: ast.Module) -> ast.Module:
    """The tree without docstrings, in place."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            node.body = body[1:]  # type: ignore[attr-defined]
    return tree
