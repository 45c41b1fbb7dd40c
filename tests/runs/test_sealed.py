"""What held-out rows decide, and what they may not: no test row ends a training, and validation
rows do not compete with test rows.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import shop, write_shop

from entrenous.core.errors import InputError
from entrenous.data.interactions import Interactions
from entrenous.data.split.types import Split
from entrenous.evaluation.protocol import evaluate
from entrenous.runs import reopen, store
from entrenous.runs.options import RunPlan
from entrenous.runs.pipeline import LENGTHS, material, run
from entrenous.runs.plan import make
from entrenous.runs.store import protocol_of
from entrenous.runs.train import Watch, train

SETTINGS: dict[str, Any] = {"factors": 5, "learning_rate": 0.2}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Interactions:
    return shop(tmp_path_factory.mktemp("shop"), items=140)


def part_of(data: Interactions, algorithm: str, protocol: str, refit: bool | None = None) -> Split:
    """The only part of a protocol."""
    (part,) = material(RunPlan(algorithm=algorithm, protocol=protocol, refit=refit), data).parts
    return part


def with_other_test_rows(part: Split, seed: int) -> Split:
    """The same split, but each test row is another item that its user has in no part."""
    rng, everything, item = np.random.default_rng(seed), part.all_rows, part.test.rows.item.copy()
    for u in range(len(part.train.users)):
        own, rows = (
            everything.item[everything.ptr[u] : everything.ptr[u + 1]],
            part.test.rows.ptr[u : u + 2],
        )
        unseen = np.setdiff1d(np.flatnonzero(part.train.popularity), own)
        item[rows[0] : rows[1]] = np.sort(rng.choice(unseen, rows[1] - rows[0], replace=False))
    return part._replace(
        test=part.test._replace(rows=replace(part.test.rows, item=item.astype(np.int32)))
    )


@pytest.mark.parametrize(
    ("algorithm", "protocol", "refit"),
    [
        ("pfpl+", "loo-20", False),
        ("pfpl+", "loo-20", None),
        ("pfpl+", "temporal-60-40", None),
        ("pepper-gmf", "pepper-85-15", None),
    ],
)
def test_patience_stops_at_the_same_round_whatever_the_test_rows(
    algorithm: str, protocol: str, refit: bool | None, data: Interactions
) -> None:
    """Looks, the round that is chosen, and the model, to the bit; with settings by which looks
    differ from round to round.
    """
    settings = SETTINGS if algorithm == "pfpl+" else {"factors": 5, "view": 3}
    plan = RunPlan(algorithm=algorithm, protocol=protocol, rounds=24, patience=2, settings=settings)
    part = part_of(data, algorithm, protocol, refit)

    def trained(split: Split) -> tuple[int, list[Any], dict[str, bytes]]:
        trace: list[dict[str, Any]] = []
        found = train(plan, make(plan, data), split, Watch(every=3, patience=2), trace, "fold0")
        looks = [{**line, "seconds": 0} for line in trace]
        return found.rounds, looks, {name: array.tobytes() for name, array in found.arrays.items()}

    rounds, looks, arrays = trained(part)
    assert len({str(line["validation"]) for line in looks if line["phase"] == "fold0-select"}) > 1
    for seed in range(3):
        other = with_other_test_rows(part, seed)
        assert other.test.rows.item.tolist() != part.test.rows.item.tolist()
        assert trained(other) == (rounds, looks, arrays)


def test_validation_rows_that_were_not_trained_on_do_not_compete_with_test_rows(
    data: Interactions,
) -> None:
    """Both rankings of a run are those of an evaluation that masks them, and another one does not
    give the same.
    """
    asked: dict[str, Any] = {"protocol": "loo-20", "refit": False}
    made, part = run("popular", data, **asked), part_of(data, "popular", **asked)
    assert part.validation is not None and not part.refit

    def found(masked: Interactions | None) -> Any:
        return evaluate(
            made.recommender, part.train, part.test, label="popular", n=LENGTHS, also_mask=masked
        )

    masked, competing = found(part.validation.rows), found(None)
    assert made.manifest["full_ranking"] == masked.full_ranking and made.metrics == masked.metrics
    assert made.manifest["protocol_text"] == list(masked.protocol) != list(competing.protocol)
    assert masked.full_ranking["auc"] != competing.full_ranking["auc"]


@pytest.mark.parametrize("protocol", ["temporal-60-40", "loo-20"])
def test_validation_rows_that_were_trained_on_are_masked_once_as_training_rows(
    protocol: str, data: Interactions
) -> None:
    made, part = run("popular", data, protocol=protocol), part_of(data, "popular", protocol)
    assert part.refit and len(made.train) == len(part.train) + len(part.validation.rows)  # type: ignore[union-attr]
    assert protocol_of(made.manifest) == protocol
    assert (
        made.metrics
        == evaluate(
            made.recommender, part.final_train, part.test, label="popular", n=LENGTHS
        ).metrics
    )


def test_refitting_changes_what_the_final_model_is_trained_on_and_nothing_else(
    data: Interactions,
) -> None:
    """The rounds that validation chooses, the test rows and their candidates stay; notes on unknown
    items are about the final rows.
    """
    left_out, refitted = (part_of(data, "popular", "loo-20", refit) for refit in (False, None))
    assert (
        left_out._replace(refit=True).final_train.sha256()
        == refitted.final_train.sha256()
        != left_out.final_train.sha256()
    )
    assert np.array_equal(left_out.test.candidates, refitted.test.candidates)
    assert left_out.final_train.sha256() == left_out.train.sha256() == refitted.train.sha256()
    asked: dict[str, Any] = {
        "protocol": "loo-20",
        "rounds": 24,
        "every": 3,
        "patience": 2,
        "settings": SETTINGS,
    }
    chosen, again = (run("pfpl+", data, **asked, refit=refit) for refit in (False, None))
    assert chosen.manifest["rounds"] == again.manifest["rounds"]
    assert chosen.manifest["model_sha256"] != again.manifest["model_sha256"]


def test_a_stored_run_keeps_that_it_left_validation_rows_out(tmp_path: Path) -> None:
    made = run(
        "popular",
        str(write_shop(tmp_path / "shop.csv")),
        protocol="loo-20",
        refit=False,
        out=tmp_path / "runs",
    )
    assert made.path is not None and protocol_of(made.manifest) == "loo-20 no-refit"
    assert reopen.reopen(store.read(str(made.path), tmp_path)).train.sha256() == made.train.sha256()


@pytest.mark.parametrize(("protocol", "said"), [("pepper-85-15", "weigh models by them")])
def test_refitting_is_refused_where_validation_rows_are_not_there_for_it(
    protocol: str, said: str, data: Interactions
) -> None:
    with pytest.raises(InputError, match=f"^--refit: protocol {protocol} .*{said}"):
        part_of(data, "pepper-gmf", protocol, refit=True)
