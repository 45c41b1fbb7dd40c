"""A server's requests to its nodes: as the server makes them (`Requests`), and as a node reads and
answers them (`Responder`); the bytes of what devices receive; and the hash by which all nodes know
that they train from one model.

A download is read strictly against the algorithm's declaration, ranges and finite numbers
included."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from entrenous.core.contract.declarations import UpTo
from entrenous.core.contract.declared import Contract, ContractError, read_only, upper_bound
from entrenous.core.contract.enforce import check_arrays
from entrenous.core.contract.protocols import State, arrays_of, model_sha256
from entrenous.core.errors import InputError, one_line
from entrenous.core.types import Array, Int64Array

from ..agreement.notice import known_number, take_notice
from ..agreement.terms import FederationTerms
from ..wire import tensors
from ..wire.tensors import Buffer, Extent, Malformed, TensorField
from .frames import (
    ADDRESS_NEWS,
    HEAD,
    ITEMS_NEWS,
    KNOWN,
    MEMBERS,
    MEMBERS_NEWS,
    MOVED,
    SIGNATURE,
    START,
    Code,
    Frame,
    FrameParts,
    FrameRefused,
    opened,
    seal,
    seal_parts,
    signed_by,
)

NAME = "server"
# What a node does with a request, by its kind.
Handlers = Mapping[str, Callable[[Frame], bytes]]
# Bytes of what a server passes on in a secure sum, at most: 6 kB for each of 1,024 parties.
LISTS = 6 << 20
# Kinds of requests that bring what a node may lack.
UNCOUNTED = {MEMBERS_NEWS, ITEMS_NEWS, ADDRESS_NEWS}


@contextmanager
def malformed(kind: str) -> Iterator[None]:
    """Refuses news that cannot be taken: within it, errors of reading become a FrameRefused."""
    try:
        yield
    except (InputError, ValueError, TypeError, KeyError, RecursionError) as why:
        raise FrameRefused(Code.MALFORMED, f"{kind}: {one_line(str(why))}") from None


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
            most = devices
            if upper_bound(size) != "devices":
                most = contract.size(size)
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
    state: State | None = None
    """The server's state, from which another process makes the download; None = it is not told."""


@final
class Requests:
    """Makes the signed requests of a server. start: a number that grows with every start of it.
    moved: that of its newest notice of addresses, 0 = there is none. members: all who are or were.
    """

    def __init__(
        self,
        key: Ed25519PrivateKey,
        terms: FederationTerms,
        contract: Contract,
        start: int,
        moved: int,
        members: int,
    ) -> None:
        self._key = key
        self._terms = terms
        self._contract = contract
        self._start = start
        # Said in each request, so that a node knows what it lacks.
        newest = {MOVED: moved, MEMBERS: members}
        self._newest = {name: number for name, number in newest.items() if number}

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
        download = self._contract.delivered(work.download, users)
        body = write_download(download, further)
        return self._about(kind, body, work, users, attempt)

    def model(self, work: RoundWork, users: Int64Array) -> FrameParts:
        """Returns a model for some users, to recommend by."""
        download = self._contract.delivered(work.download, users)
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
            about={"users": len(users), "start": self._start},
        )

    def seal(self, kind: str, *body: Buffer, **fields: Any) -> FrameParts:
        """Returns a message of the server, signed. It says how long the logs of items and members
        are, and which notice of addresses is the newest, if there is any.
        """
        fields["items"] = self._terms.listed
        if self._newest:
            fields["about"] = {**fields.get("about", {}), **self._newest}
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


# ---- the answering side --------------------------------------------------------------------------


@final
class Responder:
    """Answers one server for one node: checks who asks, reads the request, and seals the
    answer.

    users: the users that the node serves, int64 ascending. least: users of whom one answer must be.
    folder: has the newest notice of the server's addresses; None = the node takes none.
    """

    def __init__(
        self,
        name: str,
        key: Ed25519PrivateKey,
        terms: FederationTerms,
        contract: Contract,
        users: Int64Array,
        least: int = 1,
        folder: Path | None = None,
    ) -> None:
        self.name = name
        self.key = key
        self.terms = terms
        self.contract = contract
        self.users = users
        self._least = least
        self._folder = folder

    def answer(self, request: bytes, handlers: Handlers) -> bytes:
        """Returns the answer to a request, by the handler of its kind, or a refusal that says why.
        Nothing that a server sends gets beyond this.
        """
        about: dict[str, Any] = {}
        try:
            frame = opened(request)
            head = frame.head
            about = {
                "round": head.round,
                "attempt": head.attempt,
                "model": head.model,
                "items": self.terms.listed,
            }
            # Whoever is on the way could ask a node to train on a model of theirs.
            if not signed_by(frame, self.terms.operator):
                raise FrameRefused(Code.BAD_SIGNATURE, "not the server of this federation")
            # The operator may have signed this for another federation with the same key.
            if head.run != self.terms.run:
                raise FrameRefused(Code.WRONG_RUN, "other terms than this node has")
            if head.kind not in handlers:
                raise FrameRefused(Code.WRONG_KIND)
            if head.kind not in UNCOUNTED:
                self._check_addresses(head.about.get(MOVED, 0))
                self._check_items(frame)
            if head.round > self.terms.last_number:
                raise FrameRefused(Code.FUTURE_ROUND, f"the terms say {self.terms.rounds} rounds")
            return handlers[head.kind](frame)
        except FrameRefused as why:
            text = f"{why.code.value}\n{why.text}"
            return self.seal("refused", text.encode(), about=why.about, **about)
        except Exception as why:
            # A number that is not finite, a full disk, a fault in an algorithm: by class alone,
            # since the text may name rows.
            text = f"{Code.FAILED.value}\n{type(why).__name__}"
            return self.seal("refused", text.encode(), **about)

    def _check_items(self, frame: Frame) -> None:
        """Raises FrameRefused for a request about another list of items than the node has: there
        each row could mean another item.
        """
        known = self.terms.listed
        if frame.head.items not in (0, known):
            text = f"{known} lines of items are known here"
            raise FrameRefused(Code.WRONG_ITEMS, text, {KNOWN: known})

    def _check_addresses(self, newest: int) -> None:
        """Raises FrameRefused where the server has a newer notice of its addresses than the node:
        it is told of that first.
        """
        if self._folder is None or not newest:
            return
        known = known_number(self._folder)
        if newest > known:
            text = f"of the server's addresses notice {known} is known here"
            raise FrameRefused(Code.OLD_ADDRESSES, text, {KNOWN: known})

    def take_addresses(self, frame: Frame) -> bytes:
        """Takes a newer notice of the server's addresses. Raises FrameRefused."""
        assert self._folder is not None  # of each node that has this as a handler
        with malformed(ADDRESS_NEWS):
            text = bytes(frame.body).decode()
            take_notice(self._folder, text, ADDRESS_NEWS, self.terms)
        return self.seal_for(frame, ADDRESS_NEWS, b"")

    def read_request(
        self, frame: Frame, further: dict[str, TensorField] | None = None
    ) -> tuple[NodeRequest, dict[str, Array]]:
        """Reads what a request asks for, and `further` arrays besides. Raises FrameRefused for
        users that are not the node's, and for another model than was announced."""
        m = self.asked_for(frame)
        head = frame.head
        if head.round == self.terms.last_number:
            raise FrameRefused(Code.FUTURE_ROUND, "that was the last one")
        schema = {"users": TensorField("i8", (m,)), **(further or {})}
        download, arrays = self.read_download(frame, schema, m)
        users = arrays.pop("users")
        # A user named twice would train twice, one of another node has no rows here.
        if np.any(np.diff(users) <= 0) or not np.isin(users, self.users).all():
            raise FrameRefused(Code.NOT_ASKED, "users that this node does not serve")
        # All nodes train from one model: one made for this node alone would tell more of it.
        if not self._is_announced(head.model, download):
            raise FrameRefused(Code.WRONG_MODEL, "the download is not the model that was announced")
        # The attempt is left out: an answer that was lost is asked for again.
        text = b"%d %s" % (head.round, head.model) + users.tobytes()
        asked = hashlib.sha256(text).digest()
        return NodeRequest(head.round, users, download, asked), arrays

    def _is_announced(self, model: bytes, download: State) -> bool:
        """Returns True if a download is the model of that hash."""
        return announced(self.contract, download) == model

    def asked_for(self, frame: Frame) -> int:
        """Returns how many users a request is about. Raises FrameRefused for none, for more than
        the node has, and for fewer than its owner lets it answer for at once.
        """
        m = frame.head.about.get("users", 0)
        if not 1 <= m <= len(self.users):
            raise FrameRefused(Code.WRONG_COUNT, f"asked for {m} users")
        least = self._least
        # An answer for fewer users tells the server more of each.
        if m < least:
            raise FrameRefused(Code.TOO_FEW_USERS, f"asked for {m} users; at least {least}")
        return m

    def read_download(
        self, frame: Frame, further: dict[str, TensorField], devices: int
    ) -> tuple[State, dict[str, Array]]:
        """Returns the download of a request for as many devices, held against the declaration, and
        further arrays. Raises FrameRefused.
        """
        try:
            return read_download(frame.body, self.contract, devices, further)
        except Malformed as bad:
            raise FrameRefused(Code.MALFORMED, bad.code) from None
        except ContractError as bad:
            raise FrameRefused(Code.MALFORMED, str(bad)) from None

    def seal_for(self, frame: Frame, kind: str, body: bytes) -> bytes:
        """Signs an answer to a request of a round, as a frame."""
        head = frame.head
        return self.seal(
            kind,
            body,
            round=head.round,
            attempt=head.attempt,
            model=head.model,
            items=self.terms.listed,
            about={"users": head.about.get("users", 0)},
        )

    def seal(self, kind: str, body: bytes = b"", **fields: Any) -> bytes:
        """Signs a message, as a frame."""
        return seal(self.key, kind, body, run=self.terms.run, node=self.name, **fields)
