"""Accuracy of a recommender on the test rows of a split, for experiments that change what is
trained and not how it is evaluated.
"""

from __future__ import annotations

from ..core.contract.protocols import Recommender
from ..data.split.types import Split
from ..evaluate.protocol import Evaluation, evaluate


def tested(
    recommender: Recommender, split: Split, *, label: str, seed: int = 0, n: tuple[int, ...] = (10,)
) -> Evaluation:
    """Evaluates a recommender that was trained on the final training rows of a split, as `entrenous
    run` does. label: for errors.
    """
    return evaluate(
        recommender,
        split.final_train,
        split.test,
        label=label,
        n=n,
        seed=seed,
        also_mask=split.left_out,
    )
