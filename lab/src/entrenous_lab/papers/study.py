"""`Study`: systems on one data set under one protocol: how each is trained, for how many rounds,
and what it scores on the test rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, final

import numpy as np

from entrenous.core.contract.declared import rounds_an_epoch
from entrenous.core.contract.gossip import GossipAlgorithm
from entrenous.core.errors import InputError
from entrenous.core.keys import key
from entrenous.data.interactions import Interactions
from entrenous.data.split.leave_one_out import draw_candidates
from entrenous.data.split.protocol import splits
from entrenous.data.split.types import Held
from entrenous.evaluation.protocol import RANKING
from entrenous.runs.recommenders import federated

from .cell import Cell, CellPart, CurvePoint, N, Outcome, Parts, part_apart, parts_of
from .effort import Budget, Grid, RowSource
from .remember import Cells, Pair
from .values import Settings, Tuned, said, settings_of_cali3f, tuned


class System(NamedTuple):
    """What is trained: an algorithm with the settings chosen for `label` (its name, unless given).

    own: settings that make it what the label says. more: settings in place of the chosen ones.
    network: what is between peers. shared: with Cali3F's settings. own_rounds: whether the number
    of rounds is chosen for it alone, not for the algorithm with the chosen settings. reading: of
    FPL's rounds per epoch, "" for systems without epochs of triples. called: its name in a table,
    "" = made of these.
    """

    algorithm: str
    label: str = ""
    own: tuple[tuple[str, Any], ...] = ()
    more: tuple[tuple[str, Any], ...] = ()
    network: tuple[tuple[str, Any], ...] = ()
    shared: bool = False
    own_rounds: bool = False
    reading: str = ""
    called: str = ""

    def __str__(self) -> str:
        if self.called:
            return self.called
        replaced = [f"{name} {str(value).lower()}" for name, value in (*self.more, *self.network)]
        name = f"{self.name} ({self.reading})" if self.reading else self.name
        return ", ".join([name, *(["Cali3F's settings"] if self.shared else []), *replaced])

    @property
    def name(self) -> str:
        """Under which its settings were chosen."""
        return self.label or self.algorithm

    @property
    def base(self) -> System:
        """With the chosen settings, every message delivered at once."""
        return System(self.algorithm, self.label, self.own)

    def replaced(self, **more: Any) -> System:
        """The same with other settings in place of the chosen ones."""
        return self._replace(more=tuple(more.items()))

    def over(self, **network: Any) -> System:
        """The same over another network."""
        return self._replace(network=tuple(network.items()))


Curves = Mapping[System, Sequence[Outcome]]  # an outcome for each seed
Looks = Mapping[
    System, Sequence[CurvePoint]
]  # a look for each seed or fold, none of a system that diverged
Looking = Callable[[System], tuple[int, ...]]  # after which rounds a system is looked at


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Study:
    """One data set under the protocol of its source. seed: the first of the seeds; each names a
    split and a training.

    family: the file of `tuned/` with the settings. chosen_on: the name there, if it is not that of
    the source. chosen_by: what the validation rows are called. lengths: of lists. kept: metrics
    kept of every user of a test. quick: whether trainings end at a curve's end. epochs: what
    centralised systems are cut to, 0 = not at all. clusters: P to try. grid: what FPL's search
    tries. trained_items: whether the catalogue of a training is the items with training rows.
    """

    source: RowSource
    data: Interactions
    cells: Cells
    budget: Budget
    family: str = ""
    chosen_on: str = ""
    chosen_by: str = "validation"
    lengths: tuple[int, ...] = (N,)
    kept: tuple[str, ...] = ()
    quick: bool = False
    epochs: int = 0
    clusters: tuple[int, ...] = ()
    grid: Grid | None = None
    trained_items: bool = False
    seed: int = 0
    _parts: dict[int, Parts] = field(default_factory=dict, init=False)

    @property
    def name(self) -> str:
        """Of the rows, as tables have it."""
        return str(self.source)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of tables; under cross-validation the numbers of the folds."""
        return (
            tuple(range(self.budget.folds))
            if self.budget.folds
            else tuple(range(self.seed, self.seed + self.budget.seeds))
        )

    @property
    def curve_seeds(self) -> tuple[int, ...]:
        """The seeds of curves."""
        return tuple(range(self.seed, self.seed + self.budget.curve_seeds))

    def part(self, name: str, seed: int | None = None) -> CellPart:
        """`validation` or `test` of the split of a seed, or of a fold; between peers also `apart`,
        rows that nobody weighs by.

        Raises InputError if the protocol does not suit the data.
        """
        if not self._parts and self.budget.folds:
            self._parts.update(
                enumerate(map(parts_of, splits(self.source.protocol, self.data, seed=self.seed)))
            )
        first = 0 if self.budget.folds else self.seed
        chosen = first if seed is None else seed
        if chosen not in self._parts:
            self._parts[chosen] = self._split(chosen)
        return self._parts[chosen][name]

    def _split(self, seed: int) -> Parts:
        """The test rows stand against further candidates too, if the budget has any; they are those
        of loo-K.
        """
        split, drawn = splits(self.source.protocol, self.data, seed=seed)[0], self.budget.drawn
        parts = {
            **parts_of(split),
            **({"apart": part_apart(split, seed)} if split.weighting else {}),
        }
        if self.trained_items:
            parts = {name: replace(part, trained_items=True) for name, part in parts.items()}
        if "validation" not in parts:
            raise InputError(
                self.data.name,
                "no user has enough rows for validation",
                expected="users with more rows",
            )
        if not drawn:
            return parts
        test = parts["test"]
        candidates = draw_candidates(
            self.data, test.held.rows.user, drawn, key(seed, "candidates", "test")
        )
        also = {f"loo-{drawn}": Held(test.held.rows, candidates)}
        return {
            **parts,
            "test": CellPart(rows=test.rows, held=test.held, masked=test.masked, also=also),
        }

    @property
    def sizes(self) -> dict[str, int]:
        """How many rows there are to train on, to choose by, and to test on; and of how many users
        the first are.
        """
        test, validation = self.part("test"), self.part("validation")
        counts = {
            "training": len(test.rows),
            "validation": len(validation.held.rows),
            "test": len(test.held.rows),
        }
        return {**counts, "users": int((test.rows.counts > 0).sum())}

    # ---- what is trained -------------------------------------------------------------------------

    def tuned(self, system: System) -> Tuned:
        """What validation rows chose."""
        where = self.chosen_on or self.name
        if self.family:
            self.cells.settings.update(
                {("tuned", self.family, "tuned", where), ("tuned", self.family, "follows")}
            )
        if system.shared:
            self.cells.settings.add(("tuned", "ncf", "tuned", where))
            return settings_of_cali3f(where, system.algorithm)
        found = tuned(self.family, where, system.name)
        return found._replace(rounds=None) if system.own_rounds else found

    def settings(self, system: System) -> Settings:
        """What a system is trained with, where it differs from the defaults."""
        found = {**self.tuned(system).settings, **dict(system.own), **dict(system.more)}
        if self.epochs and system.algorithm.startswith("central-"):
            found["epochs"] = min(self.epochs, int(found.get("epochs", self.epochs)))
        return found

    def made(self, system: System) -> Any:
        """The algorithm, made concrete for these users if it is trained on devices. Raises
        InputError for settings that do not fit.
        """
        rows = self.part("test").rows
        algorithm = self.cell(system, "test", self.seed, ()).made(rows)
        return algorithm.configured(rows.catalogue) if federated(algorithm) else algorithm

    def misfit(self, system: System) -> str:
        """Why a system cannot be trained here; "" if it can."""
        try:
            self.made(system)
        except InputError as refused:
            return str(refused)
        return ""

    def fitting(self, systems: Iterable[System], notes: list[str]) -> list[System]:
        """Those that can be trained here; the others are named in a note."""
        why = {system: self.misfit(system) for system in systems}
        notes.extend(f"{self.name}, left out: {refused}" for refused in why.values() if refused)
        return [system for system in why if not why[system]]

    def cell(
        self,
        system: System,
        part: Any,
        seed: int,
        looks: tuple[int, ...],
        kept: tuple[str, ...] = (),
    ) -> Cell:
        """One training of a system; under cross-validation all folds have one seed."""
        return Cell(
            algorithm=system.algorithm,
            settings=self.settings(system),
            part=part,
            looks=looks,
            seed=self.seed if self.budget.folds else seed,
            network=dict(system.network),
            lengths=self.lengths,
            kept=kept,
        )

    def pair(
        self,
        system: System,
        part: str,
        seed: int,
        looks: tuple[int, ...],
        kept: tuple[str, ...] = (),
    ) -> Pair:
        """The same with its rows."""
        return self.part(part, seed), self.cell(system, part, seed, looks, kept)

    # ---- curves, on validation rows --------------------------------------------------------------

    def looks(self, system: System) -> tuple[int, ...]:
        """After which rounds a curve is evaluated; (0,) of a centralised system."""
        algorithm = self.made(system)
        if not federated(algorithm):
            return (0,)
        if isinstance(algorithm, GossipAlgorithm):
            return self.budget.gossip_looks
        return self.budget.looks_within(self.budget.usual * self.usual_epochs(system))

    def usual_epochs(self, system: System) -> int:
        """The epochs of a training as it comes, 0 of a centralised system; rounds where an
        algorithm knows no epochs.
        """
        made, catalogue = self.made(system), self.part("test").rows.catalogue
        return (
            made.default_rounds(catalogue) // rounds_an_epoch(made, catalogue)
            if federated(made)
            else 0
        )

    def curves(
        self,
        systems: Sequence[System],
        seeds: Sequence[int] = (),
        kept: tuple[str, ...] = (),
        *,
        part: str = "validation",
        timed: bool = False,
    ) -> dict[System, list[Outcome]]:
        """Each system's evaluations on validation rows (or another part) over the rounds, once a
        seed (of curves, unless given).

        timed: trained one after another, so that within a seed their seconds can be compared.
        """
        return self._trained(systems, part, seeds or self.curve_seeds, self.looks, kept, timed)

    def _trained(
        self,
        systems: Sequence[System],
        part: str,
        seeds: Sequence[int],
        looks: Looking,
        kept: tuple[str, ...],
        timed: bool,
    ) -> dict[System, list[Outcome]]:
        pairs = [
            [self.pair(system, part, seed, looks(system), kept) for system in systems]
            for seed in seeds
        ]
        if timed:
            found = [self.cells.timed(some) for some in pairs]
        else:
            every = iter(self.cells.outcomes_of([pair for some in pairs for pair in some]))
            found = [[next(every) for _ in some] for some in pairs]
        return {system: [outcomes[n] for outcomes in found] for n, system in enumerate(systems)}

    def rounds(self, systems: Sequence[System]) -> dict[System, int]:
        """How long each is trained, in epochs (rounds where an algorithm knows none): as its
        settings have it, or else to the best of its mean curve; 0 = not in rounds."""
        leads = {
            system: (
                system if system.own_rounds or system.shared or self.budget.folds else system.base
            )
            for system in systems
        }
        known = {lead: self._known(lead) for lead in leads.values()}
        curves = self.curves([lead for lead, rounds in known.items() if rounds is None])
        found = {
            lead: best_epochs(curves[lead]) if rounds is None else rounds
            for lead, rounds in known.items()
        }
        return {system: found[lead] for system, lead in leads.items()}

    def _known(self, system: System) -> int | None:
        """The rounds that need no curve; in quick runs no training goes beyond the end of a
        curve.
        """
        looks = self.looks(system)
        rounds = (
            0
            if looks == (0,)
            else self.made(system).rounds
            if self.budget.folds
            else self.tuned(system).rounds
        )
        return (
            rounds
            if rounds is None or not self.quick or self.budget.folds
            else min(rounds, looks[-1])
        )

    # ---- the test rows ---------------------------------------------------------------------------

    def tested(
        self, systems: Sequence[System], seeds: Sequence[int] = (), *, timed: bool = False
    ) -> dict[System, list[CurvePoint]]:
        """What each scores on the test rows, once a seed or fold; the list is empty if a training
        diverged. timed: as of curves.
        """
        found = self.tested_at(systems, (1,), seeds, timed=timed)
        return {system: [look for look, *_ in looks] for system, looks in found.items()}

    def tested_at(
        self,
        systems: Sequence[System],
        times: Sequence[int],
        seeds: Sequence[int] = (),
        *,
        timed: bool = False,
    ) -> dict[System, list[list[CurvePoint]]]:
        """The same after 1, 2, .. times the number of rounds: a list of looks for each seed."""
        until = self.rounds(systems)

        def looks(system: System) -> tuple[int, ...]:
            return tuple(time * until[system] for time in times)

        found = self._trained(systems, "test", seeds or self.seeds, looks, self.kept, timed)
        each = {
            system: [outcome.looks for outcome in outcomes] for system, outcomes in found.items()
        }
        return {
            system: mine if all(len(some) == len(times) for some in mine) else []
            for system, mine in each.items()
        }

    # ---- in words --------------------------------------------------------------------------------

    def protocol(
        self, system: System, seeds: Sequence[int] | None = None, rounds: int | None = None
    ) -> str:
        """How a row came about, in words."""
        found, settings, used = (
            self.tuned(system),
            said(self.settings(system)),
            self.seeds if seeds is None else seeds,
        )
        used = (self.seed,) if self.budget.folds else used
        parts = [
            self._held_out(),
            f"settings {found.by or 'not searched: the defaults'}: {settings or 'none'}",
            f"network: {said(dict(system.network))}" if system.network else "",
            (
                f"{rounds} {self.unit(system)}"
                + (f", chosen on {self.chosen_by} here" if found.rounds is None else "")
                if rounds
                else ""
            ),
            f"seed{'s' if len(used) > 1 else ''} {', '.join(map(str, used))}",
            "quick excerpt" if self.quick and not self.budget.folds else "",
        ]
        return "; ".join(filter(None, parts))

    def unit(self, system: System) -> str:
        """What the length of a training is counted in: epochs where one is several rounds."""
        return (
            "epochs"
            if rounds_an_epoch(self.made(system), self.part("test").rows.catalogue) > 1
            else "rounds"
        )

    def _held_out(self) -> str:
        if self.budget.folds:
            low, high = self.data.rating_scale
            return (
                f"{self.name}, {self.source.protocol}, {self.budget.folds} folds, clipped to"
                f" {low:g} .. {high:g}"
            )
        candidates = self.part("test").held.candidates
        named = (
            self.name
            if self.source.protocol in self.name
            else f"{self.name}, {self.source.protocol}"
        )
        return named if candidates is None else f"{named}, {candidates.shape[1]} candidates"


def mean_curve(outcomes: Sequence[Outcome]) -> tuple[list[int], list[float]]:
    """Rounds, and the mean over seeds of RANKING's metric after each; as far as no training had
    diverged.
    """
    looks, values = _mean_looks(outcomes)
    return [look.rounds for look in looks], values


def best_epochs(outcomes: Sequence[Outcome]) -> int:
    """The epochs at which the mean curve is highest, the earliest of equals; 1 if training diverged
    at once. Rounds where an algorithm knows no epochs, as in `Cell`."""
    looks, values = _mean_looks(outcomes)
    return looks[int(np.argmax(values))].epochs if looks else 1


def _mean_looks(outcomes: Sequence[Outcome]) -> tuple[list[CurvePoint], list[float]]:
    """The looks of the first seed, as far as no training had diverged, and the mean over seeds at
    each.
    """
    looks = list(zip(*(outcome.looks for outcome in outcomes), strict=False))
    return [some[0] for some in looks], [
        float(np.mean([look.metrics[RANKING.metric] for look in some])) for some in looks
    ]
