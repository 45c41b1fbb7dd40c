"""A network of one's own, where the system allows it: what iroh says to the local network (one SSDP
datagram an endpoint) goes nowhere.

As root on Linux: the main thread, and every process and thread that it starts, in a network
namespace with a loopback and nothing else. Elsewhere nothing happens, and tests that use it pass
all the same.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

CLONE_NEWNET = 0x40000000
OWN = "/proc/thread-self/ns/net"


@cache
def _namespace() -> int | None:
    """A handle of the one namespace of this process; None where there can be none."""
    if not os.path.exists(OWN) or os.geteuid() != 0:
        return None
    libc, before = ctypes.CDLL(None, use_errno=True), os.open(OWN, os.O_RDONLY)
    try:
        if libc.unshare(CLONE_NEWNET):
            return None
        made = os.open(OWN, os.O_RDONLY)
        up = (
            subprocess.run(
                ["ip", "link", "set", "lo", "up"], check=False, capture_output=True
            ).returncode
            == 0
        )
        libc.setns(before, CLONE_NEWNET)
        return made if up else None
    except OSError:
        return None
    finally:
        os.close(before)


@contextmanager
def quiet() -> Iterator[bool]:
    """Whether it is."""
    made = _namespace()
    if made is None:
        yield False
        return
    libc, before = ctypes.CDLL(None, use_errno=True), os.open(OWN, os.O_RDONLY)
    assert libc.setns(made, CLONE_NEWNET) == 0
    try:
        yield True
    finally:
        libc.setns(before, CLONE_NEWNET)
        os.close(before)
