"""A server's requests to its nodes, as the server makes them and as a node has read them; the bytes
of what devices receive; and the hash by which all nodes know that they train from one model.

A download is read strictly against the algorithm's declaration, ranges and finite numbers
included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ...core.contract.declarations import UpTo
from ...core.contract.declared import Contract, read_only, upper_bound
from ...core.contract.enforce import check_arrays
from ...core.contract.protocols import State, arrays_of, model_sha256
from ...core.types import Array, Int64Array
from ..agreement.terms import FederationTerms
from ..wire import tensors
from ..wire.tensors import Buffer, Extent, TensorField
from .frames import HEAD, SIGNATURE, START, FrameParts, seal_parts

NAME = "server"
# Bytes of what a server passes on in a secure sum, at most: a kilobyte for each of its parties.
LISTS = 4 << 20


# ---- downloads -----------------------------------------------------------------------------------


def write_download(download: State, more: Mapping[str, Array]) -> list[Buffer]:
    """Returns a download, and further arrays, as the bytes that `read_download` reads, in parts:
    views of the arrays where these lie.
    """
    arrays = arrays_of(download)
    for name, array in arrays.items():
        # Booleans travel as bytes of 0 and 1.
        if array.dtype == np.bool_:
            arrays[name] = array.view(np.uint8)
    return tensors.parts({**arrays, **more})


def read_download(
    body: Buffer, contract: Contract, devices: int, more: Mapping[str, TensorField]
) -> tuple[State, dict[str, Array]]:
    """Returns a download for as many devices, read-only, and the further arrays that were agreed
    on.

    Raises wire.tensors.Malformed for other names, types, shapes or layouts, and ContractError for a
    value that the declaration excludes."""
    schema = {**download_schema(contract, devices), **more}
    arrays = tensors.read(body, schema)
    further = {name: arrays.pop(name) for name in more}
    for field in contract.receives:
        if field.dtype == "bool":
            # Any byte but 0 is true, as numpy has it.
            arrays[field.name] = arrays[field.name] != 0
    # The layout is right by now; ranges and finite numbers are left to check.
    check_arrays(contract, "download", contract.receives, arrays, {"devices": devices})
    kind = contract.declaration.receives
    assert kind is not None  # of an algorithm whose devices receive something
    return read_only(kind(**arrays)), further


def download_schema(contract: Contract, devices: int) -> dict[str, TensorField]:
    """Returns the names, types and shapes of a download for as many devices."""
    schema = {}
    for field in contract.receives:
        shape: list[Extent] = []
        for size in field.axes.sizes:
            most = devices if upper_bound(size) == "devices" else contract.size(size)
            # Where the arrays decide their size, any up to the most it may be will do.
            extent = (0, most) if isinstance(size, UpTo) else most
            shape.append(extent)
        dtype = "u1" if field.dtype == "bool" else field.dtype
        schema[field.name] = TensorField(dtype, tuple(shape))
    return schema


# ---- requests ------------------------------------------------------------------------------------


class RoundWork(NamedTuple):
    """The work of a round: what it asks, and whom."""

    round: int
    model: bytes
    """The sha256 of the round's model."""
    asked: Mapping[str, Int64Array]
    """The users that each node is asked for."""
    download: State
    of: Int64Array | None = None
    """The users that the download was delivered for already, int64 ascending; None = it is as the
    algorithm made it."""
    state: State | None = None
    """The server's state, from which another process makes the download; None for a relay."""

    def delivered(self, contract: Contract, users: Int64Array) -> State:
        """Returns the download for the devices of some users."""
        if self.of is None:
            return contract.delivered(self.download, users)
        # A relay passes on what its server delivered for all users below it.
        places = np.searchsorted(self.of, users)
        return contract.delivered_to(self.download, places)


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
        """Returns a request to train the devices of some users. inbox: a message of a secure
        sum."""
        further: dict[str, Array] = {"users": users}
        if inbox is not None:
            further["inbox"] = np.frombuffer(inbox, np.uint8)
        download = work.delivered(self._contract, users)
        body = write_download(download, further)
        return self._about(kind, body, work, users, attempt)

    def model(self, work: RoundWork, users: Int64Array) -> FrameParts:
        """Returns a model for some users, to recommend by."""
        download = work.delivered(self._contract, users)
        body = write_download(download, {})
        return self._about("model", body, work._replace(model=b""), users, 0)

    def _about(
        self, kind: str, body: Sequence[Buffer], work: RoundWork, users: Int64Array, attempt: int
    ) -> FrameParts:
        return self.seal(
            kind,
            *body,
            round=work.round,
            attempt=attempt,
            model=work.model,
            items=self._terms.items,
            about={"users": len(users), "start": self._start},
        )

    def seal(self, kind: str, *body: Buffer, **fields: Any) -> FrameParts:
        """Returns a message of the server, signed."""
        return seal_parts(self._key, kind, body, run=self._terms.run, node=NAME, **fields)


def largest_request(contract: Contract, users: int, masked: bool) -> int:
    """Returns the bytes of the longest frame that a server may send to a node of so many users: a
    download for all of them, and in a secure sum (masked) what comes with it. A node reads no
    more."""
    schema = download_schema(contract, users)
    schema["users"] = TensorField("i8", (users,))
    message = LISTS if masked else 0
    return START.size + HEAD + SIGNATURE + tensors.largest(schema) + message


class NodeRequest(NamedTuple):
    """A request to train, checked."""

    round: int
    users: Int64Array
    """The node's users that are asked for."""
    download: State
    asked: bytes
    """The sha256 of all of this."""


def announced(contract: Contract, download: State) -> bytes:
    """Returns the sha256 by which a server announces the model of a round: of all arrays and flags
    that every node receives alike. download: as it was delivered, for whichever devices."""
    arrays = arrays_of(download)
    shared = {name: arrays[name] for name in contract.shared}
    return bytes.fromhex(model_sha256(shared))


def announced_of(contract: Contract, download: State) -> bytes:
    """Returns the same hash for a download before it is delivered to anybody."""
    # User 0 stands for all: what all receive alike does not depend on the user.
    delivered = contract.delivered(download, np.zeros(1, np.int64))
    return announced(contract, delivered)
