"""The view `list`: the recommendations of people, as a server sees them that makes them or sends
their pictures.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from entrenous.core.lanes.memory import starts_of
from entrenous.core.types import Array
from entrenous.evaluation.recommend import recommend

from .endings import Ending
from .subject import Subject
from .transcript import Transcript

LENGTHS = (10, 50)  # of lists


def seen_lists(ending: Ending, subject: Subject) -> Iterator[tuple[str, Transcript]]:
    """Yields what is seen of everybody's list, by what it is called: ten titles and fifty, without
    scores and with them.
    """
    final = ending.final
    assert final is not None  # a training between peers has no such view
    train = subject.train
    users = np.arange(len(train.users))
    longest = min(max(LENGTHS), len(train.items))
    best = recommend(ending.recommender, train, users, longest, seed=subject.audit.seed)
    about = {**final.about, "view": "list"}
    for length in LENGTHS:
        item = best.item[:, :length]
        # -1 fills the list of a user who has almost all items.
        there = item >= 0
        listed: dict[str, Array] = {
            "known/ptr": starts_of(there.sum(axis=1)),
            "known/item": item[there],
        }
        titles = final._replace(about=about, model={**final.model, **listed})
        yield f"{length} titles", titles
        shown = {**titles.model, "known/score": best.score[:, :length][there]}
        yield f"{length} titles with scores", titles._replace(model=shown)
