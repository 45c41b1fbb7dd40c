"""`entrenous receipt`: lists the messages of one user's device, and what they give away."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from entrenous.cli.console import emit_json, progress_bar, tell
from entrenous.cli.options import RUNS, Runs, takes
from entrenous.core.errors import InputError
from entrenous.runs.options import OpenOptions

LEFT = "What left: rows of items {}, of items consumed {}, numbers {} (--json has each round)"


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
    """Show what the device of one user gave away, and how much of the user's history attacks find
    out from that.

    A stored run is repeated for this, and takes as long again; attacks then read the user's own
    messages. Of a node, the figures are those that were measured of others. Example: entrenous
    receipt latest --user 196

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
    """Prints a receipt as sentences."""
    from entrenous.privacy.told import PARTS

    place = slip.get("run") or slip.get("node")
    tell(
        f"{slip['user']} in {place}: {slip['algorithm']}, profile {slip['profile']},"
        f" {slip['history']} items consumed\n"
    )
    if slip["rounds"]:
        counts = [slip[name] for name in ("rows", "positives", "numbers")]
        # Unknown is not zero: some messages are not made of rows.
        told = ["not counted" if count is None else f"{count:,}" for count in counts]
        tell(LEFT.format(*told))
    for name, title in PARTS.items():
        tell(f"{title}:")
        for sentence in slip[name]:
            tell(f"- {sentence}")
    if slip["expected"]:
        tell(
            "What sums and models tell was measured of others (--json: on whom); yours may differ."
        )
