"""The slow oracle: every centralised baseline ends with the same bytes when its kernels run as
plain Python.
"""

from __future__ import annotations

import importlib.util
import json

import pytest
from plain_python import printed

PROGRAM = """
import hashlib, json, sys
import numpy as np
from entrenous.systems.named import algorithms
from entrenous.core.keys import key
from entrenous.data.interactions import Vocabulary
from entrenous.data.interactions import build

user, item = np.nonzero(np.random.default_rng(0).random((15, 12)) < 0.4)
data = build(user, item, users=Vocabulary(size=16), items=Vocabulary(size=12))
for name, settings in json.loads(sys.argv[1]).items():
    algorithm = type(algorithms()[name]()).parse(settings)
    model = algorithm.fit(data, key(3))
    parts = [*model, algorithm.score(model, data, np.arange(16))]
    print(name, hashlib.sha256(b"".join(np.asarray(part).tobytes() for part in parts)).hexdigest())
"""
CASES = {
    "random": {},
    "user-knn": {"k": 4},
    "item-knn": {"k": 4, "normalise": True},
    "bpr-mf": {"epochs": 3},
    "ease": {},
    "ials": {"epochs": 2},
    "vae": {"epochs": 1, "hidden": 6, "latent": 3},
}
NEEDS = {"vae": "torch", "ials": "implicit"}
HERE = {
    name: case
    for name, case in CASES.items()
    if name not in NEEDS or importlib.util.find_spec(NEEDS[name])
}


@pytest.fixture(scope="module")
def both_ways():
    """The digests that plain Python and compiled code end with, by name: one process each."""
    return [
        dict(line.split() for line in printed(PROGRAM, json.dumps(HERE), compiled=way).splitlines())
        for way in (False, True)
    ]


@pytest.mark.parametrize("name", CASES)
def test_plain_python_gives_the_same_bytes(name, both_ways):
    if name not in HERE:
        pytest.skip(f"{NEEDS[name]} is not installed")
    plain, compiled = both_ways
    assert (
        plain[name] == compiled[name]
        and len(plain[name]) == 64
        and len(set(plain.values())) == len(HERE)
    )
