"""The living test: a data set as a stream of windows, whose people join a federation under masks
when they first rate something. In each window a tenth of them is awake, some of these vanish in the
middle of a sum, new items are listed, and the server and devices are killed.

The rounds are made again in one process, which has to give the same bytes, and the rows of each
window are ranked by the model of the windows before: under masks with whoever was there, and in a
training of everybody without noise.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from entrenous.core.contract.protocols import Progress
from entrenous.core.errors import EntrenousError
from entrenous.core.types import Int64Array
from entrenous.data.interactions import Interactions, Vocabulary

from .season_parts import ROUND
from .season_rows import Season, SeasonRows, by_half, founding_plan, hits_without_noise, mean_of

if TYPE_CHECKING:
    from entrenous_network.agreement.terms import FederationTerms
    from entrenous_network.operate.device import OwnRow

    from entrenous_lab.trials.again import QuietRounds

PATIENCE = 900.0  # seconds for a round
STAGES = ("advert", "share", "mask", "consent", "unmask")
KILLED_WITHIN = 20.0  # seconds after a start, in which a server is killed
AIM = 0.02  # HR@10 that presence, loss and noise may cost


def season(threads: int, progress: Progress, *, plan: Season | None = None) -> dict[str, Any]:
    """Lets a season pass. Returns accuracy, bytes, losses and kills."""
    plan = plan or Season()
    rows = SeasonRows(plan)
    with tempfile.TemporaryDirectory() as folder:
        life = _Life(Path(folder), rows)
        progress(0, plan.windows + 1, "founded")
        with closing(life):
            for number in range(plan.windows):
                life.window(number)
                progress(number + 1, plan.windows + 1, life.said())
        found = life.found()
    progress(plan.windows + 1, plan.windows + 1, "measured")
    cost = found["hit_rate_of_everybody"] - found["hit_rate"]
    against = f"the aim of {AIM:g} HR@10 that life may cost, compared with everybody without noise"
    return {**plan._asdict(), **found, "ratio": cost / AIM, "against": against}


@final
class _Life:
    """A federation to which the windows of a season happen."""

    def __init__(self, folder: Path, rows: SeasonRows) -> None:
        self._folder = folder
        self._rows = rows
        self._plan = rows.plan
        self._random = random.Random(rows.plan.seed)
        self._people = 0  # who have joined
        self._listed = 0  # items
        # By person, the rows that the device has not taken, and how many it has.
        self._coming: dict[int, list[list[Any]]] = {}
        self._has: dict[int, list[OwnRow]] = {}
        self._server: subprocess.Popen[str] | None = None
        self._number = 0  # of the next round
        # Of all messages by kind, but those of processes that were killed.
        self._bytes: Counter[str] = Counter()
        self._lost = 0
        self._stages: list[QuietRounds] = []
        self._everybody: list[QuietRounds] = []
        self._killed = {"servers": 0, "devices": 0}
        self._vanished = 0
        self._found()

    # ---- the founding ----------------------------------------------------------------------------

    def _found(self) -> None:
        """Founds the federation with those who have joined by a row."""
        from entrenous_network.operate.founding import Place, found_federation, free_ports
        from entrenous_network.operate.plans import JoinPlan

        rows = self._rows
        self._owner = JoinPlan(people=self._plan.floor, public_draws=True)
        founders = rows.joined(-1)
        self._listed = rows.listed(-1)
        requests = self._requests(range(founders))
        place = Place(port=free_ports()[0])
        items = rows.items(0, self._listed)
        founding = founding_plan(rows)
        made = found_federation(self._folder / "f", items, requests, founding, place)
        self._terms: FederationTerms = made.terms
        self._list = items
        self._at = made.server
        self._let_in(range(founders), [made.nodes[self._name(user)] for user in range(founders)])
        self._arrive(0, rows.cuts[0])

    def _name(self, user: int) -> str:
        return f"person-{user:05d}"

    def _of(self, user: int) -> Path:
        return self._folder / "devices" / self._name(user)

    def _requests(self, users: Sequence[int]) -> list[tuple[Any, int]]:
        from entrenous_network.operate.enrolment import identity

        return [(identity(self._of(user), self._name(user)), 1) for user in users]

    def _let_in(self, users: Sequence[int], invitations: Sequence[Path]) -> None:
        """Has people join without rows, which come like all others."""
        from entrenous_network.operate.enrolment import join

        for user, invitation in zip(users, invitations, strict=True):
            join(self._of(user), invitation, self._nobody(user), self._owner)
        self._people += len(users)

    def _nobody(self, user: int) -> Interactions:
        """Returns the rows of one person who has none."""
        empty: Int64Array = np.empty(0, np.int64)
        return Interactions(
            ptr=np.zeros(2, np.int64),
            item=empty.astype(np.int32),
            value=empty.astype(np.float32),
            time=empty,
            row=empty,
            users=Vocabulary([str(user)], kind="user"),
            items=self._list.vocabulary,
        )

    # ---- a window --------------------------------------------------------------------------------

    def window(self, number: int) -> None:
        """Lets a window's people, items and rows come, and has a round made."""
        from entrenous_network.operate.membership import change_items, invite

        low, high = self._rows.cuts[number : number + 2]
        listed = self._rows.listed(number)
        if listed > self._listed:
            self._list = change_items(
                self._folder / "f", self._rows.items(self._listed, listed)
            ).items
            self._listed = listed
        newest = range(self._people, self._rows.joined(number))
        if newest:
            invitations = invite(self._folder / "f", self._requests(newest))
            self._let_in(newest, invitations)
        self._arrive(low, high)
        awake = [user for user in range(self._people) if self._draw() < self._plan.awake]
        self._pass(number, awake)

    def _draw(self) -> float:
        return self._random.random()

    def _arrive(self, low: int, high: int) -> None:
        """Has rows come to their people, whose devices take them when they are awake."""
        rows = self._rows.rows
        for place in range(low, high):
            row = [int(rows.item[place]), float(rows.value[place]), int(rows.time[place])]
            self._coming.setdefault(int(rows.user[place]), []).append(row)

    def _pass(self, number: int, awake: Sequence[int]) -> None:
        """Has those who are awake make the rounds of a window, in each of which some vanish."""
        shares = [awake[part :: self._plan.processes] for part in range(self._plan.processes)]
        processes = [self._devices(share) for share in shares]
        stage = self._begun(frozenset(awake))
        kills = self._kills(number, self._plan.server_kills)
        victims = self._kills(number, self._plan.device_kills)
        try:
            while sum(map(bool, stage.sums)) < self._plan.rounds:
                for share, process in zip(shares, processes, strict=True):
                    self._run(process, self._vanishing(share))
                until = time.monotonic() + PATIENCE
                self._go_on()
                # One that was killed when its round was there is started for the next round.
                while kills and self._server is not None:
                    self._kill_server()
                    kills -= 1
                for victim in range(victims):
                    self._kill(processes[victim])
                    self._killed["devices"] += len(shares[victim])
                    # They come back with what is on the disk, and nothing new until the round is
                    # over.
                    processes[victim] = self._started(shares[victim], {})
                    self._run(processes[victim], {})
                victims = 0
                self._until_a_round(until)
                stage.sums.append(self._newest_sum())
        finally:
            for process in processes:
                self._end(process)
        self._stages.append(stage)
        self._everybody.append(self._rows.everybody(number))

    def _kills(self, window: int, all_kills: int) -> int:
        """Returns how many of all kills happen in a window."""
        windows = self._plan.windows
        return all_kills * (window + 1) // windows - all_kills * window // windows

    def _vanishing(self, users: Sequence[int]) -> dict[str, str]:
        """Returns who of some people vanishes in the next round, each at some stage of its sum."""
        vanish = {}
        for user in users:
            if self._draw() < self._plan.vanish:
                vanish[self._name(user)] = self._random.choice(STAGES)
        self._vanished += len(vanish)
        return vanish

    def _run(self, process: subprocess.Popen[str], vanish: Mapping[str, str]) -> None:
        """Has all devices of a process be there, and some vanish."""
        assert process.stdin is not None
        process.stdin.write(json.dumps(vanish) + "\n")
        process.stdin.flush()

    def _devices(self, users: Sequence[int]) -> subprocess.Popen[str]:
        """Starts a process of some people's devices, and notes the rows that these have taken."""
        rows = {self._name(user): self._coming.get(user, []) for user in users}
        process = self._started(users, rows)
        assert process.stdout is not None
        taken = json.loads(process.stdout.readline())
        for user in users:
            coming = self._coming.get(user, [])
            count = taken[self._name(user)]
            has = self._has.setdefault(user, [])
            for item, value, _ in coming[:count]:
                has.append(self._rows.own(user, item, value))
            self._coming[user] = coming[count:]
        return process

    def _started(
        self, users: Sequence[int], rows: Mapping[str, list[Any]]
    ) -> subprocess.Popen[str]:
        """Starts a process of some people's devices, to which rows have come."""
        share = {
            "folders": {self._name(user): str(self._of(user)) for user in users},
            "rows": rows,
        }
        file = self._folder / f"share-{self._name(users[0])}.json"
        file.write_text(json.dumps(share))
        return self._process("devices", file)

    def _begun(self, there: frozenset[int]) -> QuietRounds:
        """Returns how things stand before a round."""
        from entrenous_lab.trials.again import QuietRounds

        # The federation numbers people in the order in which they join, as this bench does.
        has = {user: list(rows) for user, rows in self._has.items()}
        return QuietRounds(self._list, has, there, frozenset(), [])

    # ---- processes -------------------------------------------------------------------------------

    def _process(self, kind: str, path: Path) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "entrenous_lab.benches.season_parts", kind, str(path)]
        pipe = subprocess.PIPE
        errors = (self._folder / f"{kind}.err").open("ab")
        with errors:
            return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, text=True)

    def _go_on(self) -> None:
        """Starts the server, or lets it make the next round."""
        if self._server is None:
            self._server = self._process("server", self._at)
            return
        assert self._server.stdin is not None
        self._server.stdin.write("\n")
        self._server.stdin.flush()

    def _kill_server(self) -> None:
        """Kills the server within its first seconds, and starts it again unless its round is there
        already.
        """
        assert self._server is not None
        time.sleep(KILLED_WITHIN * self._draw())
        self._kill(self._server)
        self._killed["servers"] += 1
        self._server = None
        if not self._is_made():
            self._go_on()

    def _kill(self, process: subprocess.Popen[str]) -> None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        process.communicate()

    def _end(self, process: subprocess.Popen[str]) -> None:
        """Ends a process of devices, whose standard input is over."""
        try:
            said, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self._kill(process)
            return
        if process.returncode:
            errors = (self._folder / "devices.err").read_text()
            how = f"with exit code {process.returncode}: {errors[-500:]}"
            raise EntrenousError(f"a process of devices has ended {how}")
        # The last line; one that has no rows to take says so before.
        self._bytes.update(json.loads(said.splitlines()[-1]))

    def _told(self) -> dict[str, Any]:
        from entrenous_network.operate.running import status

        return status(self._at)

    def _is_made(self) -> bool:
        """Tells whether the server has made another round, or has lost it."""
        told = self._told()
        return int(told.get("number", 0)) > self._number

    def _until_a_round(self, until: float) -> None:
        """Waits for a round."""
        while not self._is_made():
            if time.monotonic() > until:
                raise EntrenousError(f"no round in {PATIENCE:.0f} s: {self._told()}")
            if self._server is not None and self._server.poll() is not None:
                errors = (self._folder / "server.err").read_text()
                raise EntrenousError(f"the server has ended: {errors[-500:]}")
            time.sleep(0.2)
        # It says so when the round is on its disk. One that was killed says nothing.
        if self._server is not None:
            assert self._server.stdout is not None
            assert self._server.stdout.readline().strip() == ROUND
        self._number = int(self._told()["number"])

    def _newest_sum(self) -> frozenset[int] | None:
        """Returns the people in the sums of the round that is over; None if it was lost."""
        from entrenous_network.server.server_folder import summed

        names = summed(self._at, self._number - 1)
        lost = int(self._told()["lost"])
        is_lost = lost > self._lost
        self._lost = lost
        return None if is_lost else frozenset(int(name.removeprefix("person-")) for name in names)

    def close(self) -> None:
        """Ends the server."""
        if self._server is not None:
            self._kill(self._server)
            self._server = None

    # ---- what is found ---------------------------------------------------------------------------

    def said(self) -> str:
        """Returns a line about the newest window."""
        newest = self._stages[-1]
        in_sums = ["lost" if users is None else str(len(users)) for users in newest.sums]
        return f"{len(newest.there)} of {self._people} awake, in sums {', '.join(in_sums)}"

    def found(self) -> dict[str, Any]:
        """Makes the rounds again, and ranks the rows of each window by the model before it."""
        from entrenous_network.server.server import standing
        from entrenous_network.server.server_folder import ServerFolder

        from entrenous_lab.trials.again import each_again, server_sha256

        with closing(ServerFolder(self._at)) as held:
            now = standing(held, held.terms.make(place=held.algorithm))
        sha256 = ""
        mine = []
        for window, stage in enumerate(each_again(self._terms, self._stages)):
            sha256 = server_sha256(stage.training.server)
            mine.append(self._rows.ranked(window, stage.rounds, stage.training))
        theirs, ledger = hits_without_noise(self._rows, self._terms, self._everybody)
        quiet, _ = hits_without_noise(self._rows, self._terms, self._stages)
        told = self._told()
        answers = now.ledger.device_rounds
        by_kind = {kind: round(count / answers) for kind, count in self._bytes.items()}
        of_everybody = (ledger.bytes_up + ledger.bytes_down) / ledger.device_rounds
        popular = list(self._rows.popular())
        in_round = [len(users) for stage in self._stages for users in stage.sums if users]
        return {
            "rows": len(self._rows.rows.user),
            "rows_left_out": self._rows.rows.left_out,
            "people": self._people,
            "items": self._listed,
            "same_bytes": sha256 == server_sha256(now.state),
            "rounds_made": int(told["round"]),
            "lost_rounds": self._lost,
            "people_in_sums": [min(in_round), max(in_round)],
            "vanished": self._vanished,
            "servers_killed": self._killed["servers"],
            "devices_killed": self._killed["devices"],
            "hit_rate": mean_of(mine),
            "hit_rate_without_noise": mean_of(quiet),
            "hit_rate_of_everybody": mean_of(theirs),
            "hit_rate_of_popularity": mean_of(popular),
            "hit_rate_by_half": by_half(mine),
            "hit_rate_of_popularity_by_half": by_half(popular),
            "rows_tested": sum(len(hits) for hits in mine),
            "bytes_an_answer": sum(by_kind.values()),
            "bytes_an_answer_by_kind": by_kind,
            "bytes_an_answer_of_everybody": round(of_everybody),
        }


BENCHES = {"federation-season": season}
