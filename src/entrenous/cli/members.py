"""`entrenous federation invite`, `shut-out`, `renew`, `rotate`, `rewind`: what changes in a federation that is there already."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from .console import say
from .federation import app
from .founding import requested
from .options import NETWORK, need_libraries


@app.command
def invite(folder: Path, /, *, node: Annotated[list[str], Parameter(negative="")], days: float = 365.0) -> None:
    """As the operator: let nodes join a federation that is there, or give one its new key. Writes FOLDER/invitations/NAME for each.

    Parameters
    ----------
    folder:
        The federation's, as `entrenous federation new` made it.
    node:
        REQUEST.json:USERS, a node's request and how many users it may have; REQUEST.json of a peer, and of `rotate`; may be repeated.
    days:
        That the ticket of a peer is good for.
    """
    need_libraries("federation", *NETWORK)
    from ..deploy import membership

    for made in membership.invite(folder, [requested(each) for each in node], days):
        say(f"send {made} to its node; it joins with: entrenous federation join")
    say(membership.to_do(folder))


@app.command
def shut_out(folder: Path, name: str, /) -> None:
    """As the operator: shut a node out. A server asks it no more; peers learn it from revoked.json. What it has sent stays in the models.

    Parameters
    ----------
    folder:
        The federation's, as `entrenous federation new` made it.
    name:
        The node's name.
    """
    need_libraries("federation", *NETWORK)
    from ..deploy import membership

    say(f"{name} with {membership.shut_out(folder, name)} users is no member any more; {membership.to_do(folder)}")


@app.command
def renew(folder: Path, /, *, name: list[str] | None = None, days: float = 365.0) -> None:
    """As the operator: a new certificate for the server, for its names and further ones, by the same authority; for peers new tickets.

    Where keys/ca.crt and keys/ca.key were moved away it makes a new authority, whose ca.crt every node needs.

    Parameters
    ----------
    folder:
        The federation's, as `entrenous federation new` made it.
    name:
        A further host name or address by which nodes reach the server; may be repeated.
    days:
        That the tickets of peers are good for.
    """
    need_libraries("federation", *NETWORK)
    from ..deploy import membership

    if not membership.is_server(folder):
        made = membership.renew_tickets(folder, days)
        say(f"{len(made)} new tickets: send each peer its folder of {folder / 'invitations'}, to `join` with, without --data")
        return
    until, anew = membership.renew_certificate(folder, name or [])
    say(f"the server's certificate ends on {until:%Y-%m-%d}; {membership.to_do(folder)}")
    if anew:
        authority = folder / "server" / "keys" / "ca.crt"
        say(f"a new authority: send {authority} to every node, which puts it into its folder and starts again")


@app.command
def rotate(folder: Path, /) -> None:
    """On a node or a peer: make a new key, and a request for it that the old key has signed. The old one counts until `join`.

    Parameters
    ----------
    folder:
        The node's folder.
    """
    need_libraries("federation", *NETWORK)
    from ..deploy.enrolment import rotate as make

    name = make(folder).name
    say(
        f"new key of '{name}'; send {folder / 'request.json'} to the operator, and `join` with the new invitation, without --data"
    )


@app.command
def rewind(folder: Path, /, *, rounds: int) -> None:
    """Go back to an earlier round: a server to a model it has kept, a node to where such a server goes on. Stop it before.

    A node does no round again, whatever a server says, until its owner runs this: ask the operator why before you do.

    Parameters
    ----------
    folder:
        The federation's or the server's, as the operator; or the node's.
    rounds:
        Rounds done: of the server one that it has kept (it says which); on a node as the operator says.
    """
    need_libraries("federation", *NETWORK)
    from ..deploy import membership

    before = membership.rewind(folder, rounds)
    if membership.is_server(folder):
        say(f"{folder}: from round {before} back to {rounds}; on every node: entrenous federation rewind NODE --rounds {rounds}")
    else:
        say(f"{folder}: from round {before} back to {rounds}, with the users' newest vectors")
