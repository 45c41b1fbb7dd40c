"""MovieLens in its larger sizes: 10M, 20M, 25M and 32M. The addresses could not be tried where this
file was written; the hashes are those that GroupLens publishes (MD5), or of its archives (SHA-256).
"""

from __future__ import annotations

from ..fetch import Archive
from ..recipe import ItemsFile, Recipe, datasets_of
from .ml_100k import CITATION, TERMS

PLACE = "files.grouplens.org/datasets/movielens"
# Bytes of the largest archive, with some room.
LARGEST = 512 << 20
FEATURES = {"title": "title", "category": "genres"}


def _recipe(size: str, counts: str, folder: str, digest: str, ending: str) -> Recipe:
    rows = f"ratings.{ending}"
    films = f"movies.{ending}"
    archive = Archive(
        f"https://{PLACE}/ml-{size}.zip",
        digest,
        {name: f"{folder}/{name}" for name in (rows, films)},
        LARGEST,
    )
    return Recipe(
        name=f"ml-{size}",
        summary=f"film ratings 0.5 to 5: {counts}",
        preset="movielens",
        files=(rows,),
        origin=f"{PLACE}/ml-{size}.zip: {rows} and {films}",
        terms=TERMS,
        citation=CITATION,
        items=ItemsFile(films, FEATURES),
        sources=(archive,),
    )


DATASETS = datasets_of(
    _recipe(*about)
    for about in (
        (
            "10m",
            "69,878 users x 10,677 films, 10,000,054 rows",
            "ml-10M100K",
            "md5:ce571fd55effeba0271552578f2648bd",
            "dat",
        ),
        (
            "20m",
            "138,493 users x 26,744 films, 20,000,263 rows",
            "ml-20m",
            "96f243c338a8665f6bcc89c53edf6ee39162a846940de6b7c8c48aeada765ff3",
            "csv",
        ),
        (
            "25m",
            "162,541 users x 59,047 films, 25,000,095 rows",
            "ml-25m",
            "8b21cfb7eb1706b4ec0aac894368d90acf26ebdfb6aced3ebd4ad5bd1eb9c6aa",
            "csv",
        ),
        (
            "32m",
            "200,948 users x 84,432 films, 32,000,204 rows",
            "ml-32m",
            "md5:d472be332d4daa821edc399621853b57",
            "csv",
        ),
    )
)
