"""`entrenous peer identity`, `new`, `invite`, `join`: peers on machines of their own, whose keys and rows stay there."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from ..core.errors import InputError
from .console import say
from .options import PEERS, Load, Set, assignments, loading, need_libraries
from .peer import app


@app.command
def identity(folder: Path, /, *, name: str, listen: str = "0.0.0.0:0", advertise: list[str] | None = None) -> None:
    """On a peer's machine: make its key, and request.json to send to the operator. The key stays in the folder.

    Parameters
    ----------
    folder:
        The peer's, new.
    name:
        By which the operator tells peers apart; other peers do not see it.
    listen:
        HOST:PORT of this machine, UDP; port 0 = any. Whoever is to be a bootstrap says a port, and an address that others reach.
    advertise:
        HOST:PORT that others are told instead, behind a router that forwards it; may be repeated.
    """
    need_libraries("peer", *PEERS)
    from ..deploy.peers.enrolment import REQUEST
    from ..deploy.peers.enrolment import identity as make

    make(folder, name, listen, advertise or [])
    say(f"key of '{name}' in {folder}; send {folder / REQUEST} to the operator, and keep the rest")


@app.command
def new(
    folder: Path,
    /,
    *,
    items: Path,
    peer: list[Path],
    algorithm: str = "pepper-gmf",
    settings: Set = None,
    users: int = 0,
    seed: int = 0,
    draws: Literal["secret", "public"] = "secret",
    period: float = 10.0,
) -> None:
    """As the operator: found a federation of the peers that asked. Writes FOLDER/invitations/NAME for each, to be sent to it.

    The first two are the bootstraps: ordinary peers whose addresses all know. The operator is needed for nothing else.

    Parameters
    ----------
    folder:
        A new folder. Its operator.key invites: keep it.
    items:
        A CSV file with a column item and, if known, title, lat and lon.
    peer:
        REQUEST.json of a peer; repeated for every one.
    algorithm:
        One that gossips, of `entrenous algorithms`.
    settings:
        A setting of the algorithm, name=value; may be repeated.
    users:
        How many peers there may be in all; default: as many as asked. More leaves room for those to come.
    seed:
        Names the base model that all begin with; with public draws all else too.
    draws:
        secret: every peer draws by a number of its own; public: by the seed, as in a simulation.
    period:
        Seconds between two pushes of a peer.
    """
    need_libraries("peer", *PEERS)
    from ..deploy.peers.enrolment import PeerEnrolmentRequest, begin

    if not 0.05 <= period <= 86_400:
        raise InputError("--period", f"got {period:g}", expected="0.05 to 86400 seconds")
    begin(
        folder, items, [PeerEnrolmentRequest.read(path) for path in peer], algorithm, name=folder.name,
        settings=assignments(settings), users=users, seed=seed, draws=draws, period=period,
    )  # fmt: skip
    say(f"send each peer its folder of {folder / 'invitations'}; it joins with: entrenous peer join")


@app.command
def invite(folder: Path, /, *, peer: list[Path]) -> None:
    """As the operator: invite further peers. Nobody else needs to know: the invitation shows the operator's signature.

    Parameters
    ----------
    folder:
        The federation's, as `entrenous peer new` made it.
    peer:
        REQUEST.json of a peer; may be repeated.
    """
    need_libraries("peer", *PEERS)
    from ..deploy.peers.enrolment import PeerEnrolmentRequest
    from ..deploy.peers.enrolment import invite as make

    for made in make(folder, [PeerEnrolmentRequest.read(path) for path in peer]):
        say(f"send {made} to its peer; it joins with: entrenous peer join")


@app.command
def join(folder: Path, /, *, invitation: Path, data: str, load: Load = None) -> None:
    """On a peer's machine: take up an invitation with the user's rows. They are copied into the peer's folder and go nowhere else.

    Parameters
    ----------
    folder:
        The peer's, with its key.
    invitation:
        The folder that the operator sent.
    data:
        A file with the rows of this peer's one user.
    """
    need_libraries("peer", *PEERS)
    from ..data.load import load as load_data
    from ..deploy.peers.enrolment import join as take

    rows = load_data(data, part=Path(data).exists(), **loading(load))
    say(f"{take(folder, invitation, rows)} rows; run it with: entrenous peer run {folder}")
