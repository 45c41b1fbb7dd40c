"""FPL, sections 4.3 and 5.2: how many devices take part in a round, and how many triples T each of
them draws, on equal numbers of triples. The paper has no table of it; it says that the number of
devices hardly matters, and that T is between few and many. pFPL has the learning rate, pi and
number of epochs that it chooses in fpl-rates: those with the best precision on validation rows.
One per cent of the devices is left out: the server's step over all items in each of 115,000 rounds
takes minutes a seed, and 1 device and 10 % lie on either side.
"""

from __future__ import annotations

from typing import Any

from .findings import tested_pairs
from .fpl_baselines import best_of
from .fpl_rates import PARALLEL, RATES, settings_of, with_seeds
from .fpl_search import Chosen, Search, first_best
from .measures import each
from .result import Row
from .study import Study, System
from .table import PaperTable, Trained, seed_row
from .values import worded

METRICS = ("precision@10", "recall@10")
SHARES = {
    "1 device": 0.0,
    "10 % of the devices": 0.1,
}  # of a round; the rest of the table has all
TRIPLES = (5, 20)  # T; a device's history has about 40 rows in Italy
ALL = "all devices, T = 1"


def variants(users: int) -> dict[System, dict[str, int]]:
    """{what it is called: settings in place of pFPL's}. users: of the data."""
    cohorts = {
        f"{said}, T = 1": {"cohort": max(1, round(share * users))} for said, share in SHARES.items()
    }
    several = {f"all devices, T = {t}": {"triples": t} for t in TRIPLES}
    return {
        System("pfpl", called=said): more for said, more in {**cohorts, ALL: {}, **several}.items()
    }


def trained_with(study: Study, systems: Any) -> Trained:
    """The `train` of this table: pFPL with what validation chose for it, for as many epochs.
    `more`: what was chosen.
    """
    search = Search(study)
    epochs = search.grid.epochs
    chosen = first_best(
        best
        for rate in RATES
        if (best := best_of(search, "pfpl", settings_of(PARALLEL, rate, epochs), epochs))
    )
    if chosen is None:
        return Trained(study=study, systems=[], more=None)
    several = variants(study.sizes["users"])
    choices = [
        Chosen("pfpl", {**chosen.settings, **more}, chosen.epochs) for more in several.values()
    ]
    looks = dict(zip(several, search.test_looks(choices), strict=True))
    return Trained(
        study=study,
        systems=list(several),
        looks=looks,
        more=dict(zip(several, choices, strict=True)),
    )


def device_rows(trained: Trained) -> list[Row]:
    """A row for each variant and metric, with the value of every seed."""
    search, more = Search(trained.study), {"pi": None, "seeds": list(trained.study.seeds)}
    return [
        seed_row(
            trained.name,
            str(system),
            metric,
            each(looks, metric),
            None,
            search.protocol(PARALLEL, trained.more[system]),
            **more,
        )
        for system, looks in trained.looks.items()
        for metric in METRICS
    ]


def tests_of(trained: Trained) -> list[dict[str, Any]]:
    """Every variant against all devices with T = 1."""
    there = {str(system): system for system, looks in trained.looks.items() if looks}
    pairs = (
        [(system, there[ALL]) for name, system in there.items() if name != ALL]
        if ALL in there
        else []
    )
    return tested_pairs(trained, pairs, METRICS) if pairs else []


def devices_note(trained: Trained) -> list[str]:
    """A finding: the mean precision over seeds of every variant, one after the other."""
    means = trained.means(
        [system for system in trained.systems if trained.looks[system]], METRICS[0]
    )
    said = "; ".join(f"{system} {value:.4f}" for system, value in means.items())
    return [worded("fpl", "devices", name=trained.name, metric=METRICS[0], said=said)]


EXPERIMENTS = {
    "fpl-devices": PaperTable(
        title=(
            "how many devices a round, and how many triples of each, on equal numbers of triples"
            " (FPL, sections 4.3 and 5.2)"
        ),
        data=with_seeds,
        train=trained_with,
        metrics=METRICS,
        rows=device_rows,
        tests=tests_of,
        findings=(devices_note,),
    ),
}
