"""Whole users held out: the parts, and the models that learn from what a held-out user gives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_data import interactions, random_data, rows_of

import entrenous
from entrenous.core.errors import InputError
from entrenous.data.interactions import Interactions
from entrenous.data.split.export import write
from entrenous.data.split.protocol import splits
from entrenous.data.split.types import Split, refitted, refuse_mixed_parts
from entrenous.evaluation.protocol import evaluate
from entrenous.runs.leakcheck import leakcheck
from entrenous.runs.newcomer import scorer_of
from entrenous.runs.pipeline import run

DATA = random_data(users=60, rows=900)


def ids(rows: Interactions) -> set[str]:
    return {user for user, _ in rows_of(rows)}


def held(split: Split) -> list[tuple[Interactions, Interactions]]:
    """The given and the held-out rows of validation and of test."""
    parts = []
    for part in (split.validation, split.test):
        assert part is not None and part.given is not None
        parts.append((part.given, part.rows))
    return parts


@pytest.mark.parametrize("name", ["users-80-20", "users-60-40,given=50", "users-80-20,by=time"])
@pytest.mark.parametrize("seed", range(3))
def test_nobody_is_in_two_parts_and_all_rows_are_in_one(name: str, seed: int) -> None:
    [split] = splits(name, DATA, seed=seed)
    parts = [split.train, *(given for given, _ in held(split))]
    people = [ids(part) for part in parts]
    assert sum(map(len, people)) == len(set.union(*people)) == len(ids(DATA))
    pieces = [split.train, *(rows for pair in held(split) for rows in pair)]
    pairs = [rows_of(piece) for piece in pieces]
    assert sum(map(len, pairs)) == len(DATA)
    assert set.union(*pairs) == rows_of(DATA) == rows_of(split.all_rows)
    for given, rows in held(split):
        assert given.users is rows.users and given.items is rows.items is split.train.items
        # Everybody gives a row at least, and is tested on another.
        assert given.counts.min() > 0 and rows.counts.min() > 0


def test_a_user_gives_the_part_that_was_asked_for() -> None:
    rows = [(f"u{user}", f"i{item}", item) for user in range(10) for item in range(10)]
    for asked, given_rows in (("80", 8), ("50", 5), ("20", 2)):
        [split] = splits(f"users-50-50,given={asked},by=time", interactions(rows))
        given, _ = held(split)[1]
        assert rows_of(given) == {
            (user, f"i{item}") for user in ids(given) for item in range(given_rows)
        }


def test_the_first_users_of_all_rows_have_the_numbers_of_training() -> None:
    [split] = splits("users-80-20", DATA)
    count = len(split.final_train.users)
    assert split.all_rows.users.ids[:count].tolist() == split.final_train.users.ids.tolist()
    assert rows_of(split.final_train) == rows_of(split.train) | rows_of(held(split)[0][0]) | (
        rows_of(held(split)[0][1])
    )
    assert refitted(split, False).final_train is split.train
    refuse_mixed_parts(split)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("users-80-30", "two positive percentages with sum 100; use users-80-20"),
        ("users-80-20,given=70", "given is '70'; expected 80 or 50 or 20"),
        ("users-80-20,by=day", "by is 'day'; expected random or time"),
        ("users-99-1", "leaves no users to test out of"),
    ],
)
def test_a_name_that_divides_nothing_is_refused(name: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        splits(name, DATA)


def test_a_split_of_one_user_is_refused_and_users_with_one_row_are_counted() -> None:
    lonely = interactions([("ann", "a"), ("ann", "b"), ("bob", "a")])
    with pytest.raises(InputError, match="leaves no users to test out of 1"):
        splits("users-80-20", lonely)
    [split] = splits("users-80-20", random_data())
    assert "users with one row, who cannot be held out: 1 (u0)" in split.notes
    with pytest.raises(InputError, match="the data has no times"):
        splits("users-80-20,by=time", replace(DATA, time=None))


def test_such_a_split_is_not_written(tmp_path) -> None:
    [split] = splits("users-80-20", DATA)
    with pytest.raises(InputError, match=r"which rows the held-out users give.*temporal-80-20"):
        write(split, tmp_path / "split")
    assert not (tmp_path / "split").exists()


@pytest.mark.parametrize("name", ["popular", "ease", "item-knn", "fpl", "fcf", "fedavg-gmf"])
def test_a_held_out_user_is_ranked_by_what_they_give(name: str) -> None:
    made = run(name, DATA, protocol="users-80-20", rounds=2)
    split = made.split
    assert split is not None and split.test.given is not None
    assert made.manifest["users_evaluated"] == len(split.test.rows.users)
    assert any("none of them was in training" in line for line in made.manifest["protocol_text"])
    scorer = scorer_of(made.recommender, split.test, rounds=2, seed=0)
    again = evaluate(scorer, made.train, split.test, label=name)
    assert again.metrics["ndcg@10"] == made.metrics["ndcg@10"]
    # No list has an item that its user gave.
    for user, items in zip(again.user.tolist(), again.lists.item.tolist(), strict=True):
        given = split.test.given
        own = given.item[given.ptr[user] : given.ptr[user + 1]]
        assert not set(own.tolist()) & set(items)


@pytest.mark.parametrize("name", ["popular", "fcf"])
def test_a_recommender_is_not_asked_for_users_it_never_met(name: str, tmp_path) -> None:
    made = entrenous.run(name, DATA, split="users-80-20", rounds=2)
    split = made.split
    assert split is not None
    with pytest.raises(InputError, match=r"holds out whole users.*run\.scorer\(split\.test\)"):
        evaluate(made.recommender, made.train, split.test, label=name)
    # The remedy gives the figures of the run, of a run from a folder too.
    for kept in (made, entrenous.open(made.save(tmp_path / "kept"))):
        found = evaluate(kept.scorer(split.test), made.train, split.test, label=name)
        assert found.metrics == made.metrics
    # Users who were in training are scored as ever.
    usual = entrenous.run(name, DATA, split="loo-full", rounds=2)
    assert usual.split is not None
    assert usual.scorer(usual.split.test) is usual.recommender


def test_a_peer_has_no_scorer_of_newcomers() -> None:
    made = entrenous.run("pepper-gmf", DATA, split="random-80-20", rounds=1)
    [split] = splits("users-80-20", DATA)
    with pytest.raises(InputError, match="whole users"):
        evaluate(made.recommender, split.final_train, split.test, label="pepper-gmf")
    with pytest.raises(InputError, match="a newcomer has received none"):
        made.scorer(split.test)


def test_users_are_computed_alike_together_and_alone() -> None:
    made = run("fpl", DATA, protocol="users-80-20", rounds=2)
    assert made.split is not None
    scorer = scorer_of(made.recommender, made.split.test, rounds=2, seed=0)
    together = scorer.scores(np.arange(4))
    alone = [scorer.scores(np.array([user]))[0] for user in range(4)]
    assert np.array_equal(together, np.stack(alone))


def test_ials_folds_users_in_as_its_half_sweep_does() -> None:
    pytest.importorskip("implicit")
    made = run("ials", DATA, protocol="users-80-20", settings={"factors": 4, "epochs": 3})
    algorithm, model = made.recommender.algorithm, made.recommender.model
    folded = algorithm.fold_in(model, made.train)
    # The last half sweep moved the items, so users are solved for the stored items.
    q = model.Q.astype(np.float64)
    consumed = np.zeros((len(made.train.users), len(q)))
    consumed[made.train.user, made.train.item] = 1
    for user in range(5):
        weight = 1 + algorithm.alpha * consumed[user]
        gradient = q.T @ (weight * (consumed[user] - q @ folded.P[user].astype(np.float64)))
        assert np.allclose(gradient, algorithm.reg * folded.P[user], atol=1e-3)


@pytest.mark.parametrize("name", ["user-knn", "bpr-mf", "pepper-gmf", "metamf"])
def test_an_algorithm_that_needs_its_users_is_refused_before_training(name: str) -> None:
    with pytest.raises(InputError) as refused:
        run(name, DATA, protocol="users-80-20", rounds=1)
    said = str(refused.value)
    assert said.startswith(f"protocol users-80-20: {name} can recommend to nobody but") and (
        "\n" not in said
    )


def test_a_leak_check_needs_users_who_train() -> None:
    with pytest.raises(InputError, match=r"holds out whole users.*use one such as loo-99"):
        leakcheck(algorithm="fpl", data=DATA, protocol="users-80-20", rounds=1)


def test_leaky_negatives_mean_nothing_where_users_are_held_out() -> None:
    with pytest.raises(InputError, match="holds out no row of a user who trains"):
        run("fpl", DATA, protocol="users-80-20", rounds=1, negatives="leaky")


def test_validation_looks_at_other_users_than_the_test(tmp_path) -> None:
    made = entrenous.run(
        "fpl", DATA, split="users-80-20", rounds=4, every=2, refit=False, out=tmp_path
    )
    assert made.curve()["round"].to_list() == [2, 4]
    users = made.per_user()["user"].to_list()
    assert made.split is not None and set(users) == ids(made.split.test.rows)
    assert set(users).isdisjoint(made.train.users.ids.tolist())
    lists = made.trec_files(5)["run.trec"].decode().split("\n")
    assert {line.split()[0] for line in lists if line} == set(users)
    with pytest.raises(InputError, match="the held-out users were in memory alone"):
        entrenous.open(made.path).per_user()


def test_settings_are_chosen_on_the_users_of_validation() -> None:
    tuned = entrenous.tune(
        "ease", DATA, protocol="users-80-20", grid={"reg": ["1", "100"]}, progress=False
    )
    assert len(tuned.table()) == 2
