"""A run on disk, so that it can be resumed, recommended from, compared and reported.

    runs/<run>/manifest.json       what was run, on what, with which result (the JSON that `entrenous run --json` prints, and more)
               trace.jsonl         one line for each evaluated point of training
               users.safetensors   per-user metrics
               model.safetensors   the trained model
               checkpoint-<round>.safetensors   the two newest states of an unfinished run

Every file is written whole or not at all, and a checkpoint is verified when it is loaded. Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .core.errors import EntrenousError, InputError, did_you_mean
from .core.types import Array

FORMAT = 1  # of the files below; a run of another format is refused by number


class StoredRun(NamedTuple):
    """A run read back. users: {metric: float64 [m], "user": int64 [m]}."""

    path: Path
    manifest: dict[str, Any]
    trace: list[dict[str, Any]]
    users: dict[str, Array]


def model_sha256(arrays: Mapping[str, Array]) -> str:
    """The identity of a model: names, types, shapes and bytes of its arrays, in name order."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def write_atomically(path: Path, content: bytes) -> None:
    """`path` holds the whole `content` or what it held before: written beside, flushed to the disk, then renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(beside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def new_folder(root: Path, stem: str) -> Path:
    """A new folder `root/<stem>`, or `<stem>-2`, `-3`, ... when that is taken."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        for number in range(1, 100_000):
            path = root / (stem if number == 1 else f"{stem}-{number}")
            try:
                path.mkdir()
            except FileExistsError:
                continue
            return path
    except OSError as cause:
        raise InputError(
            str(root), f"cannot be written ({cause.strerror})", expected="a writable folder", fix="choose another with --out"
        ) from None
    raise InputError(str(root), "holds too many runs", fix="choose another folder with --out")


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """manifest.json, readable by people."""
    write_atomically(folder / "manifest.json", (json.dumps({"format": FORMAT, **manifest}, indent=2) + "\n").encode())


def write_trace(folder: Path, trace: list[dict[str, Any]]) -> None:
    """trace.jsonl."""
    write_atomically(folder / "trace.jsonl", "".join(json.dumps(line) + "\n" for line in trace).encode())


def write_arrays(path: Path, arrays: Mapping[str, Array], **about: str) -> None:
    """A safetensors file whose metadata carries `about` and the sha256 of the arrays."""
    from safetensors.numpy import save

    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    write_atomically(path, save(whole, metadata={"sha256": model_sha256(whole), **about}))


def read_arrays(path: Path) -> tuple[dict[str, Array], dict[str, str]]:
    """Arrays and metadata of `write_arrays`. Raises EntrenousError, naming the file, when a byte has changed."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
            about = dict(file.metadata() or {})
    except (SafetensorError, OSError, ValueError) as cause:
        raise EntrenousError(
            f"{path}: cannot be read ({cause}); expected a file written by entrenous; delete it to go on without it"
        ) from None
    if about.get("sha256") != model_sha256(arrays):
        raise EntrenousError(f"{path}: its content does not match its sha256; the file is damaged; delete it to go on without it")
    return arrays, about


# ---- checkpoints ----------------------------------------------------------------------------------------------------------------


def write_checkpoint(folder: Path, number: int, arrays: Mapping[str, Array], **about: str) -> None:
    """The state after round `number`; the two newest checkpoints are kept, in case the newest is damaged."""
    write_arrays(folder / f"checkpoint-{number:09d}.safetensors", arrays, round=str(number), **about)
    for old in sorted(folder.glob("checkpoint-*.safetensors"))[:-2]:
        old.unlink(missing_ok=True)


def newest_checkpoint(folder: Path) -> tuple[int, dict[str, Array], dict[str, str]] | None:
    """The newest checkpoint that verifies: round, arrays, metadata; None if there is none."""
    for path in sorted(folder.glob("checkpoint-*.safetensors"), reverse=True):
        try:
            arrays, about = read_arrays(path)
        except EntrenousError:
            continue
        return int(about["round"]), arrays, about
    return None


def drop_checkpoints(folder: Path) -> None:
    """A finished run needs none."""
    for path in folder.glob("checkpoint-*.safetensors"):
        path.unlink(missing_ok=True)


# ---- finding and reading runs ---------------------------------------------------------------------------------------------------


def find(run: str, root: Path) -> Path:
    """The folder of a run, by its path or by its name under `root`; `latest` is the newest finished run."""
    if run == "latest":
        runs = [path for path in folders(root) if read_manifest(path).get("status") == "finished"]
        if not runs:
            raise InputError("run", f"no finished run under {root}", fix="make one with `entrenous run`")
        return max(runs, key=lambda path: (path / "manifest.json").stat().st_mtime)
    for path in (Path(run), root / run):
        if (path / "manifest.json").is_file():
            return path
    raise InputError(
        "run",
        f"'{run}' is not a run",
        expected="a folder with a manifest.json",
        fix=did_you_mean(run, [path.name for path in folders(root)]),
    )


def folders(root: Path) -> list[Path]:
    """All runs under `root`, by name."""
    return sorted(path.parent for path in root.glob("*/manifest.json")) if root.is_dir() else []


def read_manifest(folder: Path) -> dict[str, Any]:
    """manifest.json, checked for its format."""
    path = folder / "manifest.json"
    try:
        manifest = json.loads(path.read_text())
    except (OSError, ValueError) as cause:
        raise InputError(str(path), f"cannot be read ({cause})", expected="a manifest written by entrenous") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        found = manifest.get("format") if isinstance(manifest, dict) else None
        raise InputError(
            str(path), f"format {found}", expected=f"format {FORMAT}", fix="run it again with this version of entrenous"
        )
    return manifest


def read(run: str, root: Path) -> StoredRun:
    """A run with its trace and per-user metrics."""
    path = find(run, root)
    trace, users = path / "trace.jsonl", path / "users.safetensors"
    lines = [json.loads(line) for line in trace.read_text().splitlines()] if trace.is_file() else []
    return StoredRun(path, read_manifest(path), lines, read_arrays(users)[0] if users.is_file() else {})
