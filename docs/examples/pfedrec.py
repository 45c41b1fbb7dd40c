"""PFedRec in plain NumPy: a device keeps a score function of its own and the rows of items that it has tuned."""

from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from entrenous import Float32Array, OwnRows, Settings, Update, axes, fold_name, generator, negatives, real, rows


class Items(NamedTuple):
    q: Annotated[Float32Array, axes("items", "factors")]
    first: Annotated[Float32Array, axes("factors")]  # the score function with which every device begins


class Own(NamedTuple):
    w: Annotated[Float32Array, axes("factors")]
    own: Annotated[OwnRows, axes("items", "factors")]  # the rows of Q_u that differ from Q, not a table for each device


class PFedRec(Settings):
    """Each device tunes the items that the server sends before it recommends by them."""

    factors: int = Field(32, ge=1, description="length of the vectors")
    learning_rate: float = Field(0.1, gt=0, description="step of the score function")
    eta: float = Field(80.0, gt=0, description="items step by learning_rate times their number times this")

    holds = receives = Items
    keeps = Own
    sends = (rows("q", "factors", when="each round", reveals="what was touched, and by the direction of its move what was consumed"),)

    def configured(self, catalogue):
        return self

    def default_rounds(self, catalogue):
        return 100

    def init_server(self, catalogue, key):
        q = generator(fold_name(key, "q")).normal((catalogue.items, self.factors), 1.0)
        first = generator(fold_name(key, "w")).normal(self.factors, 0.1)
        return Items(q.astype(np.float32), first.astype(np.float32))

    def init_devices(self, users, catalogue, key):
        return Own(np.zeros((len(users), self.factors), np.float32), OwnRows.none(len(users), self.factors))

    def select(self, server, catalogue, key):
        return np.arange(catalogue.users)

    def download(self, server):
        return server

    def local(self, download, devices, histories, users, key):
        w, ptr, item, row = self._functions(download, devices), [0], [], []
        rate = self.learning_rate * len(download.q) * self.eta
        for d, user in enumerate(users):
            own = histories.item[histories.ptr[d] : histories.ptr[d + 1]]
            avoid = histories.avoid[histories.avoid_ptr[d] : histories.avoid_ptr[d + 1]]
            other = negatives(generator(fold_name(key, user)), avoid, len(download.q), 4 * len(own))
            touched, at = np.unique(np.concatenate([own, other]), return_inverse=True)
            label = np.arange(len(at)) < len(own)
            q = download.q[touched]
            w[d] -= self.learning_rate * self._slopes(q[at] @ w[d], label) @ q[at]  # the score function first
            weight = np.bincount(at, self._slopes(q[at] @ w[d], label), len(touched))
            q = q - rate * weight[:, None] * w[d]  # then the items, by the new score function
            ptr, item, row = [*ptr, ptr[-1] + len(touched)], [*item, touched], [*row, q]
        items = np.concatenate([np.zeros(0), *item]).astype(np.int32)
        tuned = np.concatenate([np.zeros((0, self.factors)), *row]).astype(np.float32)
        own = OwnRows(np.array(ptr), items, tuned)
        sent = {"q": tuned - download.q[items]}
        return Own(w, own), Update(np.array(ptr), items, sent, {}, np.ones(len(users), np.float32))

    def aggregate(self, server, total):
        mean = real(total.rows["q"]) / max(1, total.devices)
        return server._replace(q=(server.q + mean).astype(np.float32))

    def score(self, download, devices, histories):
        w = self._functions(download, devices)
        scores = [devices.own.over(download.q, d) @ w[d] for d in range(len(w))]
        return np.array(scores, np.float32).reshape(len(w), len(download.q))

    def _functions(self, download, devices):
        begun = devices.w.any(axis=1, keepdims=True)
        return np.where(begun, devices.w, download.first)

    def _slopes(self, logit, label):
        return (1 / (1 + np.exp(-logit)) - label) / max(1, len(label))
