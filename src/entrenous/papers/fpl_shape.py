"""FPL, table 1: users, items and interactions of the training rows, beside those of the rows at hand. Nothing is trained."""

from __future__ import annotations

from .opened import COUNTRIES, countries
from .result import Row, row
from .table import PaperTable, Trained

SIZES = ("users", "items", "interactions")


def sizes_of(trained: Trained) -> list[Row]:
    """The counts of the final training rows: users with a row, items with a row, rows."""
    study, rows = trained.study, trained.study.part("test").rows
    found = int((rows.counts > 0).sum()), int((rows.popularity > 0).sum()), len(rows)
    of = {country.data: country[2:] for country in COUNTRIES.values()}.get(study.name, (None,) * len(SIZES))
    protocol = f"{study.name}, {study.source.protocol}, training and validation rows"
    return [
        row(study.name, "training rows", size, paper=paper, obtained=float(here), protocol=protocol)
        for size, paper, here in zip(SIZES, of, found, strict=True)
    ]


EXPERIMENTS = {
    "fpl-table1": PaperTable(
        title="sizes of the data sets (FPL, table 1)",
        data=countries,
        train=lambda study, systems: Trained(study=study, systems=systems),
        rows=sizes_of,
    )
}
