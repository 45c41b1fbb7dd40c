"""`vae`: a variational autoencoder over whole histories, trained with torch, used with NumPy."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from pydantic import Field

from ...core.compiling import njit
from ...core.contract.protocols import Progress, silent
from ...core.contract.settings import Settings
from ...core.keys import fold_name
from ...core.types import Float32Array, Int32Array, Int64Array
from ...data.interactions import Interactions
from ...kernels.bpr_mf import scores
from ._shared import need

# Torch tensors: weight [in, out] and bias [out] of each layer, in order.
Layers = list[Any]


class VaeModel(NamedTuple):
    """A trained model: weights W, float32 [in, out], and biases b, float32 [out], of the layers in
    order, items -> hidden -> latent -> hidden -> items.

    W2, b2 give the mean of the latent vector; its variance matters in training only.
    """

    W1: Float32Array
    b1: Float32Array
    W2: Float32Array
    b2: Float32Array
    W3: Float32Array
    b3: Float32Array
    W4: Float32Array
    b4: Float32Array


@final
class Vae(Settings):
    """Mult-VAE: a variational autoencoder with multinomial likelihood (Liang et al. 2018, sections
    2.1-2.2).

    x_u -> L2 norm, dropout -> tanh(hidden) -> (mu, log sigma^2) of z -> tanh(hidden) -> softmax
    over items (pi). Maximises sum x_ui ln pi_i - beta KL(q(z | x_u) || N(0, I)) by Adam, with beta
    growing linearly from 0 to its cap. FPL's topologies 200-100-200, 300-100-300 and 600-200-600
    are `hidden`-`latent`-`hidden`. Every row counts as consumed. A user without training rows
    gets the decoding of an empty history. Training needs torch (the extra `torch`) and runs on
    one thread; recommending does not. Raises InputError without torch.
    """

    # The model.
    hidden: int = Field(200, ge=1, description="neurons of the hidden layer, on both sides")
    latent: int = Field(100, ge=1, description="length of the latent vector z")
    # Training.
    epochs: int = Field(100, ge=1, description="passes over all users")
    batch_size: int = Field(50, ge=1, description="users a step")
    learning_rate: float = Field(1e-3, gt=0, description="step of Adam")
    dropout: float = Field(
        0.5, ge=0, lt=1, description="share of a history hidden from the encoder in training"
    )
    # The weight of the KL term.
    beta: float = Field(0.2, ge=0, description="cap of the weight of the KL term")
    anneal_epochs: float = Field(
        50, gt=0, description="epochs over which beta grows linearly to its cap"
    )

    holds: ClassVar[type] = VaeModel

    def fit(self, data: Interactions, key: np.uint64, progress: Progress = silent) -> VaeModel:
        torch = need("torch", "vae")
        with one_thread(torch):
            layers = self._train(torch, data, key, progress)
        arrays = [layer.detach().numpy() for layer in layers]
        # Of mu and log sigma^2 the first alone.
        arrays[2] = arrays[2][:, : self.latent]
        arrays[3] = arrays[3][: self.latent]
        return VaeModel(*(np.ascontiguousarray(array) for array in arrays))

    def score(self, model: VaeModel, data: Interactions, users: Int64Array) -> Float32Array:
        """Returns the scores of every item: the decoder's logits at z = mu, float32 [len(users),
        items].
        """
        who = np.asarray(users, np.int64)
        hidden = squash(encode(model.W1, model.b1, data.ptr, data.item, who))
        latent = scores(hidden, model.W2.T, model.b2)
        hidden = squash(scores(latent, model.W3.T, model.b3))
        return scores(hidden, model.W4.T, model.b4)

    def _train(self, torch: Any, train: Interactions, key: np.uint64, progress: Progress) -> Layers:
        # Torch's own generator, seeded by the key: a shift, because its seeds are signed.
        seed = int(fold_name(key, "vae")) >> 1
        random = torch.Generator().manual_seed(seed)
        layers = self._start(torch, random, len(train.items))
        # Fused: one pass over the weights a step. Over 25,000 items the default's passes take
        # longer than the gradient.
        adam = torch.optim.Adam(layers, lr=self.learning_rate, fused=True)
        # Users without a history teach nothing.
        users = np.flatnonzero(train.counts)
        steps = 0
        per_epoch = math.ceil(len(users) / self.batch_size)
        for epoch in range(self.epochs):
            order = users[torch.randperm(len(users), generator=random).numpy()]
            for start in range(0, len(users), self.batch_size):
                batch = order[start : start + self.batch_size]
                x = torch.from_numpy(dense(train, batch))
                # The weight of the KL term grows with the steps taken.
                annealed = steps / (self.anneal_epochs * per_epoch)
                beta = self.beta * min(1.0, annealed)
                # One step of Adam for each batch of users.
                adam.zero_grad()
                self.loss(torch, random, layers, x, beta).backward()
                adam.step()
                steps += 1
            progress(epoch + 1, self.epochs, "epochs")
        return layers

    def _start(self, torch: Any, random: Any, items: int) -> Layers:
        """Returns Xavier-normal weights and biases of N(0, 0.001^2), as the authors' program
        starts.
        """
        layers = []
        shapes = [
            (items, self.hidden),
            (self.hidden, 2 * self.latent),
            (self.latent, self.hidden),
            (self.hidden, items),
        ]
        for width, out in shapes:
            # Glorot's standard deviation.
            spread = math.sqrt(2 / (width + out))
            layers.append(torch.randn(width, out, generator=random) * spread)
            # Biases start near 0, as the authors' do.
            layers.append(torch.randn(out, generator=random) * 0.001)
        return [layer.requires_grad_() for layer in layers]

    def loss(self, torch: Any, random: Any, layers: Layers, x: Any, beta: float) -> Any:
        """Returns the negative ELBO of a batch x [m, items], the mean over its users (eq. 5)."""
        W1, b1, W2, b2, W3, b3, W4, b4 = layers
        shown = torch.rand(x.shape, generator=random) >= self.dropout
        # Dropout hides items of the history, and the others count for more.
        unit = torch.nn.functional.normalize(x)
        seen = unit * shown / (1 - self.dropout)
        hidden = torch.tanh(seen @ W1 + b1)
        mu, log_var = torch.split(hidden @ W2 + b2, self.latent, dim=1)
        # A latent vector is drawn; its noise does not depend on the weights.
        noise = torch.randn(mu.shape, generator=random)
        z = mu + noise * torch.exp(log_var / 2)
        decoded = torch.tanh(z @ W3 + b3)
        log_pi = torch.log_softmax(decoded @ W4 + b4, dim=1)
        # KL(N(mu, sigma^2) || N(0, 1)), and the multinomial likelihood of the history.
        gap = mu**2 + torch.exp(log_var) - 1 - log_var
        kl = 0.5 * gap.sum(dim=1)
        likelihood = (x * log_pi).sum(dim=1)
        return (beta * kl - likelihood).mean()


def dense(train: Interactions, users: Int64Array) -> Float32Array:
    """Returns the histories of some users as rows of ones and zeros, float32 [len(users),
    items].
    """
    out = np.zeros((len(users), len(train.items)), np.float32)
    row = np.repeat(np.arange(len(users)), train.counts[users])
    out[row, train.item[train.rows_of(users)]] = 1
    return out


@contextmanager
def one_thread(torch: Any) -> Iterator[None]:
    """Runs torch on one thread within the context, so that a sum is added up in one order;
    restores its setting afterwards.
    """
    # Sums over several threads would depend on their number.
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@njit(cache=True, nogil=True)
def encode(
    W: Float32Array, b: Float32Array, ptr: Int64Array, item: Int32Array, users: Int64Array
) -> Float32Array:
    """Returns the hidden layer before its tanh, x / |x| @ W + b for the histories x of some users,
    float32 [len(users), hidden].
    """
    out = np.empty((len(users), len(b)), np.float32)
    for r in range(len(users)):
        u = users[r]
        history = item[ptr[u] : ptr[u + 1]]
        # 1 / |x|, for a history of ones.
        # A user without a history has a vector of zeros, of any length.
        length = max(len(history), 1)
        scale = np.float32(1.0 / math.sqrt(length))
        out[r] = b
        for i in history:
            for h in range(len(b)):
                out[r, h] += scale * W[i, h]
    return out


@njit(cache=True, nogil=True)
def squash(values: Float32Array) -> Float32Array:
    """Returns the hyperbolic tangent, one number at a time: the last bit of a vectorised one may
    depend on the place in the block.
    """
    out = np.empty_like(values)
    for r in range(len(values)):
        for h in range(values.shape[1]):
            out[r, h] = np.float32(math.tanh(np.float64(values[r, h])))
    return out


ALGORITHMS = {"vae": Vae}
