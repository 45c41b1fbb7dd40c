"""The compiled kernels of splits and evaluation against the same functions run as plain Python."""

import os
import subprocess
import sys

from paths import HELPERS

PROGRAM = """
import hashlib, numpy as np
from small_data import Scores, random_data
from entrenous.evaluate.protocol import evaluate
from entrenous.evaluate.summary import interval
from entrenous.split.protocol import protocols, splits

digest, data = hashlib.sha256(), random_data(items=120)
scores = Scores(np.random.default_rng(0).integers(0, 9, (40, 120)))
for name in [name for name in protocols() if name not in ("given", "ncf-99") and "pepper-given" not in name] + ["loo-9"]:
    for split in splits(name, data, seed=5):
        found = evaluate(scores, split.final_train, split.test, label="oracle", seed=5)
        digest.update(split.test.rows.item.tobytes() + found.ranking.rank.tobytes() + found.lists.item.tobytes())
        digest.update(b"" if split.test.candidates is None else split.test.candidates.tobytes())
        digest.update(f"{sorted(found.metrics.items())} {interval(found.per_user['ndcg@10'], resamples=20)}".encode())
print(digest.hexdigest())
"""


def digest(**environment):
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        cwd=HELPERS,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout.strip()


def test_compiled_and_uncompiled_kernels_agree():
    assert digest() == digest(NUMBA_DISABLE_JIT="1")
