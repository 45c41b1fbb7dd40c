"""Audits in files: those of a run of the report are taken, anything else is refused in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from stored_runs import page, stored

from entrenous.core.errors import InputError
from entrenous.report.audits import read_audits
from entrenous.runs.store import StoredRun

ATTACK = {
    "name": "sign",
    "verdict": "EXPOSED",
    "precision": 1.0,
    "recall": 0.9,
    "r_precision": 0.95,
    "popularity_r_precision": 0.3,
    "low": 0.6,
    "high": 0.7,
    "worst": 1.0,
    "rounds_to_half": 2,
}

# A difference without the two figures that it is of.
HALF = {"people": 3, "guessable": None, "took_part": None, "because": 0.1}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> StoredRun:
    return stored(tmp_path_factory.mktemp("runs"), "fpl", protocol="loo-5")


def audit(of: StoredRun, **changes: Any) -> dict[str, Any]:
    whole = {"view": "individual", "rounds": 3, "cohort": 40, "attacks": [ATTACK]}
    return {"run": of.path.name, **whole, **changes}


def written(folder: Path, content: Any) -> Path:
    path = folder / "audit.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_an_audit_without_person_by_person_figures_makes_the_page(
    run: StoredRun, tmp_path: Path
) -> None:
    audits = read_audits([written(tmp_path, audit(run))], [run])
    found = page(tmp_path, run, audits=audits)
    assert found.wrong == [] and "a curious server, after 3 rounds, guesses 95 %" in found.text


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "is no JSON"),
        ("\x00\xff", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ("[]", "the whole: "),
        ("{}", "run: Field required"),
        ({"run": None}, "run: Input should be a valid string"),
        ({"attacks": [{**ATTACK, "r_precision": 1.5}]}, "attacks.0.r_precision: "),
        ({"attacks": [{**ATTACK, "r_precision": float("nan")}]}, "attacks.0.r_precision: "),
        ({"attacks": [{**ATTACK, "low": float("-inf")}]}, "attacks.0.low: "),
        ({"attacks": [{**ATTACK, "spread": ["<b>"]}]}, "attacks.0.spread.0: "),
        ({"attacks": [{**ATTACK, "spread": [0.5]}]}, "attacks.0.spread: "),
        ({"attacks": [{**ATTACK, "popularity_r_precision": None}]}, "attacks.0: "),
        ({"attacks": [{**ATTACK, "low": None}]}, "attacks.0: "),
        ({"attacks": [{**ATTACK, "participation": HALF}]}, "attacks.0.participation: "),
        (
            {"attacks": [{**ATTACK, "participation": {**HALF, "people": -1}}]},
            "attacks.0.participation.people: ",
        ),
        ({"view": "window"}, "view: "),
        ({"run": "another"}, "is an audit of the run 'another', and the report has no such run"),
    ],
)
def test_anything_else_is_refused(
    run: StoredRun, tmp_path: Path, content: Any, problem: str
) -> None:
    if isinstance(content, dict):
        content = audit(run, **content)
    path = written(tmp_path, content)
    with pytest.raises(InputError) as refused:
        read_audits([path], [run])
    assert str(refused.value).startswith(f"{path}: {problem}")


def test_two_audits_of_one_run_are_refused(run: StoredRun, tmp_path: Path) -> None:
    path = written(tmp_path, audit(run))
    with pytest.raises(InputError, match="twice"):
        read_audits([path, path], [run])


def test_a_missing_file_and_a_folder_are_refused(run: StoredRun, tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(InputError, match="cannot be read"):
            read_audits([path], [run])


def test_an_attack_of_another_name_is_escaped(run: StoredRun, tmp_path: Path) -> None:
    hostile = {**ATTACK, "name": "<script>alert(1)</script>", "verdict": "<b>"}
    audits = read_audits([written(tmp_path, audit(run, attacks=[hostile], view="sum"))], [run])
    found = page(tmp_path, run, audits=audits)
    assert found.wrong == [] and "<script" not in found.html and "Not measured." in found.text
