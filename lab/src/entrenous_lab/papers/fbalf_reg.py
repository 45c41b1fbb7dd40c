"""FBALF's lambda (`reg`) beyond the range of the first search, for FBALF and for the two systems
nearest to it (in no paper).

The settings of table 3 were searched with `reg` from 0.03 to 0.08, and on Yahoo! R3 the best lies
above. Here `reg` goes to 0.2 for FBALF and for both stochastic forms of FedRec, with their other
settings as in table 3. Each system chooses by its RMSE on the validation rows of the first fold;
the test rows of all folds are opened for its choice alone, for FBALF with and without decoys. On
MovieLens-1M, where a training of FedRec takes minutes, FBALF alone is searched, over every second
`reg`, and three folds are opened.
"""

from __future__ import annotations

from collections.abc import Sequence

from entrenous.evaluation.ratings import ERRORS

from .effort import ratings
from .fbalf_accuracy import FEDREC_PP_S, FEDREC_S, PAPER, PLAIN
from .measures import each
from .opened import rated
from .result import Row
from .study import Study, System
from .table import PaperTable, Trained, seed_row
from .values import worded

VALIDATION = "rmse, validation rows of the first fold"
REGS = (0.03, 0.05, 0.065, 0.08, 0.1, 0.12, 0.15, 0.2)
# Of a set that is larger than MovieLens-100K: what is tried, and the folds that are opened.
LARGER = 500_000
REGS_OF_LARGER = (0.03, 0.05, 0.08, 0.12, 0.2)
FOLDS_OF_LARGER = (0, 1, 2)
SEARCHED = (PLAIN, FEDREC_S, FEDREC_PP_S)
CHOSEN = "reg chosen"
WITHOUT_DECOYS = "reg chosen, rho 0"


def searched_beyond(study: Study, _: Sequence[System]) -> Trained:
    """Chooses `reg` on validation rows, then opens the test rows; `more`: {(system, reg): RMSE}."""
    searched = searched_on(study)
    tried = [(system, reg) for system in searched for reg in regs_of(study)]
    variants = [system.replaced(reg=reg) for system, reg in tried]
    rounds = study.rounds(variants)
    pairs = [study.pair(variant, "validation", 0, (rounds[variant],)) for variant in variants]
    outcomes = study.cells.outcomes_of(pairs)
    errors = {
        place: outcome.looks[-1].metrics["rmse"]
        for place, outcome in zip(tried, outcomes, strict=True)
        if outcome.looks and not outcome.failed
    }
    at_choice = list[System]()
    for system in searched:
        of_system = {reg: error for (other, reg), error in errors.items() if other == system}
        if not of_system:
            continue
        best = min(of_system, key=lambda reg: of_system[reg])
        at_choice.append(system.replaced(reg=best)._replace(called=f"{system}, {CHOSEN}"))
        if system == PLAIN:
            without = system.replaced(reg=best, rho=0)
            at_choice.append(without._replace(called=f"{system}, {WITHOUT_DECOYS}"))
    looks = study.tested(at_choice, folds_of(study))
    return Trained(study=study, systems=at_choice, looks=looks, more=errors)


def searched_on(study: Study) -> tuple[System, ...]:
    """The systems whose `reg` is searched."""
    return (PLAIN,) if len(study.data) > LARGER else SEARCHED


def regs_of(study: Study) -> tuple[float, ...]:
    """The values of `reg` that are tried."""
    return REGS_OF_LARGER if len(study.data) > LARGER else REGS


def folds_of(study: Study) -> tuple[int, ...]:
    """The folds whose test rows are opened."""
    return FOLDS_OF_LARGER if len(study.data) > LARGER else study.seeds


def reg_rows(trained: Trained) -> list[Row]:
    """Returns the error of every `reg` on validation rows, and both errors of each choice."""
    study = trained.study
    rows = list[Row]()
    for (system, reg), error in trained.more.items():
        variant = system.replaced(reg=reg)
        said = study.protocol(variant)
        rows.append(seed_row(study.name, str(variant), VALIDATION, [error], None, said))
    for choice in trained.systems:
        some = folds_of(study)
        opened = "" if some == study.seeds else f"; test rows of {len(some)} of the folds"
        said = study.protocol(choice) + (
            f"; reg chosen by {VALIDATION}, of {len(regs_of(study))} values{opened}"
        )
        for metric in ERRORS:
            paper = PAPER.get((study.name, choice.name, metric))
            values = each(trained.looks[choice], metric)
            settings = study.settings(choice)
            rows.append(
                seed_row(study.name, str(choice), metric, values, paper, said, settings=settings)
            )
    return rows


def chosen_note(trained: Trained) -> list[str]:
    """States the `reg` that each system chose, and whether it lies at an end of what was tried."""
    said = []
    for choice in trained.systems:
        if WITHOUT_DECOYS in str(choice):
            continue
        reg = dict(choice.more)["reg"]
        end = " (the end of the range)" if reg in (REGS[0], REGS[-1]) else ""
        said.append(f"{choice.name} {reg:g}{end}")
    words = "; ".join(said) or "every training diverged"
    return [worded("fbalf", "reg", name=trained.name, least=REGS[0], most=REGS[-1], said=words)]


EXPERIMENTS = {
    "fbalf-reg": PaperTable(
        title="lambda beyond the range of the first search (FBALF, table 3; in no paper)",
        data=rated(*map(ratings, ("ml-100k", "hetrec-ml", "yahoo-r3", "ml-1m"))),
        train=searched_beyond,
        metrics=ERRORS,
        printed=PAPER,
        rows=reg_rows,
        findings=(chosen_note,),
    )
}
