"""Where a server listens, and the rule that nothing beyond loopback goes in plain text unless somebody says so."""

from __future__ import annotations

from ipaddress import ip_address

from ..core.errors import InputError


def split_address(where: str, address: str) -> tuple[str, int]:
    """The host and port of `host:port` or `[v6]:port`. Raises InputError."""
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise InputError(where, f"{address!r} is no address", expected="HOST:PORT, such as 10.0.0.7:8443")
    return host, int(port)


def checked_address(where: str, address: str) -> None:
    """Raise InputError for what is no IP address."""
    try:
        ip_address(address)
    except ValueError:
        raise InputError(where, f"{address!r} is no IP address", expected="one such as 127.0.0.1") from None


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def refuse_plain(where: str, host: str, insecure: bool) -> None:
    """Raise InputError for plain text beyond loopback, unless `insecure` asks for it."""
    if not insecure and not is_loopback(host):
        raise InputError(where, f"plain text to {host}", expected="keys beyond loopback", fix="make keys, or pass insecure=True")
