"""The commands that the network adds to `entrenous`."""

from __future__ import annotations

from entrenous.cli.brought import Commands


def commands() -> Commands:
    """Returns the commands, for the entry point `entrenous.commands`."""
    # One app: founding.py and members.py add their commands to that of federation.py.
    from .members import app
    from .serve import node, server

    return Commands(groups={"Network": [app, server, node]}, lists={})
