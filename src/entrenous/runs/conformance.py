"""`conform`: checks on small made-up data that an algorithm keeps to its declaration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.contract.declared import (
    ContractError,
    bound,
    declared,
    followed,
    read_only,
    scores_of,
)
from ..core.contract.enforce import check_kept, check_received, check_update
from ..core.contract.protocols import arrays_of, grouped_visits
from ..core.contract.settings import Settings
from ..core.errors import one_line
from ..core.keys import key
from ..data.interactions import SECOND, Interactions
from ..data.synthetic import synthetic
from ..federation.rounds import Rounds, Training
from ..federation.shard import Debug, Threads
from .recommenders import checkpoint_arrays

ROUNDS = 3
# of the made-up data
USERS = 30
ITEMS = 40
ROWS = 300
MEMBERS = "no member is missing, and what it declares can be read"
# The rules that `conform` checks, by kind of algorithm.
CHECKED = {
    "federated": (
        MEMBERS,
        "what devices receive and keep has the declared names, types, shapes and ranges",
        "devices do not write to what they receive",
        (
            "what they send is declared, of the declared shape, without an item twice and without a"
            " private array"
        ),
        "the same key gives the same update",
        "one device at a time and all at once end with the same bits",
        "scores are finite float32 numbers for every user and item",
    ),
    "gossip": (MEMBERS,),
    "central": (MEMBERS,),
}


def conform(algorithm: Settings, data: Interactions | None = None) -> None:
    """Check that an algorithm keeps to its own declaration, on small data. In a test file: `def
    test_mine(): conform(MyAlgorithm())`.

    An algorithm with a server is trained for three rounds. Checked: no member is missing; the
    arrays that devices receive have the declared names, types, shapes and ranges and are not
    written to; the arrays that they send are declared, of the declared shape, without an item twice
    or a private array, and the same for the same key; one device at a time and all at once end with
    the same bits; no device at all sends empty arrays; scores are finite float32 numbers for every
    user and item, the same when asked again. A centralised algorithm must have all members, give
    the same model for the same key, and scores as above. One that gossips must have all members.

    Args:
        algorithm: an instance, with its settings.
        data: the rows to train on; None = 30 made-up users and 40 items.

    Raises ContractError for the first rule that is broken, in one line that names algorithm, array
    and rule.
    """
    # Reading the declaration refuses an algorithm with a missing member, of whatever kind.
    declaration = declared(algorithm)
    data = data or _made_up(declaration.traits.predicts_ratings)
    if declaration.kind == "federated":
        _federated(algorithm, data)
    elif declaration.kind == "central":
        _central(algorithm, data)


def _federated(algorithm: Any, data: Interactions) -> None:
    name = type(algorithm).__name__
    own = algorithm.configured(data.catalogue)
    together = _trained(Rounds(own, data, executor=Threads(1, strict=True)))
    # `Threads` compiles a round as a whole where it can; `Debug` runs one device at a time.
    for executor in (Threads(1), Debug()):
        _check_same(name, together, _trained(Rounds(own, data, executor=executor)))
    _check_nobody(own, data, together)
    users = np.arange(len(data.users))
    contract = bound(own, data.catalogue)
    received = contract.delivered(read_only(own.download(together.server)), users)
    check_received(contract, received, len(users))
    drawn = key(0, "score")
    histories = data.histories(users)
    _check_scores(
        name,
        data,
        lambda: scores_of(own, received, together.devices, histories, users, drawn),
    )


def _central(algorithm: Any, data: Interactions) -> None:
    name = type(algorithm).__name__
    model = algorithm.fit(data, key(0, "fit"))
    first = arrays_of(model)
    second = arrays_of(algorithm.fit(data, key(0, "fit")))
    for array, values in first.items():
        if values.tobytes() != second[array].tobytes():
            raise ContractError(
                f"{name}: '{array}'", "another model for the same key", expected="the same bits"
            )
    users = np.arange(len(data.users))
    _check_scores(name, data, lambda: algorithm.score(model, data, users))


def _check_nobody(algorithm: Any, data: Interactions, training: Training) -> None:
    """Checks that a round of no device gives empty arrays, not an error."""
    name = type(algorithm).__name__
    nobody = np.zeros(0, np.int64)
    contract = bound(algorithm, data.catalogue)
    try:
        # Kernels often fail at empty arrays, and a round may have no device.
        devices = algorithm.init_devices(nobody, data.catalogue, key(0, "devices"))
        received = contract.delivered(read_only(algorithm.download(training.server)), nobody)
        devices, update = algorithm.local(
            followed(algorithm, received),
            devices,
            data.histories(nobody),
            nobody,
            key(0, "round"),
        )
    except ContractError:
        raise
    except Exception as wrong:
        problem = f"{type(wrong).__name__} with no device: {one_line(str(wrong), 120)}"
        raise ContractError(
            f"{name}: local", problem, expected="empty arrays of the declared shapes"
        ) from None
    # An empty array must have the declared shape, too.
    check_kept(contract, devices, 0)
    check_update(contract, update, nobody, devices, devices)


def _made_up(rated: bool) -> Interactions:
    """Random users and items, with the times and places that some algorithms need, and with ratings
    from 1 to 5 where they are predicted.
    """
    data = synthetic(users=USERS, items=ITEMS, interactions=ROWS, seed=0)
    row = np.arange(ROWS)
    item = np.arange(ITEMS)
    time = SECOND * (1_500_000_000 + 600 * row)
    # Every third row is of two visits, the first one some time before.
    again = row[::3]
    each = np.append(again, row)
    when = np.append(time[again] - 5_000 * SECOND, time)
    ratings = np.float32(1) + (7 * row % 5).astype(np.float32)
    return replace(
        data,
        value=ratings if rated else data.value,
        time=time,
        features={
            "lat": 40 + item / 100,
            "lon": 3 - item / 100,
            "category": np.array([f"kind {number % 3}" for number in item], dtype=object),
        },
        row=row,
        visits=grouped_visits(each, when, np.arange(len(each)), ROWS),
    )


def _trained(rounds: Rounds) -> Training:
    """The state after ROUNDS rounds."""
    training = rounds.start()
    check_kept(rounds.contract, training.devices, rounds.catalogue.users)
    return rounds.advance(training, ROUNDS)


def _check_same(name: str, together: Training, other: Training) -> None:
    """Checks that every array of a checkpoint has the same bits."""
    expected = checkpoint_arrays(together)
    found = checkpoint_arrays(other)
    for array, values in expected.items():
        if values.tobytes() != found[array].tobytes():
            raise ContractError(
                f"{name}: '{array}'",
                "depends on which devices train together",
                expected="the same bits alone",
            )


def _check_scores(name: str, data: Interactions, ask: Callable[[], Any]) -> None:
    """Checks the scores of all users: float32 [users, items], finite, the same when asked again."""
    scores = ask()
    shape = (len(data.users), len(data.items))
    if scores.dtype != np.float32 or scores.shape != shape:
        expected = f"float32 {shape}"
        raise ContractError(f"{name}: score", f"{scores.dtype} {scores.shape}", expected=expected)
    if not np.isfinite(scores).all():
        raise ContractError(
            f"{name}: score", "a score that is NaN or infinite", expected="finite numbers"
        )
    # Scores with randomness of their own would make every metric a draw.
    if ask().tobytes() != scores.tobytes():
        raise ContractError(f"{name}: score", "other scores when asked again", expected="the same")
