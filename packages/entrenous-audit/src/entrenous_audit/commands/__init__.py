"""The commands that the audit adds to `entrenous`."""

from __future__ import annotations

from collections.abc import Iterable

from entrenous.cli.brought import Commands


def commands() -> Commands:
    """Returns the commands, for the entry point `entrenous.commands`."""
    from .attack import attack
    from .audit import audit
    from .receipt import receipt

    return Commands(
        groups={"Research": [audit], "Privacy": [receipt, attack]},
        lists={
            "defences": defences,
            "peerdefences": peer_defences,
            "peerpoisons": peer_poisons,
            "poisons": poisons,
        },
    )


def poisons() -> Iterable[str]:
    """The names of all attacks by colluders."""
    from ..robustness import poisons

    return poisons()


def peer_poisons() -> Iterable[str]:
    """The names of all attacks by peers."""
    from ..peers import PEERS

    return PEERS


def defences() -> Iterable[str]:
    """The names of all defences of a server."""
    from entrenous.federation.defences import DEFENCES

    return ["none", *DEFENCES]


def peer_defences() -> Iterable[str]:
    """The names of all defences of a peer."""
    from ..peers import PEER_DEFENCES

    return PEER_DEFENCES
