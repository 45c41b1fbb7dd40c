"""MovieLens-1M: 6,040 users, 3,706 rated films, 1,000,209 ratings from 2000 to 2003, and the test
rows of NCF (He et al. 2017).

NCF's rows are read from our own tables `ncf_test` and `ncf_test_negatives`, or from NCF's own
`ml-1m.test.negative` if it lies beside GroupLens's ratings.dat: NCF numbers users by their id less
1, and films by their first appearance in that file.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...core.errors import InputError
from ...core.types import Array, Int64Array
from ..columns import Reading
from ..dataset import Dataset
from ..fetch import Archive
from ..files import read_table
from ..folders import read_folder
from ..home import find
from ..interactions import Interactions
from ..published import Published, from_tables, read_negatives
from .ml_100k import CITATION, TERMS

ARCHIVE = Archive(
    "https://files.grouplens.org/datasets/movielens/ml-1m.zip",
    "a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20",
    {name: f"ml-1m/{name}" for name in ("movies.dat", "ratings.dat")},
)
NEGATIVES = "ml-1m.test.negative"


def read(folder: Path) -> Interactions:
    return read_folder(folder, Reading(scale=(1, 5)), name="ml-1m")


def ncf(folder: Path) -> Published:
    """NCF's test row of each user with its 99 negatives. Raises InputError that says where they can
    be had.
    """
    negatives, ratings = find(folder, NEGATIVES), find(folder, "ratings.dat")
    found = from_tables(folder, "ncf_test", "ncf_test_negatives")
    if found is not None:
        return found
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
    """NCF's numbers as MovieLens ids."""
    rows, frame = read_negatives(negatives), read_table(ratings, Reading()).frame
    films = frame["item_id"].unique(maintain_order=True).to_numpy().astype(np.str_)
    highest = int(max(rows.item.max(), rows.candidates.max()))
    if highest >= len(films):
        problem = f"it numbers a film {highest}, but {ratings.name} has only {len(films)}"
        raise InputError(
            str(negatives),
            problem,
            expected="the file made from these ratings",
            fix="get both again",
        )
    return Published(
        _user_ids(rows.user), films[rows.item], films[rows.candidates], frame.height, str(negatives)
    )


def _user_ids(numbers: Int64Array) -> Array:
    return (numbers + 1).astype(np.str_)


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
