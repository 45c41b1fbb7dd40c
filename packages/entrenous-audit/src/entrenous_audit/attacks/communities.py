"""Users who share a taste: their models, or their messages, score the items of that taste higher
than those of others do.

Y. Belal, S. Ben Mokhtar, M. Maouche, A. Simonet-Boulogne, "Inferring communities of interest in
collaborative learning-based recommender systems", arXiv:2306.08929: given a set of items, senders
are ranked by the mean score that their models, averaged over time, give to it. User vectors stay on
devices here, so that scores are those of a fictive user: how far items have moved along the
direction in which popular items move, of peers in messages less those of others (as the attack
`drift`), of devices in single updates. Moves are taken in standard deviations of each sender and
averaged over its rounds. Known: the sets of items (`side_knowledge`).
"""

from __future__ import annotations

import numpy as np

from entrenous.core.types import Array, Float64Array
from entrenous.federation.recorder import Seen

from ..claims import Attack, Claims
from ..side_knowledge import sets_of
from ..transcript import Transcript
from . import drift
from ._directions import directions
from ._gossip_seen import centred_popularity, gossiped
from ._rows_seen import device_of_rows, place_of, prior, users_seen

MOST = 8.0  # standard deviations of a move


def run(transcript: Transcript) -> Claims:
    """Ranks the users seen for each target."""
    targets = sets_of(transcript, "targets").T.astype(np.float64)
    if transcript.about["view"] == "neighbour":
        users, moves = _of_peers(transcript)
    else:
        users, moves = _of_devices(transcript)
    score = moves @ (targets / np.maximum(targets.sum(axis=0), 1))
    note = f"{targets.shape[1]} sets of items"
    return Claims(users, score.astype(np.float32), note=note, asks="communities")


def _of_peers(transcript: Transcript) -> tuple[Array, Float64Array]:
    """Peers, and how far the items of their models have moved, float64 [m, items]."""
    claims = drift.run(transcript)
    return claims.users, (claims.score - prior(transcript)).astype(np.float64)


def _of_devices(transcript: Transcript) -> tuple[Array, Float64Array]:
    """Users, and how far their updates move items, float64 [m, items]."""
    users = users_seen(transcript)
    name = place_of(widest(transcript))
    total = np.zeros((len(users), transcript.items))
    for seen in transcript.rounds:
        rows, ptr, device, item = _rows(seen, name, transcript.items)
        # The user vector stays on the device, but its rows lie along it.
        _, along, _ = directions(rows, ptr)
        moved = np.zeros((len(seen.users), transcript.items))
        moved[device, item] = along
        who = np.searchsorted(users, seen.users)
        total[who] += _towards(moved, transcript.popularity)
    return users, total


def _rows(seen: Seen, name: str, items: int) -> tuple[Array, Array, Array, Array]:
    """The rows of an array, where those of each device begin, and the device and item of each."""
    sent = seen.sent[name]
    many = len(seen.users)
    if len(sent) == len(seen.sent["item"]) and len(sent) != many:
        rows = sent.reshape(len(sent), -1).astype(np.float32)
        return rows, seen.sent["ptr"], device_of_rows(seen), seen.sent["item"]
    # A dense array has a row for every item of each device.
    device, item = np.divmod(np.arange(many * items), items)
    rows = sent.reshape(many * items, -1).astype(np.float32)
    ptr = np.arange(many + 1, dtype=np.int64) * items
    return rows, ptr, device, item


def _towards(moved: Float64Array, popularity: Array) -> Float64Array:
    """Moves in standard deviations of their device, in the direction in which popular items
    move.
    """
    popular = moved @ centred_popularity(popularity)
    sign = np.where(popular < 0, -1.0, 1.0)
    size = np.maximum(moved.std(axis=1), 1e-30)
    standard = moved * (sign / size)[:, None]
    return standard.clip(-MOST, MOST)  # type: ignore[no-any-return]


def widest(transcript: Transcript) -> str:
    """The name of the array that devices send with the most numbers for each item; "" if there is
    none.
    """
    widths = {}
    for sent in transcript.about["sends"]:
        name = sent["name"]
        shape = sent["shape"]
        if sent["way"] == "rows":
            widths[name] = int(np.prod(shape))
        elif sent["way"] == "dense" and shape[:1] == [transcript.items]:
            widths[name] = int(np.prod(shape[1:]))
    return max(widths, key=lambda name: widths[name], default="")


def applies(transcript: Transcript) -> bool:
    """Checks whether the onlooker has sets of items besides the messages about items."""
    readable = gossiped(transcript) or bool(widest(transcript))
    return "targets/ptr" in transcript.model and readable


ATTACK = Attack(
    "communities", ("individual", "neighbour"), "Belal et al., arXiv:2306.08929", applies, run
)
