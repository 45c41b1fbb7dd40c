"""Joining by a link at a worker. The lists of members and links are the server's process's alone,
which answers what strangers ask of its workers: so a link is counted once, whichever of them
somebody comes to.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from queue import Empty, SimpleQueue
from typing import final

from entrenous.core.errors import EntrenousError

from ..links.admission import Denied, Joins
from .channel import Order, OrderChannel

KNOCK = "knock"
KNOCKED = "knocked"
ANSWERED = 20.0  # seconds for the server's process to answer
OK = 200


@final
class AskedDesk:
    """The `Joins` of a worker, which asks the server's process."""

    def __init__(self, channel: OrderChannel) -> None:
        self._channel = channel
        self._numbers = count()
        self._waiting: dict[int, SimpleQueue[Order]] = {}  # questions by number

    def authority(self) -> bytes:
        return self._answer({"what": "authority"})

    def terms(self, token: str, address: str) -> bytes:
        return self._answer({"what": "terms", "token": token, "address": address})

    def joined(self, token: str, address: str, request: bytes) -> bytes:
        return self._answer({"what": "joined", "token": token, "address": address}, request)

    def said(self, order: Order) -> None:
        """Takes the answer of the server's process."""
        waiting = self._waiting.get(order.about["number"])
        # Whoever waited may have given up.
        if waiting is not None:
            waiting.put(order)

    def _answer(self, asked: Mapping[str, str], body: bytes = b"") -> bytes:
        number = next(self._numbers)
        self._waiting[number] = SimpleQueue()
        try:
            self._channel.send(KNOCK, {**asked, "number": number}, body)
            answer = self._waiting[number].get(timeout=ANSWERED)
        except (OSError, Empty):
            raise Denied(503, "busy") from None
        finally:
            del self._waiting[number]
        if answer.about["status"] != OK:
            raise Denied(answer.about["status"], answer.about["code"])
        return answer.body


def answered(joins: Joins, knock: Order) -> Order:
    """Returns the answer of the server's process to what somebody asks of a worker."""
    status = OK
    code = ""
    body = b""
    try:
        body = _asked(joins, knock)
    except Denied as why:
        status = why.status
        code = why.code
    # A list that cannot be read, or a disk that is full, ends no round.
    except (EntrenousError, OSError):
        status = 503
        code = "busy"
    about = {"number": knock.about["number"], "status": status, "code": code}
    return Order(KNOCKED, about, body)


def _asked(joins: Joins, knock: Order) -> bytes:
    about = knock.about
    if about["what"] == "authority":
        return joins.authority()
    if about["what"] == "terms":
        return joins.terms(about["token"], about["address"])
    return joins.joined(about["token"], about["address"], knock.body)
