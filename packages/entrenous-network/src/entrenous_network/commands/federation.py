"""`entrenous federation`: commands that try a federation on this machine, look at one, and
recommend from it. founding.py and members.py add further commands.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cyclopts import App

from entrenous.cli.ask import Shown, show_list
from entrenous.cli.console import emit_json, say, table, tell
from entrenous.cli.options import Load, loading, takes
from entrenous.core.errors import InputError
from entrenous.core.keywords import at_least

from ..operate.plans import TrialPlan
from .libraries import NETWORK, OF_NODE, PEERS, need_libraries

if TYPE_CHECKING:
    from ..frames.row_tests import Accuracy

ONE_SERVER = "the folder of one federation, or of its server"
BAR = "\u2588"  # a full block: 30 of them are a hit rate of 1

app = App(
    name="federation",
    help=(
        "Federations, with a server or of peers: try one on this machine, found one, enrol nodes,"
        " look at their state."
    ),
)


@app.command(name="try")
@takes(TrialPlan)
def try_(folder: Path | None = None, /, *, json: bool = False, **options: Any) -> int:
    """Start a federation on this machine, to which a stream of events happens while it runs.

    People join by invitation and leave, rows arrive on devices, items appear. Devices take part by
    lot, under masks, and test new rows before they learn them.

    With --peers each peer is a process with its own key. All push, and are stopped. Exit code 1 if
    one of them failed.

    Parameters
    ----------
    folder:
        The folder that keeps everything. Default: runs/stream, or runs/stream-2 where that is
        there.
    json:
        Print the state of the server at the end as one JSON object on stdout.
    """
    plan = TrialPlan(**options).complete()
    need_libraries("federation", *(PEERS if plan.peers else NETWORK))
    number = 1
    home = folder or Path("runs/stream")
    while folder is None and home.exists():
        number += 1
        home = Path(f"runs/stream-{number}")
    if plan.peers:
        from ..operate.trial_peers import show

        return 0 if show(home, plan, tell) else 1
    from ..operate.running import status_of_server
    from ..operate.trial import Trial

    trial = Trial(home, plan, say)
    trial.live()
    if json:
        emit_json(status_of_server(trial.server))
    else:
        say(f"accuracy: entrenous federation status {home} --accuracy")
    return 0


@app.command
def status(*folders: Path, accuracy: bool = False, json: bool = False) -> None:
    """Show the state of a server, a node or peers.

    Of a server: rounds, nodes, bytes, and counts of the answers that it gave. Of a node: its round,
    its answers and refusals, and the time of the server's last message. Of peers: pushes, accepted
    models, errors.

    Parameters
    ----------
    folders:
        The folder of a server or of a node; or those of several peers, or one folder that holds
        them.
    accuracy:
        Of a server whose federation was founded with --accuracy: show how often a new row was among
        the ten items that its user would have been recommended, over time.
    json:
        Print one JSON object on stdout.
    """
    need_libraries("federation", *OF_NODE)
    from ..operate.membership import is_server

    if accuracy:
        return _accuracy(folders, json)
    # The first folder says what is asked about; only peers are shown several at a time.
    if folders and is_server(folders[0]):
        return _server_status(folders[0], json)
    if folders and _has_server(folders[0]):
        return _node_status(folders[0], json)
    from ..peers.running import status as of

    peers = [of(path) for path in _peers(folders)]
    if json:
        return emit_json({"peers": peers})
    names = [
        "name",
        "number",
        "running",
        "events",
        "pushes",
        "known",
        "errors",
        "hr@20",
        "ticket_ends",
    ]
    counts = ["pushed.ok", "merged", "pushed.busy", "pushed.failed"]
    rows = []
    for peer in peers:
        # A peer that has not pushed yet has no summary.
        tally = peer.get("tally", {})
        cells = [peer.get(name, "") for name in names]
        rows.append([*cells, *(tally.get(name, 0) for name in counts)])
    table([*names, *counts], rows)


def _server_status(folder: Path, json: bool) -> None:
    from ..operate.membership import certificate_ends
    from ..operate.running import status_of_server

    folder = _of_server(folder)
    about = status_of_server(folder)
    # A certificate that has run out stops all nodes at once, so that its end is shown early.
    ends = certificate_ends(folder)
    if ends is not None:
        about["certificate_ends"] = f"{ends:%Y-%m-%d}"
    if json:
        return emit_json(about)
    _show_status(about, times=("committed", "next_round"))


def _accuracy(folders: tuple[Path, ...], json: bool) -> None:
    """Prints the accuracy over time that the tests of new rows on all nodes give together."""
    from ..agreement.terms import TERMS, FederationTerms
    from ..operate.membership import is_server
    from ..server.accuracy import curve, noted_tests

    if len(folders) != 1:
        raise InputError("--accuracy", f"{len(folders)} folders were named", expected=ONE_SERVER)
    if not is_server(folders[0]):
        raise InputError("--accuracy", "sums of tests are at a server", expected=ONE_SERVER)
    folder = _of_server(folders[0])
    if not FederationTerms.read(folder / TERMS).accuracy:
        raise InputError(
            "--accuracy",
            f"the nodes of {folder} test no new rows",
            fix="found a federation with `entrenous federation new --accuracy 3`",
        )
    windows = curve(noted_tests(folder))
    if json:
        return emit_json({"accuracy": [window._asdict() for window in windows]})
    _show_curve(windows)


def _show_curve(windows: Sequence[Accuracy]) -> None:
    """Prints the accuracy over time as a table."""
    if not windows:
        return say("no round has brought tests yet")
    rows = []
    for window in windows:
        cells = ["too few", "", "", ""]
        if window.hit_rate is not None:
            interval = f"{window.low:.3f} to {window.high:.3f}"
            mean_rank = f"{window.reciprocal_rank:.3f}"
            bar = BAR * round(30 * window.hit_rate)
            cells = [f"{window.hit_rate:.3f}", interval, mean_rank, bar]
        rows.append([f"{window.first} to {window.last}", f"{max(0.0, window.people):.0f}", *cells])
    headers = ["rounds", "people with new rows", "HR@10", "95 % interval", "MRR", ""]
    table(headers, rows)


def _of_server(folder: Path) -> Path:
    """Returns the folder of a server: an operator names the folder of the federation, and the
    server's machine may have the part alone.
    """
    return folder / "server" if (folder / "server").is_dir() else folder


def _has_server(folder: Path) -> bool:
    """Returns True for the folder of a node that has joined a federation with a server."""
    from ..agreement.terms import TERMS, FederationTerms
    from ..node.node_store import NODE

    joined = (folder / NODE).exists() and (folder / TERMS).exists()
    return joined and FederationTerms.read(folder / TERMS).has_server


def _node_status(folder: Path, json: bool) -> None:
    from ..node.node_watch import node_status

    about = node_status(folder)
    if json:
        return emit_json(about)
    _show_status(about, times=("last_contact", "last_answer"))


def _show_status(about: dict[str, Any], times: tuple[str, ...]) -> None:
    """Prints a status as a table of names and values. times: names of seconds since 1970, which are
    shown as dates.
    """
    from ..agreement.terms import ENDLESS

    rows = []
    for name, value in about.items():
        if isinstance(value, dict):
            value = ", ".join(f"{code} {count}" for code, count in value.items())
        elif isinstance(value, list):
            value = ", ".join(value)
        elif name in times and value:
            value = f"{datetime.fromtimestamp(value, UTC):%Y-%m-%d %H:%M:%S} UTC"
        elif name in times:
            value = "never"
        elif name == "rounds" and value == ENDLESS:
            value = "without end"
        rows.append([name, "" if value is None else value])
    table(["", ""], rows)


def _peers(folders: tuple[Path, ...]) -> list[Path]:
    """Returns the folders of peers: the given ones, and those inside a given federation."""
    if not folders:
        raise InputError(
            "FOLDER",
            "no folder was named",
            fix="name a server's folder, a peer's, or the one that holds peers",
        )
    peers = []
    for path in folders:
        # The folder of a federation stands for all peers below it.
        inside = sorted(path.glob("nodes/*/node.json"))
        peers += [file.parent for file in inside] or [path]
    return peers


@app.command
@takes(Shown)
def recommend(
    folder: Path,
    /,
    *,
    user: str | None = None,
    n: int = 10,
    json: bool = False,
    **options: Any,
) -> None:
    """On a node or a peer: recommend items to one of its users by the node's newest model. Nothing
    is sent to anybody.

    Parameters
    ----------
    folder:
        The folder of the node, or of a shop; it may be running.
    user:
        The id of one of the node's users, or of the shop's customers; default: the first.
    n:
        How many items, at most 100.
    json:
        Print one JSON object on stdout.
    """
    need_libraries("federation", *OF_NODE)
    from ..agreement.terms import TERMS, FederationTerms
    from ..operate.device import recommend as best
    from ..operate.shop import device_of

    at_least("--n", n, 1)
    folder = device_of(folder, user)
    shown = Shown(**options)
    who, number, items = best(folder, user, n, shown.scores)
    # Whoever reads a list also reads what its federation does not protect.
    limits = FederationTerms.read(folder / TERMS).limits()
    if json:
        emit_json({"user": who, "round": number, "items": items, "profile": limits})
    else:
        title = f"For user {who}, on {folder}, by the model of round {number}"
        show_list(title, items, shown)
        say(limits)


@app.command
def add(folder: Path, /, *, data: str, load: Load = None, ignore_unknown: bool = False) -> None:
    """On a node: add rows of its users. They count in training from the next round on, also if the
    node is running, and their items are not recommended again.

    Parameters
    ----------
    folder:
        The folder of the node, or of a shop.
    data:
        A file with the new rows; a row takes the place of its user's row of the same item.
    ignore_unknown:
        Leave out rows of users who are not of this node, and of items that are not on the
        federation's list. Without it such a file is refused, and nothing is added.
    """
    need_libraries("federation", *OF_NODE)
    from entrenous.data.load import load_part

    from ..operate.device import Device, add_to_shop
    from ..operate.shop import devices_of

    rows = load_part(Path(data), **loading(load))
    if devices_of(folder):
        added = add_to_shop(folder, rows, ignore_unknown=ignore_unknown)
    else:
        with Device(folder) as device:
            added = device.add(rows, ignore_unknown=ignore_unknown)
    say(f"{added} of {len(rows)} rows added to {folder}")


@app.command
def backup(folder: Path, /, *, out: Path) -> None:
    """On a node or a peer: copy its whole store while it runs. To restore the copy: stop the node,
    remove store.sqlite*, and put the copy in its place as store.sqlite.

    Parameters
    ----------
    folder:
        The node's folder.
    out:
        A new file. It holds the users' rows and vectors: protect it as you protect those.
    """
    need_libraries("federation", *NETWORK)
    from ..node.node_store import STORE, NodeStore

    with closing(NodeStore(folder / STORE)) as store:
        store.copy(out)
    say(f"{folder / STORE} copied to {out}")
