"""Foursquare check-ins in six Italian cities: the data set of FPL (section 5.1, table 1) that its
authors published.

`foursquare-italy` is the paper's: users with at least 20 rows (the paper says "more than 20"; only
>= 20 gives its 1,353 users and, after the 80/20 split, its 54,088 training records).
`foursquare-italy-all` is everything in the files. One row is one (user, venue), the first visit.
Venues have no names: `title` is the type of venue, `category` the root of that type (or the type,
if the tables were made of the authors' files).
"""

from __future__ import annotations

from pathlib import Path

from ..dataset import Dataset
from ..filters import k_core
from ..folders import read_parts
from ..interactions import Interactions
from ..options import LoadOptions

LEAST = 20
FEATURES = {"title": "category", "category": "root_category", "city": "city"}


def read(folder: Path) -> Interactions:
    return k_core(read_all(folder), users=LEAST)


def read_all(folder: Path) -> Interactions:
    return read_parts(
        folder,
        ["interactions"],
        LoadOptions(),
        name="foursquare-italy-all",
        items="items",
        columns=FEATURES,
    )


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
            " Turin.tsv Venice.tsv, as tables (docs/data.md)"
        ),
        folder="foursquare-italy",
        files=("interactions",),
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
