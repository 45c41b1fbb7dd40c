"""MovieLens-100K: 943 users, 1,682 films, 100,000 ratings from 1997 and 1998.

It is read from the Parquet layout of Entrenous, from RecBole's atomic files, which ship inside the
wheel recbole 1.2.1, or from GroupLens's archive. All three hold the same ratings in the same order
(SHA-256 of the four columns as GroupLens's u.data: 06416e597f82...).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from ..dataset import Dataset
from ..divided import pepper
from ..fetch import Archive, Wheel
from ..folders import read_folder
from ..interactions import Interactions
from ..options import LoadOptions

TERMS = (
    "research use, no redistribution, no commercial use without permission, cite Harper & Konstan"
    " 2015 (GroupLens)"
)
CITATION = (
    "F. M. Harper, J. A. Konstan: The MovieLens Datasets: History and Context. ACM TiiS 5(4), 2015."
    " doi:10.1145/2827872"
)
WHEEL = Wheel(
    "recbole==1.2.1",
    "9c9948202011f37eb0a7c6768129313f00d6403ad221ec940d5e2d5d5f33a407",
    {name: f"recbole/dataset_example/ml-100k/{name}" for name in ("ml-100k.item", "ml-100k.inter")},
)
ARCHIVE = Archive(
    "https://files.grouplens.org/datasets/movielens/ml-100k.zip",
    "50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229",
    {name: f"ml-100k/{name}" for name in ("u.item", "u.data")},
)


def read(folder: Path) -> Interactions:
    data = read_folder(folder, LoadOptions(scale=(1, 5)), name="ml-100k")
    if "title" not in data.features:
        return data
    title = data.features["title"]
    # RecBole's spelling of film 267.
    title = np.where(title == "unkonwn", "unknown", title)
    return replace(data, features={**data.features, "title": title})


DATASETS = {
    "ml-100k": Dataset(
        name="ml-100k",
        summary=(
            "film ratings 1 to 5: 943 users x 1,682 films, 100,000 rows, with times, titles and"
            " genres"
        ),
        terms=TERMS,
        citation=CITATION,
        origin="https://files.grouplens.org/datasets/movielens/ml-100k.zip",
        folder="ml-100k",
        files=("interactions", "ml-100k.inter", "u.data"),
        read=read,
        sources=(WHEEL, ARCHIVE),
        # Of 943 users. PEPPER's tables 4 and 5 are on the first 100, since every rate in them is a
        # multiple of one row in 1,000.
        published={"pepper": partial(pepper, name="ml-100k", tabled=100)},
    )
}
