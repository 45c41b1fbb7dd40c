"""What left the devices of a node: counted as it leaves, kept in the node's own store, and shown to
its users as receipts.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...core.errors import InputError
from ...core.registry.own import short
from ...privacy.told import expected, in_words
from ..agreement.files import read_json
from ..agreement.terms import TERMS, FederationTerms
from ..node.node_store import NODE, STORE, LeftDevice, NodeStore
from ..peers.replay import PUSH

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
    """The receipt of one user of a node, as `entrenous receipt --json` prints it. Raises InputError
    for a user who is not of this node.
    """
    about, terms = read_json(folder / NODE), FederationTerms.read(folder / TERMS)
    store = NodeStore(folder / STORE)
    try:
        number = store.user_number(user)
        if number is None:
            raise InputError(
                "--user",
                f"unknown user '{user}'",
                expected=f"one of the {len(store.users)} users of this node",
            )
        left = store.given_away(number) if terms.has_server else _pushes(store, number)
        (history,) = store.connection.execute(
            "select count(*) from row where user = ?", (number,)
        ).fetchone()
    finally:
        store.close()
    algorithm = short(terms.algorithm)
    profile = terms.profile
    said = {
        "node": about["name"],
        "user": user,
        "algorithm": algorithm,
        "data": str(folder),
        "profile": profile,
        "history": history,
    }
    rounds = [
        {name: getattr(one, name) for name in ("round", "rows", "positives", "numbers")}
        for one in left
    ]
    sums = {name: _sum([one[name] for one in rounds]) for name in ("rows", "positives", "numbers")}
    uncounted = UNCOUNTED if terms.draws == "public" else WHOLE
    sentences = [
        _sentence(terms, left),
        *([uncounted] if terms.has_server and None in [one.rows for one in left] else []),
    ]
    least = max(terms.protection.people, int(about.get("floors", {}).get("people", 1)))
    epsilon = terms.proven(least, len(rounds))
    proof = NO_PROOF if epsilon is None else PROOF.format(epsilon, terms.protection.delta, least)
    known = expected(
        algorithm,
        profile,
        len(rounds),
        terms.settings,
        dict(terms.protection) if terms.has_server else {},
    )
    told = in_words(known["expected"], history)
    return {
        **said,
        "rounds": rounds,
        "rounds_answered": len(rounds),
        **sums,
        "sentences": [*sentences, *told, proof],
        "epsilon": epsilon,
        **known,
    }


def _pushes(store: NodeStore, number: int) -> list[LeftDevice]:
    """The pushes of a peer, which its store has as events."""
    found = store.connection.execute(
        f"select push from event where kind = {PUSH} order by number"
    ).fetchall()
    return [LeftDevice(int(push), number, None, None, None, 1) for (push,) in found]


def _sentence(terms: FederationTerms, left: Sequence[LeftDevice]) -> str:
    """Who could see what left."""
    if not left:
        return NEVER
    if not terms.has_server:
        return PEER
    if terms.masked:
        return MASKED.format(terms.protection.people, terms.protection.parties)
    least = min((one.people for one in left), default=1)
    return SINGLY if least == 1 else GATEWAY.format(least)


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
