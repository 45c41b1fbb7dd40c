"""Agreement with trec_eval (through ir-measures) to 1e-9 on random rankings, for every metric that
both define.
"""

import numpy as np
import pytest
from small_data import Scores, interactions

from entrenous.data.split.types import Held
from entrenous.evaluation.protocol import evaluate

ir = pytest.importorskip("ir_measures")
OURS = {"precision": "P", "recall": "R", "ndcg": "nDCG", "mrr": "RR", "map": "AP", "hr": "Success"}
LENGTHS = (1, 5, 10, 20)


@pytest.fixture(scope="module")
def case():
    """50 users, 60 items, all scores different; the last two items have no training row, so
    trec_eval does not get them.
    """
    rng = np.random.default_rng(5)
    users, items = [f"u{n:02}" for n in range(50)], [f"i{n:02}" for n in range(60)]
    scores = np.stack([rng.permutation(60) for _ in users]).astype(np.float32)
    train, held = [], []
    for u in range(50):
        mine = rng.permutation(60)[: rng.integers(3, 30)].tolist()
        cut = rng.integers(1, len(mine))
        train += [(users[u], items[i]) for i in mine[:cut] if i < 58]
        held += [(users[u], items[i]) for i in mine[cut:]]
    train += [
        pair
        for i in range(58)
        if (pair := (users[i % 50], items[i])) not in train and pair not in held
    ]
    return (
        interactions(train, users=users, items=items),
        interactions(held, users=users, items=items),
        scores,
    )


@pytest.fixture(scope="module")
def theirs(case):
    train, held, scores = case
    seen = set(zip(train.user.tolist(), train.item.tolist(), strict=True))
    known = np.flatnonzero(train.popularity)
    qrels = [ir.Qrel(str(u), str(i), 1) for u, i in zip(held.user, held.item, strict=True)]
    run = [
        ir.ScoredDoc(str(u), str(i), float(scores[u, i]))
        for u in range(50)
        for i in known
        if (u, i) not in seen
    ]
    wanted = {
        f"{ours}@{n}": ir.parse_measure(f"{name}@{n}")
        for ours, name in OURS.items()
        for n in LENGTHS
        if ours != "mrr"
    }
    found = {}
    for ours, measure in wanted.items():
        found[ours] = {
            int(one.query_id): one.value for one in ir.pytrec_eval.iter_calc([measure], qrels, run)
        }
    for n in LENGTHS:  # trec_eval has no cutoff for the reciprocal rank, so the run is cut
        top = [
            doc
            for u in range(50)
            for doc in sorted((d for d in run if d.query_id == str(u)), key=lambda d: -d.score)[:n]
        ]
        found[f"mrr@{n}"] = {
            int(one.query_id): one.value for one in ir.pytrec_eval.iter_calc([ir.RR], qrels, top)
        }
    return found


@pytest.mark.parametrize("name", [f"{ours}@{n}" for ours in OURS for n in LENGTHS])
def test_each_user_has_the_value_of_trec_eval(name, case, theirs):
    train, held, scores = case
    found = evaluate(Scores(scores), train, Held(held), label="random", n=LENGTHS)
    assert len(theirs[name]) == len(found.user) == 50
    assert found.per_user[name].tolist() == pytest.approx(
        [theirs[name][u] for u in found.user.tolist()], abs=1e-9
    )
    assert 0 < found.metrics[name] < 1
