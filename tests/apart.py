"""The distributions beside the package: `make test` runs their tests when something that they test
has changed since these tests last passed, `make test-all` always.

python tests/apart.py            prints the folders of tests that `make test` has to run
python tests/apart.py --record   runs the tests of every distribution, slow ones too, and records
                                 what has passed in its `tested.sha256`

What is recorded is an identity of the source, not a commit: a clone without history has it too.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from entrenous.core.registry.program import closure, is_first_party, path_of, program_sha256

ROOT = Path(__file__).resolve().parents[1]
HELPERS = Path("tests") / "helpers"
RECORD = "tested.sha256"
PYTEST = (sys.executable, "-m", "pytest", "-q", "-m", "", "--timeout", "1800", "-n", "auto")


class Distribution(NamedTuple):
    """A distribution of this repository that has tests of its own."""

    folder: Path
    """Below the root; it has `src`, `tests` and the record."""
    package: str
    read: tuple[str, ...] = ()
    """Patterns of other files, below the root, that its tests read."""

    @property
    def tests(self) -> Path:
        """The folder of its tests, below the root."""
        return self.folder / "tests"


DISTRIBUTIONS = (
    Distribution(Path("lab"), "entrenous_lab", ("README.md", "docs/**/*.md", "lab/results/*")),
    Distribution(Path("packages/entrenous-field"), "entrenous_field"),
    Distribution(Path("packages/entrenous-flower"), "entrenous_flower"),
    Distribution(Path("packages/entrenous-audit"), "entrenous_audit"),
    Distribution(Path("packages/entrenous-ray"), "entrenous_ray"),
    Distribution(
        Path("packages/entrenous-network"),
        "entrenous_network",
        ("docs/*.md", "SECURITY.md", "ops/*", "tests/js/*", "tests/vectors/*"),
    ),
)


def identity(one: Distribution, root: Path = ROOT) -> str:
    """The identity of what the tests of a distribution depend on, as far as this repository has it.

    The source of the distribution, and every package of Entrenous of which it or its tests import
    a module, count without comments, docstrings and layout. A package counts whole, since an
    algorithm or a metric may be found by name. The tests, the helpers that they import and the
    other files that they read count byte for byte.
    """
    read = [path for pattern in one.read for path in root.glob(pattern) if path.is_file()]
    files = {*_test_files(one, root), *read, root / one.folder / "pyproject.toml"}
    lines = [f"python {sys.version_info.major}.{sys.version_info.minor}"]
    lines.append(f"program {program_sha256(*program_of(one, root))}")
    for path in sorted(files):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        lines.append(f"{path.relative_to(root).as_posix()} {content}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def program_of(one: Distribution, root: Path = ROOT) -> list[str]:
    """The modules of the program that a distribution and its tests depend on."""
    own = _modules_below(path_of(one.package).parent, one.package)
    imported = {name for path in _test_files(one, root) for name in _imports(path)}
    ours = [name for name in imported if is_first_party(name) and path_of(name).is_file()]
    reached = closure(*own, *ours)
    packages = {_package_of(name) for name in reached}
    return sorted(reached.union(*(_modules_of(package) for package in packages)))


def _test_files(one: Distribution, root: Path) -> list[Path]:
    """The tests of a distribution, with the helpers that they import."""
    return _with_helpers(sorted((root / one.tests).glob("*.py")), root)


def _with_helpers(tests: Sequence[Path], root: Path) -> list[Path]:
    """Some tests, the test files and helpers that these import, and the conftest of all."""
    waiting = [*tests, root / "conftest.py"]
    files: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path not in files:
            files.add(path)
            for name in _imports(path):
                below = Path(*name.split(".")).with_suffix(".py")
                places = (root / below, root / HELPERS / below)
                waiting += [place for place in places if place.is_file()]
    return sorted(files)


def _imports(path: Path) -> Iterator[str]:
    """The names of modules that a file may import: `from a import b` may mean a or a.b."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _package_of(module: str) -> str:
    """The package that a module lies in; a package lies in itself."""
    return module if path_of(module).name == "__init__.py" else module.rpartition(".")[0]


def _modules_of(package: str) -> list[str]:
    """The modules directly in a package, and the package itself."""
    files = sorted(path_of(package).parent.glob("*.py"))
    return [package, *(f"{package}.{path.stem}" for path in files if path.stem != "__init__")]


def _modules_below(folder: Path, package: str) -> list[str]:
    """All modules of a package and of the packages in it."""
    files = sorted(folder.rglob("*.py"))
    names = [".".join((package, *path.relative_to(folder).with_suffix("").parts)) for path in files]
    return [name.removesuffix(".__init__") for name in names]


def decided(one: Distribution, root: Path = ROOT) -> tuple[bool, str]:
    """Whether the tests of a distribution have to run, and a line that says why."""
    record = root / one.folder / RECORD
    if not record.is_file():
        return True, f"{one.tests}: run, since there is no {one.folder / RECORD}"
    if record.read_text(encoding="utf-8").strip() != identity(one, root):
        return True, f"{one.tests}: run, since what they test has changed since they last passed"
    return False, f"{one.tests}: left out, since what they test is what they passed with"


def main(arguments: Sequence[str] | None = None) -> int:
    """Says what to run, or runs and records it. Returns the exit code."""
    parser = argparse.ArgumentParser(description="Which tests beside the package have to run?")
    parser.add_argument("--record", action="store_true", help="run them all and record it")
    if parser.parse_args(arguments).record:
        return max(_recorded(one) for one in DISTRIBUTIONS)
    for one in DISTRIBUTIONS:
        needed, line = decided(one)
        print(line, file=sys.stderr)
        if needed:
            print(one.tests)
    return 0


def _recorded(one: Distribution) -> int:
    """Runs the tests of a distribution, and records its identity if they pass."""
    before = identity(one, ROOT)
    code = subprocess.run([*PYTEST, str(one.tests)], cwd=ROOT, check=False).returncode
    if code == 0:
        (ROOT / one.folder / RECORD).write_text(f"{before}\n", encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main())
