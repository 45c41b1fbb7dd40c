"""Claims of a size: "42 % faster", "8.93 points above". A claim has two kinds for them:

- `by_points = [["a", "b", 0.09]]`: a is above b by about that much or more;
- `by_share = [["a", "b", -0.42]]`: a exceeds b by about that share of b or more; below 0, it falls
  short of b by that share. Over seeds, or, with `of_print = true`, by the printed figures.

About: three quarters of the size, or `within` of it. Three quarters is a choice of ours; it is what
`near` takes for printed figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from entrenous.evaluation.chance import Difference, difference

POINTS, SHARE = SIZES = ("by_points", "by_share")
SLACK = 0.25  # of a size


def share_over(claim: Mapping[str, Any], rows: Sequence[Any]) -> Difference:
    """The share by which the figure of the first of two rows exceeds that of the second."""
    a, b = rows
    if "of_print" in claim:
        return Difference(a["paper"] / b["paper"] - 1, 0.0, 1.0, 1, 1)
    ratio = np.array(a["values"]) / b["values"]
    return difference(ratio[:, None], np.ones((len(ratio), 1)))


def about(claim: Mapping[str, Any], size: float) -> tuple[float, float]:
    """The range of a figure that is about a size or more.

    >>> about({}, 0.4), about({"within": 0.125}, -0.5)
    ((0.30000000000000004, inf), (-inf, -0.375))
    """
    slack = claim.get("within", SLACK * abs(size))
    return (size - slack, np.inf) if size > 0 else (-np.inf, size + slack)
