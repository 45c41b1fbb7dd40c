"""Foursquare check-ins in New York (PEPPER): 1,083 users, 38,333 venues, 227,428 check-ins in 2012
and 2013.

Repeated visits of a venue are one row, the last visit. 21 % of the check-ins were reconstructed,
some without a time (see `notes`); all of those are at venues with fewer than 5 check-ins.
"""

from __future__ import annotations

from pathlib import Path

from ...core.errors import InputError
from ..dataset import Dataset
from ..divided import LIST, Divided, Frames, divided, read_frames
from ..files import read_table
from ..folders import read_parts
from ..home import find
from ..interactions import Interactions
from ..options import LoadOptions

# Of PEPPER's 24,384 pairs: a reconstructed check-in may be of a neighbouring user.
LACKING = 328
# The category is a number, whose name is not known.
FEATURES = {"category": "category_code_pepper", "lat": "lat", "lon": "lon"}


def read(folder: Path) -> Interactions:
    return read_parts(
        folder, ["checkins"], LoadOptions(), name="foursquare-nyc", items="items", columns=FEATURES
    )


def pepper(folder: Path) -> Divided:
    """Returns PEPPER's parts, of the first 146 users to appear. Raises InputError if a table is
    missing or lacks a column.
    """
    frames = read_frames(folder, "foursquare-nyc")
    return divided(_renamed(frames, folder), folder, tabled=146, lacking=LACKING)


def _renamed(frames: Frames, folder: Path) -> Frames:
    """Returns the tables with the ids of users and venues among the negatives, which PEPPER numbers
    by first appearance.
    """
    import polars as pl

    items = find(folder, "items")
    venues = None
    if items is not None:
        venues = read_table(items, LoadOptions()).frame
    wanted = {"pepper_user", "pepper_item", "negative_pepper_items"}
    if (
        venues is None
        or "first_seen_index" not in venues.columns
        or not wanted <= set(frames.negatives.columns)
    ):
        raise InputError(
            "foursquare-nyc",
            f"PEPPER's numbers cannot be told in {folder}",
            expected=f"items with first_seen_index, and negatives with {', '.join(sorted(wanted))}",
        )
    users = frames.rows.select("pepper_user", "user_id").unique()
    user = {"old": users["pepper_user"], "new": users["user_id"], "default": None}
    venue = {"old": venues["first_seen_index"], "new": venues["item_id"], "default": None}
    each_venue = pl.element().replace_strict(**venue)
    negatives = frames.negatives.select(
        "split",
        pl.col("pepper_user").replace_strict(**user).alias("user_id"),
        pl.col("pepper_item").replace_strict(**venue).alias("item_id"),
        pl.col("negative_pepper_items").list.eval(each_venue).alias(LIST),
    )
    return Frames(frames.rows, negatives)


DATASETS = {
    "foursquare-nyc": Dataset(
        name="foursquare-nyc",
        summary=(
            "venue visits in New York: 1,083 users x 38,333 venues, one row for each (user, venue)"
            " of 227,428 check-ins"
        ),
        terms=(
            "offered for research, cite Yang et al. 2015; no licence text known, so do not"
            " redistribute"
        ),
        citation=(
            "D. Yang, D. Zhang, V. W. Zheng, Z. Yu: Modeling User Activity Preference by Leveraging"
            " User Spatial Temporal Characteristics in LBSNs. IEEE Trans. Syst. Man Cybern. Syst."
            " 45(1), 2015"
        ),
        origin=(
            "sites.google.com/site/yangdingqi/home/foursquare-dataset (NYC), as checkins.csv with"
            " user_id, item_id, timestamp"
        ),
        folder="foursquare-nyc",
        files=("checkins",),
        read=read,
        published={"pepper": pepper},
    )
}
