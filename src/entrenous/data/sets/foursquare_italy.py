"""Foursquare check-ins in six Italian cities: the data set of FPL (section 5.1, table 1) that its
authors published.

`foursquare-italy` is the paper's: users with at least 20 rows (the paper says "more than 20"; only
>= 20 gives its 1,353 users and, after the 80/20 split, its 54,088 training records).
`foursquare-italy-all` is everything in the files. One row is one (user, venue), the first visit.
Venues have no names: `title` is the type of venue, `category` the root of that type (or the type,
if the authors' files are read).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..columns import assemble
from ..dataset import Dataset
from ..features import features
from ..files import read_bytes
from ..filters import min_user_rows
from ..folders import read_parts
from ..formats.delimited import read_text
from ..home import find
from ..interactions import Interactions
from ..options import LoadOptions
from ..table import stack

LEAST = 20
CITIES = ("Bologna", "Florence", "Milan", "Rome", "Turin", "Venice")
FEATURES = {"title": "category", "category": "root_category", "city": "city"}
# A broken name in the authors' files, and the name that was meant.
BROKEN = (b"Caf\x1a\x1a", "Café".encode())


def read(folder: Path) -> Interactions:
    return min_user_rows(read_all(folder), LEAST)


def read_all(folder: Path) -> Interactions:
    if find(folder, "interactions") is None:
        return _read_cities(folder)
    return read_parts(
        folder,
        ["interactions"],
        LoadOptions(),
        name="foursquare-italy-all",
        items="items",
        columns=FEATURES,
    )


def _read_cities(folder: Path) -> Interactions:
    """Reads the authors' six files, with the columns user_id, venue_id, type, utc."""
    tables = []
    for city in CITIES:
        path = folder / f"{city}.tsv"
        raw = read_bytes(path).replace(*BROKEN)
        tables.append(read_text(raw, str(path), LoadOptions(), delimiter="\t"))
    table = stack(tables)
    data = assemble(table, LoadOptions(), name="foursquare-italy-all")
    # Their files have one column for both.
    columns = {"title": "type", "category": "type"}
    described = features(table, data.items, LoadOptions(), columns=columns)
    return replace(data, features=described.columns)


TERMS = "offered for research, cite Yang et al. 2016; no licence text known, so do not redistribute"
CITATION = (
    "D. Yang, D. Zhang, B. Qu: Participatory Cultural Mapping Based on Collective Behavior Data in"
    " Location-Based Social Networks. ACM TIST 7(3), 2016. Selection: V. W. Anelli et al., FPL"
    " (github.com/sisinflab/FedBPR, raw_datasets)"
)
DATASETS = {
    name: Dataset(
        name=name,
        summary=summary,
        terms=TERMS,
        citation=CITATION,
        origin=(
            "github.com/sisinflab/FedBPR, raw_datasets: Bologna.tsv Florence.tsv Milan.tsv Rome.tsv"
            " Turin.tsv Venice.tsv"
        ),
        folder="foursquare-italy",
        files=("interactions", "Bologna.tsv"),
        read=reader,
    )
    for name, summary, reader in (
        (
            "foursquare-italy",
            (
                "venue visits, users with >= 20 rows as in FPL: 1,353 users x 29,772 venues, 66,971"
                " rows, with times and categories"
            ),
            read,
        ),
        (
            "foursquare-italy-all",
            (
                "venue visits in six Italian cities: 6,596 users x 34,332 venues, 89,616 rows, with"
                " times and categories"
            ),
            read_all,
        ),
    )
}
