"""`entrenous algorithms` and `entrenous explain`: what there is, and what leaves a device."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..core.discover import algorithms as known_algorithms
from ..core.discover import pick
from ..core.settings import Settings
from .console import emit_json, table


def algorithms(*, json: bool = False) -> None:
    """List the algorithms, with what each is and whether it is federated.

    Parameters
    ----------
    json:
        Print one JSON object on stdout.
    """
    rows = [_row(name, maker) for name, maker in known_algorithms().items()]
    if json:
        emit_json({"algorithms": rows})
        return
    cells = [
        [row["name"], row["kind"], row["summary"], ", ".join(f"{k}={_typed(v)}" for k, v in row["preset"].items())]
        for row in rows
    ]
    table(["name", "kind", "what it is", "preset"], cells)
    print("entrenous explain NAME shows its settings and what leaves the device")


def explain(algorithm: str, /, *, json: bool = False) -> None:
    """Say what leaves a device under an algorithm, how often, what it reveals, and which settings there are.

    Parameters
    ----------
    algorithm:
        A name of `entrenous algorithms`.
    json:
        Print one JSON object on stdout.
    """
    maker = pick("algorithm", algorithm, known_algorithms())
    kind, preset = _kind(maker)
    about = {**_row(algorithm, maker), "leaves_the_device": _disclosure(kind), "settings": _settings(kind, preset)}
    if json:
        emit_json(about)
        return
    print(f"{algorithm}: {about['summary']}\n")
    if about["leaves_the_device"]:
        table(
            ["array", "shape", "when", "what it reveals"],
            [list(row.values()) for row in about["leaves_the_device"]],
            title="What leaves the device",
        )
        print("Everything else stays: the history, and the arrays of the device's own state.\n")
    else:
        print("Centralised: the server is given every user's whole history. Nothing is left on a device.\n")
    rows = [[row["name"], row["default"], row["description"]] for row in about["settings"]]
    table(["--set", "default", "meaning"], rows, title="Settings")


def _kind(maker: Any) -> tuple[Any, dict[str, Any]]:
    return (maker.func, dict(maker.keywords)) if isinstance(maker, partial) else (maker, {})


def _row(name: str, maker: Any) -> dict[str, Any]:
    kind, preset = _kind(maker)
    summary = (kind.__doc__ or "").strip().splitlines()[0]
    return {"name": name, "kind": "federated" if hasattr(kind, "disclosure") else "central", "summary": summary, "preset": preset}


def _disclosure(kind: type[Settings]) -> list[dict[str, str]]:
    return [item._asdict() for item in getattr(kind, "disclosure", ())]


def _settings(kind: type[Settings], preset: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"name": name, "default": _typed(preset.get(name, field.default)), "description": field.description or ""}
        for name, field in kind.model_fields.items()
    ]


def _typed(value: Any) -> str:
    """A value as `--set` takes it."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
