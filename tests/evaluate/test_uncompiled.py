"""The compiled kernels of splits and evaluation against the same functions run as plain Python."""

from plain_python import printed_both_ways

PROGRAM = """
import hashlib, numpy as np
from small_data import Scores, random_data
from entrenous.evaluation.protocol import evaluate
from entrenous.evaluation.summary import interval
from entrenous.data.split.protocol import protocols, splits

digest, data = hashlib.sha256(), random_data(items=120)
table = np.random.default_rng(0).integers(0, 9, (40, 120))
for name in [name for name in protocols() if name not in ("given", "ncf-99", "global-at-2020-01-01") and "pepper-given" not in name and not name.startswith(("stream", "users-"))] + ["loo-9"]:
    for split in splits(name, data, seed=5):
        scores = Scores(table[:, data.items.indices(split.train.items.ids.tolist())])
        found = evaluate(scores, split.final_train, split.test, label="oracle", seed=5)
        digest.update(split.test.rows.item.tobytes() + found.ranking.rank.tobytes() + found.lists.item.tobytes())
        digest.update(b"" if split.test.candidates is None else split.test.candidates.tobytes())
        digest.update(f"{sorted(found.metrics.items())} {interval(found.per_user['ndcg@10'], resamples=20)}".encode())
print(digest.hexdigest())
"""


def test_compiled_and_uncompiled_kernels_agree():
    assert len(printed_both_ways(PROGRAM)) == 64
