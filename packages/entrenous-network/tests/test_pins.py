"""What terms pin of an algorithm: every algorithm can be tried, all that it sends is in the test
round, and each pin sees its fault.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from entrenous_network.agreement import pins as module
from entrenous_network.agreement.pins import AlgorithmPins, pins_of
from entrenous_network.agreement.terms import FederationTerms
from paths import ROOT

from entrenous.core.contract.declared import declared, is_central, is_federated
from entrenous.core.contract.protocols import Catalogue
from entrenous.core.errors import InputError
from entrenous.federation.recorder import NeighbourRecorder, Recorder
from entrenous.privacy.protection import Protection
from entrenous.runs.plan import algorithm_of
from entrenous.systems.gossip_learning import GossipLearning
from entrenous.systems.named import algorithms

CATALOGUE = Catalogue(users=300, items=500, interactions=4000, scale=(1.0, 5.0))
PINNED = ROOT / "tests" / "golden" / "pins.json"
WRITE = (
    "PYTHONPATH=tests/helpers python packages/entrenous-network/tests/test_pins.py writes them anew: only for a change"
    " that is meant to end federations"
)
NAMES = [name for name in algorithms() if not is_central(algorithm_of(name, {}))]


def pinned(name: str, **protection: Any) -> AlgorithmPins:
    return pins_of(algorithm_of(name, {}), CATALOGUE, Protection(**protection))


@pytest.mark.parametrize("name", NAMES)
def test_a_running_federation_of_this_algorithm_goes_on(name: str) -> None:
    """What this version declares and computes is what the version before did. A difference ends
    every federation of the algorithm.
    """
    agreed = AlgorithmPins.parse(json.loads(PINNED.read_text())[name])
    assert agreed.difference(pinned(name)) == "", WRITE


@pytest.mark.beside
def test_all_algorithms_are_pinned() -> None:
    assert json.loads(PINNED.read_text()).keys() == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_all_that_is_sent_and_kept_is_in_the_test_round(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each array that these settings send has numbers in it, and each that a device keeps and
    trains moves.
    """
    recorders = list[Any]()

    def watching(kind: type) -> Any:
        def make(*arguments: Any) -> Any:
            recorders.append(kind(*arguments))
            return recorders[-1]

        return make

    monkeypatch.setattr(module, "Recorder", watching(Recorder))
    monkeypatch.setattr(module, "NeighbourRecorder", watching(NeighbourRecorder))
    found = pinned(name)
    assert set(found.test_round) >= {"sent", "kept", "model"}
    seen = recorders[0].rounds
    assert len(seen) >= module.ROUNDS  # rounds, or messages
    algorithm = algorithm_of(name, {}).configured(CATALOGUE)
    sends = [
        sent
        for sent in declared(algorithm).sends
        if not sent.only_if or getattr(algorithm, sent.only_if)
    ]
    for sent in sends:
        own = [one.sent.get(f"{sent.name}_", one.sent[sent.name]) for one in seen]
        assert any(np.asarray(array).any() for array in own), sent.name
    if (
        is_federated(algorithm)
        and declared(algorithm).traits.draws_negatives
        and "item" in seen[0].sent
    ):
        rows = module._made_up((1.0, 1.0))
        user = int(seen[0].users[0])
        first = seen[0].sent["item"][: seen[0].sent["ptr"][1]]
        consumed = rows.item[rows.ptr[user] : rows.ptr[user + 1]]
        assert len(first) == 0 or len(np.setdiff1d(first, consumed)) > 0  # negatives are drawn
    if isinstance(algorithm, GossipLearning):
        assert len({int(one.users[0]) for one in seen}) > module.USERS // 2


def test_the_protection_is_tried_too() -> None:
    plain, clipped, shorter = (pinned("fpl", clip=clip) for clip in (0.0, 1.0, 0.5))
    assert (
        "protected" not in plain.test_round
        and plain.test_round["sent"] == clipped.test_round["sent"]
    )
    assert (
        clipped.difference(shorter)
        == "in the fixed test round what devices send under the federation's protection comes out"
        " otherwise"
    )
    private = pinned(
        "fpl", noise=0.1, rows="all", secure_sum=True, people=100, parties=3, noise_from="system"
    )
    assert private == pinned(
        "fpl", noise=0.1, rows="all", secure_sum=True, people=100, parties=3, noise_from="system"
    )
    assert "protected" in private.test_round


@pytest.mark.parametrize("part", ["contract", "test_round"])
def test_each_digest_counts(part: str) -> None:
    own = pinned("cali3f-gmf")
    digests = getattr(own, part)
    assert len(digests) == 4
    for name in digests:
        other = own.model_copy(update={part: {**digests, name: "0" * 64}})
        assert own.difference(other) and other.difference(own)
        less = own.model_copy(
            update={part: {each: digests[each] for each in digests if each != name}}
        )
        assert own.difference(less)


def agreed(**changed: Any) -> FederationTerms:
    """The terms of a federation founded with another source, with some pins that are not this
    program's.
    """
    common = {"algorithm": "fpl", "users": 200, "items": 50, "rounds": 10, "operator": "00" * 32}
    terms = FederationTerms.parse({**common, "algorithm_sha256": "0" * 64}, "terms")
    own = terms.pinned()
    assert own.pins is not None and own.run != terms.run
    return own.model_copy(update={"pins": own.pins.model_copy(update=changed)})


def test_another_source_is_taken_if_and_only_if_all_pins_are_the_same() -> None:
    same = agreed()
    assert same.make().configured(same.catalogue) and "so this goes on" in same.other_source()
    assert same.pins is not None
    for part in ("contract", "test_round"):
        digests = getattr(same.pins, part)
        for name in digests:
            with pytest.raises(InputError, match="and it differs: "):
                agreed(**{part: {**digests, name: "0" * 64}}).make()
    with pytest.raises(InputError, match=r"the setting 'factors' is 80, and 81 was agreed"):
        agreed(settings={**same.pins.settings, "factors": 81}).make()
    with pytest.raises(InputError, match=r"expected sha256 0000000000000000\.\.\."):
        agreed(test_round={}).make()
    with pytest.raises(InputError, match=r"expected sha256 0000000000000000\.\.\."):
        same.model_copy(update={"pins": None}).make()


def test_a_users_own_settings_are_not_pinned() -> None:
    own = pinned("pfpl")
    assert "pi" not in own.settings and "factors" in own.settings


def _write() -> None:
    found = {name: pinned(name).model_dump(mode="json") for name in NAMES}
    PINNED.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    _write()
