"""Going back to a kept model where sums are masked: the model is an old one, the numbers of rounds
are new.

A node sends one masked input for a number, ever, since two sums of one round over different nodes
would tell what a node sent. So a server that goes back to the model of round 100 after round 180
goes on with round 181, from that model. Nodes take this for another round with another model: no
node goes back, and nobody need be told. A node's memory of earlier sums counts as before, also of
sums of this very model.

A node counts the masked inputs that have left it, and sends no more than the terms say. Where that
does not leave enough for the rounds to come, its owner decides: going back costs its users further
sums.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from ...core.errors import InputError
from ..agreement.files import read_json
from ..agreement.terms import LAST_NUMBER, TERMS, FederationTerms, further
from ..node.node_store import NODE, STORE, NodeStore
from ..node.secure_node import ALLOWED, allowed_inputs, inputs
from ..server.rounds import first_standing, standing
from ..server.server_folder import RoundCount, ServerFolder, choose_kept, drop_models, kept_rounds
from .enrolment import check_epsilon


class WentBack(NamedTuple):
    """The result of going back."""

    before: int
    """The rounds that counted before."""
    counted: int
    """The rounds that count now."""
    number: int
    """The number of the next round."""
    left: int
    """The further rounds that each node answers at least, without its owner's word."""
    wanted: int
    """The rounds to come."""


class AllowedSums(NamedTuple):
    """The masked inputs of a node."""

    sent: int
    """The rounds of which a masked input has left the node."""
    most: int
    """The rounds of which a masked input may leave the node."""
    epsilon: float | None
    """The epsilon of each user by then; None = nothing is proven."""


def go_back(folder: Path, counted: int, after: int = -1) -> WentBack:
    """Makes the model of `counted` rounds the newest of a server that is not running, under a
    number that no node has been asked about.

    after: the largest number that nodes know, where the folder was restored from a backup and
    cannot know it. Raises InputError for a model that is not kept, and for a server at work."""
    with closing(ServerFolder(folder)) as held:
        algorithm = held.terms.make(place=held.algorithm)
        now = standing(held, algorithm)
        kept = kept_rounds(folder)
        choose_kept(kept, counted)
        then = held.kept(algorithm, kept[counted]) if counted else first_standing(held, algorithm)
        begun = held.newest_begun()
        number = max(now.round, begun + 1, after + 1)
        if number >= LAST_NUMBER:
            problem = f"round {number} would be the next"
            raise InputError("--after", problem, expected=f"a number below {LAST_NUMBER - 1}")
        # Nodes may have answered a round that is still open.
        asked = now.tally.asked + (begun >= now.round)
        # Models of undone rounds go first: if a kill left them here, they would pass for those of
        # rounds to come.
        drop_models(folder, above=counted)
        tally = RoundCount(counted, 0, asked, then.tally.drawn)
        held.commit(then._replace(round=number, tally=tally))
        drop_models(folder, above=counted, but=number)
        left, wanted = max(0, held.terms.sums - asked), held.terms.rounds - counted
    return WentBack(now.tally.counted, counted, number, left, wanted)


def allow_sums(folder: Path, counted: int) -> AllowedSums:
    """Lets a server that went back to `counted` rounds go on to the end of its terms, as the node's
    owner decides: with a tenth more rounds than are to come, for lost ones.

    Raises InputError for rounds that the terms do not have, and where that would spend more than
    the owner's epsilon.
    """
    terms, about = FederationTerms.read(folder / TERMS), read_json(folder / NODE)
    if counted > terms.rounds:
        expected = f"at most {terms.rounds}, the rounds of the terms"
        raise InputError("--rounds", f"got {counted}", expected=expected)
    wanted = terms.rounds - counted
    people = int(about.get("floors", {}).get("people", terms.protection.people))
    with closing(NodeStore(folder / STORE)) as store:
        sent = inputs(store)
        most = max(allowed_inputs(store, terms), sent + wanted + further(wanted))
        check_epsilon(folder, terms, about.get("epsilon"), people, most)
        store.note(ALLOWED, str(most))
    return AllowedSums(sent, most, terms.proven(people, most))
