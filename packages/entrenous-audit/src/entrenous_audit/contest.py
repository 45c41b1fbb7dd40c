"""One training of a federation with colluders in it, or without: by a server under a defence, or
between peers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from entrenous.core.contract.declared import bound, is_gossip
from entrenous.core.contract.protocols import Scorer
from entrenous.core.keys import key
from entrenous.core.types import Int64Array
from entrenous.data.interactions import Interactions
from entrenous.data.split.types import Split
from entrenous.federation.defences import defence, known_of
from entrenous.federation.gossip import Gossip
from entrenous.federation.rounds import Rounds
from entrenous.federation.shard import Shard
from entrenous.federation.visible import VisibleRound, honest
from entrenous.kernels.generator import generator
from entrenous.runs.recommenders import FederatedRecommender, tested

from .colluders import Colluders, Plot, Poison, joined_by
from .exposure import exposure
from .peers import PEER_DEFENCES, PEERS, LyingPeers, honest_peers, with_nobody


class AttackOutcome(NamedTuple):
    """The end of a training."""

    hit_rate: float
    """HR@10 of honest users."""
    exposed: float
    """ER@10 of the target."""
    refused: int
    """Updates or models that were not sound, of all rounds."""


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Contest:
    """The common part of all trainings of a comparison."""

    algorithm: Any
    """Around a server as configured for the honest users, or between peers."""
    split: Split
    attack: str
    poison: Poison
    settings: Mapping[str, float]
    """Settings of the attack."""
    share: float
    """The share of all devices that collude."""
    rounds: int

    @property
    def train(self) -> Interactions:
        """The rows that honest users train on."""
        return self.split.final_train

    @property
    def colluders(self) -> Int64Array:
        """The numbers of the colluders, behind the honest users: `share` of all, at least one."""
        n = len(self.train.users)
        return n + np.arange(max(1, round(self.share * n / (1 - self.share))))


def trained(contest: Contest, name: str, target: int, seed: int, *, lying: bool) -> AttackOutcome:
    """One training under the defence `name`, with colluders or, without `lying`, of honest users
    alone.
    """
    plot = plot_of(contest, target, seed)
    rows = contest.train
    if lying:
        rows = joined_by(contest.train, plot, contest.poison)
    # Both kinds of training are driven alike from here on.
    begin = _peers if is_gossip(contest.algorithm) else _devices
    model, refused = begin(contest, name, plot, rows, lying)
    # Attacks that promote nothing have no target to be exposed.
    exposed = 0.0
    if contest.poison.promotes:
        exposed = exposure(model, contest.train, target)
    # The other half of an attack: what it costs those whom it does not aim at.
    evaluation = tested(model, contest.split, label="the attacked model", seed=seed)
    return AttackOutcome(evaluation.metrics["hr@10"], exposed, refused)


# Both return the recommender of the honest users, and how many updates or models were refused.


def _devices(
    contest: Contest, name: str, plot: Plot, rows: Interactions, lying: bool
) -> tuple[Scorer, int]:
    """A federation around a server that sees every update."""
    algorithm = contest.algorithm
    honest_users = len(contest.train.users)
    contract = bound(algorithm, rows.catalogue)
    server = algorithm.init_server(rows.catalogue, key(plot.seed, "server"))
    # Colluders know what every device is told: the first model, and which arrays are of items.
    known = known_of(algorithm, contract, server)
    sending = honest
    if lying:
        sending = Colluders(contest.poison, plot, algorithm, contract, known.tables)
    shard = Shard(algorithm, rows.catalogue, rows, np.arange(rows.catalogue.users))
    # A defence needs single updates, so no sum is masked here.
    devices = VisibleRound(shard, sending=sending, defence=defence(name, known))
    federation = Rounds(algorithm, rows, seed=plot.seed, everybody=devices)
    training = federation.advance(federation.start(), contest.rounds)
    # Colluders stand behind the honest users, whose lists are what counts.
    own = type(training.devices)(*(array[:honest_users] for array in training.devices))
    download = algorithm.download(training.server)
    model = FederatedRecommender(algorithm, download, own, contest.train, plot.seed)
    return model, devices.refused


def _peers(
    contest: Contest, name: str, plot: Plot, rows: Interactions, lying: bool
) -> tuple[Scorer, int]:
    """A network of peers, which push models to each other."""
    defended = contest.algorithm.model_copy(update=dict(PEER_DEFENCES[name]))
    algorithm = defended.configured(rows.catalogue)
    # Colluders hold no row out: their sets of validation rows are empty.
    weighting = with_nobody(contest.split.weighting_sets, rows.catalogue.users)
    lies = None
    if lying:
        lies = LyingPeers(PEERS[contest.attack], plot, algorithm.model)
    gossip = Gossip(algorithm, rows, seed=plot.seed, weighting=weighting, lies=lies)
    # Refusals of all nodes are counted, those of colluders among them.
    swarm = gossip.advance(gossip.start(), contest.rounds)
    return honest_peers(gossip, swarm, contest.train), int(swarm.counts.refused.sum())


def plot_of(contest: Contest, target: int, seed: int) -> Plot:
    """The aim and the knowledge of the colluders of a contest: a share xi of the interactions,
    where the attack has such a setting.
    """
    data = contest.train
    xi = float(contest.settings.get("xi", 0.0))
    # The same interactions under every defence, or their figures could not be compared.
    shown = generator(key(seed, "public interactions")).uniform(len(data)) < xi
    public = np.stack([data.user[shown], data.item[shown]], axis=1).astype(np.int64)
    return Plot(
        target=target,
        users=contest.colluders,
        honest=len(data.users),
        popularity=data.popularity,
        public=public,
        settings=contest.settings,
        seed=seed,
    )
