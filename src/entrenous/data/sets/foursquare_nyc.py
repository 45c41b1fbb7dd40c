"""Foursquare check-ins in New York (PEPPER): 1,083 users, 38,333 venues, 227,428 check-ins in 2012 and 2013.

Repeated visits of a venue are one row, the last visit. 21 % of the check-ins were reconstructed, some without a time (see
`notes`); all of those are at venues with fewer than 5 check-ins.
"""

from __future__ import annotations

from pathlib import Path

from ..dataset import Dataset
from ..folders import read_parts
from ..interactions import Interactions
from ..table import Reading

FEATURES = {"category": "category_code_pepper", "lat": "lat", "lon": "lon"}  # a number for each category; its name is not known


def read(folder: Path) -> Interactions:
    return read_parts(folder, ["checkins"], Reading(), name="foursquare-nyc", items="items", columns=FEATURES)


DATASETS = {
    "foursquare-nyc": Dataset(
        name="foursquare-nyc",
        summary="venue visits in New York: 1,083 users x 38,333 venues, one row for each (user, venue) of 227,428 check-ins",
        terms="offered for research, cite Yang et al. 2015; no licence text known, so do not redistribute",
        citation="D. Yang, D. Zhang, V. W. Zheng, Z. Yu: Modeling User Activity Preference by Leveraging User Spatial Temporal "
        "Characteristics in LBSNs. IEEE Trans. Syst. Man Cybern. Syst. 45(1), 2015",
        origin="sites.google.com/site/yangdingqi/home/foursquare-dataset (NYC), as checkins.csv with user_id, item_id, timestamp",
        folder="foursquare-nyc",
        files=("checkins",),
        read=read,
    )
}
