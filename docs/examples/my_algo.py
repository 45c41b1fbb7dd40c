"""Pairwise matrix factorisation in plain NumPy: a device keeps its user's vector, and sends how the vectors of items should move."""

from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from entrenous import Float32Array, Settings, Update, axes, fold_name, generator, negatives, real, rows


class Items(NamedTuple):  # what the server holds and every device receives
    q: Annotated[Float32Array, axes("items", "factors")]


class Own(NamedTuple):  # what a device keeps to itself: a row for each device
    p: Annotated[Float32Array, axes("factors")]


class MyAlgorithm(Settings):
    """Each device prefers what its user has to items drawn at random, one of them for each."""

    factors: int = Field(10, ge=1, description="length of the vectors")
    learning_rate: float = Field(0.1, gt=0, description="step of every device")
    weight: float = Field(1.0, gt=0, description="how much of the devices' mean step the server takes")

    holds = receives = Items
    keeps = Own
    sends = (rows("q", "factors", when="each round", reveals="the items that the user has, between as many random ones"),)

    def configured(self, catalogue):
        return self

    def default_rounds(self, catalogue):
        return 60

    def init_server(self, catalogue, key):
        return Items(generator(key).normal((catalogue.items, self.factors), 0.1).astype(np.float32))

    def init_devices(self, users, catalogue, key):
        vectors = [generator(fold_name(key, user)).normal(self.factors, 0.1) for user in users]
        return Own(np.array(vectors, np.float32).reshape(-1, self.factors))

    def select(self, server, catalogue, key):
        return np.arange(catalogue.users)  # everybody, in every round

    def download(self, server):
        return server

    def local(self, download, devices, histories, users, key):
        p, ptr, item, row = devices.p.copy(), [0], [], []
        for d, user in enumerate(users):
            own = histories.item[histories.ptr[d] : histories.ptr[d + 1]]
            avoid = histories.avoid[histories.avoid_ptr[d] : histories.avoid_ptr[d + 1]]
            other = negatives(generator(fold_name(key, user)), avoid, len(download.q), len(own))
            apart = download.q[own] - download.q[other]
            pull = self.learning_rate / (1 + np.exp((apart * p[d]).sum(axis=1, keepdims=True)))
            touched, at = np.unique(np.concatenate([own, other]), return_inverse=True)
            move = np.zeros((len(touched), self.factors), np.float32)
            np.add.at(move, at, np.concatenate([pull * p[d], -pull * p[d]]).astype(np.float32))
            p[d] += (pull * apart).sum(axis=0).astype(np.float32)
            ptr, item, row = [*ptr, ptr[-1] + len(touched)], [*item, touched], [*row, move]
        sent = {"q": np.concatenate(row or [np.zeros((0, self.factors), np.float32)])}
        items = np.concatenate(item or [np.zeros(0)]).astype(np.int32)
        return Own(p), Update(np.array(ptr), items, sent, {}, np.ones(len(users), np.float32))

    def aggregate(self, server, total):
        mean = real(total.rows["q"]) / np.maximum(total.senders, 1)[:, None]
        return Items((server.q + self.weight * mean).astype(np.float32))

    def score(self, download, devices, histories):
        return np.array([download.q @ vector for vector in devices.p], np.float32)
