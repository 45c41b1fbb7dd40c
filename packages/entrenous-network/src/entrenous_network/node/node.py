"""A node: a device with one user, or a gateway with many. It answers the server's requests and
keeps everything else to itself.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import NamedTuple, final

import numpy as np

from entrenous.core.contract.declared import Contract, scores_of
from entrenous.core.contract.enforce import check_kept, check_sent
from entrenous.core.contract.protocols import (
    FederatedAlgorithm,
    State,
    arrays_of,
    joined_states,
    state_of,
)
from entrenous.core.contract.update import Total, Update, add_update
from entrenous.core.errors import InputError
from entrenous.core.keys import fold_name, local_key
from entrenous.core.keys import key as key_of
from entrenous.core.types import Array, Float32Array, Int64Array
from entrenous.data.interactions import Interactions
from entrenous.federation.shard import Shard, Threads
from entrenous.privacy.protection import ProtectionInForce
from entrenous.privacy.step import LEAST, ROUNDED, longest_move
from entrenous.privacy.turnout import drawn, lots

from ..agreement.catalogue import ITEMS
from ..agreement.files import IDENTITY, read_identity, read_json
from ..agreement.growth import (
    check_growing,
    current_items,
    first_state,
    grown,
    items_in,
    with_more_items,
)
from ..agreement.members import MEMBER, OwnEntry, longer
from ..agreement.terms import TERMS, FederationTerms
from ..frames import contribution
from ..frames.agreed_model import AGREED, KEPT, TAKEN, OfferedModel, check_agreed, word_head
from ..frames.frames import (
    ADDRESS_NEWS,
    ITEMS_NEWS,
    MEMBERS_NEWS,
    Code,
    Frame,
    FrameRefused,
    framed,
)
from ..frames.request import NodeRequest, Responder, announced, malformed
from ..frames.row_tests import RowTests
from ..secure_sum.messages import STAGES
from ..wire.statement import DOMAIN
from .common import Common
from .node_store import (
    CHANGES,
    FORGOTTEN,
    NODE,
    PAUSED,
    STORE,
    GivenAnswer,
    LeftDevice,
    MaskedVector,
    NodeStore,
    RowsForgotten,
    floors_of,
)
from .secure_node import SecureSide, check_members

# The fact that names the trained model of which this node last said that it had come.
SAID = "said"
BITS = 256  # of a node's secret
TOGETHER = 64  # devices whose updates are in memory at once
PERSON = b"entrenous draws"
# Requests by which nothing of a user leaves: a paused node answers them.
RECEIVED = {"model", AGREED, MEMBERS_NEWS, ITEMS_NEWS, ADDRESS_NEWS}


@final
class FederatedNode:
    """One node, opened from its folder: node.json, terms.json, items.jsonl, identity.key,
    store.sqlite. Answers one request at a time.

    common: what this node shares with the others of its process.
    """

    def __init__(self, folder: Path, *, threads: int = 1, common: Common | None = None) -> None:
        self.folder = folder
        self._common = common or Common()
        self._about = read_json(folder / NODE)
        self.key = read_identity(folder / IDENTITY)
        self.store = NodeStore(folder / STORE)
        self._turn = Lock()
        self._executor = Threads(threads)
        self.terms = FederationTerms.read(folder / TERMS)
        self.listed = current_items(folder, self.terms)
        self._begin()

    def _begin(self) -> None:
        """Reads what may change in the folder: at the start, and with more items."""
        folder = self.folder
        about = self._about
        self.name = str(about["name"])
        self.terms = self.terms.with_items(self.listed)
        # The file of a class of the owner's own is named by the owner, never by the terms.
        self._place = str(about.get("algorithm", ""))
        self.algorithm = self.terms.make(about.get("own"), self._place)
        self.items = self.listed.items
        self._rounds = key_of(self.terms.seed, "rounds")
        self._read_rows()
        self.contract = contribution.agreed_by(self.terms, self.algorithm)
        least = int(about.get("least_users", 1))
        self.responder = Responder(
            self.name, self.key, self.terms, self.contract, self.shard.users, least, folder
        )
        if self.store.newest_state() is None:
            self.store.begin(arrays_of(self._first_state()))
        self._offered: OfferedModel | None = None
        self._modelled = self.terms.items
        self._kinds: dict[str, Callable[[Frame], bytes]] = {
            ITEMS_NEWS: self._further_items,
            ADDRESS_NEWS: self.responder.take_addresses,
        }
        # Under masks a node answers no request whose answer would be about itself alone.
        if self.terms.masked:
            self._entry = OwnEntry.read(folder / MEMBER)
            floors = floors_of(folder, about)
            noise = floors.noise or self.terms.protection.noise > 0
            self._floors = replace(floors, noise=noise)
            self._kinds |= {"model": self._offered_model, AGREED: self._agreed_model}
            self._kinds[MEMBERS_NEWS] = self._further_members
            self._begin_sums()
        else:
            self._kinds |= {"work": self._work, "model": self._model}

    def _begin_sums(self) -> None:
        """Makes the node's side of secure sums of the members in the log that it knows."""
        common = self._common
        secure = SecureSide(self, self._entry.head, self._floors, common.verify, common.clock)
        self._kinds |= dict.fromkeys(STAGES, secure.answer)

    def _read_rows(self) -> None:
        """Reads the rows of the node's users, and makes their devices."""
        # Counted before they are read: of a row that comes meanwhile the next look tells.
        self._changes = self.store.count(CHANGES)
        self._forgotten = self.store.count(FORGOTTEN)
        self.rows: Interactions = self.store.rows(self.items)
        secret = self.terms.draws == "secret"
        # With public draws compiled kernels add devices up, and show no single update.
        self._tally = UpdateTally(self.rows, self.store.users) if secret else None
        self.shard = Shard(
            self.algorithm,
            self.terms.catalogue,
            self.rows,
            self.store.users,
            executor=self._executor,
            recorder=self._tally,
            protection=self.terms.protection,
        )
        self._secret = SecretDraws(self.shard, self.store.secret) if secret else None

    def refresh(self) -> None:
        """Reads the rows again if they have changed: new ones count from the next round on. Reads
        all anew where another process has taken a longer list of items.
        """
        items = self.folder / ITEMS
        if items.stat().st_size > self.listed.length and self.listed.follow(items):
            self._begin()
        if self.store.count(CHANGES) != self._changes:
            self._read_rows()

    def begin_again(self, place: int, private: dict[str, Array]) -> dict[str, Array]:
        """Returns a private state of all users, arrays by name, in which one begins again. place:
        of the user among the node's.
        """
        devices = state_of(self.contract.declaration.keeps, private)
        first = self._first_state()
        for array, new in zip(devices, first, strict=True):
            array[place : place + 1] = new[place : place + 1]
        return arrays_of(devices)

    def _first_state(self) -> State:
        """Returns the private state of all devices before the first round."""
        if self._secret is not None:
            return self._secret.init_devices()
        return self.shard.init_devices(key_of(self.terms.seed, "devices"))

    def close(self) -> None:
        self.store.close()

    def answer(self, request: bytes) -> bytes:
        """Answers a request: with what was asked for, or why not. Requests that come together are
        answered one after the other.
        """
        # Two at once could train from the same private state, and answer one round twice.
        with self._turn:
            kinds = self._kinds
            if self.store.fact(PAUSED):
                kinds = {
                    kind: handler if kind in RECEIVED else _paused
                    for kind, handler in kinds.items()
                }
            return self.responder.answer(request, kinds)

    # ---- requests --------------------------------------------------------------------------------

    def _work(self, frame: Frame) -> bytes:
        """Trains the asked users' devices, once, and gives the same answer however often it is
        asked.
        """
        request, _ = self.responder.read_request(frame)
        given = self.store.answered(request.round)
        # A second training would be a second answer, and the two may tell what one user sent.
        if given is not None and given.asked == request.asked:
            return given.frame
        if len(request.users) == 1:
            devices, update = self._train_one(request)
            kind = "update"
            body = contribution.of_update(update)
        else:
            devices, total = self.train_sum(request)
            kind = "sum"
            body = contribution.of_total(total)
            self.shard.release(total)
        answer = self.responder.seal_for(frame, kind, body)
        self.keep(request, answer, devices)
        return answer

    def _model(self, frame: Frame) -> bytes:
        """Takes a model for all of the node's users, to recommend by."""
        download = self._read_model(frame)
        self.store.receive_model(frame.head.round, arrays_of(download))
        return self.responder.seal(TAKEN, round=frame.head.round)

    def _offered_model(self, frame: Frame) -> bytes:
        """Takes a model under masks, where a server may lie to one node. The model is kept once
        enough other nodes have the same."""
        download = self._read_model(frame)
        number = frame.head.round
        digest = announced(self.contract, download)
        word = f"{number} {digest.hex()}"
        before = self.store.fact(SAID)
        if before is not None:
            newest = int(before.split()[0])
            # A node says of one model a round that it has come, for good: with words for two models
            # it could help each to a quorum.
            if newest == number and before != word:
                text = "another trained model of this round has come before"
                raise FrameRefused(Code.CONFLICT, text)
            if newest > number:
                raise FrameRefused(Code.PAST_ROUND, "a newer trained model has come")
        self.store.note(SAID, word)
        self._offered = OfferedModel(number, digest, arrays_of(download))
        said = word_head(self.terms.run, number, self.name, digest)
        return bytes(framed(said, self.key.sign(DOMAIN + said), []))

    def _agreed_model(self, frame: Frame) -> bytes:
        """Takes the words of the other nodes, by which the offered model is kept or not."""
        offered = self._offered
        if offered is None:
            raise FrameRefused(Code.NOT_ASKED, "no model was offered since this node started")
        check_members(frame, self._entry.head)
        check_agreed(frame.body, offered, self.terms, self._entry.head)
        self.store.receive_model(offered.round, offered.arrays)
        return self.responder.seal(KEPT, round=offered.round, model=offered.digest)

    def _read_model(self, frame: Frame) -> State:
        """Returns a model for all of the node's users. Raises FrameRefused."""
        kept = self.store.standing().model
        if kept is not None and frame.head.round < kept:
            raise FrameRefused(Code.PAST_ROUND, "a newer model has come")
        users = len(self.shard.users)
        download, _ = self.responder.read_download(frame, {}, users)
        self._check_step(frame.head.round, download)
        return download

    def _further_members(self, frame: Frame) -> bytes:
        """Takes the head of a longer log of members. It begins as the one that this node knows, so
        that a server can make nobody else of a member, and shows all nodes the same."""
        with malformed(MEMBERS_NEWS):
            head = longer(frame.body, self._entry.head)
        # On the disk first: its next advert is under this head.
        self._entry = self._entry.written(self.folder, head)
        self._begin_sums()
        return self.responder.seal_for(frame, MEMBERS_NEWS, b"")

    def _further_items(self, frame: Frame) -> bytes:
        """Takes a longer list of items, on which every item that this node knows has its number."""
        try:
            with malformed(ITEMS_NEWS):
                lines = self.listed.take(frame.body, ITEMS_NEWS)
                check_growing(self.contract)
                # Raises InputError where the algorithm cannot have so many.
                self.terms.with_items(self.listed).make(place=self._place)
            self.listed.write(self.folder / ITEMS, lines)
        except BaseException:
            # What is not on the disk is not known.
            self.listed = current_items(self.folder, FederationTerms.read(self.folder / TERMS))
            raise
        self._begin()
        return self.responder.seal_for(frame, ITEMS_NEWS, b"")

    def _check_step(self, number: int, model: State) -> None:
        """Raises FrameRefused for the model of a round that has moved further than the rounds since
        the newest one here allow: no sums have made it so. The first model follows from the terms.
        """
        step = self.terms.protection.step
        if not step:
            return
        first = first_state(self.listed, self.terms, self.algorithm)
        before = self.algorithm.download(first)
        since = 0
        newest = self.store.model()
        if newest is not None:
            since = newest[0]
            # Items that came since begin as the first model has them.
            before = grown(state_of(type(before), newest[1]), before)
        # Else a server would show the model of the last round, and have all answers to it.
        if number < since:
            raise FrameRefused(Code.PAST_ROUND, f"the model of round {since} has come")
        allowed = (number - since) * step
        moved = longest_move(self.contract, before, model)
        if moved > allowed * ROUNDED + LEAST:
            text = f"a row moved by {moved:.3g} since round {since}; at most {allowed:.3g}"
            raise FrameRefused(Code.WRONG_MODEL, text)

    # ---- the parts of a round, which a secure round has too --------------------------------------

    def offers(self, number: int) -> bool:
        """Tells whether this node's device takes part in a round where devices decide by
        themselves: by its own lot, which is the same however often it is asked for.
        """
        users = self.shard.users
        if self._secret is None:
            keys = lots(self._rounds, number, users)
        else:
            secret = [self._secret.key("lot", number, user) for user in users.tolist()]
            keys = np.array(secret, np.uint64)
        rate = ProtectionInForce(self.terms.protection, self.contract).rate
        return bool(drawn(keys, rate).any())

    def before(self, request: NodeRequest) -> tuple[State, np.uint64]:
        """Returns all devices' private state as it was before a round, and the key of what they
        draw in it. New rows are read. Raises FrameRefused for a round that is over; the node's
        owner may rewind.
        """
        self.refresh()
        number = request.round
        arrays = self.store.state_before(number)
        # Whatever the server says: two answers of one round may tell what one user sent.
        if arrays is None or number < self.store.standing().rounds:
            text = f"round {number} is over for this node: its owner may rewind it"
            raise FrameRefused(Code.PAST_ROUND, text)
        self._check_step(number, request.download)
        private = self.contract.declaration.keeps
        key = np.uint64(local_key(self._rounds, number))
        return state_of(private, arrays), key

    def tests(self) -> RowTests | None:
        """Returns the tests of new rows that an answer under masks carries; None where the terms
        ask for none.
        """
        if not self.terms.accuracy:
            return None
        return self.store.tests_of(int(self.shard.users[0]))

    def test_key(self, number: int) -> np.uint64:
        """Returns the key of the noise on this node's tests in a round."""
        user = int(self.shard.users[0])
        if self._secret is not None:
            return self._secret.key("tests", number, user)
        return fold_name(np.uint64(local_key(self._rounds, number)), "tests", user)

    def _train_one(self, request: NodeRequest) -> tuple[State, Update]:
        """Trains one device. Returns the private state afterwards, and what the device sends."""
        devices, key = self.before(request)
        users = request.users
        download = request.download
        if self._secret is not None:
            update = self._secret.update(download, devices, users, 0, request.round)
        else:
            update = self.shard.update(download, devices, users, key)
        self._check(request, devices, update)
        return devices, update

    def train_sum(self, request: NodeRequest) -> tuple[State, Total]:
        """Trains the devices of a request. Returns their private state afterwards, and the sum of
        what they send, to be given back to the shard."""
        devices, key = self.before(request)
        users = request.users
        download = request.download
        if self._secret is not None:
            total = self._secret.total(download, devices, users, request.round)
        else:
            total, _ = self.shard.work(download, devices, users, key, delivered=True)
        self._check(request, devices, total)
        return devices, total

    def _check(self, request: NodeRequest, devices: State, sent: Update | Total) -> None:
        """Raises FrameRefused or ContractError unless the private state after a round, and the
        contribution, are numbers that the next round can work with.
        """
        # One download of huge numbers, all of them finite, would end a node for good.
        check_kept(self.contract, devices, len(self.shard.users))
        if isinstance(sent, Update):
            check_sent(self.contract, sent, request.users)
        contribution.check_numbers(devices, sent, self.contract)

    def keep(
        self,
        request: NodeRequest,
        answer: bytes,
        devices: State,
        facts: Mapping[str, str] | None = None,
        masked: MaskedVector | None = None,
    ) -> None:
        """Writes private state, answer, facts and what was masked to the disk, before the answer
        leaves. Raises FrameRefused, and writes nothing, if rows of the answer were forgotten
        meanwhile.
        """
        # The model is what the server announced only where every device receives the same.
        alike = self.contract.declaration.deliver is None
        model = arrays_of(request.download) if alike else None
        given = GivenAnswer(request.round, request.asked, answer)
        counts = None
        if self._tally is not None:
            counts = self._tally.taken()
        left = _left(request, counts)
        try:
            self.store.advance(
                given, arrays_of(devices), model, facts or {}, masked, left, self._forgotten
            )
        except RowsForgotten:
            text = "its users have forgotten rows while they were trained on"
            raise FrameRefused(Code.WITHHELD, text) from None

    # ---- recommending ----------------------------------------------------------------------------

    def recommender(self) -> tuple[int, OwnRecommender]:
        """Returns the newest model that came: its round, and what scores by it. Raises InputError
        if none has come.
        """
        model = self.store.model()
        newest = self.store.newest_state()
        if model is None or newest is None:
            fix = "run the node until its first round is over"
            raise InputError(str(self.folder), "no model has come yet", fix=fix)
        declaration = self.contract.declaration
        received = declaration.receives
        private = declaration.keeps
        assert received is not None  # of every algorithm around a server
        number, arrays = model
        # Items that came after the model have no row in it yet.
        fields = self.contract.receives
        self._modelled = items_in(arrays, fields, self.terms.items)
        download = received(**with_more_items(arrays, fields, self.terms.items))
        _, arrays = newest
        devices = state_of(private, arrays)
        scorer = OwnRecommender(
            self.algorithm,
            self.contract,
            download,
            devices,
            self.rows,
            self.shard.users,
            self._score_key(),
        )
        return number, scorer

    def unrecommended(self) -> list[int]:
        """Returns the numbers of the items that are in no list: the retired ones, and those that
        came after the model that `recommender` returned last.
        """
        return [*self.items.retired, *range(self._modelled, self.terms.items)]

    def _score_key(self) -> np.uint64:
        """Returns the key of the draws of scoring: that of a simulation, or a secret one."""
        if self._secret is not None:
            return self._secret.key("score", 0, 0)
        return key_of(self.terms.seed, "score")


def _paused(frame: Frame) -> bytes:
    """Refuses a request: nothing of a user leaves a paused node."""
    raise FrameRefused(Code.WITHHELD, "the owner of this node has paused it")


@final
class OwnRecommender:
    """A recommender of a node's users, which scores on the node. download: as it was delivered for
    all of them. rows: their histories. users: int64, their numbers in the federation, by which
    scoring draws from `key` if it draws.
    """

    def __init__(
        self,
        algorithm: FederatedAlgorithm,
        contract: Contract,
        download: State,
        devices: State,
        rows: Interactions,
        users: Int64Array,
        key: np.uint64,
    ) -> None:
        self._users = users
        self._key = key
        self._algorithm = algorithm
        self._contract = contract
        self._rows = rows
        self._download = download
        self._devices = devices

    def scores(self, users: Int64Array) -> Float32Array:
        """Returns scores of every item, float32 [len(users), items]. users: places among the node's
        users.
        """
        private = [array[users] for array in self._devices]
        devices = type(self._devices)(*private)
        download = self._contract.of_devices(self._download, users)
        histories = self._rows.histories(users)
        numbers = self._users[users]
        return scores_of(self._algorithm, download, devices, histories, numbers, self._key)


# ---- secret draws --------------------------------------------------------------------------------


@final
class SecretDraws:
    """The devices of a node, which draw from secret keys: one key for each purpose, round and user,
    a keyed BLAKE2b of the node's `secret`.

    The keys of a simulation come from one another by functions that can be turned round
    (core/keys.py): whoever finds one finds the seed, and all users and rounds with it. A server may
    find one, from what a device sends. These keys give nothing of any other.
    """

    def __init__(self, shard: Shard, secret: int) -> None:
        self._shard = shard
        self._secret = secret.to_bytes(BITS // 8, "little")

    def key(self, purpose: str, number: int, user: int) -> np.uint64:
        """Returns the key of one purpose, round and user."""
        text = f"{purpose} {number} {user}".encode()
        keyed = hashlib.blake2b(text, digest_size=8, key=self._secret, person=PERSON)
        word = int.from_bytes(keyed.digest(), "little")
        return np.uint64(word)

    def init_devices(self) -> State:
        """Returns the initial private state of all devices of the node."""
        states = []
        for user in self._shard.users.tolist():
            key = self.key("first", 0, user)
            states.append(
                self._shard.algorithm.init_devices(np.array([user]), self._shard.catalogue, key)
            )
        return joined_states(states)

    def update(
        self, download: State, devices: State, users: Int64Array, place: int, number: int
    ) -> Update:
        """Returns what the device of users[place] sends in a round; its row of `devices` is
        overwritten. download: delivered for `users`.
        """
        user = users[place : place + 1]
        received = self._shard.contract.of_devices(download, np.array([place]))
        key = self.key("round", number, int(users[place]))
        return self._shard.update(received, devices, user, key)

    def total(self, download: State, devices: State, users: Int64Array, number: int) -> Total:
        """Returns the sum of what the devices of `users` send in a round, each trained by itself.
        The sum is to be given back to the shard.
        """

        def train(place: Int64Array) -> Update:
            return self.update(download, devices, users, int(place[0]), number)

        places = [np.array([place]) for place in range(len(users))]
        total = self._shard.take()
        for low in range(0, len(users), TOGETHER):
            # No more updates than these are in memory before they are added up.
            for update in self._shard.executor.map(train, places[low : low + TOGETHER]):
                total = add_update(total, update)
        return total


# ---- what has left the devices -------------------------------------------------------------------


class SentCount(NamedTuple):
    """The counts of what one device sent."""

    rows: int | None
    """Rows; None where numbers for all items came at once, and no row by itself."""
    positives: int | None
    """Rows of items that its user has consumed; None as of `rows`."""
    numbers: int | None
    """Numbers in all arrays; None where nobody counted."""


@final
class UpdateTally:
    """Counts what the devices of a node send, when they send it; the node's own store keeps the
    counts for receipts. rows: the histories of the node's users, row r that of users[r].
    """

    def __init__(self, rows: Interactions, users: Int64Array) -> None:
        self._rows = rows
        self._users = users
        self._counts: dict[int, SentCount] = {}
        self._turn = Lock()

    def sent(self, users: Int64Array, update: Update) -> None:
        """Counts the updates of some devices; of a device that is trained again, the newest."""
        # Numbers of one row, and numbers of one device that are not in rows.
        width = sum(math.prod(rows.shape[1:]) for rows in update.rows.values())
        whole = [*update.dense.values(), *update.shown.values()]
        besides = sum(math.prod(array.shape[1:]) for array in whole)
        items = len(self._rows.items)
        for_all_items = any(array.shape[1:2] == (items,) for array in update.dense.values())
        for place, user in enumerate(users.tolist()):
            low = update.ptr[place]
            high = update.ptr[place + 1]
            item = update.item[low:high]
            row = np.searchsorted(self._users, [user])
            consumed = self._rows.of_users(row).item
            positives = int(np.isin(item, consumed).sum())
            count = SentCount(len(item), positives, width * len(item) + besides)
            if for_all_items and not update.rows:
                count = SentCount(None, None, count.numbers)
            # Threads train several devices at once.
            with self._turn:
                self._counts[user] = count

    def taken(self) -> dict[int, SentCount]:
        """Returns the counts since the last time, by user."""
        with self._turn:
            counts = self._counts
            self._counts = {}
        return counts


def _left(request: NodeRequest, counts: Mapping[int, SentCount] | None) -> list[LeftDevice]:
    """Returns the entries of a round for the store. counts: by user, None = nobody counted."""
    people = len(request.users)
    now = int(time.time())
    # A user without a count sent what it had sent before, which tells nothing new.
    again = SentCount(None, None, None) if counts is None else SentCount(0, 0, 0)
    counts = counts or {}
    left = []
    for user in request.users.tolist():
        count = counts.get(user, again)
        left.append(LeftDevice(request.round, user, *count, people, now))
    return left
