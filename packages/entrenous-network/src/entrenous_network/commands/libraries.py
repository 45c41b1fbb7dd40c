"""The libraries that commands need. A node of a small device has those of a node alone
(ops/node_requirements.txt).
"""

from __future__ import annotations

from importlib.util import find_spec

from entrenous.core.errors import InputError

OF_NODE = ("cryptography", "httpx", "msgspec")
NETWORK = (*OF_NODE, "starlette", "uvicorn")
PEERS = ("iroh", "msgspec", "cryptography")


def need_libraries(command: str, *names: str) -> None:
    """Raises InputError if one of these libraries of the network is not installed."""
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        extra = "peers" if "iroh" in missing else "network"
        raise InputError(
            command, f"{', '.join(missing)} not installed", fix=f"pip install 'entrenous[{extra}]'"
        )
