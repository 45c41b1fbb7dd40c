"""`entrenous receipt`: the messages of one user's device, and what they give away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .console import emit_json, progress_bar, table, tell
from .options import RUNS, OwnPlace, Runs

COUNTS = ("rows", "positives", "numbers")  # of a round

LINES = 10  # of a table of rounds; more rounds are added up


def receipt(
    subject: str = "latest",
    /,
    *,
    user: str,
    algorithm: OwnPlace = None,
    threads: int = 0,
    folder: Runs = RUNS,
    json: bool = False,
) -> None:
    """Say what the device of one user gave away, by round, and how much of a history attacks are
    expected to know from that.

    A stored run is repeated for it, and takes as long again. Example: entrenous receipt latest
    --user 196

    Parameters
    ----------
    subject:
        The name or folder of a run, or the folder of a node.
    user:
        Whose device.
    threads:
        Threads over devices, 0 = all cores.
    folder:
        The folder that holds the stored runs.
    json:
        Print one JSON object on stdout.
    """
    with progress_bar() as progress:
        if (Path(subject) / "node.json").is_file():
            from ..deploy.operate.receipt import receipt_of_node

            found = receipt_of_node(Path(subject), user)
        else:
            from ..audit.receipt import receipt_of_run
            from ..runs import store

            found = receipt_of_run(
                store.read(subject, folder),
                user,
                algorithm=algorithm,
                threads=threads,
                progress=progress,
            )
    if json:
        emit_json(found)
    else:
        _show(found)


def _show(found: dict[str, Any]) -> None:
    """A receipt as a table and sentences."""
    from ..privacy.evidence import percent

    place = found.get("run") or found.get("node")
    tell(
        f"{found['user']} in {place}: {found['algorithm']}, profile {found['profile']},"
        f" {found['history']} items consumed\n"
    )
    if found["rounds"]:
        _show_rounds(found)
    for sentence in found["sentences"]:
        tell(f"- {sentence}")
    if found["expected"]:
        headers = [
            "attack",
            "sees",
            "recall",
            "precision",
            "R-precision",
            "popularity alone",
            "verdict",
            "measured at",
        ]
        rows = []
        for attack in found["expected"]:
            after = " (as after the last round measured)" if attack["beyond"] else ""
            names = ("recall", "precision", "r_precision", "popularity")
            figures = [percent(attack[name]) for name in names]
            settings = attack["otherwise"] or "the same settings"
            rows.append(
                [attack["attack"], attack["seen"] + after, *figures, attack["verdict"], settings]
            )
        table(headers, rows, title="What attacks are expected to know from that")
        for source in sorted({attack["measured"] for attack in found["expected"]}):
            tell(f"- measured on {source}; of this user more or less may be known")
    elif found["not_measured"]:
        tell(f"- {found['not_measured']}")


def _show_rounds(found: dict[str, Any]) -> None:
    """The rows that left the device, round by round."""
    lines = [*_grouped(found["rounds"]), {**found, "rounds": "all"}]
    rows = []
    for line in lines:
        counts = [line[name] for name in COUNTS]
        cells = ["not counted" if count is None else f"{count:,}" for count in counts]
        rows.append([line["rounds"], *cells])
    headers = ["rounds", "rows that left", "of items consumed", "numbers"]
    table(headers, rows, title="What left")


def _grouped(rounds: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rounds as at most LINES lines, each a sum over rounds that follow one another."""
    size = -(-len(rounds) // LINES)
    lines = []
    for low in range(0, len(rounds), size or 1):
        part = rounds[low : low + size]
        first, last = part[0]["round"] + 1, part[-1]["round"] + 1
        line = {"rounds": str(first) if first == last else f"{first} to {last}"}
        lines.append({**line, **{name: _sum([row[name] for row in part]) for name in COUNTS}})
    return lines


def _sum(counts: list[int | None]) -> int | None:
    """A sum; None where one of them was not counted."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
