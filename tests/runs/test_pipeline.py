"""`run`: one plan, one result, whatever the threads, blocks, executor or folder; and what a run
says of itself.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import shop, write_shop

from entrenous.core.contract.protocols import model_sha256
from entrenous.core.errors import InputError
from entrenous.data.interactions import Interactions
from entrenous.evaluation.metrics.defined import fairness
from entrenous.evaluation.protocol import evaluate
from entrenous.federation import shard
from entrenous.privacy.choice import Choice
from entrenous.runs import reopen, store
from entrenous.runs.options import RunPlan
from entrenous.runs.pipeline import RunResult, material, run
from entrenous.runs.reopen import recommended
from entrenous.systems.central.popular import Popular

SMALL: dict[str, Any] = {"protocol": "loo-20", "rounds": 6, "settings": {"factors": 5}}
FEDERATED = ["pfpl+", "sfpl+", "fcf"]


def result(one: RunResult) -> tuple[Any, ...]:
    """All that must not change."""
    names = (
        "model_sha256",
        "metrics",
        "full_ranking",
        "fairness",
        "by_category",
        "rounds",
        "bytes",
        "ledger",
        "protocol_text",
        "notes",
    )
    return tuple(json.dumps(one.manifest.get(name)) for name in names)


# ---- one plan, one result ------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", FEDERATED)
def test_threads_and_the_debug_executor_change_nothing(algorithm: str, data: Interactions) -> None:
    usual = result(run(algorithm, data, threads=1, **SMALL))
    assert result(run(algorithm, data, threads=2, **SMALL)) == usual
    assert result(run(algorithm, data, threads=8, **SMALL)) == usual
    assert result(run(algorithm, data, debug=True, **SMALL)) == usual


@pytest.mark.parametrize("nbytes", [1, 5_000])
@pytest.mark.parametrize("algorithm", ["pfpl+", "fcf"])
def test_the_size_of_a_block_changes_nothing(
    algorithm: str, nbytes: int, data: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = result(run(algorithm, data, threads=2, **SMALL))
    monkeypatch.setattr(shard, "BLOCK_BYTES", nbytes)
    assert result(run(algorithm, data, threads=2, **SMALL)) == usual


@pytest.mark.parametrize("algorithm", ["pfpl+", "fcf", "bpr-mf", "random"])
def test_another_seed_is_another_model(algorithm: str, data: Interactions) -> None:
    first, again, other = (
        run(algorithm, data, seed=seed, threads=1, **{**SMALL, "settings": {}})
        for seed in (0, 0, 1)
    )
    assert result(first) == result(again)
    assert first.manifest["model_sha256"] != other.manifest["model_sha256"]


def test_looking_and_storing_change_nothing(data: Interactions, tmp_path: Path) -> None:
    plain = run("pfpl+", data, **SMALL)
    watched = run("pfpl+", data, every=2, checkpoint_every=1, out=tmp_path, **SMALL)
    assert result(plain) == result(watched)


# ---- what a run says -----------------------------------------------------------------------------


def test_the_manifest_has_what_scripts_rely_on(data: Interactions) -> None:
    said = run("pfpl+", data, seed=3, **SMALL).manifest
    asked = {
        name: said[name] for name in ("algorithm", "data", "protocol", "seed", "rounds", "status")
    }
    assert asked == {
        "algorithm": "pfpl+",
        "data": "shop",
        "protocol": "loo-20",
        "seed": 3,
        "rounds": 6,
        "status": "finished",
    }
    names = {
        "hr@10",
        "ndcg@10",
        "precision@10",
        "recall@10",
        "item_coverage@10",
        "gini@10",
        "hr@5",
        "mrr@20",
        "auc",
        "map@10",
        "f1@10",
    }
    assert names <= set(said["metrics"]) and set(said["metrics"]) == set(said["full_ranking"])
    assert set(said["seconds"]) == {"train", "evaluate"} and all(
        value >= 0 for value in said["seconds"].values()
    )
    assert len(said["model_sha256"]) == 64 and set(said["bytes"]) == {"up", "down"}
    # everybody downloads q and b of every item each round: 4 bytes x (5 + 1) x items
    assert said["bytes"]["down"] == 6 * 40 * 4 * (5 + 1) * len(data.items)
    assert said["ledger"]["device_rounds"] == 6 * 40
    json.dumps(said, allow_nan=False)


def test_fairness_is_that_of_each_ranking(data: Interactions) -> None:
    made = run("popular", data, protocol="loo-20")
    (found,) = made.evaluations
    assert found.candidates_ranking is not None and found.per_user_full is not None
    assert made.manifest["fairness"] == fairness(found.per_user, found.candidates_ranking).named()
    assert (
        made.manifest["fairness_full_ranking"]
        == fairness(found.per_user_full, found.ranking).named()
    )
    assert made.manifest["fairness"]["std_ndcg@10"] == float(found.per_user["ndcg@10"].std())


def test_fairness_of_folds_is_averaged(data: Interactions) -> None:
    made = run("popular", data, protocol="kfold-3")
    a, b, c = (fairness(one.per_user, one.ranking).named() for one in made.evaluations)
    assert made.manifest["fairness"] == pytest.approx(
        {name: (a[name] + b[name] + c[name]) / 3 for name in a}
    )
    assert "fairness_full_ranking" not in made.manifest


def test_folds_are_averaged(data: Interactions) -> None:
    made = run("pfpl+", data, **{**SMALL, "protocol": "kfold-3"})
    folds = made.manifest["folds"]
    assert len(folds) == len(made.evaluations) == 3
    for name, value in made.metrics.items():
        assert value == pytest.approx(
            (folds[0][name] + folds[1][name] + folds[2][name]) / 3, abs=1e-12
        )
    each = made.manifest["ledger"]["device_rounds"]
    assert each == 3 * 6 * 40


def test_without_out_nothing_is_written(
    data: Interactions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("pfpl+", data, every=1, **SMALL).path is None
    assert os.listdir(tmp_path) == []


def test_what_a_central_algorithm_ignores_is_said(data: Interactions) -> None:
    made = run("popular", data, protocol="loo-20", rounds=7, every=2, patience=1)
    assert (
        made.manifest["notes"][-1]
        == "popular is trained in one place, without rounds; ignored: --rounds, --every, --patience"
    )
    assert not any(
        "ignored" in note for note in run("popular", data, protocol="loo-20").manifest["notes"]
    )
    assert not any(
        "ignored" in note for note in run("pfpl+", data, every=3, **SMALL).manifest["notes"]
    )


# ---- validation ----------------------------------------------------------------------------------


def test_looks_are_what_shorter_trainings_score_on_validation(
    data: Interactions, tmp_path: Path
) -> None:
    """Of the final training where it leaves validation rows out; of a first training on the
    training rows where it does not.
    """
    made = run("pfpl+", data, every=2, out=tmp_path, refit=False, **SMALL)
    trace = store.read(str(made.path), tmp_path).trace
    assert [line["round"] for line in trace] == [2, 4, 6]
    refitted = run("pfpl+", data, every=2, **SMALL)
    assert [(line["round"], line["validation"]) for line in refitted.trace] == [
        (line["round"], line["validation"]) for line in trace
    ]
    assert {line["phase"] for line in refitted.trace} == {"fold0-select"} and {
        line["phase"] for line in trace
    } == {"fold0-final"}
    assert result(refitted) == result(run("pfpl+", data, **SMALL))
    (part,) = material(RunPlan(algorithm="pfpl+", protocol="loo-20"), data).parts
    assert part.validation is not None
    for line in trace:
        shorter = run("pfpl+", data, refit=False, **{**SMALL, "rounds": line["round"]})
        found = evaluate(
            shorter.recommender, part.train, part.validation, label="fpl", n=(10,), seed=0
        )
        assert line["validation"] == found.metrics
        assert (
            line["bytes_up"] == shorter.manifest["bytes"]["up"]
            and line["bytes_down"] == shorter.manifest["bytes"]["down"]
        )


@pytest.mark.parametrize("protocol", ["loo-20", "temporal-60-40"])
def test_patience_ends_with_the_round_that_was_best_on_validation(
    protocol: str, data: Interactions, tmp_path: Path
) -> None:
    options = {"protocol": protocol, "settings": {"factors": 5, "learning_rate": 0.2}}
    made = run("pfpl+", data, rounds=60, every=3, patience=2, out=tmp_path, **options)
    looks = [
        line
        for line in store.read(str(made.path), tmp_path).trace
        if line["phase"] == "fold0-select"
    ]
    best = max(looks, key=lambda line: (line["validation"]["ndcg@10"], -line["round"]))["round"]
    assert made.manifest["rounds"] == best < 60
    assert [line["round"] for line in looks] == list(range(3, best + 2 * 3 + 1, 3))
    assert result(made)[:3] == result(run("pfpl+", data, rounds=best, **options))[:3]


# ---- recommending --------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["pfpl+", "popular", "item-knn", "bpr-mf"])
def test_nobody_is_recommended_what_they_have(algorithm: str, data: Interactions) -> None:
    made = run(algorithm, data, **{**SMALL, "settings": {}})
    for user in (0, 7, 39):
        own = {
            data.items[int(item)]
            for item in made.train.item[made.train.ptr[user] : made.train.ptr[user + 1]]
        }
        best = made.recommend(data.users[user], n=len(data.items))
        assert len(own) == 11 and own.isdisjoint(row["item"] for row in best)
        assert len(best) == int((made.train.popularity > 0).sum()) - 11
        assert [row["score"] for row in best] == sorted(
            (row["score"] for row in best), reverse=True
        )


@pytest.mark.parametrize(
    "algorithm",
    ["pfpl+", "sfpl", "fcf", "random", "item-knn", "bpr-mf"],
)
def test_a_stored_run_recommends_the_same(algorithm: str, tmp_path: Path) -> None:
    path = write_shop(tmp_path / "shop.csv")
    made = run(algorithm, str(path), **{**SMALL, "settings": {}}, out=tmp_path / "runs")
    assert recommended(store.read("latest", tmp_path / "runs"), ["u5"], 7) == {
        "u5": made.recommend("u5", 7)
    }


# ---- on disk -------------------------------------------------------------------------------------


def test_a_stored_run_holds_its_model_its_users_and_no_leftovers(tmp_path: Path) -> None:
    path = write_shop(tmp_path / "shop.csv")
    made = run("pfpl+", str(path), every=2, out=tmp_path / "runs", **SMALL)
    assert made.path is not None and made.path.name == "pfpl+-shop-loo-20-seed0"
    assert sorted(os.listdir(made.path)) == [
        "manifest.json",
        "model.safetensors",
        "trace.jsonl",
        "users.safetensors",
    ]
    stored = store.read(made.path.name, tmp_path / "runs")
    assert stored.manifest == {"format": store.FORMAT, **json.loads(json.dumps(made.manifest))}
    assert stored.users["hr@10"].mean() == made.metrics["hr@10"] and len(stored.users["user"]) == 40
    arrays, _ = store.read_arrays(made.path / "model.safetensors")
    assert model_sha256(arrays) == made.manifest["model_sha256"]


def test_a_stored_run_is_used_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_shop(tmp_path / "shop.csv")
    (tmp_path / "pi.csv").write_text("user,pi\nu3,0.25\n")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    made = run("pfpl+", "shop.csv", **{**SMALL, "settings": {"pi": "@pi.csv"}}, out="runs")
    assert made.path is not None and (made.path / "pi.csv").read_text() == "user,pi\nu3,0.25\n"
    (tmp_path / "pi.csv").unlink()  # the run has its own copy
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert recommended(store.read(str(tmp_path / made.path), Path("runs")), ["u3"]) == {
        "u3": made.recommend("u3")
    }


def test_a_data_set_is_not_mistaken_for_a_folder_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "synthetic-fpl-canada").mkdir()
    monkeypatch.chdir(tmp_path)
    assert (
        run("popular", "synthetic-fpl-canada", protocol="random-80-20").manifest["data"]
        == "synthetic-fpl-canada"
    )


def test_choices_in_memory_train_but_cannot_be_reopened(data: Interactions, tmp_path: Path) -> None:
    path = str(write_shop(tmp_path / "shop.csv"))
    nobody, chosen = (
        {**SMALL, "settings": {"factors": 5, "pi": pi}}
        for pi in (0.0, Choice(0.0, by_user={3: 1.0}))
    )
    made = run("pfpl+", path, out=tmp_path / "runs", **chosen)
    assert made.manifest["settings"]["pi"].startswith(
        "Choice(default=0.0, users=1, pairs=0, sha256="
    )
    assert (
        made.manifest["ledger"]["rows_up"]
        > run("pfpl+", path, **nobody).manifest["ledger"]["rows_up"]
    )
    with pytest.raises(
        InputError, match="its setting pi was an object in memory, which is not stored"
    ):
        recommended(store.read("latest", tmp_path / "runs"), ["u3"])


def test_an_algorithm_that_cannot_run_leaves_no_folder(
    data: Interactions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fit(self: Popular, *_: Any) -> None:
        raise InputError("popular", "a library is missing")

    monkeypatch.setattr(Popular, "fit", fit)
    with pytest.raises(InputError, match="a library is missing"):
        run("popular", data, protocol="loo-20", out=tmp_path)
    assert os.listdir(tmp_path) == []


def test_progress_goes_up_to_the_end(data: Interactions) -> None:
    seen: list[tuple[int, int, str]] = []
    run("pfpl+", data, progress=lambda *now: seen.append(now), **SMALL)
    assert seen[:-1] == [(n, 6, "round") for n in range(7)]
    assert seen[-1] == (len(data.users), len(data.users), "evaluated user")


def test_resume_is_for_runs_that_are_stored_by_name(data: Interactions, tmp_path: Path) -> None:
    made = run("pfpl+", data, out=tmp_path, **SMALL)
    again = partial(reopen.resume, str(made.path), root=tmp_path)
    with pytest.raises(InputError, match="this run is finished; there is nothing to resume"):
        again()
    assert made.path is not None
    store.write_manifest(made.path, {**made.manifest, "status": "running"})
    with pytest.raises(
        InputError,
        match="its rows and split were objects in memory; a run keeps them when it ends",
    ):
        again()


def test_a_category_that_training_never_saw_gives_no_number_that_is_not_json(
    tmp_path: Path,
) -> None:
    data = shop(tmp_path, users=6, items=60, rows=10)
    alone = replace(
        data, features={"category": np.array([f"only {name}" for name in data.items.ids])}
    )
    made = run("popular", alone, protocol="temporal-60-40")
    assert (made.train.popularity == 0).any()
    assert made.manifest["by_category"]
    json.dumps(made.manifest, allow_nan=False)
