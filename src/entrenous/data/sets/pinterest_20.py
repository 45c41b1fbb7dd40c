"""Pinterest-20 (Cali3F): which image was pinned to whose board, partial: NCF's first 37,501 of
55,187 users, complete for them.

The value is how often the source repeats the pair (usually 1); Cali3F's count of 1,500,809 counts
repeats. NCF's test row is known for every user (table `ncf_test`); the 99 negatives it published
with them could not be found.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from ..dataset import Dataset
from ..folders import read_folder
from ..interactions import Interactions
from ..options import LoadOptions
from ..published import ncf

ORIGIN = (
    "github.com/hexiangnan/neural_collaborative_filtering Data/pinterest-20.*, as user_id, item_id,"
    " count"
)


def read(folder: Path) -> Interactions:
    return read_folder(folder, LoadOptions(), name="pinterest-20")


DATASETS = {
    "pinterest-20": Dataset(
        name="pinterest-20",
        summary="pins, partial: 37,501 of 55,187 users x 9,836 items, 1,000,154 rows, no times",
        terms=(
            "terms of the data unknown, so do not redistribute; cite Geng et al. 2015 and He et al."
            " 2017"
        ),
        citation=(
            "X. Geng et al.: Learning Image and User Features for Recommendation in Social"
            " Networks. ICCV 2015"
        ),
        origin=ORIGIN,
        folder="pinterest-20-partial",
        files=("interactions",),
        read=read,
        published={"ncf": partial(ncf, name="pinterest-20")},
    )
}
