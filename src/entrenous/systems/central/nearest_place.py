"""`nearest-place`: recommends the items that lie nearest to a place where the user has been: the
result of geography alone, without anybody's taste.
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
    """The places of items."""

    point: Float32Array
    """float32 [items, 3], on the unit sphere; the centre where a place is not known."""


@final
class NearestPlace(Settings):
    """Nearest place: minus the squared distance to the nearest item that the user consumed, for
    data that says where items are.

    The distance is the straight one, in radii of the Earth: a cosine in float32 would not
    distinguish places within three kilometres.
    """

    holds: ClassVar[type] = NearestPlaceModel

    def fit(
        self, data: Interactions, key: np.uint64, progress: Progress = silent
    ) -> NearestPlaceModel:
        """Returns the places of items. Raises InputError for data without them."""
        if data.places is None:
            raise InputError(
                "nearest-place",
                "the data does not say where items are",
                expected="places, as in foursquare-nyc and gowalla-nyc",
                fix="give items with columns lat and lon, in degrees",
            )
        return NearestPlaceModel(np.nan_to_num(points(data.places)))

    def score(
        self, model: NearestPlaceModel, data: Interactions, users: Int64Array
    ) -> Float32Array:
        """Returns the scores of every item, float32 [m, items]: minus the squared distance; -4, the
        other side of the Earth, for a user without rows."""
        point = model.point
        out = np.full((len(users), len(point)), -4, np.float32)
        for row, user in enumerate(users.tolist()):
            # The nearest of the user's places counts, so the largest score does.
            for place in data.item[data.ptr[user] : data.ptr[user + 1]]:
                squares = [(point[:, axis] - point[place, axis]) ** 2 for axis in range(AXES)]
                apart = sum(squares)
                np.maximum(out[row], -apart, out=out[row])
        return out


ALGORITHMS = {"nearest-place": NearestPlace}
