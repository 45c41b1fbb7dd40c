"""The profile `dp` across a network: an epsilon that each device keeps by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from entrenous_network.agreement.terms import FederationTerms
from entrenous_network.agreement.unsampled import epsilon_of_gaussian, proven_for_all_rounds
from entrenous_network.operate.enrolment import check_epsilon, told
from entrenous_network.operate.founding import FoundedFederation
from entrenous_network.secure_sum.terms import Floors
from federation_links import federation, in_one_line, nodes_of, ratings

from entrenous.core.errors import InputError
from entrenous.privacy.protection import Protection

USERS, COHORT, ROUNDS = 40, 12, 8
DATA = ratings(USERS)


pytestmark = pytest.mark.usefixtures("quick")


def bounded(folder: Path, **more: Any) -> FoundedFederation:
    """A federation of 40 people under `dp`, of whom a lot draws 12 a round."""
    protect = {"people": 8, **more.pop("protect", {})}
    terms = {"draws": "secret", "profile": "dp", "protect": protect, "deadline": 5.0, **more}
    settings = {"factors": 4, "cohort": COHORT}
    floors = Floors(people=8, noise=True)
    rounds = 0 if terms.get("endless") else ROUNDS
    return federation(folder, USERS, rounds, "fcf", DATA, settings=settings, floors=floors, **terms)


def test_the_terms_prove_what_was_asked_for(tmp_path: Path) -> None:
    terms = bounded(tmp_path / "f").terms
    own = terms.protection
    # 8 rounds x 0.3, and two standard deviations more.
    assert (own.answers, own.clip, own.noise_from) == (5, 1.0, "system")
    assert epsilon_of_gaussian(own.noise / own.clip, own.answers, own.delta) <= 8.0
    proven = terms.proven(own.people)
    assert proven is not None and 7.9 < proven <= 8.0
    assert "of 5 answers; the server sees who answers" in terms.limits()


def test_what_a_device_adds_is_the_noise_of_the_terms(tmp_path: Path) -> None:
    """As many shares as the fewest people add up to the noise that was promised."""
    made = bounded(tmp_path / "f")
    own = made.terms.protection
    nodes = list(nodes_of(made).values())[: own.people]
    download = nodes[0].algorithm.download(
        nodes[0].algorithm.init_server(made.terms.catalogue, np.uint64(1))
    )
    numbers = []
    for node in nodes:
        users = node.shard.users
        devices = node._first_state()
        total = node._secret.total(download, devices, users, 0)  # type: ignore[union-attr]
        sent = [*total.rows.values(), *total.dense.values()]
        numbers.append(np.concatenate([each.ravel() for each in sent]) / 2.0**16)
        node.shard.release(total)
    summed = np.sum(numbers, axis=0)
    assert np.std(summed) == pytest.approx(own.noise, rel=0.25)


def test_an_owner_refuses_more_than_its_own_epsilon(tmp_path: Path) -> None:
    made = bounded(tmp_path / "f")
    invitation = made.server.parent / "invitations" / "node-01"
    terms = FederationTerms.read(invitation / "terms.json")
    assert any("epsilon 7.9" in line or "epsilon 8.0" in line for line in told(invitation))
    check_epsilon(invitation, terms, 8.0, 8)
    with pytest.raises(InputError, match="may spend epsilon") as refused:
        check_epsilon(invitation, terms, 4.0, 8)
    assert "--people" not in str(refused.value)
    # An owner who counts on fewer than the terms name is told by which word it would join.
    with pytest.raises(InputError, match=r"may spend epsilon .* --people 8, if you believe"):
        check_epsilon(invitation, terms, 8.0, 4)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"draws": "public"}, "profile=dp together with topology=server, draws=secret"),
        ({"accuracy": 3.0}, "without accuracy: else nothing is proven"),
        ({"protect": {"noise": 5}}, "--protect noise: the noise follows from epsilon"),
        ({"protect": {"noise_by": "server"}}, "--protect noise_by: noise_by is decided by"),
        ({"protect": {"sampling": "fixed"}}, "--protect sampling: sampling is decided by"),
        ({"protect": {"epsilon": -1}}, "--protect epsilon: got -1; expected above 0"),
        ({"protect": {"epsilon": "much"}}, "--protect epsilon: got much; expected above 0"),
        ({"endless": True}, "--protect answers: missing, and rounds go on without end"),
    ],
)
def test_what_proves_nothing_is_refused_in_one_line(
    tmp_path: Path, more: dict[str, Any], said: str
) -> None:
    with in_one_line(said):
        bounded(tmp_path / "f", **more)
    assert not (tmp_path / "f").exists()


@pytest.mark.parametrize(("multiplier", "rounds"), [(5.0, 1), (5.0, 50), (0.7, 3), (60.0, 100)])
def test_epsilon_without_sampling_is_that_of_dp_accounting(multiplier: float, rounds: int) -> None:
    dp_accounting = pytest.importorskip("dp_accounting")
    from entrenous.privacy.accountant import SampledGaussian, epsilon_of

    found, sigma = epsilon_of_gaussian(multiplier, rounds, 1e-5), multiplier / rounds**0.5
    assert dp_accounting.gaussian_mechanism.get_epsilon_gaussian(sigma, 1e-5) == pytest.approx(
        found, abs=1e-8
    )
    assert epsilon_of(SampledGaussian(multiplier, 1.0), rounds, 1e-5) == pytest.approx(
        found, rel=1e-3
    )


def test_shares_prove_by_the_people_in_a_sum_and_nothing_where_others_could_take_them_away() -> (
    None
):
    own = Protection(clip=2, noise=20, secure_sum=True, noise_from="system", people=100)
    assert proven_for_all_rounds(own, 100, 100, 8) == epsilon_of_gaussian(10, 8, 1e-5)
    assert proven_for_all_rounds(own, 100, 400, 8) == epsilon_of_gaussian(5, 8, 1e-5), (
        "a sum of a fourth has half the noise"
    )
    assert proven_for_all_rounds(
        own.model_copy(update={"lost": 0.75}), 100, 400, 8
    ) == epsilon_of_gaussian(10, 8, 1e-5)
    changes: list[dict[str, Any]] = [
        {"clip": 0},
        {"noise": 0},
        {"secure_sum": False},
        {"noise_from": "seed"},
        {"noise_by": "server"},
    ]
    for change in changes:
        assert proven_for_all_rounds(own.model_copy(update=change), 100, 100, 8) is None
