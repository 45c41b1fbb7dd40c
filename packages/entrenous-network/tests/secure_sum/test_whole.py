"""A secure sum is the plain sum to the last bit, whoever drops out and wherever the server dies; an
upload looks like noise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from entrenous_network.secure_sum import messages as m
from entrenous_network.secure_sum import primitives as p
from entrenous_network.secure_sum.refusal import SumRefused
from entrenous_network.secure_sum.server import SecureSumServer
from entrenous_network.secure_sum.statements import about_pair
from scipy import stats
from secure_sum_in_memory import (
    ALL,
    advertised,
    clients,
    consented,
    masked,
    members,
    name,
    plain,
    shared,
    summed,
    terms,
    unmasked,
    vectors,
)


def everyone_in(parties: int, values: dict[str, np.ndarray], **about: object) -> np.ndarray:
    length = len(next(iter(values.values())))
    agreed = terms(length, **about)
    total, senders = summed(
        clients(parties, agreed), SecureSumServer(agreed, members(parties)), values
    )
    assert senders == list(values)
    return total


def exact(parties: int, gone: list[list[str]], length: int = 40) -> None:
    values, agreed = vectors(parties, length), terms(length)
    total, senders = summed(
        clients(parties, agreed), SecureSumServer(agreed, members(parties)), values, gone
    )
    assert len(senders) == parties - len({*gone[0], *gone[1], *gone[2]})
    assert total.dtype == np.int64 and np.array_equal(total, plain(values, senders))


@pytest.mark.parametrize("parties", [3, 4, 5, 7, 10, 16, 33, 60])
def test_the_total_is_the_plain_sum(parties: int) -> None:
    values = vectors(parties)
    assert np.array_equal(everyone_in(parties, values), plain(values, values))


def test_130_parties_with_dropouts_at_every_stage() -> None:
    gone = [
        [name(k) for k in range(at, 130, 16)] if at else [] for at in range(5)
    ]  # 34 of 130, a quarter
    exact(130, gone)


def test_extreme_values() -> None:
    ends = np.iinfo(np.int64)
    values = {name(k): np.array([ends.min, ends.max, -1, 0, 1, k - 3], np.int64) for k in range(5)}
    with np.errstate(over="ignore"):
        expected = plain(values, values)  # wraps around as int64 does
    assert np.array_equal(everyone_in(5, values), expected)


def test_32_bit_words_hold_what_fits_and_the_client_refuses_what_may_not() -> None:
    limit = (1 << 31) // 6
    values = vectors(6, 1000, limit=limit)
    values[name(0)][:2] = -limit, limit
    assert np.array_equal(everyone_in(6, values, bits=32), plain(values, values))
    for far in (limit + 1, -limit - 1, np.iinfo(np.int64).min):
        values[name(0)][0] = far
        with pytest.raises(SumRefused, match="does not fit 32-bit words"):
            everyone_in(6, values, bits=32)


def test_a3_a_single_upload_looks_like_noise() -> None:
    """A3: 100 uploads of vectors of zeros; each byte of a word has all 256 values equally often, p
    > .001.

    Keys are the system's, so an honest p falls below .001 at one of 12 positions once in 80 runs:
    then, a second time must not.
    """
    for bits in (64, 32):
        if not uniform(bits):
            assert uniform(bits)


def uniform(bits: int) -> bool:
    seen = []
    for attempt in range(10):
        agreed = terms(500, bits=bits, attempt=attempt)
        server, parties = SecureSumServer(agreed, members(10)), clients(10, agreed)
        shared(advertised(parties, server), server)
        for each, client in parties.items():
            upload = client.mask(server.inbox(each), np.zeros(500, np.int64), ALL)
            seen.append(np.frombuffer(upload.body, np.uint8).reshape(-1, bits // 8))
    found = np.stack(seen)
    assert found.shape == (100, 500, bits // 8)
    assert len({row.tobytes() for row in found.reshape(100, -1)}) == 100
    counts = [
        np.bincount(found[..., position].ravel(), minlength=256) for position in range(bits // 8)
    ]
    return all(stats.chisquare(count).pvalue > 0.001 for count in counts)


def test_an_upload_that_comes_too_late_keeps_its_own_mask() -> None:
    """Its pairs' masks are known by then, since the others gave up their shares; the own mask
    still covers it.
    """
    agreed, values, late = terms(), vectors(6), name(2)
    server, parties = SecureSumServer(agreed, members(6)), clients(6, agreed)
    shared(advertised(parties, server), server)
    upload = parties[late].mask(server.inbox(late), values[late], ALL)
    here = masked(parties, server, values, [late])
    unmasked(consented(here, server), server)
    server.total()
    with pytest.raises(SumRefused, match="too late"):
        server.add(upload)
    met, words = (
        parties[late]._met,
        np.frombuffer(upload.body, np.uint64).copy(),
    )
    assert met is not None
    key = parties[late]._secrets.masks
    pairs = {
        v: p.derive(p.agree(key, met.adverts[v].masks), *about_pair(met.view, 2, v))
        for v in range(6)
        if v != 2
    }
    p.add_masks(words, [pairs[v] for v in pairs if v < 2], [pairs[v] for v in pairs if v > 2])
    assert not (words.view(np.int64) == values[late]).any()
    p.add_masks(words, [], [p.derive(parties[late]._secrets.seed, "own", met.view, 2, 2)])
    assert np.array_equal(
        words.view(np.int64), values[late]
    )  # with it, the vector: the test looked at the right thing


@pytest.mark.parametrize("every", [1, 3, 7])
def test_a_server_made_again_from_its_journal_gives_the_same_total(every: int) -> None:
    """The server dies after every few records, in the middle of stages and between them; nobody
    sends anything twice.
    """
    agreed, values, journal = terms(), vectors(8), list[bytes]()
    deaths = 0

    class Dying:
        """A server that is thrown away and made again as soon as its journal has grown by `every`
        records.
        """

        def __init__(self) -> None:
            self.server, self.at = SecureSumServer(agreed, members(8), journal.append), 0

        def __getattr__(self, method: str) -> object:
            nonlocal deaths
            if len(journal) >= self.at + every:
                self.server, self.at, deaths = (
                    SecureSumServer.rebuilt(agreed, members(8), journal, journal.append),
                    len(journal),
                    deaths + 1,
                )
            return getattr(self.server, method)

    server = Dying()
    total, senders = summed(clients(8, agreed), server, values, [[], [name(1)], [name(5)], [], []])  # type: ignore[arg-type]
    assert deaths >= len(journal) // (every + 1) - 1 and len(journal) == 8 + 7 + 6 + 6 + 6 + 4
    assert np.array_equal(total, plain(values, senders))
    assert np.array_equal(SecureSumServer.rebuilt(agreed, members(8), journal).total(), total)


def test_the_same_question_again_has_the_same_answer() -> None:
    """A receipt that was lost costs nothing, on either side."""
    values = vectors(4)
    server, parties = SecureSumServer(terms(), members(4)), clients(4)

    def twice(message: Callable[[], m.Signed]) -> None:
        assert [server.add(message()) for _ in range(2)] == [True, False]

    for client in parties.values():
        twice(client.advertise)
    roster = server.roster()
    assert roster == server.roster()
    for client in parties.values():
        twice(partial(client.share, roster))
    for each, client in parties.items():
        twice(partial(client.mask, server.inbox(each), values[each], ALL))
    for client in parties.values():
        twice(partial(client.consent, server.survivors()))
    for client in parties.values():
        twice(partial(client.unmask, server.consents()))
        # Also when the stage is over.
        assert server.add(client.advertise()) is False
    for _ in range(2):
        assert np.array_equal(server.total(), plain(values, values))
    assert [server.heard(stage) for stage in range(5)] == [frozenset(parties)] * 5
