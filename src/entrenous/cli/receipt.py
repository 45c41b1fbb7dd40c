"""`entrenous receipt`: what the device of one user gave away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .console import emit_json, progress_bar, table, tell
from .options import RUNS, OwnPlace, Runs

LINES = 10  # of a table of rounds: more are added up


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
    """A receipt for people."""
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
        head = [
            "attack",
            "sees",
            "recall",
            "precision",
            "R-precision",
            "popularity alone",
            "verdict",
            "measured at",
        ]
        cells = [
            [
                one["attack"],
                one["seen"] + (" (as after the last round measured)" if one["beyond"] else ""),
                percent(one["recall"]),
                percent(one["precision"]),
                percent(one["r_precision"]),
                percent(one["popularity"]),
                one["verdict"],
                one["otherwise"] or "the same settings",
            ]
            for one in found["expected"]
        ]
        table(head, cells, title="What attacks are expected to know from that")
        for source in sorted({one["measured"] for one in found["expected"]}):
            tell(f"- measured on {source}; of this user more or less may be known")
    elif found["not_measured"]:
        tell(f"- {found['not_measured']}")


def _show_rounds(found: dict[str, Any]) -> None:
    """What left, round by round."""
    rows = [
        [one["rounds"], one["rows"], one["positives"], one["numbers"]]
        for one in _grouped(found["rounds"])
    ]
    total = ["all", found["rows"], found["positives"], found["numbers"]]
    table(
        ["rounds", "rows that left", "of items consumed", "numbers"],
        [*map(_counted, rows), _counted(total)],
        title="What left",
    )


def _grouped(rounds: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rounds as at most LINES lines, each a sum over some that follow one another."""
    if not rounds:
        return []
    size = -(-len(rounds) // LINES)
    parts = [rounds[low : low + size] for low in range(0, len(rounds), size)]
    return [
        {
            "rounds": (
                str(part[0]["round"] + 1)
                + (f" to {part[-1]['round'] + 1}" if len(part) > 1 else "")
            ),
            **{
                name: _sum([one[name] for one in part]) for name in ("rows", "positives", "numbers")
            },
        }
        for part in parts
    ]


def _sum(counts: list[int | None]) -> int | None:
    """A sum; None where one of them was not counted."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _counted(cells: list[Any]) -> list[Any]:
    return [cells[0], *("not counted" if one is None else f"{one:,}" for one in cells[1:])]
