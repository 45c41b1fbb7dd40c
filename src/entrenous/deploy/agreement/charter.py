"""The charter of a relay under masks: the word of the operator above that a relay's nodes are one
group of a federation.

A relay's nodes know its key and its terms. The charter shows them the terms of the federation
above, and that its operator has taken the relay's key as that of a member. So an owner can compare
the identity of the federation with owners behind other relays.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import Meta, Struct

from ...core.completed import completed
from ...core.errors import InputError
from ...privacy.secure_sum.primitives import verified
from .files import read_json, write_json
from .invitation import CHARTER, Hex32, Hex64
from .terms import FederationTerms

# Begins what an operator signs for a relay, so that the signature is good for nothing else.
PURPOSE = b"entrenous relay 1\0"
# A relay has a key and a nonce of its own, and names the federation above. It agrees on nothing
# else.
OF_RELAY = ("operator", "nonce", "above")


@completed
class Charter(Struct, frozen=True, forbid_unknown_fields=True):
    """The terms of a federation of relays, and its operator's signature for one relay."""

    terms: dict[str, Any]
    """The terms of the federation above."""
    name: Annotated[str, Meta(min_length=1, max_length=64)]
    """The name of the relay."""
    key: Hex32
    """The relay's public key, by which it is a member above and the server of its nodes."""
    signature: Hex64


def write_charter(
    folder: Path, operator: Ed25519PrivateKey, terms: FederationTerms, name: str, key: bytes
) -> None:
    """Writes the charter of a relay into a folder. key: the relay's public key, 32 bytes."""
    signature = operator.sign(_signed(terms.run, name, key)).hex()
    fields = {"terms": terms.model_dump(mode="json"), "name": name, "key": key.hex()}
    write_json(folder / CHARTER, {**fields, "signature": signature})


def check_charter(folder: Path, terms: FederationTerms) -> None:
    """Checks that `terms` are those of one group of the federation that the charter in a folder
    shows.

    Raises InputError for another federation, for terms that differ from its terms in more than a
    relay's own, and for a relay that its operator has not signed.
    """
    path = folder / CHARTER
    try:
        charter = msgspec.convert(read_json(path), Charter)
    except msgspec.ValidationError as wrong:
        raise _refused(path, str(wrong).lower(), "terms, name, key and signature") from None
    above = FederationTerms.parse(charter.terms, str(path))
    if above.run != terms.above or not above.of_relays:
        raise _refused(path, "is of another federation", f"that of run {terms.above}")
    differing = _differing(above, terms)
    if differing:
        problem = f"the relay's terms differ from it in {', '.join(differing)}"
        raise _refused(path, problem, "the terms of the federation above")
    signed = _signed(above.run, charter.name, bytes.fromhex(charter.key))
    if not verified(bytes.fromhex(above.operator), bytes.fromhex(charter.signature), signed):
        raise _refused(path, "is not signed by the operator above", "its signature")
    if terms.operator != charter.key:
        raise _refused(path, "is of another relay", "the key that signs for this one")


def _differing(above: FederationTerms, below: FederationTerms) -> list[str]:
    """Returns the terms in which a relay's federation differs from the one above, though it may
    not."""
    theirs = above.model_dump(mode="json")
    own = below.model_dump(mode="json")
    return sorted(name for name in own if name not in OF_RELAY and own[name] != theirs[name])


def _signed(run: str, name: str, key: bytes) -> bytes:
    """Returns the text that an operator signs for a relay."""
    return PURPOSE + f"{run} {name} ".encode() + key


def _refused(path: Path, problem: str, expected: str) -> InputError:
    fix = "ask the operator of the relay for another invitation, and why"
    return InputError(str(path), problem, expected=expected, fix=fix)
