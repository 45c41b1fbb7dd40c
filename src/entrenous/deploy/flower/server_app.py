"""The ServerApp that hands Flower's grid to our server, as the port of deploy/link.py.

All that must survive is in the state folder: this process may be killed at any moment, and a new one takes its place with a new run.
"""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.errors import InputError
from ...core.files import write_atomically
from .flower_link import FlowerLink

if TYPE_CHECKING:
    from flwr.serverapp import Grid, ServerApp

Serve = Callable[[FlowerLink, Path], None]


def make_app() -> ServerApp:
    """The ServerApp of our shim (control.SHIM). Its run config: `state`, the state folder; `target`, `module:function` to serve with."""
    from flwr.serverapp import ServerApp

    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Any) -> None:
        run(grid, context.run_config)

    return app


def run(grid: Grid, config: Mapping[str, Any]) -> None:
    """Serve until `target` returns, and write how it ended: `done`, or `refused` with the line of an InputError."""
    from flwr.supercore.retry import constant

    grid._retry_invoker.wait_gen_factory = lambda: constant(0.5)  # type: ignore[attr-defined]  # Flower waits up to 20 s
    state = Path(config["state"])
    with only_one(state):
        link = FlowerLink(grid)
        outcome = {"outcome": "done", "line": ""}
        try:
            target(config["target"])(link, state)
        except InputError as error:
            outcome = {"outcome": "refused", "line": str(error)}
        finally:
            link.close()
        write_atomically(state / "flower" / "outcome.json", json.dumps(outcome).encode())


def target(name: str) -> Serve:
    """The function that a text `module:function` names. Raises InputError."""
    module, _, function = name.partition(":")
    try:
        found: Serve = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise InputError("target", f"{name!r} is not there: {error}", expected="module:function") from error
    return found


@contextmanager
def only_one(state: Path, seconds: float = 30.0) -> Iterator[None]:
    """Hold the lock on a state folder inside `with`, after waiting until no other process serves it. The lock ends with its
    process."""
    until = time.monotonic() + seconds
    with open(state / "flower" / "serving.lock", "ab") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise InputError(str(state), "is served by another process", fix="end that one first") from None
                time.sleep(0.1)
        yield
