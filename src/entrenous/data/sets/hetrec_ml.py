"""HetRec 2011 MovieLens (FBALF), partial: the validation and test parts of MetaMF, a random 20.1 %
of the ratings.

The training part could not be found, so treat it as a sparser data set than the paper's.
"""

from __future__ import annotations

from pathlib import Path

from ..dataset import Dataset
from ..folders import read_parts
from ..interactions import Interactions
from ..options import LoadOptions


def read(folder: Path) -> Interactions:
    return read_parts(folder, ["valid", "test"], LoadOptions(scale=(0.5, 5)), name="hetrec-ml")


DATASETS = {
    "hetrec-ml": Dataset(
        name="hetrec-ml",
        summary=(
            "film ratings 0.5 to 5, partial: 2,113 users x 8,527 films, 171,967 rows (20.1 % of the"
            " set), no times"
        ),
        terms="research use, no redistribution, cite Cantador et al. 2011 (GroupLens)",
        citation=(
            "I. Cantador, P. Brusilovsky, T. Kuflik: Second Workshop on Information Heterogeneity"
            " and Fusion in Recommender Systems. RecSys 2011"
        ),
        origin=(
            "github.com/TempSDU/MetaMF data/ht-ml.{valid,test}.rating, as valid.tsv and test.tsv:"
            " user_id, item_id, rating"
        ),
        folder="hetrec-ml-partial",
        files=("valid",),
        read=read,
    )
}
