"""Why a frame is refused: one code each, so that a log line and a counter say what happened without
a byte of what was sent.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import final

from ...core.errors import EntrenousError


class Code(StrEnum):
    """The result of receiving a message. All but `accepted` leave the model unchanged."""

    ACCEPTED = "accepted"
    # the frame
    NOT_A_FRAME = "not-a-frame"
    COMPRESSED = "compressed"
    TRUNCATED = "truncated"
    TOO_LONG = "too-long"
    WRONG_LENGTH = "wrong-length"
    BAD_HEAD = "bad-head"
    BAD_NAME = "bad-name"
    WRONG_VERSION = "wrong-version"
    WRONG_BYTE_ORDER = "wrong-byte-order"
    WRONG_DIGEST = "wrong-digest"
    # who sent it, and for what
    UNKNOWN_NODE = "unknown-node"
    BAD_SIGNATURE = "bad-signature"
    WRONG_KIND = "wrong-kind"
    WRONG_RUN = "wrong-run"
    PAST_ROUND = "past-round"
    FUTURE_ROUND = "future-round"
    WRONG_MODEL = "wrong-model"
    NOT_ASKED = "not-asked"
    TOO_FEW_USERS = "too-few-users"
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"
    REPLAYED_NONCE = "replayed-nonce"
    LATE = "late"
    # the arrays
    MALFORMED = "malformed"
    WRONG_TYPE = "wrong-type"
    WRONG_FACTORS = "wrong-factors"
    WRONG_ITEMS = "wrong-items"
    TRANSPOSED = "transposed"
    BROADCAST = "broadcast"
    WRONG_ARRAYS = "wrong-arrays"
    TOO_MANY_ROWS = "too-many-rows"
    NEGATIVE_ITEM = "negative-item"
    UNKNOWN_ITEM = "unknown-item"
    DUPLICATE_ITEM = "duplicate-item"
    WRONG_COUNT = "wrong-count"
    WRONG_WEIGHT = "wrong-weight"
    WRONG_SENDER = "wrong-sender"
    WRONG_GROUP = "wrong-group"
    WRONG_PLACE = "wrong-place"
    NAN = "nan"
    INF = "inf"
    MINUS_INF = "minus-inf"
    TOO_LARGE = "too-large"
    NOT_SUMMED = "not-summed"  # a message that the secure sum does not take
    # a node's own reasons
    WITHHELD = "withheld"
    FAILED = "failed"


def reason(said: bytes) -> str:
    """The part of a node's refusal that may be logged: its code, if known, and the first word of
    its explanation.
    """
    first, _, rest = said[:120].decode("ascii", "replace").partition("\n")
    word = re.match(r"([a-z][a-z -]{0,30}):", rest)
    return (
        f"{first}{f', {word[1]}' if word else ''}" if first in {code.value for code in Code} else ""
    )


@final
class FrameRefused(EntrenousError):
    """Raised for a frame that is not accepted, with a code and a text that has none of its
    content.
    """

    def __init__(self, code: Code, text: str = "") -> None:
        self.code, self.text = code, text
        super().__init__(f"{code.value}{': ' if text else ''}{text}")
