"""`entrenous federation identity`, `new` and `join`: how a federation of several machines begins,
around a server or of peers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ..core.errors import InputError
from ..deploy.operate.plans import FoundingPlan, JoinPlan
from .console import say
from .federation import app
from .options import NETWORK, Load, loading, need_libraries, takes

Repeated = Annotated[list[str] | None, Parameter(negative="")]


@app.command
def identity(folder: Path, /, *, name: str, listen: str = "", advertise: Repeated = None) -> None:
    """On a node: make its key, and request.json to send to the operator. The private key stays in
    the folder.

    Parameters
    ----------
    folder:
        The node's, new.
    name:
        By which the operator will know it: a-z, 0-9, - and . It should not name a person.
    listen:
        Of a peer: HOST:PORT of this machine, UDP; default: any port of all its addresses. Whoever
        is to be a bootstrap says a port, and an address that others reach.
    advertise:
        Of a peer: HOST:PORT that others are told instead, behind a router that forwards it; may be
        repeated.
    """
    need_libraries("federation", *NETWORK)
    from ..deploy.operate.enrolment import identity as make

    make(folder, name, listen, tuple(advertise or ()))
    say(
        f"key of '{name}' in {folder}; send {folder / 'request.json'} to the operator, and keep the"
        " rest"
    )


@app.command
@takes(FoundingPlan)
def new(
    folder: Path,
    /,
    *,
    items: Path,
    node: Annotated[list[str], Parameter(negative="")],
    host: str = "127.0.0.1",
    port: int = 8443,
    name: Repeated = None,
    plain: bool = False,
    **options: Any,
) -> None:
    """As the operator: found a federation with the nodes that asked to take part.

    Writes FOLDER/server, to be run with `entrenous server`, or with --peers FOLDER/operator, whose
    key is needed to invite and to shut out only; and FOLDER/invitations/NAME for each node, to be
    sent to it. The first two peers are those that others ask first.

    Parameters
    ----------
    folder:
        A new folder.
    items:
        A CSV file with a column `item` and, if known, `title`, `lat` and `lon`: what all nodes
        number alike.
    node:
        REQUEST.json:USERS, a node's request and how many users it may have; of a peer REQUEST.json;
        repeated for every node.
    host:
        The address on which the server listens; 0.0.0.0 = every address of the machine.
    port:
        The port on which the server listens.
    name:
        A host name or address by which nodes reach the server, as its certificate shall say; may be
        repeated; nodes use the first.
    plain:
        Without TLS; beyond loopback, server and nodes then also want --insecure.
    """
    need_libraries("federation", *NETWORK)
    from ..core.registry.own import is_place
    from ..deploy.agreement.catalogue import Items
    from ..deploy.operate.founding import Place, found_federation

    if not 0 < port < 65536:
        raise InputError("--port", f"got {port}", expected="1 to 65535")
    plan = FoundingPlan(**options)
    requests = [requested(each) for each in node]
    place = Place(host, port, tuple(name or ()), not plain)
    made = found_federation(folder, Items.read_csv(items), requests, plan, place)
    say(made.terms.limits(plan.algorithm if is_place(plan.algorithm) else ""))
    begin = f"start it with: entrenous server {made.server}"
    if plan.peers:
        begin = f"its key is in {made.server}"
    say(f"run {made.terms.run}; {begin}")
    say(
        f"send each node its folder of {folder / 'invitations'}; it joins with: entrenous"
        " federation join"
    )


def requested(text: str) -> tuple[Any, int]:
    """A node's request and how many users it may have: 1 for a peer, and for a new key. Raises
    InputError.
    """
    from ..deploy.operate.enrolment import EnrolmentRequest

    path, _, count = text.rpartition(":")
    if path and count.isdigit():
        return EnrolmentRequest.read(Path(path)), int(count)
    if not text.endswith(".json"):
        raise InputError(
            "--node",
            f"got {text!r}",
            expected="REQUEST.json:USERS, such as shop-1/request.json:250",
        )
    return EnrolmentRequest.read(Path(text)), 1


@app.command
@takes(JoinPlan)
def join(
    folder: Path,
    /,
    *,
    invitation: Path,
    data: str = "",
    load: Load = None,
    **options: Any,
) -> None:
    """On a node: take up an invitation with the users' rows. They are copied into the node's own
    store and go nowhere else.

    Says first what the node agrees to. The node takes the terms, and the addresses of the others,
    from the invitation; the rest is this command's. A node that has joined takes a further
    invitation up, with a new ticket, key or certificate, without --data.

    Parameters
    ----------
    folder:
        The node's, with its key.
    invitation:
        The folder that the operator sent.
    data:
        A file or data set with the rows of this node's users, of a peer one.
    """
    need_libraries("federation", *NETWORK)
    from ..data.load import load as load_data
    from ..data.load import load_part
    from ..deploy.operate.enrolment import accept
    from ..deploy.operate.enrolment import join as take

    if not data:
        accept(folder, invitation)
        say(f"{folder} has taken {invitation} up; start it again: entrenous node {folder}")
        return
    # A device has one user: its file is a part of a whole.
    if Path(data).exists():
        rows = load_part(Path(data), **loading(load))
    else:
        rows = load_data(data, **loading(load))
    users = take(folder, invitation, rows, JoinPlan(**options), say)
    say(f"{len(users)} users, {len(rows)} rows; run it with: entrenous node {folder}")


@app.command
def relay(
    folder: Path,
    /,
    *,
    invitation: Path,
    node: Annotated[list[str], Parameter(negative="")],
    host: str = "127.0.0.1",
    port: int = 8443,
    name: Repeated = None,
    algorithm: str = "",
    plain: bool = False,
) -> None:
    """On a node that was invited: make it a relay, which has further nodes behind it and
    answers the server with their sums. Under masks these nodes are one group.

    Writes FOLDER/below/invitations/NAME for each of them, to be sent to it; run the relay with
    `entrenous node FOLDER`.

    Parameters
    ----------
    folder:
        The relay's, with its key, as `entrenous federation identity` made it.
    invitation:
        The folder that the operator of the server above sent.
    node:
        REQUEST.json:USERS, the request of a node of the relay and how many of the relay's users it
        has; repeated for every node.
    host:
        The address on which the relay listens for its nodes; 0.0.0.0 = every address of the
        machine.
    port:
        The port on which the relay listens.
    name:
        A host name or address by which its nodes reach it; may be repeated; they use the first.
    algorithm:
        The file of the federation's algorithm, where that is none of `entrenous algorithms`.
    plain:
        Without TLS to its nodes; beyond loopback, relay and nodes then also want --insecure.
    """
    need_libraries("federation", *NETWORK)
    from ..deploy.operate.founding import Place, found_relay

    requests = [requested(each) for each in node]
    made = found_relay(
        folder, invitation, requests, Place(host, port, tuple(name or ()), not plain), algorithm
    )
    say(
        f"send each node its folder of {made.server.parent / 'invitations'}; it joins with:"
        " entrenous federation join"
    )
    say(f"run the relay with: entrenous node {folder}")
