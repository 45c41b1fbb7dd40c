"""The two Flower apps. What they need of Entrenous is imported when they are called: a ClientApp is
started for every message.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from entrenous.core.errors import EntrenousError, InputError, one_line

from .records import frame_in, record_of

RUN, NODE = "flwr run --run-config", "flower-supernode --node-config"

server_app = ServerApp()
client_app = ClientApp()


@server_app.main()
def serve_run(grid: Grid, context: Context) -> None:
    """Run the federation whose server folder the run's configuration names, from where it is to its
    end.
    """
    from entrenous_network.server.server import serve

    from .greeter import Greeter
    from .grid_link import GridLink

    folder = folder_of(context.run_config, RUN)
    print(f"trained model {serve(GridLink(grid, Greeter.of(folder)), folder)}", flush=True)


@client_app.query()
def answer(message: Message, context: Context) -> Message:
    """Answer a server's frame with that of the node whose folder the SuperNode's configuration
    names.
    """
    from .resident import ask

    try:
        frame = frame_in(message)
        if frame is None:
            raise EntrenousError("a message without a frame: another app's")
        return Message(
            record_of(ask(folder_of(context.node_config, NODE), frame)), reply_to=message
        )
    except Exception as why:
        # Flower sends the text of an exception to the server: it stays here, for it may name rows
        print(one_line(f"entrenous: {why}"), file=sys.stderr, flush=True)
        raise EntrenousError(
            f"this node cannot answer ({type(why).__name__}); its own log says why"
        ) from None


def folder_of(config: Mapping[str, Any], where: str) -> Path:
    """The folder that a configuration names. Raises InputError where it names none."""
    folder = Path(str(config.get("folder") or ""))
    if not folder.is_absolute():
        raise InputError(
            where,
            f"folder is {str(folder)!r}",
            expected="an absolute path",
            fix=f"{where} 'folder=\"/PATH\"'",
        )
    if not folder.is_dir():
        raise InputError(
            where,
            f"{folder} is no folder on this machine",
            fix="make one with `entrenous federation new`",
        )
    return folder
