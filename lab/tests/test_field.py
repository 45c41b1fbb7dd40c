"""The table of the field: what is trained in each reading, what is remembered, tests and effect
sizes, and a researcher's own file as a further line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from entrenous_lab.papers import field, field_run
from entrenous_lab.papers.field import FieldSystem, Measured
from entrenous_lab.papers.field_run import FieldPoint
from entrenous_lab.papers.runner import run_experiment
from entrenous_lab.search.before import Chosen

from entrenous.core.errors import InputError
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


def test_only_the_table_of_the_field_takes_own_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--with: anchors has the systems of its paper alone"):
        run_experiment("anchors", data=tiny(), cache=tmp_path, own=(str(OWN),))
    with pytest.raises(InputError, match=r"nothing\.py"):
        run_experiment("field", data=tiny(), cache=tmp_path, own=("./nothing.py",))
