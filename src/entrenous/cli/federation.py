"""`entrenous federation`: one tried on this machine, looked at, recommended from; founding.py and
members.py add commands.
"""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cyclopts import App

from ..core.errors import EntrenousError, InputError
from ..core.keywords import at_least
from ..deploy.operate.plans import TrialPlan
from .console import emit_json, goes_on, say, table, tell
from .options import NETWORK, PEERS, need_libraries, takes

app = App(
    name="federation",
    help=(
        "A federation, around a server or of peers: try one on this machine, found one, enrol"
        " nodes, look."
    ),
)


@app.command(name="try")
@takes(TrialPlan)
def try_(folder: Path | None = None, /, *, json: bool = False, **options: Any) -> int:
    """Start a federation on this machine, each part a process with its own key.

    With a server: nodes that share the users; runs until all rounds are done, and shows that the
    model is, to the bit, that of `entrenous run` with the same seed. Interrupted, it continues when
    it is started again. With --peers: some peers are killed, the first ones too; the rest goes on,
    and a replay ends with the same bytes. Exit code 1 if something was not as it should be.

    Parameters
    ----------
    folder:
        The folder that keeps everything; default: runs/federation, and for peers a folder that is
        removed at the end.
    json:
        Print one JSON object on stdout.
    """
    plan = TrialPlan(**options).complete()
    need_libraries("federation", *(PEERS if plan.peers else NETWORK))
    if plan.peers:
        from ..deploy.operate.trial_peers import show

        return 0 if show(folder, plan, tell) else 1
    from ..core.registry.discover import is_place
    from ..deploy.operate import trial

    folder = folder or Path("runs/federation")
    if not (folder / trial.TRIAL).exists():
        made = trial.begin(folder, plan, say)
        say(
            f"{plan.nodes} nodes and a server in {folder}, with keys and certificates; run"
            f" {made.terms.run}"
        )
        say(made.terms.limits(plan.algorithm if is_place(plan.algorithm) else ""))
    else:
        say(f"going on with {folder}")
    with goes_on("start it again: it goes on from where it was"):
        found = trial.carry_out(folder, say)
    _show_trial(found, json)
    if not found["same"] and not found["lost"]:
        raise EntrenousError("network and simulation ended with different models")
    return 0


def _show_trial(found: dict[str, Any], json: bool) -> None:
    """The model of the network compared with the simulation's, and the list of one user."""
    if json:
        return emit_json(found)
    table(
        ["", "model_sha256"], [["network", found["network"]], ["simulation", found["simulation"]]]
    )
    if found["same"]:
        say("the same model, bit for bit")
    elif found["lost"]:
        say(
            f"{found['lost']} rounds were lost, for a secure sum that was interrupted is never"
            " tried again: the models differ"
        )
    else:
        say("the models differ: a bug, please report it")
    say(
        f"{found['rounds']} rounds, {found['seconds_a_round']:.2f} s each over the network;"
        f" held-out rows under {found['protocol']}:"
    )
    names = [name for name in ("hr@10", "ndcg@10", "mae", "rmse") if name in found["metrics"]]
    profiles = {found["profile"]: found["metrics"], "paper": found["paper"]}
    rows = []
    for profile, metrics in profiles.items():
        rows.append([profile, *(f"{metrics[name]:.4f}" for name in names)])
    table(["profile", *names], rows)
    for profile, known in found["knows"].items():
        say(f"what a curious server would know under {profile}: {known}")
    show_list(found["node"], found["user"], found["round"], found["items"])


@app.command
def status(*folders: Path, json: bool = False) -> None:
    """Show the state of a server, a node or peers.

    A server: rounds, nodes, bytes, how often each answer was given. A node: its round, answers and
    refusals, when it last heard the server. Peers: pushes, models taken, errors.

    Parameters
    ----------
    folders:
        A server's; a node's; or peers', or the one that holds them.
    json:
        Print one JSON object on stdout.
    """
    need_libraries("federation", *NETWORK)
    from ..deploy.operate.membership import is_server

    if folders and is_server(folders[0]):
        return _server_status(folders[0], json)
    if folders and _has_server(folders[0]):
        return _node_status(folders[0], json)
    from ..deploy.peers.running import status as of

    found = [of(path) for path in _peers(folders)]
    if json:
        return emit_json({"peers": found})
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
    for peer in found:
        tally = peer.get("tally", {})
        cells = [peer.get(name, "") for name in names]
        rows.append([*cells, *(tally.get(name, 0) for name in counts)])
    table([*names, *counts], rows)


def _server_status(folder: Path, json: bool) -> None:
    from ..deploy.operate.membership import certificate_ends
    from ..deploy.operate.running import status_of_server

    # The operator names the folder of the federation, the machine of the server its own.
    if (folder / "server").is_dir():
        folder = folder / "server"
    found = status_of_server(folder)
    ends = certificate_ends(folder)
    if ends is not None:
        found["certificate_ends"] = f"{ends:%Y-%m-%d}"
    if json:
        return emit_json(found)
    _show_status(found, times=("committed", "next_round"))


def _has_server(folder: Path) -> bool:
    """Returns True for the folder of a node or relay that has joined a federation with a server."""
    from ..deploy.agreement.terms import TERMS, FederationTerms
    from ..deploy.node.node_store import NODE

    joined = (folder / NODE).exists() and (folder / TERMS).exists()
    return joined and FederationTerms.read(folder / TERMS).has_server


def _node_status(folder: Path, json: bool) -> None:
    from ..deploy.node.node_watch import node_status

    found = node_status(folder)
    if json:
        return emit_json(found)
    _show_status(found, times=("last_contact", "last_answer"))


def _show_status(found: dict[str, Any], times: tuple[str, ...]) -> None:
    """Print a status as a table of names and values. times: names of seconds since 1970, which are
    shown as dates.
    """
    shown = []
    for name, value in found.items():
        if isinstance(value, dict):
            value = ", ".join(f"{code} {count}" for code, count in value.items())
        elif isinstance(value, list):
            value = ", ".join(value)
        elif name in times and value:
            value = f"{datetime.fromtimestamp(value, UTC):%Y-%m-%d %H:%M:%S} UTC"
        elif name in times:
            value = "never"
        shown.append([name, "" if value is None else value])
    table(["", ""], shown)


def _peers(folders: tuple[Path, ...]) -> list[Path]:
    """Peers' folders: the given ones, or those in a given one."""
    if not folders:
        raise InputError(
            "FOLDER",
            "no folder was named",
            fix="name a server's folder, a peer's, or the one that holds peers",
        )
    peers = []
    for path in folders:
        inside = sorted(path.glob("nodes/*/node.json"))
        peers += [file.parent for file in inside] or [path]
    return peers


@app.command
def recommend(folder: Path, /, *, user: str | None = None, n: int = 10, json: bool = False) -> None:
    """On a node or a peer: recommend items to one of its users, by the newest model that it has.
    Nobody is asked, and nobody told.

    Parameters
    ----------
    folder:
        The node's; it may be running.
    user:
        One of its users; default: the first.
    n:
        How many items.
    json:
        Print one JSON object on stdout.
    """
    need_libraries("federation", *NETWORK)
    from ..deploy.agreement.terms import TERMS, FederationTerms
    from ..deploy.operate.recommend import recommend as best

    at_least("--n", n, 1)
    who, number, items = best(folder, user, n)
    limits = FederationTerms.read(folder / TERMS).limits()
    if json:
        emit_json({"user": who, "round": number, "items": items, "profile": limits})
    else:
        show_list(str(folder), who, number, items)
        say(limits)


def show_list(node: str, user: str, number: int, items: list[dict[str, Any]]) -> None:
    """Print a user's recommended items as a table, with the node and the round of the model.
    number: of the round.
    """
    rows = [[item["item"], item["title"], f"{item['score']:.3f}"] for item in items]
    title = f"for user {user}, on {node}, by the model of round {number}"
    table(["item", "title", "score"], rows, title=title)


@app.command
def replay(*folders: Path, json: bool = False) -> int:
    """Do again, in one process, what all peers of a federation recorded: their models must come out
    the same, to the byte.

    Exit code 1 if they do not.

    Parameters
    ----------
    folders:
        All peers', or the one that holds them. None of them may be running.
    json:
        Print one JSON object on stdout.
    """
    need_libraries("federation", *NETWORK)
    from ..deploy.peers.running import check

    peers = check(_peers(folders))
    same = all(peer.kept == peer.replayed for peer in peers)
    if json:
        events = sum(peer.events for peer in peers)
        emit_json({"same": same, "events": events, "peers": [peer._asdict() for peer in peers]})
        return 0 if same else 1
    rows = []
    for peer in peers:
        verdict = "same" if peer.kept == peer.replayed else "DIFFERENT"
        # The first digits of the digests are enough for the eye.
        rows.append([peer.number, peer.events, peer.kept[:16], peer.replayed[:16], verdict])
    table(["peer", "events", "its state", "replayed", "verdict"], rows)
    return 0 if same else 1


@app.command
def backup(folder: Path, /, *, out: Path) -> None:
    """On a node or a peer: copy its store, whole, while it runs. To restore: stop it, remove
    store.sqlite*, put it back as store.sqlite.

    Parameters
    ----------
    folder:
        The node's folder.
    out:
        A new file, which holds the users' rows and vectors: keep it as you keep those.
    """
    need_libraries("federation", *NETWORK)
    from ..deploy.node.node_store import STORE, NodeStore

    with closing(NodeStore(folder / STORE)) as store:
        store.copy(out)
    say(f"{folder / STORE} copied to {out}")
