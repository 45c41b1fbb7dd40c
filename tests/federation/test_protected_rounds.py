"""Rounds under a protection: the same bytes on any number of threads and blocks, and what a sum
then says.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_federations import when_and_where

from entrenous.core.contract.declared import is_federated
from entrenous.core.contract.protocols import model_sha256
from entrenous.core.errors import InputError
from entrenous.core.keys import key
from entrenous.data.interactions import Interactions, Vocabulary, build
from entrenous.data.synthetic import synthetic
from entrenous.federation.recorder import Recorder
from entrenous.federation.rounds import Rounds
from entrenous.federation.shard import Shard, Threads
from entrenous.privacy.protection import PROFILES, Protection
from entrenous.runs.recommenders import fitted
from entrenous.systems.fcf import FCF
from entrenous.systems.fedavg import FedAvg
from entrenous.systems.fpl import FPL
from entrenous.systems.named import algorithms

DATA = synthetic(users=60, items=80, interactions=900, seed=1)


def rated() -> Interactions:
    """40 users with ratings from 1 to 5, times and places."""
    drawn = np.random.default_rng(5)
    user, item = np.nonzero(drawn.random((40, 50)) < 0.3)
    names = {"users": Vocabulary(size=40), "items": Vocabulary(size=50)}
    return build(
        user, item, value=drawn.integers(1, 6, len(user)), **names, **when_and_where(user, 50)
    )


RATED = rated()
ALGORITHMS: dict[str, Any] = {
    "fpl": FPL(factors=6, triples=20),
    "fpl in parts": FPL(factors=6, triples=20, cohort=30),
    "fcf": FCF(factors=5),
    "fcf by gram": FCF(factors=5, form="gram"),
    "fedavg": FedAvg(factors=4, layers=(), cohort=40),
}
PROTECTIONS = {
    "private": Protection(noise=0.1, rows="all"),
    "by the server": Protection(noise=0.1, rows="all", noise_by="server"),
    "clipped": Protection(clip=0.5, noise=0.05),
    "padded": Protection(rows="padded"),
    "poisson": Protection(clip=1, noise=0.5, noise_by="server", sampling="poisson"),
    "a clip that moves": Protection(
        clip=0.5, clip_quantile=0.5, noise=0.2, noise_by="server", sampling="poisson"
    ),
}


def trained(
    algorithm: Any, protection: Protection, threads: int = 1, block: int = 0, until: int = 3
) -> str:
    rounds = Rounds(algorithm, DATA, executor=Threads(threads), block=block, protection=protection)
    return model_sha256(fitted(rounds, rounds.advance(rounds.start(), until)).arrays)


@pytest.mark.parametrize("name", PROTECTIONS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_same_bytes_on_any_number_of_threads_and_in_any_blocks(
    algorithm: str, name: str
) -> None:
    own, protection = ALGORITHMS[algorithm], PROTECTIONS[name]
    assert (
        len(
            {
                trained(own, protection, threads, block)
                for threads, block in ((1, 0), (2, 0), (8, 0), (1, 7))
            }
        )
        == 1
    )


@pytest.mark.parametrize("rows", ["sorted", "as sent"])
def test_the_order_of_rows_changes_no_model_and_sorted_rows_ascend(rows: Any) -> None:
    recorder = Recorder("individual")
    rounds = Rounds(
        FPL(factors=6, triples=20), DATA, recorder=recorder, protection=Protection(rows=rows)
    )
    assert model_sha256(fitted(rounds, rounds.advance(rounds.start(), 3)).arrays) == trained(
        FPL(factors=6, triples=20), Protection()
    )
    sent = recorder.rounds[0].sent
    inside = np.setdiff1d(np.arange(1, len(sent["item"])), sent["ptr"])
    assert np.all(sent["item"][inside] > sent["item"][inside - 1]) == (rows == "sorted")


@pytest.mark.parametrize(
    "name", [name for name, make in algorithms().items() if is_federated(make())]
)
def test_rows_of_every_algorithm_leave_in_the_order_of_their_items(name: str) -> None:
    algorithm = algorithms()[name]().configured(RATED.catalogue)
    shard = Shard(algorithm, RATED.catalogue, RATED, np.arange(40))
    server = algorithm.init_server(RATED.catalogue, key(0, "server"))
    users = np.arange(5)
    download = shard.contract.delivered(algorithm.download(server), users)
    update = shard.update(download, shard.init_devices(key(0, "devices")), users, key(0, "round"))
    inside = np.setdiff1d(np.arange(1, len(update.item)), update.ptr)
    assert np.all(update.item[inside] > update.item[inside - 1])


@pytest.mark.parametrize("by", ["devices", "server"])
def test_a_noisy_sum_says_neither_who_sent_what_nor_who_has_how_much(by: Any) -> None:
    recorder = Recorder("sum")
    protection = Protection(noise=0.25, noise_by=by, rows="all")
    rounds = Rounds(
        FedAvg(factors=4, layers=(), cohort=40), DATA, recorder=recorder, protection=protection
    )
    rounds.advance(rounds.start(), 4)
    for seen in recorder.rounds:
        assert np.all(seen.sent["senders"] == 40) and np.all(
            seen.sent["weight"] == recorder.rounds[0].sent["weight"]
        )


@pytest.mark.parametrize("by", ["devices", "server"])
def test_noise_is_on_every_number_of_a_sum_whoever_adds_it(by: Any) -> None:
    wide = synthetic(users=40, items=4000, interactions=400, seed=2)
    sums = []
    for noise in (0.0, 0.5):
        recorder = Recorder("sum")
        protection = Protection(noise=noise, noise_by=by, rows="all")
        rounds = Rounds(FPL(factors=6, triples=4), wide, recorder=recorder, protection=protection)
        rounds.one_round(rounds.start())
        sums.append(recorder.rounds[0].sent["q"])
    added, untouched = sums[1] - sums[0], ~sums[0].any(axis=1)
    assert untouched.sum() > 1500
    assert (
        abs(added[untouched].var() / 0.25 - 1) < 0.04
        and abs(added[~untouched].var() / 0.25 - 1) < 0.1
    )
    assert abs(added.mean()) < 0.02


def test_poisson_takes_each_user_with_the_same_probability_and_perhaps_nobody() -> None:
    protection = Protection(sampling="poisson", noise_by="server", clip=1, noise=0.1)
    rounds = Rounds(FPL(factors=2, triples=2, cohort=6), DATA, protection=protection)
    cohorts = [
        rounds.protected.select(np.arange(6), np.uint64(0), number) for number in range(2000)
    ]
    sizes = np.array([len(users) for users in cohorts])
    assert (
        abs(sizes.mean() - 6) < 0.3
        and abs(sizes.var() - 5.4) < 0.8
        and len(set(sizes.tolist())) > 8
    )
    assert np.bincount(np.concatenate(cohorts), minlength=60).std() < 3 * np.sqrt(180)
    one = Rounds(FPL(factors=2, triples=2, cohort=1), DATA, protection=protection)
    assert one.one_round(one.start()).round == 1, "nobody, or a few, in the round"
    one.advance(one.start(), 8)


def test_too_few_people_and_arrays_shown_singly_are_refused() -> None:
    with pytest.raises(InputError, match="at least 300 in a sum"):
        Rounds(FPL(), DATA, protection=Protection.parse(PROFILES["private"]))
