"""PRME-G between peers and around a server: what devices must know, what is weighed and
averaged.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_federations import sent, started

from entrenous.core.contract.gossip import data_of
from entrenous.core.errors import InputError
from entrenous.core.keys import folds, key
from entrenous.data.interactions import SECOND, Interactions, Vocabulary, build
from entrenous.data.load import load
from entrenous.data.visits import VisitColumns, with_visits
from entrenous.federation.gossip import Gossip, device_data
from entrenous.federation.rounds import Rounds
from entrenous.runs.recommenders import fitted
from entrenous.systems.fedavg_prme import FedAvgPRME
from entrenous.systems.fedfast_prme import FedFastPRME
from entrenous.systems.pepper import (
    GossipAgePRME,
    GossipAveragePRME,
    GossipReptilePRME,
    PepperPRME,
    drawn_weighting_sets,
)
from entrenous.systems.reptile_prme import ReptilePRME

SMALL: dict[str, Any] = {
    "factors": 4,
    "preference": 0.5,
    "tau": 0.0,
    "learning_rate": 0.05,
    "reg": 0.001,
    "local_epochs": 1,
    "init_std": 0.01,
    "contexts": "nearest",
    "visits": "all",
}
PEERS: dict[str, Any] = {
    **SMALL,
    "view": 3,
    "redraw": 2,
    "carried": 3,
    "largest": 50.0,
    "rounds": 10,
}
AROUND: dict[str, Any] = {**SMALL, "cohort": 0, "rounds": 10}
GOSSIP = [PepperPRME, GossipAveragePRME, GossipAgePRME, GossipReptilePRME]
TOWNS, VENUES, PEOPLE = 4, 15, 8  # of a town


def towns(**change: Any) -> Interactions:
    """Everybody goes to seven venues of the town they live in, the smaller numbers of it more often
    than the larger.
    """
    random, user, item = np.random.default_rng(6), [], []
    for u in range(TOWNS * PEOPLE):
        likely = np.linspace(3, 1, VENUES)
        mine = random.choice(VENUES, 7, replace=False, p=likely / likely.sum())
        user += [u] * 7
        item += (u % TOWNS * VENUES + mine).tolist()
    places = np.repeat(
        np.array([[40.7, -74.0], [40.7, -73.8], [40.8, -74.0], [40.8, -73.8]]), VENUES, axis=0
    )
    places += random.normal(0, 0.01, places.shape)
    given = {
        "time": SECOND * random.integers(0, 10**7, len(user)),
        "features": {"lat": places[:, 0].astype(str), "lon": places[:, 1].astype(str)},
    }
    return build(
        user,
        item,
        users=Vocabulary(size=TOWNS * PEOPLE),
        items=Vocabulary(size=TOWNS * VENUES),
        **{**given, **change},
    )


DATA = towns()


def made(kind: Any, **change: Any) -> Any:
    extra: dict[str, Any] = {"clusters": 3, "decay": 1.0} if kind is FedFastPRME else {}
    extra |= {"meta_epochs": 3, "meta_rate": 0.2} if kind is GossipReptilePRME else {}
    extra |= {"meta_rate": 1.0, "adapt_epochs": 1} if kind is ReptilePRME else {}
    return kind(**{**(PEERS if kind in GOSSIP else AROUND), **extra, **change})


def trained(kind: Any, data: Interactions, rounds: int, **change: Any) -> Any:
    algorithm = made(kind, **change)
    federation = (
        Gossip(algorithm, data, seed=1) if kind in GOSSIP else Rounds(algorithm, data, seed=1)
    )
    return fitted(federation, federation.advance(federation.start(), rounds)).recommender  # type: ignore[arg-type]


# ---- what a device knows -------------------------------------------------------------------------


def test_places_are_numbers_on_earth_or_unknown() -> None:
    lat = np.array(["40.5", "", "91", "-33", "north", "nan", "inf", "90"])
    lon = np.array(["-74", "1", "1", "-180.5", "2", "3", "4", "180"])
    user, names = np.zeros(8, np.int64), (Vocabulary(size=1), Vocabulary(size=8))
    data = build(
        user, np.arange(8), users=names[0], items=names[1], features={"lat": lat, "lon": lon}
    )
    assert data.places is not None
    assert data.places[[0, 7]].tolist() == [[40.5, -74.0], [90.0, 180.0]]
    assert np.isnan(data.places[1:7]).all()
    own = data.histories(np.arange(1))
    assert own.places is data.places and own.time is None  # parsed once
    assert (
        build(user, np.arange(8), users=names[0], items=names[1], features={"lat": lat}).places
        is None
    )


def test_one_s_own_files_may_say_where_items_are(tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_text(
        "user_id,item_id,timestamp\nann,a,5\nann,b,9\nbob,b,7\nbob,c,8\n"
    )
    (tmp_path / "places.csv").write_text(
        "venue_id,name,Latitude,lng\nb,bar,40.5,-74.25\na,arch,,\n"
    )
    data = load(str(tmp_path / "visits.csv"), items=str(tmp_path / "places.csv"))
    assert data.places is not None and data.places[data.items.indices(["b"])].tolist() == [
        [40.5, -74.25]
    ]
    assert np.isnan(data.places[data.items.indices(["a"])]).all() and data.features[
        "title"
    ].tolist() == ["arch", "bar", ""]


def test_rows_that_weigh_leave_the_others_their_times() -> None:
    private = device_data(DATA, None)
    kept = drawn_weighting_sets(
        private, 0.3, len(DATA.items), folds(key(1, "w"), np.arange(len(DATA.users)))
    ).histories
    when = {
        (u, i): (t, r)
        for u, i, t, r in zip(
            DATA.user.tolist(), DATA.item.tolist(), DATA.time, DATA.row, strict=True
        )
    }  # type: ignore[arg-type]
    user = np.repeat(np.arange(len(DATA.users)), np.diff(kept.ptr)).tolist()
    assert len(kept.item) == 5 * len(DATA.users)
    found = zip(user, kept.item.tolist(), kept.time, kept.row, strict=True)  # type: ignore[arg-type]
    assert all(when[u, i] == (t, r) for u, i, t, r in found)


@pytest.mark.parametrize("kind", [PepperPRME, FedAvgPRME])
@pytest.mark.parametrize(
    ("change", "said"), [({"time": None}, "no times"), ({"features": {}}, "where items are")]
)
def test_data_that_does_not_say_when_or_where_is_refused_in_one_line(
    kind: Any, change: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=f"PRME-G: the data .*{said}; expected .*; ") as refused:
        trained(kind, towns(**change), 1)
    assert "\n" not in str(refused.value)


def test_a_venue_of_which_nobody_knows_where_it_is_has_a_finite_score() -> None:
    lat = DATA.features["lat"].copy()
    lat[:5] = ""
    assert np.isfinite(
        trained(PepperPRME, towns(features={**DATA.features, "lat": lat}), 4).scores(np.arange(8))
    ).all()


# ---- what it learns ------------------------------------------------------------------------------


def test_contexts_change_scores_and_nothing_else() -> None:
    users = np.arange(len(DATA.users))
    found = [
        trained(GossipAveragePRME, DATA, 3, contexts=how) for how in ("nearest", "mean", "latest")
    ]
    assert all(one.models.tobytes() == found[0].models.tobytes() for one in found)
    nearest, mean, latest = (one.scores(users) for one in found)
    assert (
        (nearest >= mean - 1e-5 * np.abs(mean)).all()
        and (nearest >= latest).all()
        and not np.array_equal(mean, latest)
    )


def test_a_gap_longer_than_tau_leaves_the_venues_among_venues_alone() -> None:
    """No two visits of the data are within a second: S stays what it was, P does not."""
    never, always = (
        trained(GossipAveragePRME, DATA, 2, tau=tau, reg=0.0).models for tau in (1 / 3600, 0.0)
    )
    (p_never, s_never), (_, s_always) = (parts(models) for models in (never, always))
    assert (
        (s_never == s_never[0]).all()
        and not (s_always == s_always[0]).all()
        and not (p_never == p_never[0]).all()
    )


def parts(models: np.ndarray) -> np.ndarray:
    """P and S of all models, float32 [2, n, items, factors]."""
    return np.moveaxis(
        models[:, : 8 * len(DATA.items)].reshape(len(models), len(DATA.items), 2, 4), 2, 0
    )


# ---- repeated visits -----------------------------------------------------------------------------


def visited(once: int = -1) -> Interactions:
    """The same towns, in which everybody goes up to four times to where they go at all, and
    somebody once.
    """
    times = np.where(DATA.user == once, 1, np.arange(len(DATA)) % 4 + 1)
    again = np.arange(len(DATA)).repeat(times)
    time = SECOND * np.random.default_rng(2).integers(0, 10**7, len(again))
    time = np.where(DATA.user[again] == once, DATA.time[again], time)
    return with_visits(
        DATA,
        VisitColumns(
            DATA.user[again].astype(np.int64), DATA.item[again], time, np.arange(len(again))
        ),
        "here",
    )


@pytest.mark.parametrize("kind", [GossipAveragePRME, FedAvgPRME])
def test_all_visits_are_learnt_from_or_the_last_of_each_venue_alone(kind: Any) -> None:
    everyone, found = np.arange(len(DATA.users)), visited()
    plain, last, all_of_them = (
        trained(kind, data, 3, visits=which).scores(everyone)
        for data, which in ((DATA, "all"), (found, "last"), (found, "all"))
    )
    assert (
        plain.tobytes() == last.tobytes() != all_of_them.tobytes()
        and np.isfinite(all_of_them).all()
    )


def test_a_device_trains_alike_alone_and_among_others() -> None:
    """Also where its own rows are one visit each, and those of others are not."""
    whole = visited(once=0)
    assert whole.visits is not None
    algorithm: Any = made(GossipAveragePRME).configured(DATA.catalogue)
    together, who = device_data(whole, None), np.array([5, 0, 9])
    single = device_data(replace(whole, visits=None), None)
    apart = [data_of(together, who[:1]), data_of(single, who[1:2]), data_of(together, who[2:])]
    nodes = algorithm.init_nodes(who, np.zeros((3, 2), np.int32), algorithm.width, key(0))
    start = algorithm.init_model(DATA.catalogue, key(0))[None].repeat(3, axis=0)
    keys, places, pool = folds(key(1), who), np.arange(3), start.copy()
    users = nodes.user.copy()
    algorithm.model.train(pool, places, nodes, places, data_of(together, who), keys)
    for d, own in enumerate(apart):
        alone, mine = start[:1].copy(), nodes._replace(user=users[d : d + 1].copy())
        algorithm.model.train(alone, places[:1], mine, places[:1], own, keys[d : d + 1])
        assert (
            alone.tobytes() == pool[d].tobytes() and mine.user.tobytes() == nodes.user[d].tobytes()
        )


# ---- around a server -----------------------------------------------------------------------------


def test_fedavg_is_the_mean_of_the_models_weighted_by_rows() -> None:
    algorithm, some = made(FedAvgPRME), np.array([1, 4, 6])
    server, devices = started(algorithm, DATA)
    data = DATA.select((DATA.user != 4) | (DATA.item % 2 == 0))  # who has fewer rows counts less
    _, update, total = sent(algorithm, server, devices, data, some)
    n, moved = data.counts[some], np.zeros((3, *server.item.shape))
    for d in range(3):
        part = slice(update.ptr[d], update.ptr[d + 1])
        moved[d, update.item[part]] = update.rows["item"][part] / n[d]
    after = algorithm.aggregate(server, total)
    assert after.item == pytest.approx(
        server.item + np.einsum("d,dif->if", n / n.sum(), moved), abs=1e-6
    )
    assert len(set(n.tolist())) > 1 and not np.array_equal(after.item, server.item)


def test_reptile_goes_as_far_as_it_is_told_towards_the_mean() -> None:
    server, devices = started(made(ReptilePRME), DATA)
    everyone, moves = np.arange(len(DATA.users)), []
    for rate in (0.25, 1.0):
        algorithm = made(ReptilePRME, meta_rate=rate)
        moves.append(
            algorithm.aggregate(server, sent(algorithm, server, devices, DATA, everyone)[2]).item
            - server.item
        )
    assert moves[0] == pytest.approx(0.25 * moves[1], abs=1e-7) and np.abs(moves[1]).max() > 0


def test_reptile_scores_by_what_a_device_makes_of_the_model() -> None:
    server, devices = started(made(ReptilePRME), DATA)
    own, kept = DATA.histories(np.arange(5)), server.item.copy()
    few = type(devices)(*(array[:5] for array in devices))
    plain, adapted = (
        made(ReptilePRME, adapt_epochs=epochs).score(server, few, own) for epochs in (0, 4)
    )
    assert not np.array_equal(plain, adapted) and server.item.tobytes() == kept.tobytes()
    assert made(ReptilePRME, adapt_epochs=4).score(server, few, own).tobytes() == adapted.tobytes()


def test_fedfast_samples_every_cluster_and_averages_venues_as_fedavg_does() -> None:
    """From the same model and the same user vectors both come to the same venues; FedFast's server
    has the vectors too.
    """
    algorithm, everyone = made(FedFastPRME, startup=False), np.arange(len(DATA.users))
    server, devices = started(algorithm, DATA)
    _, update, total = sent(algorithm, server, devices, DATA, everyone)
    after = algorithm.aggregate(server, total)
    plain, (start, own) = made(FedAvgPRME), started(made(FedAvgPRME), DATA)
    start, own = start._replace(item=server.item), own._replace(user=server.user)
    learnt, _, same_total = sent(plain, start, own, DATA, everyone)
    assert plain.aggregate(start, same_total).item.tobytes() == after.item.tobytes()
    assert after.user.tobytes() == learnt.user.tobytes() == update.shown["user"].tobytes()
    few = made(FedFastPRME, startup=False, cohort=6).configured(DATA.catalogue)
    chosen = few.select(server, DATA.catalogue, key(0))
    assert len(chosen) == 6 and np.bincount(server.cluster[chosen], minlength=3).min() >= 1
