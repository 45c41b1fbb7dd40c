"""The model of the secure sum, checked by spin in every order and under every choice of the server;
and each attack that it finds when one check of the parties is left out."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

MODEL = Path(__file__).parent / "secure_sum.pml"
LINES = 150
TOOLS = ("spin", "gcc")

pytestmark = pytest.mark.skipif(
    any(shutil.which(tool) is None for tool in TOOLS),
    reason="needs spin and gcc: apt-get install spin gcc",
)


def errors(folder: Path, *defines: str) -> tuple[int, str]:
    """Checks the model with some definitions. Returns how many errors there are, and what spin
    says.
    """
    source = shutil.copy(MODEL, folder / MODEL.name)
    said = ""
    for command in (
        ["spin", "-a", *defines, source],
        ["gcc", "-O1", "-DSAFETY", "-w", "-o", "pan", "pan.c"],
        ["./pan", "-m200000"],
    ):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        said = done.stdout
    found = re.search(r"errors: (\d+)", said)
    assert found, said
    assert "max search depth too small" not in said, "not all of it was searched"
    return int(found[1]), said


def test_it_is_short_enough_to_be_read() -> None:
    assert len(MODEL.read_text(encoding="utf-8").splitlines()) <= LINES


@pytest.mark.parametrize("parties", [3, 4, 5])
def test_no_choice_of_the_server_breaks_the_sum(parties: int, tmp_path: Path) -> None:
    number, said = errors(tmp_path, f"-DN={parties}")
    assert number == 0, said


@pytest.mark.slow
@pytest.mark.parametrize(("parties", "colluders"), [(6, 1), (7, 1), (7, 2), (8, 2)])
def test_no_choice_of_the_server_breaks_a_larger_sum(
    parties: int, colluders: int, tmp_path: Path
) -> None:
    number, said = errors(tmp_path, f"-DN={parties}", f"-DC={colluders}")
    assert number == 0, said


@pytest.mark.parametrize(
    ("left_out", "broken"),
    [
        ("-DCLAIM", "trained"),
        ("-DNO_ROSTER", "trained"),
        ("-DTWICE", "seeds"),
        ("-DQ=3", "seeds"),  # floor(1.1 n / 2) + 1 for five parties: what stood here before
    ],
)
def test_each_check_that_is_left_out_lets_an_attack_in(
    left_out: str, broken: str, tmp_path: Path
) -> None:
    number, said = errors(tmp_path, left_out)
    assert number == 1
    assert re.search(rf"assertion violated.*{broken}", said), said
