"""Names to modules: what a module offers is read from its source, and is what it has once it is
imported.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from entrenous.core.registry.discover import modules, names_offered, offered
from entrenous.systems.named import PACKAGES


@pytest.mark.parametrize("package", PACKAGES)
def test_names_in_the_source_are_those_of_the_imported_module(package: str) -> None:
    found = 0
    for module in modules(package).values():
        names = names_offered(Path(str(module.__file__)), "ALGORITHMS")
        assert names == list(getattr(module, "ALGORITHMS", {})), module.__name__
        found += len(names)
    assert found > 5


def test_a_module_without_the_constant_and_one_with_something_else(tmp_path: Path) -> None:
    path = tmp_path / "odd.py"
    path.write_text("X = 1\n")
    assert names_offered(path, "ALGORITHMS") == []
    path.write_text('"""Typed."""\nALGORITHMS: dict[str, int] = {"a": int(x = 1)}\n')
    assert names_offered(path, "ALGORITHMS") == ["a"]
    path.write_text('"""Odd."""\nALGORITHMS = dict(a=1)\n')
    with pytest.raises(ValueError, match="no literal dictionary"):
        names_offered(path, "ALGORITHMS")


def test_a_name_imports_its_own_module_and_no_other() -> None:
    code = (
        "import sys; from entrenous.core.registry.discover import offered; "
        "print(offered('entrenous.systems', 'ALGORITHMS', 'fcf-newton').func.__name__, "
        "*(name for name in ('fcf', 'fpl', 'metamf') if f'entrenous.systems.{name}' in sys.modules))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert printed.stdout.split() == ["FCF", "fcf"]
    assert offered("entrenous.systems", "ALGORITHMS", "no-such-algorithm") is None
