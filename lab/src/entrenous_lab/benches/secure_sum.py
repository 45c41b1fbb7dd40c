"""What a secure sum costs a client and the server: milliseconds and bytes of each phase, with
nobody and with 30 % missing.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from entrenous.core.contract.protocols import Progress, silent
from entrenous.core.types import Int64Array

from .timing import cost

if TYPE_CHECKING:
    from entrenous_network.secure_sum.client import SecureSumClient
    from entrenous_network.secure_sum.messages import Signed
    from entrenous_network.secure_sum.server import SecureSumServer

PARTIES, DROPOUTS = 100, (0.0, 0.3)
CLIENT_PHASES = ("keys", "shares", "mask", "unmask")
T = TypeVar("T")


class SummedTable(NamedTuple):
    """The size of a table to be summed: items, values of an item, bits of a value."""

    items: int
    width: int
    bits: int

    @property
    def name(self) -> str:
        return f"{self.items}x{self.width}" + ("" if self.bits == 64 else f"_{self.bits}_bits")


TABLES = (SummedTable(1682, 21, 64), SummedTable(1682, 21, 32), SummedTable(3706, 81, 64))


class Meter:
    """CPU milliseconds and bytes, by phase of the protocol."""

    def __init__(self) -> None:
        self.ms: dict[str, list[float]] = defaultdict(list)
        self.up: dict[str, list[int]] = defaultdict(list)
        self.down: dict[str, list[int]] = defaultdict(list)

    def timed(self, name: str, call: Callable[[], T]) -> T:
        box: list[T] = []
        self.ms[name].append(1e3 * cost(lambda: box.append(call())).cpu)
        return box[0]

    def client(self, phase: str, call: Callable[[], Signed], received: bytes = b"") -> Signed:
        """Run one step of a client, and record its time and the bytes that it sent and received."""
        from entrenous_network.frames.secure import frame_of

        sent = self.timed(phase, call)
        self.up[phase].append(len(frame_of(sent)))
        self.down[phase].append(len(received))
        return sent

    def each(self, phase: str) -> float:
        """Milliseconds of one client, the median over all; consent and unmasking are one phase of
        two steps.
        """
        return sum(statistics.median(self.ms[step]) for step in _steps(phase))


def _steps(phase: str) -> tuple[str, ...]:
    return ("consent", "unmask") if phase == "unmask" else (phase,)


def measure(
    *,
    parties: int = PARTIES,
    tables: Sequence[SummedTable] = TABLES,
    dropouts: Sequence[float] = DROPOUTS,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Measure a complete sum of `parties` clients for every table and every dropout (the share of
    clients that never send their masked vector)."""
    found: dict[str, Any] = {"parties": parties}
    for number, table in enumerate(tables):
        for k, dropout in enumerate(dropouts):
            progress(
                number * len(dropouts) + k,
                len(tables) * len(dropouts),
                f"{table.name}, {dropout:.0%} missing",
            )
            meter, same = run(parties, table, dropout)
            mark = table.name + (f"_dropout_{100 * dropout:.0f}" if dropout else "")
            found |= (
                {f"exact_{mark}": same}
                | times(meter, mark)
                | ({} if dropout else sizes(meter, mark, table, parties))
            )
    first, limit = tables[0].name, tables[-1].name
    return {
        **found,
        "ratio": found[f"mask_ms_{limit}"] / found[f"generator_ms_{limit}"],
        "bytes_ratio": found[f"up_bytes_{first}"] / found[f"plain_bytes_{first}"],
        "against": (
            f"ratio: masking {limit} against AES-256-CTR making {parties} such masks and nothing"
            " else; bytes_ratio: all that a client sends against the same words in the clear"
            f" ({found[f'plain_bytes_{first}']:,} bytes)"
        ),
    }


def times(meter: Meter, mark: str) -> dict[str, float]:
    """Milliseconds of a client by phase and in all, and of the server: for the whole sum, and for
    unmasking alone.
    """
    phases = {f"{phase}_ms_{mark}": meter.each(phase) for phase in CLIENT_PHASES}
    server = {
        f"server_ms_{mark}": sum(meter.ms["server"]),
        f"server_unmask_ms_{mark}": meter.ms["total"][0],
    }
    return {**phases, f"client_ms_{mark}": sum(phases.values()), **server}


def sizes(meter: Meter, mark: str, table: SummedTable, parties: int) -> dict[str, float]:
    """Bytes of a client by phase and in all; of the same words in the clear; milliseconds of the
    generator for as many masks.
    """
    plain = table.items * table.width * table.bits // 8
    sent = {
        f"{phase}_bytes_{mark}": sum(max(meter.up[step]) for step in _steps(phase))
        for phase in CLIENT_PHASES
    }
    down = sum(max(received) for received in meter.down.values())
    whole = {
        f"up_bytes_{mark}": sum(sent.values()),
        f"down_bytes_{mark}": down,
        f"plain_bytes_{mark}": plain,
    }
    return {**sent, **whole, f"generator_ms_{mark}": generator(plain, parties)}


def run(parties: int, table: SummedTable, dropout: float) -> tuple[Meter, bool]:
    """Run one secure sum in which a share `dropout` of the parties sends no masked vector. Returns
    its costs, and whether the result is the plain sum of the others."""
    clients, meter = _started(parties, table), Meter()
    names, length = list(clients), table.items * table.width
    server, alive = _server(names, length, table.bits), names[round(dropout * parties) :]
    vectors = {name: _vector(length, k) for k, name in enumerate(names)}
    for client in clients.values():
        _to(meter, server, meter.client("keys", client.advertise))
    roster = meter.timed("server", server.roster)
    for client in clients.values():
        shares = meter.client("shares", partial(client.share, roster), roster)
        _to(meter, server, shares)
    for name in alive:
        _mask(meter, server, clients[name], vectors[name])
    for name in alive:
        said = meter.timed("server", server.survivors)
        consent = meter.client("consent", partial(clients[name].consent, said), said)
        _to(meter, server, consent)
    consents = meter.timed("server", server.consents)
    for name in alive:
        unmasking = meter.client("unmask", partial(clients[name].unmask, consents), consents)
        _to(meter, server, unmasking)
    total = meter.timed("total", server.total)
    meter.ms["server"].append(meter.ms["total"][0])
    return meter, np.array_equal(total, sum(vectors[name] for name in alive))


def _mask(
    meter: Meter, server: SecureSumServer, client: SecureSumClient, vector: Int64Array
) -> None:
    from entrenous_network.secure_sum.vector import SumRows

    inbox = meter.timed("server", lambda: server.inbox(client.name))
    _to(
        meter,
        server,
        meter.client("mask", lambda: client.mask(inbox, vector, SumRows(1, 1)), inbox),
    )


def _to(meter: Meter, server: SecureSumServer, message: Signed) -> None:
    meter.timed("server", partial(server.add, message))


def _identities(names: Sequence[str]) -> dict[str, bytes]:
    """Private keys that everyone could know: this is a bench."""
    return {name: (k + 1).to_bytes(32, "big") for k, name in enumerate(names)}


def _server(names: Sequence[str], length: int, bits: int) -> SecureSumServer:
    from entrenous_network.agreement.members import Member, Members
    from entrenous_network.secure_sum.primitives import identity_of
    from entrenous_network.secure_sum.server import SecureSumServer
    from entrenous_network.secure_sum.terms import SumTerms

    keys = enumerate(_identities(names).items())
    come = [Member(name, identity_of(key).hex(), k, k) for k, (name, key) in keys]
    members = Members(len(names), come)
    return SecureSumServer(SumTerms("bench", 0, 0, bytes(32), length, bits), members)


def _started(parties: int, table: SummedTable) -> dict[str, SecureSumClient]:
    names = [f"node-{k:04d}" for k in range(parties)]
    server = _server(names, table.items * table.width, table.bits)
    from entrenous_network.secure_sum.client import SecureSumClient
    from entrenous_network.secure_sum.terms import Floors

    floors = Floors(people=1, occupancy=0)  # with 30 % missing, fewer than the default are left
    return {
        name: SecureSumClient(server.terms, server.members.head, name, key, floors)
        for name, key in _identities(names).items()
    }


def _vector(length: int, number: int) -> Int64Array:
    """Values of both signs, as large as updates are: within +-16 on the grid of 2^-16."""
    return (np.arange(length, dtype=np.int64) * (2 * number + 7919)) % (1 << 21) - (1 << 20)


def generator(nbytes: int, masks: int) -> float:
    """Milliseconds in which the mask generator alone makes so many masks, in blocks that stay in
    the cache.
    """
    from entrenous_network.secure_sum.primitives import BLOCK, stream

    zeros, out = memoryview(bytes(BLOCK)), bytearray(BLOCK + 16)

    def make() -> None:
        for k in range(masks):
            mask = stream(k.to_bytes(32, "big"))
            for low in range(0, nbytes, BLOCK):
                mask.update_into(zeros[: min(BLOCK, nbytes - low)], out)

    return 1e3 * min(cost(make).cpu for _ in range(3))


def bench(threads: int, progress: Progress, devices: int = PARTIES) -> dict[str, Any]:
    """100 parties (`--devices`), tables of MovieLens-100K (1,682 x 21) and -1M (3,706 x 81), nobody
    and 30 % missing after the shares are out: CPU ms and bytes of a client by phase (keys, shares,
    mask, unmask), CPU ms of the server for the whole sum; one process, one thread. It lasts a
    minute, with 50 parties 11 s, with 360 more than 8 minutes: every two parties agree on keys.
    """
    return measure(parties=devices, progress=progress)


BENCHES = {"secure-sum": bench}
