"""Two rounds of a factorisation without biases give the user's vector, and then the ratings
themselves, whole numbers among made-up ones.

A device of FedMF or FedRec (batch style) sends g_j = lambda v_j - e_j u_t for its rows, up to a
factor. The rows give the direction d of u_t and eps_j = e_j |u_t|. Its next vector is u' = |u_t| A
+ B / |u_t| with A and B known from d, eps and the item factors that the server had in both rounds;
u' has the direction d' of the next round's rows, so that |u_t|^2 = -(A' . B') / |A'|^2 for the
parts A', B' across d'. Ratings follow, r_j = eps_j / |u_t| + |u_t| d . v_j; real ones are whole.
Source: D. Chai, L. Wang, K. Chen, Q. Yang, "Secure federated matrix factorization",
arXiv:1906.05108, section on privacy, for two steps and one unknown.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from entrenous.core.types import Array, BoolArray, Float64Array, Int64Array
from entrenous.federation.recorder import Seen

from ..claims import Attack, Claims
from ..transcript import Transcript
from ._directions import directions
from ._rating_rows import step_of
from ._rows_seen import claims_of, declined, empty_tally, sends

WHOLE = 5e-3  # how far from a whole number a rating may be
ENOUGH = 0.35  # the share of rows that must be whole
FEWEST = 3  # rows of a message from which a direction is taken


class Message(NamedTuple):
    """The rows of one device in one round, without the regularisation."""

    place: int
    """The place of the round."""
    number: int
    """The number of the round."""
    item: Int64Array
    """[n]."""
    push: Array
    """float64 [n, F], -e_j u for the item of each row."""
    v: Array
    """float32 [items, F], the factors received."""


def applies(transcript: Transcript) -> bool:
    """Checks whether two rounds of rows without a bias, all of one user vector each, were seen."""
    settings = transcript.settings
    plain = sends(transcript, "v") and not sends(transcript, "noise")
    fedmf = "send" in settings
    fedrec = "predict_after" in settings and settings["style"] == "batch"
    return plain and len(transcript.rounds) > 1 and (fedmf or fedrec)


def run(transcript: Transcript) -> Claims:
    """Claims the items whose ratings come out whole."""
    tally = empty_tally(transcript)
    made_up = np.zeros(tally.first.shape, bool)
    ratings = 0
    pairs = 0
    last: dict[int, Message] = {}
    for place, seen in enumerate(transcript.rounds):
        for user, new in messages(transcript, place, seen).items():
            old = last.get(user)
            last[user] = new
            if old is None or old.place != place - 1:
                continue
            if min(len(old.item), len(new.item)) < FEWEST:
                continue
            pairs += 1
            whole = _whole(ratings_of(transcript, old, new), transcript)
            # Ratings that are whole by chance are a small share of a message.
            if whole.mean() > ENOUGH:
                ratings += int(whole.sum())
                who = int(np.searchsorted(tally.users, user))
                tally.claim(who, old.item[whole], place)
                made_up[who, old.item[~whole]] = True
    if not pairs:
        return declined(transcript, "no device answered in two rounds that follow one another")
    tally.deny(*np.nonzero(made_up))
    note = f"{ratings} ratings recovered as whole numbers, in {pairs} pairs of rounds of one device"
    return claims_of(transcript, tally, note)


def messages(transcript: Transcript, place: int, seen: Seen) -> dict[int, Message]:
    """The rows of each user in a round, without the part of lambda. Of a table that is zero
    elsewhere these are the rows that are not zero.
    """
    v = seen.received["v"]
    table = seen.sent["v"]
    # FedMF sends the gradient with a factor of 2.
    factor = 2.0 if "send" in transcript.settings else 1.0
    reg = float(transcript.setting("reg"))
    ptr = seen.sent["ptr"]
    messages_by_user = {}
    for device, user in enumerate(seen.users.tolist()):
        if len(seen.sent["item"]):
            here = slice(ptr[device], ptr[device + 1])
            item = seen.sent["item"][here].astype(np.int64)
            rows = table[here]
        else:
            item = np.flatnonzero(table[device].any(axis=1))
            rows = table[device][item]
        sent = rows[:, : v.shape[1]]
        rows = sent.astype(np.float64) / factor
        push = rows - reg * v[item]
        messages_by_user[user] = Message(place, seen.round, item, push, v)
    return messages_by_user


def ratings_of(transcript: Transcript, old: Message, new: Message) -> Float64Array:
    """The ratings of the rows of the earlier message, float64 [n]; NaN where the two rounds do not
    determine them.
    """
    unit = _direction(old)
    along = old.push @ unit
    toward = _direction(new)
    a, b = _step(transcript, old, new, unit, along)
    # The parts across the next direction cancel out: |u| A' + B' / |u| = 0.
    a = a - (a @ toward) * toward
    b = b - (b @ toward) * toward
    # So |u|^2 = -(A' . B') / |A'|^2.
    length = max(float(a @ a), 1e-300)
    square = -(a @ b) / length
    if not square > 0:
        return np.full(len(along), np.nan)
    size = np.sqrt(square)
    # r_j = eps_j / |u| + |u| d . v_j
    vectors = old.v[old.item].astype(np.float64)
    predicted = size * (vectors @ unit)
    rating = -along / size + predicted
    # The direction's sign is arbitrary; ratings are positive.
    return rating if np.median(rating) > 0 else -rating  # type: ignore[no-any-return]


def _direction(message: Message) -> Float64Array:
    """The unit vector along which the rows of a message lie, float64 [F]; its sign is arbitrary."""
    ptr = np.array([0, len(message.push)])
    unit, _, _ = directions(message.push.astype(np.float32), ptr)
    return unit[0]


def _step(
    transcript: Transcript, old: Message, new: Message, unit: Float64Array, along: Float64Array
) -> tuple[Float64Array, Float64Array]:
    """A and B of the next user vector, u' = |u| A + B / |u|."""
    settings = transcript.settings
    eps = -along
    v = old.v[old.item].astype(np.float64)
    reg = float(settings["reg"])
    n = max(1, len(old.item))
    if "send" not in settings:
        # FedRec: the step of the round itself, along the mean over its rows.
        # The rate falls from round to round.
        first = float(settings["learning_rate"] or 0.8)
        rate = first * float(settings["decay"]) ** old.number
        kept = (1 - rate * reg) * unit
        return kept, rate / n * (eps @ v)
    # FedMF: the next round's step, with its factors.
    after = new.v[old.item].astype(np.float64)
    rows = n if settings["step"] == "mean" else 1
    share = 2 * float(settings["learning_rate"]) / rows
    moved = ((v - after) @ unit) @ after
    kept = (1 - share * n * reg) * unit
    a = kept + share * moved
    return a, share * (eps @ after)


def _whole(rating: Float64Array, transcript: Transcript) -> BoolArray:
    """The ratings that are whole steps of the scale."""
    low, high = transcript.about["scale"]
    step = step_of(transcript)
    steps = rating / step
    off = np.abs(steps - np.rint(steps)) * step
    above = rating > low - step / 2
    below = rating < high + step / 2
    within = above & below
    return (off < WHOLE) & within  # type: ignore[no-any-return]


ATTACK = Attack("two-step", ("individual",), "Chai et al. 2019 (FedMF)", applies, run)
