"""`RateLimits`: how often peers may ask, and bans. A peer may offer one model per interval, and is
banned for a while after three protocol errors. `Buckets`: how often somebody may do something."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

ERRORS = 3  # after which a peer is banned
WATCHED = 1024  # keys that are remembered
REQUESTS, AT_ONCE = (
    4.0,
    16,
)  # of one key: requests an interval, and how many of them may come at once


@final
class Buckets:
    """Token buckets, by name: `rate` a second, and up to `burst` at once of who has long been
    quiet.
    """

    def __init__(self, rate: float, burst: int) -> None:
        self.rate, self.burst = rate, float(burst)
        self._of: dict[bytes | str, tuple[float, float]] = {}

    def take(self, name: bytes | str, now: float) -> float:
        """Take a token. Returns 0, or the seconds until there is one, in which case none is
        taken.
        """
        left, last = self._of.pop(name, (self.burst, now))
        left = min(self.burst, left + (now - last) * self.rate) if now > last else left
        wait = (
            0.0 if left >= 1 else (1 - left) / self.rate + 1e-6
        )  # a little more, so that rounding leaves no turn without one
        self._of[name] = (left if wait else left - 1, now)
        if len(self._of) > WATCHED:
            del self._of[next(iter(self._of))]
        return wait


@dataclass
class _Marks:
    errors: int = 0
    last_error: float = float("-inf")
    banned_until: float = 0.0
    last: dict[str, float] = field(
        default_factory=dict
    )  # when an offer or a shuffle of it was heard


@final
class RateLimits:
    """Rate limits and bans of other peers, by public key. interval: seconds between two offers, or
    two record exchanges, of one peer; ban: seconds that a ban lasts. Times are those of
    `Host.now`.
    """

    def __init__(self, interval: float, ban: float) -> None:
        self.interval, self.ban, self.bans = interval, ban, 0
        self._of: dict[bytes, _Marks] = {}
        self._requests = Buckets(REQUESTS / interval, AT_ONCE) if interval else None

    def wait(self, peer: bytes, now: float) -> float:
        """The seconds for which a peer's next request is left unread; 0 counts one."""
        return 0.0 if self._requests is None else self._requests.take(peer, now)

    def is_banned(self, peer: bytes, now: float) -> bool:
        """Whether a peer is banned now, so that its messages are not read."""
        return peer in self._of and now < self._of[peer].banned_until

    def may_offer(self, peer: bytes, now: float) -> bool:
        """Whether a peer may offer a model now. If so, its next interval begins."""
        return self._may("offer", peer, now)

    def may_shuffle(self, peer: bytes, now: float) -> bool:
        """Whether a peer may exchange records now. If so, its next interval begins."""
        return self._may("shuffle", peer, now)

    def _may(self, what: str, peer: bytes, now: float) -> bool:
        last = self._marks(peer).last
        if now - last.get(what, float("-inf")) < self.interval:
            return False
        last[what] = now
        return True

    def error(self, peer: bytes, now: float) -> bool:
        """Count a protocol error of a peer. Returns whether the peer is banned because of it."""
        marks = self._marks(peer)
        marks.errors = (
            marks.errors + 1 if now - marks.last_error < self.ban else 1
        )  # who dies now and then is not a foe
        marks.last_error = now
        if marks.errors < ERRORS:
            return False
        marks.errors, marks.banned_until = 0, now + self.ban
        self.bans += 1
        return True

    def good(self, peer: bytes) -> None:
        """Forgive a peer its earlier protocol errors after a correct exchange."""
        self._marks(peer).errors = 0

    def _marks(self, peer: bytes) -> _Marks:
        """Of one peer, which becomes the last to be forgotten. Bans are forgotten too when a
        thousand others came after.
        """
        found = self._of.pop(peer, None) or _Marks()
        self._of[peer] = found
        if len(self._of) > WATCHED:
            del self._of[next(iter(self._of))]
        return found
