"""`SumRefused`: what a secure sum will not do, by code."""

from __future__ import annotations

from typing import Literal, final, get_args

from entrenous.core.errors import EntrenousError

Code = Literal[
    "malformed",  # not a message of this protocol
    "size",  # longer or shorter than it can be
    "stage",  # too early, too late, or a second and different question
    "unknown",  # a sender or a receiver who does not take part
    "duplicate",  # a second and different message of one sender
    "signature",  # forged, or made for another attempt, roster or list
    "model",  # somebody has another model: the server shows different ones
    "keys",  # a public key that no one can agree with
    "roster",  # not in order, or without or with a changed entry of this client
    "box",  # more or fewer boxes than there are others
    "sharers",  # a list of sharers that cannot be
    "survivors",  # a list of survivors that cannot be
    "floor",  # too few parties or people
    "contract",  # a list of people against the participation contract
    "occupancy",  # rows that too few devices fill
    "both",  # the other kind of share of a party whose one kind was agreed on
    "quorum",  # a list that too few have signed
    "vector",  # not int64 of the length agreed on
    "range",  # a value that could overflow the sum
    "threshold",  # too few answers: nothing is revealed
    "shares",  # shares that do not give the secret that was committed to
]
CODES: tuple[str, ...] = get_args(Code)


@final
class SumRefused(EntrenousError):
    """Raised for a message or step that is refused, with a code and one line. Nothing secret has
    left, and the state is as it was."""

    def __init__(self, code: Code, text: str) -> None:
        self.code: Code = code
        self.text = text
        super().__init__(f"secure sum: {code}: {text}")


def require(condition: bool, code: Code, text: str) -> None:
    """Raise SumRefused with a code and a text unless `condition` holds."""
    if not condition:
        raise SumRefused(code, text)
