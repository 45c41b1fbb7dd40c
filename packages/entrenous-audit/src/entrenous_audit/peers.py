"""Peers that collude: nodes of a gossip network which push other models than they have, with false
headers.

They take part like all others: they train on a pretended profile, merge received models, and so
know the model that the network has. `PEERS` names the attacks. A receiver is protected by the
finite check, which is always on, the age that it believes (the setting `leap`), the weighting of
the algorithm itself (of PEPPER by performance, of gossip-age by age, of gossip-average by rows),
and by PEPPER's settings `least` and `alike`, which leave models out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple, final

import numpy as np

from entrenous.core.contract.gossip import Headers
from entrenous.core.types import Float32Array
from entrenous.data.interactions import Interactions, Vocabulary
from entrenous.data.split.types import Held
from entrenous.federation.gossip import Gossip, device_data
from entrenous.federation.swarm import Swarm
from entrenous.runs.recommenders import GossipRecommender
from entrenous.systems.gossip_node import GossipModel

from .colluders import POPULAR, Plot, Poison, by_popularity, without_target

BELIEVED = 64  # updates ahead that the defence `age` believes
# The share of its own performance that `distrust` asks of a received model, where there is PEPPER's
# weighting.
LEAST = 0.9
ALIKE = 0.1  # the cosine with the node's own model that `alike` asks of a received one
# As settings of the algorithm.
PEER_DEFENCES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {"none": {}, "age": {"leap": BELIEVED}, "distrust": {"least": LEAST}, "alike": {"alike": ALIKE}}
)

Push = Callable[[Float32Array, Float32Array, GossipModel, Plot], Float32Array]
"""From the models [m, width] of colluders, and the base model, to the models that they push."""


class PeerPoison(NamedTuple):
    """An attack of peers."""

    poison: Poison
    """Its profile, settings and source."""
    push: Push
    ahead: bool = False
    """True if they claim as many updates more as their setting `ahead` says."""


def boosted(
    models: Float32Array, base: Float32Array, model: GossipModel, plot: Plot
) -> Float32Array:
    """Models whose vector of the target points to popular items and is as long as the setting
    `strength`.
    """
    vectors = model.item_vectors(models)
    towards = vectors[:, plot.best(POPULAR)].mean(axis=1)
    length = np.linalg.norm(towards, axis=1, keepdims=True)
    strength = np.float32(plot.setting("strength"))
    vectors[:, plot.target] = strength * towards / np.maximum(length, 1e-12)
    return models


def among_popular(
    models: Float32Array, base: Float32Array, model: GossipModel, plot: Plot
) -> Float32Array:
    """Models whose vector of the target is a multiple of the mean vector of popular items, after
    PipAttack.
    """
    vectors = model.item_vectors(models)
    towards = vectors[:, plot.best(POPULAR)].mean(axis=1)
    vectors[:, plot.target] = np.float32(plot.setting("beyond")) * towards
    return models


def turned(
    models: Float32Array, base: Float32Array, model: GossipModel, plot: Plot
) -> Float32Array:
    """Models whose difference from the base model has the opposite sign."""
    factor = np.float32(plot.setting("factor"))
    return np.asarray(base - factor * (models - base), np.float32)


def noisy(models: Float32Array, base: Float32Array, model: GossipModel, plot: Plot) -> Float32Array:
    """`keep` times the models, plus normal numbers with `scale` times the standard deviation of a
    model's numbers.
    """
    deviation = models.std(axis=1, keepdims=True)
    noise = deviation * plot.draws("noise").normal(models.shape)
    lies = plot.setting("keep") * models + plot.setting("scale") * noise
    return lies.astype(np.float32)


def not_finite(
    models: Float32Array, base: Float32Array, model: GossipModel, plot: Plot
) -> Float32Array:
    """Models of NaN alone."""
    return np.full_like(models, np.nan)


def as_it_is(
    models: Float32Array, base: Float32Array, model: GossipModel, plot: Plot
) -> Float32Array:
    """The models as they are, trained on a pretended profile."""
    return models


OURS = "Belal et al., PEPPER, 2022, section 6 names poisoning; the attack is ours"
PIP = "after Zhang et al., PipAttack, WSDM 2022"
FAKE = "Lam and Riedl, WWW 2004"
# Updates; many more are refused, since no model can have had them (`gossip_node.oldest_after`).
AHEAD = {"ahead": 64.0}


def _poison(source: str, knows: str, promotes: bool, **settings: float) -> Poison:
    return Poison(source, knows, settings, promotes, by_popularity if promotes else without_target)


PEERS: Mapping[str, PeerPoison] = MappingProxyType(
    {
        "boost": PeerPoison(_poison(OURS, "how popular items are", True, strength=50.0), boosted),
        "pip": PeerPoison(_poison(PIP, "how popular items are", True, beyond=1.5), among_popular),
        "pip-old": PeerPoison(
            _poison(PIP, "how popular items are, how old models are", True, beyond=1.5, **AHEAD),
            among_popular,
            True,
        ),
        "fake": PeerPoison(_poison(FAKE, "how popular items are", True, fillers=30.0), as_it_is),
        "sign-flip": PeerPoison(_poison(OURS, "nothing", False, factor=1.0), turned),
        "noise": PeerPoison(_poison(OURS, "nothing", False, scale=1.0, keep=0.0), noisy),
        "not-finite": PeerPoison(_poison(OURS, "nothing", False), not_finite),
    }
)


@final
class LyingPeers:
    """The colluders of a gossip network, as `Gossip` has them."""

    def __init__(self, poison: PeerPoison, plot: Plot, model: GossipModel) -> None:
        self.who = plot.users
        self._poison = poison
        self._plot = plot
        self._model = model

    def __call__(
        self, models: Float32Array, base: Float32Array, headers: Headers
    ) -> tuple[Float32Array, Headers]:
        """The models and headers that they push in the place of these."""
        if self._poison.ahead:
            headers = headers._replace(age=headers.age + int(self._plot.setting("ahead")))
        return self._poison.push(models, base, self._model, self._plot), headers


def with_nobody(held: Held | None, users: int) -> Held | None:
    """Held-out rows over more users, of whom the further ones have none."""
    if held is None:
        return None
    ptr = held.rows.ptr
    more = np.concatenate([ptr, np.full(users + 1 - len(ptr), ptr[-1])])
    return held._replace(
        rows=replace(held.rows, ptr=more, users=Vocabulary(size=users, kind=held.rows.users.kind))
    )


def honest_peers(gossip: Gossip, swarm: Swarm, data: Interactions) -> GossipRecommender:
    """The recommender of the first nodes, those of the users of `data`."""
    n = len(data.users)
    nodes = type(swarm.nodes)(*(array[:n] for array in swarm.nodes))
    private = device_data(data, None)
    return GossipRecommender(gossip.algorithm, swarm.models[:n], nodes, private, data.users)
