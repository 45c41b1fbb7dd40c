"""`entrenous federation identity`, `new` and `join`: how a federation of several machines begins."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from ..core.errors import InputError
from .console import say
from .federation import app, say_beside
from .options import NETWORK, Load, Set, assignments, loading, need_libraries

if TYPE_CHECKING:
    from ..deploy.items import Items


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
    need_libraries("federation", *NETWORK)
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
    settings: Set = None,
    host: str = "127.0.0.1",
    port: int = 8443,
    name: Annotated[list[str] | None, Parameter(negative="")] = None,
    secure: Literal["none", "masks"] = "none",
    draws: Literal["secret", "public"] = "secret",
    deadline: float = 600.0,
    quorum: float = 1.0,
    most_norm: float | None = None,
    most_weight: float | None = None,
    most_move: float | None = None,
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
        One with a server, of `entrenous algorithms`; or a class of one's own, ./my_algo.py, which each node must be given.
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
    most_norm:
        Euclidean length of what one device sends, beyond which it is refused: some ten times what a trial's status calls longest_answer.
    most_weight:
        What one device may weigh; default: as many as there are items, or 256.
    most_move:
        How far any number of the model may move in one round (a trial's status: moved); beyond it the server stops and says why.
    seed:
        Names the server's randomness.
    plain:
        Without TLS; beyond loopback, server and nodes then also want --insecure.
    """
    need_libraries("federation", *NETWORK)
    from ..core.own import is_place
    from ..core.protocols import Catalogue
    from ..deploy.enrolment import EnrolmentRequest
    from ..deploy.founding import Place, found_server, items_text

    if not 0 < port < 65536:
        raise InputError("--port", f"got {port}", expected="1 to 65535")
    requests = [requested(each, EnrolmentRequest) for each in node]
    listed, count = _items(items), users or sum(count for _, count in requests)
    place, catalogue = Place(host, port, tuple(name or ()), not plain), Catalogue(count, len(listed.ids), interactions, scale)
    made = found_server(
        folder, items_text(listed), catalogue, requests, place, algorithm=algorithm, rounds=rounds,
        settings=assignments(settings), secure=secure, draws=draws, deadline=deadline, quorum=quorum, seed=seed,
        most_norm=most_norm, most_weight=most_weight, most_move=most_move,
    )  # fmt: skip
    say_beside(made.terms, algorithm if is_place(algorithm) else "")
    say(f"run {made.terms.run}; start it with: entrenous server {made.server}")
    say(f"send each node its folder of {folder / 'invitations'}; it joins with: entrenous federation join")


def requested(text: str, kind: Any) -> tuple[Any, int]:
    """A node's request and how many users it may have. kind: `EnrolmentRequest`. Raises InputError."""
    path, colon, count = text.rpartition(":")
    if not colon or not count.isdigit():
        raise InputError("--node", f"got {text!r}", expected="REQUEST.json:USERS, such as shop-1/request.json:250")
    return kind.read(Path(path)), int(count)


def _items(path: Path) -> Items:
    """The list of items of a CSV file; with places of all of them, or none."""
    import numpy as np

    from ..deploy.items import read_items

    items = read_items(path)
    if items.places is not None and np.isnan(items.places).any():
        raise InputError(str(path), "lat and lon: not of every item", expected="degrees, or neither column")
    return items


@app.command
def join(
    folder: Path,
    /,
    *,
    invitation: Path,
    data: str,
    floor: int = 100,
    occupancy: float = 10.0,
    least_users: int = 1,
    own: Annotated[list[str] | None, Parameter(negative="")] = None,
    algorithm: str = "",
    load: Load = None,
) -> None:
    """On a node: take up an invitation with the users' rows. They are copied into the node's own store and go nowhere else.

    Says first what the node agrees to. Of the invitation it takes the terms and where the server is; the rest is this command's.

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
    least_users:
        Users of whom one answer must be: a server that asks for fewer at once gets nothing. Rounds draw users: it needs a quorum below 1.
    own:
        A setting that is the user's to decide, name=value, such as pi=0.5 in FPL: half of the positive updates are sent.
    algorithm:
        The file of the federation's algorithm, where that is none of `entrenous algorithms`: ./my_algo.py. Its code runs on this machine;
        it must be the one that the federation agreed on.
    """
    need_libraries("federation", *NETWORK)
    from ..data.load import load as load_data
    from ..deploy.enrolment import join as take
    from ..privacy.secure_sum.terms import Floors

    # a device has one user: that a file is a part of a whole is as it should be
    rows = load_data(data, part=Path(data).exists(), **loading(load))
    decided = assignments(own, "--own")
    users = take(folder, invitation, rows, Floors(floor, occupancy), decided, algorithm, least_users, say)
    say(f"{len(users)} users, {len(rows)} rows; run it with: entrenous {'device' if len(users) == 1 else 'gateway'} {folder}")
