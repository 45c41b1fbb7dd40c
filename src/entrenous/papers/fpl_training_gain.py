"""How much of the gain of FPL+ is more training: as many triples without the local computation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..evaluate.significance import Comparison, paired_t
from .between_systems import SIGNIFICANT
from .cell import Cell, CurvePoint
from .fpl_grid import PRINTED, RUN
from .fpl_search import CHOSEN_BY, Chosen, Search
from .result import Found, Row, row
from .study import Study, System
from .table import Trained

METRICS = ("precision@10", "recall@10")
SHORT, SHORT_PLUS, LONG, LONG_BPR = "pfpl, short", "pfpl+, short", "pfpl, long", "bpr-mf, long"


class TripleBudget(NamedTuple):
    """A training with a given number of triples."""

    words: str
    chosen: Chosen


def training_gain(trained: Trained) -> Found:
    """pFPL, pFPL+ and BPR-MF on equal numbers of triples, at the pi and epochs that validation chose for pFPL+ as run."""
    search, as_run = trained.more, System("pfpl+", reading=RUN)
    plus, bpr, reference = search.chosen[as_run], search.chosen[System("bpr-mf")], trained.looks[as_run]
    if plus is None or bpr is None or not reference:
        return Found()
    budgets = budgets_of(plus, bpr, triples(trained.study))
    tested = dict(zip(budgets, search.test_looks([budget.chosen for budget in budgets.values()]), strict=True))
    found = {name: look for name, look in tested.items() if look is not None}
    rows = [_row(search, name, budgets[name], metric, look) for name, look in found.items() for metric in METRICS]
    notes = [_note(trained.study, plus, reference[0], found)] if len(found) == len(budgets) else []
    return Found(rows=rows, notes=notes)


def triples(study: Study) -> int:
    """T of FPL+ on all training rows."""
    rows = study.part("test").rows
    return int(Cell(algorithm="pfpl+", settings={}, part="test").made(rows).configured(rows.catalogue).triples)


def budgets_of(plus: Chosen, bpr: Chosen, t: int) -> dict[str, TripleBudget]:
    """Trainings with E epochs of X+ triples, and with E T of them, which is what pFPL+ as run takes in E epochs."""
    few, many, settings = plus.epochs, plus.epochs * t, {**plus.settings, "rounds_per_epoch": PRINTED}
    return {
        SHORT: TripleBudget(f"{few} X+ triples, T = 1", Chosen("pfpl", settings, few)),
        SHORT_PLUS: TripleBudget(f"{few} X+ triples, T = {t}", Chosen("pfpl+", settings, few)),
        LONG: TripleBudget(f"{many} X+ triples, T = 1: as many as pfpl+ (run)", Chosen("pfpl", settings, many)),
        LONG_BPR: TripleBudget(f"{many} X+ triples: as many as pfpl+ (run)", Chosen("bpr-mf", {**bpr.settings, "epochs": many})),
    }


def _row(search: Search, name: str, budget: TripleBudget, metric: str, look: CurvePoint) -> Row:
    settings = budget.chosen.settings
    said = f"{search.protocol(System(name), budget.chosen)}; not a row of the paper: {budget.words}"
    more = {"reading": "", "pi": settings.get("pi"), "settings": settings, "epochs": budget.chosen.epochs}
    return row(search.study.name, name, metric, paper=None, obtained=look.metrics[metric], protocol=said, **more)


def _note(study: Study, plus: Chosen, reference: CurvePoint, found: Mapping[str, CurvePoint]) -> str:
    return (
        f"{study.name}, the gain of '+' (P@10, pi {plus.settings['pi']:g}, {plus.epochs} epochs; pFPL+ as run takes "
        f"{triples(study)} times the triples of an epoch as printed). On equal triples, {plus.epochs} X+: pFPL "
        f"{_at(found[SHORT])}, pFPL+ {_at(found[SHORT_PLUS])}: the local computation alone is worth "
        f"{_against(found[SHORT_PLUS], found[SHORT])}. "
        f"pFPL+ as run {_at(reference)}, against pFPL {_against(reference, found[SHORT])}. {_share(reference, found)} "
        f"Centralised BPR-MF on as many triples {_at(found[LONG_BPR])}; pFPL+ as run against it {_against(reference, found[LONG_BPR])}."
    )


def _share(reference: CurvePoint, found: Mapping[str, CurvePoint]) -> str:
    """How much of the gain of pFPL+ as run a pFPL with as many triples has."""
    base, long = found[SHORT].metrics[CHOSEN_BY], found[LONG]
    gain, by_training = reference.metrics[CHOSEN_BY] - base, long.metrics[CHOSEN_BY] - base
    sure = gain > 0 and _test(reference, found[SHORT]).p < SIGNIFICANT
    said = f"which is {by_training / gain:.0%} of that gain" if sure else "so there is no significant gain to explain"
    return f"pFPL on as many triples {_at(long)}, {said}; pFPL+ as run against it {_against(reference, long)}."


def _at(look: CurvePoint) -> str:
    return f"{look.metrics[CHOSEN_BY]:.5f}"


def _against(a: CurvePoint, b: CurvePoint) -> str:
    test = _test(a, b)
    return f"{test.difference:+.5f} (paired t, p = {test.p:.2g})"


def _test(a: CurvePoint, b: CurvePoint) -> Comparison:
    return paired_t(a.per_user[CHOSEN_BY], b.per_user[CHOSEN_BY])  # type: ignore[arg-type]
