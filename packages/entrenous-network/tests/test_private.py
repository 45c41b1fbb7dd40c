"""The profile private across a network: what a federation agrees on, what nodes then send, and that
the result is a simulation's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from entrenous_network.agreement.catalogue import Items
from entrenous_network.frames.request import RoundWork, announced_of
from entrenous_network.node.node import FederatedNode
from entrenous_network.operate.enrolment import join
from entrenous_network.operate.founding import FoundedFederation, found_federation
from entrenous_network.operate.plans import FoundingPlan, JoinPlan
from entrenous_network.operate.receipt import receipt_of_node
from entrenous_network.server.server_folder import ServerFolder
from federation_links import (
    by_lot,
    federation,
    in_one_line,
    nodes_of,
    offering,
    ratings,
    server_of,
    server_sha256,
    simulated,
    trained,
)
from lying_sums import SubtractingServer

from entrenous.core.contract.update import STEP
from entrenous.core.errors import InputError
from entrenous.privacy.evidence import measured
from entrenous.privacy.protection import PROFILES
from entrenous.privacy.told import HOLDS_AGAINST

DATA = ratings(40)
CLIP = {"clip": 10.0}
FAST = {"factors": 4, "clusters": 3, "cohort": 12}
NAMES = [f"node-{number:02d}" for number in range(1, 13)]


def private(folder: Path, **more: Any) -> FoundedFederation:
    return by_lot(folder, **{"profile": "private", "rounds": 3, "answers": 100, **more})


@pytest.fixture
def noisy(tmp_path: Path) -> Iterator[SubtractingServer]:
    more = {"noise": 3.0, "protect": {"step": 0}}
    made = private(tmp_path / "f", algorithm="fpl", draws="secret", **more)
    held = SubtractingServer(made)
    offering(held.nodes)
    yield held
    held.close()


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("algorithm", ["fpl", "fcf"])
def test_masks_noise_and_all_rows_end_with_the_model_of_a_simulation(
    tmp_path: Path, algorithm: str
) -> None:
    """Noise of the seed, for trying out: to the bit. The occupancy floor is not asked for where
    there is noise on every row.
    """
    made = private(tmp_path / "f", algorithm=algorithm)
    assert made.terms.masked and made.terms.protection.noise_from == "seed"
    found = trained(made)
    assert found is not None and found == server_sha256(simulated(made, DATA))
    for receipt in map(receipt_of_node, made.nodes.values()):
        if receipt["rounds_answered"]:
            first, *others = receipt["part"]
            assert "n operator" in first and "plants models" in first
            assert HOLDS_AGAINST in others and receipt["epsilon"] is None


@pytest.mark.usefixtures("quick")
def test_noise_of_the_system_is_never_the_same(tmp_path: Path) -> None:
    """With secret draws, which is how federations are founded; no seed is in it."""
    made = [private(tmp_path / name, draws="secret", nonce="same") for name in "ab"]
    assert all(one.terms.protection.noise_from == "system" for one in made)
    assert len({trained(one) for one in made}) == 2


def test_the_sum_carries_the_noise_that_the_terms_say_and_no_count_of_senders(
    noisy: SubtractingServer,
) -> None:
    """The updates themselves are small beside it; each device sends a row for every item."""
    sums = [noisy.sum_of(number, NAMES, number / 10) for number in range(12)]
    assert all(total is not None for total in sums)
    still = np.concatenate([total.rows["q"].ravel() for total in sums]) * STEP  # type: ignore[union-attr]
    found = np.std(still - np.median(still))
    # Shares are for ten people, so those of twelve together are a little more.
    assert abs(found / (3.0 * np.sqrt(1.2)) - 1) < 0.12 and found > 3.0  # 5 standard errors
    assert all(np.all(total.senders == 12) for total in sums)  # type: ignore[union-attr]


def test_a_sum_with_less_noise_than_was_promised_does_not_come_out(
    noisy: SubtractingServer,
) -> None:
    """M6: a server that asked 100 of 943 users got .098 where the terms say .3."""
    some = NAMES[:9]
    assert noisy.sum_of(0, some) is None
    assert all("9 people; at least 10" in noisy.said[name] for name in some)


def test_by_its_frames_all_devices_are_alike(tmp_path: Path) -> None:
    """Without masks too: as many rows from everybody, in the order of the items, whatever the
    length of a history.
    """
    made = federation(tmp_path / "f", 20, 3, protect={"noise": 0.6, "rows": "all"})
    assert not made.terms.masked
    held = ServerFolder(made.server)
    own = server_of(held)
    download = own.algorithm.download(own.state)
    asked = held.members.by_node(np.arange(20))
    work = RoundWork(0, announced_of(own.contract, download), asked, download)
    frames = [
        node.answer(bytes(own.collecting.requests.work(work, asked[name])))  # type: ignore[attr-defined]
        for name, node in nodes_of(made).items()
    ]
    assert len({len(frame) for frame in frames}) <= 2  # one digit more in a length
    held.close()
    assert trained(made) == server_sha256(simulated(made))


def test_it_is_the_default_and_founds_a_lot(tmp_path: Path) -> None:
    """Its operator says nothing of lots: cohort and answers go with so many users and rounds."""
    plan = FoundingPlan(algorithm="fpl", rounds=20, users=943, interactions=99_000)
    made = found_federation(tmp_path / "f", Items.of(DATA), [], plan)
    assert made.terms.profile == "private" and made.terms.masked
    own = made.terms.protection
    assert (own.sampling, own.answers, own.people) == ("poisson", 12, PROFILES["private"]["people"])
    assert made.terms.settings["cohort"] == 360
    said = "masked sums of at least 300 people, in at most 12 of which a device answers"
    assert said in made.terms.limits()
    # Before anybody joins: what this default leaves to an operator who sets out to read.
    [worst] = [one for one in measured("fcf", "private") if one["view"] == "planted"]
    fcf = found_federation(tmp_path / "fcf", Items.of(DATA), [], replace(plan, algorithm="fcf"))
    finding = f"finds {worst['attacks'][0]['r_precision']:.3f} of a list"
    first = fcf.terms.limits().partition(" of a list")[0]
    assert first.startswith("profile private: an operator") and finding in f"{first} of a list"
    assert fcf.terms.limits().endswith("; no epsilon")
    assert "a list that you show tells" in fcf.terms.limits()
    assert "An operator who sets out to read can still plant models" in fcf.terms.limits()
    asked = replace(plan, settings={"cohort": 400}, protect={"answers": 5, "people": 200})
    made = found_federation(tmp_path / "g", Items.of(DATA), [], asked)
    assert made.terms.settings["cohort"] == 400
    assert (made.terms.protection.answers, made.terms.protection.people) == (5, 200)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            {"algorithm": "fedmf-ratings", "settings": {}, "noise": 0.0},
            "a message of fedmf-ratings was not measured",
        ),
        ({"algorithm": "sfpl", "settings": {}, "protect": CLIP}, "a sum of one hides nothing"),
        ({"algorithm": "fedfast-gmf", "settings": FAST, "protect": CLIP}, "no mask hides"),
        ({"protect": {"noise_by": "server"}}, "a node cannot see that a server adds noise"),
        ({"protect": {"people": 21}}, "12 devices here; expected at least 21 in a sum"),
    ],
)
def test_what_cannot_be_private_says_what_to_do_in_one_line(
    tmp_path: Path, more: dict[str, Any], words: str
) -> None:
    with in_one_line(words):
        private(tmp_path / "f", **more)
    assert not (tmp_path / "f").exists()


def test_noise_that_others_can_subtract_is_for_the_owner_to_allow(tmp_path: Path) -> None:
    made = private(tmp_path / "f")
    node = made.nodes["node-01"]
    rows = FederatedNode(node).rows
    (node / "store.sqlite").unlink()
    invitation, owner = made.server.parent / "invitations" / "node-01", JoinPlan(people=10)
    with pytest.raises(InputError, match="public"):
        join(node, invitation, rows, owner)
    assert join(node, invitation, rows, replace(owner, public_draws=True)).size == 1


def test_an_owner_raises_floors_and_no_message_lowers_them(noisy: SubtractingServer) -> None:
    """The terms say 10 people; one node insists on 13, and says so."""
    path = noisy.made.nodes["node-02"] / "node.json"
    path.write_text(path.read_text().replace('"people": 10', '"people": 13'))
    noisy.restart("node-02")
    offering(noisy.nodes)
    noisy.sum_of(0, NAMES)
    assert "12 people; at least 13" in noisy.said["node-02"]


@pytest.mark.parametrize("more", [{"profile": "robust"}, {"protect": {"defence": "clip"}}])
def test_a_defence_is_of_simulations_and_the_line_names_one(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    plan = FoundingPlan(**{"algorithm": "fpl", "rounds": 2, "users": 40, **more})
    with in_one_line("`entrenous run fpl --profile robust` is one"):
        found_federation(tmp_path / "f", Items.of(DATA), [], plan)
    assert not (tmp_path / "f").exists()
    made = federation(tmp_path / "g", 4, 2)
    fields = made.terms.model_dump(mode="json")
    fields["protection"]["defence"] = "clip"
    with pytest.raises(InputError, match="defences are of simulations"):
        type(made.terms).parse(fields, "terms")
