"""FPL, tables 2 and 3: accuracy (P@10, R@10) and diversity (IC@10, Gini@10: higher = more equal) of every system on three countries."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any, NamedTuple

from ..evaluate.significance import Comparison, paired_t
from .cell import Cell, CurvePoint
from .findings import SIGNIFICANT, agrees, bars_beside_paper, tested_pairs
from .fpl_findings import epochs_note, fcf_note, order_note, pi_note, protocol_note, significance_note
from .fpl_grid import PRINTED, RUN
from .fpl_search import CHOSEN_BY, Chosen, Search, rows_of_metrics, searched, twin
from .opened import countries
from .result import Found, Row
from .study import Study, System
from .table import PaperTable, Trained, system_of
from .values import printed

ACCURACY, DIVERSITY = ("precision@10", "recall@10"), ("item_coverage@10", "gini@10")
TABLE_2, TABLE_3 = printed("fpl", "table2"), printed("fpl", "table3")
BEST_PI = {(data, system): pi for (data, system, _), pi in printed("fpl", "best-pi").items()}  # of each FPL row


# ---- table 2 -------------------------------------------------------------------------------------------------------------------------


def accuracy_rows(trained: Trained) -> list[Row]:
    """Every system with the settings that validation chose, and systems on equal numbers of triples."""
    return [*rows_of_metrics(trained, ACCURACY, TABLE_2), *training_gain(trained).rows]


def pairwise_tests(trained: Trained) -> list[dict[str, Any]]:
    """Student's paired t-test over users for each pair of systems and metric, with Holm's correction over the pairs of a metric.

    sfpl and pfpl appear once, since both readings are one training.
    """
    once = [system for system, looks in trained.looks.items() if looks and not twin(system)]
    return tested_pairs(trained.name, trained.looks, list(combinations(once, 2)), ACCURACY)


def _accuracy_figure(trained: Trained) -> dict[str, str]:
    own = [row for row in trained.rows[: len(trained.systems) * len(ACCURACY)] if not twin(system_of(row))]
    return {f"precision-{trained.name}": bars_beside_paper(own, ACCURACY[0], "P@10", f"Table 2: {trained.name}")}


# ---- how much of the gain of FPL+ is more training: as many triples without the local computation -------------------------------------

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
    rows = [_row(search, name, budgets[name], metric, look) for name, look in found.items() for metric in ACCURACY]
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
    words = f"; not a row of the paper: {budget.words}"
    return search.row(System(name), budget.chosen, metric, paper=None, obtained=look.metrics[metric], words=words)


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


# ---- table 3 -------------------------------------------------------------------------------------------------------------------------


def computation_note(trained: Trained) -> list[str]:
    """Section 6.2: "an increase in IC and Gini in accord with the increase of local computation"."""
    systems = (System("pfpl", reading="printed"), System("pfpl+", reading="printed"), System("pfpl+", reading="run"))
    coverage = [look.metrics[DIVERSITY[0]] for system in systems for look in trained.looks.get(system, ())]
    if len(coverage) < len(systems):
        return []
    single, plus, run = coverage
    training = "It is the longer training that widens the lists"
    grows = training if run - plus > plus - single else "The local computation widens the lists"
    return [
        f"{trained.name}: the paper sees coverage grow with local computation. pFPL recommends {single:.0f} items, pFPL+ with epochs "
        f"as printed {plus:.0f}, pFPL+ as run {run:.0f}. {grows if run > single else 'That is not seen here'}."
    ]


EXPERIMENTS = {
    "fpl-table2": PaperTable(
        title="accuracy of the baselines and of FPL (FPL, table 2)",
        data=countries,
        train=searched,
        metrics=ACCURACY,
        printed=TABLE_2,
        rows=accuracy_rows,
        tests=pairwise_tests,
        findings=(
            protocol_note,
            agrees(ACCURACY[0], over_top_pop=True),
            order_note,
            lambda trained: training_gain(trained).notes,
            fcf_note,
            significance_note,
            pi_note,
            epochs_note,
        ),
        figures=_accuracy_figure,
    ),
    "fpl-table3": PaperTable(
        title="diversity of the baselines and of FPL (FPL, table 3)",
        data=countries,
        train=searched,
        metrics=DIVERSITY,
        printed=TABLE_3,
        rows=lambda trained: rows_of_metrics(trained, DIVERSITY, TABLE_3),
        findings=(protocol_note, agrees(*DIVERSITY), computation_note),
    ),
}
