"""A federation that is tried out on this machine while a stream happens to it: people join and
leave, rows arrive, items appear and are retired, devices are away; over real sockets and under
masks.

The events are those of a file or a data set (`data/events.py`). People who had joined when a
quarter of the rows was there found the federation. The other events come in windows of as many rows
each, while the server makes rounds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np

from entrenous.core.errors import EntrenousError, InputError
from entrenous.core.keywords import at_least
from entrenous.data.events import Event, Events, Standing
from entrenous.data.load import load, load_arguments

from ..agreement.catalogue import ITEMS, Items
from ..agreement.growth import listed
from ..agreement.terms import least_people, most_by_lot
from ..node.node import FederatedNode
from .device import Device
from .enrolment import EnrolmentRequest, identity, join
from .founding import Place, found_federation, free_ports, must_be_new
from .membership import change_items, invite
from .plans import FoundingPlan, JoinPlan, TrialPlan
from .running import run_server, status
from .running_node import ask, polling

Say = Callable[[str], None]

FOUNDERS = 0.25  # of the rows, by which those who found the federation have joined
USUAL = 300  # people of a sum, to which the usual noise belongs
NOISE = 3.0
PACE = 1.0  # seconds between two rounds
DEADLINE = 3.0  # seconds of a stage of a round; all devices share the processors of one machine
PATIENCE = 300.0  # seconds for a round, and for a part that ends
ROUNDS = 2  # of a window
LOOK = 0.1  # seconds between two looks at the server
ANSWERS = 100_000  # sums of a device: a trial bounds none


def events_of(plan: TrialPlan, say: Say = lambda line: None) -> Events:
    """Returns the events of a file, or of the rows of a data set, of the first people who join.
    Raises InputError. say: is told who is left out.
    """
    path = Path(plan.stream)
    if path.suffix == ".csv" and path.is_file():
        if plan.load:
            raise InputError("--load", "a file of events is read in one way", fix="leave it out")
        events = Events.read(path)
    else:
        events = Events.of_rows(load(plan.stream or plan.data, **load_arguments(plan.load)))
    some = events.users.ids[: plan.nodes].tolist()
    if len(some) < len(events.users):
        say(f"the first {len(some)} of {len(events.users)} people who join")
    kept = [event for event in events if event.user in {"", *some}]
    return Events.of(kept, name=events.name)


class Trial:
    """A federation to which events happen. Raises InputError for events or a plan that make none,
    and for a folder that is there.
    """

    def __init__(self, folder: Path, plan: TrialPlan, say: Say) -> None:
        must_be_new(folder)  # before any data is fetched
        at_least("--rounds", plan.rounds, 1)
        self.folder = folder
        self.plan = plan
        self.say = say
        self.events = events_of(plan, say)
        self.happened = Standing()
        self.users = self.events.users.ids.tolist()
        rows = sum(event.kind == "row" for event in self.events)
        self._window = max(1, round(rows * (1 - FOUNDERS) / plan.rounds))
        self._coming = iter(zip(self.events, self.events.numbers(), strict=True))
        self._retired: set[int] = set()  # items that are retired on the federation's list
        self._waiting: list[Event] = []  # whose items a device does not know yet
        self._stop = threading.Event()
        self._parts = ExitStack()
        self.devices: dict[str, Device] = {}
        self.failed: list[str] = []  # parts that ended by themselves, and why
        self._take(round(rows * FOUNDERS))
        self._found(rows)

    def _found(self, rows: int) -> None:
        """Founds the federation with the people and items that are there."""
        cohort = most_by_lot(len(self.users))
        people = max(least_people(len(self.users)), cohort // 2)
        noise = NOISE * cohort / USUAL
        lot = {"sampling": "poisson", "answers": ANSWERS}
        usual = {**lot, "noise": noise, "people": people}
        founding = FoundingPlan(
            algorithm=self.plan.algorithm,
            settings={"cohort": cohort, **self.plan.settings},
            users=len(self.users),
            interactions=rows,
            endless=True,
            seed=self.plan.seed,
            draws="public",
            protect={**usual, **self.plan.protect},
            deadline=DEADLINE,
            accuracy=noise,
        )
        there = self._newcomers()
        if len(there) < people:
            raise InputError(
                self.events.name,
                f"{len(there)} people have joined by a quarter of the rows",
                expected=f"at least {people}, of {len(self.users)} who ever join",
                fix="events of which more people join early",
            )
        self.items = self._new_items(0)
        requests = [self._request(user) for user in there]
        place = Place(port=free_ports()[0])
        made = found_federation(self.folder, self.items, requests, founding, place)
        self.server = made.server
        self.terms = made.terms
        self._owner = JoinPlan(people=people, public_draws=True)
        for user in there:
            self._join(user, made.nodes[self.of(user).name])
        self.say(made.terms.limits())
        self.say(
            f"{len(there)} of {len(self.users)} people have joined; {self.known} of"
            f" {len(self.events.items)} items are there; floors of {people} people and"
            f" noise of {noise:.2g} for so few: for trying out only"
        )

    def of(self, user: str) -> Path:
        """Returns the folder of a user's device."""
        return self.folder / "nodes" / f"person-{self.users.index(user) + 1:03d}"

    def _newcomers(self) -> list[str]:
        """Returns the users who are in, and have no device yet."""
        there = [self.users[number] for number in sorted(self.happened.members)]
        return [user for user in there if user not in self.devices]

    def _request(self, user: str) -> tuple[EnrolmentRequest, int]:
        """Returns a request for the place of a new device."""
        return identity(self.of(user), self.of(user).name), 1

    def _new_items(self, start: int) -> Items:
        """Returns the items that have appeared from a number on, without features, which nobody
        here learns from.
        """
        self.known = len(self.happened.items | self.happened.retired)
        ids = self.events.items.ids[start : self.known].tolist()
        titles = self.events.features.get("title", self.events.items.ids)
        return Items(ids, titles[start : self.known].tolist(), None)

    def _join(self, user: str, invitation: Path) -> None:
        """Has a device join with the rows that its user has so far."""
        everybody = self.happened.interactions(self.events, len(self.users), self.known)
        rows = everybody.of_users(np.array([self.users.index(user)]))
        join(self.of(user), invitation, rows, self._owner)
        self.devices[user] = Device(self.of(user))
        if self.users.index(user) in self.happened.away:
            self.devices[user].pause()

    # ---- the parts -------------------------------------------------------------------------------

    @contextmanager
    def running(self) -> Iterator[None]:
        """Runs the server and all devices, each with its own connection, until the block ends."""
        try:
            self._start("server", self.serve)
            for user in self.devices:
                self._begin(user)
            yield
        finally:
            self._stop.set()
            self._parts.close()

    def serve(self) -> None:
        """Runs the server until the trial ends."""
        run_server(self.server, self._stop, lambda line: None, pace=PACE)

    def _begin(self, user: str) -> None:
        """Runs the device of a person. It answers the server from then on."""
        node = FederatedNode(self.of(user))
        self._parts.callback(node.close)
        self._parts.callback(self.devices[user].close)
        self._start(user, ask, self.of(user), [polling(node)], self._stop, lambda line: None)

    def _start(self, who: str, act: Callable[..., Any], *given: Any) -> None:
        """Runs a part of the federation in a thread, and keeps why it ended by itself."""

        def guarded() -> None:
            try:
                act(*given)
            except EntrenousError as why:
                self.failed.append(f"{who}: {why}")

        thread = threading.Thread(target=guarded)
        self._parts.callback(thread.join, PATIENCE)
        thread.start()

    # ---- what happens ----------------------------------------------------------------------------

    def live(self) -> None:
        """Lets all events happen, and says how things stand after each window."""
        now = self.happened
        with self.running():
            for left in range(self.plan.rounds, 0, -1):
                self.step(self._window if left > 1 else len(self.events))
                self.say(
                    f"round {status(self.server)['round']}: {len(now.members - now.away)} of"
                    f" {len(now.members)} people are there, {len(now.items)} items,"
                    f" {sum(map(len, now.rows.values()))} rows"
                )
        if self._waiting:
            self.say(f"{len(self._waiting)} events came too late for the items of their devices")

    def _take(self, rows: int) -> list[Event]:
        """Takes the next events, up to so many rows. Returns them."""
        taken: list[Event] = []
        for event, numbers in self._coming:
            self.happened.take(*numbers)
            taken.append(event)
            rows -= event.kind == "row"
            if not rows:
                break
        return taken

    def step(self, rows: int) -> None:
        """Lets a window of events happen while rounds are made."""
        events = self._waiting + self._take(rows)
        self._waiting = []
        if len(self.happened.items | self.happened.retired) > self.known:
            self.items = change_items(self.folder, self._new_items(self.known)).items
            self.rounds(1)  # in which devices learn of them
        for event in events:
            if event.user in self.devices:
                try:
                    self.happen(event, self.devices[event.user])
                except InputError:
                    self._waiting.append(event)
        retired = self.happened.retired - self._retired
        if retired:
            self._retired |= retired
            named = [self.events.items[number] for number in sorted(retired)]
            self.items = change_items(self.folder, None, named).items
        coming = self._newcomers()
        if coming:
            invitations = invite(self.folder, [self._request(user) for user in coming])
            for user, invitation in zip(coming, invitations, strict=True):
                self._join(user, invitation)
                self._begin(user)
        self.rounds(ROUNDS)

    def happen(self, event: Event, device: Device) -> None:
        """Lets something happen to one device. Who comes again goes on with the device that there
        is. Raises InputError for an item that it does not know yet.
        """
        if event.kind == "row":
            device.consumed(event.item, event.value)
        if event.kind in ("forget", "leave"):
            device.forget(event.item or None)
        if event.kind in ("away", "leave"):
            device.pause()
        if event.kind in ("present", "join"):
            device.take_part()

    def rounds(self, count: int) -> None:
        """Waits until the server has made so many more rounds, and works with the newest list of
        items. Raises EntrenousError if it takes too long, and if a part of the federation has
        failed.
        """
        end = status(self.server).get("round", 0) + count
        until = monotonic() + count * PATIENCE
        # A round that was open when the list came ends with the list before.
        items = self.server / ITEMS
        while (
            listed(self.server) != items.stat().st_size or status(self.server).get("round", 0) < end
        ):
            if self.failed:
                raise EntrenousError(self.failed[0])
            if monotonic() > until:
                raise EntrenousError(f"no round was made in {PATIENCE:.0f} s")
            sleep(LOOK)
