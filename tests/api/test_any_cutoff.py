"""Metrics that are asked for by name, at any list length, of runs, comparisons and other programs'
lists, which all stand in one table.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from small_data import random_data

import entrenous
from entrenous.core.errors import InputError
from entrenous.data.split.protocol import splits
from entrenous.data.split.types import Split
from entrenous.evaluation.protocol import evaluate

NAMES = ["NDCG@100", "recall@7"]


@pytest.fixture(scope="module")
def split() -> Split:
    (made,) = splits("random-80-20", random_data(), seed=0)
    return made


@pytest.fixture(scope="module")
def run(split: Split) -> Any:
    return entrenous.run("popular", split=split, metrics=NAMES)


def test_a_run_has_the_metrics_that_are_asked_for_at_any_length(run: Any, split: Split) -> None:
    assert list(run.metrics) == ["ndcg@100", "recall@7"]
    assert {*run.per_user().columns} == {"user", *run.metrics}
    whole = evaluate(run.recommender, split.final_train, split.test, label="popular", n=(7, 100))
    assert run.metrics.items() <= whole.metrics.items()


@pytest.mark.parametrize(
    "name", ["ndcg@0", "ndcg@99999999999", "ndcg@", "auc@5", "ndcg@010", "ndgc@10"]
)
def test_a_name_that_is_none_is_refused_before_training(name: str, split: Split) -> None:
    with pytest.raises(InputError, match=r"^metrics: (no|unknown) metric"):
        entrenous.run("popular", split=split, metrics=[name])


def test_a_metric_that_one_of_them_lacks_is_named_and_the_others_are_compared(
    split: Split,
) -> None:
    with pytest.warns(entrenous.EntrenousWarning, match="no metric rmse of this algorithm"):
        found = entrenous.compare(
            ["biased-mf", "popular"], split=split, seeds=1, metrics=["rmse", "hr@1"]
        )
    assert "RMSE" not in found.latex()


@pytest.mark.parametrize("kind", ["pandas", "polars", "parquet", "csv"])
def test_other_lists_and_runs_stand_in_one_table(
    kind: str, run: Any, split: Split, tmp_path: Path
) -> None:
    lists = pl.DataFrame(run.recommend(n=1000))
    frames = {"pandas": lists.to_pandas(), "polars": lists}
    lists.write_parquet(tmp_path / "lists.parquet")
    lists.write_csv(tmp_path / "lists.csv")
    theirs = frames.get(kind, tmp_path / f"lists.{kind}")
    found = entrenous.evaluate_files(theirs, run, split=split, metrics=NAMES)
    _, listed, ranked = found.table().pivot("file", index="metric", values="value").get_columns()
    assert listed.name in ("frame 1", f"lists.{kind}")
    # The lists have every item that competes, so that they are the run's own ranking.
    assert listed.to_list() == pytest.approx(ranked.to_list())


def test_a_run_on_other_rows_is_refused(run: Any) -> None:
    (other,) = splits("random-80-20", random_data(), seed=1)
    with pytest.raises(InputError, match=r"popular: was trained on other rows .* split=run.split"):
        entrenous.evaluate_files(run, split=other)


def test_a_comparison_tests_what_is_asked_for_and_keeps_its_runs(tmp_path: Path) -> None:
    found = entrenous.compare(
        ["popular", "item-knn"], random_data(), split="random-80-20", seeds=2, metrics=NAMES[:1]
    )
    assert {row["metric"] for row in found.found["tests"]} == {"ndcg@100"}
    best = found.runs["item-knn"]
    assert best.metrics["ndcg@100"] == found.found["rows"][1]["per_seed"]["ndcg@100"][0]
    assert entrenous.open(best.save(tmp_path / "best")).name == "item-knn"
    with pytest.raises(InputError, match=r"has no ndcg@50; expected .* evaluate_files"):
        entrenous.compare(list(found.runs.values()), metrics=["ndcg@50"])


def test_a_stream_has_the_usual_lengths_alone() -> None:
    with pytest.raises(InputError, match="metrics: protocol stream has no others"):
        entrenous.run("popular", random_data(), protocol="stream", metrics=["ndcg@100"])
