"""Addresses of servers and peers, and the rule that nothing beyond loopback goes in plain text
unless its owner says so.
"""

from __future__ import annotations

import re
from ipaddress import ip_address

from entrenous.core.errors import InputError

# A part of a host's name between its dots.
LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
ZONE = re.compile(r"[A-Za-z0-9_.-]{1,32}")  # after the % of a link-local IPv6 address
LONGEST_NAME = 253  # characters of a host's name


def parted(address: str) -> tuple[str, str]:
    """Returns the host, without brackets, and the digits of a text that should be HOST:PORT."""
    host, _, digits = address.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), digits


def split_address(where: str, address: str) -> tuple[str, int]:
    """Returns the host and port of `host:port` or `[v6]:port`. Raises InputError for anything else:
    an address comes from others, is shown to people, and is dialled."""
    host, digits = parted(address)
    port = port_of(digits)
    if not is_host(host) or not port:
        hosts = "a host of letters, digits, dots and hyphens, or an IP address"
        expected = f"HOST:PORT, such as 10.0.0.7:8443, with {hosts}"
        fix = "ask who gave it to you for the right one"
        raise InputError(where, f"{address!r} is no address", expected=expected, fix=fix)
    return host, port


def joined_address(host: str, port: int) -> str:
    """Returns the text that `split_address` reads.

    >>> joined_address("::1", 8443), joined_address("localhost", 8443)
    ('[::1]:8443', 'localhost:8443')
    """
    # The colons of an IPv6 address would be taken for the one before the port.
    if ":" in host:
        return f"[{host}]:{port}"
    return f"{host}:{port}"


def port_of(digits: str) -> int | None:
    """Returns the port that a text of ASCII digits names, 0 to 65535; None for another text."""
    known = digits.isascii() and digits.isdigit() and len(digits) <= 5
    if known and int(digits) < 65536:
        return int(digits)
    return None


def is_host(host: str) -> bool:
    """Returns whether a text is an IP address, or could be the name of a host: labels of ASCII
    letters, digits and hyphens between dots."""
    if not host.isascii() or len(host) > LONGEST_NAME:
        return False
    plain, percent, zone = host.partition("%")
    # The rest of such a text is shown and dialled as it stands, so it is no free text either.
    if percent and not ZONE.fullmatch(zone):
        return False
    try:
        ip_address(plain)
    except ValueError:
        labels = host.removesuffix(".").split(".")
        return not percent and all(LABEL.fullmatch(label) for label in labels)
    return True


def checked_address(where: str, address: str) -> None:
    """Raises InputError for a text that is no IP address."""
    try:
        ip_address(address)
    except ValueError:
        problem = f"{address!r} is no IP address"
        raise InputError(where, problem, expected="one such as 127.0.0.1") from None


def is_loopback(host: str) -> bool:
    """Returns whether a host is this machine, by its address or name."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def refuse_plain(where: str, host: str, insecure: bool) -> None:
    """Raises InputError for plain text beyond loopback, unless `insecure` asks for it."""
    if not insecure and not is_loopback(host):
        raise InputError(
            where,
            f"plain text to {host}",
            expected="keys beyond loopback",
            fix="make keys, or pass insecure=True",
        )


def checked_origin(origin: str) -> str:
    """Returns the origin of a web page, such as https://app.example:8080. Raises InputError for
    anything else, as for one with a path.
    """
    scheme, _, address = origin.partition("://")
    host, _, port = address.partition(":")
    if scheme not in ("http", "https") or not is_host(host) or (port and not port_of(port)):
        expected = "http:// or https://, a host, and a port if it is not the usual one"
        raise InputError("--origin", f"got {origin!r}", expected=expected)
    return origin
