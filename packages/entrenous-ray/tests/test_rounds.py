"""Users in shards over Ray's actors: the same bytes as in one process, whoever dies. One Ray for
this file, ended with it.
"""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from entrenous_ray import rounds as sharded
from entrenous_ray.crew import Crew
from entrenous_ray.engine import EngineOptions, crew
from entrenous_ray.rounds import ShardedRounds
from entrenous_ray.shards import ShardHand, bounds
from patient_ray import patiently
from process_tree import descendants

from entrenous.core.contract.protocols import model_sha256
from entrenous.core.errors import EntrenousError, EntrenousWarning, NonFiniteError
from entrenous.data.interactions import Interactions
from entrenous.data.synthetic import synthetic
from entrenous.federation.rounds import Rounds, Training
from entrenous.privacy.protection import Protection
from entrenous.runs.recommenders import checkpoint_arrays, fitted, restore_training
from tests.algorithms.test_conformance import make
from tests.algorithms.test_prme import FedAvgPRME, made, visited

pytest.importorskip("ray")

# Rows alone, dense sums, ensembles, what is shown, networks and item tables of devices. That shards
# add up for every other algorithm is said without Ray, in tests/federation/test_shard.py.
KINDS = ("pfpl+", "fcf", "fbalf-bayes", "metamf", "ditto-gmf", "pfedrec")
UNTIL = 5


@pytest.fixture(scope="module")
def data() -> Interactions:
    shop = synthetic(users=50, items=60, interactions=900, skew=0.6, seed=3)
    value = np.random.default_rng(2).integers(1, 6, len(shop)).astype(np.float32)
    return Interactions(**{**vars(shop), "value": value, "scale": (1.0, 5.0)})


@pytest.fixture(scope="module")
def two() -> Iterator[Crew]:
    with patiently(lambda: crew(EngineOptions(2, None, 1), ShardHand, 50)) as hired:
        yield hired


def digest(rounds: Any, training: Training) -> tuple[str, Any]:
    return model_sha256(fitted(rounds, training).arrays), training.ledger


def advanced(rounds: Any, until: int = UNTIL) -> tuple[str, Any]:
    return digest(rounds, rounds.advance(rounds.advance(rounds.start(), 2), until))


@pytest.mark.parametrize("name", KINDS)
def test_two_shards_end_with_the_model_of_one_process(
    name: str, data: Interactions, two: Crew
) -> None:
    # First in this process: it compiles what both shards would compile at once.
    expected = advanced(Rounds(make(name), data, seed=4))
    assert advanced(ShardedRounds(two, make(name), data, seed=4)) == expected


def test_a_small_cohort_may_leave_a_shard_without_work(data: Interactions, two: Crew) -> None:
    fpl = make("pfpl+").model_copy(update={"cohort": 2})
    assert advanced(ShardedRounds(two, fpl, data, seed=4), 30) == advanced(
        Rounds(fpl, data, seed=4), 30
    )


def test_what_devices_never_draw_comes_along(data: Interactions, two: Crew) -> None:
    train = data.select(np.arange(len(data)) % 3 > 0)
    sharded = advanced(ShardedRounds(two, make("pfpl+"), train, seed=4, avoid=data))
    assert sharded == advanced(Rounds(make("pfpl+"), train, seed=4, avoid=data))
    assert sharded != advanced(Rounds(make("pfpl+"), train, seed=4))


def test_every_visit_goes_with_its_device_to_a_shard(two: Crew) -> None:
    whole = visited()
    last, all_of_them = made(FedAvgPRME, visits="last"), made(FedAvgPRME)
    expected = advanced(Rounds(all_of_them, whole, seed=4))
    assert advanced(ShardedRounds(two, all_of_them, whole, seed=4)) == expected
    assert advanced(Rounds(last, whole, seed=4)) != expected


@pytest.mark.parametrize("name", ["pfpl+", "fbalf-bayes"])
def test_either_goes_on_where_the_other_was_interrupted(
    name: str, data: Interactions, two: Crew
) -> None:
    expected = advanced(Rounds(make(name), data, seed=4))
    for first, second in ((Rounds, sharded_on(two)), (sharded_on(two), Rounds)):
        begun, other = first(make(name), data, seed=4), second(make(name), data, seed=4)
        kept = {
            key: array.copy()
            for key, array in checkpoint_arrays(begun.advance(begun.start(), 3)).items()
        }
        assert digest(other, other.advance(restore_training(other, 3, kept), UNTIL)) == expected


def test_a_clip_that_moves_is_the_same_for_all_shards(data: Interactions, two: Crew) -> None:
    protection = Protection(
        clip=0.5, clip_quantile=0.5, noise=0.2, noise_by="server", sampling="poisson"
    )
    here, there = (
        Rounds(make("fcf"), data, protection=protection),
        ShardedRounds(two, make("fcf"), data, protection=protection),
    )
    assert advanced(there) == advanced(here)
    assert there.advance(there.start(), UNTIL).clip == here.advance(here.start(), UNTIL).clip != 0.5


def test_devices_that_decide_by_themselves_are_the_same_in_all_shards(
    data: Interactions, two: Crew
) -> None:
    protection = Protection(sampling="poisson", answers=2, people=3)
    both = (
        Rounds(make("fcf"), data, protection=protection),
        ShardedRounds(two, make("fcf"), data, protection=protection),
    )
    ended = [rounds.advance(rounds.start(), UNTIL) for rounds in both]
    assert digest(both[0], ended[0]) == digest(both[1], ended[1])
    assert ended[0].ledger == ended[1].ledger
    assert ended[0].ledger.unopened > 0, "everybody had answered twice"


def sharded_on(hired: Crew) -> Any:
    return lambda *what, **how: ShardedRounds(hired, *what, **how)


def test_after_kill_9_others_take_over_and_the_bytes_are_the_same(
    data: Interactions, two: Crew
) -> None:
    rounds = ShardedRounds(two, make("fbalf-bayes"), data, seed=4)
    training = rounds.advance(rounds.start(), 2)
    for about in list(two.about.values()):
        os.kill(about.process, signal.SIGKILL)
    with pytest.warns(
        EntrenousWarning,
        match=r"worker \d of 2 \(process \d+ on .*\) died .*; another .* goes on from round 2",
    ):
        training = rounds.advance(training, UNTIL)
    assert digest(rounds, training) == advanced(Rounds(make("fbalf-bayes"), data, seed=4))


def test_workers_that_die_again_and_again_end_the_run_in_one_line(
    data: Interactions, two: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = ShardedRounds(two, make("pfpl+"), data, seed=4)
    training, renew = rounds.advance(rounds.start(), 1), two.renew

    def renewed_and_killed() -> Sequence[int]:
        dead = renew()
        os.kill(two.about[1].process, signal.SIGKILL)
        return dead

    os.kill(two.about[1].process, signal.SIGKILL)
    with monkeypatch.context() as patched, warnings.catch_warnings():
        warnings.simplefilter("ignore", EntrenousWarning)
        patched.setattr(two, "renew", renewed_and_killed)
        patched.setattr(sharded, "PAUSE", 0.0)
        with pytest.raises(
            EntrenousError, match=r"died .*, 4 times in a row; .* --resume RUN"
        ) as said:
            rounds.advance(training, UNTIL)
    assert "\n" not in str(said.value)
    two.renew()
    assert digest(rounds, rounds.advance(training, UNTIL)) == advanced(
        Rounds(make("pfpl+"), data, seed=4)
    )


def test_a_device_that_diverges_says_so_and_the_workers_go_on(
    data: Interactions, two: Crew
) -> None:
    rounds = ShardedRounds(two, make("pfpl+"), data, seed=4)
    training = rounds.advance(rounds.start(), 2)
    kept = [array.copy() for array in training.devices]
    with pytest.raises(NonFiniteError, match="not finite"):
        rounds.advance(
            training._replace(
                server=training.server._replace(q=training.server.q * np.float32(np.nan))
            ),
            3,
        )
    assert all(np.array_equal(old, new) for old, new in zip(kept, training.devices, strict=True))
    assert digest(rounds, rounds.advance(training, UNTIL)) == advanced(
        Rounds(make("pfpl+"), data, seed=4)
    )


def test_ray_listens_on_loopback_alone(two: Crew) -> None:
    """All sockets of all processes that were started for it, its own too."""
    addresses = {
        address
        for process in (os.getpid(), *descendants(os.getpid()))
        for address in listening(process)
    }
    assert addresses and all(address.endswith("0100007F") for address in addresses), (
        addresses
    )  # 127.0.0.1, maybe as IPv6


def listening(process: int) -> list[str]:
    """The addresses of a process's listening sockets, in hexadecimal."""
    try:
        links = [os.readlink(link) for link in Path(f"/proc/{process}/fd").iterdir()]
    except OSError:
        return []
    inodes = {link[8:-1] for link in links if link.startswith("socket:[")}
    rows = [
        line.split()
        for kind in ("tcp", "tcp6")
        for line in Path(f"/proc/{process}/net/{kind}").read_text().splitlines()[1:]
    ]
    return [row[1].split(":")[0] for row in rows if row[3] == "0A" and row[9] in inodes]


def test_bounds_leave_nobody_out_and_no_worker_without_users() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        counts = rng.integers(0, 30, rng.integers(1, 40)) ** 2
        many = int(rng.integers(1, len(counts) + 1))
        found = bounds(counts, many)
        assert found[0][0] == 0 and found[-1][1] == len(counts) and len(found) == many
        assert all(low < high for low, high in found)
        assert all(before[1] == after[0] for before, after in pairwise(found))
    even = [high - low for low, high in bounds(np.full(6040, 100), 7)]
    assert max(even) - min(even) <= 1
