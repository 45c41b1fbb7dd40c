"""Several algorithms over several seeds: rows are means over seeds, tests are paired over users,
Holm corrects within a metric.
"""

from __future__ import annotations

from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import pytest
from command_line import Command, write_shop
from small_data import interactions

import entrenous
from entrenous.api.compare import CompareKeywords, compared
from entrenous.core.errors import InputError
from entrenous.data.interactions import Interactions
from entrenous.evaluation.chance import difference
from entrenous.evaluation.significance import holm, paired_spread
from entrenous.runs.pipeline import RunResult, run

SMALL: dict[str, Any] = {"protocol": "loo-20", "rounds": 4, "threads": 1}
NAMES = ["popular", "random", "pfpl+"]


def compare(algorithms: list[Any], data: Any = "ml-100k", **options: Any) -> dict[str, Any]:
    """A comparison, with errors in the words of the command line."""
    return compared(CompareKeywords(algorithms, data, **{"progress": False, **options})).found


@pytest.fixture(scope="module")
def found(data: Interactions) -> dict[str, Any]:
    return compare(NAMES, data, seeds=[0, 1, 2], **SMALL)


@pytest.fixture(scope="module")
def runs(data: Interactions) -> dict[str, list[RunResult]]:
    return {name: [run(name, data, seed=seed, **SMALL) for seed in range(3)] for name in NAMES}


def test_a_row_is_the_mean_over_seeds_of_the_same_runs(
    found: dict[str, Any], runs: dict[str, list[RunResult]]
) -> None:
    assert (found["data"], found["protocol"], found["seeds"]) == ("shop", "loo-20", 3)
    assert [row["algorithm"] for row in found["rows"]] == NAMES
    for row in found["rows"]:
        own = runs[row["algorithm"]]
        values = [one.metrics["ndcg@10"] for one in own]
        assert row["per_seed"]["ndcg@10"] == values
        assert row["metrics"]["ndcg@10"] == pytest.approx(mean(values), abs=1e-12)
        assert row["std"]["ndcg@10"] == pytest.approx(stdev(values), abs=1e-12)
        assert row["full_ranking"]["hr@10"] == pytest.approx(
            sum(one.manifest["full_ranking"]["hr@10"] for one in own) / 3
        )
        assert row["model_sha256"] == [one.manifest["model_sha256"] for one in own]
        assert len(row["train_seconds"]) == 3


def users_of(runs: list[RunResult], metric: str) -> np.ndarray:
    """The users' values of each seed, float64 [seeds, users]."""
    return np.array([one.evaluations[0].per_user[metric] for one in runs])


def test_each_other_is_tested_against_the_first_user_by_user(
    found: dict[str, Any], runs: dict[str, list[RunResult]]
) -> None:
    assert [(one["metric"], one["a"], one["b"]) for one in found["tests"]] == [
        ("hr@10", "popular", "random"),
        ("hr@10", "popular", "pfpl+"),
        ("ndcg@10", "popular", "random"),
        ("ndcg@10", "popular", "pfpl+"),
    ]
    for one in found["tests"]:
        expected = difference(*(users_of(runs[one[side]], one["metric"]) for side in ("a", "b")))
        assert (one["users"], one["holds"]) == (40, "users and seeds")
        assert [one[name] for name in ("difference", "low", "high", "p")] == pytest.approx(
            [expected.mean, *expected.ends, expected.p()], abs=1e-12
        )


def test_fairness_is_the_mean_over_seeds_and_its_std_is_tested(
    found: dict[str, Any], runs: dict[str, list[RunResult]]
) -> None:
    for row in found["rows"]:
        for name, value in row["fairness"].items():
            own = [one.manifest["fairness"][name] for one in runs[row["algorithm"]]]
            assert (value, row["fairness_std"][name]) == pytest.approx((mean(own), stdev(own)))
    assert [(one["metric"], one["a"], one["b"]) for one in found["fairness_tests"]] == [
        ("std_ndcg@10", "popular", "random"),
        ("std_ndcg@10", "popular", "pfpl+"),
    ]
    for one in found["fairness_tests"]:
        a, b = (users_of(runs[one[side]], "ndcg@10") for side in ("a", "b"))
        stds = [each.std(axis=1).mean() for each in (a, b)]
        assert [one[name] for name in ("std_a", "std_b", "difference", "p")] == pytest.approx(
            [*stds, stds[0] - stds[1], paired_spread(a, b).p]
        )
    p, corrected = ([one[name] for one in found["fairness_tests"]] for name in ("p", "holm_p"))
    assert corrected == pytest.approx(holm(p))


def test_a_user_who_is_absent_from_some_folds_counts_by_the_folds_that_have_them() -> None:
    """User u0 has one row, so one fold of three tests them: their mean is that fold's value, not a
    third of it.
    """
    rng = np.random.default_rng(1)
    rows = [(f"u{u}", f"i{i}") for u in range(1, 13) for i in rng.choice(40, 12, replace=False)]
    data = interactions([("u0", "i1"), *rows])
    found = compare(["popular", "random"], data, protocol="kfold-3", seeds=1, threads=1)
    made = {name: run(name, data, protocol="kfold-3", threads=1) for name in ("popular", "random")}
    held = np.concatenate([one.user for one in made["popular"].evaluations])
    times = np.bincount(held, minlength=13)
    assert times[0] == 1 and times.max() == 3

    def in_folds(metric: str, name: str) -> np.ndarray:
        values = np.full((3, 13), np.nan)
        for line, one in zip(values, made[name].evaluations, strict=True):
            line[one.user] = one.per_user[metric]
        return values

    for one in found["tests"]:
        a, b = in_folds(one["metric"], "popular"), in_folds(one["metric"], "random")
        assert (one["users"], one["holds"]) == (13, "users and folds")
        assert one["difference"] == pytest.approx(np.nanmean(a - b, axis=0).mean())
        assert one["p"] == pytest.approx(difference(a, b).p())
    assert found["fairness_tests"][0]["std_a"] == pytest.approx(np.nanstd(a, axis=1).mean())


def test_without_any_difference_p_is_1() -> None:
    """Everybody has the same items but one: neighbours know nothing that popularity does not, and
    all rank alike.
    """
    data = interactions([(f"u{u}", f"i{i}") for u in range(6) for i in range(7) if i != u])
    found = compare(["user-knn", "item-knn", "popular"], data, seeds=1, protocol="random-80-20")
    assert len(found["tests"]) == 4
    for one in found["tests"]:
        assert (one["difference"], one["p"], one["holm_p"]) == (0, 1, 1)


@pytest.mark.parametrize(
    ("names", "options", "said"),
    [
        (["popular"], {}, "expected two or more different algorithms"),
        (["popular", "popular"], {}, "expected two or more different algorithms"),
        (["popular", "nope"], {}, "unknown algorithm 'nope'"),
        (["popular", "random"], {"seeds": 0}, "--seeds: got 0"),
        (["popular", "random"], {"seeds": [1, 1]}, "seeds: got .1, 1.; expected one or more seeds"),
        (["popular", "random"], {"rounds": 0}, "--rounds: got 0"),
        (["popular", "random"], {"threads": -1}, "--threads: got -1"),
        (["popular", "random"], {"given": "folder"}, "--given: the protocol is loo-99"),
    ],
)
def test_all_is_checked_before_anything_is_trained(
    names: list[str], options: dict[str, Any], said: str, data: Interactions
) -> None:
    trained: list[str] = []
    with pytest.raises(InputError, match=said):
        compare(names, data, progress=lambda done, total, what: trained.append(what), **options)
    assert trained == []


def test_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    path, command = write_shop(tmp_path / "shop.csv"), Command(capsys)
    arguments = [
        "compare",
        "popular",
        "random",
        "--data",
        path,
        "--protocol",
        "loo-20",
        "--seeds",
        "2",
    ]
    found = command(*arguments, "--json").json
    assert {"rows", "tests", "seeds", "protocol"} <= set(found) and found["data"] == str(path)
    assert [row["algorithm"] for row in found["rows"]] == ["popular", "random"]
    said = command(*arguments)
    assert said.code == 0 and "random 2/4" in said.err
    row = found["rows"][0]
    assert f"{row['metrics']['hr@10']:.4f} ±{row['std']['hr@10']:.4f}" in said.out
    assert (
        "popular - random" in said.out
        and "mean ± sample standard deviation over seeds 0-1" in said.out
    )


DP: dict[str, Any] = {"profile": "dp", "protect": {"people": 1, "noise": 2, "delta": 1e-3}}


def test_trainings_under_a_budget_say_what_each_and_what_all_of_them_have_spent(
    tmp_path: Path, data: Interactions
) -> None:
    """Two seeds hold out other rows of the same people: what both trainings tell of somebody adds
    up.
    """
    dpa = pytest.importorskip("dp_accounting")
    from dp_accounting import pld

    settings = {"fcf": {"factors": 4, "cohort": 10}, "fpl": {"factors": 4, "cohort": 20}}
    found = compare(["fcf", "fpl"], data, seeds=2, settings=settings, **SMALL, **DP)["privacy"]
    assert [(one["algorithm"], one["seed"]) for one in found["runs"]] == [
        ("fcf", 0),
        ("fcf", 1),
        ("fpl", 0),
        ("fpl", 1),
    ]
    accountant = pld.PLDAccountant()
    for one, rate in zip(found["runs"], (0.25, 0.25, 0.5, 0.5), strict=True):
        event = dpa.SelfComposedDpEvent(
            dpa.PoissonSampledDpEvent(rate, dpa.GaussianDpEvent(2.0)), 4
        )
        alone = pld.PLDAccountant()
        alone.compose(event)
        accountant.compose(event)
        assert (
            one["epsilon"] == pytest.approx(alone.get_epsilon(1e-3), abs=1e-6)
            and one["delta"] == 1e-3
        )
    assert found["trainings"] == 4 and found["delta"] == 1e-3
    assert found["epsilon"] == pytest.approx(accountant.get_epsilon(1e-3), abs=1e-6)
    assert found["epsilon"] > max(one["epsilon"] for one in found["runs"])


def test_a_training_without_a_budget_beside_others_leaves_no_bound_for_all(
    data: Interactions,
) -> None:
    pytest.importorskip("dp_accounting")
    bounded = entrenous.run(
        "fcf", data, split="loo-20", settings={"factors": 3}, rounds=3, progress=False, **DP
    )
    plain = entrenous.run(
        "fcf", data, split="loo-20", settings={"factors": 4}, rounds=3, progress=False
    )
    found = entrenous.compare([bounded, plain], data, progress=False)
    spent = found.found["privacy"]
    assert spent["epsilon"] is None and [one["epsilon"] is None for one in spent["runs"]] == [
        False,
        True,
    ]
    assert "nothing bounds all 2 trainings on the same people, of which 1 had no budget" in repr(
        found
    )
    assert (
        "privacy"
        not in entrenous.compare(
            [plain, "pfpl+"], data, split="loo-20", rounds=2, progress=False
        ).found
    )
