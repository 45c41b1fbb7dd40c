"""`entrenous federation identity`, `new` and `join`: how a federation of several machines begins,
with a server or of peers.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from entrenous.cli.console import say
from entrenous.cli.options import Load, loading, takes
from entrenous.core.errors import InputError
from entrenous.core.printed import counted

from ..operate.plans import FoundingPlan, JoinPlan
from .federation import app
from .libraries import NETWORK, OF_NODE, need_libraries

if TYPE_CHECKING:
    from ..operate.founding import FoundedFederation

Repeated = Annotated[list[str] | None, Parameter(negative="")]


@app.command
def identity(folder: Path, /, *, name: str, listen: str = "", advertise: Repeated = None) -> None:
    """On a node: make its key, and request.json, which is sent to the operator. The private key
    stays in the folder.

    Parameters
    ----------
    folder:
        A new folder, the node's.
    name:
        The name by which the operator will know the node: a-z, 0-9, - and . It should not name a
        person.
    listen:
        For a peer: HOST:PORT (UDP) of this machine on which it listens; default: any port of all
        addresses. The first two peers of a federation need a fixed port, at an address that the
        others can reach.
    advertise:
        For a peer behind a router that forwards a port: the HOST:PORT that other peers are told
        instead; may be repeated.
    """
    need_libraries("federation", *OF_NODE)
    from ..operate.enrolment import identity as make

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
    node: Repeated = None,
    host: str = "127.0.0.1",
    port: int = 8443,
    name: Repeated = None,
    plain: bool = False,
    **options: Any,
) -> None:
    """As the operator: found a federation with the nodes that asked to take part, or with nobody
    yet, where people come by a link.

    Writes FOLDER/invitations/NAME for each node, to be sent to it, and FOLDER/server, which
    `entrenous server` runs. With --peers it writes FOLDER/operator instead, whose key is needed
    only to invite and to shut out; a new peer asks the first two peers for the addresses of others.

    Parameters
    ----------
    folder:
        A new folder.
    items:
        A CSV file with a column `item` and, if known, `title`, `lat` and `lon`: the list of items
        that all nodes share.
    node:
        REQUEST.json:USERS, the request of a node and the number of users that it may have; for a
        peer REQUEST.json alone. Repeated for every node. None at all where --users says how many
        may ever come. Under masks each user has a device, so a shop joins by a link.
    host:
        The address on which the server listens; 0.0.0.0 = every address of the machine.
    port:
        The port on which the server listens.
    name:
        A host name or address by which nodes reach the server, which its certificate then holds;
        may be repeated; nodes use the first.
    plain:
        Do without TLS; beyond loopback, server and nodes then also need --insecure.
    """
    need_libraries("federation", *NETWORK)
    from ..agreement.catalogue import Items
    from ..operate.founding import Place, found_federation

    if not 0 < port < 65536:
        raise InputError("--port", f"got {port}", expected="1 to 65535")
    plan = FoundingPlan(**options)
    requests = [requested(text) for text in node or ()]
    place = Place(host, port, tuple(name or ()), not plain)
    founded = found_federation(folder, Items.read_csv(items), requests, plan, place)
    _say_founded(plan, founded)
    begin = f"start it with: entrenous server {founded.server}"
    if plan.peers:
        begin = f"its key is in {founded.server}"
    say(f"run {founded.terms.run}; {begin}")
    if not requests:
        say(f"make a link by which people come: entrenous federation link {folder}")
        return
    say(
        f"send each node its folder of {folder / 'invitations'}; it joins with: entrenous"
        " federation join"
    )


def _say_founded(plan: FoundingPlan, founded: FoundedFederation) -> None:
    """Prints what a new federation protects, and what its plan left open."""
    from entrenous.core.registry.discover import is_place
    from entrenous.runs.plan import brought

    own_algorithm = plan.algorithm if is_place(plan.algorithm) else ""
    say(founded.terms.limits(own_algorithm))
    asked = replace(
        plan,
        algorithm=own_algorithm or founded.terms.algorithm,
        settings=founded.terms.settings,
        protect={"sampling": founded.terms.protection.sampling, **plan.protect},
    )
    for line in brought(asked, founded.terms.users):
        say(line)
    least = founded.terms.protection.people
    insisted = JoinPlan().people
    if founded.terms.masked and least < insisted:
        say(
            f"a sum may be of {least} people, and nodes insist on {insisted}: each owner who agrees"
            f" says join --people {least}"
        )
    profile = founded.terms.open_profile
    if profile:
        say(f"nothing hides a single node: each owner who agrees says join --profile {profile}")
    if founded.known is not None:
        of = f"{founded.known} of the {founded.terms.items} items"
        say(f"it begins with the model of {plan.from_model}, which has {of}")


def requested(text: str) -> tuple[Any, int]:
    """Reads the value of --node. Returns the request and the number of users that the node may
    have, 1 for a peer. Raises InputError.
    """
    from ..operate.enrolment import EnrolmentRequest

    # A path may have a colon itself, so only a number at the end counts as one of users.
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
    invitation: Path | None = None,
    link: str = "",
    data: str = "",
    moved: Path | None = None,
    load: Load = None,
    **options: Any,
) -> None:
    """On a node: accept an invitation, or join by a link, with the rows of the node's users. The
    rows are copied into the node's own store and go nowhere else.

    Prints first what the node agrees to. Terms and addresses come from the invitation; everything
    else is decided by the options of this command. A node that has joined already accepts a further
    invitation, with a new ticket or certificate, without --data, and a server's new address by
    --moved, also while it runs.

    Parameters
    ----------
    folder:
        The node's folder, with its key; with --link a new one, whose key is made now.
    invitation:
        The folder that the operator sent.
    link:
        In place of an invitation: the link that the operator gave out, in quotes. The device of one
        person joins by it at once, or those of all customers of a shop, one each.
    data:
        A file or data set with the rows of this node's users; a peer has one user. With --link it
        may be left out: the person begins without rows. With a link and rows of several people,
        each of them has a device in FOLDER.
    moved:
        For a node or shop that has joined: the addresses.json of a server that has moved, from its
        operator.
    """
    need_libraries("federation", *OF_NODE)
    from entrenous.data.load import load as load_data
    from entrenous.data.load import load_part

    from ..operate.enrolment import accept
    from ..operate.enrolment import join as take
    from ..operate.joining import join_by_link

    if moved is not None:
        if link or invitation or data:
            fix = "leave the other options out"
            raise InputError("--moved", "is of a node that has joined", fix=fix)
        from ..operate.moving import hear

        notice = hear(folder, moved)
        say(f"{folder} looks for its server at {', '.join(notice.addresses)} from now on")
        return
    if bool(link) == (invitation is not None):
        raise InputError("join", "needs --invitation or --link, and not both")
    plan = JoinPlan(**options)
    if invitation is not None and not data:
        accept(folder, invitation)
        say(f"{folder} has accepted {invitation}; start it again: entrenous node {folder}")
        return
    rows = None
    if data:
        how = loading(load)
        # The file of one device has one user: `load` alone would refuse it as too small.
        rows = load_part(Path(data), **how) if Path(data).exists() else load_data(data, **how)
    if rows is not None and invitation is None and len(rows.users) > 1:
        from ..operate.joining import join_shop

        customers = join_shop(folder, link, rows, plan, say)
        of = len(rows.users)
        say(f"{customers} of {of} customers have joined now; run it with: entrenous node {folder}")
        return
    if invitation is None:
        users = join_by_link(folder, link, rows, plan, say)
    else:
        assert rows is not None  # of --data
        users = take(folder, invitation, rows, plan, say)
    count = counted(0 if rows is None else len(rows), "row")
    say(f"{counted(len(users), 'user')}, {count}; run it with: entrenous node {folder}")
