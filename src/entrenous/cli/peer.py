"""`entrenous peer`: recommendations without a server."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Literal

from cyclopts import App

from ..core.errors import EntrenousError, InputError, at_least
from .console import emit_json, say, table
from .options import PEERS, Load, Set, assignments, loading, need_libraries

app = App(
    name="peer", help="Peers without a server: try some on this machine, found a federation, run a peer, recommend from it."
)


@app.command
def prepare(
    folder: Path,
    /,
    *,
    data: str = "ml-100k",
    peers: int = 16,
    algorithm: str = "pepper-gmf",
    settings: Set = None,
    seed: int = 0,
    draws: Literal["secret", "public"] = "secret",
    period: float = 10.0,
    load: Load = None,
    json: bool = False,
) -> None:
    """Make the folders of a federation of peers on this machine, for trying it out: one for each of the first users of a data set.

    Example: entrenous peer prepare try --data ml-100k --peers 16, then entrenous peer run try/peer-03

    Parameters
    ----------
    folder:
        A new folder.
    data:
        A data set, file or folder.
    peers:
        How many: users of the data set, the first ones.
    algorithm:
        One that gossips, of `entrenous algorithms`.
    settings:
        A setting of the algorithm, name=value; may be repeated.
    seed:
        Names the base model that all begin with; with public draws all else too.
    draws:
        secret: every peer draws by a number of its own, for whoever knows a peer's draws can tell its rows from what it sends;
        public: by the seed, as in a simulation.
    period:
        Seconds between two pushes of a peer.
    json:
        Print one JSON object on stdout.
    """
    need_libraries("peer", *PEERS)
    from ..data.load import load as load_data
    from ..deploy.peers.founding import found

    rows = load_data(data, **loading(load))
    chosen = assignments(settings)
    made = found(folder, rows, peers, algorithm, settings=chosen, seed=seed, draws=draws, period=period)
    if json:
        emit_json({"folder": str(folder), "peers": [str(path) for path in made.peers], "schema": made.charter.schema.hex()})
        return
    say(
        f"{len(made.peers)} peers of '{made.charter.name}' in {folder}; {folder}/operator.key invites, and is needed for nothing else"
    )
    say(f"the bootstraps are {made.peers[0]} and {made.peers[1]}; begin with: entrenous peer run {made.peers[0]}")


@app.command
def run(folder: Path, /) -> None:
    """Run a peer until it is interrupted. It goes on from where it was, whatever ended it.

    Parameters
    ----------
    folder:
        The peer's, as `entrenous peer join` or `prepare` made it.
    """
    need_libraries("peer", *PEERS)
    from ..deploy.peers.running import run as run_peer

    run_peer(folder, say)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # all is saved and closed; iroh's library would wait up to half a minute for peers that are dead


@app.command
def recommend(folder: Path, /, *, n: int = 10, json: bool = False) -> None:
    """What a peer recommends to its user, by its own model. Nobody is asked.

    Parameters
    ----------
    folder:
        The peer's; it may be running.
    n:
        How many items, best first.
    json:
        Print one JSON object on stdout.
    """
    need_libraries("peer", *PEERS)
    from ..deploy.peers.running import recommend as best

    at_least("--n", n, 1)
    items = best(folder, n)
    if json:
        emit_json({"peer": str(folder), "items": items})
    else:
        table(
            ["item", "title", "score"],
            [[one["item"], one["title"], one["score"]] for one in items],
            title=f"for the user of {folder}",
        )


@app.command
def status(*folders: Path, json: bool = False) -> None:
    """Where peers stand: pushes, models taken and refused, how well their models rank their own weighting rows.

    Parameters
    ----------
    folders:
        Peers', or one of a federation.
    json:
        Print one JSON object on stdout.
    """
    need_libraries("peer", *PEERS)
    from ..deploy.peers.running import status as of

    found = [of(path) for path in peer_folders(folders)]
    if json:
        emit_json({"peers": found})
        return
    names = ["number", "running", "events", "pushes", "book", "hr@20"]
    rows = [[*(one.get(name, "") for name in names), *_counts(one.get("tally", {}))] for one in found]
    table([*names, "pushed ok", "merged", "busy", "failed", "errors"], [[_shown(value) for value in row] for row in rows])


def _counts(tally: dict[str, int]) -> list[int]:
    errors = sum(count for name, count in tally.items() if name.startswith(("error", "crash")))
    names = ("pushed.ok", "merged", "pushed.busy", "pushed.failed")
    return [*(tally.get(name, 0) for name in names), errors]


def _shown(value: object) -> object:
    return "" if value is None else "yes" if value is True else "no" if value is False else value


@app.command
def replay(*folders: Path, json: bool = False) -> int:
    """Do again, in one process, what all peers of a federation recorded: their models must come out the same, to the byte.

    Exit code 1 if they do not.

    Parameters
    ----------
    folders:
        All peers', or the one of the federation. None of them may be running.
    json:
        Print one JSON object on stdout.
    """
    need_libraries("peer", *PEERS)
    from ..deploy.peers.running import check

    found = check(peer_folders(folders))
    same = all(one.kept == one.replayed for one in found)
    if json:
        emit_json({"same": same, "events": sum(one.events for one in found), "peers": [one._asdict() for one in found]})
    else:
        rows = [
            [one.number, one.events, one.kept[:16], one.replayed[:16], "same" if one.kept == one.replayed else "DIFFERENT"]
            for one in found
        ]
        table(["peer", "events", "its state", "replayed", "verdict"], rows)
    return 0 if same else 1


@app.command(name="try")
def try_(
    folder: Path | None = None,
    /,
    *,
    data: str = "ml-100k",
    peers: int = 16,
    algorithm: str = "pepper-gmf",
    seconds: float = 60.0,
) -> int:
    """Start peers on this machine, each a process, and kill some of them, both bootstraps too: the rest goes on.

    Exit code 1 if something was not as it should be.

    Parameters
    ----------
    folder:
        A new folder that is kept; default: one that is removed at the end.
    data:
        A data set, file or folder.
    peers:
        How many processes.
    algorithm:
        One that gossips, of `entrenous algorithms`.
    seconds:
        How long, from when all have begun.
    """
    need_libraries("peer", *PEERS)
    from ..deploy.peers.showing import show as show_peers

    return 0 if show_peers(data, peers, algorithm, seconds, folder, print) else 1


def peer_folders(folders: tuple[Path, ...]) -> list[Path]:
    """Peers' folders: the given ones, or those in a given one."""
    if not folders:
        raise InputError("entrenous peer", "no folder was named", fix="name a peer's folder, or the one that holds them")
    found: list[Path] = []
    for path in folders:
        inside = sorted(path.glob("peer-*/invitation.json")) if path.is_dir() else []
        found += [one.parent for one in inside] or [path]
    if not found:
        raise EntrenousError("no peers there")
    return found
