"""`entrenous check`: what holds is said in words with exit code 0; a rule that is broken is one
line and exit code 1.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Command, write_shop
from paths import ROOT

from entrenous.core.contract.declared import declared
from entrenous.runs.conformance import CHECKED
from entrenous.systems.named import algorithms

SOUND = (ROOT / "docs" / "examples" / "my_algo.py").read_text(encoding="utf-8")
BROKEN = {
    "a random number outside keys": (
        "other = negatives(generator(fold_name(key, user)),",
        "other = negatives(generator(np.random.default_rng().integers(1 << 40)),",
        "MyAlgorithm: item: differs for the same key; expected randomness from the key alone",
    ),
    "a score of another type": (
        "    def score(self, download, devices, histories):\n",
        (
            "    def score(self, download, devices, histories):\n        return"
            " np.zeros((len(devices.p), len(download.q)))\n"
        ),
        "MyAlgorithm: score: float64 (30, 40); expected float32 (30, 40)",
    ),
    "a member that is missing": (
        "    def score(",
        "    def scores(",
        "MyAlgorithm: a federated algorithm without `score`",
    ),
    "an error of its own": (
        "p, ptr, item, row =",
        "1 / 0; p, ptr, item, row =",
        "ZeroDivisionError: division by zero",
    ),
}


@pytest.fixture
def command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Command:
    """In a folder that holds my_algo.py."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_algo.py").write_text(SOUND, encoding="utf-8")
    return Command(capsys)


def test_what_was_checked_is_said_in_words(command: Command) -> None:
    said = command("check", "./my_algo.py", "--set", "factors=3")
    assert (said.code, said.err) == (0, "") and said.out.startswith(
        "MyAlgorithm, federated, keeps to what it declares."
    )
    assert said.out.splitlines()[1:] == [f"- {rule}" for rule in CHECKED["federated"]]
    found = command("check", "my_algo:MyAlgorithm", "--json").json
    assert found == {
        "algorithm": "MyAlgorithm",
        "passed": True,
        "kind": "federated",
        "checked": list(CHECKED["federated"]),
    }


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_one_line_and_exit_code_1(
    name: str, command: Command, tmp_path: Path
) -> None:
    old, new, says = BROKEN[name]
    assert old in SOUND
    (tmp_path / "my_algo.py").write_text(SOUND.replace(old, new, 1), encoding="utf-8")
    said = command("check", "./my_algo.py")
    assert (said.code, said.out) == (1, "") and said.err.count("\n") == 1
    assert said.err.startswith("error: ") and says in said.err
    if "ZeroDivision" in says:
        line = (tmp_path / "my_algo.py").read_text().partition("1 / 0")[0].count("\n") + 1
        assert said.err == f"error: {tmp_path / 'my_algo.py'}:{line}: {says}\n"


def test_in_a_run_too_an_error_of_ones_own_code_names_its_line(
    command: Command, tmp_path: Path
) -> None:
    old, new, says = BROKEN["an error of its own"]
    (tmp_path / "my_algo.py").write_text(SOUND.replace(old, new, 1), encoding="utf-8")
    write_shop(tmp_path / "shop.csv")
    said = command("run", "./my_algo.py", "--data", "shop.csv", "--protocol", "loo-20").error
    assert (
        said.startswith(f"{tmp_path / 'my_algo.py'}:")
        and says in said
        and said.endswith("; ENTRENOUS_DEBUG=1 shows how it came to that")
    )


def test_what_cannot_be_checked_is_bad_input(command: Command) -> None:
    assert "there is no 'Other' in it" in command("check", "./my_algo.py:Other").error
    assert "did you mean 'fcf'?" in command("check", "fcff").error
    assert "--set factors: got '0'" in command("check", "./my_algo.py", "--set", "factors=0").error
    assert "cannot be read" in command("check", "./none.py").error


@pytest.mark.parametrize("name", ["fbalf", "fedavg-prme-g", "pepper-gmf", "popular", "cali3f-gmf"])
def test_every_kind_of_algorithm_is_checked_by_name(name: str, command: Command) -> None:
    found = command("check", name, "--json").json
    assert found["passed"] and found["checked"] == list(
        CHECKED[declared(algorithms()[name]()).kind]
    )
