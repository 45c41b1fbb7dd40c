"""`sends` in the form that the engine reads until it reads the declaration itself. Goes when it does."""

from __future__ import annotations

from ..core.contract import Sent
from ..core.protocols import Disclosed


def disclosed(sends: tuple[Sent, ...]) -> tuple[Disclosed, ...]:
    """Each array that is sent; not how much a device counts, which the engine did not list."""
    return tuple(
        Disclosed(
            sent.name,
            f"[{', '.join([*['rows'] * (sent.way == 'rows'), *map(str, sent.sizes)])}] float32",
            sent.when,
            sent.reveals,
        )
        for sent in sends
        if sent.way != "weight"
    )
