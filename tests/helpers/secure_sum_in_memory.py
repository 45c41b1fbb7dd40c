"""A secure sum in one process, for the tests: a log of members, its clients and a server, and all stages with
some who drop out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from entrenous_network.agreement.members import Member, Members
from entrenous_network.secure_sum.client import SecureSumClient
from entrenous_network.secure_sum.primitives import identity_of
from entrenous_network.secure_sum.server import SecureSumServer
from entrenous_network.secure_sum.terms import Floors, SumTerms
from entrenous_network.secure_sum.vector import SumRows

MODEL, OTHER = bytes(range(32)), bytes(32)
ALL = SumRows(1, 1)  # every row is filled by everyone
SMALL = Floors(people=2, occupancy=1)


def terms(length: int = 40, **more: Any) -> SumTerms:
    return SumTerms(
        **{"run": "a run", "round": 3, "attempt": 0, "model": MODEL, "length": length, **more}
    )


def identity(number: int) -> bytes:
    return number.to_bytes(32, "big")


@cache
def members(parties: int) -> Members:
    come = [Member(name(k), identity_of(identity(k)).hex(), k, k) for k in range(parties)]
    return Members(parties, come)


def name(number: int) -> str:
    return f"node-{number:04d}"


def clients(
    parties: int, about: SumTerms | None = None, floors: Floors = SMALL
) -> dict[str, SecureSumClient]:
    return {
        name(k): SecureSumClient(
            about or terms(), members(parties).head, name(k), identity(k), floors
        )
        for k in range(parties)
    }


def vectors(
    parties: int, length: int = 40, limit: int = 1 << 40, seed: int = 0
) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name(k): rng.integers(-limit, limit, length) for k in range(parties)}


def plain(values: Mapping[str, np.ndarray], who: Collection[str]) -> np.ndarray:
    """The sum, modulo 2^64 as int64 is."""
    return np.sum([values[each] for each in who], axis=0, dtype=np.int64)


def advertised(
    parties: Mapping[str, SecureSumClient], server: SecureSumServer, gone: Collection[str] = ()
) -> dict[str, SecureSumClient]:
    for client in left(parties, gone).values():
        assert server.add(client.advertise())
    return left(parties, gone)


def shared(
    parties: Mapping[str, SecureSumClient], server: SecureSumServer, gone: Collection[str] = ()
) -> dict[str, SecureSumClient]:
    roster = server.roster()
    for client in left(parties, gone).values():
        server.add(client.share(roster))
    return left(parties, gone)


def masked(
    parties: Mapping[str, SecureSumClient],
    server: SecureSumServer,
    values: Mapping[str, np.ndarray],
    gone: Collection[str] = (),
) -> dict[str, SecureSumClient]:
    for each, client in left(parties, gone).items():
        server.add(client.mask(server.inbox(each), values[each], ALL))
    return left(parties, gone)


def consented(
    parties: Mapping[str, SecureSumClient], server: SecureSumServer, gone: Collection[str] = ()
) -> dict[str, SecureSumClient]:
    for client in left(parties, gone).values():
        server.add(client.consent(server.survivors()))
    return left(parties, gone)


def unmasked(
    parties: Mapping[str, SecureSumClient], server: SecureSumServer, gone: Collection[str] = ()
) -> dict[str, SecureSumClient]:
    consents = server.consents()
    for client in left(parties, gone).values():
        server.add(client.unmask(consents))
    return left(parties, gone)


def left(
    parties: Mapping[str, SecureSumClient], gone: Collection[str]
) -> dict[str, SecureSumClient]:
    return {each: client for each, client in parties.items() if each not in gone}


def summed(
    parties: Mapping[str, SecureSumClient],
    server: SecureSumServer,
    values: Mapping[str, np.ndarray],
    gone: Sequence[Collection[str]] = ((),) * 5,
) -> tuple[np.ndarray, list[str]]:
    """The total, and whose vectors are in it. gone: who drops out before each of the five
    stages.
    """
    here = advertised(parties, server, gone[0])
    here = shared(here, server, gone[1])
    here = masked(here, server, values, gone[2])
    senders = list(here)
    here = consented(here, server, gone[3])
    unmasked(here, server, gone[4])
    return server.total(), senders
