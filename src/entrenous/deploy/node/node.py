"""A node: a device with one user, or a gateway with many. It answers the server's requests and
keeps everything else to itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import final

import numpy as np

from ...core.contract.declared import Contract
from ...core.contract.enforce import check_kept, check_sent
from ...core.contract.protocols import FederatedAlgorithm, State, arrays_of
from ...core.contract.trial import of_devices
from ...core.contract.update import Total, Update
from ...core.errors import InputError
from ...core.keys import key as key_of
from ...core.keys import local_key
from ...core.types import Float32Array, Int64Array
from ...data.interactions import Interactions
from ...federation.executors import Threads
from ...federation.shard import Shard
from ...privacy.secure_sum.terms import Floors
from ..agreement.catalogue import ITEMS, Items
from ..agreement.files import IDENTITY, read_identity, read_json
from ..agreement.members import MEMBERS, Members
from ..agreement.terms import TERMS, FederationTerms
from ..frames import contribution
from ..frames.agreed_model import AGREED, KEPT, TAKEN, OfferedModel, check_agreed
from ..frames.frames import Code, Frame, FrameRefused
from ..frames.request import NodeRequest, announced
from ..frames.secure import KINDS, OPEN
from .draws import SecretDraws
from .node_store import NODE, STORE, GivenAnswer, MaskedVector, NodeStore
from .responder import Responder
from .secure_node import SecureSide
from .tally import UpdateTally, of_users

SAID = "said"  # the fact that names the trained model of which this node last said that it had come


@final
class FederatedNode:
    """One node, opened from its folder: node.json, terms.json, items.json, identity.key,
    store.sqlite. Answers one request at a time.
    """

    def __init__(self, folder: Path, *, threads: int = 1) -> None:
        about = read_json(folder / NODE)
        self.folder, self.name, self.terms = (
            folder,
            str(about["name"]),
            FederationTerms.read(folder / TERMS),
        )
        self.key = read_identity(folder / IDENTITY)
        self.algorithm = self.terms.make(about.get("own"), str(about.get("algorithm", "")))
        self.items = Items.read(folder / ITEMS, self.terms.items_sha256)
        self.store, self._turn = NodeStore(folder / STORE), Lock()
        self.rows: Interactions = self.store.rows(self.items)
        public, self._rounds = self.terms.draws == "public", key_of(self.terms.seed, "rounds")
        self._tally = (
            None if public else UpdateTally(self.rows, self.store.users)
        )  # compiled sums, of public draws, show no updates
        self.shard = Shard(
            self.algorithm,
            self.terms.catalogue,
            self.rows,
            self.store.users,
            executor=Threads(threads),
            recorder=self._tally,
            protection=self.terms.protection,
        )
        self._secret = (
            None if public else SecretDraws(self.shard, int(self.store.fact("secret") or 0))
        )
        self.contract, least = (
            contribution.agreed(self.algorithm, self.terms.catalogue, self.terms.protection),
            int(about.get("least_users", 1)),
        )
        self.responder = Responder(
            self.name, self.key, self.terms, self.contract, self.shard.users, least
        )
        if self.store.newest_state() is None:
            devices = key_of(self.terms.seed, "devices")
            first = (
                self.shard.init_devices(devices)
                if self._secret is None
                else self._secret.init_devices()
            )
            self.store.begin(arrays_of(first))
        self._offered: OfferedModel | None = None
        self._kinds: dict[str, Callable[[Frame], bytes]] = {
            "hello": self.responder.hello,
            "work": self._work,
            "model": self._model,
        }
        if self.terms.masked:
            members = Members.read(folder / MEMBERS, self.terms.users)
            floors = Floors(**about.get("floors", {}))
            noise = floors.noise or self.terms.protection.noise > 0
            secure = SecureSide(self, members, replace(floors, noise=noise))
            stages = dict.fromkeys((*KINDS, OPEN), secure.answer)
            self._members = members
            self._kinds = {
                "hello": self.responder.hello,
                "model": self._offered_model,
                AGREED: self._agreed_model,
                **stages,
            }

    def close(self) -> None:
        self.store.close()

    def answer(self, request: bytes) -> bytes:
        """Answers a request: with what was asked for, or why not. Requests that come together are
        answered one after the other.
        """
        with self._turn:
            return self.responder.answer(request, self._kinds)

    # ---- what it is asked ------------------------------------------------------------------------

    def _work(self, frame: Frame) -> bytes:
        """Trains the asked users' devices, once, and gives the same answer however often it is
        asked.
        """
        request, _ = self.responder.read_request(frame)
        given = self.store.answered(request.round)
        if given is not None and given.asked == request.asked:
            return given.frame
        if len(request.users) == 1:
            devices, update = self._train_one(request)
            kind, body = "update", contribution.of_update(update)
        else:
            devices, total = self.train_sum(request)
            kind, body = "sum", contribution.of_total(total)
            self.shard.release(total)
        answer = self.responder.seal_for(frame, kind, body)
        self.keep(request, answer, devices)
        return answer

    def _model(self, frame: Frame) -> bytes:
        """A model for all of the node's users, to recommend by."""
        download = self._read_model(frame)
        self.store.receive_model(frame.head.round, arrays_of(download))
        return self.responder.seal(TAKEN, round=frame.head.round)

    def _offered_model(self, frame: Frame) -> bytes:
        """The same under masks, where a server may lie to one node: a model that is kept once
        enough other nodes have the same. A node says of one model a round that it has come, for
        good: of two it could help two models to a quorum each."""
        download = self._read_model(frame)
        number = frame.head.round
        digest = announced(self.contract, download)
        said = self.store.fact(SAID) or ""
        word = f"{number} {digest.hex()}"
        if said.startswith(f"{number} ") and said != word:
            raise FrameRefused(Code.CONFLICT, "another trained model of this round has come before")
        if said and int(said.split()[0]) > number:
            raise FrameRefused(Code.PAST_ROUND, "a newer trained model has come")
        self.store.note(SAID, word)
        self._offered = OfferedModel(number, digest, arrays_of(download))
        return self.responder.seal(TAKEN, round=number, model=digest)

    def _agreed_model(self, frame: Frame) -> bytes:
        """The words of the other nodes, by which the offered model is kept or not."""
        offered = self._offered
        if offered is None:
            raise FrameRefused(Code.NOT_ASKED, "no model was offered since this node started")
        check_agreed(frame.body, offered, self.terms.run, self._members)
        self.store.receive_model(offered.round, offered.arrays)
        return self.responder.seal(KEPT, round=offered.round, model=offered.digest)

    def _read_model(self, frame: Frame) -> State:
        """A model for all of the node's users. Raises FrameRefused."""
        kept = self.store.model()
        if kept is not None and frame.head.round < kept[0]:
            raise FrameRefused(Code.PAST_ROUND, "a newer model has come")
        download, _ = self.responder.read_download(frame, {}, len(self.shard.users))
        return download

    # ---- the parts of a round, which a secure one has too ----------------------------------------

    def _train_one(self, request: NodeRequest) -> tuple[State, Update]:
        """The private state afterwards, and what the one device sends."""
        devices, key = self.before(request)
        if self._secret is not None:
            update = self._secret.update(request.download, devices, request.users, 0, request.round)
        else:
            update = self.shard.update(request.download, devices, request.users, key)
        self._check(request, devices, update)
        return devices, update

    def train_sum(self, request: NodeRequest) -> tuple[State, Total]:
        """Trains the devices of a request. Returns their private state afterwards, and the sum of
        what they send, to be given back to the shard."""
        devices, key = self.before(request)
        if self._secret is not None:
            total = self._secret.total(request.download, devices, request.users, request.round)
        else:
            total, _ = self.shard.work(
                request.download, devices, request.users, key, delivered=True
            )
        self._check(request, devices, total)
        return devices, total

    def _check(self, request: NodeRequest, devices: State, found: Update | Total) -> None:
        """What a round leaves here, and what leaves it, are numbers that the next round can work
        with: one download of huge ones, all of them finite, would end a node for good. Raises
        FrameRefused, ContractError.
        """
        check_kept(self.contract, devices, len(self.shard.users))
        if isinstance(found, Update):
            check_sent(self.contract, found, request.users)
        contribution.check_numbers(devices, found, self.contract)

    def keep(
        self,
        request: NodeRequest,
        answer: bytes,
        devices: State,
        facts: Mapping[str, str] | None = None,
        masked: MaskedVector | None = None,
    ) -> None:
        """Writes private state, answer, facts and what was masked to the disk, before the answer
        leaves.
        """
        model = arrays_of(request.download) if self._for_all else None
        given = GivenAnswer(request.round, request.asked, answer)
        left = of_users(
            request.round, request.users, None if self._tally is None else self._tally.taken()
        )
        self.store.advance(given, arrays_of(devices), model, facts or {}, masked, left)

    def recommender(self) -> tuple[int, OwnRecommender]:
        """The newest model that came: its round, and what scores by it. Raises InputError if none
        has come.
        """
        found, newest = self.store.model(), self.store.newest_state()
        if found is None or newest is None:
            raise InputError(
                str(self.folder),
                "no model has come yet",
                fix="run the node until its first round is over",
            )
        received, private = self.contract.declaration.receives, self.contract.declaration.keeps
        assert received is not None and private is not None  # of every algorithm around a server
        return found[0], OwnRecommender(
            self.algorithm, self.contract, received(**found[1]), private(**newest[1]), self.rows
        )

    def before(self, request: NodeRequest) -> tuple[State, np.uint64]:
        """All devices' private state as it was before a round, and the key of what they draw in it.
        Raises FrameRefused for a round that is over, whatever the server says: two answers of one
        round may tell what one user sent. The node's owner may rewind.
        """
        number, newest = request.round, self.store.newest_state()
        arrays = self.store.state_before(number)
        if arrays is None or (newest is not None and number < newest[0]):
            raise FrameRefused(
                Code.PAST_ROUND, f"round {number} is over for this node: its owner may rewind it"
            )
        private = self.contract.declaration.keeps
        assert private is not None  # of every algorithm around a server
        return private(**arrays), np.uint64(local_key(self._rounds, number))

    # ---- small parts -----------------------------------------------------------------------------

    @property
    def _for_all(self) -> bool:
        """Whether every device receives the same, so that the announced model is what comes."""
        return self.contract.declaration.deliver is None


@final
class OwnRecommender:
    """A recommender of a node's users, scored on the node. download: as it was delivered for all of
    them; data: their rows.
    """

    def __init__(
        self,
        algorithm: FederatedAlgorithm,
        contract: Contract,
        download: State,
        devices: State,
        data: Interactions,
    ) -> None:
        self._algorithm, self._contract, self._download, self._devices, self._data = (
            algorithm,
            contract,
            download,
            devices,
            data,
        )

    def scores(self, users: Int64Array) -> Float32Array:
        """Scores of every item, float32 [len(users), items]. users: places among the node's
        users.
        """
        devices = type(self._devices)(*(array[users] for array in self._devices))
        return self._algorithm.score(
            of_devices(self._contract, self._download, users), devices, self._data.histories(users)
        )
