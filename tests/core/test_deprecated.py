"""Names that go say so, on the command line too, and are gone when their version is reached."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from command_line import Command
from packaging.version import Version
from paths import SOURCE

import entrenous
from entrenous.core.deprecated import deprecated
from entrenous.core.errors import EntrenousDeprecation


def calls() -> list[tuple[str, str]]:
    """(place, version) of each use of the helper in the package."""
    found = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "deprecated":
                gone = {keyword.arg: keyword.value for keyword in node.keywords}["gone"]
                found.append((f"{path.name}:{node.lineno}", ast.literal_eval(gone)))
    return found


def test_what_goes_with_a_version_is_gone_in_it() -> None:
    assert calls()
    late = [place for place, gone in calls() if Version(gone) <= Version(entrenous.__version__)]
    assert late == []


def test_a_name_stays_for_two_minor_versions() -> None:
    """docs/install.md promises it of names that go from this version on."""
    now = Version(entrenous.__version__)
    assert all(Version(gone) >= Version(f"{now.major}.{now.minor + 1}") for _, gone in calls())


def test_a_warning_names_the_replacement_and_the_line_of_the_user() -> None:
    with pytest.warns(
        EntrenousDeprecation, match=r"^old=1 goes with version 9\.0; use new=1$"
    ) as told:
        deprecated("old=1", "new=1", gone="9.0", stacklevel=1)
    assert Path(told[0].filename) == Path(__file__)


@pytest.mark.filterwarnings("default::entrenous.core.errors.EntrenousWarning")
def test_the_command_line_tells_it_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        "user,item,value\n" + "".join(f"u{n % 4},i{n % 13},{n % 3}\n" for n in range(40))
    )
    said = Command(capsys)("data", "check", str(path), "--load", "min_value=2")
    assert said.code == 0
    assert "min_value=2 goes with version 0.4.0; use likes=at_least=2" in said.err
