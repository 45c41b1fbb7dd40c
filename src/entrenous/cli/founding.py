"""`entrenous federation identity`, `new` and `join`: how a federation of several machines begins,
around a server or of peers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from ..core.errors import InputError
from .console import say
from .federation import app
from .options import NETWORK, Crossing, Load, Protect, Set, assignments, loading, need_libraries

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
def new(
    folder: Path,
    /,
    *,
    items: Path,
    node: Annotated[list[str], Parameter(negative="")],
    peers: bool = False,
    algorithm: str = "",
    settings: Set = None,
    rounds: int = 0,
    interactions: int = 1,
    users: int = 0,
    scale: tuple[float, float] = (1.0, 1.0),
    host: str = "127.0.0.1",
    port: int = 8443,
    name: Repeated = None,
    profile: Crossing = "private",
    protect: Protect = None,
    apart: bool = True,
    draws: Literal["secret", "public"] = "secret",
    deadline: float = 600.0,
    quorum: float = 1.0,
    most_norm: float | None = None,
    most_weight: float | None = None,
    most_move: float | None = None,
    period: float = 10.0,
    oldest: int | None = None,
    days: float = 365.0,
    seed: int = 0,
    plain: bool = False,
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
    peers:
        Without a server: each node is a peer, of one user.
    algorithm:
        One with a server, of `entrenous algorithms`; or a class of one's own, ./my_algo.py, which
        each node must be given. With --peers one that gossips; default: pepper-gmf.
    settings:
        A hyper-parameter, name=value; may be repeated.
    rounds:
        After which training is over, with a server.
    interactions:
        About how many rows the nodes have together.
    users:
        Of the federation; default: those of the nodes. More leaves room for nodes to come.
    scale:
        Lowest and highest rating, for algorithms that predict ratings.
    host:
        What the server listens on; 0.0.0.0 = every address of the machine.
    port:
        Where the server listens.
    name:
        A host name or address by which nodes reach the server, as its certificate shall say; may be
        repeated; nodes use the first.
    profile:
        private: the server learns sums of at least 100 people of 3 nodes, with noise, and no node
        by itself; peers push nothing of their own alone. robust: the server reads each device's
        update, one user a node, and refuses poisoned ones. paper: the algorithm as published, whose
        messages can be read.
    protect:
        A setting of the protection where it differs from the profile's, name=value; may be
        repeated, such as people=60 or noise=0.2. groups=9 sums each round in nine groups of nodes,
        and shortens the sum of a group that one lying member makes too long.
    apart:
        Two masked sums differ by no node, or by as many: one that is away is waited for. --no-apart
        goes on without, where owners agree.
    draws:
        secret: nodes draw from numbers of their own; public: from the seed, so that a simulation
        can repeat all.
    deadline:
        Seconds after which a round goes on without the nodes that have not answered.
    quorum:
        Share of a round's users below which it is not counted.
    most_norm:
        Euclidean length of what one device sends, beyond which it is refused: some ten times what a
        trial's status calls longest_answer.
    most_weight:
        What one device may weigh; default: as many as there are items, or 256.
    most_move:
        How far any number of the model may move in one round (a trial's status: moved); beyond it
        the server stops and says why.
    period:
        Seconds between two pushes of a peer.
    oldest:
        Updates by which a received model may be behind a peer's own, beyond which it is refused;
        default: any.
    days:
        That the tickets of peers are good for.
    seed:
        Names the server's randomness, or the base model of peers.
    plain:
        Without TLS; beyond loopback, server and nodes then also want --insecure.
    """
    need_libraries("federation", *NETWORK)
    from ..core.registry.own import is_place
    from ..deploy.agreement.catalogue import Items
    from ..deploy.operate.founding import Place, found_federation
    from ..deploy.operate.plans import FoundingPlan

    if not 0 < port < 65536:
        raise InputError("--port", f"got {port}", expected="1 to 65535")
    requests = [requested(each) for each in node]
    listed = Items.read_csv(items)
    plan = FoundingPlan(
        peers=peers,
        algorithm=algorithm,
        settings=assignments(settings),
        rounds=rounds,
        interactions=interactions,
        users=users,
        scale=scale,
        profile=profile,
        protect=assignments(protect, "--protect"),
        apart=apart,
        draws=draws,
        deadline=deadline,
        quorum=quorum,
        most_norm=most_norm,
        most_weight=most_weight,
        most_move=most_move,
        period=period,
        oldest=oldest,
        days=days,
        seed=seed,
    )
    place = Place(host, port, tuple(name or ()), not plain)
    made = found_federation(folder, listed, requests, plan, place)
    say(made.terms.limits(algorithm if is_place(algorithm) else ""))
    if peers:
        begin = f"its key is in {made.server}"
    else:
        begin = f"start it with: entrenous server {made.server}"
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
def join(
    folder: Path,
    /,
    *,
    invitation: Path,
    data: str = "",
    people: int = 100,
    parties: int = 3,
    occupancy: float = 10.0,
    apart: bool = True,
    least_users: int = 1,
    own: Repeated = None,
    public_draws: bool = False,
    epsilon: float | None = None,
    algorithm: str = "",
    load: Load = None,
) -> None:
    """On a node: take up an invitation with the users' rows. They are copied into the node's own
    store and go nowhere else.

    Says first what the node agrees to. Of the invitation it takes the terms and where the others
    are; the rest is this command's. A node that has joined takes a further invitation up, with a
    new ticket, key or certificate, without --data.

    Parameters
    ----------
    folder:
        The node's, with its key.
    invitation:
        The folder that the operator sent.
    data:
        A file or data set with the rows of this node's users, of a peer one.
    people:
        Of secure sums: users of all nodes in one sum, below which this node sends nothing.
    parties:
        Of secure sums: nodes in one sum, below which this node sends nothing.
    occupancy:
        Of secure sums: devices that fill a row on average, below which this node sends nothing,
        unless there is noise on every row.
    apart:
        Of secure sums: send nothing either where two sums would differ by fewer nodes or people
        than that. --no-apart goes on where a node has dropped out, and lets a server compute what
        that one sent.
    least_users:
        Users of whom one answer must be: a server that asks for fewer at once gets nothing. Rounds
        draw users: it needs a quorum below 1.
    own:
        A setting that is the user's to decide, name=value, such as pi=0.5 in FPL: half of the
        positive updates are sent.
    public_draws:
        Join also where devices draw from the federation's seed, so that others can repeat what they
        draw: for trying out.
    epsilon:
        Of differential privacy: join only where the terms prove at most this for each user over all
        rounds, whoever the server asks, if the devices of --people users in each sum add their
        noise; default: no bound.
    algorithm:
        The file of the federation's algorithm, where that is none of `entrenous algorithms`:
        ./my_algo.py. Its code runs on this machine; it must be the one that the federation agreed
        on.
    """
    need_libraries("federation", *NETWORK)
    from ..data.load import load as load_data
    from ..data.load import load_part
    from ..deploy.operate.enrolment import accept
    from ..deploy.operate.enrolment import join as take
    from ..deploy.operate.plans import JoinPlan

    if not data:
        accept(folder, invitation)
        say(f"{folder} has taken {invitation} up; start it again: entrenous node {folder}")
        return
    # A device has one user: its file is a part of a whole.
    if Path(data).exists():
        rows = load_part(Path(data), **loading(load))
    else:
        rows = load_data(data, **loading(load))
    plan = JoinPlan(
        people=people,
        parties=parties,
        occupancy=occupancy,
        apart=apart,
        least_users=least_users,
        own=assignments(own, "--own"),
        public_draws=public_draws,
        epsilon=epsilon,
        algorithm=algorithm,
    )
    users = take(folder, invitation, rows, plan, say)
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
    """On a node that was invited: make it a relay, which has nodes of its own and answers the
    server with their sums.

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
        What the relay listens on for its nodes; 0.0.0.0 = every address of the machine.
    port:
        Where it listens.
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
