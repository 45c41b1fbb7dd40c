"""FPL, table 1: users, items and interactions of the training rows, beside those of the rows at
hand. Nothing is trained.
"""

from __future__ import annotations

from .opened import COUNTRIES, countries
from .result import Row, row
from .table import PaperTable, Trained
from .values import worded

WHAT, SIZES = "training rows", ("users", "items", "interactions")


def sizes_of(trained: Trained) -> list[Row]:
    """The counts of the final training rows: users with a row, items with a row, rows."""
    study, rows = trained.study, trained.study.part("test").rows
    found = int((rows.counts > 0).sum()), int((rows.popularity > 0).sum()), len(rows)
    of = {country.data: country[2:] for country in COUNTRIES.values()}.get(
        study.name, (None,) * len(SIZES)
    )
    protocol = (
        f"{study.name}, {study.source.protocol}, training and validation rows of seed {study.seed}"
    )
    return [
        row(study.name, WHAT, size, paper=paper, obtained=float(here), protocol=protocol)
        for size, paper, here in zip(SIZES, of, found, strict=True)
    ]


def density(trained: Trained) -> list[str]:
    """How dense the training rows are, and how many items have none."""
    rows = trained.study.part("test").rows
    users, items = int((rows.counts > 0).sum()), int((rows.popularity > 0).sum())
    without = len(rows.items) - items
    return [
        worded(
            "fpl",
            "density",
            name=trained.name,
            density=len(rows) / (users * items),
            without=without,
            items=len(rows.items),
        )
    ]


PRINTED = {
    (country.data, WHAT, size): float(count)
    for country in COUNTRIES.values()
    for size, count in zip(SIZES, country[2:], strict=True)
}
EXPERIMENTS = {
    "fpl-table1": PaperTable(
        title="sizes of the data sets (FPL, table 1)",
        data=countries,
        train=lambda study, systems: Trained(study=study, systems=systems),
        rows=sizes_of,
        printed=PRINTED,
        findings=(density,),
    )
}
