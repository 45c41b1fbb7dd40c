"""The rounds of a federation by lot, made again in one process: the same rows, items and draws, and
the same people in each sum, have to give the same bytes.

When a real device hears of an event nobody decides beforehand. So events happen between rounds, and
what is compared is the training from what each device then had.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from entrenous_network.agreement.catalogue import Items
from entrenous_network.agreement.growth import grown
from entrenous_network.agreement.terms import FederationTerms
from entrenous_network.operate.device import OwnRow
from entrenous_network.server.server import moved_on
from entrenous_network.server.server_folder import server_arrays

from entrenous.core.contract.declared import Contract
from entrenous.core.contract.protocols import State, model_sha256
from entrenous.core.keys import key as key_of
from entrenous.core.types import Int64Array
from entrenous.data.interactions import Interactions, Vocabulary, build
from entrenous.federation.rounds import Rounds, Training
from entrenous.privacy.protection import Protection, ProtectionInForce
from entrenous.privacy.turnout import drawn, lots


class QuietRounds(NamedTuple):
    """Some rounds, between which nothing happened."""

    items: Items
    """The list of items."""
    rows: Mapping[int, Sequence[OwnRow]]
    """The rows of each device, by the federation's number of its user."""
    there: frozenset[int]
    """The users whose devices were running, and not paused."""
    anew: frozenset[int]
    """The users who forgot everything since the stage before, so that their devices begin anew."""
    sums: list[frozenset[int] | None]
    """The users in the sum of each round; empty where too few offered, None where the sum was
    lost."""


class Again(NamedTuple):
    """The training of a trial, made again."""

    sha256: str
    """The hash of the server's model."""
    late: int
    """The answers that lots drew, of devices that were there, and that no sum has: they came too
    late."""
    drawn: int
    """All answers that lots drew of devices that were there, in rounds with a sum."""


def server_sha256(state: State) -> str:
    """Returns the hash of a server's state."""
    return model_sha256(server_arrays(state))


class StageAgain(NamedTuple):
    """The end of a stage, made again."""

    rounds: Rounds
    """The federation as it was in the stage."""
    training: Training
    """The training at its end, whose arrays the next stage changes."""
    late: int
    """As in `Again`, of this stage."""
    drawn: int


def made_again(terms: FederationTerms, stages: Sequence[QuietRounds]) -> Again:
    """Makes the rounds of some stages in one process. terms: as they were signed, with public
    draws.
    """
    training: Training | None = None
    late = 0
    asked = 0
    for stage in each_again(terms, stages):
        training = stage.training
        late += stage.late
        asked += stage.drawn
    if training is None:
        raise ValueError("no stages")
    return Again(server_sha256(training.server), late, asked)


def each_again(
    terms: FederationTerms, stages: Iterable[QuietRounds], protection: Protection | None = None
) -> Iterator[StageAgain]:
    """Makes the rounds of some stages in one process, stage by stage. protection: None = that of
    the terms.
    """
    training: Training | None = None
    for stage in stages:
        late = 0
        asked = 0
        start = 0 if training is None else training.round
        summed = dict(enumerate(stage.sums, start))
        rounds = _rounds(terms, stage, summed, protection or terms.protection)
        first = rounds.start()
        training = first if training is None else _gone_on(training, first, stage)
        for number, users in summed.items():
            if users is None:
                # The number is used up, and nobody is asked about the same model again.
                moved = moved_on(training.server, rounds.algorithm, rounds.contract)
                training = training._replace(server=moved, round=number + 1)
                continue
            if not users:
                training = training.without_a_sum()
                continue
            training = rounds.one_round(training)
            offered = _drawn(terms, rounds.contract, number)
            there = offered & stage.there
            missing = there - users
            asked += len(there)
            late += len(missing)
        yield StageAgain(rounds, training, late, asked)


def _rounds(
    terms: FederationTerms,
    stage: QuietRounds,
    summed: Mapping[int, frozenset[int] | None],
    protection: Protection,
) -> Rounds:
    """Returns the rounds of a stage, in which those take part who were in the sums."""

    def took_part(number: int, users: Int64Array) -> Int64Array:
        in_sum = summed[number] or ()
        return np.array(sorted(in_sum), np.int64)

    return Rounds(
        terms.with_items(stage.items.log).make(),
        _interactions(terms, stage),
        seed=terms.seed,
        protection=protection,
        cohorts=took_part,
    )


def _gone_on(training: Training, first: Training, stage: QuietRounds) -> Training:
    """Returns a training as it goes on in a stage. first: the state of the stage's rounds before
    any round: that of new items, and of devices that begin anew.
    """
    server = grown(training.server, first.server)
    anew = sorted(stage.anew)
    for now, beginning in zip(training.devices, first.devices, strict=True):
        now[anew] = beginning[anew]
    return Training(server, training.devices, training.round, training.ledger)


def _drawn(terms: FederationTerms, contract: Contract, number: int) -> frozenset[int]:
    """Returns the users whose public lot says that they take part in a round."""
    users = np.arange(terms.users)
    keys = lots(key_of(terms.seed, "rounds"), number, users)
    rate = ProtectionInForce(terms.protection, contract).rate
    offers = users[drawn(keys, rate)]
    return frozenset(offers.tolist())


def _interactions(terms: FederationTerms, stage: QuietRounds) -> Interactions:
    """Returns the rows of all devices of a stage, without those of retired items."""
    items = stage.items.vocabulary
    retired = set()
    for number in stage.items.retired:
        retired.add(items[number])
    of: list[int] = []
    trained: list[OwnRow] = []
    for user, rows in stage.rows.items():
        for row in rows:
            if row["item"] in retired:
                continue
            of.append(user)
            trained.append(row)
    ids = [row["item"] for row in trained]
    values = [row["value"] for row in trained]
    return build(
        np.array(of, np.int64),
        items.indices(ids),
        value=values,
        users=Vocabulary(size=terms.users, kind="user"),
        items=items,
        name="trial",
    )
