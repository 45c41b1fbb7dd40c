"""Puts small faults into copies of the source, one at a time, and runs the tests that are to
notice: what `make mutants` does.

python tests/mutants/run.py [NAME ...] [--jobs 2] [--list]

The faults are in the TOML files beside this one. First the named tests must pass without any fault;
then each fault must make one fail. The checkout is never changed. Exit code 0: every fault was
noticed; 1: one survived, or its entry no longer fits the source or the tests.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from entrenous.core.registry.program import closure

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKAGE = "src/entrenous"
BESIDE = ("lab/", "packages/")
NEIGHBOURS = tuple(f"packages/{path.name}/src" for path in ROOT.glob("packages/*"))
# What a copy of the checkout has, and what of it is imported.
COPIED = ("src", "tests", "lab/src", "lab/tests", "packages", "conftest.py", "pyproject.toml")
IMPORTED = ("src", "lab/src", *NEIGHBOURS, ".")
COMPILED = (
    ".nbi",
    ".nbc",
)  # of numba, valid as long as no module that they were compiled from differs
LONGEST = 300  # seconds that the tests of one fault may take; who hangs is noticed
KILLED, SURVIVED, STALE = "killed", "SURVIVED", "STALE"


class Fault(NamedTuple):
    """One small fault."""

    name: str
    file: str
    """Below src/entrenous, or below the repository if it begins with `lab/` or `packages/`."""
    old: str
    """Code that occurs in the file once, however it is laid out."""
    new: str
    """The code that stands there instead."""
    tests: tuple[str, ...]
    """Ids of the tests that are to notice; one of them is enough."""
    why: str
    """What would go wrong unseen."""

    @property
    def path(self) -> str:
        """The file, below the repository."""
        return self.file if self.file.startswith(BESIDE) else f"{PACKAGE}/{self.file}"

    @property
    def module(self) -> str:
        """The name of the module that has the fault."""
        return module_of(self.path)

    def put_into(self, source: str) -> str:
        """The text of the file with the fault in it."""
        return self.place.sub(lambda _: self.new.strip(), source)

    @property
    def place(self) -> re.Pattern[str]:
        """Finds the old code. A formatter may have laid it out in other lines, with a comma at the
        end of a list.
        """
        tokens = re.findall(r"\w+|[^\w\s]", self.old)
        parts = [r",?\s*" + re.escape(one) if one in ")]}" else re.escape(one) for one in tokens]
        return re.compile(r"\s*".join(parts))


def module_of(path: str) -> str:
    """The name of the module in a file, which is given below the repository."""
    below = path.rpartition("src/")[2]
    return below.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


class Verdict(NamedTuple):
    """What became of a fault. said: the test that noticed, or what is wrong with the entry."""

    name: str
    word: str
    seconds: float
    said: str


def faults(folder: Path = HERE) -> list[Fault]:
    """The faults of all TOML files of a folder. Raises ValueError for a name that two have."""
    found: dict[str, Fault] = {}
    for path in sorted(folder.glob("*.toml")):
        for name, entry in tomllib.loads(path.read_text(encoding="utf-8")).items():
            if name in found:
                raise ValueError(f"{path.name}: '{name}' is there twice")
            tests = (entry["tests"],) if isinstance(entry["tests"], str) else tuple(entry["tests"])
            found[name] = Fault(
                name, entry["file"], entry["old"], entry["new"], tests, entry["why"]
            )
    return list(found.values())


def wrong_with(fault: Fault, root: Path = ROOT) -> str:
    """Why an entry no longer fits the source or the tests, "" if it does."""
    path = root / fault.path
    if not path.is_file():
        return f"{fault.file}: no such file"
    source = path.read_text(encoding="utf-8")
    times = len(fault.place.findall(source))
    if times != 1:
        return f"{fault.file}: the old text occurs {times} times"
    try:
        changed = ast.dump(ast.parse(fault.put_into(source))) != ast.dump(ast.parse(source))
    except SyntaxError as error:
        return f"{fault.file}: the new text is no Python: {error}"
    if not changed:
        return f"{fault.file}: the new text does the same"
    missing = [one for one in fault.tests if not is_test(one, root)]
    return f"no such test: {', '.join(missing)}" if missing or not fault.tests else ""


def is_test(number: str, root: Path = ROOT) -> bool:
    """Whether there is a test function of this id, whatever its parameters."""
    file, _, name = number.partition("::")
    path = root / file
    functions = ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if path.is_file() else ()
    return name.partition("[")[0] in {
        node.name for node in functions if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


# ---- copies of the checkout ----------------------------------------------------------------------


def linked(source: str, to: str) -> None:
    """A copy of a file with its time; what numba compiled, which is replaced and never written to,
    is the same file where it can be.
    """
    if source.endswith(COMPILED):
        with suppress(OSError):  # another disk
            os.link(source, to)
            return
    shutil.copy2(source, to)


def copy(root: Path, to: Path, without: Iterable[str] = ()) -> None:
    """Copies what the tests need, but for files that another process is just writing beside it
    (pairs.cpython-311.pyc.1399). without: modules whose compiled functions are left out."""
    stems = {f"{PACKAGE}/{'/'.join(name.split('.')[1:])}" for name in without}

    def left_out(folder: str, names: list[str]) -> list[str]:
        inside = Path(folder).relative_to(root)
        if inside.name != "__pycache__":
            return [name for name in names if name in {".hypothesis", ".pytest_cache"}]
        stale = {
            name
            for name in names
            if name.endswith(COMPILED) and f"{inside.parent}/{name.partition('.')[0]}" in stems
        }
        return [name for name in names if name in stale or not name.endswith((".pyc", *COMPILED))]

    for name in COPIED:
        source = root / name
        if source.is_dir():
            shutil.copytree(source, to / name, ignore=left_out, copy_function=linked)
        else:
            shutil.copy2(source, to / name)


def dependents(module: str, root: Path = ROOT) -> set[str]:
    """The modules of the package that import a module, directly or not, and itself: what numba may
    have compiled from it.
    """
    files = [path for folder in ("src", "lab/src") for path in (root / folder).rglob("*.py")]
    names = {module_of(path.relative_to(root).as_posix()) for path in files}
    return {name for name in names if name != "entrenous" and module in closure(name)} | {module}


def tested(root: Path, tests: Sequence[str], *more: str) -> tuple[int, str]:
    """Runs tests in a copy. Returns pytest's exit code, and what it printed; all that it began has
    ended.
    """
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(str(root / folder) for folder in IMPORTED),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    how = [
        "-p",
        "pytest_timeout",
        "--timeout",
        "120",
        "-p",
        "no:cacheprovider",
        "-m",
        "",
        "-q",
        "-rf",
    ]
    command = [sys.executable, "-m", "pytest", *how, *more, *tests]
    process = subprocess.Popen(
        command,
        cwd=root,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=LONGEST if "-x" in more else None)
        return process.returncode, said
    except subprocess.TimeoutExpired:
        return 1, f"FAILED after {LONGEST} s"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def tried(fault: Fault, base: Path, folder: Path) -> Verdict:
    """Puts a fault into a copy of `base`, made in `folder` and removed again, and runs its tests
    there.
    """
    began = time.monotonic()
    if wrong := wrong_with(fault, base):
        return Verdict(fault.name, STALE, 0.0, wrong)
    root = folder / fault.name
    try:
        copy(base, root, dependents(fault.module, base))
        path = root / fault.path
        path.write_text(fault.put_into(path.read_text(encoding="utf-8")), encoding="utf-8")
        code, said = tested(root, fault.tests, "-x")
    finally:
        shutil.rmtree(root, ignore_errors=True)
    seconds = time.monotonic() - began
    if code == 1:
        return Verdict(
            fault.name,
            KILLED,
            seconds,
            "".join(re.findall(r"^FAILED (?:\S*::)?(.*?)(?: - .*)?$", said, re.M)[:1]),
        )
    if code == 0:
        return Verdict(fault.name, SURVIVED, seconds, fault.why)
    return Verdict(
        fault.name, STALE, seconds, f"pytest ended with {code}: {said.strip().splitlines()[-1:]}"
    )


def main(arguments: Sequence[str] | None = None, known: Sequence[Fault] | None = None) -> int:
    """Tries the named faults, or all. Returns the exit code. known: instead of those of the TOML
    files.
    """
    asked = argparse.ArgumentParser(
        description="Put small faults into copies of the source: which tests notice?"
    )
    asked.add_argument(
        "names", nargs="*", metavar="NAME", help="faults to try; all if none is named"
    )
    asked.add_argument("--jobs", type=int, default=1, help="how many at once")
    asked.add_argument("--list", action="store_true", help="only print names, files and reasons")
    options = asked.parse_args(arguments)
    listed = list(faults() if known is None else known)
    if unknown := set(options.names) - {fault.name for fault in listed}:
        asked.error(f"unknown: {', '.join(sorted(unknown))}; --list has all")
    chosen = [fault for fault in listed if fault.name in options.names or not options.names]
    if options.list:
        for fault in chosen:
            print(f"{fault.name:45} {fault.file:35} {fault.why}")
        return 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        return _tried_all(chosen, Path(folder), options.jobs)


def _tried_all(chosen: Sequence[Fault], folder: Path, jobs: int) -> int:
    began, base = time.monotonic(), folder / "base"
    copy(ROOT, base)
    tests = sorted(
        {test for fault in chosen if not wrong_with(fault, base) for test in fault.tests}
    )
    code, said = (
        tested(base, tests) if tests else (0, "")
    )  # and what numba compiles here is there for all
    if code:
        print(f"{said}\nwithout any fault these tests do not pass: nothing was tried")
        return 1
    print(
        f"without any fault: {len(tests)} tests pass in {time.monotonic() - began:.0f} s",
        flush=True,
    )
    verdicts: list[Verdict] = []
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        for done in as_completed([pool.submit(tried, fault, base, folder) for fault in chosen]):
            verdicts.append(done.result())
            print("{1:8} {0:45} {2:5.1f} s  {3}".format(*verdicts[-1]), flush=True)
    counts = {word: sum(one.word == word for one in verdicts) for word in (KILLED, SURVIVED, STALE)}
    found = ", ".join(f"{n} {word}" for word, n in counts.items())
    print(f"{len(verdicts)} faults in {time.monotonic() - began:.0f} s: {found}")
    return exit_code(verdicts)


def exit_code(verdicts: Sequence[Verdict]) -> int:
    """0 if every fault was noticed, else 1."""
    return int(any(one.word != KILLED for one in verdicts))


if __name__ == "__main__":
    sys.exit(main())
