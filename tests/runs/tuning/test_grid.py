"""Choosing settings on validation rows alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import Command, with_fewer_test_rows, write_shop

from entrenous.core.errors import InputError
from entrenous.data.interactions import Interactions
from entrenous.evaluation.protocol import evaluate
from entrenous.runs.options import RunPlan
from entrenous.runs.pipeline import material, run
from entrenous.runs.tuning.grid import tune


def test_every_combination_is_scored_on_validation_and_the_best_comes_first(
    data: Interactions,
) -> None:
    found = tune(
        "pfpl+",
        data,
        protocol="loo-20",
        grid={"factors": ["3", "6"], "pi": ["0.5", "1"]},
        seeds=2,
        rounds=6,
        every=3,
    )
    assert len(found["rows"]) == 2 * 2 * 2  # factors x pi x looks at rounds 3 and 6
    values = [row["validation"]["ndcg@10"] for row in found["rows"]]
    assert values == sorted(values, reverse=True)
    row, each = found["rows"][0], []
    for seed in (0, 1):
        asked = {"rounds": row["rounds"], "settings": row["settings"], "refit": False, "threads": 1}
        trained = run("pfpl+", data, protocol="loo-20", seed=seed, **asked)
        (part,) = material(RunPlan(algorithm="pfpl+", protocol="loo-20", seed=seed), data).parts
        assert part.validation is not None
        each.append(
            evaluate(
                trained.recommender, part.train, part.validation, label="fpl", n=(10,), seed=seed
            ).metrics["ndcg@10"]
        )
    assert row["validation"]["ndcg@10"] == pytest.approx(sum(each) / 2, abs=1e-12)


def test_test_rows_change_nothing(data: Interactions, tmp_path: Path) -> None:
    """Half of the test rows are taken away; what is chosen stays to the last digit."""
    folders = with_fewer_test_rows(data, tmp_path)
    whole, less = (
        tune("pfpl+", str(folder), protocol="given", grid={"factors": ["3", "6"]}, rounds=4)
        for folder in folders
    )
    assert whole["rows"] == less["rows"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"grid": {}}, "--grid: there is nothing to choose from"),
        ({"grid": {"factors": []}}, "--grid: there is nothing to choose from"),
        ({"grid": {"factors": ["3", "0"]}}, "--set factors: got '0'"),
        ({"settings": {"pi": "2"}}, "--set pi: got '2'"),
        ({"settings": {"factors": "4"}}, "--grid factors: it is fixed with --set too"),
        (
            {"grid": {"cohort": ["3", "41"]}},
            "--set cohort: got 41; expected at most 40, the users of",
        ),
        ({"grid": {"fators": ["3"]}}, "--set fators: unknown setting; did you mean 'factors'"),
        ({"seeds": 0}, "--seeds: got 0; expected a whole number from 1"),
        ({"every": -1}, "--every: got -1"),
        ({"metric": "rmse"}, "metric: rmse is of predicted ratings, and this algorithm ranks"),
        ({"metric": "gini@10"}, "metric: gini@10 says nothing of accuracy"),
        ({"rounds": 0}, "--rounds: got 0"),
        ({"threads": -1}, "--threads: got -1"),
        ({"algorithm": "pfpl-"}, "unknown algorithm 'pfpl-'"),
    ],
)
def test_all_is_checked_before_anything_is_trained(
    options: dict[str, Any], said: str, data: Interactions
) -> None:
    trained: list[str] = []
    with pytest.raises(InputError, match=said):
        tune(
            **{
                "algorithm": "pfpl+",
                "data": data,
                "protocol": "loo-20",
                "grid": {"factors": ["3"]},
                **options,
            },
            progress=lambda done, total, what: trained.append(what),
        )
    assert trained == []


def test_what_is_fixed_is_the_same_for_all(data: Interactions) -> None:
    options: dict[str, Any] = {"protocol": "loo-20", "rounds": 4}
    fixed = tune("pfpl+", data, grid={"factors": ["3", "6"]}, settings={"pi": "0.5"}, **options)
    assert (
        fixed["rows"]
        == tune("pfpl+", data, grid={"factors": ["3", "6"], "pi": ["0.5"]}, **options)["rows"]
    )
    assert fixed["rows"] != tune("pfpl+", data, grid={"factors": ["3", "6"]}, **options)["rows"]


def test_a_training_that_diverges_does_not_end_the_grid(data: Interactions) -> None:
    found = tune(
        "fcf", data, protocol="loo-20", grid={"learning_rate": ["1e38", "0.05"]}, rounds=4, every=2
    )
    assert [(row["settings"], row["rounds"]) for row in found["rows"]].count(
        ({"learning_rate": 0.05}, 4)
    ) == 1
    assert {row["settings"]["learning_rate"] for row in found["rows"]} == {0.05}
    (one,) = found["failed"]
    assert one["settings"] == {"learning_rate": 1e38} and "finite" in one["reason"]
    with pytest.raises(
        InputError,
        match=r"entrenous tune: none of the 1 combinations could be trained; the first: .*finite",
    ):
        tune("fcf", data, protocol="loo-20", grid={"learning_rate": ["1e38"]}, rounds=4)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, command = write_shop(tmp_path / "shop.csv"), Command(capsys)
    arguments = [
        "tune",
        "user-knn",
        "--data",
        path,
        "--protocol",
        "loo-20",
        "--grid",
        "k=2,9",
        "--metric",
        "Recall@7",
    ]
    found = command(*arguments, "--json").json
    assert {row["settings"]["k"] for row in found["rows"]} == {2, 9} and found[
        "selected_by"
    ] == "validation recall@7"
    assert f"{found['rows'][0]['validation']['recall@7']:.4f}" in command(*arguments).out
    assert command("tune", "user-knn").error.startswith(
        "--grid: there is nothing to choose from; expected name=value,value,..."
    )


def test_the_command_tells_what_failed_and_how_to_run_the_best(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, command = write_shop(tmp_path / "shop.csv"), Command(capsys)
    arguments = [
        "--data",
        path,
        "--protocol",
        "loo-20",
        "--rounds",
        "4",
        "--grid",
        "learning_rate=0.05,1e38",
        "--set",
        "factors=4",
    ]
    said = command("tune", "fcf", *arguments).out.splitlines()
    assert said[-2].startswith("- failed: learning_rate=1e+38: ") and "finite" in said[-2]
    shown = (
        f"the best: entrenous run fcf --data {path} --protocol loo-20 --rounds 4 --set factors=4"
        " --set learning_rate=0.05"
    )
    assert said[-1] == shown
    ran = command(*said[-1].split()[3:], "--out", tmp_path / "runs", "--json").json
    assert (ran["settings"], ran["rounds"]) == ({"factors": "4", "learning_rate": "0.05"}, 4)
