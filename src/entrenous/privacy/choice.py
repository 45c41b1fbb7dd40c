"""`Choice`: how much of their positive feedback users agree to share, as one number, one per user, or one per (user, item)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import final

import numpy as np

from ..core.errors import InputError
from ..core.protocols import Histories
from ..core.types import Float32Array, Int64Array


@final
class Choice:
    """FPL's pi, chosen by the people concerned.

    default: the pi of users who did not choose. by_user: {user: pi}. by_item: {(user, item): pi}, which wins over by_user.
    Users and items are dense indices. Raises InputError for a pi outside [0, 1].
    """

    def __init__(
        self,
        default: float,
        by_user: Mapping[int, float] | None = None,
        by_item: Mapping[tuple[int, int], float] | None = None,
    ) -> None:
        self.default = _checked("default", default)
        self._users = np.array(sorted(by_user or {}), np.int64)
        self._user_pi = np.array([_checked(f"user {u}", (by_user or {})[int(u)]) for u in self._users], np.float32)
        pairs = sorted(by_item or {})
        self._pairs = np.array([u << 32 | i for u, i in pairs], np.int64)
        self._pair_pi = np.array([_checked(f"user {u}, item {i}", (by_item or {})[u, i]) for u, i in pairs], np.float32)

    def __repr__(self) -> str:
        parts = [self._users, self._user_pi, self._pairs, self._pair_pi]
        digest = hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()[:12]
        return f"Choice(default={self.default}, users={len(self._users)}, pairs={len(self._pairs)}, sha256={digest})"

    def of(self, users: Int64Array, histories: Histories) -> Float32Array:
        """pi of every history row of the devices of `users`, float32 [ptr[m]]."""
        counts = np.diff(histories.ptr)
        pi = np.repeat(_looked_up(self._users, self._user_pi, users, np.float32(self.default)), counts)
        if len(self._pairs):
            pi = _looked_up(self._pairs, self._pair_pi, np.repeat(users, counts) << 32 | histories.item.astype(np.int64), pi)
        return pi


def _checked(who: str, pi: float) -> float:
    if not 0.0 <= pi <= 1.0:
        raise InputError("pi", f"{who} has {pi}", expected="a probability from 0 to 1")
    return float(pi)


def _looked_up(keys: Int64Array, values: Float32Array, wanted: Int64Array, otherwise: Float32Array | np.float32) -> Float32Array:
    """values at the `wanted` keys, `otherwise` where a key is not there."""
    if not len(keys):
        return np.broadcast_to(np.float32(otherwise), len(wanted)).astype(np.float32)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, values[place], otherwise).astype(np.float32)
