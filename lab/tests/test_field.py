"""The table of the field: what is trained in each reading, what is remembered, tests and effect
sizes, and a researcher's own file as a further line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from entrenous_lab.papers import field, field_run
from entrenous_lab.papers.field import FieldBudget, FieldSystem, Measured
from entrenous_lab.papers.field_run import FieldPoint, FieldRunner
from entrenous_lab.papers.runner import experiments, run_experiment
from entrenous_lab.papers.stored import stored_in
from entrenous_lab.search.before import Chosen
from paths import ROOT

from entrenous.core.errors import InputError
from entrenous.report.figures import FigureFormat
from entrenous.runs.pipeline import RunRequest
from lab.tests.test_runner import tiny

OWN = Path(__file__).parents[2] / "docs" / "examples" / "my_algo.py"
METRICS = {
    name: 0.5 for name in ("hr@10", "ndcg@10", "full hr@10", "full ndcg@10", "worst_decile_auc")
}


def point(hr: float, users: int = 40) -> FieldPoint:
    """A point whose users have or miss the item, the first ones do."""
    hits = (np.arange(users) < hr * users).astype(float).tolist()
    metrics = {**METRICS, "hr@10": hr, "up": 1.0, "down": 2.0, "cpu": 0.1}
    return FieldPoint(metrics, {"hr@10": hits, "ndcg@10": hits}, 3)


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[RunRequest]:
    """The trainings that are asked for; each gives made-up figures, leaky ones higher."""
    asked: list[RunRequest] = []

    def training(request: RunRequest) -> FieldPoint:
        asked.append(request)
        return point(0.75 if request.negatives == "leaky" else 0.5)

    def chosen(*_: Any, settings: dict[str, Any], **__: Any) -> Chosen:
        return Chosen(dict(settings), 2)

    monkeypatch.setattr(field_run, "_trained", training)
    monkeypatch.setattr(field_run, "chosen_before", chosen)
    return asked


def test_each_reading_is_trained_once_and_remembered(
    trained: list[RunRequest], tmp_path: Path
) -> None:
    result = run_experiment("field", data=tiny(), cache=tmp_path, seeds=2, own=(str(OWN),))
    of = {(row["system"], row["metric"]): row for row in result.rows}
    assert of["FedMF", "leaky hr@10"]["values"] == [0.75, 0.75]
    assert of["FedMF", "honest hr@10"]["obtained"] == of["FedMF", "chosen hr@10"]["obtained"] == 0.5
    assert of["EASE", "leaky hr@10"]["obtained"] is None
    assert all(request.refit is False for request in trained if request.algorithm != "pepper-gmf")
    assert any(request.algorithm == str(OWN) for request in trained)
    assert {row["system"] for row in result.rows} >= {"FedMF", "EASE", "popular"}
    assert (
        len(
            {row["system"] for row in result.rows}
            - {each.label for each in (*field.THEIRS, *field.OURS)}
        )
        == 1
    )
    (figure,) = result.figures.values()
    assert "FedMF" in figure and "stroke-dasharray" in figure
    count = len(trained)
    again = run_experiment("field", data=tiny(), cache=tmp_path, seeds=2, own=(str(OWN),))
    assert len(trained) == count and again.rows == result.rows and again.computed == 0


def test_a_damaged_memory_is_trained_again(trained: list[RunRequest], tmp_path: Path) -> None:
    runner = FieldRunner(data=tiny(), protocol="loo-20", folder=tmp_path)
    runner.point("fcf", {}, seed=0, rounds=2)
    (file,) = tmp_path.iterdir()
    for wrong in ("{", "{}", json.dumps({"format": 1, "cell": "other", "found": {}})):
        file.write_text(wrong)
        assert runner.point("fcf", {}, seed=0, rounds=2).metrics["hr@10"] == 0.5
    assert runner.counts == {"computed": 4, "remembered": 0} and len(trained) == 4
    runner.point("fcf", {"reg": 2.0}, seed=0, rounds=2)
    runner.point("fcf", {}, seed=1, rounds=2)
    assert len(list(tmp_path.iterdir())) == 3


def test_tests_are_paired_over_users_with_effect_sizes() -> None:
    measured = [
        Measured(
            FieldSystem(name, "fcf"),
            {"leaky": [point(leaky)], "honest": [point(0.5)], "chosen": [point(chosen)]},
            "",
        )
        for name, leaky, chosen in (("a", 0.75, 0.5), ("b", 0.5, 0.7), ("c", 0.9, 0.6))
    ]
    tests = [test for test in field._tests("d", measured) if test["metric"] == "hr@10"]
    pairs = {(test["a"], test["b"]): test for test in tests}
    assert list(pairs) == [
        ("a, leaky", "a, honest"),
        ("b, leaky", "b, honest"),
        ("c, leaky", "c, honest"),
        ("b, chosen", "c, chosen"),
        ("b, chosen", "a, chosen"),
    ]
    leak = np.array([0.0] * 20 + [1.0] * 10 + [0.0] * 10)
    found = pairs["a, leaky", "a, honest"]
    assert found["effect"] == pytest.approx(leak.mean() / leak.std(ddof=1))
    assert found["p_holm"] == pytest.approx(2 * found["p"])
    assert pairs["b, leaky", "b, honest"]["difference"] == 0


def test_a_diverged_seed_leaves_no_figure() -> None:
    failed = FieldPoint({}, {}, failed="diverged")
    one = Measured(FieldSystem("a", "fcf"), {"chosen": [point(0.5), failed]}, "")
    assert one.values("chosen", "hr@10") == [] and one.users("chosen", "hr@10") is None


def test_a_real_training_and_a_real_search_of_few_rounds() -> None:
    """Bytes of a device and round, seconds of its processor, and rounds, of FedMF on tiny data."""
    runner = FieldRunner(data=tiny(), protocol="loo-20", folder=None)
    best = runner.searched("fedmf", {"factors": 4}, trials=1, rounds=3)
    assert best.settings["factors"] == 4 and 1 <= (best.rounds or 0) <= 3
    found = runner.point("fedmf", {"factors": 4}, seed=0, rounds=3, negatives="leaky")
    assert found.rounds == 3 and not found.failed and len(found.per_user["hr@10"]) == 40
    assert {"hr@10", "full ndcg@10", "worst_decile_auc", "up", "down", "cpu"} <= set(found.metrics)
    popular = runner.searched("popular", {}, trials=3, rounds=5)
    assert popular.settings == {} and popular.rounds is None
    assert "up" not in runner.point("popular", {}, seed=0, rounds=None).metrics


def test_only_the_table_of_the_field_takes_own_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--with: anchors has the systems of its paper alone"):
        run_experiment("anchors", data=tiny(), cache=tmp_path, own=(str(OWN),))
    with pytest.raises(InputError, match=r"nothing\.py"):
        run_experiment("field", data=tiny(), cache=tmp_path, own=("./nothing.py",))


def test_budgets_are_equal_for_all_systems_of_a_data_set() -> None:
    for quick in (False, True):
        budgets = field.budgets(quick)
        assert "" in budgets and all(isinstance(each, FieldBudget) for each in budgets.values())
    assert field.budgets(False)["ml-100k"].seeds == 5


def test_who_can_switch_aggregation_off() -> None:
    """PEPPER's setting of that name chooses how models are joined, and has no such value."""
    alone = {each.label for each in (*field.THEIRS, *field.OURS) if each.can_be_alone}
    assert alone >= {"FedMF", "FedNCF", "PFedRec", "FedRAP", "GPFedRec"}
    assert not alone & {"PEPPER", "FPL", "EASE"}


def test_every_system_of_the_table_is_here() -> None:
    notes: list[str] = []
    assert len(field.systems_of(False, (), notes)) == 17 and notes == []


def test_the_diagonal_is_drawn_through_equal_values() -> None:
    svg = field.diagonal({"a": (0.5, 0.9), "b": (0.2, 0.2)}, FigureFormat("t", "honest", "leaky"))
    assert svg.count("<circle") + svg.count("<polygon") >= 2 and ">equal<" in svg


def test_the_page_says_how_short_the_search_was() -> None:
    page = (ROOT / "docs" / "benchmark.md").read_text(encoding="utf-8")
    rows = stored_in(ROOT / "lab" / "results", experiments())["field"].content["rows"]
    chosen = [row for row in rows if row["metric"] == field.ROUNDS]
    trained = [row["obtained"] for row in chosen if row["obtained"] is not None]
    cap = field.budgets(False)["ml-1m"].rounds
    capped = sum(rounds == cap for rounds in trained)
    assert f"Of the {len(trained)} choices" in page
    assert f"{capped} end at the cap of {cap} rounds" in page
    small = [row["protocol"] for row in chosen if row["data"] == "ml-100k"]
    kept = sum(": as they come;" in protocol for protocol in small)
    assert f"{kept} of {len(small)} choices there kept the default" in page
