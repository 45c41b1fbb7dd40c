"""A budget of answers that is renewed with time: at most so many in any 30 days, by the device's own
clock, whatever a server says of rounds.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import Command
from entrenous_network.agreement.members import MEMBERS, Members
from entrenous_network.agreement.terms import TERMS, FederationTerms
from entrenous_network.frames.frames import FrameParts, opened
from entrenous_network.node.common import Common
from entrenous_network.node.node import FederatedNode
from entrenous_network.node.secure_node import budget_of
from entrenous_network.operate.enrolment import told
from entrenous_network.operate.founding import FoundedFederation
from entrenous_network.operate.receipt import receipt_of_node
from entrenous_network.secure_sum.party_list import DAY
from entrenous_network.secure_sum.terms import Floors
from entrenous_network.server.server import serve
from federation_links import consented, federation, in_one_line, linked, ratings
from lying_sums import SubtractingServer

from entrenous.core.keys import key as key_of
from entrenous.privacy.protection import Protection
from entrenous.privacy.turnout import drawn, lots

USERS = 40
COHORT = 12
ANSWERS = 2
DATA = ratings(USERS)
NAMES = [f"node-{number:02d}" for number in range(1, USERS + 1)]
NOON = 1_790_000_000.0


class Clock:
    """The clock of all devices, which a test sets."""

    def __init__(self, now: float = NOON) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def by_days(folder: Path, *, people: int = 10, **more: Any) -> FoundedFederation:
    """A federation of 40 people, each of whom answers twice in any 30 days."""
    own = {"sampling": "poisson", "answers": ANSWERS, "days": 30, "noise": 0.2, "rows": "all"}
    return federation(
        folder,
        USERS,
        more.pop("rounds", 10),
        "fcf",
        DATA,
        settings={"factors": 4, "cohort": COHORT},
        secure="masks",
        floors=Floors(people=people, occupancy=0.0),
        protect={**own, **more.pop("protect", {})},
        deadline=5.0,
        **more,
    )


def opened_by(made: FoundedFederation, clock: Clock) -> dict[str, FederatedNode]:
    """All nodes, with one clock."""
    return {
        name: FederatedNode(folder, common=Common(clock)) for name, folder in made.nodes.items()
    }


def times_of(node: FederatedNode) -> tuple[float, ...]:
    return budget_of(node.store, node.terms).times


# ---- an honest federation ------------------------------------------------------------------------


@pytest.mark.usefixtures("quick")
def test_devices_answer_again_when_time_has_passed(
    tmp_path: Path,
) -> None:
    """A month passes before round 5, in which many have nothing left; nobody is started again."""
    made = by_days(tmp_path / "f", people=6)
    clock = Clock()
    nodes = opened_by(made, clock)
    link = linked(nodes)
    sent = link.send

    def send(address: str, frame: FrameParts, seconds: float) -> None:
        number = opened(bytes(frame)).head.round
        clock.now = NOON + 60 * number + (30 * DAY if number >= 5 else 0)
        sent(address, frame, seconds)

    link.send = send  # type: ignore[method-assign]
    assert serve(link, made.server) is not None
    members = Members.read(made.server / MEMBERS, USERS).nodes
    sums: list[frozenset[int] | None] = []
    summed = consented(nodes)
    for number in range(10):
        people = [members[name].users.tolist() for name in summed.get(number, ())]
        sums.append(frozenset(user for own in people for user in own))
    # By hand: whom the lot draws, and who has an answer left since the month began.
    expected = []
    left_out = 0
    for number in range(10):
        if number in (0, 5):
            answered = np.zeros(USERS, np.int64)
        offered = drawn(lots(key_of(1, "rounds"), number, np.arange(USERS)), COHORT / USERS)
        left_out += int(np.sum(offered & (answered >= ANSWERS)))
        offered &= answered < ANSWERS
        answered += offered
        expected.append(frozenset(np.flatnonzero(offered).tolist()))
    assert sums == expected and left_out > 10
    given = [len(times_of(node)) for node in nodes.values()]
    assert max(given) == 2 * ANSWERS and sum(given) == sum(map(len, expected))


# ---- a server that lies, and clocks --------------------------------------------------------------


class Lying(SubtractingServer):
    """A server that lies, to devices with a clock that is set."""

    def __init__(self, made: FoundedFederation, clock: Clock) -> None:
        super().__init__(made)
        self.clock = clock
        for node in self.nodes.values():
            node.close()
        self.nodes.update(opened_by(made, clock))
        for name in self.nodes:
            self.offering(name)

    def offering(self, name: str) -> None:
        # In every round, so that the server has the widest choice.
        self.nodes[name].offers = lambda number: True  # type: ignore[method-assign]

    def restart(self, name: str) -> None:
        self.nodes[name].close()
        folder = self.made.nodes[name]
        self.nodes[name] = FederatedNode(folder, common=Common(self.clock))
        self.offering(name)


@pytest.fixture
def lying(tmp_path: Path, quick: None) -> Iterator[Lying]:
    held = Lying(by_days(tmp_path / "f"), Clock())
    yield held
    held.close()


FIRST = NAMES[:12]
SECOND = NAMES[:6] + NAMES[12:18]
THIRD = NAMES[:6] + NAMES[18:24]
FOURTH = NAMES[:6] + NAMES[24:30]


def spend(lying: Lying) -> None:
    """Two sums, of which six people are in both, a day apart."""
    assert lying.sum_of(0, FIRST) is not None
    lying.clock.now += DAY
    assert lying.sum_of(1, SECOND, 0.1) is not None


def test_rounds_that_a_server_calls_late_renew_nothing(lying: Lying) -> None:
    spend(lying)
    for number in (2, 40, 999_999_000):
        assert lying.sum_of(number, THIRD, number / 10) is None
        assert lying.said["node-01"].startswith("not-drawn\nspent")


def test_an_answer_comes_free_when_its_days_are_over_and_not_before(lying: Lying) -> None:
    spend(lying)
    lying.clock.now = NOON + 30 * DAY - 1
    assert lying.sum_of(2, THIRD, 0.2) is None
    assert lying.said["node-06"].startswith("not-drawn\nspent")
    lying.clock.now = NOON + 30 * DAY
    assert lying.sum_of(3, THIRD, 0.3) is not None
    # The second one is a day younger.
    assert lying.sum_of(4, FOURTH, 0.4) is None
    lying.clock.now += DAY
    assert lying.sum_of(5, FOURTH, 0.5) is not None
    assert len(times_of(lying.nodes["node-01"])) == 4


def _dies(made: FoundedFederation, before: bool) -> None:
    """Asks for a sum; the first device's process is killed before or after its write."""
    lying = Lying(made, Clock())
    store = lying.nodes["node-01"].store
    write = store.advance

    def killed(*given: Any) -> None:
        if not before:
            write(*given)
        os.kill(os.getpid(), signal.SIGKILL)

    store.advance = killed  # type: ignore[method-assign, assignment]
    lying.sum_of(0, FIRST)


@pytest.mark.parametrize("before", [True, False])
def test_a_kill_leaves_an_answer_with_its_time_or_neither(tmp_path: Path, before: bool) -> None:
    made = by_days(tmp_path / "f")
    process = multiprocessing.get_context("fork").Process(target=_dies, args=(made, before))
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL
    node = FederatedNode(made.nodes["node-01"])
    budget = budget_of(node.store, node.terms)
    node.close()
    assert (budget.given, budget.times) == ((0, ()) if before else (1, (NOON,)))


# ---- what people are told ------------------------------------------------------------------------


@pytest.mark.usefixtures("quick")
def test_receipt_and_status_say_what_is_left_and_when_the_next_comes_free(
    tmp_path: Path, command: Command
) -> None:
    now = time.time()
    lying = Lying(by_days(tmp_path / "f"), Clock(now - 3 * DAY))
    spend(lying)
    lying.close()
    folder = lying.made.nodes["node-01"]
    user = FederatedNode(folder).rows.users[0]
    day = time.strftime("%Y-%m-%d %H:%M", time.gmtime(now + 27 * DAY))
    clause = "at most 2 answers in any 30 days; so far 2 in these, 2 in all"
    spent = f"{clause}; the next comes free on {day} UTC"
    receipt = receipt_of_node(folder, user)
    assert f"Your device gives {spent}." in receipt["part"]
    assert receipt["epsilon"] is None
    assert json.loads(command("federation", "status", folder, "--json").out)["budget"] == spent
    never = lying.made.nodes["node-40"]
    part = receipt_of_node(never, FederatedNode(never).rows.users[0])["part"]
    nothing = clause.replace("so far 2 in these, 2", "so far 0 in these, 0")
    assert f"Your device gives {nothing}." in part


def test_whoever_joins_is_told(tmp_path: Path) -> None:
    made = by_days(tmp_path / "f")
    lines = told(made.server.parent / "invitations" / "node-01")
    assert any("2 answers of this node at most in any 30 days" in line for line in lines), lines
    assert "of which a device answers in any 30 days, by its own lot" in made.terms.limits()
    assert "no epsilon" in made.terms.limits()


def test_the_terms_have_the_days_and_those_of_before_hash_as_they_did(tmp_path: Path) -> None:
    made = by_days(tmp_path / "f")
    assert json.loads(made.terms.text())["protection"]["days"] == 30
    for_ever = {**made.terms.model_dump(mode="json")["protection"], "days": 0}
    other = FederationTerms.parse(
        {**made.terms.model_dump(mode="json"), "protection": for_ever}, "terms"
    )
    assert "days" not in other.text() and other.run != made.terms.run


def test_no_epsilon_is_of_answers_that_come_free(tmp_path: Path) -> None:
    # So much noise is more than words of 32 bits hold.
    own = {"clip": 1.0, "noise": 1000.0, "bits": 64}
    made = by_days(tmp_path / "f", draws="secret", protect=own)
    for_ever = by_days(tmp_path / "g", draws="secret", protect={**own, "days": 0})
    assert for_ever.terms.proven(10) is not None
    assert made.terms.proven(10) is None and made.terms.proven(10, 1) is None


# ---- what is refused -----------------------------------------------------------------------------


def test_terms_with_days_that_cannot_be_get_one_line(tmp_path: Path) -> None:
    path = by_days(tmp_path / "f").server / TERMS
    text = path.read_text()
    assert text.count('"days": 30') == 1
    for days in ("NaN", "-1", "1e400", "3651", "1.5", '"x"', "null", "[30]"):
        path.write_text(text.replace('"days": 30', f'"days": {days}'))
        with in_one_line("days"):
            FederationTerms.read(path)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"sampling": "poisson"}, "days together with answers"),
        ({"answers": 2}, "answers together with sampling=poisson"),
    ],
)
def test_days_need_answers_and_a_lot(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Protection(**settings, secure_sum=True, days=30)
