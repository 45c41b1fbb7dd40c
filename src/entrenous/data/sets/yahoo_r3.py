"""Yahoo! R3 song ratings (FBALF): 15,400 users, 1,000 songs.

`yahoo-r3` joins the songs users chose to rate with those they were shown at random, as FBALF does:
365,704 rows (the paper prints a density of 3.37 %; it is 2.37 %). `yahoo-r3-user` has the chosen
ones alone.
"""

from __future__ import annotations

from pathlib import Path

from ..dataset import Dataset
from ..folders import read_parts
from ..interactions import Interactions
from ..options import LoadOptions

READING = LoadOptions(scale=(1, 5))


def read(folder: Path) -> Interactions:
    return read_parts(folder, ["user", "random"], READING, name="yahoo-r3")


def read_user(folder: Path) -> Interactions:
    return read_parts(folder, ["user"], READING, name="yahoo-r3-user")


DATASETS = {
    name: Dataset(
        name=name,
        summary=summary,
        terms="academic, non-commercial use under Yahoo's signed agreement; no redistribution",
        citation=(
            "Yahoo! Webscope dataset ydata-ymusic-rating-study-v1_0 (R3); B. M. Marlin, R. S."
            " Zemel, RecSys 2009"
        ),
        origin=(
            "webscope.sandbox.yahoo.com (R3, on application), as user and random (.csv, .tsv) with"
            " user_id, item_id, rating"
        ),
        folder="yahoo-r3",
        files=("user",),
        read=reader,
    )
    for name, summary, reader in (
        (
            "yahoo-r3",
            (
                "song ratings 1 to 5, chosen and random: 15,400 users x 1,000 songs, 365,704 rows,"
                " no times"
            ),
            read,
        ),
        (
            "yahoo-r3-user",
            (
                "song ratings 1 to 5, chosen by the user: 15,400 users x 1,000 songs, 311,704 rows,"
                " no times"
            ),
            read_user,
        ),
    )
}
