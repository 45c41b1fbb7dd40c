"""A transcript holds what crosses the boundary in each view, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from entrenous_audit.transcript import read_transcript, write_transcript
from onlooker import observe

from entrenous.core.errors import InputError
from entrenous.data.synthetic import synthetic
from entrenous.federation.gossip import Gossip
from entrenous.runs.plan import algorithm_of

FPL: dict[str, Any] = {"factors": 4}


@pytest.fixture(scope="module")
def data() -> Any:
    return synthetic(users=30, items=40, interactions=300, seed=0)


def test_a_transcript_survives_its_file(data: Any, tmp_path: Path) -> None:
    seen = observe("fpl", data, rounds=2, settings=FPL)
    write_transcript(tmp_path / "seen", seen)
    again = read_transcript(tmp_path / "seen")
    assert (
        again.about == seen.about
        and again.popularity.tolist() == data.popularity.tolist()
        and len(again.rounds) == 2
    )
    for one, other in zip(seen.rounds, again.rounds, strict=True):
        assert one.round == other.round and one.users.tolist() == other.users.tolist()
        for part in ("received", "sent"):
            mine, its = getattr(one, part), getattr(other, part)
            assert mine.keys() == its.keys() and all(
                np.array_equal(mine[name], its[name]) for name in mine
            )


def test_what_is_public_is_said_and_no_history(data: Any) -> None:
    about = observe("fpl", data, settings=FPL).about
    assert "seed" not in about
    assert about["settings"]["triples"] == 10 and about["settings"]["pi"] == 1.0  # in force
    assert [sent["name"] for sent in about["sends"]] == ["q", "b"] and about["cohort"] == 30


@pytest.mark.parametrize("profile", ["paper", "robust"])
def test_a_message_is_seen_once_and_as_it_was_sent(data: Any, profile: str) -> None:
    seen, plain = (
        observe("fpl", data, rounds=1, settings=FPL, profile=one).rounds[0]
        for one in (profile, "paper")
    )
    assert seen.users.tolist() == list(range(30)) and len(seen.sent["ptr"]) == 31
    assert all(np.array_equal(seen.sent[name], plain.sent[name]) for name in plain.sent)


def test_the_sum_view_has_no_rows_of_devices(data: Any) -> None:
    seen = observe("fpl", data, view="sum", cohort=10, rounds=3, settings=FPL)
    assert [len(one.users) for one in seen.rounds] == [10, 10, 10]
    assert {frozenset(one.sent) for one in seen.rounds} == {
        frozenset({"senders", "weight", "q", "b"})
    }
    assert len({tuple(one.users) for one in seen.rounds}) > 1


def test_two_sums_of_one_model_differ_by_the_update_of_one_party(data: Any) -> None:
    seen = observe("fcf", data, view="difference", cohort=10, rounds=2, settings=FPL)
    alone = observe("fcf", data, rounds=1, settings=FPL).rounds[0]
    whole, less = seen.rounds[:2]
    (party,) = set(whole.users) - set(less.users)
    assert (
        whole.received["y"].tobytes() == less.received["y"].tobytes()
        and whole.round == less.round == 0
    )
    assert np.allclose((whole.sent["f"] - less.sent["f"])[0], alone.sent["f"][party], atol=2.0**-16)
    assert set(seen.rounds[2].users) - set(seen.rounds[3].users) != {
        party
    }  # another one in each round


@pytest.mark.parametrize("noise_by", ["server", "devices"])
def test_two_sums_of_one_model_have_noise_each_of_its_own(data: Any, noise_by: str) -> None:
    """The same noise in both would cancel: the difference would be a party's message as if there
    were no noise at all.
    """
    protect = {"noise": 2.0, "noise_by": noise_by, "rows": "all"}
    asked: dict[str, Any] = {
        "view": "difference",
        "cohort": 10,
        "rounds": 3,
        "settings": FPL,
    }
    seen = observe("fcf", data, protect=protect, **asked)
    alone = observe("fcf", data, rounds=1, settings=FPL).rounds[0]
    whole, less = seen.rounds[:2]
    (party,) = set(whole.users) - set(less.users)
    left = (whole.sent["f"] - less.sent["f"])[0] - alone.sent["f"][party]
    assert left.std() == pytest.approx(2 * 2**0.5, rel=0.2), "noise of two sums"
    repeated = observe("fcf", data, protect=protect, **asked)
    for one, other in zip(seen.rounds, repeated.rounds, strict=True):
        assert one.sent["f"].tobytes() == other.sent["f"].tobytes()


def test_two_sums_of_one_model_differ_by_one_party_however_parties_are_drawn(data: Any) -> None:
    """Draws of the operating system are not to be had twice; who answers again is who took part."""
    drawn = {
        "sampling": "poisson",
        "noise": 1.0,
        "noise_by": "server",
        "noise_from": "system",
        "rows": "all",
    }
    seen = observe("fcf", data, view="difference", cohort=10, rounds=4, settings=FPL, protect=drawn)
    for whole, less in zip(seen.rounds[::2], seen.rounds[1::2], strict=True):
        assert set(less.users) < set(whole.users) and len(less.users) == len(whole.users) - 1


def test_training_goes_on_from_the_sum_of_all(data: Any) -> None:
    """The private state of devices is not that of the second sum."""
    pairs = observe("fpl", data, view="difference", cohort=10, rounds=3, settings=FPL)
    sums = observe("fpl", data, view="sum", cohort=10, rounds=3, settings=FPL)
    for one, other in zip(pairs.rounds[::2], sums.rounds, strict=True):
        assert one.sent["q"].tobytes() == other.sent["q"].tobytes()


def test_gateways_take_part_with_all_their_users(data: Any) -> None:
    seen = observe("fcf", data, view="difference", cohort=4, people=3, rounds=2, settings=FPL)
    for whole, less in zip(seen.rounds[::2], seen.rounds[1::2], strict=True):
        assert len(whole.users) == 12 and set(np.bincount(whole.users // 3).tolist()) <= {0, 3}
        assert (
            len({user // 3 for user in set(whole.users) - set(less.users)}) == 1
            and len(less.users) == 9
        )


def test_only_watched_users_are_kept_with_what_they_sent(data: Any) -> None:
    for algorithm in ("fpl", "fcf"):
        whole = observe(algorithm, data, rounds=2, settings=FPL)
        some = observe(algorithm, data, rounds=2, settings=FPL, watched=5)
        users = some.rounds[1].users
        assert len(users) == 5 == some.about["watched"]
        if algorithm == "fcf":
            assert some.rounds[1].sent["f"].tobytes() == whole.rounds[1].sent["f"][users].tobytes()
            continue
        ptr, own = whole.rounds[1].sent["ptr"], some.rounds[1].sent["ptr"]
        for place, user in enumerate(users):
            theirs = whole.rounds[1].sent["q"][ptr[user] : ptr[user + 1]]
            assert (
                some.rounds[1].sent["q"][own[place] : own[place + 1]].tobytes() == theirs.tobytes()
            )


def test_a_neighbour_sees_the_first_pushes_and_the_base_model(data: Any) -> None:
    seen = observe("pepper-gmf", data, view="neighbour", rounds=2)
    made: Any = algorithm_of("pepper-gmf", {})
    gossip = Gossip(made, data)
    first = seen.rounds[0]
    models = gossip.start().models
    assert (
        first.received["model"].tobytes() == gossip._base.tobytes()
        and seen.rounds[1].received == {}
    )
    assert first.sent["model"][0].tobytes() == models[first.users[0], : len(gossip._base)].tobytes()
    assert {"model", "sender", "age", "samples", "peers", "receiver"} == first.sent.keys()
    one = observe("pepper-gmf", data, view="neighbour", rounds=2, watched=1)
    assert {int(message.sent["receiver"][0]) for message in one.rounds} == set(
        one.about["neighbours"]
    )


def test_what_peers_do_under_a_profile_is_in_their_settings(data: Any) -> None:
    about = observe("pepper-gmf", data, view="neighbour", profile="private", watched=1).about
    assert about["profile"] == "private" and not about["protect"]["secure_sum"]
    assert (
        about["settings"]
        != observe("pepper-gmf", data, view="neighbour", watched=1).about["settings"]
    )


def test_the_final_model_and_half_of_the_histories_are_all_that_its_holder_has(data: Any) -> None:
    seen = observe("fpl", data, view="model", rounds=3, settings=FPL)
    own = {name: array.shape for name, array in seen.model.items() if not name.startswith("known/")}
    assert seen.rounds == () and own == {"q": (40, 4), "b": (40,)}
    ptr, item = seen.model["known/ptr"], seen.model["known/item"]
    assert ptr[-1] == len(item) < 0.6 * len(data) and set(item[: ptr[1]]) < set(
        data.item[: data.ptr[1]]
    )


@pytest.mark.parametrize(
    "algorithm, wrong",
    [
        ("fpl", {"view": "sums"}),
        ("fpl", {"view": "neighbour"}),
        ("pepper-gmf", {}),
        ("fpl", {"cohort": 31}),
        ("fpl", {"rounds": -1}),
        ("popular", {}),
        ("fpl", {"cohort": 20, "people": 2}),
    ],
)
def test_what_cannot_be_observed_is_refused(
    data: Any, algorithm: str, wrong: dict[str, Any]
) -> None:
    with pytest.raises(InputError):
        observe(algorithm, data, **wrong)


def test_an_epsilon_is_observed_with_the_noise_that_a_whole_training_needs(data: Any) -> None:
    pytest.importorskip("dp_accounting")
    settings: dict[str, Any] = {**FPL, "rounds": 20}
    seen = observe("fcf", data, view="sum", cohort=10, rounds=2, profile="dp", settings=settings)
    longer = observe(
        "fcf",
        data,
        view="sum",
        cohort=10,
        rounds=2,
        profile="dp",
        settings={**settings, "rounds": 200},
    )
    assert 0 < seen.about["protect"]["noise"] < longer.about["protect"]["noise"]
    assert np.abs(seen.rounds[0].sent["f"]).std() > seen.about["protect"]["noise"] / 2
