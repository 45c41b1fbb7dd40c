"""`NcfStudy`: Cali3F's systems on one data set, over several seeds: their curves on validation, and what they score on the test rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np

from ..core.errors import InputError
from ..core.keys import key
from ..data.interactions import Interactions
from ..data.load import load
from ..evaluate.goal import RANKING
from ..split.leave_one_out import draw_candidates
from ..split.protocol import splits
from ..split.types import Held
from .cali3f_settings import Settings, Tuned, shared, tuned
from .cell import Cell, Look, Outcome, Part, Parts, parts_of
from .cells import Cells
from .effort import FULL, QUICK, Budget, Effort
from .result import Context, Found

CENTRAL = ("central-gmf", "central-mlp", "central-neumf", "bpr-mf", "popular")


class System(NamedTuple):
    """What is trained: an algorithm with the settings chosen for it or, `shared`, with Cali3F's. more: settings that replace those."""

    algorithm: str
    shared: bool = False
    more: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        replaced = [f"{name} {str(value).lower()}" for name, value in self.more]
        return ", ".join([self.algorithm, *(["Cali3F's settings"] if self.shared else []), *replaced])

    @property
    def central(self) -> bool:
        """Whether it is trained in one place, without rounds."""
        return self.algorithm in CENTRAL

    def tuned(self, data: str) -> Tuned:
        """Its settings on a data set, and how they were found."""
        found = shared(data, self.algorithm) if self.shared else tuned(data, self.algorithm)
        return found._replace(settings={**found.settings, **dict(self.more)}, rounds=None if self.more else found.rounds)


Curves = Mapping[System, list[Outcome]]  # an outcome for each seed


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class NcfStudy:
    """One data set under the protocol of its budget. seed: the first of the seeds; each names a split, candidates and a training."""

    data: Interactions
    effort: Effort
    cells: Cells
    seed: int = 0
    _parts: dict[int, Parts] = field(default_factory=dict, init=False)

    @cached_property
    def budget(self) -> Budget:
        return self.effort.budget(self.data.name)

    @property
    def seeds(self) -> tuple[int, ...]:
        """Of the tables."""
        return tuple(range(self.seed, self.seed + self.budget.seeds))

    @property
    def curve_seeds(self) -> tuple[int, ...]:
        """Of the curves."""
        return tuple(range(self.seed, self.seed + self.budget.curve_seeds))

    def part(self, name: str, seed: int) -> Part:
        """`validation` or `test` of the split of a seed. Raises InputError if the protocol does not suit the data."""
        if seed not in self._parts:
            self._parts[seed] = self._split(seed)
        return self._parts[seed][name]

    def _split(self, seed: int) -> Parts:
        """The test rows stand against further candidates too, drawn as section IV-B has it; they are those of loo-K."""
        parts, drawn = parts_of(splits(self.budget.protocol, self.data, seed=seed)[0]), self.budget.drawn
        if "validation" not in parts:
            raise InputError(self.data.name, "no user has enough rows for validation", expected="users with three rows or more")
        test = parts["test"]
        candidates = draw_candidates(self.data, test.held.rows.user, drawn, key(seed, "candidates", "test")) if drawn else None
        also = {} if candidates is None else {f"loo-{drawn}": Held(test.held.rows, candidates)}
        return {**parts, "test": Part(rows=test.rows, held=test.held, masked=test.masked, also=also)}

    # ---- what is trained ---------------------------------------------------------------------------------------------------------

    def settings(self, system: System) -> Settings:
        """What a system is trained with. In quick runs centralised networks learn for fewer epochs."""
        found = dict(system.tuned(self.data.name).settings)
        if self.effort.epochs and system.algorithm.startswith("central-"):
            found["epochs"] = min(self.effort.epochs, int(found.get("epochs", self.effort.epochs)))
        return found

    def _pair(self, system: System, name: str, seed: int, looks: tuple[int, ...]) -> tuple[Part, Cell]:
        part: Any = name
        cell = Cell(algorithm=system.algorithm, settings=self.settings(system), part=part, looks=looks, seed=seed)
        return self.part(name, seed), cell

    def made(self, system: System) -> Any:
        """The algorithm, made concrete for these users. Raises InputError for settings that do not fit them."""
        part, cell = self._pair(system, "validation", self.seed, ())
        return cell.made(part.rows).configured(part.rows.catalogue)

    def fits(self, system: System) -> bool:
        """Whether there are users, and devices in a round, for its clusters."""
        try:
            self.made(system)
        except InputError:
            return False
        return True

    # ---- curves, on validation rows ----------------------------------------------------------------------------------------------

    def curves(self, systems: Sequence[System]) -> Curves:
        """Each system's looks at validation over the rounds, once a curve seed."""
        pairs = [self._curve(system, seed) for system in systems for seed in self.curve_seeds]
        return self._by_system(systems, self.cells.outcomes_of(pairs))

    def timed_curves(self, systems: Sequence[System]) -> Curves:
        """The same, trained one after another: within a seed, their seconds can be compared."""
        found = [self.cells.timed([self._curve(system, seed) for system in systems]) for seed in self.curve_seeds]
        return {system: list(outcomes) for system, outcomes in zip(systems, zip(*found, strict=True), strict=True)}

    def _curve(self, system: System, seed: int) -> tuple[Part, Cell]:
        return self._pair(system, "validation", seed, self.budget.looks)

    def _by_system(self, systems: Sequence[System], outcomes: Sequence[Outcome]) -> dict[System, list[Outcome]]:
        each = len(outcomes) // max(1, len(systems))
        return {system: list(outcomes[n * each : (n + 1) * each]) for n, system in enumerate(systems)}

    # ---- the test rows -----------------------------------------------------------------------------------------------------------

    def rounds(self, systems: Sequence[System]) -> dict[System, int]:
        """How long each is trained: as its settings have it, or else to the best round of its mean curve; 0 = not in rounds."""
        known = {system: self._known(system) for system in systems}
        curves = self.curves([system for system, rounds in known.items() if rounds is None])
        return {system: best_round(curves[system]) if rounds is None else rounds for system, rounds in known.items()}

    def _known(self, system: System) -> int | None:
        """In quick runs no training goes beyond a curve."""
        rounds = 0 if system.central else system.tuned(self.data.name).rounds
        return rounds if rounds is None or not self.effort.quick else min(rounds, self.budget.horizon)

    def tested(self, systems: Sequence[System], seeds: Sequence[int] | None = None) -> dict[System, list[Look]]:
        """What each scores on the test rows, once a seed; the list is empty if a training diverged."""
        chosen = self.seeds if seeds is None else seeds
        until = self.rounds(systems)
        pairs = [self._pair(system, "test", seed, (until[system],)) for system in systems for seed in chosen]
        found = self._by_system(systems, self.cells.outcomes_of(pairs))
        return {
            system: [look for one in outcomes for look in one.looks] if all(one.looks for one in outcomes) else []
            for system, outcomes in found.items()
        }

    # ---- in words ----------------------------------------------------------------------------------------------------------------

    def protocol(self, system: System, seeds: Sequence[int], rounds: int | None = None) -> str:
        """How a row came about, in words."""
        found, settings = system.tuned(self.data.name), self.settings(system)
        held = self.part("test", self.seed).held
        against = "" if held.candidates is None else f", {held.candidates.shape[1]} candidates"
        parts = [
            f"{self.data.name}, {self.budget.protocol}{against}",
            f"settings {found.by or 'not searched: the defaults'}: " + (said(settings) or "none"),
            f"{rounds} rounds" + (", chosen on validation here" if found.rounds is None else "") if rounds else "",
            f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {', '.join(map(str, seeds))}",
            "quick excerpt" if self.effort.quick else "",
        ]
        return "; ".join(filter(None, parts))


def said(settings: Mapping[str, Any]) -> str:
    """Settings in words."""
    return ", ".join(f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in settings.items())


def mean_curve(outcomes: Sequence[Outcome]) -> tuple[list[int], list[float]]:
    """Rounds, and the mean over seeds of RANKING's metric after each; as far as no training had diverged."""
    looks = list(zip(*(outcome.looks for outcome in outcomes), strict=False))
    return [some[0].rounds for some in looks], [float(np.mean([look.metrics[RANKING.metric] for look in some])) for some in looks]


def best_round(outcomes: Sequence[Outcome]) -> int:
    """The round at which the mean curve is highest, the earliest of equals; 1 if training diverged at once."""
    rounds, values = mean_curve(outcomes)
    return rounds[int(np.argmax(values))] if rounds else 1


def over_data(one: Callable[[NcfStudy], Found], only: Sequence[str] = ()) -> Callable[[Context], Found]:
    """The `run` of an experiment that does the same for every data set (of `only`); one that is absent is named in a note."""

    def run(context: Context) -> Found:
        effort, found = context.effort or (QUICK if context.quick else FULL), Found()
        names = [name for name in effort.budgets if not only or name in only]
        for data in names if context.data is None else [context.data]:
            try:
                study = NcfStudy(
                    data=load(data) if isinstance(data, str) else data, effort=effort, cells=context.cells, seed=context.seed
                )
                study.part("test", study.seed)
            except InputError as missing:
                found.notes.append(f"Left out: {missing}")
            else:
                found.add(one(study))
        return found

    return run
