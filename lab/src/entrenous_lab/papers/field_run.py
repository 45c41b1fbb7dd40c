"""One system of the field, trained once and evaluated on its test rows, or searched on validation
rows; remembered in a file as soon as it is done.

Nothing is refitted on validation rows, as in the programs of the field."""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, final

from entrenous.core.contract.declared import declared
from entrenous.core.errors import EntrenousWarning, NonFiniteError
from entrenous.data.interactions import Interactions
from entrenous.runs.manifest import ALGORITHM, pins
from entrenous.runs.options import Negatives
from entrenous.runs.pipeline import RunRequest, RunResult, carry_out
from entrenous.runs.plan import algorithm_of
from entrenous.runs.recommenders import federated
from entrenous.runs.train import Round

from ..search.before import chosen_before
from .remember import trained_once

# Of what is remembered: another one after a change of this file that alters an outcome.
FORMAT = 1
HONEST: Negatives = "train"
LEAKY: Negatives = "leaky"
RANKED = ("hr@10", "ndcg@10")
WORST = "worst_decile_auc"


class FieldPoint(NamedTuple):
    """The figures of one training. failed: why it has none, "" if it has."""

    metrics: Mapping[str, float]
    """By name; `full NAME` is of the full ranking. Bytes are kB of a device and round, `cpu` is the
    processor seconds of a device."""
    per_user: Mapping[str, list[float]]
    rounds: int = 0
    failed: str = ""


class Searched(NamedTuple):
    """The settings and rounds that validation rows chose. trials: settings that were tried."""

    settings: Mapping[str, Any]
    rounds: int | None
    trials: int


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class FieldRunner:
    """Trains on one data set. folder: where finished trainings are remembered, None = nowhere."""

    data: Interactions
    protocol: str
    folder: Path | None
    seed: int = 0
    """The seed whose validation rows choose."""
    counts: dict[str, int] = field(default_factory=lambda: {"computed": 0, "remembered": 0})

    def point(
        self,
        algorithm: str,
        settings: Mapping[str, Any],
        *,
        seed: int,
        rounds: int | None,
        negatives: Negatives = HONEST,
    ) -> FieldPoint:
        """Trains and evaluates. rounds: None = the algorithm's own."""
        asked = RunRequest(
            algorithm,
            self.data,
            protocol=self.protocol,
            seed=seed,
            rounds=rounds,
            settings=settings,
            negatives=negatives,
            refit=None if _is_gossip(algorithm, settings) else False,
            threads=1,
        )
        told = {"seed": seed, "rounds": rounds, "negatives": negatives}
        found = self._remembered(algorithm, settings, told, lambda: _trained(asked)._asdict())
        return FieldPoint(**found)

    def searched(
        self, algorithm: str, settings: Mapping[str, Any], *, trials: int, rounds: int
    ) -> Searched:
        """Chooses settings and rounds on validation rows: the given settings, then drawn ones of
        the space that the algorithm declares. An algorithm without one keeps its settings.
        """
        told = {"trials": trials, "most": rounds, "seed": self.seed}
        most = rounds if _in_rounds(algorithm, settings) else None

        def search() -> dict[str, Any]:
            chosen = chosen_before(
                algorithm,
                self.data,
                protocol=self.protocol,
                settings=settings,
                rounds=most,
                seed=self.seed,
                trials=trials,
            )
            if chosen is None:
                return Searched(dict(settings), most, 1)._asdict()
            return Searched(chosen.settings, chosen.rounds, trials)._asdict()

        return Searched(**self._remembered(algorithm, settings, told, search))

    def _remembered(
        self,
        algorithm: str,
        settings: Mapping[str, Any],
        told: Mapping[str, Any],
        compute: Callable[[], dict[str, Any]],
    ) -> dict[str, Any]:
        """What a training gave, computed if no file has it."""
        name = self._identity(algorithm, settings, told)
        path = None if self.folder is None else self.folder / f"field-{name}.json"
        about = {"format": FORMAT, "cell": name, "algorithm": algorithm, **told}
        found, computed = trained_once(path, {**about, "settings": dict(settings)}, compute)
        self.counts["computed" if computed else "remembered"] += 1
        return found

    def _identity(
        self, algorithm: str, settings: Mapping[str, Any], told: Mapping[str, Any]
    ) -> str:
        """40 hex digits of what determines an outcome: the algorithm's source, its settings, the
        libraries, the rows. The engine is left out: golden hashes hold that it changes no model.
        """
        pinned = pins(algorithm_of(algorithm, settings))
        of_algorithm = {name: pinned[name] for name in ("settings_in_force", ALGORITHM, "versions")}
        whole = {
            **of_algorithm,
            **told,
            "format": FORMAT,
            "rows": self._rows,
            "protocol": self.protocol,
        }
        text = json.dumps(whole, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:40]

    @cached_property
    def _rows(self) -> str:
        return self.data.sha256()


def _in_rounds(algorithm: str, settings: Mapping[str, Any]) -> bool:
    return bool(federated(algorithm_of(algorithm, settings)))


def _is_gossip(algorithm: str, settings: Mapping[str, Any]) -> bool:
    return declared(algorithm_of(algorithm, settings)).kind == "gossip"


def draws(algorithm: str) -> bool:
    """Tells whether devices draw negatives, which then may leak."""
    made = algorithm_of(algorithm, {})
    return _in_rounds(algorithm, {}) and declared(made).traits.draws_negatives


def _trained(asked: RunRequest) -> FieldPoint:
    """Trains and evaluates. A training that diverges has no figures."""
    clock: list[float] = []

    def tick(told: Round) -> None:
        clock.append(time.thread_time())

    try:
        with warnings.catch_warnings():
            # The table says it of every leaky figure.
            warnings.filterwarnings("ignore", "LEAKY", EntrenousWarning)
            run = carry_out(_timed(asked, tick))
    except NonFiniteError as diverged:
        return FieldPoint({}, {}, failed=str(diverged))
    (evaluation,) = run.evaluations
    full = {f"full {name}": value for name, value in (evaluation.full_ranking or {}).items()}
    metrics = {**evaluation.metrics, **full, WORST: run.manifest["fairness"][WORST]}
    per_user = {name: evaluation.per_user[name].tolist() for name in RANKED}
    return FieldPoint({**metrics, **_spent(run, clock)}, per_user, len(clock))


def _timed(asked: RunRequest, tick: Callable[[Round], None]) -> RunRequest:
    return RunRequest(**{**vars(asked), "on_round": tick})


def _spent(run: RunResult, clock: list[float]) -> dict[str, float]:
    """kB of a device and round, and processor seconds of a device; nothing of a system that trains
    in one place. The first round is left out of the seconds, since it may compile.
    """
    ledger = run.manifest["ledger"]
    if not ledger["device_rounds"] or len(clock) < 2:
        return {}
    each = (clock[-1] - clock[0]) / (len(clock) - 1)
    return {
        "up": ledger["bytes_up"] / ledger["device_rounds"] / 1e3,
        "down": ledger["bytes_down"] / ledger["device_rounds"] / 1e3,
        "cpu": each * len(clock) / len(run.train.users),
    }
