"""A trial of a federation that lives: people join and leave while it runs, rows arrive, items
appear and are retired, devices are away; all on this machine, over real sockets and under masks.

The events are those of a file or a data set (`data/events.py`). People who had joined when a
quarter of the rows was there found the federation. The other events come in windows of as many rows
each. The server makes rounds only between two windows, so that all of them can be made again in
one process (`trial_again.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, final

import numpy as np

from ...core.errors import EntrenousError, InputError
from ...core.keywords import at_least
from ...data.events import Event, Events, Standing
from ...data.interactions import Interactions, Vocabulary, build
from ...data.load import load, load_arguments
from ..agreement.catalogue import Items
from ..agreement.growth import current_items
from ..agreement.members import MEMBERS, Members
from ..agreement.terms import most_by_lot
from ..frames.row_tests import Accuracy, accuracy_of
from ..node.node import FederatedNode
from ..server.accuracy import noted_tests
from ..server.server import standing
from ..server.server_folder import ServerFolder, past_sums
from .device import Device
from .enrolment import identity, join
from .founding import Place, found_federation, free_ports, must_be_new
from .membership import change_items, invite
from .plans import FoundingPlan, JoinPlan, TrialPlan
from .running import run_server, status
from .running_node import ask, polling
from .trial_again import Again, QuietRounds, made_again, server_sha256

Say = Callable[[str], None]

FOUNDERS = 0.25  # of the rows, by which those who found the federation have joined
ALGORITHM = "fcf"
PEOPLE = 40
LEAVES = 10  # every tenth person of a data set, in which nobody says goodbye
SHOPS = 4
CUSTOMERS = 5  # of a shop, at most; together at most half of those who found the federation
USUAL = 300  # people of a sum, to which the usual noise belongs
NOISE = 3.0
PACE = 0.1  # seconds between two rounds
DEADLINE = 3.0  # seconds of a stage of a round; all devices share the processors of one machine
PATIENCE = 120.0  # seconds for a round
ROUNDS = 2  # of a window, and one more where items have come
MOST = 30  # rounds in which every device that is there is told of a list
ANSWERS = 100_000  # sums of a device: a trial bounds none


class Window(NamedTuple):
    """The state of the federation after a window of events and a round."""

    rounds: int
    """Rounds so far."""
    people: int
    """People who have joined and not left."""
    present: int
    """Those of them who are not away."""
    items: int
    """Items that are there and not retired."""
    rows: int
    """Rows of these people."""
    megabytes: float
    """What all nodes and the server have sent so far."""
    accuracy: Accuracy | None
    """The tests of new rows in the rounds since the window before; None before the first."""


class Lived(NamedTuple):
    """The end of a trial."""

    windows: list[Window]
    """The state after each window."""
    sha256: str
    """The hash of the server's model."""
    lost: int
    """Rounds whose sums did not come out. Where devices keep vectors, those who answered in one
    have trained all the same, and the training in one process has another model."""
    again: Again
    """The same training in one process."""


def events_of(
    source: str, people: int, options: Mapping[str, Any], say: Say = lambda line: None
) -> Events:
    """Returns the events of a file, or of the rows of a data set, of the first people who join, and
    of the items that they have. Raises InputError.

    options: of `load`. say: is told who is left out.
    """
    path = Path(source)
    is_file = path.suffix in (".csv", ".jsonl", ".ndjson") and path.is_file()
    if is_file and options:
        raise InputError("--load", "a file of events is read in one way", fix="leave it out")
    of_file = Events.read(path) if is_file else None
    events = of_file or Events.of_rows(load(source, **load_arguments(options)))
    count = min(people, len(events.users))
    if count < len(events.users):
        say(f"the first {count} of {len(events.users)} people who join, and the items they have")
    first = set(events.users.ids[:count])
    of_these = [event for event in events if not event.user or event.user in first]
    theirs = {event.item for event in of_these if event.user}
    kept = [event for event in of_these if event.user or event.item in theirs]
    if of_file is None:
        kept = _with_leaving(kept)
        say(f"one person in {LEAVES} leaves, half-way between the last row and the end")
    return Events.of(kept, clock=events.clock, name=events.name)


def _with_leaving(events: list[Event]) -> list[Event]:
    """Returns events in which every tenth person who joins leaves, half-way between the person's
    last event and the end.
    """
    last = {}
    for place, event in enumerate(events):
        if event.user:
            last[event.user] = place
    leaving: dict[int, list[str]] = {}
    for user in list(last)[LEAVES - 1 :: LEAVES]:
        place = (last[user] + len(events)) // 2
        leaving.setdefault(place, []).append(user)
    with_leaving = []
    for place, event in enumerate(events):
        with_leaving.append(event)
        for user in leaving.get(place, []):
            left = Event(event.at, "leave", user)
            with_leaving.append(left)
    return with_leaving


def carry_out(folder: Path, plan: TrialPlan, say: Say) -> Lived:
    """Founds a federation, lets the events of `plan.stream` happen to it, and makes its rounds
    again in one process. Raises InputError for events or a plan that make no federation, and for a
    folder that is there.
    """
    must_be_new(folder)
    at_least("--rounds", plan.rounds, 1)
    refused = {
        "--peers": plan.peers,
        "--profile": plan.profile != "private",
        "--protocol": plan.protocol is not None,
    }
    for option, there in refused.items():
        if there:
            problem = "a stream runs with a server and under masks, and holds no rows out"
            raise InputError(option, problem, fix="leave it out")
    events = events_of(plan.stream, plan.nodes or PEOPLE, plan.load, say)
    trial = _Trial(folder, events, plan, say)
    windows = []
    with trial.running():
        for number in range(1, plan.rounds + 1):
            window = trial.step(last=number == plan.rounds)
            windows.append(window)
            say(said(window))
    left = trial.not_taken()
    if left:
        say(left)
    say("the same rounds in one process, for comparison")
    return trial.ended(windows)


def flat(window: Window) -> dict[str, Any]:
    """Returns a window as names and numbers, with those of its accuracy."""
    tests = window.accuracy
    rates = dict.fromkeys(("hit_rate", "low", "high"))
    if tests is not None:
        rates = {name: getattr(tests, name) for name in rates}
    told = window._asdict()
    del told["accuracy"]
    return {**told, **rates}


def said(window: Window) -> str:
    """Returns a window as a line.

    >>> said(Window(12, 31, 28, 700, 2100, 18.5, None))
    'round 12: 28 of 31 people are there, 700 items, 2100 rows, 18.5 MB'
    """
    line = (
        f"round {window.rounds}: {window.present} of {window.people} people are there,"
        f" {window.items} items, {window.rows} rows, {window.megabytes:.1f} MB"
    )
    tests = window.accuracy
    if tests is not None and tests.hit_rate is not None:
        line += f"; HR@10 {tests.hit_rate:.2f} ({tests.low:.2f} to {tests.high:.2f})"
    return line


@final
class _Gate:
    """Holds a server between two rounds until it is asked for the next one."""

    def __init__(self) -> None:
        self._begin = threading.Semaphore(0)
        self._over = threading.Semaphore(0)

    def first(self, run: Callable[..., None], *given: Any, **named: Any) -> None:
        """Runs the server once it is asked for a round."""
        self._begin.acquire()
        run(*given, **named)

    def passed(self, done: int, total: int, what: str) -> None:
        """Holds the server, which calls this after each round."""
        self._over.release()
        self._begin.acquire()

    def one_round(self, failed: list[str]) -> None:
        """Waits until the server has made a round. Raises EntrenousError if it takes too long, and
        if one of the parts has failed: the reasons are in `failed`.
        """
        self._begin.release()
        until = monotonic() + PATIENCE
        while not self._over.acquire(timeout=0.1):
            if failed:
                raise EntrenousError(failed[0])
            if monotonic() > until:
                raise EntrenousError(f"no round was made in {PATIENCE:.0f} s")

    def open(self) -> None:
        """Lets the server go on to its end."""
        self._begin.release()


@final
class _Trial:
    """A federation to which events happen."""

    def __init__(self, folder: Path, events: Events, plan: TrialPlan, say: Say) -> None:
        self._folder = folder
        self._events = events
        self._say = say
        self._happened = Standing()
        rows = _rows(events)
        self._window = max(1, round(rows * (1 - FOUNDERS) / plan.rounds))
        self._coming = iter(zip(events, events.numbers(), strict=True))
        self._listed = _listed(events)
        self._named = 0  # devices that have a name, whoever has left since
        self._names: dict[str, str] = {}  # of the newest device of each user
        self._devices: dict[str, Device] = {}
        self._stops: list[threading.Event] = []
        self._there: set[str] = set()  # users whose devices run, and who have not left
        self._failed: list[str] = []
        self._coming_rows: dict[str, list[Event]] = {}  # that a device has not taken yet
        self._refusal = ""  # of rows, the last one
        self._before = -1
        self._gate = _Gate()
        self._stages: list[QuietRounds] = []
        self._numbers: dict[str, int] = {}  # of users, by the names of their devices
        self._anew: set[int] = set()  # users who have forgotten everything since the last round
        self._lost = 0  # rounds so far, whose sums did not come out
        self._summed: set[bytes] = set()  # the models of which sums were made
        self._stack = ExitStack()
        founders = self._take(round(rows * FOUNDERS))
        self._found(plan, [event for event in founders if event.kind == "join"])

    # ---- the founding ----------------------------------------------------------------------------

    def _found(self, plan: TrialPlan, joining: list[Event]) -> None:
        """Founds the federation with the people and items that are there."""
        # Who comes again has a new device, with a number of its own.
        users = sum(event.kind == "join" for event in self._events)
        cohort = most_by_lot(users)
        people = max(2, cohort // 2)
        share = cohort / USUAL
        founding = FoundingPlan(
            algorithm=plan.algorithm or ALGORITHM,
            settings={"cohort": cohort, **plan.settings},
            users=users,
            interactions=_rows(self._events),
            endless=True,
            seed=plan.seed,
            draws="public",
            protect={
                "sampling": "poisson",
                "answers": ANSWERS,
                "people": people,
                "parties": min(3, people),
                "noise": NOISE * share,
                **plan.protect,
            },
            deadline=DEADLINE,
            accuracy=NOISE * share,
        )
        names = self._names
        for event in joining:
            names[event.user] = self._new_name()
        there = [user for user in names if self._is_in(user)]
        if len(there) < people:
            raise InputError(
                self._events.name,
                f"{len(there)} people have joined by a quarter of the rows",
                expected=f"at least {people}, of {users} who ever join",
                fix="events of which more people join early",
            )
        requests = [(identity(self._of(user), names[user]), 1) for user in there]
        place = Place(port=free_ports()[0])
        items = self._items(0, len(self._happened.items | self._happened.retired))
        self._known = len(items.ids)
        made = found_federation(self._folder, items, requests, founding, place)
        self._server = made.server
        self._terms = made.terms
        self._owner = JoinPlan(people=people, parties=min(3, people), public_draws=True)
        self._list = items
        if self._happened.retired:
            numbers = sorted(self._happened.retired)
            retired = [self._events.items[number] for number in numbers]
            self._list = change_items(self._folder, None, retired)
        self._number_all()
        for user in there:
            self._join(user, made.nodes[names[user]])
        self._shops = min(CUSTOMERS, len(there) // (2 * SHOPS))  # customers of each shop
        self._say(made.terms.limits())
        self._say(
            f"{len(self._devices)} of {users} people have joined, {self._shops * SHOPS} of them as"
            f" customers of {SHOPS} shops; {len(items.ids)} of {len(self._listed)} items are there;"
            f" floors of {people} people and noise of {NOISE * share:.2g} for so few: for trying"
            " out only"
        )

    def _new_name(self) -> str:
        """Returns a name that no device has had."""
        self._named += 1
        return f"person-{self._named:03d}"

    def _number_all(self) -> None:
        """Reads the federation's numbers of the users of all devices, one each."""
        members = Members.read(self._server / MEMBERS, self._terms.users)
        self._numbers = {}
        for name, member in members.nodes.items():
            self._numbers[name] = int(member.users[0])

    def _of(self, user: str) -> Path:
        """Returns the folder of a user's device."""
        return self._folder / "nodes" / self._names[user]

    def _is_in(self, user: str) -> bool:
        return self._events.users.index(user) in self._happened.members

    def _items(self, start: int, stop: int) -> Items:
        """Returns the items of some numbers, without features, which nobody here learns from."""
        ids = list(self._events.items.ids[start:stop])
        return Items(ids, self._listed[start:stop], None)

    def _join(self, user: str, invitation: Path) -> None:
        """Has a device join with the rows that its user has so far."""
        events = self._events
        everybody = self._happened.interactions(events, len(events.users), self._known)
        rows: Interactions = everybody.of_users(np.array([events.users.index(user)]))
        join(self._of(user), invitation, rows, self._owner)
        device = Device(self._of(user))
        if events.users.index(user) in self._happened.away:
            device.pause()
        before = self._devices.get(user)
        if before is not None:
            before.close()
        self._devices[user] = device

    # ---- the processes ---------------------------------------------------------------------------

    @contextmanager
    def running(self) -> Iterator[None]:
        """Runs the server and all devices, each with its own connection, until the block ends. The
        first people are customers of shops, of which each runs their devices together.
        """
        stop = threading.Event()
        server = threading.Thread(
            target=self._guarded,
            args=(
                "server",
                self._gate.first,
                run_server,
                self._server,
                stop,
                lambda line: None,
            ),
            kwargs={
                "pace": PACE,
                "progress": self._gate.passed,
            },
        )
        server.start()
        try:
            users = list(self._devices)
            customers = self._shops
            for number in range(SHOPS if customers else 0):
                self._begin(users[number * customers : (number + 1) * customers])
            for user in users[SHOPS * customers :]:
                self._begin([user])
            yield
        finally:
            stop.set()
            self._gate.open()
            for one in self._stops:
                one.set()
            # The server first: a device that ends is not missed by it.
            server.join(PATIENCE)
            self._stack.close()
            for device in self._devices.values():
                device.close()

    def _begin(self, users: list[str]) -> None:
        """Runs the devices of one person, or those of a shop's customers together. They answer the
        server from then on.
        """
        folder = self._of(users[0])
        nodes = [FederatedNode(self._of(user)) for user in users]
        stop = threading.Event()
        self._stops.append(stop)
        self._there.update(users)
        asked = [polling(node) for node in nodes]
        quiet = lambda line: None  # noqa: E731
        running = threading.Thread(
            target=self._guarded, args=(users[0], ask, folder, asked, stop, quiet)
        )
        for node in nodes:
            self._stack.callback(node.close)
        self._stack.callback(running.join, PATIENCE)
        running.start()

    def _guarded(self, who: str, act: Callable[..., Any], *given: Any, **named: Any) -> None:
        """Runs a part of the federation, and keeps why it ended by itself."""
        try:
            act(*given, **named)
        except EntrenousError as why:
            self._failed.append(f"{who}: {why}")

    # ---- what happens ----------------------------------------------------------------------------

    def _take(self, rows: int) -> list[Event]:
        """Takes the next events, up to so many rows. Returns them."""
        taken = []
        left = rows
        while left:
            event, numbers = next(self._coming, (None, None))
            if event is None or numbers is None:
                break
            self._happened.take(*numbers)
            taken.append(event)
            left -= event.kind == "row"
        return taken

    def step(self, last: bool) -> Window:
        """Lets a window of events happen, and then has rounds made. last: everything that is left
        happens.
        """
        taken = self._take(len(self._events) if last else self._window)
        self._appear()
        # Of those who join, a device has all that happened after that from its beginning.
        joined: dict[str, None] = {}
        for event in taken:
            if event.kind == "join":
                joined[event.user] = None
            elif event.user in self._devices and event.user not in joined:
                self._happen(event)
        for user in self._coming_rows:
            self._consume(user)
        retired = [event.item for event in taken if event.kind == "retire"]
        if retired:
            self._list = change_items(self._folder, None, retired)
        self._let_in([user for user in joined if self._is_in(user)])
        return self._after_rounds()

    def _appear(self) -> None:
        """Adds the items that have appeared to the federation's list, and waits until the devices
        know of them.
        """
        there = len(self._happened.items | self._happened.retired)
        if there > self._known:
            self._list = change_items(self._folder, self._items(self._known, there))
            self._known = there
            self._rounds(1)

    def _let_in(self, users: list[str]) -> None:
        """Invites people, and runs their devices."""
        requests = []
        for user in users:
            name = self._new_name()
            self._names[user] = name
            request = identity(self._of(user), name)
            requests.append((request, 1))
        if not requests:
            return
        invitations = invite(self._folder, requests)
        self._number_all()
        for user, invitation in zip(users, invitations, strict=True):
            self._join(user, invitation)
        for user in users:
            self._begin([user])

    def _happen(self, event: Event) -> None:
        """Lets something happen to one device. Rows wait for those that come with them."""
        if event.kind == "row":
            waiting = self._coming_rows.setdefault(event.user, [])
            waiting.append(event)
            return
        # In the order in which it happened: a row may be forgotten in the same window.
        self._consume(event.user)
        device = self._devices[event.user]
        if event.kind == "forget":
            device.forget(event.item or None)
            if not event.item:
                name = self._names[event.user]
                self._anew.add(self._numbers[name])
        elif event.kind == "away":
            device.pause()
        elif event.kind == "present":
            device.take_part()
        elif event.kind == "leave":
            device.forget()
            device.pause()
            self._there.discard(event.user)

    def _consume(self, user: str) -> None:
        """Adds the rows that have come to a user. They wait on if the device does not know all of
        their items yet, of which it learns in a round.
        """
        events = self._coming_rows.get(user, [])
        if not events:
            return
        try:
            self._devices[user].add(self._interactions(user, events))
        except InputError as why:
            self._refusal = str(why)
        else:
            self._coming_rows[user] = []

    def ended(self, windows: list[Window]) -> Lived:
        """Returns the end of the trial, whose server has ended, with its rounds made again."""
        with closing(ServerFolder(self._server)) as held:
            now = standing(held, held.terms.make(place=held.algorithm))
        again = made_again(self._terms, self._stages)
        return Lived(windows, server_sha256(now.state), now.tally.lost, again)

    def not_taken(self) -> str:
        """Returns how many rows devices have not taken, and why; "" for none."""
        rows = sum(len(events) for events in self._coming_rows.values())
        return f"{rows} rows were not taken: {self._refusal}" if rows else ""

    def _interactions(self, user: str, events: list[Event]) -> Interactions:
        """Returns rows of one user."""
        times = None
        if self._events.clock == "time":
            times = [event.at for event in events]
        return build(
            np.zeros(len(events), np.int64),
            self._events.items.indices([event.item for event in events]),
            value=[event.value for event in events],
            time=times,
            users=Vocabulary([user], kind="user"),
            items=self._events.items,
            name=self._events.name,
        )

    # ---- rounds ----------------------------------------------------------------------------------

    def _all_know(self) -> bool:
        """Tells whether every device that is there has the newest list of items. A server tells a
        device of it when it asks that device the next time.
        """
        for user in self._there:
            if self._events.users.index(user) in self._happened.away:
                continue
            known = current_items(self._of(user), self._terms)
            if known.sha256 != self._list.sha256:
                return False
        return True

    def _rounds(self, count: int) -> None:
        """Has the server make so many rounds, and as many more as it takes until every device that
        is there has the newest list of items.
        """
        stage = self._stage()
        while len(stage.sums) < count or not self._all_know():
            if len(stage.sums) == MOST:
                raise EntrenousError(f"a device was not told of the list of items in {MOST} rounds")
            self._gate.one_round(self._failed)
            stage.sums.append(self._newest_sum())
            now = int(status(self._server)["lost"])
            if now > self._lost:
                stage.sums[-1] = None
            self._lost = now
        self._stages.append(stage)

    def _stage(self) -> QuietRounds:
        """Returns how things stand before a round."""
        rows = {}
        there = []
        for user, device in self._devices.items():
            name = self._names[user]
            number = self._numbers[name]
            rows[number] = device.export()
            away = self._events.users.index(user) in self._happened.away
            if not away and user in self._there:
                there.append(number)
        anew = frozenset(self._anew)
        self._anew.clear()
        return QuietRounds(self._list, rows, frozenset(there), anew, [])

    def _newest_sum(self) -> frozenset[int]:
        """Returns the users in the sum of the round that is over; nobody if there was none."""
        users: set[int] = set()
        for summed in past_sums(self._server):
            if summed.model not in self._summed:
                self._summed.add(summed.model)
                for name in summed.parties:
                    users.add(self._numbers[name])
        return frozenset(users)

    def _after_rounds(self) -> Window:
        """Has the rounds of a window made, and says how things stand."""
        self._rounds(ROUNDS)
        now = status(self._server)
        tests = [one for one in noted_tests(self._server) if one.round > self._before]
        if tests:
            self._before = tests[-1].round
        happened = self._happened
        rows = sum(len(rows) for rows in happened.rows.values())
        sent = now["bytes_up"] + now["bytes_down"]
        return Window(
            rounds=int(now["round"]),
            people=len(happened.members),
            present=len(happened.members - happened.away),
            items=len(happened.items),
            rows=rows,
            megabytes=sent / 1e6,
            accuracy=accuracy_of(tests) if tests else None,
        )


def _rows(events: Events) -> int:
    """Returns the number of rows among events."""
    return sum(kind == "row" for kind, _, _ in events.numbers())


def _listed(events: Events) -> list[str]:
    """Returns the titles of all items that ever appear, "" where there is none."""
    titles = events.features.get("title")
    if titles is None:
        return [""] * len(events.items)
    return [str(title) for title in titles]
