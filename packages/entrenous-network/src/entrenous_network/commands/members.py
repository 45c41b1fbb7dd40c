"""`entrenous federation invite`, `shut-out`, `items`, `move`, `renew` and `rewind`:
changes of a federation that has been founded.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from entrenous.cli.console import say, table, tell
from entrenous.core.errors import InputError
from entrenous.core.printed import counted

from .federation import app
from .founding import Repeated, requested
from .libraries import NETWORK, OF_NODE, need_libraries


@app.command
def invite(
    folder: Path, /, *, node: Annotated[list[str], Parameter(negative="")], days: float = 365.0
) -> None:
    """As the operator: invite further nodes. Writes
    FOLDER/invitations/NAME for each.

    Parameters
    ----------
    folder:
        The federation's folder, which `entrenous federation new` made.
    node:
        REQUEST.json:USERS, the request of a node and the number of users that it may have; of a
        peer REQUEST.json alone. May be repeated.
    days:
        How many days the ticket of a peer is valid.
    """
    need_libraries("federation", *NETWORK)
    from ..operate import membership

    requests = [requested(text) for text in node]
    for invitation in membership.invite(folder, requests, days):
        say(f"send {invitation} to its node; it joins with: entrenous federation join")
    say(membership.to_do(folder))


@app.command
def link(
    folder: Path,
    /,
    *,
    uses: int = 10,
    days: float = 30.0,
    an_hour: int = 10,
    show: Annotated[bool, Parameter(negative="")] = False,
    end: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """As the operator: make a link by which people join by themselves, while the server runs.
    Whoever has it may join, so send it as you would send a key. Prints the link alone on stdout.

    Parameters
    ----------
    folder:
        The federation's folder, which `entrenous federation new` made.
    uses:
        How many may join by it.
    days:
        How many days it is good for.
    an_hour:
        How many may join from one address in an hour; behind a proxy, from all together.
    show:
        Make none; show what is left of those that were made.
    end:
        Make none; end all that were made.
    """
    need_libraries("federation", *NETWORK)
    from ..operate.newcomers import end_links, links_of, make_link

    if show and end:
        raise InputError("link", "--show and --end together", expected="one of them")
    if show:
        rows = [_left(one) for one in links_of(folder)]
        table(["link", "left", "ends", "an hour"], rows)
        return
    if end:
        say(f"{counted(end_links(folder), 'link')} ended; who has joined by them stays")
        return
    made = make_link(folder, uses, days, an_hour)
    say(f"{uses} may join by it within {days:g} days: entrenous federation join FOLDER --link LINK")
    tell(str(made))


def _left(one: Any) -> list[object]:
    """Returns a row of the table of links."""
    until = datetime.fromtimestamp(one.until, UTC)
    return [one.sha256[:8], one.left, f"{until:%Y-%m-%d %H:%M} UTC", one.an_hour]


@app.command
def items(
    folder: Path,
    /,
    *,
    add: Path | None = None,
    retire: Repeated = None,
) -> None:
    """As the operator: add items to the list of a federation with a server, or retire some, which
    are recommended to nobody any more. A server at work takes the list up before its next round,
    and its nodes are told then. No item is ever taken off the list, and none changes its number.

    Parameters
    ----------
    folder:
        The federation's folder, which `entrenous federation new` made.
    add:
        A CSV file of new items, with the columns of the first list.
    retire:
        The id of an item to retire; may be repeated.
    """
    need_libraries("federation", *NETWORK)
    from ..agreement.catalogue import Items
    from ..operate import membership

    more = None if add is None else Items.read_csv(add)
    retired = retire or ()
    if more is None and not retired:
        raise InputError("items", "nothing to change", expected="--add FILE.csv or --retire ITEM")
    found = membership.change_items(folder, more, retired)
    added = 0 if more is None else len(more.ids)
    say(
        f"{found.count} items, {added} of them new, {len(found.tree) - found.count} retired in all;"
        f" {membership.to_do(folder)}"
    )


@app.command
def move(
    folder: Path, /, *, address: Annotated[list[str], Parameter(negative="")], port: int = 0
) -> None:
    """As the operator: tell all nodes where the server is from now on. A server at work signs each
    node's next requests with the news, so that nobody changes a node's folder by hand. Writes
    addresses.json, also for nodes that could not hear. Links and invitations made from now on name
    the new address.

    Parameters
    ----------
    folder:
        The federation's folder, which `entrenous federation new` made.
    address:
        HOST:PORT by which nodes reach the server. May be repeated, up to four times; nodes try them
        in this order. Name the old one too, as the last, where it is served for a while.
    port:
        The port on which the server listens when it is started again. Default: as before.
    """
    need_libraries("federation", *NETWORK)
    from ..operate.moving import move as moved

    for line in moved(folder, address, port):
        say(line)


@app.command
def shut_out(folder: Path, name: str, /) -> None:
    """As the operator: shut a node out. The server no longer asks it; peers learn of it from
    revoked.json. Its earlier contributions stay in the models.

    Parameters
    ----------
    folder:
        The federation's folder, which `entrenous federation new` made.
    name:
        The name of the node.
    """
    need_libraries("federation", *NETWORK)
    from ..operate import membership

    users = counted(membership.shut_out(folder, name), "user")
    say(f"{name} with {users} is no longer a member; {membership.to_do(folder)}")


@app.command
def renew(folder: Path, /, *, name: list[str] | None = None, days: float = 365.0) -> None:
    """As the operator: issue a new certificate for the server, by the same authority; in a
    federation of peers, new tickets.

    If keys/ca.crt and keys/ca.key were moved away, makes a new authority, whose ca.crt every node
    then needs.

    Parameters
    ----------
    folder:
        The federation's folder, which `entrenous federation new` made.
    name:
        A further host name or address by which nodes reach the server; may be repeated. The names
        of the old certificate are kept.
    days:
        How many days the tickets of peers are valid.
    """
    need_libraries("federation", *NETWORK)
    from ..operate import membership

    # Peers have no certificate: their ticket is the operator's word for them.
    if not membership.is_server(folder):
        tickets = membership.renew_tickets(folder, days)
        say(
            f"{len(tickets)} new tickets: send each peer its folder of {folder / 'invitations'}; it"
            " takes it up with `join`, without --data"
        )
        return
    until, new_authority = membership.renew_certificate(folder, name or [])
    say(f"the server's certificate ends on {until:%Y-%m-%d}; start the server again to use it")
    # Nodes trust the authority, so a new certificate by the old one concerns the server alone.
    if new_authority:
        authority = folder / "server" / "keys" / "ca.crt"
        say(
            f"a new authority: send {authority} to every node, which puts it into its folder and"
            " starts again"
        )


@app.command
def rewind(folder: Path, /, *, rounds: int) -> None:
    """Go back to an earlier round: the server to a model that it has kept, a node to the round from
    which that server continues. Stop the process first.

    A node never repeats a round, whatever a server says, until its owner runs this command: ask the
    operator for the reason first. With masked sums, the rounds after going back get new numbers,
    and nodes continue by themselves.

    Parameters
    ----------
    folder:
        The folder of the federation or of its server, as the operator; or the node's.
    rounds:
        How many rounds are done then: of the server, a number that it has kept (it lists them); on
        a node, the number that the operator names.
    """
    need_libraries("federation", *OF_NODE)
    from ..operate import membership

    for line in membership.rewind(folder, rounds):
        say(line)
