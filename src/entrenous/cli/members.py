"""`entrenous federation invite`, `shut-out`, `renew`, `rewind`: what changes in a federation that is there already."""

from __future__ import annotations

from pathlib import Path

from .console import say
from .federation import app
from .founding import requested
from .options import NETWORK, need_libraries

RESTART = "it counts from the server's next start: stop it, and start it again"


@app.command
def invite(folder: Path, /, *, node: list[str]) -> None:
    """As the operator: let nodes join a federation that is there. Writes FOLDER/invitations/NAME for each, to be sent to it.

    Parameters
    ----------
    folder:
        The federation's, as `entrenous federation new` made it.
    node:
        REQUEST.json:USERS, a node's request and how many users it may have; may be repeated.
    """
    need_libraries("federation", *NETWORK)
    from ..deploy.enrolment import EnrolmentRequest
    from ..deploy.membership import invite as make

    for made in make(folder, [requested(each, EnrolmentRequest) for each in node]):
        say(f"send {made} to its node; it joins with: entrenous federation join")
    say(RESTART)


@app.command
def shut_out(folder: Path, name: str, /) -> None:
    """As the operator: shut a node out. Nobody asks it any more; what it has sent stays in the model.

    Parameters
    ----------
    folder:
        The federation's, as `entrenous federation new` made it.
    name:
        The node's folder.
    """
    need_libraries("federation", *NETWORK)
    from ..deploy.membership import shut_out as out

    say(f"{name} with {out(folder, name)} users is off the roll; {RESTART}")


@app.command
def renew(folder: Path, /, *, name: list[str] | None = None) -> None:
    """As the operator: a new certificate for the server, for its names and further ones, by the same authority.

    Where keys/ca.crt and keys/ca.key were moved away it makes a new authority, whose ca.crt every node needs.

    Parameters
    ----------
    folder:
        The federation's, as `entrenous federation new` made it.
    name:
        A further host name or address by which nodes reach the server; may be repeated.
    """
    need_libraries("federation", *NETWORK)
    from ..deploy.membership import renew as make

    until, anew = make(folder, name or [])
    say(f"the server's certificate ends on {until:%Y-%m-%d}; {RESTART}")
    if anew:
        say(
            f"a new authority: send {folder / 'server' / 'keys' / 'ca.crt'} to every node, which puts it into its folder and starts again"
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
    from ..deploy.membership import is_server
    from ..deploy.membership import rewind as back

    before = back(folder, rounds)
    if is_server(folder):
        say(f"{folder}: from round {before} back to {rounds}; on every node: entrenous federation rewind NODE --rounds {rounds}")
    else:
        say(f"{folder}: from round {before} back to {rounds}, with the users' newest vectors")
