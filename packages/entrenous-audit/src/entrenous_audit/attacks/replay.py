"""A server that sends the same model to changing cohorts solves for single updates: sums over sets
of parties are linear equations.

An update of FCF follows from the model and the device's history alone, so that sums of one model
over different cohorts have the updates as unknowns: one sum less another where cohorts differ by
one device (the attack `differencing`), and in general least squares. A user's update is known where
it alone is a combination of the sums (N. R. Adam, J. C. Worthmann, "Security-control methods for
statistical databases", ACM Computing Surveys 21(4), 1989). It goes to the attacks on single
updates. A device that never answers twice for the same model ends this. Source: ours.
"""

from __future__ import annotations

import numpy as np

from entrenous.core.types import Array
from entrenous.federation.recorder import Seen

from ..claims import Attack, Claims
from ..transcript import Transcript
from ._fcf_cost import of_implicit
from ._rows_seen import declined, users_seen
from ._sums_seen import added_up, as_updates, same_model
from .differencing import best_of

ALONE = 1e-6  # how far a combination of sums may be from one user alone


def run(transcript: Transcript) -> Claims:
    """The claims of the surest attack on the updates that sums of one model give; of all others
    popularity.
    """
    same = [seen for seen in transcript.rounds if same_model(seen, transcript.rounds[0])]
    alone = None
    if len(same) > 1:
        alone = _solved(transcript, same)
    surest = None
    if alone is not None:
        surest = best_of(transcript, (alone,))
    if surest is None or alone is None:
        return declined(transcript, f"{len(same)} sums of one model: no update stands alone")
    name, claims = surest
    note = f"{len(same)} sums of one model give {len(alone.users)} updates, read by '{name}'"
    return claims._replace(first=None, note=note)


def _solved(transcript: Transcript, same: list[Seen]) -> Seen | None:
    """The updates of the users whom combinations of sums of one model single out; None if they
    single out nobody.
    """
    users = users_seen(transcript)
    present = [np.isin(users, seen.users) for seen in same]
    part = np.array(present, np.float64)
    inverse = np.linalg.pinv(part, rcond=1e-9)
    # A row of inverse x part that is a unit vector is of one user alone.
    off = np.abs(inverse @ part - np.eye(len(users)))
    who = np.flatnonzero(off.max(axis=1) < ALONE)
    if not len(who):
        return None
    # Each of these users' updates is its combination of the sums.
    combination = inverse[who]
    rows: dict[str, Array] = {}
    dense: dict[str, Array] = {}
    for name, (way, _) in added_up(transcript, same[0]).items():
        tables = [np.asarray(seen.sent[name], np.float64) for seen in same]
        sums = np.stack(tables)
        if way == "dense":
            # Summed over the groups of parties.
            sums = sums.sum(axis=1)
        kept = dense if way == "dense" else rows
        kept[name] = np.tensordot(combination, sums, 1).astype(np.float32)
    # Anything below half a step of the grid is an error of the solution.
    least = float(transcript.about["step"]) / 2
    one = same[0]._replace(users=users[who])
    return as_updates(transcript, one, rows, dense, np.ones(len(who)), least)


# Such updates are decided by the model and the history: no draws.
ATTACK = Attack("replay", ("sum",), "ours", of_implicit, run)
