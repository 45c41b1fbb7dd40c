"""What devices draw as negatives: the honest choice, the leaky one, and that nobody can take the
one for the other.
"""

from __future__ import annotations

import inspect
import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import Command, write_shop
from small_data import interactions
from small_federations import when_and_where
from stored_runs import Page

from entrenous.api.compare import compare
from entrenous.core.contract.declared import declared, is_federated, predicts_ratings
from entrenous.core.contract.protocols import arrays_of
from entrenous.core.errors import EntrenousWarning, InputError
from entrenous.data.interactions import Interactions
from entrenous.data.split.protocol import splits
from entrenous.federation.rounds import Rounds
from entrenous.report.html import write_report
from entrenous.runs import store
from entrenous.runs.options import RunPlan
from entrenous.runs.pipeline import LEAK, RunResult, run
from entrenous.runs.plan import check
from entrenous.runs.reopen import resume
from entrenous.runs.tuning.grid import tune
from entrenous.systems.named import algorithms

FEDERATED: dict[str, Any] = {
    name: made for name, made in algorithms().items() if is_federated(made())
}
SMALL: dict[str, Any] = {"protocol": "loo-20", "rounds": 6, "settings": {"factors": 5}}


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


def leaking(algorithm: str, data: Any, **options: Any) -> RunResult:
    """A leaky run, which must say so in exactly one warning."""
    with pytest.warns(EntrenousWarning) as said:
        made = run(algorithm, data, negatives="leaky", **options)
    assert [str(one.message) for one in said if one.category is EntrenousWarning] == [LEAK]
    return made


# ---- histories and rounds ------------------------------------------------------------------------


def test_histories_avoid_their_own_rows_or_those_that_are_given() -> None:
    everything = interactions(
        [
            ("ann", "a"),
            ("ann", "b"),
            ("ann", "c"),
            ("bob", "b"),
            ("bob", "d"),
            ("cas", "a"),
            ("cas", "d"),
        ]
    )
    train = everything.select(np.array([True, False, True, True, False, False, True]))
    own = train.histories(np.array([0, 1]))
    assert (own.item.tolist(), own.avoid.tolist(), own.avoid_ptr.tolist()) == (
        [0, 2, 1],
        [0, 2, 1],
        [0, 2, 3],
    )
    for users, avoid, ptr in (
        ([0, 1], [0, 1, 2, 1, 3], [0, 3, 5]),
        ([2, 0], [0, 3, 0, 1, 2], [0, 2, 5]),
        ([], [], [0]),
    ):
        given = train.histories(np.array(users, np.int64), everything)
        assert (given.avoid.tolist(), given.avoid_ptr.tolist()) == (avoid, ptr)
        assert given.item.tolist() == train.histories(np.array(users, np.int64)).item.tolist()


@pytest.mark.parametrize("name", FEDERATED)
def test_what_is_avoided_matters_to_those_who_draw_negatives_and_to_no_others(
    name: str, data: Interactions
) -> None:
    """The catalogue's other half is avoided: the model becomes another one, unless no negatives are
    drawn.
    """
    algorithm = FEDERATED[name]()
    rated = (
        replace(data, value=(1 + np.arange(len(data)) % 5).astype(np.float32))
        if predicts_ratings(algorithm)
        else data
    )
    split = splits("random-50-50", replace(rated, **when_and_where(rated.user, len(rated.items))))[
        0
    ]
    models = []
    for avoid in (None, split.train, split.all_rows):
        rounds = Rounds(algorithm, split.train, avoid=avoid)
        training = rounds.advance(
            rounds.start(), 100 if rounds.contract.cohort == 1 else 2
        )  # of one device: enough for any draw to differ
        models.append(
            b"".join(np.asarray(array).tobytes() for array in arrays_of(training.server).values())
        )
    assert models[0] == models[1]
    assert (models[0] != models[2]) == declared(algorithm).traits.draws_negatives


def test_no_item_that_is_avoided_is_ever_sent() -> None:
    """pi = 0 sends negatives alone."""
    data = interactions(
        [(f"u{u}", f"i{n}") for u in range(6) for n in range(8) if (u + n) % 3],
        items=[f"i{n}" for n in range(8)],
    )
    train, seen = data.select(data.item % 2 == 0), []

    def watch(update: Any, keys: Any) -> Any:
        seen.append((update.ptr, update.item))
        return update

    algorithm = FEDERATED["fpl"].parse({"factors": 2, "triples": 40, "pi": 0.0})
    rounds = Rounds(algorithm, train, avoid=data, limits=[watch], block=6)
    rounds.advance(rounds.start(), 3)
    assert len(seen) == 3
    for ptr, item in seen:
        for user in range(6):
            sent = sorted(item[ptr[user] : ptr[user + 1]].tolist())
            assert sent == [
                n for n in range(8) if (user + n) % 3 == 0
            ]  # what is left of the catalogue, all of it in 40 draws


# ---- a leaky run ---------------------------------------------------------------------------------


def test_a_leaky_run_says_so_wherever_it_is_shown(data: Interactions, tmp_path: Path) -> None:
    made = leaking("fpl", data, out=tmp_path, **SMALL)
    assert made.path is not None and made.path.name == "fpl-shop-loo-20-leaky-seed0"
    assert made.manifest["negatives"] == "leaky"
    assert made.manifest["notes"][0] == made.manifest["protocol_text"][0] == LEAK
    honest = run("fpl", data, out=tmp_path, **SMALL)
    assert honest.manifest["model_sha256"] != made.manifest["model_sha256"]
    stored = [store.read(one.path.name, tmp_path) for one in (made, honest) if one.path is not None]
    page = Page(write_report(stored, tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "loo-20 LEAKY" in page.text and LEAK in page.text
    assert "They differ in data, protocol or code: their numbers cannot be compared" in page.text


def test_a_run_cannot_change_its_negatives_when_it_is_resumed(
    tmp_path: Path, command: Command
) -> None:
    path, out = write_shop(tmp_path / "shop.csv"), tmp_path / "runs"
    made = run("fpl", str(path), out=out, **SMALL)
    assert made.path is not None
    manifest = {**store.read_manifest(made.path), "status": "running"}
    store.write_manifest(made.path, manifest)
    said = command("run", "--resume", made.path.name, "--negatives", "leaky", "--out", out).error
    assert "cannot be continued with another negatives; expected negatives = train" in said
    store.write_manifest(made.path, {**manifest, "negatives": "some"})
    with pytest.raises(InputError, match="--negatives: unknown choice 'some'"):
        resume(made.path.name, root=out)
    del manifest["negatives"]  # as earlier versions wrote it
    store.write_manifest(made.path, manifest)
    assert (
        resume(made.path.name, root=out).manifest["model_sha256"] == made.manifest["model_sha256"]
    )


def test_the_command_warns_in_one_line_and_labels_what_it_prints(
    tmp_path: Path, command: Command
) -> None:
    path, out = write_shop(tmp_path / "shop.csv"), tmp_path / "runs"
    how = (
        "run",
        "fpl",
        "--data",
        path,
        "--protocol",
        "loo-20",
        "--rounds",
        3,
        "--set",
        "factors=5",
        "--out",
        out,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        said = command(*how, "--negatives", "leaky")
    assert said.code == 0 and [line for line in said.err.splitlines() if "warning" in line] == [
        f"warning: {LEAK}"
    ]
    assert "loo-20 LEAKY" in said.out and said.out.count(LEAK) == 1
    assert "LEAKY" not in command(*how).out
    listed = command("runs", "--runs", out).out
    assert [
        bool(re.search("loo-20 LEAKY", line)) for line in listed.splitlines() if "fpl-shop" in line
    ].count(True) == 1


# ---- what is refused, and what has no such choice ------------------------------------------------


@pytest.mark.parametrize(
    ("algorithm", "why"),
    [
        ("fcf", "fcf draws no negatives"),
        ("bpr-mf", "bpr-mf is trained in one place"),
        ("popular", "popular is trained in one place"),
    ],
)
def test_an_algorithm_to_which_it_means_nothing_is_refused(algorithm: str, why: str) -> None:
    with pytest.raises(InputError, match=f"^--negatives: {why}"):
        check(RunPlan(algorithm=algorithm, negatives="leaky"))
    check(RunPlan(algorithm=algorithm))


def test_comparing_and_tuning_have_no_leaky_choice() -> None:
    """Their figures are for choosing between systems, so they are honest or not made."""
    assert not {"negatives", "leaky"} & {
        *inspect.signature(compare).parameters,
        *inspect.signature(tune).parameters,
    }
