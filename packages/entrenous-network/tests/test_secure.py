"""Secure rounds of a federation: exact, whoever drops out at whichever stage; resumed after a
crash; and what nodes refuse (A3, A4, A7).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from entrenous_lab.trials.again import QuietRounds, made_again
from entrenous_network.agreement.catalogue import Items
from entrenous_network.agreement.files import read_identity
from entrenous_network.frames.frames import FrameParts, opened, seal
from entrenous_network.frames.request import RoundWork
from entrenous_network.node.node import FederatedNode
from entrenous_network.operate.device import OwnRow
from entrenous_network.operate.founding import FoundedFederation
from entrenous_network.secure_sum import messages as m
from entrenous_network.secure_sum.refusal import SumRefused
from entrenous_network.secure_sum.terms import Floors
from entrenous_network.secure_sum.vector import pack
from entrenous_network.server.collector import Collector
from entrenous_network.server.secure_server import SecureRound
from entrenous_network.server.server import RoundsLost, serve
from entrenous_network.server.server_folder import ServerFolder
from federation_links import (
    DyingLink,
    FaultyLink,
    answers_of,
    by_lot,
    consented,
    federation,
    linked,
    logged,
    nodes_of,
    ratings,
    server_of,
    server_sha256,
    simulated,
)

from entrenous.core.errors import InputError

DATA = ratings(40)


pytestmark = pytest.mark.usefixtures("quick")


def made_from(made: FoundedFederation, sums: Mapping[int, frozenset[str]]) -> str:
    """The model of one process after the same sums. sums: the nodes in that of each round."""
    rows: dict[int, list[OwnRow]] = {user: [] for user in range(len(DATA.users))}
    for user, item, value in zip(DATA.user, DATA.item, DATA.value, strict=True):
        row = OwnRow(user="", item=DATA.items[int(item)], title="", value=float(value), time=None)
        rows[int(user)].append(row)
    users: list[frozenset[int] | None] = []
    for number in range(made.terms.rounds):
        # The node of the first user is the first one.
        users.append(frozenset(int(name.split("-")[1]) - 1 for name in sums[number]))
    stage = QuietRounds(Items.of(DATA), rows, frozenset(rows), frozenset(), users)
    return made_again(made.terms, [stage]).sha256


class Silent(FaultyLink):
    """Nodes of which one answers nothing from one kind of question on."""

    def __init__(self, nodes: Any, who: str, kind: str) -> None:
        super().__init__(nodes)
        self.who, self.kind, self.gone = who, kind, False

    def send(self, address: str, frame: FrameParts, seconds: float) -> None:
        kind = opened(bytes(frame)).head.kind
        self.gone |= address == self.who and kind == self.kind
        if not (self.gone and address == self.who and kind in m.STAGES):
            super().send(address, frame, seconds)


@pytest.mark.parametrize("kind", m.STAGES)
def test_a3_who_drops_out_at_a_stage_is_missing_from_the_sum_or_in_it_whole(
    tmp_path: Path, kind: str
) -> None:
    """Up to the masked input the sum is that of the others; after it, that of all."""
    made = by_lot(tmp_path / "f", rounds=2, people=6)
    nodes = nodes_of(made)
    who = next(name for name, node in nodes.items() if node.offers(0))
    found = serve(Silent(answers_of(nodes), who, kind), made.server)
    sums = consented(nodes)
    assert (who in sums[0]) == (m.STAGES.index(kind) > m.STAGES.index("mask"))
    assert who not in sums[1]
    assert found == made_from(made, sums)


def test_a3_the_server_is_killed_between_any_two_answers_and_goes_on(tmp_path: Path) -> None:
    """The sum of every round is the uninterrupted one's: what was journalled is not asked for
    again, and nothing is summed twice.
    """
    few = ratings(20)
    made = by_lot(tmp_path / "f", rounds=2, people=4, cohort=5, data=few, deadline=30.0)
    link = DyingLink(answers_of(nodes_of(made)))
    deaths = 0
    found = None
    while found is None:
        # A gift of the model takes forty, and is begun anew after a death.
        link.left_looks = 45 + 5 * (deaths % 4)
        try:
            found = serve(link, made.server)
        except ConnectionError:
            deaths += 1
            assert deaths < 200, logged(made.server)[-5:]
    assert deaths > 1
    assert found == server_sha256(simulated(made, few))


def test_a4_rows_that_too_few_devices_fill_are_in_no_sum(tmp_path: Path) -> None:
    """Nodes withhold, say why, and the model stays what it was: each round is lost, since masked
    inputs were asked for.
    """
    floors = Floors(people=6, occupancy=1e6)
    made = by_lot(tmp_path / "f", people=6, noise=0.0, bits=64, floors=floors)
    with pytest.raises(RoundsLost, match="the model is untrained"):
        serve(linked(nodes_of(made)), made.server)
    assert not (made.server / "model.safetensors").exists()
    assert any("withheld" in line and "occupancy" in line for line in logged(made.server))


def test_a_node_that_restarts_in_the_middle_is_missing_and_never_masks_a_round_twice(
    tmp_path: Path,
) -> None:
    """Its secrets were in memory alone; that its masked input has left is on its disk."""
    made = by_lot(tmp_path / "f", rounds=2, people=6)
    nodes = nodes_of(made)
    who = next(name for name, node in nodes.items() if node.offers(0))

    class Restarting(FaultyLink):
        restarted = False

        def send(self, address: str, frame: FrameParts, seconds: float) -> None:
            head = opened(bytes(frame)).head
            first = (address, head.kind, head.round) == (who, "consent", 0)
            if first and not self.restarted:
                self.restarted = True
                nodes[who].close()
                nodes[who] = FederatedNode(made.nodes[who])
                self.nodes[who] = nodes[who].answer
            super().send(address, frame, seconds)

    found = serve(Restarting(answers_of(nodes)), made.server)
    assert f"refused withheld from {who}: not-asked" in logged(made.server)
    # Its masked input had come; a quorum of the others unmasked it.
    assert found == server_sha256(simulated(made, DATA))
    key = read_identity(made.server / "identity.key")
    about = {"round": 0, "attempt": 7, "model": bytes(32), "about": {"users": 1}}
    again = seal(key, "advert", run=made.terms.run, node="server", **about)
    assert b"has left before" in bytes(opened(nodes[who].answer(again)).body)


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [("rfrec", {"factors": 4}), ("cali3f-gmf", {"factors": 4, "clusters": 3})],
)
def test_sums_in_groups_are_refused_with_masks(
    tmp_path: Path, algorithm: str, settings: dict[str, Any]
) -> None:
    """Floors count the nodes of a round, not those of a group: the sum of a group of one is that
    one's update.
    """
    with pytest.raises(
        InputError, match=r"adds up in \d+ groups, and a group of one hides nothing"
    ) as why:
        by_lot(tmp_path / "masks", algorithm=algorithm, settings=settings)
    assert "\n" not in str(why.value)
    federation(tmp_path / "plain", 5, 2, algorithm, settings=settings)


@pytest.mark.parametrize(
    ("part", "lie", "code"),
    [
        ("rows", -(1 << 63), "too-large"),
        ("senders", -1, "wrong-count"),
        ("weight", -(1 << 63), "wrong-weight"),
        ("weight", 1 << 40, "wrong-weight"),
        ("dense", -(1 << 63), "too-large"),
    ],
)
def test_a_sum_that_no_devices_can_have_is_lost(
    tmp_path: Path, part: str, lie: int, code: str
) -> None:
    """A masked input may be anything: the least int64, of which abs is itself, a weight of
    millions, fewer senders than none.
    """
    settings = {"factors": 4, "layers": (4,), "cohort": 12}
    made = by_lot(
        tmp_path / "f", algorithm="fedavg-neumf", settings=settings, noise=0.0, bits=64, people=6
    )
    held = ServerFolder(made.server)
    own = server_of(held)
    work = RoundWork(
        0, bytes(32), held.members.by_node(np.arange(20)), own.algorithm.download(own.state)
    )
    assert isinstance(own.collecting, Collector)
    found = SecureRound(own.collecting, work)
    total = own.contract.empty_total()._replace(devices=20)
    total.weight[0] = 20 << 16
    arrays = {
        "rows": next(iter(total.rows.values())),
        "dense": next(iter(total.dense.values())),
        "senders": total.senders,
    }
    {**arrays, "weight": total.weight}[part].reshape(-1)[0] = lie

    class Summed:
        """What a sum of masked inputs came to."""

        def heard(self, stage: int) -> set[str]:
            return set(work.asked)

        def total(self) -> Any:
            return pack(total)

    with pytest.raises(SumRefused, match=f"none that these devices can have.*{code}"):
        found._total(Summed())  # type: ignore[arg-type]
    held.close()


def test_a_sum_whose_journal_is_damaged_is_lost(tmp_path: Path) -> None:
    """Masked inputs may have been asked for: what is left of the journal does not tell."""
    held = ServerFolder(by_lot(tmp_path / "f", people=6).server)
    own = server_of(held)
    download = own.algorithm.download(own.state)
    work = RoundWork(0, bytes(32), held.members.by_node(np.arange(20)), download)
    held.journal(0).append(b"what was said")
    path = held.path / "round-000000000-000.journal"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert isinstance(own.collecting, Collector)
    found = SecureRound(own.collecting, work)
    # Started again, too.
    for _ in range(2):
        with pytest.raises(StopIteration) as over:
            next(found.questions())
        assert over.value.value.devices == 0
        assert found.begun
    assert "its journal is damaged; nothing was revealed" in " ".join(logged(held.path))
    held.close()
