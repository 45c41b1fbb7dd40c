"""FPL's baselines with choices of their own (FPL, section 5.3, tables 2 and 3): FCF at every
learning rate, and the three topologies of VAE.

The paper gives FCF the learning rate and the factors that BPR-MF chose. Here FCF, as published and
in the form that the paper compared with, also chooses lambda, alpha, rounds and the rate by its own
precision on validation rows. Its devices send the second form, x_u x_u^T, of which the server makes
the same sum as of the printed one (`form=gram`, see systems/fcf.py) in a fifteenth of the time.

VAE chooses one of the topologies and numbers of epochs that section 5.3 names, and needs torch; the
table has no row of it without. The printed VAE of Italy is of a part of the users, whom its k-core
kept; the k is not printed. Ours is of all users.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, NamedTuple

from entrenous.systems.central._shared import need

from .cell import CurvePoint
from .findings import tested_columns, users_of
from .fpl_accuracy import ACCURACY, DIVERSITY, TABLE_2, TABLE_3
from .fpl_rates import CHOSEN_RATE, FACTORS, RATES, with_seeds
from .fpl_search import Chosen, Search, first_best
from .measures import each
from .result import Row
from .study import Study, System
from .table import PaperTable, Trained, seed_row
from .values import Settings, worded

PUBLISHED, COMPARED = "fcf", "fcf-huawei"  # as published; as the paper compared with
REGS = (1.0, 10.0, 100.0)
ALPHAS = (1.0, 10.0)  # confidence of consumed items; the compared form has none
METRICS = (*ACCURACY, *DIVERSITY)
UNTUNED = ("popular", "user-knn", "item-knn")  # for tests within the table


class Baseline(NamedTuple):
    """A row of the table: what a system chose on validation rows, and its figures on test rows."""

    label: str
    printed_as: str
    """The system of the paper whose figures stand beside it."""
    chosen: Chosen | None
    """None if every training diverged."""
    looks: Sequence[CurvePoint] = ()
    """An evaluation for each seed; none if a training diverged."""


def fcf_settings(algorithm: str, rate: float) -> list[Settings]:
    """Returns the settings that a form of FCF tries at a rate."""
    common = {"learning_rate": rate, "factors": FACTORS, "form": "gram"}
    if algorithm == COMPARED:
        return [{**common, "reg": reg} for reg in REGS]
    return [{**common, "reg": reg, "alpha": alpha} for reg, alpha in product(REGS, ALPHAS)]


def fcf_chosen(study: Study, _: Sequence[System]) -> Trained:
    """Chooses on validation rows at each rate, then opens the test rows; `more`: the rows."""
    search = Search(study)
    rows = list[Baseline]()
    for algorithm in (PUBLISHED, COMPARED):
        of_rate = []
        for rate in RATES:
            tried = fcf_settings(algorithm, rate)
            chosen = best_of(search, algorithm, tried, search.grid.fcf_rounds)
            of_rate.append(Baseline(f"{algorithm}, rate {rate:g}", PUBLISHED, chosen))
        best = first_best(row.chosen for row in of_rate if row.chosen is not None)
        rows += [*of_rate, Baseline(f"{algorithm}, {CHOSEN_RATE}", PUBLISHED, best)]
    rows += [untuned(search, name) for name in UNTUNED]
    return Trained(study=study, systems=[], more=on_test_rows(search, rows))


def vae_chosen(study: Study, _: Sequence[System]) -> Trained:
    """Chooses a topology on validation rows, then opens the test rows; `more`: the rows.

    Raises InputError without torch.
    """
    need("torch", "vae")
    search = Search(study)
    tried = search.grid.central()["vae"]
    chosen = best_of(search, "vae", tried)
    rows = [] if chosen is None else [Baseline("vae", "vae", chosen)]
    rows += [untuned(search, name) for name in UNTUNED]
    return Trained(study=study, systems=[], more=on_test_rows(search, rows))


def best_of(
    search: Search, algorithm: str, tried: Sequence[Settings], looks: tuple[int, ...] = (0,)
) -> Chosen | None:
    """Returns the settings and rounds with the best precision on validation rows, the first of
    equals; None if every training diverged, or there are no settings.
    """
    outcomes = search.outcomes([search.cell(algorithm, settings, looks) for settings in tried])
    return first_best(
        Chosen(algorithm, settings, look.epochs, look.metrics[ACCURACY[0]])
        for settings, outcome in zip(tried, outcomes, strict=True)
        for look in outcome.looks
    )


def untuned(search: Search, algorithm: str) -> Baseline:
    """Returns the row of a system without a learning rate; a kNN chooses its k."""
    tried = search.grid.central().get(algorithm, [{}])
    return Baseline(algorithm, algorithm, best_of(search, algorithm, tried))


def on_test_rows(search: Search, rows: Sequence[Baseline]) -> list[Baseline]:
    """Returns the rows with their evaluations on test rows."""
    present = [row.chosen for row in rows if row.chosen is not None]
    looks = iter(search.test_looks(present))
    return [row if row.chosen is None else row._replace(looks=next(looks)) for row in rows]


def rows_of(trained: Trained) -> list[Row]:
    """Returns a row for each system and metric."""
    search = Search(trained.study)
    printed = {**TABLE_2, **TABLE_3}
    rows = list[Row]()
    for row in trained.more:
        protocol = search.protocol(System(row.label), row.chosen)
        more = {
            "seeds": list(trained.study.seeds),
            "settings": row.chosen.settings if row.chosen else None,
            "epochs": row.chosen.epochs if row.chosen else None,
        }
        for metric in METRICS:
            paper = printed.get((trained.name, row.printed_as, metric))
            values = each(row.looks, metric)
            rows.append(seed_row(trained.name, row.label, metric, values, paper, protocol, **more))
    return rows


def tests_of(trained: Trained) -> list[dict[str, Any]]:
    """Returns tests over users and seeds of every tuned system against the others; Holm is over
    the pairs of a metric.
    """
    there = [row for row in trained.more if row.looks]
    tuned = [row for row in there if row.label not in UNTUNED]
    fixed = [row for row in there if row.label in UNTUNED]
    pairs = [(a, b) for a in tuned for b in fixed]
    pairs += [(a, b) for a, b in _forms_of_fcf(tuned)]
    return [
        test
        for metric in ACCURACY
        for test in tested_columns(
            trained.name,
            metric,
            [
                (a.label, b.label, users_of(a.looks, metric), users_of(b.looks, metric))
                for a, b in pairs
            ],
        )
    ]


def _forms_of_fcf(rows: Iterable[Baseline]) -> list[tuple[Baseline, Baseline]]:
    """FCF as published against the compared form, at the same rate or each at its choice."""
    by_label = {row.label: row for row in rows}
    points = [*(f"rate {rate:g}" for rate in RATES), CHOSEN_RATE]
    pairs = [(f"{PUBLISHED}, {point}", f"{COMPARED}, {point}") for point in points]
    return [(by_label[a], by_label[b]) for a, b in pairs if a in by_label and b in by_label]


def choices_note(trained: Trained) -> list[str]:
    """States what each tuned system chose, and which of them have no figure."""
    said = [
        f"{row.label}: {row.chosen.sentence()}"
        for row in trained.more
        if row.chosen is not None and row.label not in UNTUNED
    ]
    absent = [row.label for row in trained.more if not row.looks]
    return [
        worded(
            "fpl",
            "baselines",
            name=trained.name,
            said="; ".join(said) or "none",
            absent=", ".join(absent) or "none",
        )
    ]


EXPERIMENTS = {
    "fpl-fcf": PaperTable(
        title="FCF at every learning rate, with its own choices (FPL, section 5.3, tables 2 and 3)",
        data=with_seeds,
        train=fcf_chosen,
        metrics=METRICS,
        printed={**TABLE_2, **TABLE_3},
        rows=rows_of,
        tests=tests_of,
        findings=(choices_note,),
    ),
    "fpl-vae": PaperTable(
        title="VAE's topologies (FPL, section 5.3, tables 2 and 3); needs torch",
        data=with_seeds,
        train=vae_chosen,
        metrics=METRICS,
        printed={**TABLE_2, **TABLE_3},
        rows=rows_of,
        tests=tests_of,
        findings=(choices_note,),
    ),
}
