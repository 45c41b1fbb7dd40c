"""`PepperStudy`: PEPPER's systems on one split, over several seeds: their curves on the weighting sets, and what they score on the test
rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from ..core.discover import algorithms
from ..core.errors import InputError
from ..core.gossip import GossipAlgorithm
from ..core.protocols import FederatedAlgorithm
from ..data.interactions import Interactions
from ..split.protocol import splits
from .cell import Cell, Look, Outcome, Part, Parts, parts_of
from .cells import Cells
from .ncf_study import best_round, said
from .pepper_plan import KEPT, LENGTHS, Reach, Source, System, reach_of
from .pepper_settings import Settings, Tuned, tuned
from .result import Context, Found, Paper, Row
from .seed_rows import seed_row

Tested = Mapping[System, Sequence[Look]]  # a look for each seed, none of one that diverged


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class PepperStudy:
    """One split. seed: the first of the seeds; each names a training and, where the split is drawn, a split.

    chosen_on: the split whose settings are used, another one's if it is part of that. quick: whether trainings end at a curve's end.
    """

    source: Source
    data: Interactions
    cells: Cells
    reach: Reach
    quick: bool = False
    seed: int = 0
    chosen_on: str = ""
    _parts: dict[int, Parts] = field(default_factory=dict, init=False)

    @property
    def name(self) -> str:
        """Of the split, as tables have it."""
        return str(self.source)

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(range(self.seed, self.seed + self.reach.seeds))

    def part(self, name: str, seed: int | None = None) -> Part:
        """`validation` or `test` of the split of a seed. Raises InputError if the protocol does not suit the data."""
        chosen = self.seed if seed is None else seed
        if chosen not in self._parts:
            self._parts[chosen] = parts_of(splits(self.source.protocol, self.data, seed=chosen)[0])
        return self._parts[chosen][name]

    # ---- what is trained ---------------------------------------------------------------------------------------------------------

    def tuned(self, system: System) -> Tuned:
        """What the weighting sets chose."""
        return tuned(self.chosen_on or self.name, system.algorithm)

    def settings(self, system: System) -> Settings:
        """What a system is trained with, where it differs from the defaults."""
        return {**self.tuned(system).settings, **dict(system.more)}

    def made(self, system: System) -> Any:
        """The algorithm, made concrete for these users if it is trained on devices."""
        rows = self.part("test").rows
        algorithm = self._cell(system, "test", self.seed, ()).made(rows)
        return algorithm.configured(rows.catalogue) if hasattr(algorithm, "configured") else algorithm

    def fitting(self, systems: Sequence[System], found: Found) -> list[System]:
        """Those that there are and that can be trained on this split; the others are named in a note."""
        fit = []
        for system in systems:
            try:
                if system.algorithm not in algorithms():
                    raise InputError(system.algorithm, "no such algorithm here")
                self.made(system)
            except InputError as refused:
                found.notes.append(f"{self.name}, left out: {refused}")
            else:
                fit.append(system)
        return fit

    def _cell(self, system: System, name: Any, seed: int, looks: tuple[int, ...], kept: tuple[str, ...] = ()) -> Cell:
        settings, network = self.settings(system), dict(system.network)
        return Cell(
            algorithm=system.algorithm, settings=settings, part=name, looks=looks, seed=seed, network=network, lengths=LENGTHS, kept=kept
        )  # fmt: skip

    def _pair(self, system: System, name: str, seed: int, looks: tuple[int, ...], kept: tuple[str, ...]) -> tuple[Part, Cell]:
        return self.part(name, seed), self._cell(system, name, seed, looks, kept)

    # ---- curves, on the weighting sets -----------------------------------------------------------------------------------------------

    def looks(self, system: System) -> tuple[int, ...]:
        """After which rounds a curve is looked at."""
        algorithm = self.made(system)
        if not isinstance(algorithm, FederatedAlgorithm | GossipAlgorithm):
            return (0,)
        horizon, every = self.reach.gossip if isinstance(algorithm, GossipAlgorithm) else self.reach.federated
        return tuple(range(every, horizon + 1, every))

    def curves(self, systems: Sequence[System]) -> dict[System, Outcome]:
        """Each system's looks at the weighting sets over the rounds, of the first seed."""
        pairs = [self._pair(system, "validation", self.seed, self.looks(system), ()) for system in systems]
        return dict(zip(systems, self.cells.outcomes_of(pairs), strict=True))

    def timed_curves(self, systems: Sequence[System], kept: tuple[str, ...]) -> dict[System, list[Outcome]]:
        """The same for every seed, trained one after another, so that within a seed their seconds can be compared; with some metrics of
        every user."""
        found = [
            self.cells.timed([self._pair(system, "validation", seed, self.looks(system), kept) for system in systems])
            for seed in self.seeds
        ]
        return {system: list(outcomes) for system, outcomes in zip(systems, zip(*found, strict=True), strict=True)}

    def rounds(self, systems: Sequence[System]) -> dict[System, int]:
        """How long each is trained: as its settings have it, or else to the best round of the curve; 0 = not in rounds."""
        leads = {system: system if system.own_rounds else system.base for system in systems}
        known = {lead: self._known(lead) for lead in leads.values()}
        curves = self.curves([lead for lead, rounds in known.items() if rounds is None])
        found = {lead: best_round([curves[lead]]) if rounds is None else rounds for lead, rounds in known.items()}
        return {system: found[lead] for system, lead in leads.items()}

    def _known(self, system: System) -> int | None:
        looks = self.looks(system)
        rounds = 0 if looks == (0,) else None if system.own_rounds else self.tuned(system).rounds
        return rounds if rounds is None or not self.quick else min(rounds, looks[-1])

    # ---- the test rows -----------------------------------------------------------------------------------------------------------

    def tested(self, systems: Sequence[System]) -> dict[System, list[Look]]:
        """What each scores on the test rows, once a seed; the list is empty if a training diverged."""
        return {system: [look for look, *_ in looks] for system, looks in self.tested_at(systems, (1,)).items()}

    def tested_at(self, systems: Sequence[System], times: Sequence[int]) -> dict[System, list[list[Look]]]:
        """The same after 1, 2, .. times the number of rounds: a list of looks for each seed."""
        until = self.rounds(systems)
        looks = {system: tuple(time * until[system] for time in times) for system in systems}
        pairs = [self._pair(system, "test", seed, looks[system], KEPT) for system in systems for seed in self.seeds]
        outcomes = self.cells.outcomes_of(pairs)
        return self._by_system(systems, outcomes, len(times))

    def timed_tests(self, systems: Sequence[System]) -> dict[System, list[Look]]:
        """As `tested`, one after another: within a seed, their seconds can be compared."""
        until = self.rounds(systems)
        by_seed = [
            self.cells.timed([self._pair(system, "test", seed, (until[system],), KEPT) for system in systems])
            for seed in self.seeds
        ]
        outcomes = [outcome for mine in zip(*by_seed, strict=True) for outcome in mine]
        return {system: [look for look, *_ in looks] for system, looks in self._by_system(systems, outcomes, 1).items()}

    def _by_system(self, systems: Sequence[System], outcomes: Sequence[Outcome], times: int) -> dict[System, list[list[Look]]]:
        each, found = len(self.seeds), dict[System, list[list[Look]]]()
        for number, system in enumerate(systems):
            mine = [one.looks for one in outcomes[number * each : (number + 1) * each]]
            found[system] = mine if all(len(looks) == times for looks in mine) else []
        return found

    # ---- in words ----------------------------------------------------------------------------------------------------------------

    def protocol(self, system: System, rounds: int | None = None) -> str:
        """How a row came about, in words."""
        found, test = self.tuned(system), self.part("test")
        assert test.held.candidates is not None  # of every protocol of PEPPER's
        chosen = f"settings {found.by or 'not searched: the defaults'}: {said(self.settings(system)) or 'none'}"
        parts = [
            f"{self.name}, {test.held.candidates.shape[1]} candidates",
            chosen,
            f"network: {said(dict(system.network))}" if system.network else "",
            f"{rounds} rounds" + (", chosen on the weighting sets here" if found.rounds is None else "") if rounds else "",
            f"seeds {', '.join(map(str, self.seeds))}",
            "quick excerpt" if self.quick else "",
        ]
        return "; ".join(filter(None, parts))

    def about(self) -> str:
        """What was split how, once for a table."""
        test, rest = self.part("test"), self.part("validation")
        cold = int((test.rows.popularity[test.held.rows.item] == 0).sum())
        spread = f" ± is the standard deviation over {len(self.seeds)} seeds." if len(self.seeds) > 1 else ""
        chance = f", {cold} of them of items without a training row, which rank by chance" if cold else ""
        return (
            f"{self.name}: {int((test.rows.counts > 0).sum())} users, {len(test.rows)} training rows, {len(rest.held.rows)} rows of "
            f"weighting sets, {len(test.held.rows)} test rows{chance}. Settings and rounds are chosen on the weighting sets; the test rows "
            f"are opened once training is over.{spread}"
        )

    def rows(self, system: System, values: Mapping[str, Sequence[float]], paper: Paper, rounds: int | None = None) -> list[Row]:
        """A row for each metric: {metric: the value of every seed}."""
        said, settings, printed = self.protocol(system, rounds), self.settings(system), {} if system.network else paper
        return [
            seed_row(
                self.name, system, metric, some, paper=printed, protocol=said, seeds=self.seeds, settings=settings, epochs=rounds
            )
            for metric, some in values.items()
        ]


def studies(context: Context, sources: Sequence[Source], quick: Sequence[Source], found: Found) -> list[PepperStudy]:
    """A study for each source, or of the context's own data; what is absent is named in a note."""
    own = [Source(context.data.name, "pepper-85-15")] if context.data is not None else []
    made = []
    for source in own or (quick if context.quick else sources):
        try:
            data = source.read() if context.data is None else context.data
            study = study_of(context, source, data)
            study.part("validation")
        except InputError as missing:
            found.notes.append(f"Left out: {missing}")
        else:
            made.append(study)
    return made


def study_of(context: Context, source: Source, data: Interactions, chosen_on: str = "") -> PepperStudy:
    """The study of some rows in a context."""
    reach = reach_of(source, context.quick)
    return PepperStudy(
        source=source, data=data, cells=context.cells, reach=reach, quick=context.quick, seed=context.seed, chosen_on=chosen_on
    )


def over_sources(
    one: Callable[[PepperStudy], Found], sources: Sequence[Source], quick: Sequence[Source]
) -> Callable[[Context], Found]:
    """The `run` of an experiment that does the same for every source; one that does not have what a system needs is named in a note."""

    def run(context: Context) -> Found:
        found = Found()
        for study in studies(context, sources, quick, found):
            try:
                found.add(one(study))
            except InputError as refused:
                found.notes.append(f"{study.name}, left out: {refused}")
        return found

    return run
