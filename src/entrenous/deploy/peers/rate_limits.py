"""`RateLimits`: how often peers may ask, and bans. A peer may offer one model per interval, and is
banned for a while after three protocol errors. `Buckets`: token buckets by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

ERRORS = 3  # after which a peer is banned
WATCHED = 1024  # keys that are remembered
REQUESTS, AT_ONCE = 4.0, 16  # requests of one key in an interval, and at once


@final
class Buckets:
    """Token buckets, by name: `rate` tokens a second, and up to `burst` at once after a long
    silence.
    """

    def __init__(self, rate: float, burst: int) -> None:
        self.rate, self.burst = rate, float(burst)
        self._of: dict[bytes | str, tuple[float, float]] = {}

    def take(self, name: bytes | str, now: float) -> float:
        """Takes a token. Returns 0; or the seconds until there is a token, in which case none is
        taken.
        """
        left, last = self._of.pop(name, (self.burst, now))
        if now > last:
            left = min(self.burst, left + (now - last) * self.rate)
        wait = 0.0
        if left < 1:
            # A little more, so that by rounding no turn comes just too early.
            wait = (1 - left) / self.rate + 1e-6
        self._of[name] = (left if wait else left - 1, now)
        if len(self._of) > WATCHED:
            del self._of[next(iter(self._of))]
        return wait


@dataclass
class _Marks:
    errors: int = 0
    last_error: float = float("-inf")
    banned_until: float = 0.0
    last: dict[str, float] = field(default_factory=dict)
    """The time of its last offer and of its last exchange of records."""


@final
class RateLimits:
    """Rate limits and bans of other peers, by public key. Times are those of `Host.now`.

    interval: seconds between two offers, or two record exchanges, of one peer. ban: seconds that a
    ban lasts.
    """

    def __init__(self, interval: float, ban: float) -> None:
        self.interval, self.ban, self.bans = interval, ban, 0
        self._of: dict[bytes, _Marks] = {}
        self._requests = Buckets(REQUESTS / interval, AT_ONCE) if interval else None

    def wait(self, peer: bytes, now: float) -> float:
        """Returns the seconds for which a peer's next request is left unread; 0 counts the
        request."""
        return 0.0 if self._requests is None else self._requests.take(peer, now)

    def is_banned(self, peer: bytes, now: float) -> bool:
        """Returns whether a peer is banned now, so that its messages are not read."""
        return peer in self._of and now < self._of[peer].banned_until

    def may_offer(self, peer: bytes, now: float) -> bool:
        """Returns whether a peer may offer a model now. If so, its next interval begins."""
        return self._may("offer", peer, now)

    def may_shuffle(self, peer: bytes, now: float) -> bool:
        """Returns whether a peer may exchange records now. If so, its next interval begins."""
        return self._may("shuffle", peer, now)

    def _may(self, what: str, peer: bytes, now: float) -> bool:
        last = self._marks(peer).last
        if now - last.get(what, float("-inf")) < self.interval:
            return False
        last[what] = now
        return True

    def error(self, peer: bytes, now: float) -> bool:
        """Counts a protocol error of a peer. Returns whether the peer is banned because of it."""
        marks = self._marks(peer)
        # Errors count together only within one ban: a peer that dies now and then is no foe.
        marks.errors = marks.errors + 1 if now - marks.last_error < self.ban else 1
        marks.last_error = now
        if marks.errors < ERRORS:
            return False
        marks.errors, marks.banned_until = 0, now + self.ban
        self.bans += 1
        return True

    def good(self, peer: bytes) -> None:
        """Forgives a peer its earlier protocol errors after a correct exchange."""
        self._marks(peer).errors = 0

    def _marks(self, peer: bytes) -> _Marks:
        """Returns the marks of a peer, which becomes the last to be forgotten. Bans are forgotten
        too when a thousand others came after.
        """
        marks = self._of.pop(peer, None) or _Marks()
        self._of[peer] = marks
        if len(self._of) > WATCHED:
            del self._of[next(iter(self._of))]
        return marks
