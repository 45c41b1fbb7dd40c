"""What determines a result, and what is refused before any data is read."""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import shop, write_shop

from entrenous.core.errors import InputError
from entrenous.privacy.choice import Choice
from entrenous.runs import store
from entrenous.runs.options import RunPlan
from entrenous.runs.pipeline import material, run
from entrenous.runs.plan import SEEDS, algorithm_of, check, check_parts, make
from entrenous.runs.reopen import LATER, plan_of
from entrenous.systems import named
from entrenous.systems.fpl import FPL


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"algorithm": "pfpl-"}, "^algorithm: unknown algorithm 'pfpl-'; did you mean 'pfpl"),
        (
            {"algorithm": ""},
            "^algorithm: unknown algorithm ''; known: biased-mf, bpr-mf, cali3f-gmf, cali3f-mlp, ",
        ),
        ({"rounds": 0}, "^--rounds: got 0; expected a whole number from 1$"),
        ({"seed": -1}, "^--seed: got -1; expected a whole number from 0$"),
        ({"seed": SEEDS}, r"^--seed: got 9223372036854775808; expected less than 2\^63"),
        ({"patience": -1}, "^--patience: got -1"),
        ({"every": -2}, "^--every: got -2"),
        (
            {"patience": 2},
            (
                "^--patience: there are no looks at validation; say how often to look with --every"
                " ROUNDS$"
            ),
        ),
        ({"given": "folder"}, "^--given: the protocol is loo-99; expected --protocol given$"),
        (
            {"negatives": "leeky"},
            "--negatives: unknown choice 'leeky'; expected train or leaky; did you mean 'leaky'",
        ),
        ({"protocol": "given", "load": {"venue": "item"}}, "^--load venue: unknown setting"),
        ({"load": {"usr": "venue"}}, "^--load usr: unknown setting; did you mean 'user'"),
        (
            {"load": {"duplicates": "maybe"}},
            "^--load duplicates: got 'maybe'; expected 'same', 'first', 'last' or 'sum'",
        ),
        ({"settings": {"pie": "1"}}, "^--set pie: unknown setting; did you mean 'pi'"),
        (
            {"settings": {"pi": "1.1"}},
            "^--set pi: got '1.1'; expected less than or equal to 1; pi is: probability",
        ),
        (
            {"settings": {"pi": "-0.1"}},
            "^--set pi: got '-0.1'; expected greater than or equal to 0",
        ),
        ({"settings": {"pi": "half"}}, "^--set pi: got 'half'; expected a valid number"),
        ({"settings": {"pi": "nan"}}, "^--set pi: got 'nan'; expected a finite number"),
        (
            {"settings": {"factors": "0"}},
            "^--set factors: got '0'; expected greater than or equal to 1",
        ),
        ({"settings": {"factors": "2.5"}}, "^--set factors: got '2.5'; expected a valid integer"),
        (
            {"settings": {"triples": "-1"}},
            "^--set triples: got '-1'; expected greater than or equal to 0",
        ),
        (
            {"settings": {"learning_rate": "nan"}},
            "^--set learning_rate: got 'nan'; expected a finite number",
        ),
        (
            {"settings": {"learning_rate": "0"}},
            "^--set learning_rate: got '0'; expected greater than 0",
        ),
        (
            {"algorithm": "fcf", "settings": {"alpha": "nan"}},
            "^--set alpha: got 'nan'; expected a finite number",
        ),
        (
            {"algorithm": "cali3f-mlp", "settings": {"layers": ""}},
            "expected factors, layers or both; factors=0 without layers leaves",
        ),
        (
            {"algorithm": "fedavg-gmf", "settings": {"factors": "0"}},
            "expected factors, layers or both; factors=0 without layers leaves",
        ),
        (
            {"algorithm": "cali3f-neumf", "settings": {"layers": "16,0"}},
            "^--set layers: got '0'; expected greater than or equal to 1",
        ),
        (
            {"algorithm": "cali3f-neumf", "settings": {"clusters": "0"}},
            "^--set clusters: got '0'; expected greater than or equal to 1",
        ),
        (
            {"algorithm": "ditto-gmf", "settings": {"reg_global": "-1"}},
            "^--set reg_global: got '-1'; expected greater than or equal to 0",
        ),
        (
            {"algorithm": "popular", "settings": {"factors": "2"}},
            "^--set factors: unknown setting; known: none",
        ),
    ],
)
def test_a_plan_that_cannot_be_carried_out_is_one_line(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said) as refused:
        check(RunPlan(**{"algorithm": "fpl", **wrong}))
    assert "\n" not in str(refused.value)


def test_a_plan_with_a_file_of_choices_is_checked_when_users_are_known() -> None:
    check(
        RunPlan(
            algorithm="fpl", settings={"pi": "@no-such-file.csv", "factors": "3"}, seed=SEEDS - 1
        )
    )


def test_triples_zero_means_what_each_device_has_on_average(tmp_path: Path) -> None:
    data = shop(tmp_path, users=10, rows=12)
    made = make(RunPlan(algorithm="fpl", settings={"triples": 0, "cohort": 0}), data)
    configured = made.configured(data.catalogue)  # type: ignore[union-attr]
    assert (configured.triples, configured.cohort) == (120 // 10, 10)


def test_a_name_sets_what_the_user_does_not(tmp_path: Path) -> None:
    data = shop(tmp_path)
    assert make(RunPlan(algorithm="sfpl+"), data) == FPL(cohort=1, triples=0)
    assert make(RunPlan(algorithm="sfpl+", settings={"triples": "7", "pi": "0.25"}), data) == FPL(
        cohort=1, triples=7, pi=0.25
    )


def test_more_devices_in_a_round_than_there_are(tmp_path: Path) -> None:
    data = shop(tmp_path, users=10)
    make(RunPlan(algorithm="fpl", settings={"cohort": 10}), data)
    with pytest.raises(
        InputError, match=r"^--set cohort: got 11; expected at most 10, the users of shop$"
    ):
        make(RunPlan(algorithm="fpl", settings={"cohort": 11}), data)


def test_a_cohort_that_nobody_asked_for_is_everybody_where_there_are_fewer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(named, "algorithms", lambda: {"many": partial(FPL, cohort=400)})
    data = shop(tmp_path, users=10)
    assert make(RunPlan(algorithm="many"), data).configured(data.catalogue).cohort == 10  # type: ignore[union-attr]


@pytest.mark.parametrize("algorithm", ["cali3f-gmf", "fedfast-mlp"])
def test_clusters_that_do_not_fit_the_users_or_the_round(algorithm: str, tmp_path: Path) -> None:
    data = shop(tmp_path, users=10)
    make(RunPlan(algorithm=algorithm, settings={"clusters": 10, "cohort": 10}), data)
    with pytest.raises(
        InputError, match=r"^--set clusters: got 11; expected at most 10, the number of users$"
    ):
        make(RunPlan(algorithm=algorithm, settings={"clusters": 11}), data)
    with pytest.raises(
        InputError,
        match=(
            r"^--set cohort: got 4, fewer devices than the 5 clusters; expected at least one"
            r" delegate"
        ),
    ):
        make(RunPlan(algorithm=algorithm, settings={"clusters": 5, "cohort": 4}), data)


def test_a_cohort_that_is_not_drawn_from_clusters_may_be_smaller(tmp_path: Path) -> None:
    data, few = shop(tmp_path, users=10), {"clusters": 5, "cohort": 4, "sampled": False}
    assert (
        make(RunPlan(algorithm="cali3f-gmf", settings=few), data).configured(data.catalogue).cohort
        == 4
    )  # type: ignore[union-attr]


def test_choices_are_read_from_a_file(tmp_path: Path) -> None:
    data, path = shop(tmp_path), tmp_path / "pi.csv"
    path.write_text("user,pi\nu3,0.25\n*,0.5\n")
    made = make(RunPlan(algorithm="fpl", settings={"pi": f"@{path}"}), data)
    assert isinstance(made, FPL) and isinstance(made.pi, Choice)
    assert (
        made.pi.of(
            np.array([data.users.index("u3")]), data.histories(np.array([data.users.index("u3")]))
        ).tolist()
        == [0.25] * 12
    )


def test_a_file_of_choices_is_no_number(tmp_path: Path) -> None:
    path = tmp_path / "pi.csv"
    path.write_text("user,pi\nu3,0.25\n")
    with pytest.raises(InputError, match=r"^--set factors: got 'Choice"):
        make(RunPlan(algorithm="fpl", settings={"factors": f"@{path}"}), shop(tmp_path))


def test_material_is_the_rows_and_their_splits(tmp_path: Path) -> None:
    path = str(write_shop(tmp_path / "shop.csv", users=10, rows=12))
    loo, folds = (
        material(RunPlan(algorithm="popular", data=path, protocol=name))
        for name in ("loo-20", "kfold-3")
    )
    assert len(loo.parts) == 1 and len(folds.parts) == 3
    assert loo.rows.sha256() == folds.rows.sha256()
    assert [len(part.test.rows) for part in folds.parts] == [40, 40, 40]
    assert len(loo.parts[0].test.rows) == 10 and loo.parts[0].test.candidates is not None


def test_patience_needs_validation_rows(tmp_path: Path) -> None:
    plan = RunPlan(algorithm="fpl", protocol="loo-20", patience=1, every=1)
    (part,) = material(plan, shop(tmp_path)).parts
    made = algorithm_of(plan.algorithm, {})
    check_parts(plan, [part], made)
    with pytest.raises(
        InputError,
        match=(
            r"^--patience: protocol loo-20 has no validation rows; train for a fixed number of"
            r" rounds$"
        ),
    ):
        check_parts(plan, [part, part._replace(validation=None)], made)


def test_there_must_be_somebody_to_learn_from(tmp_path: Path) -> None:
    plan = RunPlan(algorithm="fpl", protocol="loo-20")
    (part,) = material(plan, shop(tmp_path)).parts
    nothing = part.train.select(np.zeros(len(part.train), np.bool_))
    with pytest.raises(InputError, match=r"^shop: no training rows; expected at least one row"):
        check_parts(plan, [part._replace(train=nothing)], algorithm_of(plan.algorithm, {}))


def test_the_plan_of_a_stored_run_is_the_plan_that_made_it(tmp_path: Path) -> None:
    """Whatever of it the manifest of an earlier version does not have is as it was then."""
    path = str(write_shop(tmp_path / "shop.csv"))
    asked = {"protocol": "loo-20", "seed": 4, "rounds": 2, "settings": {"factors": 3}}
    made = run("fpl", path, out=tmp_path / "runs", refit=False, profile="robust", **asked)
    stored = store.read(str(made.path), tmp_path)
    plan = plan_of(stored)
    assert plan == RunPlan(algorithm="fpl", data=path, refit=False, profile="robust", **asked)
    assert list(made.manifest)[:3] == ["run", "algorithm", "data"]
    assert {one.name for one in fields(RunPlan)} - {"rounds"} <= made.manifest.keys()
    early = {name: value for name, value in stored.manifest.items() if name not in LATER}
    assert plan_of(stored._replace(manifest=early)) == RunPlan(algorithm="fpl", data=path, **asked)
