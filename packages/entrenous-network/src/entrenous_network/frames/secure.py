"""The parts of a secure round that both sides must see alike: the kinds of its frames, its terms,
and the content of a masked answer.
"""

from __future__ import annotations

import numpy as np

from entrenous.core.contract.declared import Contract
from entrenous.core.contract.update import ShownArrays
from entrenous.core.types import Array, Int64Array
from entrenous.privacy.protection import ProtectionInForce

from ..agreement.members import Members
from ..agreement.terms import FederationTerms
from ..secure_sum.messages import limit_of
from ..secure_sum.terms import SumTerms
from ..secure_sum.vector import size
from ..wire import tensors
from ..wire.tensors import Malformed, TensorField
from . import contribution
from .frames import HEAD, SIGNATURE, START, Code, Frame, FrameRefused

KINDS = ("advert", "share", "mask", "consent", "unmask")  # in the order of secure_sum's stages
# Asks for the key of a box that somebody complained of; brings that key.
OPEN = "open"
OPENED = "opening"
COMPLAINT = "complaint"  # the answer to `mask` of a node that got a bad box
ANSWERED = {OPEN: OPENED}  # kinds of answers, where they are not those of their requests
MESSAGE = 1 << 30  # bytes of a message, at most
SPARE = 1.125  # of the bytes of an answer, for items that come


def fewest_people(terms: FederationTerms, contract: Contract) -> int:
    """Returns the people whom a sum of a round must have. contract: as in `sum_terms`."""
    # A sum of fewer people would have less noise than was promised. The difference of two sums need
    # not be of as many: it has the noise of both.
    protection = terms.protection
    return max(protection.people, ProtectionInForce(protection, contract).fewest)


def sum_terms(
    terms: FederationTerms, contract: Contract, number: int, attempt: int, model: bytes
) -> SumTerms:
    """Returns the terms of one attempt at the sum of a round: all that its parties know beforehand.

    contract: as `contribution.agreed_by` returns it. model: sha256 of the arrays that all devices
    get.
    """
    protection = terms.protection
    return SumTerms(
        run=terms.listed,
        round=number,
        attempt=attempt,
        model=model,
        length=size(contract.empty_total()),
        bits=protection.bits,
        people=fewest_people(terms, contract),
        parties=protection.parties,
        noise=ProtectionInForce(protection, contract).share,
    )


def upload(message: bytes, shown: dict[str, Array]) -> bytes:
    """Returns the body of a masked answer: the masked vector, and the arrays that the server must
    see for each device.
    """
    return tensors.write({"message": np.frombuffer(message, np.uint8), **shown})


def uploaded(
    frame: Frame, contract: Contract, users: Int64Array
) -> tuple[bytes, tuple[ShownArrays, ...]]:
    """Returns the masked vector of an answer, and what each device of `users` shows besides it.
    Raises FrameRefused.
    """
    if frame.head.kind != "mask":
        return bytes(frame.body), ()
    schema = contribution.shown_schema(contract, len(users))
    schema["message"] = TensorField("u1", ((0, MESSAGE),))
    try:
        arrays = tensors.read(frame.body, schema)
    except Malformed as bad:
        raise FrameRefused(Code.MALFORMED, bad.code) from None
    shown = contribution.checked_shown(arrays, contract, users)
    return arrays["message"].tobytes(), shown


def largest_answer(terms: FederationTerms, members: Members, place: str = "") -> int:
    """Returns the bytes of the longest frame that a node of a federation may send. place: the file
    of an algorithm of the user's own.
    """
    contract = contribution.contract_of(terms, place)
    body = contribution.largest_body(contract, members.everyone)
    nbytes = 0
    if terms.masked:
        nbytes = sum_terms(terms, contract, 0, 0, bytes(32)).nbytes
    # One stage or another of a secure sum has the longest message.
    message = max(limit_of(stage, nbytes) for stage in range(len(KINDS)))
    return START.size + HEAD + SIGNATURE + body + message
