"""Going back to a kept model where sums are masked: the model is an old one, the numbers of rounds
are new.

A node sends one masked input for a number, ever, since two sums of one round over different nodes
would tell what a node sent. So the server that goes back to the model of round 100 after round 180
goes on as round 181, from that model. Nodes take it for another round with another model: no node
goes back, and nobody need be told. What each node remembers of earlier sums counts as before, also
of this very model.

A node counts the masked inputs that have left it, and sends no more than the terms say. Where the
rounds to come are more than that leaves, its owner decides: going back costs its users further
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
    """What going back came to. before, counted: rounds that counted before and count now; number:
    of the next round; left: for how many rounds more each node answers at least, without its
    owner's word; wanted: how many are to come.
    """

    before: int
    counted: int
    number: int
    left: int
    wanted: int


class AllowedSums(NamedTuple):
    """Of how many rounds masked inputs have left a node, and of how many they may. epsilon: of each
    user by then; None = nothing is proven."""

    sent: int
    most: int
    epsilon: float | None


def go_back(folder: Path, counted: int, after: int = -1) -> WentBack:
    """Make the model of `counted` rounds the newest of a server that is not running, under a number
    that no node has been asked about.

    after: the largest number that nodes know, where the folder was restored from a backup and
    cannot know it. Raises InputError for a model that is not kept, and for a server at work."""
    with closing(ServerFolder(folder)) as held:
        algorithm = held.terms.make(place=held.algorithm)
        now = standing(held, algorithm)
        found = kept_rounds(folder)
        choose_kept(found, counted)
        then = held.kept(algorithm, found[counted]) if counted else first_standing(held, algorithm)
        begun = held.newest_begun()
        number = max(now.round, begun + 1, after + 1)
        if number >= LAST_NUMBER:
            raise InputError(
                "--after",
                f"round {number} would be the next",
                expected=f"a number below {LAST_NUMBER - 1}",
            )
        asked = now.tally.asked + (
            begun >= now.round
        )  # of a round that is open nodes may have answered
        # models of what is undone go first: were they left by a kill, they would pass for those of
        # rounds to come
        drop_models(folder, above=counted)
        held.commit(
            then._replace(round=number, tally=RoundCount(counted, 0, asked, then.tally.drawn))
        )
        drop_models(folder, above=counted, but=number)
        terms = held.terms
    return WentBack(
        now.tally.counted, counted, number, max(0, terms.sums - asked), terms.rounds - counted
    )


def allow_sums(folder: Path, counted: int) -> AllowedSums:
    """Let a server that went back to `counted` rounds go on to the end of its terms, as the node's
    owner: with a tenth more than the rounds that are to come, for lost ones.

    Raises InputError for rounds that the terms do not have, and where that would spend more than
    the owner's epsilon.
    """
    terms, about = FederationTerms.read(folder / TERMS), read_json(folder / NODE)
    if counted > terms.rounds:
        raise InputError(
            "--rounds",
            f"got {counted}",
            expected=f"at most {terms.rounds}, the rounds of the terms",
        )
    wanted = terms.rounds - counted
    people = int(about.get("floors", {}).get("people", terms.protection.people))
    with closing(NodeStore(folder / STORE)) as store:
        sent = inputs(store)
        most = max(allowed_inputs(store, terms), sent + wanted + further(wanted))
        check_epsilon(folder, terms, about.get("epsilon"), people, most)
        store.note(ALLOWED, str(most))
    return AllowedSums(sent, most, terms.proven(people, most))
