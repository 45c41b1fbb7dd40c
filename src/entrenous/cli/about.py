"""`entrenous algorithms` lists the algorithms; `entrenous explain` shows what leaves a device under
one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.printed import summary_of
from .console import emit_json, table, tell

NETWORK = "network"  # a name that `explain` knows in addition to the algorithms


def algorithms(*, json: bool = False) -> None:
    """List the algorithms, each with a summary and its kind: central, federated (with a server) or
    gossip (without one).

    Parameters
    ----------
    json:
        Print one JSON object on stdout.
    """
    from ..api.catalogue import algorithms as known_algorithms
    from ..api.catalogue import as_typed
    from ..core.registry.neighbours import absent

    rows = [entry._asdict() for entry in known_algorithms()]
    if json:
        emit_json({"algorithms": rows})
        return
    cells = []
    for row in rows:
        # Several names are one class with other settings: these tell them apart.
        preset = ", ".join(f"{name}={as_typed(value)}" for name, value in row["preset"].items())
        cells.append([row["name"], row["kind"], row["summary"], preset])
    table(["name", "kind", "what it is", "preset"], cells)
    for neighbour in absent([row["name"] for row in rows]):
        tell(f"not installed: {neighbour.offer}")
    tell("entrenous explain NAME shows its settings and what leaves the device")


def explain(algorithm: str, /, *, json: bool = False) -> None:
    """Explain an algorithm: what leaves a device, how often, and what it reveals; and the settings
    of the algorithm.

    Parameters
    ----------
    algorithm:
        A name of `entrenous algorithms`, or the place of your own class (./my_algo.py); or network,
        for the settings of --network. Names: {algorithms}.
    json:
        Print one JSON object on stdout.
    """
    if algorithm == NETWORK:
        _explain_network(json)
        return
    from ..api.catalogue import explained
    from ..core.registry.discover import is_place
    from ..privacy import told
    from ..runs.plan import in_words
    from ..systems.named import algorithms as known_algorithms
    from ..systems.unknown import unknown

    # `network` is among the names that an error suggests for a misspelt one.
    known = {**known_algorithms(), NETWORK: None}
    if not is_place(algorithm) and algorithm not in known:
        raise unknown(algorithm, known)
    about = explained(algorithm)
    if json:
        emit_json(about)
        return
    tell(f"{algorithm}: {about['summary']}\n")
    if about["leaves_the_device"]:
        rows = []
        for array in about["leaves_the_device"]:
            # A measured line follows the prose of the declaration.
            reveals = array["reveals"]
            if array["measured"]:
                reveals += f". Measured, {array['measured']}"
            rows.append([array["name"], array["shape"], array["when"], reveals])
        headers = ["array", "shape", "when", "what it reveals"]
        table(headers, rows, title="What leaves the device")
        _show_measured(algorithm, about["measured"])
        for profile, account in about["people"].items():
            tell(f"Under {profile}")
            for name, title in told.PARTS.items():
                tell(f"- {title}: {' '.join(account[name])}")  # type: ignore[literal-required]
            tell()
        if about["kind"] == "gossip":
            tell(
                "There is no server: other nodes receive it. `entrenous explain network` says what"
                " can be between them."
            )
        tell(f"{told.of_the_list(algorithm)} The device's own arrays stay on it.\n")
        _show_arrays("What the device receives", about["received"])
        _show_arrays("What it keeps to itself", about["kept"])
    else:
        # A central algorithm declares no messages: it has everything.
        tell(
            "Centralised: the server is given every user's whole history. Nothing is left on a"
            " device.\n"
        )
    _show_settings("--set", about["settings"])
    for users, tested in about["private_set"].items():
        if tested:
            tell(f"--profile private brings, for {users} users: {in_words(tested)}")


def _show_arrays(title: str, arrays: list[dict[str, str]]) -> None:
    # An empty table would look like an error.
    if arrays:
        table(["array", "shape"], [list(array.values()) for array in arrays], title=title)


def _show_measured(algorithm: str, lines: list[dict[str, str]]) -> None:
    """Prints the findings of audits from all arrays together, under each profile."""
    from ..privacy.protection import PRIVATE
    from ..privacy.told import HOLDS_AGAINST

    if not lines:
        tell(f"Not measured: `entrenous audit {algorithm}` shows what attacks make of it.")
        return
    # A sentence of `told.said` has the view before its first colon.
    rows = [[line["profile"], *line["said"].split(": ", 1)] for line in lines]
    headers = ["profile", "seen", "what the best attack finds out"]
    table(headers, rows, title="Measured on MovieLens-100K, by attacks of `entrenous audit`")
    if any(line["profile"] == PRIVATE for line in lines):
        tell(f"{HOLDS_AGAINST}\n")


def _explain_network(json: bool) -> None:
    """Prints the settings of a network in the form of an algorithm's."""
    from ..api.catalogue import settings_of
    from ..federation.network import FORMS, Network

    usual = Network().model_dump(mode="json")
    summary = summary_of(Network.__doc__)
    settings = settings_of(Network, usual)
    if json:
        emit_json({"name": NETWORK, "summary": summary, "spread": FORMS, "settings": settings})
        return
    tell(f"network: {summary}\n")
    _show_settings("--network", settings)
    tell(f"period, latency and bandwidth are numbers or spread: {FORMS}")


def _show_settings(option: str, settings: Sequence[Mapping[str, Any]]) -> None:
    rows = [[row["name"], row["default"], row["description"]] for row in settings]
    table([option, "default", "meaning"], rows, title="Settings")
