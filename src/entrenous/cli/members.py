"""`entrenous federation invite`, `shut-out`, `renew`, `rotate`, `rewind`: what changes in a
federation that is there already.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from .console import say
from .federation import app
from .founding import requested
from .options import NETWORK, need_libraries


@app.command
def invite(
    folder: Path, /, *, node: Annotated[list[str], Parameter(negative="")], days: float = 365.0
) -> None:
    """As the operator: let nodes join a federation that is there, or give one its new key. Writes
    FOLDER/invitations/NAME for each.

    Parameters
    ----------
    folder:
        The federation's, as `entrenous federation new` made it.
    node:
        REQUEST.json:USERS, a node's request and how many users it may have; REQUEST.json of a peer,
        and of `rotate`; may be repeated.
    days:
        That the ticket of a peer is good for.
    """
    need_libraries("federation", *NETWORK)
    from ..deploy.operate import membership

    for made in membership.invite(folder, [requested(each) for each in node], days):
        say(f"send {made} to its node; it joins with: entrenous federation join")
    say(membership.to_do(folder))


@app.command
def shut_out(
    folder: Path,
    name: str,
    /,
    *,
    rest_others: Annotated[bool, Parameter(name="--rest-others", negative="")] = False,
) -> None:
    """As the operator: shut a node out. A server asks it no more; peers learn it from revoked.json.
    What it has sent stays in the models.

    Under masks nodes consent to no sums that differ by one node: others may have to leave the
    rounds with it, and it says which.

    Parameters
    ----------
    folder:
        The federation's, as `entrenous federation new` made it.
    name:
        The node's name.
    rest_others:
        Have those others rest for good: they stay members, are asked no more, and get the trained
        model.
    """
    need_libraries("federation", *NETWORK)
    from ..deploy.operate import membership

    done = membership.shut_out(folder, name, rest_others)
    resting = f"; {', '.join(done.resting)} rest" if done.resting else ""
    say(
        f"{name} with {done.users} users is no member any more{resting}; {membership.to_do(folder)}"
    )


@app.command
def renew(folder: Path, /, *, name: list[str] | None = None, days: float = 365.0) -> None:
    """As the operator: a new certificate for the server, for its names and further ones, by the
    same authority; for peers new tickets.

    Where keys/ca.crt and keys/ca.key were moved away it makes a new authority, whose ca.crt every
    node needs.

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
    from ..deploy.operate import membership

    if not membership.is_server(folder):
        made = membership.renew_tickets(folder, days)
        say(
            f"{len(made)} new tickets: send each peer its folder of {folder / 'invitations'}, to"
            " `join` with, without --data"
        )
        return
    until, anew = membership.renew_certificate(folder, name or [])
    say(f"the server's certificate ends on {until:%Y-%m-%d}; {membership.to_do(folder)}")
    if anew:
        authority = folder / "server" / "keys" / "ca.crt"
        say(
            f"a new authority: send {authority} to every node, which puts it into its folder and"
            " starts again"
        )


@app.command
def rotate(folder: Path, /) -> None:
    """On a node or a peer: make a new key, and a request for it that the old key has signed. The
    old one counts until `join`.

    Parameters
    ----------
    folder:
        The node's folder.
    """
    need_libraries("federation", *NETWORK)
    from ..deploy.operate.enrolment import rotate as make

    name = make(folder).name
    say(
        f"new key of '{name}'; send {folder / 'request.json'} to the operator, and `join` with the"
        " new invitation, without --data"
    )


@app.command
def rewind(folder: Path, /, *, rounds: int, after: int = -1) -> None:
    """Go back to an earlier round: a server to a model it has kept, a node to where such a server
    goes on. Stop it before.

    A node does no round again, whatever a server says, until its owner runs this: ask the operator
    why before you do. Under masks rounds after going back have new numbers, and nodes go on by
    themselves; on a node this allows as many further rounds as the terms say.

    Parameters
    ----------
    folder:
        The federation's or the server's, as the operator; or the node's.
    rounds:
        Rounds done: of the server one that it has kept (it says which); on a node as the operator
        says.
    after:
        Of a server under masks whose folder was restored from a backup: the largest number of a
        round that server.log or a node's log had.
    """
    need_libraries("federation", *NETWORK)
    from ..deploy.operate import membership

    for line in membership.rewound(folder, rounds, after):
        say(line)
