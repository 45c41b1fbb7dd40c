"""A server's requests to its nodes, as it makes them and as a node has read them; and the hash by
which all nodes know that they train from one model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ...core.contract.declared import Contract
from ...core.contract.protocols import State, arrays_of
from ...core.contract.trial import delivered_to
from ...core.types import Int64Array
from ...runs.store import model_sha256
from ..agreement.terms import FederationTerms
from ..wire import tensors
from ..wire.download import download_schema, write_download
from ..wire.tensors import Buffer, TensorField
from .frames import HEAD, SIGNATURE, START, FrameParts, seal_parts

NAME = "server"
LISTS = (
    4 << 20
)  # bytes of what a server passes on in a secure sum, at most: a kilobyte for each of its parties


class RoundWork(NamedTuple):
    """What a round asks of whom: its number, the sha256 of its model, which users of each node, and
    the download. of: the users that the download was delivered for already, int64 ascending; None =
    it is as the algorithm made it. state: the server's, from which another process makes the
    download; None for a relay's work.
    """

    round: int
    model: bytes
    asked: Mapping[str, Int64Array]
    download: State
    of: Int64Array | None = None
    state: State | None = None

    def delivered(self, contract: Contract, users: Int64Array) -> State:
        """The download for the devices of some users."""
        if self.of is None:
            return contract.delivered(self.download, users)
        return delivered_to(contract, self.download, np.searchsorted(self.of, users))


@final
class Requests:
    """Makes the signed requests of a server. start: a number that grows with every start of it."""

    def __init__(
        self, key: Ed25519PrivateKey, terms: FederationTerms, contract: Contract, start: int
    ) -> None:
        self._key, self._terms, self._contract, self._start = key, terms, contract, start

    def work(
        self,
        work: RoundWork,
        users: Int64Array,
        kind: str = "work",
        *,
        attempt: int = 0,
        inbox: bytes | None = None,
    ) -> FrameParts:
        """A request to train the devices of some users. inbox: a message of a secure sum."""
        more = {} if inbox is None else {"inbox": np.frombuffer(inbox, np.uint8)}
        body = write_download(work.delivered(self._contract, users), {"users": users, **more})
        return self._about(kind, body, work, users, attempt)

    def model(self, work: RoundWork, users: Int64Array) -> FrameParts:
        """A model for some users, to recommend by."""
        body = write_download(work.delivered(self._contract, users), {})
        return self._about("model", body, work._replace(model=b""), users, 0)

    def _about(
        self, kind: str, body: Sequence[Buffer], work: RoundWork, users: Int64Array, attempt: int
    ) -> FrameParts:
        about = {"users": len(users), "start": self._start}
        return self.seal(
            kind,
            *body,
            round=work.round,
            attempt=attempt,
            model=work.model,
            items=self._terms.items,
            about=about,
        )

    def seal(self, kind: str, *body: Buffer, **fields: Any) -> FrameParts:
        """A message of the server, signed."""
        return seal_parts(self._key, kind, body, run=self._terms.run, node=NAME, **fields)


def largest_request(contract: Contract, users: int, masked: bool) -> int:
    """Bytes of the longest frame that a server may send to a node of so many users: a download for
    all of them, and in a secure sum (masked) what comes with it. A node reads no more."""
    fields = {**download_schema(contract, users), "users": TensorField("i8", (users,))}
    return START.size + HEAD + SIGNATURE + tensors.largest(fields) + (LISTS if masked else 0)


class NodeRequest(NamedTuple):
    """A request to train, checked: of which round, which of the node's users, with which model."""

    round: int
    users: Int64Array
    download: State
    asked: bytes  # sha256 of all of these


def announced(contract: Contract, download: State) -> bytes:
    """The sha256 by which a server announces the model of a round: of all arrays and flags that
    every node receives alike. download: as it was delivered, for whichever devices."""
    arrays = arrays_of(download)
    return bytes.fromhex(model_sha256({name: arrays[name] for name in contract.shared}))


def announced_of(contract: Contract, download: State) -> bytes:
    """The same, of a download before it is delivered to anybody."""
    return announced(contract, contract.delivered(download, np.zeros(1, np.int64)))
