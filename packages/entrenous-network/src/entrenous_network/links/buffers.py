"""The memory of TLS connections."""

from __future__ import annotations

from asyncio import sslproto

READ = 1 << 14  # bytes that a connection reads at once


def use_small_buffers() -> None:
    """Has TLS connections that this process opens from now on read at most `READ` bytes at once.

    asyncio keeps as many for each connection while it is open, and OpenSSL a further copy: 256 KiB
    each, unless this is called. A server has a thousand connections, and a shop one a customer.
    """
    sslproto.SSLProtocol.max_size = READ
