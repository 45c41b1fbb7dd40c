"""The parts of a secure round that both sides must see alike: its terms, and its messages as
frames.
"""

from __future__ import annotations

from entrenous.core.contract.declared import Contract
from entrenous.privacy.protection import ProtectionInForce

from ..agreement.members import Members
from ..agreement.terms import FederationTerms
from ..secure_sum.messages import Signed, largest_message
from ..secure_sum.terms import SumTerms
from ..secure_sum.vector import size
from . import contribution
from .frames import HEAD, SIGNATURE, START, framed

MESSAGE = 1 << 30  # bytes of a message, at most
SPARE = 1.125  # of the bytes of an answer, for items that come


def sum_terms(
    terms: FederationTerms, contract: Contract, number: int, attempt: int, model: bytes
) -> SumTerms:
    """Returns the terms of one attempt at the sum of a round: all that its parties know beforehand.

    contract: as `contribution.agreed_by` returns it. model: sha256 of the arrays that all devices
    get.
    """
    protection = terms.protection
    return SumTerms(
        run=terms.run,
        round=number,
        attempt=attempt,
        model=model,
        length=size(contract.empty_total()),
        bits=protection.bits,
        people=terms.fewest,
        noise=ProtectionInForce(protection, contract).share,
        items=terms.items_root,
    )


def frame_of(signed: Signed) -> bytes:
    """Returns a message of a party as a frame."""
    return bytes(framed(signed.head, signed.signature, [signed.body]))


def largest_answer(terms: FederationTerms, members: Members, place: str = "") -> int:
    """Returns the bytes of the longest frame that a node of a federation may send. place: the file
    of an algorithm of the user's own.
    """
    contract = contribution.contract_of(terms, place)
    body = contribution.largest_body(contract, members.most_users)
    nbytes = 0
    if terms.masked:
        nbytes = sum_terms(terms, contract, 0, 0, bytes(32)).nbytes
    return START.size + HEAD + SIGNATURE + body + largest_message(nbytes)
