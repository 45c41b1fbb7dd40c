"""MovieLens-1M: 6,040 users, 3,706 rated films, 1,000,209 ratings from 2000 to 2003, and the test
rows of NCF (He et al. 2017).

NCF's rows are read from the tables `ncf_test` and `ncf_test_negatives`, or from NCF's file
`ml-1m.test.negative` if GroupLens's ratings.dat is in the same folder: NCF numbers users by their
id less 1, and films by their first appearance in that file.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...core.errors import InputError
from ..dataset import Dataset
from ..fetch import Archive
from ..files import read_table
from ..folders import read_folder
from ..home import find
from ..interactions import Interactions
from ..options import LoadOptions
from ..published import Published, from_tables, read_negatives
from .ml_100k import CITATION, TERMS

ARCHIVE = Archive(
    "https://files.grouplens.org/datasets/movielens/ml-1m.zip",
    "a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20",
    {name: f"ml-1m/{name}" for name in ("movies.dat", "ratings.dat")},
)
NEGATIVES = "ml-1m.test.negative"


def read(folder: Path) -> Interactions:
    return read_folder(folder, LoadOptions(scale=(1, 5)), name="ml-1m")


def ncf(folder: Path) -> Published:
    """Returns NCF's test row of each user with its 99 negatives. Raises InputError that says where
    to get them.
    """
    tables = from_tables(folder, "ncf_test", "ncf_test_negatives")
    if tables is not None:
        return tables
    negatives = find(folder, NEGATIVES)
    ratings = find(folder, "ratings.dat")
    if negatives is None or ratings is None:
        raise InputError(
            "ml-1m",
            f"NCF's test rows are not in {folder}",
            expected=(
                f"ncf_test and ncf_test_negatives (.parquet), or {NEGATIVES} beside ratings.dat"
            ),
            fix=(
                f"put {NEGATIVES} there, from github.com/hexiangnan/neural_collaborative_filtering,"
                " folder Data"
            ),
        )
    return _renamed(negatives, ratings)


def _renamed(negatives: Path, ratings: Path) -> Published:
    """Returns the rows of NCF's file with the ids of MovieLens."""
    rows = read_negatives(negatives)
    frame = read_table(ratings, LoadOptions()).frame
    # NCF numbered films in this order, and users by their id less 1.
    films = frame["item_id"].unique(maintain_order=True).to_numpy().astype(np.str_)
    highest = int(max(rows.item.max(), rows.candidates.max()))
    if highest >= len(films):
        raise InputError(
            str(negatives),
            f"it numbers a film {highest}, but {ratings.name} has only {len(films)}",
            expected="the file made from these ratings",
            fix="get both again",
        )
    users = (rows.user + 1).astype(np.str_)
    candidates = films[rows.candidates]
    return Published(users, films[rows.item], candidates, frame.height, str(negatives))


DATASETS = {
    "ml-1m": Dataset(
        name="ml-1m",
        summary=(
            "film ratings 1 to 5: 6,040 users x 3,706 films, 1,000,209 rows, with titles, genres,"
            " times (if known)"
        ),
        terms=TERMS,
        citation=CITATION,
        origin=ARCHIVE.url,
        folder="ml-1m",
        files=("interactions", "ratings.dat"),
        read=read,
        sources=(ARCHIVE,),
        published={"ncf": ncf},
    )
}
