"""What a node's devices contribute, of every algorithm with a server: read back to the bit, summed
on the node as on the server, and refused without an exception of another kind whatever its bytes
are.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from bad_answers import mutated
from entrenous_network.frames import contribution
from entrenous_network.frames.contribution import largest_body
from entrenous_network.frames.frames import Code, FrameRefused
from federation_links import ratings
from small_federations import same

from entrenous.core.contract.declared import is_federated
from entrenous.core.contract.update import add_update, merge_totals
from entrenous.core.keys import key
from entrenous.federation.shard import Shard
from entrenous.systems.named import algorithms

DATA = ratings()
NAMES = [name for name, make in sorted(algorithms().items()) if is_federated(make())]


def sent(name: str, users: list[int]):
    """The contract, and the Update of each user."""
    algorithm, key_ = algorithms()[name]().configured(DATA.catalogue), key(1, "round")
    shard = Shard(algorithm, DATA.catalogue, DATA, np.arange(len(DATA.users)))
    server = algorithm.init_server(DATA.catalogue, key(1, "server"))
    download = algorithm.download(server)
    contract = shard.contract
    updates = []
    for user in users:
        one = np.array([user])
        updates.append(
            shard.update(
                contract.delivered(download, one), shard.init_devices(key(1, "devices")), one, key_
            )
        )
    return contract, updates


def equal(left, right) -> bool:
    """Whether two totals are the same to the bit, whatever was shown in which order."""
    sums = [
        {**total.rows, **{f"dense {name}": array for name, array in total.dense.items()}}
        for total in (left, right)
    ]
    return (
        same(
            tuple(sums[0][name] for name in sorted(sums[0])),
            tuple(sums[1][name] for name in sorted(sums[1])),
        )
        and same((left.senders, left.weight), (right.senders, right.weight))
        and left.devices == right.devices
    )


@pytest.mark.parametrize("name", NAMES)
def test_one_and_many(name):
    users = [2, 5, 11]
    contract, updates = sent(name, users)
    plain, one_by_one = contract.empty_total(), contract.empty_total()
    for user, update in zip(users, updates, strict=True):
        body = contribution.of_update(update)
        assert len(body) <= largest_body(contract, 1)
        read = contribution.read_update(memoryview(body), contract, user)
        order = np.argsort(
            update.item
        )  # by item: the order in which they were made would say which are of consumed items
        assert all(same(read.rows[row], update.rows[row][order]) for row in update.rows) and same(
            read.item, update.item[order]
        )
        plain, one_by_one = add_update(plain, update), contribution.add(one_by_one, read)
    assert equal(plain, one_by_one)
    body = contribution.of_total(plain)
    assert len(body) <= largest_body(contract, len(users))
    summed = contribution.read_total(memoryview(body), contract, np.array(users))
    assert equal(summed, plain)
    assert equal(contribution.add(contract.empty_total(), summed), plain)
    assert equal(merge_totals(contract.empty_total(), summed), plain)


def refusal(act, *arguments) -> Code:
    """The code of what was refused."""
    with pytest.raises(FrameRefused) as why:
        act(*arguments)
    return why.value.code


@pytest.mark.parametrize("name", NAMES)
def test_what_is_shown_is_shown_by_who_was_asked(name):
    """Nobody shows a vector in the name of somebody else, alone or in a sum."""
    users = [2, 5, 11]
    contract, updates = sent(name, users)
    if not contract.way("shown"):
        assert all(not update.shown for update in updates)
        return
    other = updates[0]._replace(sender=np.array([5]))
    assert (
        refusal(contribution.read_update, memoryview(contribution.of_update(other)), contract, 2)
        is Code.WRONG_SENDER
    )
    for senders in ([2, 5, 12], [2, 5, 5]):
        total = contract.empty_total()
        for update, sender in zip(updates, senders, strict=True):
            total = add_update(total, update._replace(sender=np.array([sender])))
        said = memoryview(contribution.of_total(total))
        assert (
            refusal(contribution.read_total, said, contract, np.array(users)) is Code.WRONG_SENDER
        )


@pytest.mark.parametrize("name", NAMES)
def test_b_mutated_bodies(name):
    """Whatever was changed: refused by code, or numbers that can be added; nothing else."""
    users, rng = [2, 5, 11], random.Random(3)
    contract, updates = sent(name, users)
    total = contract.empty_total()
    for update in updates:
        total = add_update(total, update)
    single, several, taken = contribution.of_update(updates[0]), contribution.of_total(total), 0
    for n in range(300):
        try:
            if n % 2:
                found = contribution.read_update(memoryview(mutated(rng, single)), contract, 2)
            else:
                found = contribution.read_total(
                    memoryview(mutated(rng, several)), contract, np.array(users)
                )
        except FrameRefused:
            continue
        summed = contribution.add(contract.empty_total(), found)
        taken += 1
        assert all(
            np.abs(rows).max(initial=0) < 2**40
            for rows in (*summed.rows.values(), *summed.dense.values())
        )
    assert taken < 300


@pytest.mark.parametrize("place", [18, -2, 0.5, 32_000, -32_000])
def test_a_number_that_the_server_takes_for_a_place_in_its_arrays_is_within_them(place):
    """MetaMF's devices name the items that they have rated by numbers, to which its server goes:
    beyond its tables it would write there.
    """
    contract, (update,) = sent("metamf", [2])
    lies = {"item": update.shown["item"].copy()}
    lies["item"][0, 0] = place
    body = contribution.of_update(update._replace(shown={**update.shown, **lies}))
    assert refusal(contribution.read_update, memoryview(body), contract, 2) is Code.WRONG_PLACE
    total = add_update(contract.empty_total(), update._replace(shown={**update.shown, **lies}))
    summed = memoryview(contribution.of_total(total))
    assert refusal(contribution.read_total, summed, contract, np.array([2])) is Code.WRONG_PLACE


def test_a_number_of_rows_that_is_shown_is_not_negative():
    contract, (update,) = sent("cali3f-gmf", [2])
    body = contribution.of_update(
        update._replace(shown={**update.shown, "n": np.full((1, 1), -3, np.float32)})
    )
    assert refusal(contribution.read_update, memoryview(body), contract, 2) is Code.WRONG_PLACE
