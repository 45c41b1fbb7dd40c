"""`entrenous server`, `device`, `gateway`, and `entrenous federation`: a real federation, from its founding to its recommendations."""

from __future__ import annotations

import csv
import json as json_
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from ..core.errors import EntrenousError, InputError, at_least
from ..core.protocols import Catalogue
from ..core.settings import parse_assignments
from .console import emit_json, say, table
from .options import Load, need_libraries

LIBRARIES = ("cryptography", "flwr", "msgspec")
Settings = Annotated[list[str] | None, Parameter(name="--set", negative="")]
Insecure = Annotated[bool, Parameter(name="--insecure", negative="")]
app = App(name="federation", help="A real federation: try one on this machine, found one, enrol nodes, see where it stands.")


def server(folder: Path, /, *, insecure: Insecure = False) -> None:
    """Run a federation's server until its rounds are done. It goes on from where it was, whatever ended it.

    Parameters
    ----------
    folder:
        The server's, as `entrenous federation new` or `try` made it.
    insecure:
        Beyond loopback without TLS: everybody on the way may read and change what passes. For a private network that is encrypted itself.
    """
    need_libraries("federation", *LIBRARIES)
    from ..deploy.running import run_server

    with _until_stopped() as stop:
        run_server(folder, stop, say, insecure=insecure)


def gateway(folder: Path, /, *, threads: int = 0, insecure: Insecure = False) -> None:
    """Run a node that serves many users (a shop, a clinic, a company) until it is stopped. It connects by itself, again and again.

    Parameters
    ----------
    folder:
        The node's, as `entrenous federation join` or `try` made it.
    threads:
        Threads over its users' devices, 0 = all cores. Never changes a result.
    insecure:
        Speak to a server beyond loopback without TLS.
    """
    need_libraries("federation", *LIBRARIES)
    from ..deploy.running import run_node
    from ..federation.executors import Threads

    with _until_stopped() as stop:
        run_node(folder, stop, say, threads=Threads(threads).workers, insecure=insecure)


def device(folder: Path, /, *, insecure: Insecure = False) -> None:
    """Run the node of one user until it is stopped: the same program as a gateway, which refuses a second user.

    Parameters
    ----------
    folder:
        The node's folder.
    insecure:
        Speak to a server beyond loopback without TLS.
    """
    need_libraries("federation", *LIBRARIES)
    from ..deploy.running import run_node

    with _until_stopped() as stop:
        run_node(folder, stop, say, insecure=insecure, most=1)


@app.command(name="try")
def try_(
    folder: Path = Path("runs/federation"),
    /,
    *,
    data: str = "ml-100k",
    algorithm: str = "fpl",
    settings: Settings = None,
    nodes: int = 4,
    rounds: int = 20,
    protocol: str | None = None,
    seed: int = 0,
    secure: Literal["none", "masks"] = "none",
    port: int = 0,
    load: Load = None,
    json: bool = False,
) -> None:
    """Start a federation on this machine: a server and nodes, each a process, with TLS and keys; and hold its model against a simulation's.

    Makes keys and certificates, gives each node the training rows of a part of the users, runs until all rounds are done, and shows that
    the model is, to the bit, that of `entrenous run` with the same seed. Interrupted, it goes on when it is started again.

    Parameters
    ----------
    folder:
        Where everything is kept: server/, nodes/, logs/.
    data:
        A data set, file or folder.
    algorithm:
        One with a server, of `entrenous algorithms`.
    settings:
        A hyper-parameter, name=value; may be repeated.
    nodes:
        How many, which share the users in order.
    rounds:
        After which training is over.
    protocol:
        How rows are held out, as in `entrenous run`; the nodes get what is left for training.
    seed:
        Names all randomness. Draws are public here, so that the simulation can repeat them; in earnest they are secret.
    secure:
        masks: the server learns the sum of the nodes of a round, and none of them.
    port:
        Of 127.0.0.1, where the server listens; 0 = a free one.
    json:
        Print one JSON object on stdout.
    """
    need_libraries("federation", *LIBRARIES)
    from ..deploy import trial

    if not (folder / "trial.json").exists():
        plan = trial.Trial(
            algorithm, data, protocol, seed, rounds, parse_assignments(settings or []), parse_assignments(load or [], "--load")
        )
        made = trial.begin(folder, plan, nodes=nodes, secure=secure, port=port)
        say(f"{nodes} nodes and a server in {folder}, with keys and certificates; run {made.terms.run}")
        _say_beside(made.terms)
    else:
        say(f"going on with {folder}")
    found = trial.carry_out(folder, say)
    if json:
        emit_json(found)
        return
    table(["", "model_sha256"], [["network", found["network"]], ["simulation", found["simulation"]]])
    lost = f"{found['lost']} rounds were lost, for a secure sum that was interrupted is never tried again: the models differ"
    say(
        "the same model, bit for bit"
        if found["same"]
        else lost
        if found["lost"]
        else "the models differ: a bug, please report it"
    )
    names = [name for name in ("hr@10", "ndcg@10", "mae", "rmse") if name in found["metrics"]]
    say(_metrics(found, names))
    show_list(found["node"], found["user"], found["round"], found["items"])
    if not found["same"] and not found["lost"]:
        raise EntrenousError("network and simulation ended with different models")


def _metrics(found: dict[str, Any], names: list[str]) -> str:
    shown = ", ".join(f"{name} {found['metrics'][name]:.4f}" for name in names)
    return f"{shown} under {found['protocol']}; {found['rounds']} rounds, {found['seconds_a_round']:.2f} s each over the network"


@app.command
def identity(folder: Path, /, *, name: str) -> None:
    """On a node: make its keys, and request.json to send to the operator. Private keys stay in the folder.

    Parameters
    ----------
    folder:
        The node's, new.
    name:
        By which the federation will know it: a-z, 0-9, - and . It should not name a person.
    """
    need_libraries("federation", *LIBRARIES)
    from ..deploy.enrolment import identity as make

    make(folder, name)
    say(f"keys of '{name}' in {folder}; send {folder / 'request.json'} to the operator, and keep the rest")


@app.command
def new(
    folder: Path,
    /,
    *,
    algorithm: str,
    items: Path,
    rounds: int,
    interactions: int,
    node: Annotated[list[str], Parameter(negative="")],
    users: int = 0,
    scale: tuple[float, float] = (1.0, 1.0),
    settings: Settings = None,
    host: str = "127.0.0.1",
    port: int = 8443,
    name: Annotated[list[str] | None, Parameter(negative="")] = None,
    secure: Literal["none", "masks"] = "none",
    draws: Literal["secret", "public"] = "secret",
    deadline: float = 600.0,
    quorum: float = 1.0,
    seed: int = 0,
    plain: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """As the operator: found a federation with the nodes that asked to take part.

    Writes FOLDER/server, to be run with `entrenous server`, and FOLDER/invitations/NAME for each node, to be sent to it.

    Parameters
    ----------
    folder:
        A new folder.
    algorithm:
        One with a server, of `entrenous algorithms`.
    items:
        A CSV file with a column `item` and, if known, `title`, `lat` and `lon`: what all nodes number alike.
    rounds:
        After which training is over.
    interactions:
        About how many rows the nodes have together.
    node:
        REQUEST.json:USERS, a node's request and how many users it may have; repeated for every node.
    users:
        Of the federation; default: those of the nodes. More leaves room for nodes to come.
    scale:
        Lowest and highest rating, for algorithms that predict ratings.
    settings:
        A hyper-parameter, name=value; may be repeated.
    host:
        What the server listens on; 0.0.0.0 = every address of the machine.
    port:
        Where the server listens.
    name:
        A host name or address by which nodes reach the server, as its certificate shall say; may be repeated; nodes use the first.
    secure:
        masks: the server learns the sum of the nodes of a round, and none of them. Nodes insist on their own floors.
    draws:
        secret: nodes draw from numbers of their own; public: from the seed, so that a simulation can repeat all.
    deadline:
        Seconds after which a round goes on without the nodes that have not answered.
    quorum:
        Share of a round's users below which it is not counted.
    seed:
        Names the server's randomness.
    plain:
        Without TLS; beyond loopback, server and nodes then also want --insecure.
    """
    need_libraries("federation", *LIBRARIES)
    from ..deploy.enrolment import Request
    from ..deploy.founding import Place, found_server

    if not 0 < port < 65536:
        raise InputError("--port", f"got {port}", expected="1 to 65535")
    requests = [requested(each, Request) for each in node]
    listed, count = _items(items), users or sum(count for _, count in requests)
    length = len(json_.loads(listed)["ids"])
    place = Place(host, port, tuple(name or ()), not plain)
    made = found_server(
        folder, listed, Catalogue(count, length, interactions, scale), requests, place, algorithm=algorithm, rounds=rounds,
        settings=parse_assignments(settings or []), secure=secure, draws=draws, deadline=deadline, quorum=quorum, seed=seed,
    )  # fmt: skip
    _say_beside(made.terms)
    say(f"run {made.terms.run}; start it with: entrenous server {made.server}")
    say(f"send each node its folder of {folder / 'invitations'}; it joins with: entrenous federation join")


def _say_beside(terms: Any) -> None:
    """What secure sums do not hide."""
    from ..deploy.secure import beside

    shown = beside(terms) if terms.secure == "masks" else ()
    if shown:
        say(
            f"note: secure sums do not hide what {terms.algorithm} shows of each user singly: {', '.join(shown)}; see entrenous explain"
        )


def requested(text: str, kind: Any) -> tuple[Any, int]:
    """A node's request and how many users it may have. kind: `enrolment.Request`. Raises InputError."""
    path, colon, count = text.rpartition(":")
    if not colon or not count.isdigit():
        raise InputError("--node", f"got {text!r}", expected="REQUEST.json:USERS, such as shop-1/request.json:250")
    return kind.read(Path(path)), int(count)


def _items(path: Path) -> str:
    """The list of items of a CSV file, as nodes get it."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as cause:
        raise InputError(str(path), f"cannot be read ({cause})", expected="a CSV file with a column `item`") from None
    if not rows or "item" not in rows[0]:
        raise InputError(f"{path}:1", "no column `item`", expected="a header with item and, if known, title, lat, lon")
    ids = [row["item"] for row in rows]
    if len(set(ids)) != len(ids) or not all(ids):
        raise InputError(str(path), "an item occurs twice, or has no name", expected="each item once")
    titles = [row["title"] or "" for row in rows] if "title" in rows[0] else None
    try:
        places = [[float(row["lat"]), float(row["lon"])] for row in rows] if {"lat", "lon"} <= rows[0].keys() else None
    except ValueError as bad:
        raise InputError(str(path), f"lat and lon: {bad}", expected="degrees") from None
    return json_.dumps({"ids": ids, "titles": titles, "places": places})


@app.command
def join(
    folder: Path,
    /,
    *,
    invitation: Path,
    data: str,
    floor: int = 100,
    occupancy: float = 10.0,
    own: Annotated[list[str] | None, Parameter(negative="")] = None,
    load: Load = None,
) -> None:
    """On a node: take up an invitation with the users' rows. They are copied into the node's own store and go nowhere else.

    Parameters
    ----------
    folder:
        The node's, with its keys.
    invitation:
        The folder that the operator sent.
    data:
        A file or data set with the rows of this node's users.
    floor:
        Of secure sums: nodes in a round below which this node sends nothing.
    occupancy:
        Of secure sums: devices that fill a row on average, below which this node sends nothing.
    own:
        A setting that is the user's to decide, name=value, such as pi=0.5 in FPL: half of the positive updates are sent.
    """
    need_libraries("federation", *LIBRARIES)
    from ..data.load import load as load_data
    from ..data.options import load_arguments
    from ..deploy.enrolment import join as take
    from ..privacy.secure_sum.terms import Floors

    # a device has one user: that a file is a part of a whole is as it should be
    rows = load_data(data, part=Path(data).exists(), **load_arguments(parse_assignments(load or [], "--load")))
    users = take(folder, invitation, rows, Floors(floor, occupancy), parse_assignments(own or [], "--own"))
    say(f"{len(users)} users, {len(rows)} rows; run it with: entrenous {'device' if len(users) == 1 else 'gateway'} {folder}")


@app.command
def status(folder: Path, /, *, json: bool = False) -> None:
    """Where a server stands, by its own word: rounds, nodes, bytes, and how often each answer was given.

    Parameters
    ----------
    folder:
        The server's folder.
    json:
        Print one JSON object on stdout.
    """
    need_libraries("federation", *LIBRARIES)
    from ..deploy.running import status as of

    found = of(folder)
    if not found:
        raise InputError(
            str(folder), "nothing to tell yet", expected="a server that has done a round", fix="start it with `entrenous server`"
        )
    if json:
        emit_json(found)
    else:
        table(["", ""], [[name, value] for name, value in found.items()])


@app.command
def recommend(folder: Path, /, *, user: str | None = None, n: int = 10, json: bool = False) -> None:
    """On a node: what it recommends to one of its users, by the newest model it has. Nobody is asked, and nobody told.

    Parameters
    ----------
    folder:
        The node's; it may be running.
    user:
        One of its users; default: the first.
    n:
        How many items.
    json:
        Print one JSON object on stdout.
    """
    need_libraries("federation", *LIBRARIES)
    from ..deploy.running import recommend as best

    at_least("--n", n, 1)
    who, number, items = best(folder, user, n)
    if json:
        emit_json({"user": who, "round": number, "items": items})
    else:
        show_list(str(folder), who, number, items)


def show_list(node: str, user: str, number: int, items: list[dict[str, Any]]) -> None:
    """A user's list."""
    rows = [[one["item"], one["title"], f"{one['score']:.3f}"] for one in items]
    table(["item", "title", "score"], rows, title=f"for user {user}, on {node}, by the model of round {number}")


@app.command
def backup(folder: Path, /, *, to: Path) -> None:
    """On a node: copy its store, whole, while it runs. To restore: stop the node, remove store.sqlite*, put it back as store.sqlite.

    Parameters
    ----------
    folder:
        The node's folder.
    to:
        A new file, which holds the users' rows and vectors: keep it as you keep those.
    """
    need_libraries("federation", *LIBRARIES)
    from ..deploy.node_store import opened

    with opened(folder / "store.sqlite") as store:
        store.copy(to)
    say(f"{folder / 'store.sqlite'} copied to {to}")


@contextmanager
def _until_stopped() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set."""
    from ..deploy.running import orphaned

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    orphaned(stop)
    yield stop
