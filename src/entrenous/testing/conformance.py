"""`conform`: an algorithm held against its own declaration on small made data, in words where it breaks a rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..core.declared import ContractError, bound, declared, read_only
from ..core.enforce import check_kept, check_received
from ..data.interactions import Interactions
from ..data.synthetic import synthetic
from ..federation.executors import Debug, Threads
from ..federation.rounds import Rounds, Training
from ..runs.recommenders import checkpoint_arrays

ROUNDS = 3
USERS, ITEMS, ROWS = 30, 40, 300  # of the made-up data
MEMBERS = "no member is missing, and what it declares can be read"
CHECKED = {
    "federated": (
        MEMBERS,
        "what devices receive and keep has the declared names, types, shapes and ranges",
        "devices do not write to what they receive",
        "what they send is declared, of the declared shape, without an item twice and without a private array",
        "the same key gives the same update",
        "one device at a time and all at once end with the same bits",
        "scores are finite float32 numbers for every user and item",
    ),
    "gossip": (MEMBERS,),
    "central": (MEMBERS,),
}  # by kind, what `conform` checks, in words


def conform(algorithm: Any, data: Interactions | None = None) -> None:
    """Trains an algorithm with a server for three rounds of small data and holds every round against its declaration.

    Checked: no member is missing; what devices receive has the declared names, types, shapes and ranges and is not written to; what they
    send is declared, of the declared shape, without an item twice or a private array, and the same for the same key; one device at a time
    and all at once end with the same bits; scores are finite float32 numbers for every user and item.

    Args:
        algorithm: an instance, with its settings. A centralised or a gossip algorithm is checked for missing members alone.
        data: what to train on; None = 30 made-up users and 40 items.

    Raises:
        ContractError: for the first rule that is broken, in one line that names algorithm, array and rule.
    """
    if declared(algorithm).kind != "federated":
        return
    data = data or _made_up(declared(algorithm).traits.predicts_ratings)
    name, own = type(algorithm).__name__, algorithm.configured(data.catalogue)
    together = _trained(Rounds(own, data, executor=Threads(1, strict=True)))
    for executor in (Threads(1), Debug()):  # rounds of one device compiled as a whole, where it can; one device at a time
        _check_same(name, together, _trained(Rounds(own, data, executor=executor)))
    _check_scores(own, data, together)


def _made_up(rated: bool) -> Interactions:
    """Random users and items, with the times and places that some algorithms need; with ratings from 1 to 5 where they are predicted."""
    data, row = synthetic(users=USERS, items=ITEMS, interactions=ROWS, seed=0), np.arange(ROWS)
    item = np.arange(ITEMS)
    return replace(
        data,
        value=np.float32(1) + (7 * row % 5).astype(np.float32) if rated else data.value,
        time=1_500_000_000 + 600 * row,
        features={"lat": 40 + item / 100, "lon": 3 - item / 100},
    )


def _trained(rounds: Rounds) -> Training:
    """After ROUNDS rounds."""
    training = rounds.start()
    check_kept(rounds.contract, training.devices, rounds.catalogue.users)
    return rounds.advance(training, ROUNDS)


def _check_same(name: str, together: Training, other: Training) -> None:
    """The same bits in every array that a checkpoint has."""
    expected, found = checkpoint_arrays(together), checkpoint_arrays(other)
    for array, values in expected.items():
        if values.tobytes() != found[array].tobytes():
            raise ContractError(f"{name}: '{array}'", "depends on which devices train together", expected="the same bits alone")


def _check_scores(algorithm: Any, data: Interactions, training: Training) -> None:
    """Scores of all users: float32 [users, items], finite, alone as in company."""
    users, name = np.arange(len(data.users)), type(algorithm).__name__
    contract = bound(algorithm, data.catalogue)
    received = contract.delivered(read_only(algorithm.download(training.server)), users)
    check_received(contract, received, len(users))
    scores = algorithm.score(received, training.devices, data.histories(users))
    if scores.dtype != np.float32 or scores.shape != (len(users), len(data.items)):
        expected = f"float32 {(len(users), len(data.items))}"
        raise ContractError(f"{name}: score", f"{scores.dtype} {scores.shape}", expected=expected)
    if not np.isfinite(scores).all():
        raise ContractError(f"{name}: score", "a score that is NaN or infinite", expected="finite numbers")
