"""What held-out rows decide, and what they may not: no test row ends a training, and validation rows do not compete with test rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from command_line import shop

from entrenous.data.interactions import Interactions
from entrenous.evaluate.protocol import evaluate
from entrenous.runs.pipeline import LENGTHS, material, run
from entrenous.runs.plan import RunPlan, make
from entrenous.runs.train import Watch, train
from entrenous.split.types import Split

SETTINGS: dict[str, Any] = {"factors": 5, "learning_rate": 0.2}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Interactions:
    return shop(tmp_path_factory.mktemp("shop"), items=140)


def part_of(data: Interactions, algorithm: str, protocol: str) -> Split:
    """The only part of a protocol."""
    (part,) = material(RunPlan(algorithm=algorithm, protocol=protocol), data).parts
    return part


def with_other_test_rows(part: Split, seed: int) -> Split:
    """The same split, but each test row is another item that its user has in no part."""
    rng, everything, item = np.random.default_rng(seed), part.all_rows, part.test.rows.item.copy()
    for u in range(len(part.train.users)):
        own, rows = everything.item[everything.ptr[u] : everything.ptr[u + 1]], part.test.rows.ptr[u : u + 2]
        unseen = np.setdiff1d(np.flatnonzero(part.train.popularity), own)
        item[rows[0] : rows[1]] = np.sort(rng.choice(unseen, rows[1] - rows[0], replace=False))
    return part._replace(test=part.test._replace(rows=replace(part.test.rows, item=item.astype(np.int32))))


@pytest.mark.parametrize(
    ("algorithm", "protocol"), [("pfpl+", "loo-20"), ("pfpl+", "temporal-60-40"), ("pepper-gmf", "pepper-85-15")]
)
def test_patience_stops_at_the_same_round_whatever_the_test_rows(algorithm: str, protocol: str, data: Interactions) -> None:
    """Looks, the round that is chosen, and the model, to the bit; with settings by which looks differ from round to round."""
    settings = SETTINGS if algorithm == "pfpl+" else {"factors": 5, "view": 3}
    plan = RunPlan(algorithm=algorithm, protocol=protocol, rounds=24, patience=2, settings=settings)
    part = part_of(data, algorithm, protocol)

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


def test_validation_rows_that_were_not_trained_on_do_not_compete_with_test_rows(data: Interactions) -> None:
    """Both rankings of a run are those of an evaluation that masks them, and another one does not give the same."""
    made, part = run("popular", data, protocol="loo-20"), part_of(data, "popular", "loo-20")
    assert part.validation is not None and not part.refit

    def found(masked: Interactions | None) -> Any:
        return evaluate(made.recommender, part.train, part.test, label="popular", n=LENGTHS, also_mask=masked)

    masked, competing = found(part.validation.rows), found(None)
    assert made.manifest["full_ranking"] == masked.full_ranking and made.metrics == masked.metrics
    assert made.manifest["protocol_text"] == list(masked.protocol) != list(competing.protocol)
    assert masked.full_ranking["auc"] != competing.full_ranking["auc"]


def test_validation_rows_that_were_trained_on_are_masked_once_as_training_rows(data: Interactions) -> None:
    made, part = run("popular", data, protocol="temporal-60-40"), part_of(data, "popular", "temporal-60-40")
    assert part.refit
    assert made.metrics == evaluate(made.recommender, part.final_train, part.test, label="popular", n=LENGTHS).metrics
