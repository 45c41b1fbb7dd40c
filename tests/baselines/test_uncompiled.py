"""The slow oracle: every centralised baseline ends with the same bytes when its kernels run as plain Python."""

from __future__ import annotations

import importlib.util

import pytest
from plain_python import printed_both_ways

PROGRAM = """
import hashlib, sys
import numpy as np
from entrenous.core.discover import algorithms
from entrenous.core.keys import key
from entrenous.core.vocabulary import Vocabulary
from entrenous.data.interactions import build

name, settings = sys.argv[1], dict(pair.split("=") for pair in sys.argv[2:])
user, item = np.nonzero(np.random.default_rng(0).random((15, 12)) < 0.4)
data = build(user, item, users=Vocabulary(size=16), items=Vocabulary(size=12))
algorithm = type(algorithms()[name]()).parse(settings)
model = algorithm.fit(data, key(3))
parts = [*model, algorithm.score(model, data, np.arange(16))]
print(hashlib.sha256(b"".join(np.asarray(part).tobytes() for part in parts)).hexdigest())
"""
CASES = {
    "random": (),
    "user-knn": ("k=4",),
    "item-knn": ("k=4", "normalise=true"),
    "bpr-mf": ("epochs=3",),
    "ials": ("epochs=2",),
}
CASES["vae"] = ("epochs=1", "hidden=6", "latent=3")
NEEDS = {"vae": "torch", "ials": "implicit"}


@pytest.mark.parametrize("name", CASES)
def test_plain_python_gives_the_same_bytes(name):
    if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed")
    assert len(printed_both_ways(PROGRAM, name, *CASES[name])) == 64
