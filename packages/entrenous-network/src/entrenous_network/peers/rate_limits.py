"""`RateLimits`: limits on how often peers may ask, and bans. A peer may offer one model per
interval, and is banned for a while after three protocol errors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, final

from ..links.admission import Rates

Limited = Literal["offer", "shuffle"]
ERRORS = 3  # protocol errors after which a peer is banned
# Keys that are remembered: anybody can make keys, so the list of them must end.
WATCHED = 1024
# Requests of one key in an interval, and at once.
REQUESTS = 4.0
AT_ONCE = 16


@dataclass
class _Marks:
    """The conduct of one peer."""

    errors: int = 0
    """Protocol errors in a row."""
    last_error: float = float("-inf")
    """The time of the last of them."""
    banned_until: float = 0.0
    """The time at which its ban ends."""
    last: dict[str, float] = field(default_factory=dict)
    """The time of its last offer and of its last exchange of records."""


@final
class RateLimits:
    """Rate limits and bans of other peers, by public key. Times are those of `Host.now`.

    interval: seconds between two offers, or two exchanges of records, of one peer; 0 = no limit.
    ban: seconds that a ban lasts.
    """

    def __init__(self, interval: float, ban: float) -> None:
        self.interval = interval
        self.ban = ban
        self._of: dict[bytes, _Marks] = {}
        self._requests = Rates(REQUESTS / interval, AT_ONCE, most=WATCHED) if interval else None

    def wait(self, peer: bytes, now: float) -> float:
        """Returns the seconds for which a peer's next request is left unread; 0 counts the
        request."""
        if self._requests is None:
            return 0.0
        return self._requests.wait(peer, now)

    def is_banned(self, peer: bytes, now: float) -> bool:
        """Returns whether a peer is banned now, so that its messages are not read."""
        return peer in self._of and now < self._of[peer].banned_until

    def may(self, action: Limited, peer: bytes, now: float) -> bool:
        """Tells whether a peer may offer a model, or exchange records, now. If so, its next
        interval begins.
        """
        last = self._marks(peer).last
        since = now - last.get(action, float("-inf"))
        if since < self.interval:
            return False
        last[action] = now
        return True

    def error(self, peer: bytes, now: float) -> bool:
        """Counts a protocol error of a peer. Returns whether the peer is banned because of it."""
        marks = self._marks(peer)
        # Errors count together only within the time of a ban: a peer that dies now and then is no
        # foe.
        if now - marks.last_error >= self.ban:
            marks.errors = 0
        marks.errors += 1
        marks.last_error = now
        if marks.errors < ERRORS:
            return False
        marks.errors = 0
        marks.banned_until = now + self.ban
        return True

    def good(self, peer: bytes) -> None:
        """Forgives a peer its earlier protocol errors after a correct exchange."""
        self._marks(peer).errors = 0

    def _marks(self, peer: bytes) -> _Marks:
        """Returns the marks of a peer, which becomes the last to be forgotten. A ban is forgotten
        too when WATCHED others came after it.
        """
        marks = self._of.pop(peer, None) or _Marks()
        self._of[peer] = marks
        if len(self._of) > WATCHED:
            oldest = next(iter(self._of))
            del self._of[oldest]
        return marks
