"""`entrenous receipt`: lists the messages of one user's device, and what they give away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any

from entrenous.cli.console import emit_json, progress_bar, table, tell
from entrenous.cli.options import RUNS, Runs, takes
from entrenous.core.errors import InputError
from entrenous.runs.options import OpenOptions

COUNTS = ("rows", "positives", "numbers")  # of a round

LINES = 10  # of a table of rounds; more rounds are added up in groups


@takes(OpenOptions)
def receipt(
    subject: str = "latest",
    /,
    *,
    user: str | None = None,
    threads: int = 0,
    folder: Runs = RUNS,
    json: bool = False,
    **options: Any,
) -> None:
    """Show what the device of one user gave away in each round, and how much of the user's history
    attacks are expected to find out from that.

    A stored run is repeated for this, and takes as long again. Example: entrenous receipt latest
    --user 196

    Parameters
    ----------
    subject:
        The name or folder of a run, or the folder of a node or shop.
    user:
        The id of the user whose device is meant; of a node or shop the first, by default.
    threads:
        Number of threads that train devices, 0 = all cores.
    folder:
        The folder that holds the stored runs.
    json:
        Print one JSON object on stdout.
    """
    how = OpenOptions(**options)
    with progress_bar() as progress:
        # A node has counted its messages as they left; those of a run are counted by a repetition.
        place = Path(subject)
        if (place / "node.json").is_file() or any(place.glob("*/node.json")):
            from entrenous_network.operate.receipt import receipt_of_node
            from entrenous_network.operate.shop import device_of

            if how != OpenOptions():
                raise InputError(
                    subject,
                    "it is the folder of a node, which has its rows and its algorithm",
                    expected="--user alone",
                    fix="leave --data, --algorithm and --todays-code out",
                )
            slip: Mapping[str, Any] = receipt_of_node(device_of(place, user), user)
        elif user is None:
            raise InputError("--user", "is missing", expected="the id of a user of the run")
        else:
            from entrenous.runs import store

            from ..receipt import receipt_of_run

            slip = receipt_of_run(
                store.read(subject, folder, how.data),
                user,
                how=how,
                threads=threads,
                progress=progress,
            )
    if json:
        emit_json(slip)
    else:
        _show(slip)


def _show(slip: Mapping[str, Any]) -> None:
    """Prints a receipt as tables and sentences."""
    from entrenous.privacy.evidence import percent
    from entrenous.privacy.told import PARTS

    place = slip.get("run") or slip.get("node")
    tell(
        f"{slip['user']} in {place}: {slip['algorithm']}, profile {slip['profile']},"
        f" {slip['history']} items consumed\n"
    )
    if slip["rounds"]:
        _show_rounds(slip)
    for name, title in PARTS.items():
        tell(f"{title}:")
        for sentence in slip[name]:
            tell(f"- {sentence}")
    if slip["expected"]:
        headers = [
            "attack",
            "sees",
            "recall",
            "precision",
            "R-precision",
            "popularity alone",
            "verdict or interval",
            "measured at",
        ]
        rows = []
        for attack in slip["expected"]:
            # Audits end after some rounds; what later ones add is not measured.
            after = " (as after the last round measured)" if attack["beyond"] else ""
            names = ("recall", "precision", "r_precision", "popularity")
            figures = [percent(attack[name]) for name in names]
            settings = attack["otherwise"] or "the same settings"
            seen = attack["seen"] + after
            verdict = attack["verdict"] or attack["interval"]
            rows.append([attack["attack"], seen, *figures, verdict, settings])
        table(headers, rows, title="What attacks are expected to know from that")
        for source in sorted({attack["measured"] for attack in slip["expected"]}):
            tell(f"- measured on {source}; of this user more or less may be known")


def _show_rounds(slip: Mapping[str, Any]) -> None:
    """Prints the rows that left the device, by groups of rounds, and their sum."""
    lines = [*_grouped(slip["rounds"]), {**slip, "rounds": "all"}]
    rows = []
    for line in lines:
        counts = [line[name] for name in COUNTS]
        # Unknown is not zero: some messages are not made of rows.
        cells = ["not counted" if count is None else f"{count:,}" for count in counts]
        rows.append([line["rounds"], *cells])
    headers = ["rounds", "rows that left", "of items consumed", "numbers"]
    table(headers, rows, title="What left")


def _grouped(rounds: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns rounds as at most LINES lines, each a sum over rounds that follow one another."""
    from entrenous.privacy.told import sum_if_known

    size = ceil(len(rounds) / LINES)
    lines = []
    for low in range(0, len(rounds), size):
        part = rounds[low : low + size]
        # People count rounds from 1.
        first = part[0]["round"] + 1
        last = part[-1]["round"] + 1
        line: dict[str, Any] = {"rounds": str(first) if first == last else f"{first} to {last}"}
        for name in COUNTS:
            line[name] = sum_if_known([row[name] for row in part])
        lines.append(line)
    return lines
