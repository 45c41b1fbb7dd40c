"""Peer sampling: bounded lists without repeats, nobody alone, the dead forgotten; and views that
hold the best heard from.
"""

from __future__ import annotations

import numpy as np

from entrenous.core.contract.gossip import NOBODY
from entrenous.core.keys import folds, key
from entrenous.kernels import peer_sampling
from entrenous.systems.pepper import add_sorted, personalised_views

N, KNOWN, CARRIED, VIEW = 60, 8, 4, 3
EVERYBODY = np.arange(N)


def keys(name: str, number: int, m: int = N) -> np.ndarray:
    return folds(key(1, name, number), np.arange(m))


def first() -> np.ndarray:
    return np.stack([(u + 1 + np.arange(KNOWN)) % N for u in EVERYBODY]).astype(np.int32)


def check(known: np.ndarray) -> None:
    for u, row in enumerate(known):
        some = row[row != NOBODY]
        assert len(some) > 0 and len(set(some.tolist())) == len(some) and u not in some


def rounds(known: np.ndarray, many: int, alive: np.ndarray) -> np.ndarray:
    """Every living node tells three that it knows, one after another."""
    for number in range(many):
        named = peer_sampling.sample(known, EVERYBODY, CARRIED, keys("named", number))
        to = peer_sampling.sample(known, EVERYBODY, 3, keys("to", number))
        for u in alive.tolist():
            for other in to[u].tolist():
                if other in alive:
                    peer_sampling.exchange(
                        known,
                        np.array([other]),
                        np.array([other]),
                        np.array([u]),
                        named[u : u + 1],
                        keys(f"exchange {u} {other}", number, 1),
                    )
        check(known)
    return known


def test_lists_stay_bounded_without_repeats_and_nobody_is_ever_alone() -> None:
    known = rounds(first(), 30, EVERYBODY)
    assert known.shape == (N, KNOWN) and (known != NOBODY).all()


def test_whoever_one_knew_first_one_comes_to_know_others() -> None:
    """From a ring in which u knows the next eight: after some rounds the lists are spread over all
    nodes, none is known by most.
    """
    known = rounds(first(), 30, EVERYBODY)
    far = (known - EVERYBODY[:, None]) % N
    assert np.mean((far > KNOWN) & (far < N - KNOWN)) > 0.2 and len(np.unique(known)) > 0.9 * N
    assert np.bincount(known.ravel(), minlength=N).max() < 6 * KNOWN


def test_who_has_left_is_forgotten() -> None:
    alive = EVERYBODY[EVERYBODY % 3 != 0]
    known = rounds(rounds(first(), 10, EVERYBODY), 60, alive)
    gone = np.isin(known[alive], EVERYBODY[EVERYBODY % 3 == 0])
    assert gone.mean() < 0.1 < np.mean(EVERYBODY % 3 == 0)


def test_a_sender_is_known_from_then_on() -> None:
    known = first()
    peer_sampling.exchange(
        known,
        np.array([0]),
        np.array([0]),
        np.array([42]),
        np.array([[50, 0, 42, NOBODY]], np.int32),
        keys("one", 0, 1),
    )
    assert 42 in known[0] and 0 not in known[0]
    check(known[:1])


def heard(values: dict[int, float]) -> tuple[np.ndarray, np.ndarray]:
    who, performance = np.full((1, 6), NOBODY, np.int32), np.zeros((1, 6), np.float32)
    for peer, value in values.items():
        add_sorted(who, performance, np.array([0]), np.array([peer]), np.array([value], np.float32))
    return who, performance


def test_a_view_holds_the_best_heard_from_and_others_at_random() -> None:
    who, performance = heard({11: 0.2, 12: 0.9, 13: 0.5, 14: 0.7})
    known = np.array([[12, 20, 21, 22, 23, NOBODY, NOBODY, NOBODY]], np.int32)
    for number in range(20):
        view = personalised_views(
            known, who, performance, np.array([0]), 2, VIEW, keys("view", number, 1)
        )[0].tolist()
        assert view[:2] == [12, 14] and view[2] in (20, 21, 22, 23)
    drawn = {
        personalised_views(known, who, performance, np.array([0]), 0, VIEW, keys("view", k, 1))[
            0, 0
        ]
        for k in range(60)
    }
    assert drawn == {12, 20, 21, 22, 23}


def test_who_has_heard_of_nobody_explores() -> None:
    who, performance = heard({})
    view = personalised_views(
        first()[:1], who, performance, np.array([0]), 3, VIEW, keys("view", 0, 1)
    )[0]
    assert set(view.tolist()) <= set(first()[0].tolist()) and len(set(view.tolist())) == VIEW


def test_l_n_keeps_the_best_of_each_and_drops_the_worst_when_full() -> None:
    who, performance = heard({1: 0.1, 2: 0.2, 3: 0.3, 4: 0.4, 5: 0.5, 6: 0.6})
    for peer, value in (
        (3, 0.25),
        (4, 0.45),
        (7, 0.05),
        (8, 0.7),
    ):  # worse than before, better, too bad for the list, in place of 1
        add_sorted(who, performance, np.array([0]), np.array([peer]), np.array([value], np.float32))
    found = {
        int(peer): round(float(value), 6)
        for peer, value in zip(who[0], performance[0], strict=True)
    }
    assert found == {2: 0.2, 3: 0.3, 4: 0.45, 5: 0.5, 6: 0.6, 8: 0.7}


def test_whom_the_bootstrap_service_names() -> None:
    """Different nodes, all the others alike, never oneself; also where nearly all are named."""
    for n, m in ((400, 20), (5, 4)):
        named = peer_sampling.introduced(np.arange(n), n, m, keys("introduced", 0, n))
        check(named)
        assert named.min() >= 0 and named.max() < n and len(np.unique(named)) == n
