"""Two sums that differ by a few people: what is left of one less the other is read along these
people's directions, and noise of both is what hides them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from entrenous_audit.attacks import differencing, em, new_row
from entrenous_audit.attacks._sums_seen import differences
from entrenous_audit.known import applying
from entrenous_audit.measures import measured
from entrenous_audit.side_knowledge import sets_of
from entrenous_audit.transcript import Transcript
from onlooker import histories, observe

from entrenous.core.errors import InputError
from entrenous.data.synthetic import synthetic
from entrenous.privacy.told import NOT_TRIED

some = pytest.mark.parametrize
PAIRS: Any = {
    "view": "difference",
    "profile": "private",
    "cohort": 12,
    "rounds": 40,
    "settings": {"factors": 8, "reg": 2.0},
}


@pytest.fixture(scope="module")
def small() -> Any:
    return synthetic(users=40, items=120, interactions=800, seed=0)


def pairs(data: Any, people: int = 1, **more: Any) -> Transcript:
    protect = {"noise": 0.05, "people": 10, "secure_sum": False, **more}
    return observe("fcf", data, **{**PAIRS, "cohort": 12 // people}, people=people, protect=protect)


def found(transcript: Transcript, data: Any, attack: Any = em) -> dict[str, Any]:
    return measured(attack.ATTACK.run(transcript), transcript, data)


@some("people, beyond", [(1, 0.2), (2, 0.08), (3, 0.06)])
@some("noise_by", ["server", "devices"])
def test_the_people_by_whom_two_sums_differ_are_read_along_their_directions(
    small: Any, people: int, beyond: float, noise_by: str
) -> None:
    transcript = pairs(small, people, noise_by=noise_by)
    few = differences(transcript)
    assert len(few) == 40 and {len(seen.users) for seen in few} == {people}
    figures = found(transcript, small)
    assert figures["advantage"] > beyond
    # Of the others nothing is claimed: their parts are gone to the bit, but for the noise.
    assert set(em.ATTACK.run(transcript).users) == {u for seen in few for u in seen.users}


def test_noise_hides_one_person(small: Any) -> None:
    assert abs(found(pairs(small, noise=20.0), small)["advantage"]) < 0.05


def test_what_masked_devices_say_of_two_models_is_no_difference_and_is_said_so(small: Any) -> None:
    transcript = observe("fcf", small, **PAIRS, protect={"noise": 0.05, "people": 10})
    assert not differences(transcript)
    assert found(transcript, small, differencing)["verdict"] == NOT_TRIED
    # All of them are sums, and read as such.
    assert em.ATTACK.run(transcript).note.startswith("80 rounds")


def test_a_round_without_a_sum_has_no_second_one(small: Any) -> None:
    """Where each device decides by itself, a sum of too few is not opened."""
    protect = {"secure_sum": False, "people": 12, "sampling": "poisson", "noise": 0.05}
    transcript = observe("fcf", small, **PAIRS, protect=protect)
    sizes = [len(seen.users) for seen in transcript.rounds]
    assert 0 < len(sizes) < 80 and min(sizes[::2]) >= 12
    assert np.subtract(sizes[::2], sizes[1::2]).tolist() == [1] * (len(sizes) // 2)


# ---- a new row -----------------------------------------------------------------------------------


def grown(data: Any, algorithm: str = "fcf", noise: float = 0.01, **more: Any) -> Transcript:
    protect = {"noise": noise, "people": 10, "secure_sum": False}
    asked = {**PAIRS, **more}
    return observe(algorithm, data, **asked, new_row=True, protect=protect)


@some("settings", [{}, {"form": "gram"}])
def test_the_new_row_of_one_person_is_named(small: Any, settings: Any) -> None:
    transcript = grown(small, settings={**PAIRS["settings"], **settings})
    figures = found(transcript, small, new_row)
    assert figures["r_precision"] > 0.9 and figures["popularity_r_precision"] < 0.3
    # Nobody else is spoken of, and older rows are no find.
    changed = np.unique(transcript.model["changed/user"])
    claims = new_row.ATTACK.run(transcript)
    assert np.array_equal(claims.users, changed)
    hidden = histories(small)[changed] & ~sets_of(transcript, "known")[changed]
    assert hidden.sum(axis=1).min() >= 1 and hidden.sum() <= 40


def test_noise_hides_a_new_row(small: Any) -> None:
    assert found(grown(small, noise=50.0), small, new_row)["advantage"] < 0.1


@some("algorithm", ["pfpl+", "fedavg-gmf"])
def test_elsewhere_the_row_that_changed_most_is_taken(small: Any, algorithm: str) -> None:
    transcript = grown(small, algorithm, settings={"factors": 4}, rounds=6)
    claims = new_row.ATTACK.run(transcript)
    assert claims.tried and np.isfinite(claims.score).all()


def test_where_rows_are_the_same_no_new_one_is_looked_for(small: Any) -> None:
    names = {attack.name for attack in applying(pairs(small))}
    assert "new-row" not in names and {"em", "differencing"} <= names
    assert {attack.name for attack in applying(grown(small, rounds=2))} == {"new-row"}
    nothing = grown(small, rounds=2)._replace(rounds=())
    assert found(nothing, small, new_row)["verdict"] == NOT_TRIED


@some(
    "asked, said",
    [
        ({"view": "sum"}, "--view difference"),
        ({"people": 2, "cohort": 5}, "without --people"),
        ({"protect": {"noise": 1.0, "people": 10}}, "answer a model once"),
    ],
)
def test_a_new_row_without_a_pair_is_refused_in_one_line(
    small: Any, asked: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said) as refused:
        observe("fcf", small, **{**PAIRS, **asked}, new_row=True)
    assert "\n" not in str(refused.value)
