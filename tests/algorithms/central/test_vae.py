"""Mult-VAE: the scores are the network's, the loss by hand, the same bytes (skipped where torch is
not installed).
"""

from __future__ import annotations

import sys

import numpy as np
import pytest

from entrenous.core.errors import InputError
from entrenous.core.keys import key
from entrenous.data.interactions import Vocabulary, build
from entrenous.systems.central.vae import Vae, VaeModel


@pytest.fixture
def blocks():
    """60 users in three tastes of 10 items each, about 6 items a user; user 60 has none."""
    rng = np.random.default_rng(0)
    rows = [(u, i) for u in range(60) for i in range(30) if i // 10 == u % 3 and rng.random() < 0.6]
    return build(*zip(*rows, strict=True), users=Vocabulary(size=61), items=Vocabulary(size=30))


def test_the_scores_are_the_decoder_at_the_mean(blocks):
    rng = np.random.default_rng(1)
    shapes = (30, 5), (5,), (5, 3), (3,), (3, 5), (5,), (5, 30), (30,)
    model = VaeModel(*(rng.normal(size=shape).astype(np.float32) for shape in shapes))
    x = np.zeros((61, 30))
    x[blocks.user, blocks.item] = 1
    x /= np.maximum(np.sqrt(x.sum(axis=1, keepdims=True)), 1)
    mu = np.tanh(x @ model.W1 + model.b1) @ model.W2 + model.b2
    expected = np.tanh(mu @ model.W3 + model.b3) @ model.W4 + model.b4
    assert Vae().score(model, blocks, np.arange(61)) == pytest.approx(expected, abs=1e-4)


def test_without_torch_one_line_says_what_to_do(blocks, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        InputError, match=r'^vae: torch is not installed; pip install "entrenous\[torch\]"$'
    ):
        Vae().fit(blocks, key(0))


def test_the_loss_by_hand():
    torch = pytest.importorskip("torch")
    algorithm, x = Vae(hidden=2, latent=1, dropout=0), torch.tensor([[1.0, 0, 1, 0]])
    zero = [torch.zeros(shape) for shape in ((4, 2), 2, (2, 2), 2, (1, 2), 2, (2, 4), 4)]
    zero[3] = torch.tensor([3.0, 0.0])  # mu = 3, log sigma^2 = 0: KL = 9 / 2
    loss = algorithm.loss(torch, torch.Generator().manual_seed(0), zero, x, 0.5).item()
    assert loss == pytest.approx(2 * np.log(4) + 0.5 * 9 / 2)


def test_the_same_key_gives_the_same_bytes_whatever_torch_s_settings(blocks):
    torch = pytest.importorskip("torch")
    algorithm, before = Vae(hidden=8, latent=3, epochs=3), torch.get_num_threads()
    first = algorithm.fit(blocks, key(0))
    torch.manual_seed(99)
    torch.set_num_threads(2)
    again = algorithm.fit(blocks, key(0))
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)
    assert [array.tobytes() for array in first] == [array.tobytes() for array in again]
    assert algorithm.fit(blocks, key(1)).W1.tobytes() != first.W1.tobytes()
