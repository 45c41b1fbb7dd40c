"""`entrenous federation`: a real federation tried on this machine, looked at, recommended from; founding.py and members.py add commands."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any, Literal

from cyclopts import App

from ..core.errors import EntrenousError, InputError, at_least
from .console import emit_json, goes_on, say, table
from .options import NETWORK, Load, Set, assignments, need_libraries

app = App(name="federation", help="A real federation: try one on this machine, found one, enrol nodes, see where it stands.")


@app.command(name="try")
def try_(
    folder: Path = Path("runs/federation"),
    /,
    *,
    data: str = "ml-100k",
    algorithm: str = "fpl",
    settings: Set = None,
    nodes: int = 4,
    rounds: int = 20,
    protocol: str | None = None,
    seed: int = 0,
    secure: Literal["none", "masks"] = "none",
    port: int = 0,
    load: Load = None,
    json: bool = False,
) -> None:
    """Start a federation on this machine: a server and nodes, each a process, with TLS and keys; and hold its model against a simulation's.

    Makes keys and certificates, gives each node the training rows of a part of the users, runs until all rounds are done, and shows that
    the model is, to the bit, that of `entrenous run` with the same seed. Interrupted, it goes on when it is started again.

    Parameters
    ----------
    folder:
        Where everything is kept: server/, nodes/, logs/.
    data:
        A data set, file or folder.
    algorithm:
        One with a server, of `entrenous algorithms`, or a class of one's own: ./my_algo.py.
    settings:
        A setting of the algorithm, name=value; may be repeated.
    nodes:
        How many, which share the users in order.
    rounds:
        After which training is over.
    protocol:
        How rows are held out, as in `entrenous run`; the nodes get what is left for training.
    seed:
        Names all randomness. Draws are public here, so that the simulation can repeat them; in earnest they are secret.
    secure:
        masks: the server learns the sum of the nodes of a round, and none of them.
    port:
        Of 127.0.0.1, where the server listens; 0 = a free one.
    json:
        Print one JSON object on stdout.
    """
    need_libraries("federation", *NETWORK)
    from ..core.own import is_place
    from ..deploy import trial

    if not (folder / "trial.json").exists():
        plan = trial.TrialPlan(algorithm, data, protocol, seed, rounds, assignments(settings), assignments(load, "--load"))
        made = trial.begin(folder, plan, nodes=nodes, secure=secure, port=port)
        say(f"{nodes} nodes and a server in {folder}, with keys and certificates; run {made.terms.run}")
        say_beside(made.terms, algorithm if is_place(algorithm) else "")
    else:
        say(f"going on with {folder}")
    with goes_on("start it again: it goes on from where it was"):
        found = trial.carry_out(folder, say)
    if json:
        emit_json(found)
        return
    table(["", "model_sha256"], [["network", found["network"]], ["simulation", found["simulation"]]])
    lost = f"{found['lost']} rounds were lost, for a secure sum that was interrupted is never tried again: the models differ"
    say(
        "the same model, bit for bit"
        if found["same"]
        else lost
        if found["lost"]
        else "the models differ: a bug, please report it"
    )
    names = [name for name in ("hr@10", "ndcg@10", "mae", "rmse") if name in found["metrics"]]
    say(_metrics(found, names))
    show_list(found["node"], found["user"], found["round"], found["items"])
    if not found["same"] and not found["lost"]:
        raise EntrenousError("network and simulation ended with different models")


def _metrics(found: dict[str, Any], names: list[str]) -> str:
    shown = ", ".join(f"{name} {found['metrics'][name]:.4f}" for name in names)
    return f"{shown} under {found['protocol']}; {found['rounds']} rounds, {found['seconds_a_round']:.2f} s each over the network"


def say_beside(terms: Any, place: str = "") -> None:
    """Print which arrays of the algorithm secure sums do not hide."""
    from ..core.own import short
    from ..deploy.secure import beside

    shown = beside(terms, place) if terms.secure == "masks" else ()
    if shown:
        own = short(terms.algorithm)
        say(f"note: secure sums do not hide what {own} shows of each user singly: {', '.join(shown)}; see entrenous explain")


@app.command
def status(folder: Path, /, *, json: bool = False) -> None:
    """Where a server stands, by its own word: rounds, nodes, bytes, and how often each answer was given.

    Parameters
    ----------
    folder:
        The server's folder.
    json:
        Print one JSON object on stdout.
    """
    need_libraries("federation", *NETWORK)
    from ..deploy.membership import certificate_ends
    from ..deploy.running import status as of

    found, ends = of(folder), certificate_ends(folder)
    if not found:
        raise InputError(
            str(folder), "nothing to tell yet", expected="a server that has done a round", fix="start it with `entrenous server`"
        )
    found |= {} if ends is None else {"certificate_ends": f"{ends:%Y-%m-%d}"}
    if json:
        emit_json(found)
    else:
        answers = ", ".join(f"{code} {count}" for code, count in found["answers"].items())
        table(
            ["", ""],
            [
                [name, value]
                for name, value in {**found, "waiting_for": ", ".join(found["waiting_for"]), "answers": answers}.items()
            ],
        )


@app.command
def recommend(folder: Path, /, *, user: str | None = None, n: int = 10, json: bool = False) -> None:
    """On a node: what it recommends to one of its users, by the newest model it has. Nobody is asked, and nobody told.

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
    from ..deploy.running import recommend as best

    at_least("--n", n, 1)
    who, number, items = best(folder, user, n)
    if json:
        emit_json({"user": who, "round": number, "items": items})
    else:
        show_list(str(folder), who, number, items)


def show_list(node: str, user: str, number: int, items: list[dict[str, Any]]) -> None:
    """Print a user's recommended items as a table, with the node and the round of the model. number: of the round."""
    rows = [[one["item"], one["title"], f"{one['score']:.3f}"] for one in items]
    table(["item", "title", "score"], rows, title=f"for user {user}, on {node}, by the model of round {number}")


@app.command
def backup(folder: Path, /, *, out: Path) -> None:
    """On a node: copy its store, whole, while it runs. To restore: stop the node, remove store.sqlite*, put it back as store.sqlite.

    Parameters
    ----------
    folder:
        The node's folder.
    out:
        A new file, which holds the users' rows and vectors: keep it as you keep those.
    """
    need_libraries("federation", *NETWORK)
    from ..deploy.node_store import NodeStore

    with closing(NodeStore(folder / "store.sqlite")) as store:
        store.copy(out)
    say(f"{folder / 'store.sqlite'} copied to {out}")
