"""Gowalla check-ins in New York (PEPPER), in two subsets; neither is the paper's 718 users, whose
file is not public.

`gowalla-nyc`: SNAP's check-ins inside New York, at users and places with at least 10 check-ins
world-wide; repeated visits are one row, the last. `gowalla-nyc-pepper`: the 100 users of the
authors' repository, distinct places, all 10,978 places of their files. Their moves carry the
seconds between two check-ins but no date, and where rows were left out a move does not begin where
the last one ended. So the time of a visit is the seconds from a user's first check-in, gaps not
counted: it orders them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from ...core.errors import InputError
from ...core.vocabulary import Vocabulary
from ..columns import Reading
from ..dataset import Dataset
from ..divided import Divided
from ..divided import pepper as read_divided
from ..files import read_table
from ..folders import add_features, read_parts
from ..home import find
from ..interactions import NO_TIME, Interactions, pairs_of
from ..visits import VisitColumns, with_visits

PLACE = {"lat": "lat", "lon": "lon"}
MOVES = ("user_id", "row", "item_id", "next_item_id", "delta_seconds")


def read(folder: Path) -> Interactions:
    return read_parts(
        folder, ["checkins"], Reading(), name="gowalla-nyc", items="items", columns=PLACE
    )


def read_pepper(folder: Path) -> Interactions:
    """The distinct (user, place) pairs, in order of time where the table of moves is there."""
    data = read_parts(folder, ["pepper_splits"], Reading(), name="gowalla-nyc-pepper")
    places, moves = find(folder, "pepper_items"), find(folder, "pepper_transitions")
    if places is not None:
        data = add_features(_with_places(data, places), places, columns=PLACE)
    if moves is None:
        return data
    data = with_visits(data, _visits(data, moves), str(moves))
    assert data.visits is not None
    last = data.visits.time[data.visits.ptr[1:] - 1]
    return replace(data, time=last, notes=(*data.notes, f"read {moves}: times"))


def _with_places(data: Interactions, path: Path) -> Interactions:
    """The data over all places of the file: some stand among the negatives alone."""
    listed = read_table(path, Reading()).frame["item_id"].cast(str).to_list()
    return replace(
        data,
        items=Vocabulary(list(dict.fromkeys([*data.items.ids.tolist(), *listed])), kind="item"),
    )


def _visits(data: Interactions, path: Path) -> VisitColumns:
    """The two ends of every move, at the seconds since its user's first check-in; what no move
    tells of is a visit without a time.
    """
    import polars as pl

    frame = read_table(path, Reading()).frame
    if missing := [name for name in MOVES if name not in frame.columns]:
        raise InputError(str(path), f"no column '{missing[0]}'", expected=", ".join(MOVES))
    end = pl.col("delta_seconds").cum_sum().over("user_id")
    frame = frame.sort("user_id", "row").with_columns(
        (end - pl.col("delta_seconds")).alias("start"), end.alias("end")
    )
    visits = [
        frame.select("user_id", pl.col(item).alias("item"), at)
        for item, at in (("item_id", "start"), ("next_item_id", "end"))
    ]
    table = pl.concat([visit.rename({visit.columns[2]: "time"}) for visit in visits]).unique(
        maintain_order=True
    )
    user, item = (table[name].cast(pl.String).to_list() for name in ("user_id", "item"))
    u, i, time = (
        data.users.indices(user).astype(np.int64),
        data.items.indices(item),
        table["time"].to_numpy(),
    )
    pairs, width = pairs_of(data), len(data.items)
    known = (u >= 0) & (i >= 0) & np.isin(u * width + i, pairs)
    untold = np.setdiff1d(pairs, (u * width + i)[known])
    user_of, item_of = (
        np.concatenate([u[known], untold // width]),
        np.concatenate([i[known], untold % width]),
    )
    when = np.concatenate([time[known], np.full(len(untold), NO_TIME)]).astype(np.int64)
    return VisitColumns(user_of, item_of, when, np.arange(len(when)))


def pepper(folder: Path) -> Divided:
    """Read the division of Gowalla NYC that PEPPER's authors published, of 100 users."""
    return read_divided(folder, "gowalla-nyc-pepper", tabled=100)


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
        divided={"pepper": pepper} if reader is read_pepper else {},
    )
    for name, summary, origin, file, reader in (
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
        ),
    )
}
