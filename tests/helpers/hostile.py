"""Hostile values in valid, signed messages, many times: how often each refusal was given. Whatever
is no refusal ends it with an error.

python hostile.py nodes|server COUNT    to the nodes of a server, of all algorithms; to servers
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from hostile_rounds import lying_nodes, lying_server, with_server

Lies = Callable[[str, int, int], Counter[str]]  # of an algorithm, so many, by a seed


def shares(count: int, names: Sequence[str]) -> list[tuple[str, int]]:
    """How many of so many messages are for each algorithm."""
    return [(name, count // len(names) + (k < count % len(names))) for k, name in enumerate(names)]


def told(name: str, counts: Counter[str], began: float) -> Counter[str]:
    """Says what became of the messages to one algorithm."""
    print(
        f"{name}: {counts.total()} in {time.monotonic() - began:.0f} s,"
        f" {dict(counts.most_common())}",
        flush=True,
    )
    return counts


def each(lies: Lies, count: int, names: Sequence[str]) -> Counter[str]:
    """Messages to all of some algorithms."""
    found = Counter[str]()
    for seed, (name, share) in enumerate(shares(count, names)):
        began = time.monotonic()
        found += told(name, lies(name, share, seed), began)
    return found


def main(what: str, count: int) -> None:
    """Sends so many messages and prints what became of them."""
    began = time.monotonic()
    with np.errstate(all="ignore"):
        found = each(lying_server if what == "nodes" else lying_nodes, count, with_server())
    anew = found.pop("(begun anew)", 0)  # no message, but what some had led to
    print(
        f"to {what}: {found.total()} messages, {anew} times begun anew,"
        f" {time.monotonic() - began:.0f} s: {dict(found.most_common())}"
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
