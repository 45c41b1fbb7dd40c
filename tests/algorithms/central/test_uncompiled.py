"""The slow oracle: every centralised baseline ends with the same bytes when its kernels run as
plain Python.
"""

from __future__ import annotations

import importlib.util
import json

from plain_python import printed_both_ways

PROGRAM = """
import hashlib, json, sys
import numpy as np
from entrenous.systems.named import algorithms
from entrenous.core.keys import key
from entrenous.data.interactions import Vocabulary
from entrenous.data.interactions import build

rng = np.random.default_rng(0)
user, item = np.nonzero(rng.random((15, 12)) < 0.4)
value = rng.integers(1, 6, len(user))
data = build(user, item, value=value, users=Vocabulary(size=16), items=Vocabulary(size=12))
for name, settings in json.loads(sys.argv[1]).items():
    algorithm = type(algorithms()[name]()).parse(settings)
    model = algorithm.fit(data, key(3))
    parts = [*model, algorithm.score(model, data, np.arange(16))]
    print(name, hashlib.sha256(b"".join(np.asarray(part).tobytes() for part in parts)).hexdigest())
"""
BY_RATINGS = {
    "factors": 18,
    "epochs": 3,
    "learning_rate": 0.05,
    "decay": 0.9,
    "reg": 0.1,
    "init_std": 0.1,
}
CASES = {
    "random": {},
    "user-knn": {"k": 4},
    "item-knn": {"k": 4, "normalise": True},
    "bpr-mf": {"epochs": 3},
    "ease": {},
    "central-gmf": {"factors": 5, "layers": "", "epochs": 2, "batch": 7},
    "central-mlp": {"factors": 0, "layers": "17,3", "epochs": 1, "optimiser": "sgd", "reg": 0.1},
    "central-neumf": {"factors": 3, "layers": "4", "epochs": 1, "negatives": 2},
    "pmf": BY_RATINGS,
    "biased-mf": BY_RATINGS,
    "svd++": BY_RATINGS,
    "ials": {"epochs": 2},
    "vae": {"epochs": 1, "hidden": 6, "latent": 3},
}
NEEDS = {"vae": "torch", "ials": "implicit"}


def test_plain_python_gives_the_same_bytes() -> None:
    here = {
        name: case
        for name, case in CASES.items()
        if name not in NEEDS or importlib.util.find_spec(NEEDS[name])
    }
    lines = printed_both_ways(PROGRAM, json.dumps(here)).splitlines()
    assert [line.split()[0] for line in lines] == list(here)
    assert len({line.split()[1] for line in lines}) == len(here)
