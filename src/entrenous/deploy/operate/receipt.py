"""Receipts: the messages that left the devices of a node. They are counted as they leave, kept in
the node's own store, and shown to its users.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from ...core.errors import InputError
from ...core.registry.discover import short
from ...privacy.told import expected, in_words, sum_if_known
from ..agreement.files import read_json
from ..agreement.terms import TERMS, FederationTerms
from ..node.node_store import NODE, STORE, LeftDevice, NodeStore
from ..peers.replay import PUSH

# Sentences of a receipt, for its user.
SINGLY = "the server could read each message by itself"
GATEWAY = (
    "this node added its users up before anything left it: the server saw sums of {} users, and"
    " nothing of one alone"
)
MASKED = "the server saw masked sums of several nodes, of at least {} people and {} parties"
NEVER = "nothing of this user has left this node so far"
WHOLE = (
    "each answer has numbers for every item at once, made from the whole history: rows are not"
    " counted"
)
UNCOUNTED = (
    "rows were not counted: draws are public, so that others can work out what each device drew"
)
NO_PROOF = "no guarantee: there is no differential privacy"
PROOF = (
    "differential privacy: epsilon {:.3g} at delta {:g} so far, if {} people in each sum add their"
    " noise and keep it to themselves"
)
PEER = (
    "each push was the whole model of this peer; it holds what the peer has trained on, and whom it"
    " went to can read it"
)


def receipt_of_node(folder: Path, user: str) -> dict[str, Any]:
    """Returns the receipt of one user of a node, as `entrenous receipt --json` prints it. Raises
    InputError for a user who is not of this node.
    """
    about = read_json(folder / NODE)
    terms = FederationTerms.read(folder / TERMS)
    with closing(NodeStore(folder / STORE)) as store:
        number = store.user_number(user)
        if number is None:
            expected_user = f"one of the {len(store.users)} users of this node"
            raise InputError("--user", f"unknown user '{user}'", expected=expected_user)
        left = store.given_away(number) if terms.has_server else _pushes(store, number)
        count = "select count(*) from row where user = ?"
        (history,) = store.connection.execute(count, (number,)).fetchone()
    algorithm = short(terms.algorithm)
    sentences = [_sentence(terms, left)]
    if terms.has_server and None in [device.rows for device in left]:
        sentences.append(UNCOUNTED if terms.draws == "public" else WHOLE)
    # Attacks that were measured under the same settings tell what to expect from so many messages.
    protection = dict(terms.protection) if terms.has_server else {}
    known = expected(algorithm, terms.profile, len(left), terms.settings, protection)
    sentences += in_words(known["expected"], history)
    # The proof rests on the noise of the people in a sum: as many as terms and owner insist on.
    owners_floor = int(about.get("floors", {}).get("people", 1))
    people = max(terms.protection.people, owners_floor)
    epsilon = terms.proven(people, len(left))
    if epsilon is None:
        sentences.append(NO_PROOF)
    else:
        sentences.append(PROOF.format(epsilon, terms.protection.delta, people))
    rounds = []
    for device in left:
        counts = {"rows": device.rows, "positives": device.positives, "numbers": device.numbers}
        rounds.append({"round": device.round, **counts})
    return {
        "node": about["name"],
        "user": user,
        "algorithm": algorithm,
        "data": str(folder),
        "profile": terms.profile,
        "history": history,
        "rounds": rounds,
        "rounds_answered": len(rounds),
        "rows": sum_if_known([device.rows for device in left]),
        "positives": sum_if_known([device.positives for device in left]),
        "numbers": sum_if_known([device.numbers for device in left]),
        "sentences": sentences,
        "epsilon": epsilon,
        **known,
    }


def _pushes(store: NodeStore, number: int) -> list[LeftDevice]:
    """Returns the pushes of a peer, which its store has as events."""
    # A push is a whole model: no rows in it can be counted.
    rows = store.connection.execute(f"select push from event where kind = {PUSH} order by number")
    return [LeftDevice(int(push), number, None, None, None, 1) for (push,) in rows]


def _sentence(terms: FederationTerms, left: Sequence[LeftDevice]) -> str:
    """Returns a sentence on who could read the messages."""
    if not left:
        return NEVER
    if not terms.has_server:
        return PEER
    if terms.masked:
        return MASKED.format(terms.protection.people, terms.protection.parties)
    # A gateway adds the updates of its users up; the smallest of its sums says most about one.
    least = min(device.people for device in left)
    if least == 1:
        return SINGLY
    return GATEWAY.format(least)
