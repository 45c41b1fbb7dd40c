"""`BoundedProtocol`: HTTP/1.1 of one connection by uvicorn and httptools, with the limits that
these lack.

httptools keeps a head until it is complete, however long it grows, and uvicorn a list of all
requests that come before an answer. Here bytes are counted before they are parsed, for strangers
and for members alike. See `resources`.
"""

from __future__ import annotations

from asyncio import TimerHandle
from collections import Counter
from typing import Any, final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .resources import HEAD, HEAD_SECONDS


class OutOfTurnError(Exception):
    """Raised inside the parser for a request that comes before the one before it is answered, which
    no node sends.
    """


@final
class BoundedProtocol(HttpToolsProtocol):
    """One connection. counts: by what became of requests; what is cut off here is counted as
    `long-head`, `slow-head`, `out-of-turn`.

    All bytes of a request that are of no body count together: its head, what frames chunks, what
    follows them.
    """

    def __init__(self, counts: Counter[str], **of_uvicorn: Any) -> None:
        super().__init__(**of_uvicorn)
        self._counts = counts
        self._loose = 0  # bytes of this request that are of no body
        self._in_head = True
        self._patience: TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        """Parse what has come, little by little, and hang up where a request has too much beside
        its body.
        """
        view = memoryview(data)
        for at in range(0, len(view), HEAD):
            if self.transport.is_closing():
                return
            self._parse(bytes(view[at : at + HEAD]))
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection, and stop waiting for its head."""
        self._stop_waiting()
        super().connection_lost(exc)

    # ---- what the parser tells -------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A request begins. Raises OutOfTurnError."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._counts["out-of-turn"] += 1
            raise OutOfTurnError
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Its head is complete."""
        self._in_head = False
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of its body has come."""
        self._loose -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """All of it has come."""
        self._loose, self._in_head = 0, True
        super().on_message_complete()

    # ---- limits ----------------------------------------------------------------------------------

    def _parse(self, piece: bytes) -> None:
        self._loose += len(piece)
        super().data_received(piece)
        if self._loose > HEAD:
            self._hang_up("long-head")

    def _watch(self) -> None:
        """Be patient for so long with a head that has begun, and no longer."""
        begun = self._in_head and self._loose > 0
        if not begun or self.transport.is_closing():
            self._stop_waiting()
        elif self._patience is None:
            self._patience = self.loop.call_later(HEAD_SECONDS, self._hang_up, "slow-head")

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _hang_up(self, why: str) -> None:
        if not self.transport.is_closing():
            self._counts[why] += 1
            self.transport.abort()
