"""Item moves beside the user's own embedding, which the device shows: their product has the sign of
the label.

Devices of Cali3F and FedFast show their user's embedding p_u by name. The move of a touched item is
a multiple of h * p_u, positive for a consumed item and negative for a drawn one (the attack
`touched-rows`); with p_u shown and h the server's own, each row is decided by itself. Source: ours;
what both systems send is in Z. Zhu et al., "Cali3F", IJCNN 2022, and K. Muhammad et al., "FedFast",
KDD 2020.
"""

from __future__ import annotations

import numpy as np

from ...core.types import Array
from ...kernels.ncf import shape_of
from ..claims import Attack, Claims
from ..transcript import Transcript
from ._directions import directions
from ._rows_seen import RowsSeen, claims_of, empty_tally, rounds_of_rows, sends
from ._sides import claim_side, keep_constant, no_visits


def applies(transcript: Transcript) -> bool:
    """Whether devices show a user embedding with a part for matrix factorisation beside moves of
    items.
    """
    return sends(transcript, "user", "item", "network") and bool(transcript.setting("factors"))


def run(transcript: Transcript) -> Claims:
    """Claims the items that move along the shown vector."""
    tally, factors = empty_tally(transcript), int(transcript.setting("factors"))
    head = shape_of(factors, layers(transcript)).head
    visits = no_visits(tally)
    for rows in rounds_of_rows(transcript, tally.users):
        visits.add(rows)
        moves, toward = rows.array("item")[:, :factors], _toward(rows, head, factors)
        along = np.einsum("nf,nf->n", moves, toward[rows.device]).astype(np.float64)
        around = directions(moves, rows.seen.sent["ptr"])[2]
        claim_side(tally, rows, along, around, transcript, loose=True)
    keep_constant(tally, visits)
    return claims_of(transcript, tally)


def layers(transcript: Transcript) -> tuple[int, ...]:
    """The lengths of the layers of a neural collaborative filter, which settings hold as text."""
    text = "".join(
        letter if letter.isdigit() else " " for letter in str(transcript.setting("layers"))
    )
    return tuple(int(length) for length in text.split())


def _toward(rows: RowsSeen, head: int, factors: int) -> Array:
    """h * p_u of each device, of length 1: by the model of its cluster where clusters have their
    own.
    """
    received, user = rows.seen.received, rows.seen.sent["user"][:, :factors]
    own = "local" in received and len(received["local"])
    network = (
        received["local"][received["cluster"][rows.seen.users]] if own else received["network"]
    )
    toward = network[:, head : head + factors] * user
    return toward / np.maximum(np.linalg.norm(toward, axis=1, keepdims=True), 1e-12)


ATTACK = Attack("named-moves", ("individual",), "ours", applies, run)
