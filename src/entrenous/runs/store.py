"""A run on disk, so that it can be resumed, recommended from, compared and reported.

A run is a folder `runs/<run>` with these files:

    manifest.json       options, data and results: the JSON that `entrenous run --json` prints, and
                        more
    trace.jsonl         a line for each look at validation
    users.safetensors   metrics of each user
    model.safetensors   the trained model
    split/              training and held-out rows, as `entrenous split` writes them, of a run
                        whose data was in memory alone
    checkpoint-<phase>-<round>.safetensors
                        the two newest states of each phase of an unfinished run
    lock                held by the process that trains an unfinished run
    <setting>.csv, network-<setting>.txt
                        the run's copies of the files that its settings name

Of single people are, by the entry `of_people` of the manifest: arrays of the model (`devices.`,
`nodes.`, and others with a row for each user; all of a centralised model), users.safetensors,
split/, and copies of files with a choice of each user. --forget-devices leaves out all but these
copies.

Every file is written whole or not at all, and arrays are verified when they are loaded. Nothing is
ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.contract.protocols import bytes_of, model_sha256
from ..core.errors import EntrenousError, EntrenousWarning, InputError, Interrupted, did_you_mean
from ..core.files import write_atomically
from ..core.lock import holding, is_held
from ..core.registry.discover import is_place, place_parts
from ..core.types import Array
from ..data.dataset import datasets, in_any_folder
from ..data.split.export import write as write_split
from ..data.split.types import Split

MODEL = "model.safetensors"
USERS = "users.safetensors"
SPLIT = "split"
# Arrays of a device, of a peer, and of a centralised model, which everybody's rows have made.
OF_PEOPLE = ("devices.", "nodes.", "model.")
LOCK = "lock"
USUAL_ROOT = Path("runs")
# The format of the files of a run; a run of another format is refused by number.
FORMAT = 3
# The letters of safetensors' types, by NumPy's kind of number.
LETTERS = {"f": "F", "i": "I", "u": "U"}
# Entries of every manifest, and of the manifest of a finished run.
ALWAYS = ("run", "status", "algorithm", "data", "protocol", "seed")
FINISHED = ("metrics", "model_sha256", "rounds", "bytes", "seconds")


class StoredRun(NamedTuple):
    """A run read back from its folder."""

    path: Path
    manifest: dict[str, Any]
    trace: list[dict[str, Any]]
    users: dict[str, Array]
    """{metric: float64 [m], "user": int64 [m]}."""


def protocol_of(manifest: Mapping[str, Any]) -> str:
    """The protocol of a run as tables show it: its name, and words about leaky negatives and about
    a `refit` that was asked for.
    """
    words = [manifest["protocol"]]
    if manifest.get("negatives") == "leaky":
        words.append("LEAKY")
    refit = manifest.get("refit")
    if refit is not None:
        words.append("refit" if refit else "no-refit")
    return " ".join(words)


def new_folder(root: Path, stem: str) -> Path:
    """Makes a new folder `root/<stem>`, or `<stem>-2`, `-3`, ... when that is taken."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        for number in range(1, 100_000):
            # Two runs that start at once get two folders: `mkdir` fails for the second.
            path = root / (stem if number == 1 else f"{stem}-{number}")
            try:
                path.mkdir()
            except FileExistsError:
                continue
            return path
    except OSError as cause:
        raise InputError(
            str(root),
            f"cannot be written ({cause.strerror})",
            expected="a writable folder",
            fix="choose another with --out",
        ) from None
    raise InputError(str(root), "holds too many runs", fix="choose another folder with --out")


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Writes manifest.json, readable by people. Paths of files near the run are written as they are
    found from its folder, so that the folders can be moved together.
    """
    moved = _with_paths(manifest, partial(_from_folder, folder.resolve()))
    text = json.dumps({"format": FORMAT, **moved}, indent=2) + "\n"
    write_atomically(folder / "manifest.json", text.encode())


# A file is near a run if it lies in the folder that holds the project of the run, or below: in one
# of the folders that are this many levels up at most.
NEAR = 3


def _with_paths(manifest: Mapping[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    """A manifest in which each entry that may be a path is changed: the data, the folder of a given
    split, the file of items, and the file of the user's own algorithm.
    """
    changed = dict(manifest)
    for name in ("data", "given"):
        if isinstance(changed.get(name), str):
            changed[name] = change(changed[name])
    load = changed.get("load")
    if isinstance(load, Mapping) and isinstance(load.get("items"), str):
        changed["load"] = {**load, "items": change(load["items"])}
    algorithm = changed.get("algorithm")
    if isinstance(algorithm, str):
        where, class_name = place_parts(algorithm)
        if where.endswith(".py"):
            changed["algorithm"] = ":".join(filter(None, (change(where), class_name)))
    return changed


def _from_folder(folder: Path, name: str) -> str:
    """The path of a file near a run as it is found from the run's folder, such as `../../my.csv`;
    any other name as it is.
    """
    if not os.path.isabs(name):
        return name
    relative = Path(os.path.relpath(name, folder)).as_posix()
    if relative.split("/").count("..") > NEAR:
        return name
    # A path inside the run must not look like the name of a data set.
    if relative.startswith(".."):
        return relative
    return f"./{relative}"


def _from_anywhere(folder: Path, name: str) -> str:
    """The absolute path of what `_from_folder` has written."""
    if not name.startswith(("./", "../")):
        return name
    return os.path.normpath(folder / name)


def write_run(
    folder: Path,
    manifest: Mapping[str, Any],
    arrays: Mapping[str, Array],
    users: Mapping[str, Array],
    trace: Sequence[Mapping[str, Any]],
    split: Split,
) -> dict[str, Any]:
    """Writes the files of a finished run, without what is of single people where its manifest says
    `forget_devices`. Returns the manifest, with what is `of_people` in the folder.

    arrays: of the model. users: the accuracy of each user. split: kept where its rows were in
    memory alone, and could not be loaded again.
    """
    number = manifest["catalogue"]["users"]
    own = [
        name
        for name, array in sorted(arrays.items())
        if name.startswith(OF_PEOPLE) or array.shape[:1] == (number,)
    ]
    files = {MODEL: arrays, USERS: users}
    of_people = []
    kept: dict[str, Any] = {}
    if manifest.get("forget_devices"):
        files = {MODEL: {name: array for name, array in arrays.items() if name not in own}}
    else:
        if own:
            of_people.append(f"{MODEL} ({', '.join(own)})")
        of_people.append(f"{USERS} (the accuracy of each)")
        if not manifest["data_by_name"]:
            write_split(split, folder / SPLIT)
            kept["split_sha256"] = sha256_of(split)
            of_people.append(f"{SPLIT}/ (training and held-out rows)")
    # Copies of files such as pi.csv have a choice of each user.
    of_people += sorted(path.name for path in folder.glob("*.csv"))
    for file, content in files.items():
        if content or file == MODEL:
            write_arrays(folder / file, content)
    write_trace(folder, trace)
    # The manifest says `finished`: it is written after everything else is there.
    whole = {**manifest, **kept, "of_people": of_people}
    write_manifest(folder, whole)
    return whole


def sha256_of(split: Split) -> str:
    """The identity of the rows that a final model trains on, of those that test it, and of the
    scale of ratings, by which predictions are clipped.
    """
    both = split.final_train.sha256() + split.test.rows.sha256()
    return hashlib.sha256(f"{both} {split.train.scale}".encode()).hexdigest()


def write_trace(folder: Path, trace: Sequence[Mapping[str, Any]]) -> None:
    """Writes trace.jsonl, one line for each evaluated point of training."""
    lines = "".join(json.dumps(line) + "\n" for line in trace)
    write_atomically(folder / "trace.jsonl", lines.encode())


def write_arrays(path: Path, arrays: Mapping[str, Array], **about: str) -> None:
    """Writes a safetensors file whose metadata has `about` and the sha256 of it and the arrays.

    Arrays are not copied: the models of a thousand peers are gigabytes.
    """
    contiguous = {name: np.asarray(array, order="C") for name, array in sorted(arrays.items())}
    seal = _seal(contiguous, about)
    header: dict[str, Any] = {"__metadata__": {**about, "sha256": seal}}
    # Wide types come first, so that every array begins where its type may.
    names = sorted(contiguous, key=lambda name: -contiguous[name].itemsize)
    end = 0
    for name in names:
        array = contiguous[name]
        begin = end
        end += array.nbytes
        header[name] = {
            "dtype": _kind(array),
            "shape": array.shape,
            "data_offsets": (begin, end),
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    # The header is filled up with blanks, so that the arrays begin at a multiple of 8 bytes.
    text += b" " * (-len(text) % 8)
    size = len(text).to_bytes(8, "little")
    content = [bytes_of(contiguous[name]) for name in names]
    write_atomically(path, [size, text, *content])


def _kind(array: Array) -> str:
    """The type of an array as safetensors calls it, such as F32, I64 or BOOL."""
    if array.dtype == bool:
        return "BOOL"
    bits = 8 * array.itemsize
    return f"{LETTERS[array.dtype.kind]}{bits}"


def _seal(arrays: Mapping[str, Array], about: Mapping[str, str]) -> str:
    """The SHA-256 of the arrays and the metadata of a file, since a wrong round number is as bad as
    a wrong model.
    """
    # Lengths make the text unambiguous, whatever the metadata says.
    metadata = "".join(f"{name} {len(text)} {text}\n" for name, text in sorted(about.items()))
    content = f"{model_sha256(arrays)}\n{metadata}"
    return hashlib.sha256(content.encode()).hexdigest()


def read_arrays(path: Path) -> tuple[dict[str, Array], dict[str, str]]:
    """Reads arrays and metadata that `write_arrays` wrote. Raises EntrenousError, naming the file,
    when a byte has changed.
    """
    from safetensors import SafetensorError, safe_open

    # The kind of error depends on which byte is damaged.
    damaged = (SafetensorError, OSError, ValueError, TypeError, AttributeError, KeyError)
    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
            about = dict(file.metadata() or {})
    except damaged as cause:
        raise EntrenousError(
            f"{path}: cannot be read ({cause}); expected a file written by entrenous; the file is"
            " damaged"
        ) from None
    if about.pop("sha256", None) != _seal(arrays, about):
        raise EntrenousError(f"{path}: its content does not match its sha256; the file is damaged")
    return arrays, about


# ---- checkpoints ---------------------------------------------------------------------------------


class Checkpoint(NamedTuple):
    """The state of one phase of a run after `round`."""

    round: int
    arrays: dict[str, Array]
    about: dict[str, str]
    """Texts that were stored with it, by name."""


def write_checkpoint(
    folder: Path, phase: str, number: int, arrays: Mapping[str, Array], **about: str
) -> None:
    """Writes the state of a phase after round `number`; the two newest of each phase are kept, in
    case the newest is damaged.
    """
    path = folder / f"checkpoint-{phase}-{number:09d}.safetensors"
    write_arrays(path, arrays, phase=phase, round=str(number), **about)
    # The newest may be damaged by what stopped the run; then the one before it serves.
    for old in _checkpoints(folder, phase)[:-2]:
        old.unlink(missing_ok=True)


def newest_checkpoint(folder: Path, phase: str) -> Checkpoint | None:
    """The newest checkpoint of a phase that verifies; None if there is none. Warns of each that is
    damaged.
    """
    for path in reversed(_checkpoints(folder, phase)):
        try:
            arrays, about = read_arrays(path)
        except EntrenousError as damage:
            warnings.warn(f"{damage}; going on without it", EntrenousWarning, stacklevel=2)
            continue
        # A file may have been renamed; its own metadata says what it is.
        if about["phase"] == phase:
            return Checkpoint(int(about["round"]), arrays, about)
    return None


def _checkpoints(folder: Path, phase: str = "*") -> list[Path]:
    """The files of checkpoints, the oldest first."""
    return sorted(folder.glob(f"checkpoint-{phase}-*.safetensors"))


def has_checkpoint(folder: Path) -> bool:
    """Returns True for an unfinished run with a checkpoint from which it can continue."""
    return bool(_checkpoints(folder))


def clean(folder: Path) -> None:
    """Removes the files that only an unfinished run needs: checkpoints, parts of interrupted writes
    and the lock.
    """
    for path in (*_checkpoints(folder), *folder.glob(".*.tmp"), folder / LOCK):
        path.unlink(missing_ok=True)


@contextmanager
def at_work(folder: Path, algorithm: str) -> Iterator[None]:
    """Holds the lock of an unfinished run inside `with`. Ctrl-C becomes Interrupted, which says how
    the run is continued.

    Raises InputError if another process is training it.
    """
    with holding(folder / LOCK):
        try:
            yield
        except KeyboardInterrupt:
            raise Interrupted(f"go on with: {resuming(folder, algorithm)}") from None


def resuming(folder: Path, algorithm: str) -> str:
    """The command that continues a run."""
    words = ["entrenous", "run"]
    # The place of a user's own algorithm is named again, since its code runs when it is loaded.
    if is_place(algorithm):
        words.append(algorithm)
    name = folder.name if folder.parent == USUAL_ROOT else str(folder)
    return shlex.join([*words, "--resume", name])


def standing(folder: Path, manifest: Mapping[str, Any]) -> str:
    """The state of a run: finished; running, in a process that is alive; or interrupted, and to be
    continued.
    """
    if manifest["status"] == "finished":
        return "finished"
    # The lock ends with its process, however that ended.
    if is_held(folder / LOCK):
        return "running"
    return "interrupted"


# ---- finding and reading runs --------------------------------------------------------------------


def find(run: str, root: Path) -> Path:
    """The folder of a run, by its path or by its name under `root`; `latest` is the newest finished
    run.
    """
    if run == "latest":
        runs = [path for path in folders(root) if _is_finished(path)]
        if not runs:
            raise InputError(
                "run", f"no finished run under {root}", fix="make one with `entrenous run`"
            )
        # The manifest of a finished run is the last file that was written.
        return max(runs, key=lambda path: (path / "manifest.json").stat().st_mtime)
    for path in (Path(run), root / run):
        if run and (path / "manifest.json").is_file():
            return path
    # A typing error gets the nearest name.
    known = [path.name for path in folders(root)]
    hint = f"there are no runs under {root}; give the folder of a run"
    if known:
        hint = did_you_mean(run, known)
    raise InputError(
        "run", f"'{run}' is not a run", expected="a folder with a manifest.json", fix=hint
    )


def _is_finished(folder: Path) -> bool:
    # A damaged manifest of another run is no reason not to find this one.
    try:
        return bool(read_manifest(folder)["status"] == "finished")
    except InputError:
        return False


def folders(root: Path) -> list[Path]:
    """Folders of all runs under `root`, by name."""
    if root.is_dir():
        return sorted(path.parent for path in root.glob("*/manifest.json"))
    return []


def read_manifest(folder: Path) -> dict[str, Any]:
    """Reads manifest.json. Raises InputError for another format and for a missing entry."""
    path = folder / "manifest.json"
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as cause:
        raise InputError(
            str(path), f"cannot be read ({cause})", expected="a manifest written by entrenous"
        ) from None
    again = "run it again with this version of entrenous"
    number = None
    if isinstance(manifest, dict):
        number = manifest.get("format")
    if number != FORMAT:
        raise InputError(str(path), f"format {number}", expected=f"format {FORMAT}", fix=again)
    needed = ALWAYS + FINISHED if manifest.get("status") == "finished" else ALWAYS
    missing = [name for name in needed if name not in manifest]
    if missing:
        raise InputError(
            str(path),
            f"'{missing[0]}' is missing",
            expected="a manifest written by entrenous",
            fix=again,
        )
    refit = manifest.get("refit")
    if refit is not None and not isinstance(refit, bool):
        raise InputError(
            str(path), f"refit is {refit!r}", expected="true, false or null", fix=again
        )
    return _with_paths(manifest, partial(_from_anywhere, folder.resolve()))


def read(run: str, root: Path, data: str | None = None) -> StoredRun:
    """Reads a run with its trace and per-user metrics.

    data: the file or folder that has the rows of the run today; None = where the run found them.
    Raises InputError for `data` where the run keeps its rows.
    """
    path = find(run, root)
    file = path / USERS
    users = {}
    if file.is_file():
        users = read_arrays(file)[0]
    return StoredRun(path, _with_data(read_manifest(path), data), _read_trace(path), users)


def unfinished(run: str, root: Path, data: str | None = None) -> StoredRun:
    """Reads a run that is to be continued: the manifest alone, since checkpoints have the rest.
    data: as of `read`.
    """
    path = find(run, root)
    return StoredRun(path, _with_data(read_manifest(path), data), [], {})


def _with_data(manifest: dict[str, Any], data: str | None) -> dict[str, Any]:
    if data is None:
        return manifest
    if not manifest.get("data_by_name", True):
        raise InputError(
            "--data", "the run keeps its training rows in its own folder", fix="leave it out"
        )
    # Another data set would be fetched only to be refused.
    if data in datasets() and data != manifest["data"]:
        raise InputError(
            "--data",
            f"the rows of the run are those of {manifest['data']}, not of the data set {data}",
            expected="the file or folder that has them today",
            fix="leave it out",
        )
    return {**manifest, "data": in_any_folder(data)}


def remove(folder: Path) -> None:
    """Deletes the folder of a run."""
    # An error is being reported already; another would hide it.
    shutil.rmtree(folder, ignore_errors=True)


def _read_trace(folder: Path) -> list[dict[str, Any]]:
    path = folder / "trace.jsonl"
    if not path.is_file():
        return []
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as cause:
        raise InputError(
            str(path),
            f"cannot be read ({cause})",
            expected="one JSON object a line",
            fix="delete it to go on without it",
        ) from None
