"""kill -9 at any moment, then `--resume`: the model and the metrics are those of the run that was
never interrupted.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from command_line import Command, Printed, write_shop
from forked import Forked

from entrenous.core.contract.protocols import model_sha256
from entrenous.core.errors import EntrenousWarning
from entrenous.runs import store
from entrenous.runs.options import RunOptions
from entrenous.runs.pipeline import run
from entrenous.runs.reopen import resume

KEPT = (
    "model_sha256",
    "metrics",
    "full_ranking",
    "fairness",
    "folds",
    "rounds",
    "bytes",
    "ledger",
    "by_category",
    "protocol_text",
    "notes",
)


class Case(NamedTuple):
    """A run that takes long enough to be killed. phase: the one whose checkpoints are waited for;
    step: rounds between them.
    """

    algorithm: str
    rounds: int
    step: int
    options: dict[str, Any]
    phase: str = "fold0-final"

    @property
    def arguments(self) -> list[str]:
        named = {
            "rounds": self.rounds,
            "protocol": "loo-20",
            "checkpoint-every": self.step,
            "threads": 1,
            **self.options,
        }
        given = [
            (name, one)
            for name, value in named.items()
            for one in (value if isinstance(value, list) else [value])
        ]
        return [
            "run",
            self.algorithm,
            *(text for name, value in given for text in (f"--{name}", str(value))),
        ]


LATE = [
    "clock=random",
    "latency=uniform:0:3",
    "churn=0.2",
]  # one event after the other: nothing is known to be independent


CASES = {
    "pfpl+": Case("pfpl+", 1_200, 120, {"every": 240}),
    "patience": Case("pfpl+", 600, 60, {"every": 150, "patience": 3}, "fold0-select"),
    "folds": Case("pfpl+", 400, 40, {"protocol": "kfold-3"}, "fold1-final"),
    "pepper": Case("pepper-gmf", 30, 3, {"set": "factors=4", "network": LATE, "every": 10}),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_shop(tmp_path_factory.mktemp("shop") / "shop.csv", users=60, items=80, rows=14)


@pytest.fixture(scope="module")
def uninterrupted(data: Path) -> Callable[[str], dict[str, Any]]:
    """The manifest that an interrupted run of a case must end with; made when it is asked for."""
    return cache(lambda name: _whole(CASES[name], data))


def _whole(case: Case, data: Path) -> dict[str, Any]:
    options: dict[str, Any] = {"protocol": "loo-20", **case.options}
    if "set" in options:
        name, value = options.pop("set").split("=")
        options["settings"] = {name: value}
    options["network"] = dict(text.split("=") for text in options.pop("network", []))
    return run(case.algorithm, str(data), rounds=case.rounds, threads=1, **options).manifest


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


def start(
    *arguments: object, code: str = "from entrenous.cli import main; main()"
) -> subprocess.Popen[str]:
    """A real `entrenous` in a process group of its own, which is ended by its id."""
    return Forked(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )


def checkpoints(out: Path, phase: str) -> Iterator[int]:
    """The rounds of the checkpoints of a phase that exist now."""
    for path in out.glob(f"*/checkpoint-{phase}-*.safetensors"):
        yield int(path.stem.rsplit("-", 1)[1])


def kill_after(
    process: subprocess.Popen[str], out: Path, phase: str, number: int, delay: float
) -> None:
    """SIGKILL `delay` seconds after the checkpoint of round `number` or a later one exists."""
    deadline = time.monotonic() + 240
    while max(checkpoints(out, phase), default=-1) < number:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.001)
    time.sleep(delay)
    assert process.poll() is None, "it ended before it could be killed"
    os.killpg(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    process.communicate()


def the_run(out: Path) -> str:
    (path,) = store.folders(out)
    assert store.read_manifest(path)["status"] == "running"
    return path.name


def assert_same(finished: Printed, expected: dict[str, Any], out: Path) -> None:
    said = finished.json
    assert {name: said.get(name) for name in KEPT} == {name: expected.get(name) for name in KEPT}
    (path,) = store.folders(out)
    left = {child.name for child in path.iterdir()}
    assert left - {"trace.jsonl"} == {"manifest.json", "model.safetensors", "users.safetensors"}
    assert (
        model_sha256(store.read_arrays(path / "model.safetensors")[0]) == expected["model_sha256"]
    )


# ---- kill -9 -------------------------------------------------------------------------------------


# That every algorithm goes on from its checkpoint with the same bytes is in test_conformance.py, and
# `pfpl+` is killed again and again below.
@pytest.mark.parametrize("name", ["patience", "folds", "pepper"])
def test_killed_at_some_moment(
    name: str,
    data: Path,
    uninterrupted: Callable[[str], dict[str, Any]],
    tmp_path: Path,
    command: Command,
) -> None:
    case, chance = CASES[name], np.random.default_rng([1, *name.encode()])
    number, delay = (
        int(chance.integers(1, case.rounds // case.step // 2)) * case.step,
        float(chance.uniform(0, 0.02)),
    )
    kill_after(
        start(*case.arguments, "--data", data, "--out", tmp_path, "--json"),
        tmp_path,
        case.phase,
        number,
        delay,
    )
    finished = command(
        "run", "--resume", the_run(tmp_path), "--out", tmp_path, "--threads", 1, "--json"
    )
    assert_same(finished, uninterrupted(name), tmp_path)


def test_killed_again_and_again(
    data: Path, uninterrupted: Callable[[str], dict[str, Any]], tmp_path: Path, command: Command
) -> None:
    case, chance = CASES["pfpl+"], np.random.default_rng(2)
    arguments: list[object] = [*case.arguments, "--data", data, "--out", tmp_path]
    for number in (120, 480):
        kill_after(start(*arguments), tmp_path, case.phase, number, float(chance.uniform(0, 0.02)))
        arguments = [
            "run",
            "--resume",
            the_run(tmp_path),
            "--out",
            tmp_path,
            "--checkpoint-every",
            case.step,
        ]
    last = start(*arguments, "--json", "--threads", "2")
    out, err = last.communicate(timeout=240)
    assert_same(Printed(last.returncode, out, err), uninterrupted("pfpl+"), tmp_path)
    (path,) = store.folders(tmp_path)
    assert [line["round"] for line in store.read(path.name, tmp_path).trace] == list(
        range(240, 1_201, 240)
    )
    assert command("run", "--resume", path.name, "--out", tmp_path).error.startswith(
        f"{path}: this run is finished"
    )


@pytest.mark.parametrize(
    ("step", "target"),
    [
        ("fsync", "checkpoint-fold0-final-000000360"),
        ("replace", "users.safetensors"),
        ("replace", "manifest.json"),
    ],
)
def test_killed_while_a_file_is_written(
    step: str,
    target: str,
    data: Path,
    uninterrupted: Callable[[str], dict[str, Any]],
    tmp_path: Path,
    command: Command,
) -> None:
    """In the middle of a checkpoint, between the results, and when the finished manifest is about
    to take its name.
    """
    case = CASES["pfpl+"]
    code = f"""
import os, signal, sys
from entrenous import cli
from entrenous.runs import store
write, {step} = store.write_atomically, os.{step}
def killed_in(path, content):
    if path.name.startswith({target!r}) and (path.parent / "users.safetensors").exists() >= ({target!r} == "manifest.json"):
        os.{step} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    write(path, content)
store.write_atomically = killed_in
cli.main()
"""
    process = start(*case.arguments, "--data", data, "--out", tmp_path, code=code)
    assert process.wait(timeout=240) == -signal.SIGKILL
    process.communicate()
    assert len(list(tmp_path.glob("*/.*.tmp"))) == 1
    finished = command(
        "run", "--resume", the_run(tmp_path), "--out", tmp_path, "--threads", 1, "--json"
    )
    assert_same(finished, uninterrupted("pfpl+"), tmp_path)


# ---- interruptions in this process ---------------------------------------------------------------


class Interrupted(BaseException):
    """Stands for a kill between two rounds."""


def interrupted(data: Path, out: Path, at: int, phase: int = 1, **options: Any) -> Path:
    """A run that stops at the progress report of round `at`, in the `phase`-th training; its
    folder.
    """
    trainings = 0

    def stop(done: int, total: int, what: str) -> None:
        nonlocal trainings
        trainings += done == 1
        if trainings == phase and done == at:
            raise Interrupted

    with pytest.raises(Interrupted):
        run(
            "pfpl+",
            str(data),
            out=out,
            progress=stop,
            threads=1,
            **{"protocol": "loo-20", **options},
        )
    return out / the_run(out)


def damage(path: Path, how: str) -> None:
    whole = bytearray(path.read_bytes())
    if how == "flipped":
        whole[len(whole) * 2 // 3] ^= 4
    path.write_bytes(bytes(whole[: len(whole) // 2] if how == "truncated" else whole))


@pytest.mark.parametrize("how", ["flipped", "truncated"])
@pytest.mark.parametrize("damaged", [1, 2])
def test_a_damaged_checkpoint_costs_time_and_nothing_else(
    how: str, damaged: int, data: Path, tmp_path: Path
) -> None:
    """One damaged: from the one before. Both: from the start."""
    expected = run("pfpl+", str(data), protocol="loo-20", rounds=30, every=3, threads=1).manifest
    path = interrupted(data, tmp_path, 25, rounds=30, every=3, checkpoint_every=5)
    names = sorted(path.glob("checkpoint-*"))
    assert [name.stem[-9:] for name in names] == ["000000015", "000000020"]
    for name in names[-damaged:]:
        damage(name, how)
    with pytest.warns(EntrenousWarning) as said:
        finished = resume(path.name, root=tmp_path)
    assert [str(one.message).split(": ")[0] for one in said] == [
        str(path / name) for name in reversed(names[-damaged:])
    ]
    assert {name: finished.manifest.get(name) for name in KEPT} == {
        name: expected.get(name) for name in KEPT
    }
    assert [line["round"] for line in store.read(path.name, tmp_path).trace] == list(
        range(3, 31, 3)
    )


SEARCH: dict[str, Any] = {
    "rounds": 60,
    "every": 3,
    "patience": 2,
    "settings": {"factors": 5, "learning_rate": 0.3},
}


@pytest.fixture(scope="module")
def searched(data: Path, tmp_path_factory: pytest.TempPathFactory) -> store.StoredRun:
    """A search whose patience ended just before a look that would have been better: going on must
    not find it.
    """
    out = tmp_path_factory.mktemp("searched")
    for seed in range(30):
        made = run("pfpl+", str(data), protocol="loo-20", seed=seed, threads=1, out=out, **SEARCH)
        further = run(
            "pfpl+",
            str(data),
            protocol="loo-20",
            seed=seed,
            threads=1,
            out=out,
            **{**SEARCH, "patience": 3},
        )
        if further.manifest["rounds"] > made.manifest["rounds"]:
            return store.read(str(made.path), out)
    pytest.fail("no seed in which one more look would have been better")


def looks(run: store.StoredRun) -> list[tuple[str, int, Any]]:
    return [(line["phase"], line["round"], line["validation"]) for line in run.trace]


def same_search(finished: Any, searched: store.StoredRun, stored: store.StoredRun) -> bool:
    """Whether a search that went on ended as one without interruption, and looked where it did."""
    same = all(finished.get(name) == searched.manifest.get(name) for name in KEPT)
    return same and looks(stored) == looks(searched)


@pytest.mark.parametrize(("checkpoint_every", "before_the_end"), [(1, 0), (4, 1), (7, 3), (4, 7)])
def test_the_search_for_the_best_round_goes_on_where_it_stopped(
    checkpoint_every: int,
    before_the_end: int,
    data: Path,
    searched: store.StoredRun,
    tmp_path: Path,
) -> None:
    """Whether looks, checkpoints and the interruption fall on the same round or not."""
    seed, last = searched.manifest["seed"], searched.trace[-1]["round"]
    path = interrupted(
        data,
        tmp_path,
        last - before_the_end,
        seed=seed,
        checkpoint_every=checkpoint_every,
        **SEARCH,
    )
    options = RunOptions(checkpoint_every=checkpoint_every)
    finished = resume(path.name, root=tmp_path, options=options)
    assert same_search(finished.manifest, searched, store.read(path.name, tmp_path))


@pytest.mark.parametrize("at", [1, 3])
def test_a_search_that_is_over_is_not_searched_again(
    at: int, data: Path, searched: store.StoredRun, tmp_path: Path
) -> None:
    """Interrupted in the second training: the first one's last look stays its last, whatever a
    further one would have found.
    """
    path = interrupted(
        data, tmp_path, at, phase=2, seed=searched.manifest["seed"], checkpoint_every=1, **SEARCH
    )
    rounds: list[int] = []
    finished = resume(
        path.name,
        root=tmp_path,
        progress=lambda done, total, what: rounds.append(done) if what == "round" else None,
    )
    assert same_search(finished.manifest, searched, store.read(path.name, tmp_path))
    assert rounds == list(
        range(at - 1, searched.manifest["rounds"] + 1)
    )  # the report of round `at` came before its checkpoint


def test_finished_folds_are_not_trained_again(data: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"rounds": 10, "protocol": "kfold-3", "checkpoint_every": 2}
    whole = run("pfpl+", str(data), threads=1, **options)
    path = interrupted(data, tmp_path, 7, phase=2, **options)
    rounds: list[int] = []
    finished = resume(
        path.name,
        root=tmp_path,
        progress=lambda done, total, what: rounds.append(done) if what == "round" else None,
    )
    assert finished.manifest["folds"] == whole.manifest["folds"]
    assert rounds == [
        *range(6, 11),
        *range(11),
    ]  # from the checkpoint of the second fold, and the third


def test_choices_come_from_the_copy_in_the_run(data: Path, tmp_path: Path) -> None:
    pi = tmp_path / "pi.csv"
    pi.write_text("user,pi\n*,0.5\nu3,0\n")
    options: dict[str, Any] = {"rounds": 10, "settings": {"pi": f"@{pi}"}}
    expected = run("pfpl+", str(data), protocol="loo-20", threads=1, **options).manifest[
        "model_sha256"
    ]
    path = interrupted(data, tmp_path / "runs", 5, **options)
    pi.write_text("user,pi\n*,1\n")
    assert resume(path.name, root=tmp_path / "runs").manifest["model_sha256"] == expected


# ---- what cannot be resumed ----------------------------------------------------------------------


def test_a_run_whose_data_has_changed_is_refused(tmp_path: Path, command: Command) -> None:
    data = write_shop(tmp_path / "shop.csv")
    path = interrupted(data, tmp_path / "runs", 5, rounds=10)
    before = {child.name: child.read_bytes() for child in path.iterdir()}
    data.write_text(data.read_text().replace("u3,", "u4,", 1))
    said = command("run", "--resume", path.name, "--out", tmp_path / "runs", "--json").error
    assert (
        said
        == f"{path}: the data '{data}' has changed since the run; expected the same rows; name a"
        " file that has them with --data FILE, or start a new run"
    )
    data.unlink()
    assert str(data) in command("run", "--resume", path.name, "--out", tmp_path / "runs").error
    assert {child.name: child.read_bytes() for child in path.iterdir()} == before


def test_an_unfinished_run_recommends_nothing_and_says_how_to_go_on(
    data: Path, tmp_path: Path, command: Command
) -> None:
    path = interrupted(data, tmp_path, 5, rounds=10)
    said = command("recommend", path.name, "--user", "u3", "--runs", tmp_path).error
    assert (
        said
        == f"{path}: this run is not finished; continue it with `entrenous run --resume {path}`"
    )
    assert command("run", "--resume", path, "--json").json["status"] == "finished"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (["fcf"], "another algorithm; expected algorithm = pfpl+"),
        (["--seed", "7"], "another seed; expected seed = 0"),
        (["--rounds", "20"], "another rounds; expected rounds = 10"),
        (["--protocol", "loo-21"], "another protocol; expected protocol = loo-20"),
        (["--data", "ml-1m"], "shop.csv, not of the data set ml-1m; expected the file or folder"),
        (["--set", "pi=0.5"], "another set; expected its own"),
    ],
)
def test_a_run_is_continued_as_it_was_begun(
    changed: list[str], said: str, data: Path, tmp_path: Path, command: Command
) -> None:
    path = interrupted(data, tmp_path, 5, rounds=10)
    assert said in command("run", *changed, "--resume", path.name, "--out", tmp_path).error
    same = [
        "pfpl+",
        "--rounds",
        "10",
        "--protocol",
        "loo-20",
        "--data",
        data,
        "--resume",
        path.name,
        "--out",
        tmp_path,
        "--json",
    ]
    assert command("run", *same).json["rounds"] == 10
