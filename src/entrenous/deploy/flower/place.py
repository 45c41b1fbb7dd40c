"""Where a SuperLink listens, and the rule that nothing beyond loopback goes in plain text unless somebody says so."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path

from ...core.errors import InputError

QUIET = {  # no word to anybody outside, and nothing fetched at run time
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}


def split_address(where: str, address: str) -> tuple[str, int]:
    """The host and port of `host:port` or `[v6]:port`. Raises InputError."""
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise InputError(where, f"{address!r} is no address", expected="HOST:PORT, such as 10.0.0.7:8443")
    return host, int(port)


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def refuse_plain(where: str, host: str, insecure: bool) -> None:
    """Raise InputError for plain text beyond loopback, unless `insecure` asks for it."""
    if not insecure and not is_loopback(host):
        raise InputError(where, f"plain text to {host}", expected="keys beyond loopback", fix="make keys, or pass insecure=True")


def environment(inherited: Mapping[str, str], home: Path) -> dict[str, str]:
    """The environment of Flower's programs: `inherited`, quiet, with a home of its own and no proxy: they speak to this machine."""
    kept = {name: value for name, value in inherited.items() if not name.startswith("FLWR_") and name.lower() not in _PROXIES}
    return {
        **kept,
        **QUIET,
        "FLWR_HOME": str(home),
        "NO_PROXY": "*",
        "FLWR_LOG_LEVEL": inherited.get("FLWR_LOG_LEVEL", "WARNING"),
    }


_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
