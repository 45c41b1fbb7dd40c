"""`entrenous.run` and `open` as a notebook uses them: objects in, frames out, the same bytes as by
name.
"""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from paths import ROOT

import entrenous
from entrenous.api.run import RunKeywords
from entrenous.cli import run as run_command
from entrenous.core.errors import InputError
from entrenous.core.keywords import field_texts
from entrenous.core.registry.own import load_place
from entrenous.data.interactions import Interactions
from entrenous.runs.conformance import conform

EXAMPLE = ROOT / "docs" / "examples" / "my_algo.py"
SMALL: dict[str, Any] = {"protocol": "loo-20", "rounds": 4, "threads": 1}
NEWCOMERS: dict[str, dict[str, Any]] = {
    "fcf": {"factors": 4},
    "cali3f-gmf": {"clusters": 2},
    "fedfast-gmf": {"clusters": 2},
}
MyAlgorithm: Any = load_place(str(EXAMPLE))


@pytest.fixture(scope="module")
def made(data: Interactions) -> entrenous.Run:
    return entrenous.run("fpl", data, every=2, **SMALL)


@pytest.mark.beside
def test_every_public_name_works_twice_after_a_plain_import() -> None:
    code = (
        "import entrenous as e\nfor name in 2 * dir(e):\n    assert getattr(e, name) is not"
        " None\nprint(len(dir(e)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(found.stdout) == len(dir(entrenous)) > 20
    assert callable(entrenous.compare) and callable(entrenous.compare)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        entrenous.nothing  # noqa: B018


def test_the_example_keeps_its_contract() -> None:
    conform(MyAlgorithm())


def test_an_instance_a_class_a_place_and_a_module_are_one_training(data: Interactions) -> None:
    by_place = entrenous.run(
        f"{EXAMPLE}:MyAlgorithm", data, settings={"weight": 2.0, "factors": 6}, **SMALL
    )
    by_object = entrenous.run(MyAlgorithm(weight=2.0, factors=6), data, **SMALL)
    by_class = entrenous.run(MyAlgorithm, data, settings={"weight": 2.0, "factors": 6}, **SMALL)
    hashes = {run.manifest["model_sha256"] for run in (by_place, by_object, by_class)}
    assert len(hashes) == 1 and by_object.manifest["settings"] == {"weight": 2.0, "factors": 6}
    assert entrenous.run(MyAlgorithm(), data, **SMALL).manifest["model_sha256"] not in hashes


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "a list of nothing"),
        ([1, 2], "a list of other things"),
        ([(1, 2), (1, 2, 3)], "a list of other things"),
        (3, "got int"),
    ],
)
def test_what_is_no_table_is_refused(rows: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        entrenous.run("popular", rows)


def test_a_short_repr_and_a_table_for_a_notebook(made: entrenous.Run) -> None:
    assert (
        repr(made).startswith("Run(fpl on shop, loo-20, seed 0, 4 rounds: hr@10 ")
        and len(repr(made)) < 200
    )
    assert (
        made._repr_html_().startswith("<table><caption>fpl on shop")
        and len(made._repr_html_()) < 1_000
    )


def test_recommendations_are_a_frame_of_external_ids(
    made: entrenous.Run, data: Interactions
) -> None:
    one, all_of_them = made.recommend("u3", 5), made.recommend(n=5)
    assert one.columns == ["user", "rank", "item", "score"]
    assert one["rank"].to_list() == list(range(1, 6))
    assert all_of_them.height == 5 * len(data.users) and all_of_them.filter(
        pl.col("user") == "u3"
    ).equals(one)
    assert made.recommend(["u3", "u1"], 1)["user"].to_list() == ["u3", "u1"]
    known = made.train.histories(np.array([data.users.index("u3")])).item
    assert not set(data.items.ids[known]) & set(one["item"]) and one["score"].is_sorted(
        descending=True
    )
    with pytest.raises(InputError, match="unknown user 'u399'"):
        made.recommend("u399")
    with pytest.raises(InputError, match=r"^n: got 0; expected a whole number from 1$"):
        made.recommend("u3", 0)


def test_accuracy_by_user_and_the_learning_curve_are_frames(made: entrenous.Run) -> None:
    users, curve = made.per_user(), made.curve()
    assert users["hr@10"].mean() == pytest.approx(made.metrics["hr@10"]) and users["user"][
        0
    ].startswith("u")
    assert curve["round"].to_list() == [2, 4] and "ndcg@10" in curve.columns


@pytest.mark.parametrize(
    "name", ["fpl", "fcf", "fedavg-gmf", "cali3f-gmf", "fedfast-gmf", str(EXAMPLE)]
)
def test_somebody_who_was_not_in_training_gets_a_list(name: str, data: Interactions) -> None:
    """The lists of two tastes differ, and each prefers its own: even items for even users."""
    run = entrenous.run(
        name,
        data,
        **{**SMALL, "rounds": 40 if name.endswith("gmf") else 20},
        settings=NEWCOMERS.get(name, {}),
    )
    even, odd = (
        run.recommend_for([f"i{n}" for n in range(first, 60, 2) if f"i{n}" in data.items][:8], 5)
        for first in (0, 1)
    )
    assert even.columns == ["rank", "item", "score"] and even.height == 5
    assert set(even["item"]) != set(odd["item"])
    given = [f"i{n}" for n in range(0, 60, 2) if f"i{n}" in data.items][:8]
    assert not set(given) & set(run.recommend_for(given, 60)["item"])
    assert run.recommend_for(["i2", "i4"], 3).equals(run.recommend_for(["i4", "i2"], 3))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("user-knn", "it was fitted to the rows of all of them together"),
        ("pepper-gmf", "a newcomer has received none"),
        ("metamf", "its server makes a part of each user's model, which no device can make"),
    ],
)
def test_an_algorithm_that_needs_its_users_says_so(
    name: str, reason: str, data: Interactions
) -> None:
    run = entrenous.run(
        name,
        data,
        seed=0,
        rounds=1,
        split="random-80-20" if name == "metamf" else "loo-20",
    )
    with pytest.raises(
        InputError,
        match=f"recommend_for: {name} can recommend to nobody but the users it was trained with:"
        f".*{reason}",
    ):
        run.recommend_for(["i2"])


def test_an_unknown_item_or_none_at_all(made: entrenous.Run) -> None:
    with pytest.raises(InputError, match="unknown item 'i999'"):
        made.recommend_for(["i2", "i999"])
    with pytest.raises(InputError, match="there are no items"):
        made.recommend_for([])


def test_saved_and_opened_a_run_from_a_frame_is_the_same(
    made: entrenous.Run, tmp_path: Path
) -> None:
    path = made.save(tmp_path / "kept")
    again = entrenous.open(path)
    assert (
        again.recommend(n=4).equals(made.recommend(n=4))
        and again.metrics == made.metrics
        and again.curve().equals(made.curve())
    )
    assert again.per_user().equals(made.per_user()) and again.recommend_for(["i2"], 3).equals(
        made.recommend_for(["i2"], 3)
    )
    page = again.report(tmp_path / "report.html", user="u3").read_text()
    assert "loo-20" in page and str(tmp_path) not in page
    with pytest.raises(InputError, match="is there already"):
        made.save(tmp_path / "kept")


def test_a_run_of_a_class_is_opened_with_the_class(data: Interactions, tmp_path: Path) -> None:
    made = entrenous.run(MyAlgorithm, data, out=tmp_path / "runs", **SMALL)
    with pytest.raises(InputError, match="it was trained by the user's own algorithm MyAlgorithm"):
        entrenous.open(root=tmp_path / "runs")
    assert (
        entrenous.open(root=tmp_path / "runs", algorithm=MyAlgorithm)
        .recommend("u1")
        .equals(made.recommend("u1"))
    )


def test_a_split_and_a_metric_of_ones_own(data: Interactions) -> None:
    def last_row(data: Interactions, seed: int = 0) -> entrenous.Split:
        last = np.zeros(len(data), bool)
        last[data.ptr[1:] - 1] = True
        return entrenous.Split(
            "last-row", data.select(~last), None, entrenous.Held(data.select(last)), refit=False
        )

    def reciprocal(ranking: Any, n: int) -> Any:
        return np.where(ranking.rank <= n, 1 / ranking.rank, 0.0)

    made = entrenous.run("popular", data, split=last_row, metrics=[reciprocal])
    assert made.manifest["protocol"] == "last-row" and made.metrics[
        "reciprocal@10"
    ] == pytest.approx(made.metrics["mrr@10"])
    again = entrenous.run(
        "popular", data, split=last_row(data), metrics={"own": entrenous.QueryMetric(reciprocal)}
    )
    assert again.metrics["own@5"] == made.metrics["reciprocal@5"]
    with pytest.raises(InputError, match="split: got "):
        entrenous.run("popular", data, split=lambda data, seed: [data])
    with pytest.raises(InputError, match="metrics 3: got int"):
        entrenous.run("popular", data, metrics=[3])


def test_each_round_is_told(data: Interactions) -> None:
    """A logger got every step twice, of a first training and of the final one."""
    told: list[entrenous.Round] = []
    run = entrenous.run("fpl", data, every=2, on_round=told.append, **SMALL)
    phases = ["fold0-select"] * 4 + ["fold0-final"] * 4
    assert [(each.phase, each.round) for each in told] == list(
        zip(phases, [1, 2, 3, 4] * 2, strict=True)
    )
    looked = [each for each in told if "hr@10" in each.metrics]
    assert [each[:2] for each in looked] == run.curve().select("phase", "round").rows()
    told.clear()
    run = entrenous.run("fpl", data, every=2, refit=False, on_round=told.append, **SMALL)
    assert {each.phase for each in told} == set(run.curve()["phase"]) == {"fold0-final"}


def test_progress_is_shown_where_it_is_asked_for(
    data: Interactions, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[int] = []
    entrenous.run("fpl", data, progress=lambda done, total, what: seen.append(done), **SMALL)
    assert 4 in seen and capsys.readouterr().err == ""
    entrenous.run("fpl", data, progress=True, **SMALL)
    assert "round 4/4" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rounds": 0}, "^rounds: got 0; expected a whole number from 1$"),
        ({"settings": {"pi": 2}}, r"^settings\['pi'\]: got '2'"),
        (
            {"patience": 2},
            "^patience: there are no looks at validation; say how often to look with every=ROUNDS$",
        ),
        ({"load": {"usr": "x"}}, r"^load\['usr'\]: unknown setting; did you mean 'user'"),
        ({"checkpoint_every": -1}, "^checkpoint_every: got -1"),
    ],
)
def test_errors_speak_of_arguments(options: dict[str, Any], said: str, data: Interactions) -> None:
    with pytest.raises(InputError, match=said):
        entrenous.run("fpl", data, **{**SMALL, **options})


@pytest.mark.parametrize(
    ("algorithm", "said"),
    [(3, "algorithm: got int"), (dict, "algorithm: got dict"), ("./no.py", "cannot be read")],
)
def test_what_is_no_algorithm(algorithm: Any, said: str, data: Interactions) -> None:
    with pytest.raises(InputError, match=said):
        entrenous.run(algorithm, data)


def test_a_table_is_compared_in_python(
    data: Interactions, made: entrenous.Run, tmp_path: Path
) -> None:
    found = entrenous.compare(
        [MyAlgorithm(), MyAlgorithm(weight=3.0), "popular"],
        data,
        seeds=2,
        out=tmp_path / "runs",
        **SMALL,
    )
    assert [row["algorithm"] for row in found.found["rows"]] == [
        "MyAlgorithm",
        "MyAlgorithm weight=3.0",
        "popular",
    ]
    assert (
        found.tests()["b"].to_list() == 2 * ["MyAlgorithm weight=3.0", "popular"]
        and found.table().height == 3
    )
    assert len(list((tmp_path / "runs").iterdir())) == 6
    text = found.latex()
    assert (
        r"\toprule" in text
        and r"MyAlgorithm weight=3.0" in text
        and "loo-20, mean $\\pm$ sample standard deviation over seeds 0-1" in text
    )
    assert found.csv().splitlines()[0].startswith("algorithm,") and repr(found).count("\n") == 4
    runs = [entrenous.run(name, data, **SMALL) for name in ("fpl", "popular")]
    both = entrenous.compare(runs)
    assert (
        both.found["rows"][0]["metrics"]["hr@10"] == made.metrics["hr@10"]
        and both.found["seeds"] == 1
    )
    third = entrenous.run("popular", data, **{**SMALL, "seed": 3})
    mixed = entrenous.compare(
        [third, "random"], data, **SMALL
    )  # what is trained beside it has its seed
    assert mixed.found["rows"][1]["per_seed"]["hr@10"] == [
        entrenous.run("random", data, **{**SMALL, "seed": 3}).metrics["hr@10"]
    ]
    with pytest.raises(InputError, match="runs differ in data_sha256"):
        entrenous.compare([third, "random"], data.select(np.arange(len(data)) % 9 > 0), **SMALL)
    with pytest.raises(InputError, match="runs differ in protocol"):
        entrenous.compare([runs[0], entrenous.run("popular", data, protocol="random-80-20")])


# ---- options are said once -----------------------------------------------------------------------


def test_an_unknown_option_is_one_helpful_line() -> None:
    with pytest.raises(InputError) as bad:
        entrenous.run("popular", thread=2)
    assert str(bad.value) == "run: unknown option 'thread'; did you mean 'threads'?"


def test_the_command_and_the_function_have_the_same_options() -> None:
    command = set(inspect.signature(run_command.run).parameters)
    function = set(inspect.signature(entrenous.run).parameters)
    assert command - function == {"resume", "todays_code", "json"}
    assert function - command == {"split", "metrics", "on_round", "progress"}
    assert function - {"algorithm", "data"} <= set(field_texts(RunKeywords))


def test_the_documentation_of_the_function_is_that_of_its_options() -> None:
    said = " ".join((entrenous.run.__doc__ or "").split())
    assert "threads: Threads over devices, 0 = all cores; with workers of each of them" in said
    assert "refit=False: on the training rows alone" in said
    assert "protocol: How rows are held out: see `entrenous run --help`." in said
    assert "--" not in re.sub("`[^`]*`", "", said) and "{protocols}" not in said
