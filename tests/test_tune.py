"""Choosing settings on validation rows alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from shop import Command, shop, write_shop

from entrenous.core.errors import InputError
from entrenous.data.interactions import Interactions
from entrenous.evaluate.protocol import evaluate
from entrenous.experiment import run
from entrenous.plan import Plan, material
from entrenous.split.export import write
from entrenous.split.types import Held
from entrenous.tune import tune


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Interactions:
    return shop(tmp_path_factory.mktemp("shop"))


def test_every_combination_is_scored_on_validation_and_the_best_comes_first(data: Interactions) -> None:
    found = tune("pfpl+", data, protocol="loo-20", grid={"factors": ["3", "6"], "pi": ["0.5", "1"]}, seeds=2, rounds=6, every=3)
    assert len(found["rows"]) == 2 * 2 * 2  # factors x pi x looks at rounds 3 and 6
    values = [row["validation"]["ndcg@10"] for row in found["rows"]]
    assert values == sorted(values, reverse=True)
    row, each = found["rows"][0], []
    for seed in (0, 1):
        trained = run("pfpl+", data, protocol="loo-20", seed=seed, rounds=row["rounds"], settings=row["settings"], threads=1)
        (part,) = material(Plan(algorithm="pfpl+", protocol="loo-20", seed=seed), data).parts
        assert part.validation is not None
        each.append(
            evaluate(trained.recommender, part.train, part.validation, label="fpl", n=(10,), seed=seed).metrics["ndcg@10"]
        )
    assert row["validation"]["ndcg@10"] == pytest.approx(sum(each) / 2, abs=1e-12)


def test_test_rows_change_nothing(data: Interactions, tmp_path: Path) -> None:
    """Half of the test rows are taken away; what is chosen stays to the last digit."""
    (part,) = material(Plan(algorithm="pfpl+", protocol="temporal-80-20"), data).parts
    half = Held(part.test.rows.select(part.test.rows.item % 2 == 0))
    folders = [write(part, tmp_path / "whole"), write(part._replace(test=half), tmp_path / "half")]
    whole, less = (tune("pfpl+", str(folder), protocol="given", grid={"factors": ["3", "6"]}, rounds=4) for folder in folders)
    assert 0 < len(half.rows) < len(part.test.rows)
    assert whole["rows"] == less["rows"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"grid": {}}, "--grid: there is nothing to choose from"),
        ({"grid": {"factors": []}}, "--grid: there is nothing to choose from"),
        ({"grid": {"factors": ["3", "0"]}}, "--set factors: got '0'"),
        ({"grid": {"fators": ["3"]}}, "--set fators: unknown setting; did you mean 'factors'"),
        ({"seeds": 0}, "--seeds: got 0; expected a whole number from 1"),
        ({"every": -1}, "--every: got -1"),
        ({"rounds": 0}, "--rounds: got 0"),
        ({"threads": -1}, "--threads: got -1"),
        ({"algorithm": "pfpl-"}, "unknown algorithm 'pfpl-'"),
    ],
)
def test_all_is_checked_before_anything_is_trained(options: dict[str, Any], said: str, data: Interactions) -> None:
    trained: list[str] = []
    with pytest.raises(InputError, match=said):
        tune(
            **{"algorithm": "pfpl+", "data": data, "protocol": "loo-20", "grid": {"factors": ["3"]}, **options},
            progress=lambda done, total, what: trained.append(what),
        )
    assert trained == []


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, command = write_shop(tmp_path / "shop.csv"), Command(capsys)
    arguments = ["tune", "user-knn", "--data", path, "--protocol", "loo-20", "--grid", "k=2,9"]
    found = command(*arguments, "--json").json
    assert {row["settings"]["k"] for row in found["rows"]} == {"2", "9"} and found["selected_by"] == "validation ndcg@10"
    assert f"{found['rows'][0]['validation']['ndcg@10']:.4f}" in command(*arguments).out
    assert command("tune", "user-knn").error.startswith('Command "tune" parameter --grid requires an argument')
