"""`entrenous attack`, as a user types it."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Command, write_shop
from entrenous_audit.peers import PEERS
from entrenous_audit.robustness import poisons

SMALL = ["--protocol", "loo-20", "--rounds", "3", "--set", "factors=4", "--target", "i7"]


def test_an_attack_is_a_table_or_one_json_object(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command, path = Command(capsys), write_shop(tmp_path / "shop.csv")
    found = command("attack", "pfpl+", "--data", path, *SMALL, "--defence", "satcap", "--json").json
    assert found["rows"][0].keys() >= {"hr@10", "hr@10_attacked", "er@10", "er@10_before"}
    assert found["attack"] == "boost" and found["honest"] == 40 and found["colluders"] == 4
    # The table breaks lines where a long path of the file has it do so.
    said = command("attack", "pfpl+", "--data", path, *SMALL, "--defence", "satcap").out
    shown = " ".join(said.split())
    assert "4 colluders among 40 honest users" in shown and "i7" in shown and "secure sums" in shown


def test_help_lists_attacks_and_defences_from_the_code(capsys: pytest.CaptureFixture[str]) -> None:
    said = " ".join(Command(capsys)("attack", "--help").out.replace("│", " ").split())
    assert all(name in said for name in [*poisons(), *PEERS, "satcap", "distrust"])


def test_bad_input_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What else is refused, tests of `attack` in Python list."""
    path = write_shop(tmp_path / "shop.csv")
    command = Command(capsys)
    assert "--share: got 0.0" in command("attack", "pfpl+", "--data", path, "--share", "0").error
    assert "secret" in command("attack", "pfpl+", "--data", path, "--set", "secret=1").error
