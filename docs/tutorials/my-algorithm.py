# %% [markdown]
# # My algorithm: one class, from an idea to a comparison
#
# After this page you can write a federated algorithm in plain NumPy, have its contract checked, and
# compare it with published ones.
#
# ## The idea
#
# Each device keeps a vector for its user. It prefers each book that the user read to one drawn at
# random, and sends how the vectors of these books should move. The arrays that the server holds,
# that a device keeps and that it sends are declared.

# %%
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

import entrenous
from entrenous import Float32Array, Settings, Update, axes, fold_name, generator, negatives, real
from entrenous import rows as rows_of_items


class Items(NamedTuple):
    q: Annotated[Float32Array, axes("items", "factors")]


class Own(NamedTuple):
    p: Annotated[Float32Array, axes("factors")]


# %% [markdown]
# `local` runs on the device and `aggregate` on the server. All randomness comes from keys that
# name the round and the user, never from a global generator.

# %%
class Pairwise(Settings):
    """Each device prefers what its user has to items drawn at random, one of them for each."""

    factors: int = Field(16, ge=1, description="length of the vectors")
    rate: float = Field(0.2, gt=0, description="step of every device")

    holds = receives = Items
    keeps = Own
    sends = (
        rows_of_items(
            "q", "factors", when="each round", reveals="the user's items, among random ones"
        ),
    )

    def configured(self, catalogue):
        return self

    def default_rounds(self, catalogue):
        return 60

    def init_server(self, catalogue, key):
        vectors = generator(key).normal((catalogue.items, self.factors), 0.1)
        return Items(vectors.astype(np.float32))

    def init_devices(self, users, catalogue, key):
        vectors = [generator(fold_name(key, user)).normal(self.factors, 0.1) for user in users]
        return Own(np.array(vectors, np.float32).reshape(-1, self.factors))

    def select(self, server, catalogue, key):
        return np.arange(catalogue.users)

    def download(self, server):
        return server

    def local(self, download, devices, histories, users, key):
        p = devices.p.copy()
        ptr, items, moves = [0], [], []
        for d, user in enumerate(users):
            own = histories.item[histories.ptr[d] : histories.ptr[d + 1]]
            avoid = histories.avoid[histories.avoid_ptr[d] : histories.avoid_ptr[d + 1]]
            draws = generator(fold_name(key, user))
            other = negatives(draws, avoid, len(download.q), len(own))
            apart = download.q[own] - download.q[other]
            pull = self.rate / (1 + np.exp((apart * p[d]).sum(axis=1, keepdims=True)))
            touched, place = np.unique(np.concatenate([own, other]), return_inverse=True)
            move = np.zeros((len(touched), self.factors), np.float32)
            np.add.at(move, place, np.concatenate([pull * p[d], -pull * p[d]]))
            p[d] += (pull * apart).sum(axis=0)
            ptr.append(ptr[-1] + len(touched))
            items.append(touched)
            moves.append(move)
        if not items:
            items, moves = [np.zeros(0)], [np.zeros((0, self.factors), np.float32)]
        rows = {"q": np.concatenate(moves)}
        weight = np.ones(len(users), np.float32)
        return Own(p), Update(
            np.array(ptr), np.concatenate(items).astype(np.int32), rows, {}, weight
        )

    def aggregate(self, server, total):
        mean = real(total.rows["q"]) / np.maximum(total.senders, 1)[:, None]
        return Items((server.q + mean).astype(np.float32))

    def score(self, download, devices, histories):
        return np.array([download.q @ vector for vector in devices.p], np.float32)


# %% [markdown]
# ## Does it keep its contract?
#
# `conform` trains on small made-up data. It checks shapes, declared ranges, that nothing undeclared
# is sent, and that the same key gives the same numbers. Silence is a pass:

# %%
entrenous.conform(Pairwise())

# %% [markdown]
# A device that sends what it did not declare is refused by name:

# %% [raises]
class Chatty(Pairwise):
    def local(self, download, devices, histories, users, key):
        own, update = super().local(download, devices, histories, users, key)
        return own, update._replace(dense={"p": devices.p})


entrenous.conform(Chatty())

# %% [markdown]
# ## Is it any good?

# %%
entrenous.compare([Pairwise(), "fcf", "popular"], "books.csv", seeds=2, rounds=60, progress=False)

# %% [markdown]
# Choose its settings on validation rows; the test rows stay closed:

# %%
entrenous.tune(Pairwise, "books.csv", grid={"rate": [0.1, 0.5]}, every=20, progress=False)

# %% [markdown]
# [Add your own](../add-your-own.md) has the whole contract, and how a file of yours becomes a name
# in every command.
