"""Scores and lists of other programs: our metrics of them, and files that are refused in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from command_line import Command
from small_data import interactions, random_data

import entrenous
from entrenous.core.errors import InputError
from entrenous.data.split.export import write
from entrenous.data.split.protocol import splits
from entrenous.data.split.types import Held, Split
from entrenous.runs.outside import read_scores


@pytest.fixture(scope="module")
def split() -> Split:
    (made,) = splits("loo-9", random_data(), seed=0)
    return made


def value_of(found: entrenous.EvaluatedFiles, metric: str, file: str | None = None) -> float:
    """The value of a metric of a file, of the only one by default."""
    table = found.table().filter(pl.col("metric") == metric)
    return table.filter(pl.col("file") == (file or table["file"][0]))["value"].item()


def written(path: Path, split: Split, scores: np.ndarray, users: np.ndarray | None = None) -> Path:
    """A file of the scores of every item for every user, or for some."""
    data = split.train
    lines = ["user,item,score"]
    for u in range(len(data.users)) if users is None else users:
        lines += [
            f"{data.users[u]},{data.items[i]},{s!r}" for i, s in enumerate(scores[u].tolist())
        ]
    path.write_text("\n".join(lines) + "\n")
    return path


def all_scores(made: entrenous.Run) -> np.ndarray:
    return made.recommender.scores(np.arange(len(made.train.users)))


def test_scores_and_lists_of_a_run_have_the_figures_of_the_run(
    tmp_path: Path, split: Split
) -> None:
    """popular has equal scores, whose order is the seed's."""
    for name in ("popular", "bpr-mf"):
        made = entrenous.run(name, split=split, seed=3)
        file = written(tmp_path / f"{name}.csv", split, all_scores(made))
        found = entrenous.evaluate_files(file, split=split, seed=3)
        for metric in ("hr@10", "ndcg@5", "auc", "gini@10"):
            assert value_of(found, metric) == pytest.approx(made.metrics[metric], abs=1e-12)
        full = made.manifest["full_ranking"]
        assert value_of(found, "full ndcg@10") == pytest.approx(full["ndcg@10"], abs=1e-12)
        lists = made.trec(tmp_path / name, n=12).run
        of_lists = entrenous.evaluate_files(lists, split=split, full=True, seed=3)
        assert value_of(of_lists, "ndcg@10") == pytest.approx(full["ndcg@10"], abs=1e-12)
        assert value_of(of_lists, "gini@10") == pytest.approx(full["gini@10"], abs=1e-12)
        assert of_lists.table().filter(pl.col("metric") == "auc").is_empty()


def test_the_candidates_alone_have_the_sampled_figures(tmp_path: Path, split: Split) -> None:
    made = entrenous.run("bpr-mf", split=split)
    scores, train, held = all_scores(made), split.train, split.test
    rows = []
    for u, i, others in zip(held.rows.user, held.rows.item, held.candidates, strict=True):
        for j in [i, *others[others >= 0]]:
            rows.append(f"{train.users[u]}\t{train.items[j]}\t{float(scores[u, j])!r}")
    file = tmp_path / "candidates.tsv"
    file.write_text("\n".join(["user_id\titem_id\tscore", *sorted(set(rows))]))
    found = entrenous.evaluate_files(file, split=write(split, tmp_path / "exported"))
    assert value_of(found, "hr@10") == pytest.approx(made.metrics["hr@10"])
    names = found.table()["metric"].to_list()
    assert "gini@10" not in names and not any(name.startswith("full") for name in names)
    assert "worst_decile_ndcg@10" in names


def test_equal_scores_and_absent_items_do_not_favour_what_is_held_out(
    tmp_path: Path, split: Split
) -> None:
    same = np.zeros((len(split.train.users), len(split.train.items)))
    file = written(tmp_path / "same.csv", split, same)
    hits = [
        value_of(entrenous.evaluate_files(file, split=split, full=True, seed=seed), "hr@5")
        for seed in range(8)
    ]
    # 5 of about 20 items that compete, were it chance: the same shuffle for all users is no bias.
    assert 0.1 < np.mean(hits) < 0.4
    first = tmp_path / "first.csv"
    popular = split.train.items[int(np.argmax(split.train.popularity))]
    first.write_text(
        "user,item,rank\n" + "".join(f"{user},{popular},1\n" for user in split.train.users.ids)
    )
    found = entrenous.evaluate_files(first, split=split, full=True)
    held = split.test.rows
    hit = np.mean(held.item[np.argsort(held.user)] == split.train.items.indices([popular])[0])
    assert value_of(found, "hr@20") == pytest.approx(hit) and hit < 1
    assert any("lists have 1 to 1 items" in note for note in found.notes)


def test_late_digits_count_and_no_float32_joins_them(tmp_path: Path, split: Split) -> None:
    items = len(split.train.items)
    fine = np.tile(1e9 + np.arange(items) * 1e-6, (len(split.train.users), 1))
    scores = read_scores(written(tmp_path / "fine.csv", split, fine), split, "fine.csv")
    assert np.array_equal(scores.scores(np.array([5]))[0], np.arange(items) - (items - 1.0))


def test_users_without_a_line_count_as_missed_or_are_left_out(tmp_path: Path, split: Split) -> None:
    made = entrenous.run("bpr-mf", split=split)
    users = np.unique(split.test.rows.user)
    half = written(tmp_path / "half.csv", split, all_scores(made), users[::2])
    whole = written(tmp_path / "whole.csv", split, all_scores(made))
    counted = entrenous.evaluate_files(half, whole, split=split)
    without = entrenous.evaluate_files(half, whole, split=split, ignore_missing=True)
    share = len(users[::2]) / len(users)
    of_half = value_of(without, "hr@10", "half.csv")
    assert value_of(counted, "hr@10", "half.csv") == pytest.approx(of_half * share)
    assert value_of(without, "hr@10", "whole.csv") == of_half
    assert any("users without a line: " in note for note in counted.notes)
    assert any("users left out" in note for note in without.notes)
    test = counted.tests().filter(pl.col("metric") == "hr@10").row(0, named=True)
    assert test["b"] == "whole.csv" and test["difference"] < 0 and test["users"] == len(users)
    (empty,) = [written(tmp_path / "one.csv", split, all_scores(made), users[:0])]
    empty.write_text(f"user,item,score\n{_idle(split)},i1,1\n")
    with pytest.raises(InputError, match="no user has a line in every file"):
        entrenous.evaluate_files(empty, split=split, ignore_missing=True, full=True)


def _idle(split: Split) -> str:
    """A user without held-out rows."""
    return split.train.users[int(np.flatnonzero(split.test.rows.counts == 0)[0])]


HEAD = "user,item,score\n"
BAD = {
    "unknown user": (HEAD + "u2,i1,1\nnobody,i1,2\n", ":3: user 'nobody' is not in the split"),
    "unknown item": (HEAD + "u2,nothing,1\n", ":2: item 'nothing' is not in the split"),
    "no id": (HEAD + ",i1,1\n", ":2: user '' is not in the split"),
    "twice": (
        HEAD + "u2,i1,1\nu3,i1,1\nu2,i1,2\n",
        ":4: user 'u2', item 'i1' again, as in {file}:2;",
    ),
    "not a number": (HEAD + "u2,i1,NaN\n", ":2: the score is 'NaN'"),
    "infinite": (HEAD + "u2,i1,1\nu2,i2,-inf\n", ":3: the score is '-inf'"),
    "a word": ("user,item,rank\nu2,i1,first\n", ":2: the rank is 'first'"),
    "no score": (HEAD + "u2,i1,\n", ":2: the score is ''"),
    "too few fields": (HEAD + "u2,i1\n", ":2: 2 columns; expected a header"),
    "too many fields": (HEAD + "u2,i1,1\nu2,i2,1,1\n", ":3: 4 columns; expected a header"),
    "no column": ("user,item,stars\nu2,i1,1\n", ": the columns are user, item, stars"),
    "neither": ("hello\n", ":1: only one column"),
    "empty": ("", ": the file is empty"),
    "header alone": (HEAD, ":1: there are no rows after the header"),
    "short run": ("u2 Q0 i1 1 0.5 me\nu2 Q0 i2 2\n", ":2: got 'u2 Q0 i2 2'"),
    "candidates": (HEAD + "u2,i1,1\n", ":2: user 'u2' has no score for "),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_with_its_line(name: str, tmp_path: Path, split: Split) -> None:
    content, said = BAD[name]
    file = tmp_path / "a.csv"
    file.write_text(content)
    with pytest.raises(InputError) as refused:
        entrenous.evaluate_files(file, split=split)
    assert str(refused.value).startswith(f"{file}{said.format(file=file)}")


def test_other_files_that_are_refused(tmp_path: Path, split: Split) -> None:
    (tmp_path / "b.csv").write_bytes(b"\xff\xfe\x00user")
    for given, said in (
        ((tmp_path / "none.csv",), "no such file"),
        ((tmp_path / "b.csv",), "the file is UTF-16"),
        ((tmp_path,), "it is a folder"),
        ((), "no file"),
        (("a.csv", "a.csv"), "named twice"),
    ):
        with pytest.raises(InputError, match=said):
            entrenous.evaluate_files(*given, split=split)


def test_ids_that_became_decimal_numbers_and_quoted_formulas(tmp_path: Path) -> None:
    rows = [(user, str(i)) for user in ("1", "=2") for i in range(8)]
    data = interactions(rows)
    # Of user 1 the items 6 and 7 are held out, of the other one 0 and 1.
    held = np.isin(np.arange(len(data)), [6, 7, 8, 9])
    split = Split("own", data.select(~held), None, Held(data.select(held)), False)
    file = tmp_path / "a.csv"
    file.write_text("user,item,score\n1.0,7,1\n")
    with pytest.raises(InputError, match="write '1': the program has turned the ids"):
        entrenous.evaluate_files(file, split=split)
    file.write_text("user,item,score\n'=2,0,2\n'=2,1,1\n1,6,1\n1,7,2\n")
    found = entrenous.evaluate_files(file, split=split)
    assert value_of(found, "hr@5") == 1


def test_the_command_prints_metrics_intervals_and_tests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], split: Split
) -> None:
    command: Callable[..., object] = Command(capsys)
    folder = write(split, tmp_path / "exported")
    scores = np.random.default_rng(0).random((len(split.train.users), len(split.train.items)))
    one = written(tmp_path / "one.csv", split, scores)
    two = written(tmp_path / "two.csv", split, -scores)
    said = command("evaluate", one, two, "--split", folder)
    assert said.code == 0 and "one.csv - two.csv" in said.out and " to " in said.out
    report = command("evaluate", one, "--split", folder, "--json").json
    assert report["files"] == ["one.csv"] and report["tests"] == []
    two.write_text(HEAD + "u2,i1,x\n")
    bad = command("evaluate", two, "--split", folder)
    assert bad.code == 2 and bad.err.startswith(f"error: {two}:2: the score is 'x'")
