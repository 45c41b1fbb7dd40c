"""The bench of evaluation, small: what it trains nothing for takes memory by blocks."""

import tracemalloc

from entrenous_lab.benches.evaluate import Factors, spread

from entrenous.data.split.types import Held
from entrenous.evaluation.protocol import evaluate


def test_memory_is_bounded_by_the_block_not_by_users_times_items(monkeypatch):
    """A tenth of 17,473 x 47,270 in each direction would be 33 MB of scores; a block is 1.2 MB
    here, and 16 MB by default.
    """
    users, items, rows = 1_747, 4_727, 60_000
    train, held, model = (
        spread(users, items, rows * 4 // 5, 0),
        Held(spread(users, items, rows // 5, 1)),
        Factors(users, items, 20),
    )
    monkeypatch.setattr("entrenous.evaluation.recommend.BLOCK_SCORES", 64 * items)
    evaluate(model, train, held, label="compile")
    tracemalloc.start()
    found = evaluate(model, train, held, label="bench")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found.user) == users
    assert peak < 12e6
