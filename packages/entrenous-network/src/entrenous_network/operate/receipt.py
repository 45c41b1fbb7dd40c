"""Receipts: the messages that left the devices of a node. They are counted as they leave, kept in
the node's own store, and shown to its users.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from entrenous.core.errors import InputError
from entrenous.core.registry.discover import short
from entrenous.privacy.noise import most_bits
from entrenous.privacy.told import (
    FORGETTING,
    HOLDS_AGAINST,
    MEMBERSHIP,
    UserReceipt,
    account,
    expected,
    sum_if_known,
)

from ..agreement.files import read_json
from ..agreement.terms import TERMS, FederationTerms
from ..node.node_store import NODE, STORE, LeftDevice, NodeStore, floors_of
from ..node.secure_node import budget_of
from ..peers.events import PUSH

# Sentences of a receipt, for its user.
NEVER = "You took no part so far; nothing of you has left this node."
ANSWERED = "Your device answered {} times."
TIMES = " The first time noted is {}, the last one {}."
SINGLY = "The server could read each answer by itself."
GATEWAY = (
    "This node added its users up before anything left it: the server saw sums of {} users, and"
    " nothing of one alone."
)
MASKED = "The server saw masked sums of at least {} people."
BUDGET = "Your device gives {}."
BOUND = (
    "So far your answers tell at most {:,.1f} bits of you, whatever models came, while {} others"
    " in each sum add their noise and keep it to themselves."
)
WHOLE = (
    "Each answer contains your whole list of {} items: it has numbers for every item at once, and"
    " rows are not counted."
)
UNCOUNTED = (
    "Rows were not counted: draws are public, so that others can work out what each device drew."
)
# Known besides messages, and what can be undone.
KNOWN = "The server, whose key begins {}, knows that you are a member, and when you answered."
LEAVING = "To leave, pause, forget your rows and stop the device."
NO_PROOF = "No guarantee: there is no differential privacy."
PROOF = (
    "Differential privacy so far, if {} people in each sum add their noise and keep it to"
    " themselves: {}."
)
PEER = (
    "Your device pushed its whole model {} times. It holds what the device has trained on, and whom"
    " it went to can read it."
)


class NodeReceipt(UserReceipt):
    """The receipt of one user of a node, whose folder is its `data`."""

    node: str


def receipt_of_node(folder: Path, user: str | None = None) -> NodeReceipt:
    """Returns the receipt of one user of a node, as `entrenous receipt --json` prints it. user:
    None = the first. Raises InputError for a user who is not of this node.
    """
    about = read_json(folder / NODE)
    terms = FederationTerms.read(folder / TERMS)
    with closing(NodeStore(folder / STORE)) as store:
        if user is None:
            user = store.first_user
        number = store.user_number(user)
        if number is None:
            expected_user = f"one of the {len(store.users)} users of this node"
            raise InputError("--user", f"unknown user '{user}'", expected=expected_user)
        left = store.given_away(number) if terms.has_server else _pushes(store, number)
        history = len(store.rows_of(number))
        budget = budget_of(store, terms)
    algorithm = short(terms.algorithm)
    part = _part(terms, left)
    own = terms.protection
    if left and own.clip and own.noise:
        bits = most_bits(len(left) * (own.clip / own.noise) ** 2)
        part.append(BOUND.format(bits, terms.fewest - 1))
    if budget.days:
        part.append(BUDGET.format(budget.told(time.time())))
    if terms.has_server and None in [device.rows for device in left]:
        part.append(UNCOUNTED if terms.draws == "public" else WHOLE.format(history))
    if left and terms.has_server:
        part.append(KNOWN.format(terms.operator[:8]))
        part.append(MEMBERSHIP.format(algorithm, terms.profile))
        part.append(f"{LEAVING} {FORGETTING}")
    # Attacks that were measured under the same settings tell what to expect from so many messages.
    protection = dict(terms.protection) if terms.has_server else {}
    answers = max(1, len(left))
    findings = expected(algorithm, terms.profile, answers, terms.settings, protection)
    # The proof rests on the noise of the people in a sum: as many as terms and owner insist on.
    people = terms.protection.people
    if terms.has_server:
        people = max(people, floors_of(folder, about).people)
    epsilon = terms.proven(people, len(left))
    proof = [NO_PROOF] if left else []
    if epsilon is not None:
        proof = [PROOF.format(people, terms.proof(people, len(left)))]
    rounds: list[dict[str, int | str | None]] = []
    for device in left:
        counts = {"rows": device.rows, "positives": device.positives, "numbers": device.numbers}
        rounds.append({"round": device.round, **counts, "time": _in_words(device.time)})
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
        "epsilon": epsilon,
        **account(part, findings, history, took_part=bool(left), proof=proof),
    }


def _pushes(store: NodeStore, number: int) -> list[LeftDevice]:
    """Returns the pushes of a peer, which its store has as events."""
    # A push is a whole model: no rows in it can be counted.
    rows = store.connection.execute(f"select push from event where kind = {PUSH} order by number")
    return [LeftDevice(int(push), number, None, None, None, 1) for (push,) in rows]


def _in_words(seconds: int | None) -> str | None:
    """Returns a time in UTC, as ISO 8601 writes it; None of none."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _part(terms: FederationTerms, left: Sequence[LeftDevice]) -> list[str]:
    """Returns sentences on the messages of a user, and on who could read them."""
    if not left:
        return [NEVER]
    if not terms.has_server:
        return [PEER.format(len(left))]
    answered = ANSWERED.format(len(left))
    # Stores of before noted none.
    times = [device.time for device in left if device.time is not None]
    if times:
        answered += TIMES.format(_in_words(min(times)), _in_words(max(times)))
    if terms.masked:
        return [answered, MASKED.format(terms.protection.people), HOLDS_AGAINST]
    # A gateway adds the updates of its users up; the smallest of its sums says most about one.
    least = min(device.people for device in left)
    return [answered, SINGLY if least == 1 else GATEWAY.format(least)]
