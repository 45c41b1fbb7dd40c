"""The tests of lab and packages run when what they test has changed, and not otherwise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import apart
from tests.apart import DISTRIBUTIONS, RECORD, Distribution, decided, identity

PROGRAM = "from entrenous_flower.greeter import Greeter\n"


@pytest.fixture
def flower(tmp_path: Path) -> Distribution:
    """A copy of what the adapter's identity is made of beside its source: a test that has a helper."""
    (flower,) = (each for each in DISTRIBUTIONS if each.package == "entrenous_flower")
    one = flower._replace(read=("page.md",))
    for name, text in {
        "packages/entrenous-flower/pyproject.toml": "",
        "packages/entrenous-flower/tests/test_it.py": f"import helping\n{PROGRAM}",
        "tests/helpers/helping.py": "X = 1\n",
        "conftest.py": "",
        "page.md": "words",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return one


@pytest.mark.beside
def test_they_run_until_they_have_passed_and_then_no_more(
    flower: Distribution, tmp_path: Path
) -> None:
    assert decided(flower, tmp_path) == (
        True,
        "packages/entrenous-flower/tests: run, since there is no"
        " packages/entrenous-flower/tested.sha256",
    )
    (tmp_path / flower.folder / RECORD).write_text(f"{identity(flower, tmp_path)}\n")
    needed, line = decided(flower, tmp_path)
    assert not needed and line.startswith("packages/entrenous-flower/tests: left out")


@pytest.mark.parametrize(
    "changed", ["packages/entrenous-flower/tests/test_it.py", "tests/helpers/helping.py", "page.md"]
)
@pytest.mark.beside
def test_they_run_when_a_test_a_helper_or_a_file_that_is_read_has_changed(
    flower: Distribution, tmp_path: Path, changed: str
) -> None:
    (tmp_path / flower.folder / RECORD).write_text(f"{identity(flower, tmp_path)}\n")
    with open(tmp_path / changed, "a") as file:
        file.write("# more\n")
    needed, line = decided(flower, tmp_path)
    assert needed and "has changed since they last passed" in line


@pytest.mark.beside
def test_the_source_that_counts_is_whole_packages(flower: Distribution) -> None:
    """An algorithm is found by its name, so no import tells that it is used."""
    assert {"entrenous.systems", "entrenous.systems.fpl"} <= set(apart.program_of(flower))
    assert "entrenous_flower.greeter" in apart.program_of(flower)
    assert not any(name.startswith("entrenous_audit") for name in apart.program_of(flower))


@pytest.mark.beside
def test_other_source_is_another_identity(
    flower: Distribution, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = identity(flower, tmp_path)
    assert identity(flower, tmp_path) == before
    monkeypatch.setattr(apart, "program_sha256", lambda *names: "another")
    assert identity(flower, tmp_path) != before


@pytest.mark.beside
def test_what_is_recorded_has_passed(
    flower: Distribution, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apart, "ROOT", tmp_path)
    monkeypatch.setattr(apart, "DISTRIBUTIONS", (flower,))
    monkeypatch.setattr(apart, "PYTEST", (sys.executable, "-c", "import sys; sys.exit(1)"))
    record = tmp_path / flower.folder / RECORD
    assert apart.main(["--record"]) == 1 and not record.exists()
    monkeypatch.setattr(apart, "PYTEST", (sys.executable, "-c", "pass"))
    assert apart.main(["--record"]) == 0
    assert record.read_text() == f"{identity(flower, tmp_path)}\n"


def test_the_folders_to_run_are_printed_alone(tmp_path: Path) -> None:
    """`make test` hands them on to pytest; the reasons go to stderr."""
    command = [sys.executable, str(apart.ROOT / "tests" / "apart.py")]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    folders = {one.tests.as_posix() for one in DISTRIBUTIONS}
    assert set(ended.stdout.split()) <= folders
    assert len(ended.stderr.splitlines()) == len(DISTRIBUTIONS)
