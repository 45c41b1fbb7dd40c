"""Gowalla check-ins in New York (PEPPER), in two subsets. Neither has the 718 users of the paper,
whose file is not public.

`gowalla-nyc`: SNAP's check-ins inside New York, at users and places with at least 10 check-ins
world-wide; repeated visits are one row, the last. `gowalla-nyc-pepper`: the 100 users of the
authors' repository, distinct places, all 10,978 places of their files. Their table of moves has the
seconds between two check-ins but no date, and where rows were left out, a move does not begin where
the last one ended. So the time of a visit is the seconds since the user's first check-in, without
gaps: it orders the visits.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import InputError
from ..dataset import Dataset
from ..divided import pepper
from ..files import read_table
from ..folders import add_features, read_parts
from ..home import find
from ..interactions import NO_TIME, Interactions, Vocabulary, find_rows, from_seconds
from ..options import LoadOptions
from ..visits import VisitColumns, with_visits

PLACE = {"lat": "lat", "lon": "lon"}
MOVES = ("user_id", "row", "item_id", "next_item_id", "delta_seconds")


def read(folder: Path) -> Interactions:
    return read_parts(
        folder, ["checkins"], LoadOptions(), name="gowalla-nyc", items="items", columns=PLACE
    )


def read_pepper(folder: Path) -> Interactions:
    """Reads the distinct (user, place) pairs, in order of time if the table of moves is there."""
    data = read_parts(folder, ["pepper_splits"], LoadOptions(), name="gowalla-nyc-pepper")
    places = find(folder, "pepper_items")
    if places is not None:
        data = add_features(_with_places(data, places), places, LoadOptions(), columns=PLACE)
    moves = find(folder, "pepper_transitions")
    if moves is None:
        return data
    data = with_visits(data, _visits(data, moves), str(moves))
    assert data.visits is not None
    # A row happened at its last visit.
    last = data.visits.time[data.visits.ptr[1:] - 1]
    return replace(data.noted(f"read {moves}: times"), time=last)


def _with_places(data: Interactions, path: Path) -> Interactions:
    """Returns the data over all places of the file, some of which occur among negatives alone."""
    listed = read_table(path, LoadOptions()).frame["item_id"].cast(str).to_list()
    # Known items keep their numbers.
    ids = dict.fromkeys([*data.items.ids.tolist(), *listed])
    return replace(data, items=Vocabulary(list(ids), kind="item"))


def _visits(data: Interactions, path: Path) -> VisitColumns:
    """Returns the two ends of every move as visits, at the seconds since the user's first check-in.
    A row that no move tells of is a visit without a time.
    """
    visits = _ends_of_moves(path)
    user = data.users.indices(visits["user_id"].to_list()).astype(np.int64)
    item = data.items.indices(visits["item"].to_list()).astype(np.int64)
    time = from_seconds(visits["time"].to_numpy().astype(np.int64))
    row = find_rows(data, user, item)
    known = row >= 0
    # Rows of which no move tells come behind the visits.
    untold = np.setdiff1d(np.arange(len(data)), row)
    all_times = np.concatenate([time[known], np.full(len(untold), NO_TIME)])
    return VisitColumns(
        np.concatenate([user[known], data.user[untold]]),
        np.concatenate([item[known], data.item[untold]]),
        all_times,
        np.arange(len(all_times)),
    )


def _ends_of_moves(path: Path) -> Any:
    """Returns a polars frame of user_id, item and time: the start and the end of every move, each
    visit once.
    """
    import polars as pl

    frame = read_table(path, LoadOptions()).frame
    missing = [name for name in MOVES if name not in frame.columns]
    if missing:
        raise InputError(str(path), f"no column '{missing[0]}'", expected=", ".join(MOVES))
    duration = pl.col("delta_seconds")
    end = duration.cum_sum().over("user_id")
    frame = frame.sort("user_id", "row")
    starts = frame.select("user_id", item="item_id", time=end - duration)
    ends = frame.select("user_id", item="next_item_id", time=end)
    # The end of a move is most often the start of the next one.
    visits = pl.concat([starts, ends]).unique(maintain_order=True)
    return visits.with_columns(pl.col("user_id", "item").cast(pl.String))


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
        published=published,
    )
    for name, summary, origin, file, reader, published in (
        (
            "gowalla-nyc",
            (
                "place visits in New York: 2,347 users x 2,437 places of 66,238 check-ins, with"
                " times and coordinates"
            ),
            (
                "snap.stanford.edu/data/loc-gowalla.html, cut to New York, as user_id, item_id,"
                " timestamp"
            ),
            "checkins",
            read,
            {},
        ),
        (
            "gowalla-nyc-pepper",
            (
                "PEPPER's published subset: 100 users x 10,978 places, 22,134 rows, with"
                " coordinates and the order of visits"
            ),
            (
                "github.com/YacineBelal/PEPPER (branch TensorFlow-Attacked, GowallaNYC files), as"
                " user_id, item_id"
            ),
            "pepper_splits",
            read_pepper,
            {"pepper": partial(pepper, name="gowalla-nyc-pepper", tabled=100)},
        ),
    )
}
