"""`entrenous runs` and `report`: what has been stored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..core.errors import InputError
from .console import emit_json, say, table
from .options import RUNS, Runs


def runs(*, folder: Runs = RUNS, json: bool = False) -> None:
    """List the stored runs.

    Parameters
    ----------
    folder:
        The folder that holds the stored runs.
    json:
        Print one JSON object on stdout.
    """
    from ..runs import store

    manifests = list(_readable(folder))
    if json:
        emit_json({"runs": manifests})
        return
    if not manifests:
        say(f"no runs under {folder}; make one with: entrenous run pfpl+")
        return
    names = ("hr@10", "ndcg@10")
    rows = [
        [m["run"], m["status"], m["algorithm"], m["data"], store.protocol_of(m), m["seed"], *(_metric(m, name) for name in names)]
        for m in manifests
    ]
    table(["run", "status", "algorithm", "data", "protocol", "seed", *names], rows)


def _readable(root: Path) -> Iterator[dict[str, Any]]:
    """The manifests under `root`; says which cannot be read."""
    from ..runs import store

    for folder in store.folders(root):
        try:
            yield store.read_manifest(folder)
        except InputError as damage:
            say(f"left out: {damage}")


def _metric(manifest: dict[str, Any], name: str) -> Any:
    return manifest.get("metrics", {}).get(name, "")


def report(*names: str, out: Path | None = None, user: str | None = None, folder: Runs = RUNS) -> None:
    """Write a self-contained HTML report of one run, or of several side by side.

    Parameters
    ----------
    names:
        Names or folders of runs; default: the newest run.
    out:
        The file to write; default: report.html in the first run's folder.
    user:
        Also show what this user is recommended by the first run.
    folder:
        The folder that holds the stored runs.
    """
    from ..report.html import write_report
    from ..runs import store
    from ..runs.reopen import recommended

    stored = [store.read(name, folder) for name in names or ("latest",)]
    items = recommended(stored[0], user) if user is not None else None
    print(write_report(stored, out or stored[0].path / "report.html", recommendations=items, user=user))
