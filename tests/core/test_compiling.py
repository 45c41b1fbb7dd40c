"""The cache of compiled code, and places where there can be none."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from paths import SOURCE
from plain_python import printed

import entrenous
from entrenous.core import compiled_code, compiling, keys
from entrenous.core.errors import EntrenousWarning
from entrenous.kernels import fcf

OWN = """
from entrenous.core.compiling import njit
from entrenous.core.keys import fold

@njit(cache=True)
def twice(number):
    return 2 * number
"""
DONE = """
import entrenous.systems.fcf, entrenous.evaluation.rankings
from entrenous.core import keys, compiled_code
import numpy as np
import own_kernel
print(own_kernel.twice(21), keys.fold(np.uint64(3), 4), compiled_code.is_ready(own_kernel.twice))
"""


def module_at(path: Path) -> ModuleType:
    """The module of a file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def test_a_compiled_function_is_ready_once_it_has_run(tmp_path: Path) -> None:
    path = tmp_path / "own_kernel.py"
    path.write_text(OWN)
    module = module_at(path)
    # `fold` is of another module.
    (twice,) = compiled_code.compiled_functions(module)
    assert not compiled_code.is_ready(twice)
    assert twice(21) == 42 and compiled_code.is_ready(twice)
    (again,) = compiled_code.compiled_functions(module_at(path))
    assert compiled_code.is_ready(again)


GONE = """
from typing import NamedTuple
from entrenous.core.compiling import njit

class Before(NamedTuple):
    number: int

@njit(cache=True)
def doubled(pair):
    return 2 * pair.number
"""


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.parametrize("content", [b"", b"no pickle", b"\x80\x04\x95"])
def test_a_damaged_entry_is_compiled_anew(tmp_path: Path, suffix: str, content: bytes) -> None:
    path = tmp_path / "own_kernel.py"
    path.write_text(OWN)
    assert module_at(path).twice(21) == 42
    for entry in tmp_path.rglob(f"*.twice-*.{suffix}"):
        entry.write_bytes(content)
    again = module_at(path).twice
    assert again(21) == 42
    assert sum(again.stats.cache_misses.values()) == 1
    # What was compiled anew is read the next time.
    third = module_at(path).twice
    assert third(21) == 42 and sum(third.stats.cache_hits.values()) == 1


def test_an_entry_that_names_a_class_that_is_gone_is_compiled_anew(tmp_path: Path) -> None:
    path = tmp_path / "own_renamed.py"
    path.write_text(GONE)
    before = module_at(path)
    assert before.doubled(before.Before(4)) == 8
    path.write_text(GONE.replace("Before", "After"))
    after = module_at(path)
    assert after.doubled(after.After(5)) == 10
    assert module_at(path).doubled(sys.modules["own_renamed"].After(6)) == 12


def test_a_damaged_entry_that_cannot_be_replaced_is_compiled_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "own_kernel.py"
    path.write_text(OWN)
    assert module_at(path).twice(21) == 42
    (index,) = tmp_path.rglob("*.twice-*.nbi")
    index.write_bytes(b"no pickle")

    def refuse(self: object) -> None:
        raise PermissionError("a folder that can only be read")

    monkeypatch.setattr(compiled_code.KeptCode, "flush", refuse)
    assert module_at(path).twice(21) == 42
    assert index.read_bytes() == b"no pickle"


def test_other_errors_of_numba_are_not_taken_for_a_missing_cache(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(**options: object) -> None:
        raise RuntimeError("another cause")

    monkeypatch.setattr("numba.njit", refuse)
    with pytest.raises(RuntimeError, match="another cause"):
        compiling.njit(cache=True)(len)


def test_a_package_that_cannot_be_written_to_runs_and_says_once_that_nothing_is_kept(
    tmp_path: Path,
) -> None:
    """As in a container without a home, or on the nodes of a cluster."""
    shutil.copytree(SOURCE, tmp_path / "entrenous", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "own_kernel.py").write_text(OWN)
    for folder, _, _ in os.walk(tmp_path):
        os.chmod(folder, 0o555)
    try:
        done = subprocess.run(
            [*without_overriding(), sys.executable, "-W", "always", "-c", DONE],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path), "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=120,
        )
    finally:
        for folder, _, _ in os.walk(tmp_path):
            os.chmod(folder, 0o755)
    assert done.stdout == f"42 {keys.fold(np.uint64(3), 4)} False\n", done.stderr
    assert done.stderr.count("compiled code cannot be kept") == 1
    assert "NUMBA_CACHE_DIR" in done.stderr
    assert not list(tmp_path.rglob("*.nbi"))


def test_the_remedy_of_that_note_works(tmp_path: Path) -> None:
    """`NUMBA_CACHE_DIR` names a folder for the cache."""
    code = "from entrenous.kernels import fcf; from entrenous.core.compiled_code import *;"
    code += "print(compiled_functions(fcf)[0].stats.cache_path)"
    variables = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(str(tmp_path))
    assert not compiled_code.compiled_functions(fcf)[0].stats.cache_path.startswith(str(tmp_path))


def test_whoever_compiles_nothing_does_not_load_numba() -> None:
    code = "import sys, entrenous.systems.fcf; print('numba' in sys.modules)"
    assert [printed(code, compiled=way) for way in (True, False)] == ["True", "False"]


def test_a_run_without_numba_says_once_that_it_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "INSTALLED", False)
    compiling.warn_if_slow.cache_clear()
    data = entrenous.synthetic(users=8, items=30, interactions=60, seed=0)
    with pytest.warns(EntrenousWarning, match="pip install numba$") as said:
        entrenous.run("fpl", data, protocol="random-80-20", rounds=1)
        entrenous.run("fpl", data, protocol="random-80-20", rounds=1)
    assert len(said) == 1


def without_overriding() -> list[str]:
    """The command in front of another by which root is held to the rights of files, as anybody is."""
    if os.geteuid():
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("root without setpriv cannot be held to the rights of files")
    return [setpriv, "--bounding-set=-dac_override", "--inh-caps=-dac_override"]
