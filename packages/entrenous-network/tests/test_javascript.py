"""A device in JavaScript by lot, among devices in Python: it tests new rows before it learns them,
draws noise from the seed, takes longer lists of items and members, and answers again when its days
are over. The sums and the model have the bytes that they have without it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any, Protocol

import numpy as np
import pytest
from entrenous_network.agreement.catalogue import ITEMS, Items
from entrenous_network.agreement.files import read_identity
from entrenous_network.agreement.members import MEMBERS, Members
from entrenous_network.frames.frames import FrameParts, opened, seal
from entrenous_network.frames.row_tests import SummedTests
from entrenous_network.node.common import Common
from entrenous_network.node.node import FederatedNode
from entrenous_network.operate.device import Device
from entrenous_network.operate.enrolment import identity, join
from entrenous_network.operate.founding import found_federation
from entrenous_network.operate.membership import change_items, invite
from entrenous_network.secure_sum.party_list import DAY
from entrenous_network.server import server_folder
from entrenous_network.server.accuracy import noted_tests
from entrenous_network.server.server import ListsChanged, RoundsLost, serve
from federation_links import FaultyLink, logged, quick_pauses
from growing_federation import DATA, OWNER, PLAN, USERS
from javascript import DEVICE, NODE, JavaScript, csv_of, done, joined, requested

pytestmark = pytest.mark.skipif(NODE is None, reason="Node is absent")

NOON = 1_790_000_000.0
INSISTED = ["people=5", "occupancy=0", "public=1"]
SETTINGS: dict[str, dict[str, Any]] = {
    "fcf": {"factors": 4},
    "fpl": {"factors": 18, "triples": 9},
}
WRITTEN = (3, 20)  # the people whose devices are in JavaScript
# What another language may write otherwise: parties sign the hash of the bytes that came.
FIRST_ITEMS = Items.of(DATA)._replace(
    titles=["Amélie \x7f", 'a "quoted" \\ \n one', "😀", *["plain"] * 15],
)
NEW_ITEMS = Items(
    ["new-ö", "newer"],
    ["", "漢字"],
    np.array([[40.0, 1e-05], [-0.0, 123456789.125]]),
)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    quick_pauses(monkeypatch)


class Person(Protocol):
    """One person's device, in either language."""

    def answer(self, frame: bytes) -> bytes: ...
    def best(self, n: int) -> list[str]: ...
    def consumed(self, item: str) -> None: ...
    def forget(self, item: str) -> None: ...
    def clock(self, now: float) -> None: ...
    def close(self) -> None: ...


class InPython:
    """A device in Python."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = NOON
        self.node = FederatedNode(folder, common=Common(lambda: self.now))
        self.answer = self.node.answer

    def best(self, n: int) -> list[str]:
        with Device(self.folder) as device:
            return [one["item"] for one in device.recommend(n).items]

    def consumed(self, item: str) -> None:
        with Device(self.folder) as device:
            device.consumed(item)

    def forget(self, item: str) -> None:
        with Device(self.folder) as device:
            device.forget(item)

    def clock(self, now: float) -> None:
        self.now = now

    def close(self) -> None:
        self.node.close()


class InJavaScript:
    """A device in JavaScript."""

    def __init__(self, folder: Path) -> None:
        self.device = JavaScript(folder)
        self.answer = self.device.answer

    def best(self, n: int) -> list[str]:
        found: list[str] = self.device.tell("recommended", str(n))
        return found

    def consumed(self, item: str) -> None:
        self.device.tell("consumed", item)

    def forget(self, item: str) -> None:
        self.device.tell("forget", item)

    def clock(self, now: float) -> None:
        self.device.tell("clock", str(now))

    def close(self) -> None:
        self.device.close()


class Mixed:
    """A federation by lot in this process. written: the people whose devices are in JavaScript."""

    def __init__(
        self,
        folder: Path,
        algorithm: str,
        written: Collection[int],
        first: int = USERS,
        protect: Mapping[str, Any] = {},
        **more: Any,
    ) -> None:
        self.folder, self.written = folder, written
        folder.mkdir()
        plan = replace(
            PLAN,
            algorithm=algorithm,
            settings={**SETTINGS[algorithm], "cohort": 12},
            protect={**PLAN.protect, **protect},
            **more,
        )
        self.people: dict[int, Person] = {}
        requests = [self._request(user) for user in range(first)]
        self.made = found_federation(folder / "f", FIRST_ITEMS, requests, plan)
        for user in range(first):
            self._join(user, self.made.nodes[_name(user)])

    def _request(self, user: int) -> tuple[Any, int]:
        make = requested if user in self.written else identity
        return make(self.folder / _name(user), _name(user)), 1

    def _join(self, user: int, invitation: Path) -> None:
        folder = self.folder / _name(user)
        if user in self.written:
            joined(folder, invitation, DATA, user, INSISTED)
            self.people[user] = InJavaScript(folder)
        else:
            join(folder, invitation, DATA.of_users([user]), OWNER)
            self.people[user] = InPython(folder)

    def come(self, users: range) -> None:
        """Some more people join."""
        requests = [self._request(user) for user in users]
        for user, invitation in zip(users, invite(self.folder / "f", requests), strict=True):
            self._join(user, invitation)

    def served(self, happens: dict[int, Callable[[], None]], stop_at: int | None = None) -> str:
        """The model after all rounds, or after so many. happens: before some rounds, by number."""
        link = FaultyLink({_name(user): own.answer for user, own in self.people.items()})
        sent = link.send
        stop = Event()

        def send(address: str, frame: FrameParts, seconds: float) -> None:
            happens.pop(opened(bytes(frame)).head.round, lambda: None)()
            sent(address, frame, seconds)

        def progress(done: int, total: int, what: str) -> None:
            if done == stop_at:
                stop.set()

        link.send = send  # type: ignore[method-assign]
        while True:
            with suppress(ListsChanged):
                return serve(link, self.made.server, stop, progress) or "stopped"

    def javascript(self) -> Iterator[JavaScript]:
        """The devices in JavaScript."""
        for own in self.people.values():
            if isinstance(own, InJavaScript):
                yield own.device

    def close(self) -> None:
        for own in self.people.values():
            own.close()


def _name(user: int) -> str:
    return f"device-{user:02d}"


# ---- tests of new rows ---------------------------------------------------------------------------


def lived(folder: Path, algorithm: str, written: Collection[int]) -> tuple[str, list[SummedTests]]:
    """The model, and the sums of tests, of a federation in which several people consume and one
    forgets. written: as of `Mixed`."""
    with closing(Mixed(folder, algorithm, written, accuracy=3.0)) as made:
        people = made.people

        def first() -> None:
            for user in (3, 5, 20):
                people[user].consumed(people[user].best(1)[0])
            people[3].consumed(people[3].best(18)[-1])

        def second() -> None:
            for user in (3, 20, 21):
                people[user].consumed(people[user].best(18)[-1])
            # A row that is there tests nothing.
            again = people[20].best(1)[0]
            people[20].consumed(again)
            people[20].consumed(again)
            gone = people[3].best(1)[0]
            people[3].consumed(gone)
            people[3].forget(gone)

        model = made.served({3: first, 5: second})
        states = [device.state for device in made.javascript()]
        assert all(state["inputs"] and state["trained"] for state in states)
        # The third person's were told in round 4, and what came later was forgotten; the twentieth
        # was in round 4 last, and two tests wait.
        assert [state["tests"][0] for state in states] == ([0, 2] if written else [])
        assert not any("tests of new rows" in line for line in logged(made.made.server))
        return model, noted_tests(made.made.server)


def test_tests_of_new_rows_are_those_of_devices_in_python(tmp_path: Path) -> None:
    """Noise is from the seed, on the model's numbers and on the tests: bit for bit the same."""
    model, sums = lived(tmp_path / "javascript", "fcf", WRITTEN)
    assert (model, sums) == lived(tmp_path / "python", "fcf", ())
    assert [one.round for one in sums] == list(range(6))
    assert model != "stopped"


def test_a_vector_with_a_row_that_is_forgotten_meanwhile_does_not_leave(tmp_path: Path) -> None:
    user = 6  # the lots of rounds 0, 1 and 3 draw this person
    gone = DATA.items[DATA.item[DATA.user == user].tolist()[0]]
    with closing(Mixed(tmp_path / "m", "fcf", (user,))) as made:
        (device,) = made.javascript()

        def happens() -> None:
            device.tell("forgetting", gone)

        assert made.served({1: happens}) != "stopped"
        (line,) = [line for line in logged(made.made.server) if "withheld" in line]
        assert _name(user) in line
        assert device.state["inputs"] == 2
        assert gone in made.people[user].best(18)


# ---- the step ------------------------------------------------------------------------------------


def test_a_designed_model_is_refused_in_both_languages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = server_folder.first_state

    def designed(*known: Any) -> Any:
        state = honest(*known)
        return state._replace(y=state.y + np.float32(5))

    user = 2  # the lot of round 0 draws this person
    with closing(Mixed(tmp_path / "m", "fcf", (user,))) as made:
        monkeypatch.setattr(server_folder, "first_state", designed)
        with pytest.raises(RoundsLost):
            made.served({})
        lines = [line for line in logged(made.made.server) if "wrong-model" in line]
        assert any(_name(user) in line for line in lines)
        assert not any(device.state.get("newest") for device in made.javascript())


# ---- days ----------------------------------------------------------------------------------------


def test_a_device_in_javascript_that_is_spent_signs_nothing_until_it_may(tmp_path: Path) -> None:
    user = 2  # the lots of rounds 0, 2 and 5 draw this person
    once = {"answers": 1, "days": 30}
    with closing(Mixed(tmp_path / "m", "fcf", (user,), protect=once)) as made:
        device = made.people[user]
        device.clock(NOON)
        assert made.served({}, stop_at=1) == "stopped"
        said = []
        for number, days in ((2, 29.9), (2, -400), (5, 30)):
            device.clock(NOON + days * DAY)
            about = {"users": 1}
            said.append(asked(made, device, "advert", b"", about=about, round=number))
        assert said == ["not-drawn\nspent", "not-drawn\nspent", "advert"]


# A term, its value, and others that it cannot have.
NO_TERMS: dict[str, tuple[Any, list[Any]]] = {
    "days": (30, [-1, 1.5, "x", None]),
    "answers": (9, [-1, 1.5, "x", "9", None]),
    "people": (6, ["6", 0, True]),
    # By these, noise would be no number, and none would be added.
    "lost": (0.0, [2.0, "0.5"]),
    "cohort": (12, [-12, "-12", [12]]),
    "noise_from": ("seed", ["x", None]),
    "secure_sum": (True, [1, "false"]),
    "draws": ("public", ["x", {}]),
    "users": (40, ["40", 1.5, 1e99]),
    "sampling": ("poisson", ["x"]),
}


def test_a_device_in_javascript_joins_by_no_terms_that_cannot_be(tmp_path: Path) -> None:
    request = requested(tmp_path / "js", "browser"), 1
    others = [(identity(tmp_path / name, name), 1) for name in map(_name, range(USERS - 1))]
    plan = replace(PLAN, protect={**PLAN.protect, "days": 30})
    made = found_federation(tmp_path / "f", FIRST_ITEMS, [request, *others], plan)
    invitation = made.nodes["browser"]
    good = (invitation / "terms.json").read_text()
    rows = tmp_path / "rows.csv"
    rows.write_text(csv_of(DATA, 0))
    for name, (value, bad) in NO_TERMS.items():
        before = f'"{name}": {json.dumps(value)}'
        assert before in good
        for other in bad:
            after = f'"{name}": {json.dumps(other)}'
            (invitation / "terms.json").write_text(good.replace(before, after))
            ended = done(DEVICE, "join", tmp_path / "js", invitation, rows, *INSISTED)
            assert ended.returncode == 2, (after, ended.stderr)
            assert f": '{name}' has a value that it cannot have\n" in ended.stderr
            assert not (tmp_path / "js" / "device.json").exists()
    (invitation / "terms.json").write_text(good)
    joined(tmp_path / "js", invitation, DATA, 0, INSISTED)


# ---- longer lists --------------------------------------------------------------------------------


def grown(folder: Path, algorithm: str, written: Collection[int]) -> tuple[str, list[SummedTests]]:
    """The model, and the sums of tests, of a federation to which people and items come, and in
    which one item is retired. written: as of `Mixed`."""
    with closing(Mixed(folder, algorithm, written, first=36, accuracy=3.0)) as made:
        people = made.people
        assert made.served({}, stop_at=1) == "stopped"
        made.come(range(36, USERS))
        assert made.served({}, stop_at=2) == "stopped"
        change_items(made.folder / "f", NEW_ITEMS)
        assert made.served({}, stop_at=3) == "stopped"
        # Somebody has it, and somebody has not.
        had = DATA.items[DATA.item[DATA.user == 3].tolist()[0]]
        assert any(had in own.best(20) for own in people.values())

        def consume() -> None:
            for user in (3, 5, 20, 39):
                people[user].consumed("newer")
                assert "newer" not in people[user].best(20)

        assert made.served({3: consume}, stop_at=4) == "stopped"
        change_items(made.folder / "f", retired=[had])
        model = made.served({})
        for own in people.values():
            assert had not in own.best(20)
        for device in made.javascript():
            assert device.state["inputs"] and device.state["trained"]
            text = (device.folder / ITEMS).read_text()
            assert text == (made.made.server / ITEMS).read_text()
        assert not any("malformed" in line for line in logged(made.made.server))
        return model, noted_tests(made.made.server)


def test_people_and_items_come_and_the_model_is_that_of_devices_in_python(tmp_path: Path) -> None:
    model, sums = grown(tmp_path / "javascript", "fpl", (*WRITTEN, 39))
    assert (model, sums) == grown(tmp_path / "python", "fpl", ())
    assert len(sums) == 6 and model != "stopped"


@pytest.mark.parametrize("kind", ["items", "members"])
def test_a_list_that_comes_in_the_midst_of_a_sum_ends_it(tmp_path: Path, kind: str) -> None:
    """The stages after it would be of parties that have signed another list."""
    drawn = 2  # by the lot of round 0
    with closing(Mixed(tmp_path / "m", "fcf", (drawn,), first=36)) as made:
        device = made.people[drawn]
        before = made.made
        if kind == "items":
            longer = change_items(made.folder / "f", NEW_ITEMS)
            body = longer.since(before.server / ITEMS, before.terms.items)
        else:
            made.come(range(36, USERS))
            body = Members.read(before.server / MEMBERS, USERS).since(36)
        about = {"users": 1}
        assert asked(made, device, "advert", b"", about=about) == "advert"
        assert asked(made, device, kind, body) == kind
        count = before.terms.items + 2 * (kind == "items")
        assert asked(made, device, "share", b"", about=about, items=count).startswith("not-asked")


def asked(made: Mixed, device: Person, kind: str, body: bytes, **more: Any) -> str:
    """The kind of an answer to a frame of the operator, or the refusal."""
    terms = made.made.terms
    fields = {"run": terms.run, "node": "server", "items": terms.items, "model": bytes(32), **more}
    frame = seal(read_identity(made.made.server / "identity.key"), kind, body, **fields)
    answer = opened(device.answer(frame))
    return bytes(answer.body).decode() if answer.head.kind == "refused" else answer.head.kind
