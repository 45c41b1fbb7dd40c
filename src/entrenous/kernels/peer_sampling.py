"""Random peer sampling (Jelasity et al. 2004): the peers that a node of a gossip algorithm knows,
and those that it pushes to.

A node knows up to k peers. Every model that it receives brings the sender and some peers that the
sender knows. Of all of these and its own the node keeps k: the sender, who is alive, and others
drawn at random. So no list grows, none is ever empty, and peers that have left are forgotten.
"""

from __future__ import annotations

import numpy as np

from ..core.compiling import njit
from ..core.contract.gossip import NOBODY
from ..core.keys import below, draw
from ..core.types import Int32Array, Int64Array, UInt64Array


@njit(cache=True, nogil=True)
def contains(peers: Int32Array, length: int, peer: int) -> bool:
    """Tells whether a peer is among the first `length`."""
    for p in range(length):  # noqa: SIM110  # compiled
        if peers[p] == peer:
            return True
    return False


@njit(cache=True, nogil=True)
def introduced(who: Int64Array, n: int, m: int, keys: UInt64Array) -> Int32Array:
    """Draws m different nodes of n for each of `who`, none of them itself, int32 [len(who), m]; m <
    n.
    """
    out = np.empty((len(who), m), np.int32)
    for d in range(len(who)):
        length = 0
        counter = 0
        while length < m:
            # One of n - 1, with a gap where the node itself would be.
            peer = below(draw(keys[d], counter), n - 1)
            peer += peer >= who[d]
            counter += 1
            if not contains(out[d], length, peer):
                out[d, length] = peer
                length += 1
    return out


@njit(cache=True, nogil=True)
def exchange(
    known: Int32Array,
    who: Int64Array,
    me: Int64Array,
    sender: Int64Array,
    brought: Int32Array,
    keys: UInt64Array,
) -> None:
    """Updates the nodes that each node knows, known[who[d]], after me[d] has heard from sender[d],
    who brought some peers, int32 [m, j].
    """
    k = known.shape[1]
    pile = np.empty(k + brought.shape[1], np.int32)
    for d in range(len(who)):
        mine = known[who[d]]
        # All peers that are known now, each once.
        n = 0
        for source in (mine, brought[d]):
            for p in range(len(source)):
                peer = source[p]
                if (
                    peer != NOBODY
                    and peer != me[d]
                    and peer != sender[d]
                    and not contains(pile, n, peer)
                ):
                    pile[n] = peer
                    n += 1
        # The sender stays, who is alive; the other places are drawn.
        drawn = min(k - 1, n)
        _draw_first(pile, n, drawn, keys[d], 0)
        mine[0] = sender[d]
        for p in range(1, k):
            mine[p] = NOBODY
        for p in range(drawn):
            mine[1 + p] = pile[p]


@njit(cache=True, nogil=True)
def _draw_first(pile: Int32Array, n: int, m: int, key: np.uint64, offset: int) -> None:
    """Puts m of the first n, drawn at random, in front."""
    for p in range(m):
        other = p + below(draw(key, offset + p), n - p)
        pile[p], pile[other] = pile[other], pile[p]


@njit(cache=True, nogil=True)
def sample(known: Int32Array, who: Int64Array, m: int, keys: UInt64Array) -> Int32Array:
    """Draws m of the peers of each node, int32 [len(who), m]; NOBODY where it knows fewer."""
    out = np.full((len(who), m), NOBODY, np.int32)
    pile = np.empty(known.shape[1], np.int32)
    for d in range(len(who)):
        n = _listed(known[who[d]], pile)
        drawn = min(m, n)
        _draw_first(pile, n, drawn, keys[d], 0)
        for p in range(drawn):
            out[d, p] = pile[p]
    return out


@njit(cache=True, nogil=True)
def _listed(known: Int32Array, pile: Int32Array) -> int:
    """Writes the peers of a list that may have gaps to `pile`. Returns their number."""
    n = 0
    for p in range(len(known)):
        if known[p] != NOBODY:
            pile[n] = known[p]
            n += 1
    return n


@njit(cache=True, nogil=True)
def random_views(known: Int32Array, who: Int64Array, size: int, keys: UInt64Array) -> Int32Array:
    """Draws a new view of each node, int32 [len(who), size], from the peers that it knows; NOBODY
    where it knows fewer.
    """
    out = np.full((len(who), size), NOBODY, np.int32)
    pile = np.empty(known.shape[1], np.int32)
    for d in range(len(who)):
        fill_at_random(out[d], 0, known[who[d]], pile, keys[d])
    return out


@njit(cache=True, nogil=True)
def fill_at_random(
    view: Int32Array, n: int, known: Int32Array, pile: Int32Array, key: np.uint64
) -> None:
    """Fills the places of one view from place n on with random peers of `known` that are not in the
    view yet.

    pile: int32 [len(known)], working memory.
    """
    length = _listed(known, pile)
    _draw_first(pile, length, length, key, 0)
    for p in range(length):
        if n < len(view) and not contains(view, n, pile[p]):
            view[n] = pile[p]
            n += 1
