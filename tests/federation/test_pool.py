"""The table of models: whoever needs one keeps it, wherever it is put."""

from __future__ import annotations

import numpy as np
import pytest

from entrenous.core.contract.gossip import UNSEEN
from entrenous.federation.pool import Pool


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kept", [0, 3])
def test_a_pool_put_in_order_holds_what_it_held(seed: int, kept: int) -> None:
    rng, pool = np.random.default_rng(seed), Pool(4, 12)
    slots = pool.take(10)
    pool.values[slots], pool.kept = slots[:, None] + 0.5, kept
    pool.share(slots[::3])
    pool.drop(rng.permutation(slots[kept:])[:3])
    needed = {
        slot: (int(pool.needed[slot]), pool.values[slot].tolist())
        for slot in np.flatnonzero(pool.needed)
    }
    first = rng.permutation([slot for slot in needed if slot >= kept])[:4]
    where = pool.compact(first)
    assert sorted(where.tolist()) == list(range(12)) and pool.used == len(needed)
    assert where[:kept].tolist() == list(range(kept)) and where[first].tolist() == [
        kept + k for k in range(4)
    ]
    assert {
        slot: (int(pool.needed[where[slot]]), pool.values[where[slot]].tolist()) for slot in needed
    } == needed
    assert sorted(where[list(needed)].tolist()) == list(range(len(needed)))
    assert pool.take(12 - len(needed)).tolist() == list(range(len(needed), 12))
    assert pool.compact(np.arange(kept, kept + 4)).tolist() == list(range(12))


def test_a_slot_is_free_when_nobody_needs_it_and_no_sooner() -> None:
    pool = Pool(4, 3)
    one, two = pool.take(2).tolist()
    pool.share(np.array([one, one]))  # two messages with the model of a node
    pool.values[one] = 7
    pool.drop(np.array([one]))
    assert pool.needed[one] == 2 and pool.used == 2
    pool.drop(np.array([one]))
    assert (
        pool.needed[one] == 1
        and pool.used == 2
        and one not in pool.take(3).tolist()
        and (pool.values[one] == 7).all()
    )
    assert (
        pool.compact(np.arange(4)).tolist()
        and (pool.numbers == UNSEEN).all()
        and len(pool.numbers) == len(pool.needed)
    )
    pool.drop(np.array([one]))
    assert pool.needed[one] == 0 and pool.used == 4 and pool.take(1).tolist() == [one]
    assert pool.most == 5 and pool.needed[two] == 1
