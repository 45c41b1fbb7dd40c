"""`nearest-place`: what lies nearest to a place that the user has been to. What geography alone can
do, without anybody's taste.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple, final

import numpy as np

from ...core.contract.protocols import Progress, silent
from ...core.contract.settings import Settings
from ...core.errors import InputError
from ...core.types import Float32Array, Int64Array
from ...data.interactions import Interactions
from ...kernels.geography import AXES, points


class NearestPlaceModel(NamedTuple):
    """The places of items. point: float32 [items, 3], on the unit sphere, the centre where a place
    is not known.
    """

    point: Float32Array


@final
class NearestPlace(Settings):
    """Nearest place: minus the squared distance to the nearest item that the user consumed, for
    data that says where items are.

    The straight distance, in radii of the Earth: a cosine in float32 would not tell apart what is
    within three kilometres.
    """

    holds: ClassVar[type] = NearestPlaceModel

    def fit(
        self, data: Interactions, key: np.uint64, progress: Progress = silent
    ) -> NearestPlaceModel:
        """Reads the places of items. Raises InputError for data that does not say where items
        are.
        """
        if data.places is None:
            problem, fix = (
                "the data does not say where items are",
                "give items with columns lat and lon, in degrees",
            )
            raise InputError(
                "nearest-place",
                problem,
                expected="places, as in foursquare-nyc and gowalla-nyc",
                fix=fix,
            )
        return NearestPlaceModel(np.nan_to_num(points(data.places)))

    def score(
        self, model: NearestPlaceModel, data: Interactions, users: Int64Array
    ) -> Float32Array:
        """Scores of every item, float32 [m, items]: minus the squared distance; -4, the other side
        of the Earth, for a user without rows."""
        out = np.full((len(users), len(model.point)), -4, np.float32)
        for row, user in enumerate(users.tolist()):
            for place in data.item[data.ptr[user] : data.ptr[user + 1]]:
                apart = sum(
                    (model.point[:, axis] - model.point[place, axis]) ** 2 for axis in range(AXES)
                )
                np.maximum(out[row], -apart, out=out[row])
        return out


ALGORITHMS = {"nearest-place": NearestPlace}
