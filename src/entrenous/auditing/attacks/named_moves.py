"""Moves of items next to the user's own embedding, which the device shows: their product has the
sign of the label.

Devices of Cali3F and FedFast show their user's embedding p_u by name. The move of a touched item is
a multiple of h * p_u, positive for a consumed item and negative for a drawn one (the attack
`touched-rows`); with p_u shown and h the server's own, each row is decided by itself. Source: ours;
the messages of both systems are in Z. Zhu et al., "Cali3F", IJCNN 2022, and K. Muhammad et al.,
"FedFast", KDD 2020.
"""

from __future__ import annotations

import re

import numpy as np

from ...core.types import Array, Int32Array
from ...federation.recorder import Seen
from ...kernels.ncf import shape_of
from ..claims import Attack, Claims
from ..transcript import Transcript
from ._directions import directions
from ._rows_seen import RowsSeen, claims_of, empty_tally, rounds_of_rows, sends
from ._sides import claim_side, keep_constant, no_visits


def applies(transcript: Transcript) -> bool:
    """Checks whether devices show a user embedding with a part for matrix factorisation next to
    moves of items.
    """
    return sends(transcript, "user", "item", "network") and bool(transcript.setting("factors"))


def run(transcript: Transcript) -> Claims:
    """Claims the items that move along the shown vector."""
    tally = empty_tally(transcript)
    factors = int(transcript.setting("factors"))
    head = shape_of(factors, layers(transcript)).head
    visits = no_visits(tally)
    for rows in rounds_of_rows(transcript):
        visits.add(rows)
        moves = rows.array("item")[:, :factors]
        # A move along h * p_u is of a consumed item, one against it of a negative.
        toward = _toward(rows, head, factors)[rows.device]
        along = np.einsum("nf,nf->n", moves, toward).astype(np.float64)
        around = directions(moves, rows.seen.sent["ptr"])[2]
        claim_side(tally, rows, along, around, transcript)
    keep_constant(tally, visits)
    return claims_of(transcript, tally)


def layers(transcript: Transcript) -> tuple[int, ...]:
    """The lengths of the layers of a neural collaborative filter, which settings hold as text."""
    text = str(transcript.setting("layers"))
    return tuple(int(length) for length in re.findall(r"\d+", text))


def networks(seen: Seen, users: Array) -> tuple[Array, Int32Array]:
    """The networks that devices received, and which of them each user has: that of its cluster
    where clusters have their own.
    """
    received = seen.received
    if len(received.get("local", ())):
        return received["local"], received["cluster"][users].astype(np.int32)
    return received["network"], np.zeros(len(users), np.int32)


def _toward(rows: RowsSeen, head: int, factors: int) -> Array:
    """h * p_u of each device, of length 1. head: the place of h, the server's own output layer, in
    its network.
    """
    network, own = networks(rows.seen, rows.seen.users)
    h = network[own, head : head + factors]
    toward = h * rows.seen.sent["user"][:, :factors]
    length = np.linalg.norm(toward, axis=1, keepdims=True)
    return toward / np.maximum(length, 1e-12)


ATTACK = Attack("named-moves", ("individual",), "ours", applies, run)
