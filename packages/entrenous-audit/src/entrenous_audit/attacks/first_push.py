"""A node's first push, less the base model that everybody has, is one step on its own rows:
consumed items move one way, drawn ones back.

Nodes of gossip learning begin with a public base model, train it on their rows and push it when
their timer fires (Y. Belal, A. Bellet, S. Ben Mokhtar, V. Nitu, "PEPPER", 2022, algorithm 1). If no
model has arrived by then, which the age in the header says (one update), the model differs from the
base by that one step. Under noise the items that were not touched tell how large it is, and an item
beyond five standard deviations is claimed. Rows held out to weigh models by are not trained on and
stay unknown. Source: ours.
"""

from __future__ import annotations

import numpy as np

from entrenous.core.types import Float64Array
from entrenous.federation.recorder import Seen

from ..claims import Attack, Claims
from ..transcript import Transcript
from ._gossip_seen import along, base_vectors, gossiped, sent_vectors
from ._rows_seen import claims_of, declined, empty_tally

SURELY = 5.0  # standard deviations of noise
MOST = 20.0  # log odds that noise may give
SHARE = 0.5  # of all items that a first step leaves where they were
STAYED = 0.02  # the share of items that did not move from which on there is no noise


def run(transcript: Transcript) -> Claims:
    """Claims items that moved towards the user in messages of models that were trained once."""
    tally = empty_tally(transcript)
    pushes = 0
    for place, seen in enumerate(transcript.rounds):
        moves = sent_vectors(transcript, seen) - base_vectors(transcript)
        if not _trained_once(seen, moves):
            continue
        pushes += 1
        who = np.searchsorted(tally.users, seen.users)
        way = _relative(along(moves, transcript.popularity))
        tally.claim(who, np.flatnonzero(way > SURELY), place)
        evidence = way.clip(-MOST, MOST)
        tally.evidence[who] += evidence.astype(np.float32)
    messages = len(transcript.rounds)
    if not pushes:
        return declined(transcript, f"none of {messages} messages was a first push")
    return claims_of(transcript, tally, f"{pushes} of {messages} messages were first pushes")


def _trained_once(seen: Seen, moves: Float64Array) -> bool:
    """Checks whether a model has had one update, or is as the base in most of its items."""
    if "age" in seen.sent:
        return int(seen.sent["age"][0]) <= 1
    return bool(np.mean(~moves.any(axis=1)) > SHARE)


def _relative(way: Float64Array) -> Float64Array:
    """Moves in standard deviations of the noise, by the median; where items stayed exactly as they
    were, in hundredths of the longest.
    """
    noise = 0.0
    if np.mean(way == 0) <= STAYED:
        noise = 1.4826 * float(np.median(np.abs(way)))
    largest = float(np.abs(way).max(initial=0))
    return way / max(noise, largest / 100, 1e-30)


ATTACK = Attack("first-push", ("neighbour",), "ours", gossiped, run)
