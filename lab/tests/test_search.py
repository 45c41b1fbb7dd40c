"""Search: what it may choose from, that it is the same search every time, and that it survives."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from command_line import with_fewer_test_rows, write_shop
from entrenous_lab.search.__main__ import main
from entrenous_lab.search.space import Choices, Range, read_space
from entrenous_lab.search.tpe import COMPLETE, SearchFound, SearchRequest, try_space
from forked import Forked

from entrenous.core.errors import InputError
from entrenous.data.interactions import Interactions

SPACE = {"learning_rate": "0.001..1:log", "factors": "2..6", "pi": "0.5,1"}


def search(algorithm: str, data: str | Interactions, **options: Any) -> SearchFound:
    return try_space(SearchRequest(algorithm, data, **options))


def searched(data: str | Interactions, **options: Any) -> SearchFound:
    usual: dict[str, Any] = {"protocol": "loo-20", "space": SPACE, "trials": 14, "rounds": 6}
    return search("pfpl+", data, **{**usual, **options})


# ---- what to choose from -------------------------------------------------------------------------


def test_ranges_and_values() -> None:
    found = read_space(
        "pfpl+", {**SPACE, "reg_user": "0..1", "triples": "1..1000:log", "cohort": "0, 5"}, {}
    )
    assert found == {
        "learning_rate": Range(0.001, 1.0, log=True, whole=False),
        "factors": Range(2, 6, log=False, whole=True),
        "pi": Choices(("0.5", "1")),
        "reg_user": Range(0, 1, log=False, whole=False),  # float | None
        "triples": Range(1, 1000, log=True, whole=True),
        "cohort": Choices(("0", "5")),
    }


def test_a_drawn_number_is_as_long_as_it_is_shown_and_within_the_range() -> None:
    narrow = Range(0.123456, 0.123458, log=False, whole=False)
    assert narrow.rounded(0.1234571) == 0.1234571  # 0.1235 lies above
    assert Range(0.01, 1, log=True, whole=False).rounded(0.0317748) == 0.03177
    assert Range(1, 5000, log=False, whole=True).rounded(4321) == 4321


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            {},
            "--search: there is nothing to choose from; expected name=a..b or name=value,value,...",
        ),
        ({"fators": "1..2"}, "--search fators: unknown setting; did you mean 'factors'"),
        ({"factors": "8..8"}, "--search factors: got '8..8'; expected a range a..b with a below b"),
        ({"factors": "9..8"}, "a range a..b with a below b"),
        ({"factors": "2..6.5"}, "--search factors: got '2..6.5'; expected whole numbers"),
        ({"factors": "0..8"}, "--search factors: got '0'; expected greater than or equal to 1"),
        (
            {"factors": "8..5000"},
            "--search factors: got '5000'; expected less than or equal to 4096",
        ),
        ({"factors": "8,0"}, "--search factors: got '0'"),
        ({"factors": "8,"}, "--search factors: got ''"),
        ({"learning_rate": "0..1"}, "--search learning_rate: got '0.0'; expected greater than 0"),
        ({"reg_user": "0..1:log"}, "--search reg_user: got '0..1:log'; expected a range above 0"),
        ({"learning_rate": "0.1..1:lin"}, "expected a..b or a..b:log"),
        (
            {"learning_rate": "0.1..x"},
            "--search learning_rate: got 'x'; expected a number at each end",
        ),
        ({"learning_rate": "..1"}, "--search learning_rate: got ''; expected a number"),
        ({"learning_rate": "1..inf"}, "--search learning_rate: got 'inf'; expected a number"),
        (
            {"user_step": "1..2"},
            "--search user_step: got '1..2'; expected values, as it is not a number",
        ),
        ({"user_step": "triple,twice"}, "--search user_step: got 'twice'"),
    ],
)
def test_a_bad_space_is_refused_before_anything_is_trained(
    asked: dict[str, str], said: str, data: Interactions
) -> None:
    begun: list[str] = []
    with pytest.raises(InputError) as refused:
        searched(data, space=asked, progress=lambda done, total, what: begun.append(what))
    assert said in str(refused.value) and begun == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"trials": 0}, "--trials: got 0"),
        ({"search_seed": -1}, "--search-seed: got -1"),
        ({"seeds": 0}, "--seeds: got 0"),
        ({"every": -1}, "--every: got -1"),
        ({"rounds": 0}, "--rounds: got 0"),
        ({"settings": {"reg_bais": "1"}}, "--set reg_bais: unknown setting"),
        ({"settings": {"reg_user": "-1"}}, "--set reg_user: got '-1'"),
        ({"settings": {"factors": "4"}}, "--search factors: it is fixed with --set too"),
        ({"protocol": "loo-x"}, "unknown protocol 'loo-x'"),
        (
            {"resume": True},
            "--resume: there is no file to go on from; name it with --out FILE.jsonl",
        ),
        ({"resume": True, "out": Path("none.jsonl")}, "--resume none.jsonl: there is no such"),
    ],
)
def test_so_is_anything_else(options: dict[str, Any], said: str, data: Interactions) -> None:
    begun: list[str] = []
    with pytest.raises(InputError) as refused:
        searched(data, progress=lambda done, total, what: begun.append(what), **options)
    assert said in str(refused.value) and begun == []


# ---- the search ----------------------------------------------------------------------------------


def test_the_same_search_every_time_and_the_same_beginning_of_a_longer_one(
    data: Interactions, tmp_path: Path
) -> None:
    files = [tmp_path / name for name in ("one", "again", "longer", "other")]
    found = [
        searched(data, out=file, trials=n, search_seed=seed)
        for file, n, seed in zip(files, (14, 14, 18, 14), (3, 3, 3, 4), strict=True)
    ]
    one, again, longer, other = (file.read_bytes() for file in files)
    assert found[0] == found[1] and one == again
    assert longer.startswith(one) and longer != one
    assert not any(line in other for line in one.split(b"\n")[1:] if line)


def test_test_rows_change_nothing(data: Interactions, tmp_path: Path) -> None:
    """Half of the test rows are taken away; the search goes the same way to the last digit."""
    folders = with_fewer_test_rows(data, tmp_path)
    whole, less = (searched(str(folder), protocol="given", trials=12) for folder in folders)
    assert whole["rows"] == less["rows"]


def lines(path: Path) -> list[dict[str, Any]]:
    """The trials in a file."""
    return [json.loads(line) for line in path.read_text().splitlines()[1:]]


def curve(trial: dict[str, Any]) -> dict[int, float]:
    return {int(at): metrics["ndcg@10"] for at, metrics in trial["looks"][0].items()}


def test_a_trial_below_the_median_is_stopped_and_no_other(
    data: Interactions, tmp_path: Path
) -> None:
    out = tmp_path / "trials.jsonl"
    found = searched(data, every=3, rounds=18, trials=20, out=out, seeds=2)
    trials, stopped = lines(out), 0
    for number, trial in enumerate(trials):
        ended = [past for past in trials[:number] if not past["stopped"]]
        best, last = 0.0, max(curve(trial))
        for at, value in sorted(curve(trial).items()):
            best = max(best, value)
            worse = (
                len(ended) >= COMPLETE
                and 6 <= at < 18
                and best < median(curve(past)[at] for past in ended)
            )
            assert worse == (trial["stopped"] and at == last), (number, at)
        assert len(trial["looks"]) == (
            1 if trial["stopped"] else 2
        )  # the second seed is not trained
        stopped += trial["stopped"]
    assert 0 < stopped == len(found["stopped"]) and len(found["rows"]) == 20 - stopped


def test_what_diverges_or_does_not_go_together_is_told_and_the_search_goes_on(
    data: Interactions,
) -> None:
    found = search(
        "fcf",
        data,
        protocol="loo-20",
        space={"learning_rate": "0.05,1e38", "cohort": "30..50"},
        trials=8,
        rounds=3,
    )
    reasons = [one["reason"] for one in found["failed"]]
    assert any("finite" in reason for reason in reasons)
    assert any(
        "--set cohort: got " in reason and "expected at most 40" in reason for reason in reasons
    )
    assert len(found["rows"]) + len(reasons) == 8 and len(found["rows"]) > 0
    assert all(
        row["settings"]["learning_rate"] == "0.05" and row["settings"]["cohort"] <= 40
        for row in found["rows"]
    )
    with pytest.raises(InputError, match="none of the 2 trials could be trained; the first: "):
        search(
            "fcf",
            data,
            protocol="loo-20",
            space={"learning_rate": "1e38", "factors": "2,3"},
            trials=9,
            rounds=3,
        )


# ---- going on ------------------------------------------------------------------------------------


def arguments(data: Path, out: Path) -> list[str]:
    """The words of a search of nine trials."""
    space = ["--search", "learning_rate=0.001..1:log", "--search", "factors=2..6"]
    options = {"data": data, "protocol": "loo-20", "rounds": 600, "every": 200, "trials": 9}
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return ["pfpl+", *space, *words, "--threads", "1", "--out", str(out)]


def test_a_killed_search_goes_on_and_ends_with_the_same_bytes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_shop(tmp_path / "shop.csv")
    main(arguments(data, tmp_path / "whole.jsonl"))
    whole = capsys.readouterr().out
    out = tmp_path / "killed.jsonl"
    command = [sys.executable, "-m", "entrenous_lab.search", *arguments(data, out)]
    going = Forked(command, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 240
    while time.monotonic() < until and not (out.exists() and len(lines(out)) >= 2):
        time.sleep(0.005)
    os.kill(going.pid, signal.SIGKILL)
    assert going.wait(240) == -signal.SIGKILL
    assert 2 <= len(lines(out)) < 9
    with open(out, "a", encoding="utf-8") as file:
        file.write('{"trial": 2, "setti')  # as a kill in the middle of a write would leave it
    main([*arguments(data, out), "--resume"])
    assert capsys.readouterr().out == whole
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


@pytest.fixture(scope="module")
def begun(data: Interactions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A search of three trials in a file."""
    out = tmp_path_factory.mktemp("begun") / "trials.jsonl"
    searched(data, trials=3, out=out)
    return out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"search_seed": 1},
            "it is a search with another seed; expected seed = 0; or begin a new search with --out",
        ),
        ({"rounds": 7}, "it is a search with another rounds; expected rounds = 6"),
        (
            {"space": {**SPACE, "factors": "2..7"}},
            "it is a search with another search; expected search = ",
        ),
        (
            {"settings": {"init_std": "1"}},
            "it is a search with another settings; expected settings = {}",
        ),
    ],
)
def test_another_search_does_not_go_on(
    options: dict[str, Any], said: str, data: Interactions, begun: Path
) -> None:
    before = begun.read_bytes()
    with pytest.raises(InputError) as refused:
        searched(data, out=begun, resume=True, **options)
    assert said in str(refused.value) and begun.read_bytes() == before


@pytest.mark.parametrize(
    ("number", "line", "said"),
    [
        (0, "[]", ":1: this is not the file of a search; expected one that --out wrote"),
        (0, "{", ":1: this is not the file of a search"),
        (2, "{", ":3: the line is damaged; expected trial 1; cut the file before this line"),
        (
            2,
            '{"trial": 1, "settings": {}, "looks": [{}], "stopped": false, "reason": ""}',
            ":3: the line is damaged",
        ),
        (
            2,
            (
                '{"trial": 1, "settings": {}, "looks": [{"6": {"hr@10": 1}}], "stopped": false,'
                ' "reason": ""}'
            ),
            ":3: the line is damaged",
        ),
        (
            2,
            '{"trial": 7, "settings": {}, "looks": [], "stopped": false, "reason": "x"}',
            ":3: the line is damaged",
        ),
    ],
)
def test_a_damaged_file_is_one_line(
    number: int, line: str, said: str, data: Interactions, begun: Path, tmp_path: Path
) -> None:
    whole = begun.read_text().splitlines()
    whole[number] = line
    (tmp_path / "damaged.jsonl").write_text("".join(f"{one}\n" for one in whole))
    with pytest.raises(InputError) as refused:
        searched(data, out=tmp_path / "damaged.jsonl", resume=True)
    assert said in str(refused.value)


def test_the_command_prints_the_best(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "trials.jsonl"
    data = str(write_shop(tmp_path / "shop.csv"))
    words = ["pfpl+", "--data", data, "--protocol", "loo-20", "--rounds", "4", "--set", "pi=0.5"]
    main([*words, "--search", "factors=2..6", "--trials", "3", "--out", str(out)])
    best = json.loads(capsys.readouterr().out)
    figures = [curve(trial)[4] for trial in lines(out)]
    assert best["validation"]["ndcg@10"] == max(figures) and len(figures) == 3
    assert best["settings"]["pi"] == "0.5"
    with pytest.raises(InputError, match="it is there already"):
        main([*words, "--search", "factors=2..6", "--out", str(out)])
