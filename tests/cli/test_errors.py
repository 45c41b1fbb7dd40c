"""What goes wrong for a user: one line on stderr that starts with `error: `, nothing on stdout,
nothing written, exit code 2.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Command, write_shop
from forked import Forked

LONG = [
    "run",
    "pfpl+",
    "--data",
    "shop.csv",
    "--protocol",
    "loo-20",
    "--rounds",
    "1000000",
    "--checkpoint-every",
    "50",
    "--threads",
    "1",
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder; it holds shop.csv and, with three users, few.csv."""
    monkeypatch.chdir(tmp_path)
    write_shop(tmp_path / "shop.csv")
    write_shop(tmp_path / "few.csv", users=3)
    return tmp_path


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


def contents(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


RUN = ["run", "fpl", "--data", "shop.csv", "--protocol", "loo-20"]
BAD = {
    # the command line itself
    "unknown command": (["rnu"], 'Unknown command "rnu". Did you mean "run"?'),
    "unknown option": ([*RUN, "--rond", "3"], "Unknown option: --rond"),
    "folder of runs": ([*RUN, "--runs", "x"], "`run` writes runs into --out, and"),
    "address": (["data", "check", "https://e.org/a.csv"], "https://e.org/a.csv: it is an address"),
    "option without value": (["run", "fpl", "--data"], "parameter --data requires an argument"),
    "too many arguments": ([*RUN, "extra"], "Unused Tokens: ['extra']"),
    "not a number": (
        [*RUN, "--rounds", "many"],
        'Invalid value for --rounds: unable to convert "many" into int',
    ),
    "twice": ([*RUN, "--seed", "1", "--seed", "2"], "Parameter --seed specified multiple times"),
    "no algorithm": (
        ["run"],
        "entrenous run: no algorithm was named; expected a name of `entrenous algorithms`",
    ),
    "no user": (["recommend"], "parameter --user requires an argument"),
    "no bench": (["bench"], "parameter NAME requires an argument"),
    "no experiment": (["experiment"], "parameter NAME requires an argument"),
    "no folder": (["split", "shop.csv"], "parameter --out requires an argument"),
    "nothing to compare": (
        ["compare", "fpl"],
        "got ['fpl']; expected two or more different algorithms",
    ),
    # names
    "algorithm": (
        ["run", "pfpl++"],
        "algorithm: unknown algorithm 'pfpl++'; did you mean 'pfpl+'?",
    ),
    "algorithm to explain": (["explain", "poplar"], "did you mean 'popular'?"),
    "algorithm to compare": (
        ["compare", "fpl", "poplar", "--data", "shop.csv"],
        "did you mean 'popular'?",
    ),
    "data": (
        ["run", "fpl", "--data", "ml-100"],
        "data: unknown data set 'ml-100', and there is no such file; expected a name or a path",
    ),
    "file": (["run", "fpl", "--data", "none.csv"], "none.csv: "),
    "protocol": (
        ["run", "fpl", "--data", "shop.csv", "--protocol", "lo-99"],
        "protocol: unknown protocol 'lo-99'; did you mean 'loo-99'?",
    ),
    "bench": (["bench", "fpl-epok"], "bench: unknown bench 'fpl-epok'; did you mean 'fpl-epoch'?"),
    "experiment": (
        ["experiment", "fpl-table5"],
        "experiment: unknown experiment 'fpl-table5'; did you mean 'fpl-table",
    ),
    "run": (["recommend", "nope", "--user", "u3"], "run: 'nope' is not a run"),
    "run to report": (["report", "nope"], "run: 'nope' is not a run"),
    "no run yet": (
        ["recommend", "--user", "u3"],
        "run: no finished run under runs; make one with `entrenous run`",
    ),
    # numbers and settings: kind 42 of the malformed inputs
    "N > U": (
        [*RUN, "--set", "cohort=41"],
        "--set cohort: got 41; expected at most 40, the users of shop",
    ),
    "threads negative": (
        [*RUN, "--threads", "-2"],
        "--threads: got -2; expected a whole number from 0",
    ),
    # networks and clusters of users
    "P > U by default": (
        ["run", "cali3f-gmf", "--data", "few.csv", "--protocol", "loo-5"],
        "--set clusters: got ",
    ),
    "P > U in a grid": (
        ["tune", "fedfast-gmf", *RUN[2:], "--grid", "clusters=5,41"],
        "--set clusters: got 41",
    ),
    "n = 0": (
        ["recommend", "--user", "u3", "--n", "0"],
        "--n: got 0; expected a whole number from 1",
    ),
    "no seeds": (
        ["compare", "fpl", "popular", "--data", "shop.csv", "--seeds", "0"],
        "--seeds: got 0; expected a whole number from 1",
    ),
    "leak check without rounds": (["leakcheck", *RUN[1:], "--rounds", "0"], "--rounds: got 0"),
    "leak check of nothing": (
        ["leakcheck", "--data", "shop.csv", "--protocol", "lo-20"],
        "protocol: unknown protocol 'lo-20'",
    ),
    "bench without threads": (["bench", "fpl-round", "--threads", "-1"], "--threads: got -1"),
    # what the data cannot give
    "too few items": (
        ["run", "fpl", "--data", "shop.csv", "--protocol", "loo-99"],
        "99 candidates are needed, but user ",
    ),
    "no split there": (
        ["run", "fpl", "--data", "shop.csv", "--protocol", "given"],
        "shop.csv: no train file; expected train.csv",
    ),
    "not a split": (
        ["run", "fpl", "--data", ".", "--protocol", "given"],
        "no train file; expected train.csv",
    ),
    # where nothing can be written
    "out is a file": (
        [*RUN, "--rounds", "1", "--out", "shop.csv"],
        "shop.csv: cannot be written (File exists)",
    ),
    "out cannot be made": (
        [*RUN, "--rounds", "1", "--out", "/proc/none"],
        "/proc/none: cannot be written",
    ),
    "split onto a folder": (
        ["split", "shop.csv", "--protocol", "loo-20", "--out", "."],
        "it already exists; expected a new folder",
    ),
    "split into nowhere": (
        ["split", "shop.csv", "--protocol", "loo-20", "--out", "/proc/none/x"],
        "/proc/none/x: cannot be made",
    ),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.beside
def test_one_line_exit_code_2_nothing_written(name: str, folder: Path, command: Command) -> None:
    arguments, said = BAD[name]
    before = contents(folder)
    found = command(*arguments)
    assert said in found.error
    assert contents(folder) == before
    if "json" not in arguments and arguments[0] in (
        "run",
        "compare",
        "recommend",
        "bench",
        "leakcheck",
    ):
        assert command(*arguments, "--json") == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "pi.csv:1: the header is ''; expected user,pi or user,item,pi"),
        ("user;pi\nu3;1\n", "pi.csv:1: the header is 'user;pi'"),
        ("user,pi\nu3,1.5\n", "pi.csv:2: pi is '1.5'; expected a number from 0 to 1"),
        ("user,pi\nu3,much\n", "pi.csv:2: pi is 'much'"),
        ("user,pi\nu3,nan\n", "pi.csv:2: pi is 'nan'"),
        (
            "user,pi\nu3,1\n\nu3333,1\n",
            "pi.csv:4: unknown user 'u3333'; expected one of 40 ids; did you mean 'u33'?",
        ),
        ("user,item,pi\nu3,i999,1\n", "pi.csv:2: unknown item 'i999'"),
        ("user,pi\nu3,1\nu3,0\n", "pi.csv:3: user 'u3' is given twice; expected one line, as in "),
        ("user,pi\nu3\n", "pi.csv:2: a wrong number of columns; expected as many as in the header"),
        ("user,pi\nu3,1,2\n", "pi.csv:2: a wrong number of columns"),
        ("user,pi\nu\0,1\n", "pi.csv:2: unknown user 'u '"),
        (None, "pi.csv: cannot be read ("),
    ],
)
def test_a_file_of_choices_that_is_wrong_names_its_line(
    text: str | None, said: str, folder: Path, command: Command
) -> None:
    if text is not None:
        (folder / "pi.csv").write_text(text)
    before = contents(folder)
    assert said in command(*RUN, "--rounds", "1", "--set", "pi=@pi.csv").error
    assert contents(folder) == before


def test_an_unknown_user_is_refused_with_the_nearest_known(folder: Path, command: Command) -> None:
    command("run", "popular", *RUN[2:])
    assert (
        command("recommend", "--user", "u399").error
        == "user: unknown user 'u399'; expected ids of the 40 users in training; --unknown=popular"
        " gives the most popular items; did you mean 'u39'?"
    )
    # A report has no such option.
    assert (
        "expected ids of the 40 users in training; for example 'u0'"
        in command("report", "--user", "7").error
    )
    assert not list(folder.rglob("*.html"))


def test_a_model_that_was_damaged_is_not_used(folder: Path, command: Command) -> None:
    made = command("run", "popular", *RUN[2:], "--json").json
    model = folder / "runs" / made["run"] / "model.safetensors"
    whole = model.read_bytes()
    model.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert command("recommend", "--user", "u3").error.endswith(
        "model.safetensors: its content does not match its sha256; the file is damaged"
    )
    model.unlink()
    assert "model.safetensors: cannot be read" in command("recommend", "--user", "u3").error


def test_a_model_of_another_run_is_not_used(folder: Path, command: Command) -> None:
    a, b = (
        command("run", "random", *RUN[2:], "--seed", seed, "--json").json["run"] for seed in (0, 1)
    )
    os.replace(folder / "runs" / b / "model.safetensors", folder / "runs" / a / "model.safetensors")
    assert (
        command("recommend", a, "--user", "u3").error
        == f"runs/{a}: the model is not the one in the manifest; run it again"
    )


# ---- in a process of its own ---------------------------------------------------------------------


def process(*arguments: str, **options: object) -> subprocess.Popen[str]:
    code = "from entrenous.cli import main; main()"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return Forked(
        [sys.executable, "-c", code, *arguments], text=True, start_new_session=True, **pipes
    )  # type: ignore[call-overload]


def test_a_full_disk_is_one_line_and_leaves_nothing(folder: Path) -> None:
    """No file may grow beyond 4,096 bytes: the manifest fits, the first checkpoint does not."""
    limited = process(
        *LONG, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    )
    out, err = limited.communicate(timeout=240)
    assert limited.returncode == 2 and out == "" and "Traceback" not in err
    last = err.splitlines()[-1]
    assert last.startswith("error: ") and last.endswith(
        "checkpoint-fold0-final-000000050.safetensors: File too large"
    )
    assert contents(folder) == {"shop.csv", "few.csv", "runs"}


@pytest.mark.parametrize(
    "arguments", [["algorithms"], ["algorithms", "--json"], ["data", "list"], ["run", "--help"]]
)
def test_a_reader_that_leaves_early_is_no_error(arguments: list[str]) -> None:
    """As `entrenous ... | head -1` does."""
    read, write = os.pipe()
    os.close(read)
    writing = process(*arguments, stdout=write)
    os.close(write)
    _, err = writing.communicate(timeout=240)
    assert (writing.returncode, err) == (0, "")


def test_output_that_cannot_be_written_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        writing = process("algorithms", "--json", stdout=full)
        _, err = writing.communicate(timeout=240)
    assert (writing.returncode, err) == (2, "error: system: No space left on device\n")


@pytest.mark.parametrize(
    "words", [["run", "fcf"], ["compare", "fcf", "popular", "--seeds", "1"]], ids=["run", "compare"]
)
def test_a_training_that_diverges_ends_with_what_to_do(
    folder: Path, command: Command, words: list[str]
) -> None:
    label = "fcf:" if words[0] == "compare" else ""
    steps = [
        part for pair in ("learning_rate=10", "optimiser=sgd") for part in ("--set", label + pair)
    ]
    said = command(
        *words, "--data", "shop.csv", "--protocol", "loo-20", "--rounds", "200", *steps
    ).error
    assert "training diverged" in said and "lower" in said and "learning rate" in said
