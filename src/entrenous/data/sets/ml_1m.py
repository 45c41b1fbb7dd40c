"""MovieLens-1M: 6,040 users, 3,706 rated films, 1,000,209 ratings from 2000 to 2003, and the test
rows of NCF (He et al. 2017) with their negatives, from the tables `ncf_test` and
`ncf_test_negatives`.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from ..dataset import Dataset
from ..fetch import Archive
from ..folders import read_folder
from ..interactions import Interactions
from ..options import LoadOptions
from ..published import ncf
from .ml_100k import CITATION, TERMS

ARCHIVE = Archive(
    "https://files.grouplens.org/datasets/movielens/ml-1m.zip",
    "a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20",
    {name: f"ml-1m/{name}" for name in ("movies.dat", "ratings.dat")},
)


def read(folder: Path) -> Interactions:
    return read_folder(folder, LoadOptions(scale=(1, 5)), name="ml-1m")


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
        published={"ncf": partial(ncf, name="ml-1m", negatives="ncf_test_negatives")},
    )
}
