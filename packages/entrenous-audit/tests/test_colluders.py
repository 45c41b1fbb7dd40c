"""Colluding devices and peers: what they send is valid, they change nothing but their own, and
their reach is measured on the others.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from entrenous_audit.colluders import Colluders, Plot, joined_by
from entrenous_audit.exposure import exposure
from entrenous_audit.peers import PEERS, LyingPeers, honest_peers
from entrenous_audit.python.attacking import attack
from entrenous_audit.robustness import poisons

from entrenous.core.contract.declared import bound
from entrenous.core.contract.enforce import check_sent
from entrenous.core.contract.protocols import grouped_visits
from entrenous.core.contract.update import Update
from entrenous.core.errors import InputError
from entrenous.core.keys import key
from entrenous.core.types import Float32Array, Int64Array
from entrenous.data.interactions import Interactions, Vocabulary, build
from entrenous.data.synthetic import synthetic
from entrenous.federation.defences import known_of
from entrenous.federation.gossip import Gossip
from entrenous.federation.rounds import Rounds
from entrenous.federation.shard import Shard
from entrenous.federation.visible import VisibleRound
from entrenous.systems.fpl import FPL
from entrenous.systems.pepper import PepperGMF

SMALL: dict[str, Any] = {
    "settings": {"factors": 4, "cohort": 30},
    "protocol": "random-80-20",
    "rounds": 20,
}


@cache
def crowd() -> Interactions:
    """The honest users. They are made by the first test that needs them: collecting the tests would
    compile their kernels in every process.
    """
    return synthetic(users=80, items=100, interactions=1600, seed=2)


@cache
def target() -> int:
    """An item that few have."""
    popularity = crowd().popularity
    return int(np.flatnonzero((popularity >= 2) & (popularity <= 9))[0])


def plot(name: str, *, peer: bool = False, many: int = 8) -> Plot:
    """What eight colluders beside the users of `crowd` want and know."""
    public = np.stack([crowd().user[::20], crowd().item[::20]], axis=1).astype(np.int64)
    known = PEERS[name].poison if peer else poisons()[name]
    return Plot(
        target=target(),
        users=80 + np.arange(many),
        honest=80,
        popularity=crowd().popularity,
        public=public,
        settings=known.settings,
        seed=3,
    )


@pytest.mark.parametrize("name", sorted(poisons()))
def test_what_colluders_send_is_valid_and_the_others_send_what_they_did(name: str) -> None:
    poison, wanted = poisons()[name], plot(name)
    rows = joined_by(crowd(), wanted, poison)
    made = (
        FPL(factors=4)
        .configured(crowd().catalogue)
        .model_copy(update={"cohort": 0})
        .configured(rows.catalogue)
    )
    contract, server = (
        bound(made, rows.catalogue),
        made.init_server(rows.catalogue, key(0, "server")),
    )
    lying = Colluders(poison, wanted, made, contract, known_of(made, contract, server).tables)
    seen: list[Update] = []

    def sending(update: Update, model: Any, users: Int64Array) -> Update:
        seen.extend([update, lying(update, model, users)])
        return seen[-1]

    devices = VisibleRound(Shard(made, rows.catalogue, rows, np.arange(88)), sending=sending)
    rounds = Rounds(made, rows, everybody=devices)
    rounds.advance(rounds.start(), 2)
    assert devices.refused == 0
    for before, after in (seen[:2], seen[2:]):
        check_sent(
            contract, after, np.arange(88)
        )  # the declared shapes, items once and no more than allowed, finite numbers
        own = before.ptr[80]
        assert after.item[:own].tolist() == before.item[:own].tolist()
        assert all(
            after.rows[part][:own].tobytes() == before.rows[part][:own].tobytes()
            for part in ("q", "b")
        )


def test_colluders_are_added_and_honest_rows_stay() -> None:
    rows = joined_by(crowd(), plot("fake"), poisons()["fake"])
    assert (
        rows.ptr[:81].tolist() == crowd().ptr.tolist()
        and rows.item[: len(crowd())].tolist() == crowd().item.tolist()
    )
    assert all(target() in rows.item[rows.ptr[u] : rows.ptr[u + 1]] for u in range(80, 88))
    assert set(rows.counts[80:].tolist()) == {31}
    flip = joined_by(crowd(), plot("sign-flip"), poisons()["sign-flip"])
    assert not any(target() in flip.item[flip.ptr[u] : flip.ptr[u + 1]] for u in range(80, 88))


def test_honest_users_keep_their_visits_and_colluders_have_one_of_each() -> None:
    times, row = np.arange(len(crowd())) + 500, np.arange(len(crowd()))
    visits = grouped_visits(
        np.append(row, row[::2]),
        np.append(times, times[::2] - 300),
        np.arange(len(row) + len(row[::2])),
        len(row),
    )
    data = replace(crowd(), time=times, row=row, visits=visits)
    whole = joined_by(data, plot("fake"), poisons()["fake"])
    assert whole.visits is not None and whole.time is not None
    counts = np.diff(whole.visits.ptr)
    assert (
        counts[: len(crowd())].tolist() == np.diff(visits.ptr).tolist()
        and (counts[len(crowd()) :] == 1).all()
    )
    assert whole.visits.time[: len(visits.time)].tolist() == visits.time.tolist()
    assert whole.visits.time[len(visits.time) :].tolist() == whole.time[len(crowd()) :].tolist()


def test_exposure_counts_users_without_the_item_whose_list_has_it() -> None:
    data = build(
        [0, 0, 1, 2, 3], [0, 1, 1, 2, 3], users=Vocabulary(size=4), items=Vocabulary(size=6)
    )

    class Fixed:
        """Scores that are the same for all but user 3, who scores item 0 lowest."""

        def scores(self, users: Int64Array) -> Float32Array:
            """float32 [len(users), 6]."""
            table = np.tile(
                np.array([5, 4, 3, 2, 9, 9], np.float32), (4, 1)
            )  # items 4 and 5 are nobody's: never recommended
            table[3, 0] = -1
            return table[users]

    assert exposure(Fixed(), data, 0, k=1) == pytest.approx(2 / 3)  # users 1 and 2 of 1, 2, 3
    assert exposure(Fixed(), data, 0, k=3) == 1
    assert exposure(Fixed(), data, 3, k=2) == pytest.approx(
        1 / 3
    )  # user 0, who has items 0 and 1; not 1 and 2


def test_boost_owns_an_undefended_server_and_satcap_holds_it_back() -> None:
    found = attack(
        "pfpl+",
        crowd(),
        attack="boost",
        target=(str(target()),),
        defences=("none", "robust"),
        **SMALL,
    ).found
    none, robust = found["rows"]
    assert none["er@10"] == 1 and none["er@10_before"] < 0.2
    assert robust["er@10"] < 0.9  # a list of 10 is a tenth of these items
    assert (
        found["colluders"] == 9
        and found["honest"] == 80
        and found["targets"][0]["item"] == str(target())
    )


def test_the_same_arguments_give_the_same_figures() -> None:
    one, other = (
        attack("pfpl+", crowd(), attack="flood", targets=1, defences=("satcap",), **SMALL).found
        for _ in range(2)
    )
    assert one == other


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"attack": "bost"}, "did you mean 'boost'"),
        ({"share": 1.0}, "below 1"),
        ({"defences": ["krumm"]}, "did you mean 'krum'"),
        ({"target": ["no such"]}, "unknown"),
        ({"targets": 500}, "at least 500"),
        ({"attack_settings": {"power": 3}}, "no setting 'power'"),
        ({"attack_settings": {"strength": "nan"}}, "finite"),
        ({"rounds": 0}, "rounds"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said) as refused:
        attack("pfpl+", crowd(), **{**SMALL, **asked})
    assert "\n" not in str(refused.value)


def test_who_has_no_devices_or_no_rows_of_items_is_refused() -> None:
    with pytest.raises(InputError, match="one place"):
        attack("popular", crowd())
    with pytest.raises(InputError, match="how near"):
        attack("pepper-prme-g", crowd(), attack="boost", rounds=1, protocol="random-80-20")
    with pytest.raises(InputError, match="sends none"):
        attack("metamf", _rated(), attack="boost", rounds=1, protocol="random-80-20")


def _rated() -> Any:
    drawn = np.random.default_rng(5)
    user, item = np.nonzero(drawn.random((40, 50)) < 0.3)
    return build(
        user,
        item,
        value=drawn.integers(1, 6, len(user)),
        users=Vocabulary(size=40),
        items=Vocabulary(size=50),
    )


# ---- peers ---------------------------------------------------------------------------------------


def gossip(name: str, rounds: int = 6, **settings: Any) -> tuple[Gossip, Any]:
    """A network of `crowd`'s users and eight colluders, after some rounds."""
    made, wanted = PepperGMF(factors=4, **settings), plot(name, peer=True)
    rows = joined_by(crowd(), wanted, PEERS[name].poison)
    lies = LyingPeers(PEERS[name], wanted, made.configured(rows.catalogue).model)
    network = Gossip(made, rows, seed=1, lies=lies)
    return network, network.advance(network.start(), rounds)


def test_p4_models_that_are_not_finite_reach_nobody() -> None:
    network, swarm = gossip("not-finite")
    assert np.isfinite(swarm.models[:80]).all()
    assert int(swarm.counts.refused[:80].sum()) > 0
    assert np.isfinite(honest_peers(network, swarm, crowd()).scores(np.arange(80))).all()


def test_colluding_peers_push_what_they_please_and_keep_their_own() -> None:
    network, swarm = gossip("boost")
    recommender = honest_peers(network, swarm, crowd())
    assert exposure(recommender, crowd(), target()) > 0.3
    honest = Gossip(PepperGMF(factors=4), crowd(), seed=1)
    clean = honest_peers(honest, honest.advance(honest.start(), 6), crowd())
    assert exposure(clean, crowd(), target()) < 0.2


def test_no_model_of_a_colluder_stays_in_the_pool() -> None:
    _, swarm = gossip("noise")
    under_way = int((swarm.mail.copies > 0).sum())
    assert swarm.pool.used <= 88 + under_way


def test_an_age_beyond_what_is_believed_counts_as_the_receivers_own() -> None:
    _, open_to_it = gossip("pip-old")
    _, capped = gossip("pip-old", leap=8)
    _, honest = gossip("pip")
    assert open_to_it.nodes.age[:80].max() >= honest.nodes.age[:80].max() + 64
    assert capped.nodes.age[:80].max() < honest.nodes.age[:80].max() + 64


def test_a_model_that_does_much_worse_is_not_merged() -> None:
    _, trusting = gossip("noise")
    _, wary = gossip("noise", least=1.0)
    assert not np.array_equal(trusting.models[:80], wary.models[:80])


def test_a_model_that_points_elsewhere_is_not_merged() -> None:
    def left(name: str, **settings: float) -> float:
        """How alike the models of the honest are to those that they have where colluders lie
        least.
        """
        models = [gossip(one, **settings)[1].models[:80].ravel() for one in (name, "fake")]
        return float(np.corrcoef(models)[0, 1])

    assert left("sign-flip", alike=0.1) > left("sign-flip") + 0.02


def test_an_attack_on_peers_is_measured_as_one_on_a_server_is() -> None:
    found = attack(
        "pepper-gmf",
        crowd(),
        attack="pip",
        target=(str(target()),),
        settings={"factors": 4},
        protocol="random-80-20",
        rounds=6,
    ).found
    assert [row["defence"] for row in found["rows"]] == ["none", "age", "distrust", "alike"]
    assert all(0 <= row["hr@10_attacked"] <= 1 for row in found["rows"])
