"""Gowalla check-ins in New York (PEPPER), in two subsets; neither is the paper's 718 users, whose file is not public.

`gowalla-nyc`: SNAP's check-ins inside New York, at users and places with at least 10 check-ins world-wide; repeated visits are
one row, the last.
`gowalla-nyc-pepper`: the 100 users of the authors' repository, distinct places, no times.
"""

from __future__ import annotations

from pathlib import Path

from ..dataset import Dataset
from ..folders import read_parts
from ..interactions import Interactions
from ..table import Reading

PLACE = {"lat": "lat", "lon": "lon"}


def read(folder: Path) -> Interactions:
    return read_parts(folder, ["checkins"], Reading(), name="gowalla-nyc", items="items", columns=PLACE)


def read_pepper(folder: Path) -> Interactions:
    return read_parts(folder, ["pepper_splits"], Reading(), name="gowalla-nyc-pepper", items="pepper_items", columns=PLACE)


DATASETS = {
    name: Dataset(
        name=name,
        summary=summary,
        terms="research use, cite Cho et al. 2011 (SNAP)",
        citation="E. Cho, S. A. Myers, J. Leskovec: Friendship and Mobility. KDD 2011",
        origin=origin,
        folder="gowalla-nyc",
        files=(file,),
        read=reader,
    )
    for name, summary, origin, file, reader in (
        (
            "gowalla-nyc",
            "place visits in New York: 2,347 users x 2,437 places of 66,238 check-ins, with times and coordinates",
            "snap.stanford.edu/data/loc-gowalla.html, cut to New York, as user_id, item_id, timestamp",
            "checkins",
            read,
        ),
        (
            "gowalla-nyc-pepper",
            "PEPPER's published subset: 100 users, 22,134 distinct (user, place) rows, with coordinates, no times",
            "github.com/YacineBelal/PEPPER (branch TensorFlow-Attacked, GowallaNYC files), as user_id, item_id",
            "pepper_splits",
            read_pepper,
        ),
    )
}
