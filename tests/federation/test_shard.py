"""A shard is the devices of some users: shards together do what one shard of everybody does, to the
bit, for every algorithm.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_federations import same as same_bits

from entrenous.core.contract.declared import followed
from entrenous.core.contract.update import (
    Total,
    Update,
    add_update,
    clear_total,
    empty_total,
    gathered,
    merge_totals,
)
from entrenous.core.errors import NonFiniteError
from entrenous.core.keys import key
from entrenous.data.interactions import Interactions
from entrenous.federation.shard import Ledger, Shard, Threads
from tests.algorithms.test_conformance import FEDERATED, interactions, make

CUTS = (
    [0, 1, 2, 3, 4],
    [5],
    list(range(6, 30, 2)),
    [*range(7, 30, 2), *range(30, 40)],
)  # consecutive, single, and with gaps


@pytest.fixture(scope="module")
def data() -> Interactions:
    return interactions()


def configured(name: str, data: Interactions) -> tuple[Any, Any]:
    """The algorithm, and the download of its first round."""
    algorithm = make(name).configured(data.catalogue)
    return algorithm, algorithm.download(algorithm.init_server(data.catalogue, key(0, "server")))


def parts(algorithm: Any, data: Interactions, **how: Any) -> list[Shard]:
    users = [np.array(cut) for cut in CUTS]
    return [Shard(algorithm, data.catalogue, data.of_users(own), own, **how) for own in users]


def same(left: Total, right: Total) -> bool:
    arrays = [(left.rows, right.rows), (left.dense, right.dense)]
    if left.shown or right.shown:
        (who, ours), (others, theirs) = gathered(left), gathered(right)
        arrays += [({**ours, "who": who}, {**theirs, "who": others})]
    equal = all(
        one.keys() == two.keys() and all(np.array_equal(one[k], two[k]) for k in one)
        for one, two in arrays
    )
    return (
        equal
        and np.array_equal(left.senders, right.senders)
        and np.array_equal(left.weight, right.weight)
        and left.devices == right.devices
    )


@pytest.mark.parametrize("name", FEDERATED)
def test_shards_that_hold_only_their_own_rows_add_up_to_one_shard_of_everybody(
    name: str, data: Interactions
) -> None:
    algorithm, download = configured(name, data)
    everybody, now = np.arange(data.catalogue.users), np.arange(0, data.catalogue.users, 3)
    whole = Shard(algorithm, data.catalogue, data, everybody)
    devices = whole.init_devices(key(0, "devices"))
    expected, sent = whole.work(download, devices, now, key(0, "round"))
    for how in ({}, {"executor": Threads(2), "block": 2}):
        total, up = whole.contract.empty_total(), Ledger()
        for shard in parts(algorithm, data, **how):
            own = shard.init_devices(key(0, "devices"))
            part, more = shard.work(download, own, now[np.isin(now, shard.users)], key(0, "round"))
            total, up = merge_totals(total, part), up.plus(more)
            expected_own = type(devices)(*(array[shard.users] for array in devices))
            assert same_bits(own, expected_own)
        assert same(total, expected) and up == sent


@pytest.mark.parametrize("name", FEDERATED)
def test_a_download_that_was_delivered_is_as_good_as_all_of_it(
    name: str, data: Interactions
) -> None:
    algorithm, download = configured(name, data)
    for shard in parts(algorithm, data):
        now, (devices, again) = (
            shard.users[::2],
            (shard.init_devices(key(0, "devices")) for _ in range(2)),
        )
        expected = shard.work(download, devices, now, key(0, "round"))
        received = shard.contract.delivered(download, now)
        total, sent = Shard(algorithm, data.catalogue, shard.data, shard.users).work(
            received, again, now, key(0, "round"), delivered=True
        )
        assert same(total, expected[0]) and sent == expected[1]
        assert same_bits(devices, again)


@pytest.mark.parametrize("name", FEDERATED)
def test_adding_up_on_the_way_is_training_and_then_adding(name: str, data: Interactions) -> None:
    algorithm, download = configured(name, data)
    if not hasattr(algorithm, "local_sum"):
        pytest.skip("this algorithm does not add up on the way")
    users, drawn = np.arange(data.catalogue.users), key(0, "round")
    download = Shard(algorithm, data.catalogue, data, users).contract.delivered(download, users)
    histories = data.histories(users)
    start = [algorithm.init_devices(users, data.catalogue, key(0, "devices")) for _ in range(2)]
    kept, update = algorithm.local(download, start[0], histories, users, drawn)
    none = empty_total(update, data.catalogue.items)
    also, total, rows, nbytes = algorithm.local_sum(
        download, start[1], histories, users, drawn, none
    )
    assert same(total, add_update(empty_total(update, data.catalogue.items), update))
    assert same_bits(kept, also)
    # A dense array counts by the rows in it that are not zero by nature (RFRec's unrated items).
    if not update.dense:
        assert (rows, nbytes) == (len(update.item), update.nbytes)


@pytest.mark.parametrize("name", FEDERATED)
def test_a_sum_of_nobody_has_the_shape_of_any(name: str, data: Interactions) -> None:
    """So a shard with nobody to work this round adds zeros, and a reader on the network knows what
    it may accept.
    """
    algorithm, download = configured(name, data)
    shard = Shard(algorithm, data.catalogue, data.of_users(np.arange(3)), np.arange(3))
    histories, none = data.histories(np.arange(3)), np.empty(0, np.int64)
    devices, received = (
        shard.init_devices(key(0, "devices")),
        followed(algorithm, shard.contract.delivered(download, shard.users)),
    )
    sent: Update = algorithm.local(received, devices, histories, shard.users, key(0, "x"))[1]
    total, up = shard.work(download, shard.init_devices(key(0, "devices")), none, key(0, "round"))
    assert same(total, empty_total(sent, data.catalogue.items)) and up == Ledger()
    assert shard.contract.way("shown") == {
        name: array.shape[1:] for name, array in sent.shown.items()
    }


@pytest.mark.parametrize("limits", [(), (lambda update, keys: update,)])
def test_after_a_device_failed_no_device_has_changed_and_the_next_sum_is_clean(
    data: Interactions, limits: Any
) -> None:
    algorithm, download = configured("pfpl+", data)
    shard = Shard(algorithm, data.catalogue, data, np.arange(40), block=5, limits=limits)
    devices = shard.init_devices(key(0, "devices"))
    kept = [array.copy() for array in devices]
    shard.work(
        download, type(devices)(*(array.copy() for array in devices)), shard.users, key(0, "round")
    )
    spoiled = download._replace(
        q=np.full_like(download.q, np.nan)
    )  # after the first round, in which downloads are looked at
    with pytest.raises(NonFiniteError):
        shard.work(spoiled, devices, shard.users, key(0, "round"))
    assert all(np.array_equal(old, new) for old, new in zip(kept, devices, strict=True))
    expected = Shard(algorithm, data.catalogue, data, np.arange(40)).work(
        download, devices, shard.users, key(0, "round")
    )[0]
    devices = shard.init_devices(key(0, "devices"))
    assert same(shard.work(download, devices, shard.users, key(0, "round"))[0], expected)


def test_a_released_total_is_used_again(data: Interactions) -> None:
    algorithm, download = configured("pfpl+", data)
    shard = Shard(algorithm, data.catalogue, data, np.arange(40))
    devices = shard.init_devices(key(0, "devices"))
    first = shard.work(download, devices, shard.users, key(0, "round"))[0]
    second = shard.work(download, devices, shard.users, key(1, "round"))[0]
    assert first.senders is not second.senders
    shard.release(first)
    alone = Shard(algorithm, data.catalogue, data, np.arange(40))
    expected = alone.work(
        download, type(devices)(*(array.copy() for array in devices)), alone.users, key(2, "round")
    )[0]
    third = shard.work(download, devices, shard.users, key(2, "round"))[0]
    assert third.senders is first.senders and same(
        third, expected
    )  # nothing of the first is left in it
    assert clear_total(second).devices == 0
