"""A relay: a node that serves further nodes below it. It asks them for what it is asked for, and
answers with their sum.

Sums are associative, so a tree of relays of any depth ends with the model of one server. Under
masks the nodes of a relay are one group of the federation: it learns their sum and no node's part,
and has them agree on the trained model.

Whom a relay could not hear in time is left out, and it says so. What its nodes have sent is in its
journal before they hear that it is; its answer is kept, so that it is the same however often it is
asked for.
"""

from __future__ import annotations

from pathlib import Path
from threading import Event, Lock
from typing import final

import numpy as np

from ...core.contract.protocols import State
from ...core.contract.update import Total
from ...core.files import write_atomically
from ...core.printed import counted
from ...core.types import Int64Array
from ..agreement.files import IDENTITY, read_identity, read_json
from ..agreement.members import MEMBERS, Members
from ..agreement.terms import TERMS, FederationTerms
from ..frames import agreed_model, contribution
from ..frames.agreed_model import TAKEN
from ..frames.frames import ADDRESS_NEWS, Code, Frame, FrameRefused
from ..frames.request import NodeRequest, Responder, RoundWork, announced
from ..links.port import ServerLink
from ..server.collector import Collector
from ..server.server_folder import ServerFolder
from .node_store import NODE, StoreStanding

BELOW = "below"  # the folder of the federation of its own nodes
EARLY = 0.8  # share of a round's time after which it answers without those who have not
GIVING = 20.0  # seconds for its nodes to take a trained model
AGREEING = 5.0  # seconds for them to hear of each other's words about it
KEPT = 4  # answers
ASKED = 32  # bytes of a request's sha256, which stands before its answer on the disk


@final
class Relay:
    """One relay, opened from its folder. Answers one request at a time.

    below: the open folder of the server that it is to the nodes below. link: to these nodes.
    """

    def __init__(self, folder: Path, below: ServerFolder, link: ServerLink, stop: Event) -> None:
        about = read_json(folder / NODE)
        terms = FederationTerms.read(folder / TERMS)
        self.folder = folder
        self.name = str(about["name"])
        self.terms = terms
        self.key = read_identity(folder / IDENTITY)
        members = Members.read(folder / MEMBERS, terms.users)
        users = members.nodes[self.name].users
        contract = contribution.contract_of(terms, str(about.get("algorithm", "")))
        self.responder = Responder(self.name, self.key, terms, contract, users, folder=folder)
        self._below = below
        self._collector = Collector(below, contract, link, stop)
        self._turn = Lock()
        self._kinds = {
            "hello": self.responder.hello,
            "work": self._work,
            "model": self._model,
            ADDRESS_NEWS: self.responder.take_addresses,
        }

    def answer(self, request: bytes) -> bytes:
        """Answers a request of the server above. Requests that come together are answered one after
        the other.
        """
        with self._turn:
            return self.responder.answer(request, self._kinds)

    def standing(self) -> StoreStanding:
        """Returns how far the relay is. It keeps no model and remembers no sums."""
        rounds = max(self._answers(), default=-1) + 1
        return StoreStanding(rounds, None, 0)

    def _work(self, frame: Frame) -> bytes:
        request, _ = self.responder.read_request(frame)
        given = self._given(request)
        if given is None:
            total, heard = self._collected(request, frame.head.model)
            body = contribution.of_part(total, heard)
            given = self.responder.seal_for(frame, "part", body, heard=len(heard))
            self._keep(request, given)
        return given

    def _collected(self, request: NodeRequest, model: bytes) -> tuple[Total, Int64Array]:
        """Returns the sum of the answers of the relay's nodes, and the users who are in it. Raises
        FrameRefused where these are too few.
        """
        asked = self._below.members.by_node(request.users)
        work = RoundWork(request.round, model, asked, request.download, request.users)
        total, heard = self._masked(work) if self.terms.masked else self._plain(work)
        self._below.log(f"round {request.round}: {len(heard)} of {len(request.users)} devices")
        # The terms' quorum holds here, too: a sum of few tells more of each.
        people = sum(len(users) for users in asked.values())
        if not len(heard) or len(heard) < self.terms.quorum * people:
            raise FrameRefused(Code.WITHHELD, "quorum: too few of this relay's nodes have answered")
        return total, heard

    def _plain(self, work: RoundWork) -> tuple[Total, Int64Array]:
        """The sum of answers that are seen singly, and whose."""
        collector = self._collector
        collector.begin(work)
        try:
            # The server above waits for the whole deadline, and the answer has to reach it.
            collector.gather(EARLY * self.terms.deadline)
            heard = collector.heard
        finally:
            total = collector.end()
        return total, heard

    def _masked(self, work: RoundWork) -> tuple[Total, Int64Array]:
        """The secure sum of the relay's nodes, and whose; of nobody where there is none."""
        # Nobody is in another group here, and the relay's own folder remembers its sums.
        summed = self._collector.sum_of(0, work, (), seconds=EARLY * self.terms.deadline)
        users = [np.empty(0, np.int64), *(work.asked[name] for name in summed.names)]
        return summed.total, np.sort(np.concatenate(users))

    def _model(self, frame: Frame) -> bytes:
        """Hands a model for all users on to the relay's nodes."""
        users = len(self.responder.users)
        download, _ = self.responder.read_download(frame, {}, users)
        self._hand_on(frame.head.round, download)
        return self.responder.seal(TAKEN, round=frame.head.round)

    def _hand_on(self, number: int, download: State) -> None:
        everyone = self._below.members.everyone
        work = RoundWork(number, b"", everyone, download, self.responder.users)
        self._collector.offer(work)
        self._collector.give(GIVING)
        absent = len(self._collector.without)
        if absent:
            missed = f"{counted(absent, 'node')} did not take the model"
            self._below.log(f"{missed} of round {number}: not there")
        if self.terms.masked:
            self._agree(number, announced(self.responder.contract, download))

    def _agree(self, number: int, digest: bytes) -> None:
        """Has the relay's nodes agree on a model, as `FederationServer` has its own."""
        kept = self._collector.agree(digest, AGREEING).kept
        members = self._below.members
        least = agreed_model.enough(members, self.terms)
        if len(kept) < least:
            self._below.log(
                f"{len(kept)} of {len(members.nodes)} nodes keep the model of round {number}, which"
                f" {least} must have before any does"
            )

    # ---- answers that were given -----------------------------------------------------------------

    def _given(self, request: NodeRequest) -> bytes | None:
        """Returns the answer that was given to the same request; None if its round is new. Raises
        FrameRefused for another request of a round that was answered.
        """
        newest = max(self._answers(), default=-1)
        if request.round > newest:
            return None
        path = self._answer_path(request.round)
        record = path.read_bytes() if path.exists() else b""
        # Two sums of one round may tell what one node sent.
        if record[:ASKED] != request.asked:
            raise FrameRefused(Code.PAST_ROUND, f"round {request.round} is over for this relay")
        return record[ASKED:]

    def _keep(self, request: NodeRequest, answer: bytes) -> None:
        """Writes an answer to the disk before it leaves, and drops older ones."""
        write_atomically(self._answer_path(request.round), request.asked + answer)
        for number in sorted(self._answers())[:-KEPT]:
            self._answer_path(number).unlink(missing_ok=True)
        # The answers of its nodes, of which this one was made, are not needed any more.
        self._below.drop_journals()

    def _answers(self) -> list[int]:
        """Returns the rounds whose answers are kept."""
        names = [path.stem for path in self.folder.glob("answer-*.frame")]
        return [int(name.removeprefix("answer-")) for name in names]

    def _answer_path(self, number: int) -> Path:
        return self.folder / f"answer-{number:09d}.frame"
