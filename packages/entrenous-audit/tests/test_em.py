"""EM over everybody's direction: it reads sums of changing cohorts far better than popularity does,
and takes hostile numbers for what they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from entrenous_audit.attacks import em
from entrenous_audit.attacks._rows_seen import SURE
from entrenous_audit.claims import Claims
from entrenous_audit.measures import measured
from entrenous_audit.transcript import Transcript
from onlooker import movielens, observe

from entrenous.core.errors import InputError
from entrenous.data.synthetic import synthetic
from entrenous.federation.recorder import Seen

some = pytest.mark.parametrize
WEAK: Any = {
    "view": "sum",
    "profile": "private",
    "protect": {"noise": 0.02, "people": 10},
    "cohort": 10,
    "settings": {"factors": 8, "reg": 2.0},
}


@pytest.fixture(scope="module")
def small() -> Any:
    return synthetic(users=40, items=120, interactions=800, seed=0)


def found(transcript: Transcript, data: Any) -> dict[str, Any]:
    return measured(em.ATTACK.run(transcript), transcript, data)


def changed(transcript: Transcript, place: int, seen: Seen) -> Transcript:
    rounds = list(transcript.rounds)
    rounds[place] = seen
    return transcript._replace(rounds=tuple(rounds))


@some("form", ["printed", "gram"])
@some("knows, beyond", [(0.0, 0.3), (0.2, 0.3)])
def test_sums_of_changing_cohorts_come_apart_along_everybodys_direction(
    small: Any, form: str, knows: float, beyond: float
) -> None:
    settings = {**WEAK["settings"], "form": form}
    transcript = observe("fcf", small, **{**WEAK, "settings": settings}, rounds=60, knows=knows)
    figures = found(transcript, small)
    assert figures["advantage"] > beyond
    assert figures["verdict"] in ("LEAKS", "EXPOSED")


def test_loud_sums_leave_popularity(small: Any) -> None:
    loud = {**WEAK, "protect": {"noise": 30.0, "people": 10}}
    figures = found(observe("fcf", small, **loud, rounds=20), small)
    assert abs(figures["advantage"]) < 0.05


def test_known_items_are_certain_and_no_find(small: Any) -> None:
    transcript = observe("fcf", small, **WEAK, rounds=8, knows=0.3)
    claims = em.ATTACK.run(transcript)
    item = transcript.model["known/item"]
    owner = np.repeat(np.arange(transcript.users), np.diff(transcript.model["known/ptr"]))
    watched = np.isin(owner, claims.users)
    place = np.searchsorted(claims.users, owner[watched])
    assert (claims.score[place, item[watched]] == SURE).all()
    # Measures leave known items out, so that no claim of one counts.
    assert claims.claimed is not None
    known = np.zeros_like(claims.claimed)
    known[place, item[watched]] = True
    nothing_else = claims._replace(claimed=claims.claimed & known)
    assert measured(nothing_else, transcript, small)["recall"] == 0


def test_empty_rounds_and_no_rounds_are_no_fault(small: Any) -> None:
    transcript = observe("fcf", small, **WEAK, rounds=12)
    empty = transcript.rounds[0]._replace(users=np.empty(0, np.int64))
    claims = em.ATTACK.run(changed(transcript, 0, empty))
    assert claims.tried and np.isfinite(claims.score).all()
    nothing: Claims = em.ATTACK.run(transcript._replace(rounds=()))
    assert not nothing.tried
    infinite = empty._replace(users=transcript.rounds[0].users, sent=_infinite(empty))
    assert not em.ATTACK.run(transcript._replace(rounds=(infinite,))).tried


def _infinite(seen: Seen) -> dict[str, Any]:
    return {name: np.full(array.shape, np.inf) for name, array in seen.sent.items()}


def test_more_than_it_takes_is_said_not_guessed(
    small: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = observe("fcf", small, **WEAK, rounds=2)
    monkeypatch.setattr(em, "MOST", 5)
    claims = em.ATTACK.run(seen)
    assert not claims.tried and "16 equations an item, of which it takes 5 of either" in claims.note
    monkeypatch.setattr(em, "MOST", 16)
    assert em.ATTACK.run(seen).tried
    monkeypatch.setattr(em, "CELLS", 1000)
    assert "of which it takes 1000: more take too much memory" in em.ATTACK.run(seen).note


@some("users, equations", [(30, 50), (50, 30), (40, 40)])
def test_the_smaller_side_has_the_values_and_vectors_of_the_larger(
    users: int, equations: int
) -> None:
    directions = np.random.default_rng(0).normal(size=(users, equations)).astype(np.float32)
    directions[3] = 0  # somebody who is in no round
    directions[4] = directions[5]
    size, way = em._decomposed(directions)
    a = directions.astype(np.float64)
    assert np.allclose((way * size) @ way.T, a @ a.T, atol=1e-9)
    assert np.allclose(way.T @ way, np.eye(len(size)), atol=1e-6)


FEW: Any = {"view": "sum", "profile": "private", "protect": {"noise": 0.001, "people": 5}}


@some(
    "algorithm, settings, knows, beyond",
    [
        ("pfpl+", {"factors": 8}, 0.2, 0.15),
        ("pfpl+", {"factors": 8, "pi": 0.5}, 0.0, 0.03),
        ("fedmf", {"factors": 16}, 0.0, 0.03),
        ("fedmf", {"factors": 16}, 0.2, 0.09),
        ("fedncf", {"factors": 16, "layers": "8,4"}, 0.2, 0.09),
        ("reptile-gmf", {"factors": 16}, 0.2, 0.1),
        ("fedavg-gmf", {"factors": 16, "client": "gradient"}, 0.2, 0.03),
    ],
)
@pytest.mark.beside
def test_small_sums_of_vectors_that_are_learnt_come_apart(
    small: Any, algorithm: str, settings: Any, knows: float, beyond: float
) -> None:
    asked = {**FEW, "settings": settings, "cohort": 5, "rounds": 80, "knows": knows}
    figures = found(observe(algorithm, small, **asked), small)
    assert figures["advantage"] > beyond


@some("algorithm, name", [("pfpl+", "q"), ("fedmf", "item_")])
@pytest.mark.beside
def test_sums_that_are_no_numbers_move_no_vector(small: Any, algorithm: str, name: str) -> None:
    asked: Any = {"settings": {"factors": 8}, "cohort": 5, "rounds": 12}
    transcript = observe(algorithm, small, **FEW, **asked)
    first = transcript.rounds[0]
    broken = first.sent[name].copy()
    broken[0, 3] = np.nan
    hostile = changed(transcript, 0, first._replace(sent={**first.sent, name: broken}))
    claims = em.ATTACK.run(hostile)
    assert np.isfinite(claims.score).all()
    # No number of that sum counts: whatever it is, the claims are the same.
    infinite = first._replace(sent=_infinite(first))
    assert np.array_equal(claims.score, em.ATTACK.run(changed(transcript, 0, infinite)).score)
    assert not em.ATTACK.run(transcript._replace(rounds=(infinite,))).tried


@some(
    "algorithm, settings, why",
    [
        ("fedncf-mlp", {"layers": "8,4"}, "no factors"),
        ("pfpl+", {"factors": 4, "pi": "user"}, "pi differs"),
    ],
)
@pytest.mark.beside
def test_what_it_cannot_follow_is_said(small: Any, algorithm: str, settings: Any, why: str) -> None:
    own = {name: value for name, value in settings.items() if name != "pi"}
    transcript = observe(algorithm, small, **FEW, settings=own, cohort=5, rounds=3)
    about = {**transcript.about, "settings": {**transcript.settings, **settings}}
    claims = em.ATTACK.run(transcript._replace(about=about))
    assert not claims.tried and why in claims.note


@some("share", [-0.1, 1.0, float("nan")])
def test_a_share_of_histories_is_below_one(small: Any, share: float) -> None:
    with pytest.raises(InputError, match="--knows"):
        observe("fcf", small, **WEAK, rounds=1, knows=share)


def test_sums_are_watched_as_long_as_they_are_trained(small: Any) -> None:
    short = {**WEAK, "settings": {"factors": 4, "rounds": 23}}
    assert len(observe("fcf", small, **short).rounds) == 23


LONG = {"rounds": 100, "cohort": 100}


@pytest.mark.slow
@some(
    "algorithm, knows, expected, noise, options",
    [
        ("fcf", 0.0, 0.571, 0.3, {}),
        ("fcf", 0.1, 0.822, 0.3, {}),
        ("pfpl+", 0.0, 0.521, 0.1, {"rounds": 90, "cohort": 100}),
        ("pfpl+", 0.1, 0.629, 0.1, {"rounds": 90, "cohort": 100}),
        pytest.param("fedmf", 0.0, 0.473, 0.1, LONG, marks=pytest.mark.beside),
        pytest.param("fedmf", 0.1, 0.512, 0.1, LONG, marks=pytest.mark.beside),
    ],
)
def test_sums_of_a_hundred_come_apart_on_movielens(
    algorithm: str, knows: float, expected: float, noise: float, options: dict[str, int]
) -> None:
    """With the noise and the sums that `private` had before it brought a tested set."""
    protect = {"noise": noise, "people": 100, "noise_by": "server"}
    asked: Any = {"view": "sum", "profile": "private", "protect": protect, **options}
    transcript = observe(algorithm, movielens(), **asked, knows=knows)
    assert found(transcript, movielens())["r_precision"] == pytest.approx(expected, abs=0.03)
