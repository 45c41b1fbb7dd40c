"""What a run leaves on disk: written whole or not at all, and believed only if every byte is what
was written.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from entrenous.core.contract.protocols import model_sha256
from entrenous.core.errors import EntrenousError, EntrenousWarning, InputError
from entrenous.runs import store

ARRAYS = {
    "server.q": np.arange(35, dtype=np.float32).reshape(5, 7),
    "devices.p": np.full((3, 2), 0.1, np.float32),
    "ledger": np.array([1, 2, 3], np.int64),
    "key": np.array(7, np.uint64),
    "empty": np.zeros((0, 4), np.float64),
}
MANIFEST = {
    "run": "a",
    "status": "running",
    "algorithm": "fpl",
    "data": "d",
    "protocol": "loo-99",
    "seed": 0,
}
RESULT = {
    "status": "finished",
    "metrics": {},
    "model_sha256": "",
    "rounds": 1,
    "bytes": {},
    "seconds": {},
}


def same(left: dict[str, np.ndarray], right: dict[str, np.ndarray]) -> bool:
    return left.keys() == right.keys() and model_sha256(left) == model_sha256(right)


def finished(root: Path, name: str, **more: Any) -> Path:
    """A run that only has a manifest."""
    store.write_manifest(root / name, {**MANIFEST, **RESULT, "run": name, **more})
    return root / name


# ---- the identity of a model ---------------------------------------------------------------------


def test_a_model_is_identified_by_names_types_shapes_and_bytes_and_by_nothing_else() -> None:
    q = ARRAYS["server.q"]
    sha = model_sha256({"q": q, "b": q[:, 0]})
    assert sha == model_sha256({"b": np.ascontiguousarray(q[:, 0]), "q": np.asfortranarray(q)})
    others = [
        {"q": q},
        {"q": q, "c": q[:, 0]},
        {"q": q.reshape(7, 5), "b": q[:, 0]},
        {"q": q.view(np.int32), "b": q[:, 0]},
    ]
    changed = q.copy()
    changed[4, 6] = np.nextafter(changed[4, 6], np.float32(0))
    assert len({sha, *map(model_sha256, [*others, {"q": changed, "b": q[:, 0]}])}) == 6


# ---- writing -------------------------------------------------------------------------------------


def test_a_file_is_written_whole_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    store.write_atomically(path, b"one")
    store.write_atomically(path, b"two")
    assert path.read_bytes() == b"two"
    assert os.listdir(path.parent) == ["file"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "file"
    store.write_atomically(path, b"old")

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="No space left"):
        store.write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_process_killed_while_it_writes_leaves_the_old_file(tmp_path: Path, step: str) -> None:
    path = tmp_path / "manifest.json"
    store.write_atomically(path, b"old")
    code = f"""
import os, signal, sys
from pathlib import Path
from entrenous.runs import store
os.{step} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
store.write_atomically(Path(sys.argv[1]), b"new")
"""
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == -9
    assert path.read_bytes() == b"old"
    assert len(list(tmp_path.glob(".manifest.json.*.tmp"))) == 1
    store.clean(tmp_path)
    assert os.listdir(tmp_path) == ["manifest.json"]


def test_the_content_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    for step in ("fsync", "replace"):
        real = getattr(os, step)
        monkeypatch.setattr(
            os, step, lambda *a, step=step, real=real: (calls.append(step), real(*a))[1]
        )
    store.write_atomically(tmp_path / "file", b"x")
    assert calls == [
        "fsync",
        "replace",
        "fsync",
    ]  # the file, its name, the folder that holds the name


def test_a_new_folder_never_takes_the_place_of_another(tmp_path: Path) -> None:
    assert [store.new_folder(tmp_path / "runs", "a").name for _ in range(3)] == ["a", "a-2", "a-3"]


# ---- arrays --------------------------------------------------------------------------------------


def test_arrays_come_back_bit_for_bit_with_what_was_said_about_them(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    store.write_arrays(path, ARRAYS, phase="fold0-final", trace='[{"round": 1}]')
    arrays, about = store.read_arrays(path)
    assert about == {"phase": "fold0-final", "trace": '[{"round": 1}]'}
    assert same(arrays, ARRAYS)
    assert all(
        arrays[name].dtype == ARRAYS[name].dtype and arrays[name].shape == ARRAYS[name].shape
        for name in ARRAYS
    )


def test_any_flipped_byte_is_noticed_or_changes_nothing(tmp_path: Path) -> None:
    path, rng = tmp_path / "checkpoint.safetensors", np.random.default_rng(0)
    store.write_arrays(path, ARRAYS, phase="fold0-final", round="10")
    whole, noticed = path.read_bytes(), 0
    header = 8 + int.from_bytes(whole[:8], "little")
    places = [*rng.integers(0, header, 120), *rng.integers(header, len(whole), 80)]
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= int(rng.integers(1, 256))
        path.write_bytes(bytes(damaged))
        try:
            arrays, about = store.read_arrays(path)
        except EntrenousError as damage:
            noticed += 1
            assert str(path) in str(damage) and "\n" not in str(damage)
        else:  # a space of the header became another, say
            assert same(arrays, ARRAYS) and about == {"phase": "fold0-final", "round": "10"}
            assert place < header
    assert noticed >= 195


def test_a_truncated_file_is_damage_wherever_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    store.write_arrays(path, ARRAYS)
    whole = path.read_bytes()
    for length in [0, 1, 7, 8, 9, *range(20, len(whole), 37), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(EntrenousError, match=r"checkpoint\.safetensors: .*damaged"):
            store.read_arrays(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(EntrenousError, match="damaged"):
        store.read_arrays(path)


def test_arrays_that_somebody_else_wrote_are_refused(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"q": np.ones(3)}, tmp_path / "theirs.safetensors")
    with pytest.raises(EntrenousError, match="does not match its sha256"):
        store.read_arrays(tmp_path / "theirs.safetensors")


def test_a_pickle_is_never_opened(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    for name in ("model.safetensors", "manifest.json", "trace.jsonl"):
        (tmp_path / name).write_bytes(f"cos\nsystem\n(S'touch {canary}'\ntR.".encode())
    with pytest.raises(EntrenousError):
        store.read_arrays(tmp_path / "model.safetensors")
    with pytest.raises(EntrenousError):
        store.read_manifest(tmp_path)
    assert not canary.exists()


# ---- checkpoints ---------------------------------------------------------------------------------


def test_the_two_newest_checkpoints_of_each_phase_are_kept(tmp_path: Path) -> None:
    for phase, rounds in (
        ("fold0-select", [50, 100, 150]),
        ("fold0-final", [9, 10, 11, 100]),
        ("fold10-final", [7]),
    ):
        for number in rounds:
            store.write_checkpoint(tmp_path, phase, number, {"n": np.array([number])})
    names = sorted(path.name.removesuffix(".safetensors") for path in tmp_path.iterdir())
    assert names == [
        "checkpoint-fold0-final-000000011",
        "checkpoint-fold0-final-000000100",
        "checkpoint-fold0-select-000000100",
        "checkpoint-fold0-select-000000150",
        "checkpoint-fold10-final-000000007",
    ]
    found = [
        store.newest_checkpoint(tmp_path, phase)
        for phase in ("fold0-select", "fold0-final", "fold10-final", "fold1-final")
    ]
    assert [one and (one.round, int(one.arrays["n"][0])) for one in found] == [
        (150, 150),
        (100, 100),
        (7, 7),
        None,
    ]
    assert store.has_checkpoint(tmp_path)
    store.clean(tmp_path)
    assert not store.has_checkpoint(tmp_path) and not list(tmp_path.iterdir())


def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(tmp_path: Path) -> None:
    for number in (5, 10):
        store.write_checkpoint(tmp_path, "fold0-final", number, ARRAYS)
    newest, older = (
        tmp_path / f"checkpoint-fold0-final-{number:09d}.safetensors" for number in (10, 5)
    )
    newest.write_bytes(newest.read_bytes()[:-1])
    with pytest.warns(
        EntrenousWarning, match=r"final-000000010\.safetensors.*damaged; going on without it"
    ):
        found = store.newest_checkpoint(tmp_path, "fold0-final")
    assert found is not None and found.round == 5 and same(found.arrays, ARRAYS)
    older.write_bytes(b"")
    with pytest.warns(EntrenousWarning) as said:
        assert store.newest_checkpoint(tmp_path, "fold0-final") is None
    assert [
        f"{number:09d}" in str(one.message) for one, number in zip(said, (10, 5), strict=True)
    ] == [True, True]


def test_a_renamed_checkpoint_of_another_phase_is_not_used(tmp_path: Path) -> None:
    store.write_checkpoint(tmp_path, "fold0-select", 10, ARRAYS)
    (path,) = tmp_path.iterdir()
    path.rename(tmp_path / path.name.replace("select", "final"))
    assert store.newest_checkpoint(tmp_path, "fold0-final") is None


# ---- finding and reading runs --------------------------------------------------------------------


def test_a_run_is_found_by_name_by_path_and_as_the_latest_that_is_finished(tmp_path: Path) -> None:
    a, b = finished(tmp_path, "a"), finished(tmp_path, "b")
    finished(tmp_path, "c", status="running")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "manifest.json").write_text("{")
    for number, path in enumerate((b, a)):
        os.utime(path / "manifest.json", (number, number))
    assert store.find("b", tmp_path) == b
    assert store.find(str(b), Path("elsewhere")) == b
    assert store.find("latest", tmp_path) == a
    assert [path.name for path in store.folders(tmp_path)] == ["a", "b", "c", "d"]
    assert store.folders(tmp_path / "nowhere") == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "cannot be read"),
        ("[]", "format None; expected format"),
        ("{}", "format None; expected format"),
        (
            json.dumps({"format": 1, **MANIFEST}),
            f"format 1; expected format {store.FORMAT}; run it again",
        ),
        (json.dumps({"format": store.FORMAT}), "'run' is missing"),
        (
            json.dumps({"format": store.FORMAT, **MANIFEST, "refit": "no"}),
            "refit is 'no'; expected true, false or null",
        ),
        (
            json.dumps({"format": store.FORMAT, **MANIFEST, "status": "finished"}),
            "'metrics' is missing",
        ),
        ("\xff", "cannot be read"),
    ],
)
def test_a_manifest_of_another_format_or_with_gaps_is_refused_by_name(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "manifest.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(InputError, match=f"^{path}: {said}"):
        store.read_manifest(tmp_path)


def test_a_run_is_read_back_whole(tmp_path: Path) -> None:
    path = finished(tmp_path, "a", note="ä")
    trace = [{"phase": "fold0-final", "round": 1, "validation": {"hr@10": 0.25}}]
    store.write_trace(path, trace)
    store.write_arrays(
        path / "users.safetensors", {"user": np.array([3, 5]), "hr@10": np.array([0.0, 1.0])}
    )
    run = store.read("a", tmp_path)
    assert run.path == path and run.trace == trace
    assert run.manifest["note"] == "ä" and run.manifest["format"] == store.FORMAT
    assert run.users["user"].tolist() == [3, 5] and run.users["hr@10"].tolist() == [0, 1]


def test_a_damaged_trace_is_one_line_and_nothing_that_a_resume_needs(tmp_path: Path) -> None:
    path = finished(tmp_path, "a", status="running")
    (path / "trace.jsonl").write_text('{"round": 1}\n{"rou')
    with pytest.raises(
        InputError,
        match=r"trace\.jsonl: cannot be read \(.*\); expected one JSON object a line; delete it",
    ):
        store.read("a", tmp_path)
    assert store.unfinished("a", tmp_path).manifest["status"] == "running"
