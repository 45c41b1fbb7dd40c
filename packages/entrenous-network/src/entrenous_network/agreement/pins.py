"""The pins of an algorithm in the terms: its declared contract, its settings in force, and the
results of a fixed test round.

Two versions of a program that agree in all three compute the same, whatever else of their source
differs. The test round runs on made-up users, so nothing in it is anybody's. Its data are plain
arithmetic, so that a change of a generator of data does not change them.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, final

import numpy as np
from pydantic import Field

from entrenous import __version__
from entrenous.core.contract.declarations import SentArray, Size, UpTo
from entrenous.core.contract.declared import (
    Contract,
    DeclaredArray,
    bound,
    declared,
    is_federated,
    predicts_ratings,
    upper_bound,
)
from entrenous.core.contract.protocols import (
    Catalogue,
    State,
    arrays_of,
    grouped_visits,
    model_sha256,
)
from entrenous.core.contract.settings import Settings
from entrenous.core.types import Array
from entrenous.data.interactions import Interactions, Vocabulary, text_array
from entrenous.federation.gossip import Gossip
from entrenous.federation.recorder import NeighbourRecorder, Recorder, Seen
from entrenous.federation.rounds import Rounds
from entrenous.privacy.protection import Protection
from entrenous.runs.manifest import in_force

# The test round.
USERS = 64
ITEMS = 40
# Different categories of items.
KINDS = 3
# Rows of its users: the fewest, and up to so many more.
FEWEST = 3
MORE = 18
# Rounds around a server: some algorithms ask one device a round, or learn in one round of five.
ROUNDS = 12
PUSHES = 3  # rounds between peers
LARGEST = 1 << 30  # bytes of its arrays
RATINGS = 5  # different ratings, where ratings are predicted
# Seconds: of its first row, and between two rows.
BEGAN = 1_500_000_000
APART = 600
RECEIVED = "received"
SENT = "sent"
PROTECTED = "protected"
KEPT = "kept"
MODEL = "model"
TRAITS = "traits"
# Parts of a contract and of a test round in words, in the order in which they are compared.
PARTS = {
    TRAITS: "how it works",
    SENT: "what devices send",
    PROTECTED: "what devices send under the federation's protection",
    KEPT: "what devices keep",
    RECEIVED: "what devices receive",
    MODEL: "the model",
}


@final
class AlgorithmPins(Settings):
    """The algorithm that a federation has agreed on, in digests that every program can compute for
    itself.
    """

    version: str = Field(description="of entrenous, that made them; for people")
    contract: dict[str, str] = Field(
        description="sha256 of each part of what is declared, with this federation's sizes"
    )
    settings: dict[str, Any] = Field(
        description="all that are not a user's to decide, with the values in force, defaults too"
    )
    test_round: dict[str, str] = Field(
        description=(
            "sha256 of each part of what a fixed test round ends with; none = it cannot be run, and"
            " the source counts"
        )
    )

    def difference(self, other: AlgorithmPins) -> str:
        """Returns the first difference between what was agreed on and `other`, of the program that
        runs, in words; "" where there is none.

        A setting that only `other` has is no difference: the test round shows whether it changes
        anything.
        """
        for name, value in self.settings.items():
            if name not in other.settings:
                return f"there is no setting '{name}', which was {value!r}"
            if other.settings[name] != value:
                return f"the setting '{name}' is {other.settings[name]!r}, and {value!r} was agreed"
        if self.test_round and not other.test_round:
            return "the fixed test round cannot be run"
        part = _first(self.contract, other.contract)
        if part:
            return f"{part}, as declared, is something else"
        part = _first(self.test_round, other.test_round)
        if part:
            return f"in the fixed test round {part} comes out otherwise"
        return ""


def _first(agreed: Mapping[str, str], here: Mapping[str, str]) -> str:
    """Returns the first part whose digest differs here, in words; "" where all are the same."""
    differing = {part for part in agreed if here.get(part) != agreed[part]}
    for part, words in PARTS.items():
        if part in differing:
            return words
    # A later version may have parts that this one does not know.
    return min(differing, default="")


def pins_of(algorithm: Any, catalogue: Catalogue, protection: Protection) -> AlgorithmPins:
    """Returns the pins of an algorithm under a federation's settings, as this program computes
    them.

    algorithm: before it is `configured`, without settings of a single user. catalogue: of the
    federation; its scale of ratings is that of the test round, too. protection: of the federation;
    noise is drawn from the seed here, and floors do not count.
    """
    settings = in_force(algorithm)
    # Users may differ in these.
    for name in declared(algorithm).traits.decided_by_user:
        settings.pop(name, None)
    return AlgorithmPins(
        version=__version__,
        contract=contract_digests(algorithm, catalogue),
        settings=settings,
        test_round=test_round(algorithm, catalogue, protection),
    )


# ---- the contract --------------------------------------------------------------------------------


def contract_digests(algorithm: Any, catalogue: Catalogue) -> dict[str, str]:
    """Returns the sha256 of each part of an algorithm's declaration, with the sizes of a
    federation: the arrays that are received, kept and sent, and the traits that say how it works.
    Prose does not count, nor do settings that were measured for a profile.
    """
    contract = bound(algorithm.configured(catalogue), catalogue)
    traits = contract.declaration.traits
    works = {
        "kind": contract.declaration.kind,
        "predicts_ratings": traits.predicts_ratings,
        "draws_negatives": traits.draws_negatives,
        "decided_by_user": traits.decided_by_user,
        "groups": contract.groups,
        "holds_out_own": traits.holds_out_own,
        "same_rows": traits.same_rows,
    }
    return {
        RECEIVED: _digest([_field(contract, field) for field in contract.receives]),
        KEPT: _digest([_field(contract, field) for field in contract.keeps]),
        SENT: _digest([_sent(contract, sent) for sent in contract.sends]),
        TRAITS: _digest(works),
    }


def _digest(parts: Any) -> str:
    """Returns the sha256 of declared parts, as JSON, which all versions write alike."""
    text = json.dumps(parts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _field(contract: Contract, field: DeclaredArray) -> list[Any]:
    axes = field.axes
    sizes = [_size(contract, size) for size in axes.sizes]
    below = _size(contract, axes.below)
    parts = [field.name, field.dtype, sizes, below, axes.least, axes.finite]
    # Whoever keeps whole arrays has the digest of before there were own rows.
    return [*parts, "own rows"] if field.own_rows else parts


def _sent(contract: Contract, sent: SentArray) -> list[Any]:
    sizes = [_size(contract, size) for size in sent.sizes]
    below = _size(contract, sent.below)
    return [sent.way, sent.name, sent.dtype, sizes, below, sent.least, sent.usual]


def _size(contract: Contract, size: Size | None) -> Any:
    """Returns a size as a number; of a size that a delivery decides its name, with the most that it
    may be."""
    if size is None or size == "devices":
        return size
    if isinstance(size, UpTo):
        return [size.name, _size(contract, size.most)]
    if isinstance(size, str):
        return contract.sizes.get(size, size)
    return size


# ---- the test round ------------------------------------------------------------------------------


def test_round(algorithm: Any, catalogue: Catalogue, protection: Protection) -> dict[str, str]:
    """Returns the sha256 of each part of what made-up devices end with after a few rounds: all that
    they received, sent and keep, and the model; with a server also what they send under the
    federation's protection. {} for an algorithm that cannot be run on so few devices.
    """
    scale = catalogue.scale if predicts_ratings(algorithm) else (1.0, 1.0)
    data = _made_up(scale)
    if not _tried(lambda: _sized(algorithm, data.catalogue)):
        return {}
    if not is_federated(algorithm):
        return _tried(lambda: _gossiped(algorithm, data))
    digests = _tried(lambda: _trained(algorithm, data, Protection()))
    if digests and protection.active:
        # Once more under the federation's limits, since a version may apply these otherwise.
        own = _for_one_process(protection)
        limited = _tried(lambda: _trained(algorithm, data, own))
        if limited:
            digests[PROTECTED] = limited[SENT]
    return digests


def _tried(run: Callable[[], dict[str, str]]) -> dict[str, str]:
    """Returns the digests of a run; {} where it fails."""
    with warnings.catch_warnings():
        # Warnings would be about made-up users.
        warnings.simplefilter("ignore")
        try:
            return run()
        except Exception:
            # An algorithm of the user's own may need more users, or a file that is not there, and
            # noise for thousands of users may be too much for a few.
            return {}


def _sized(algorithm: Any, catalogue: Catalogue) -> dict[str, str]:
    """Returns the bytes of the test round's arrays, in words; {} where they are too many, since
    settings come from others.
    """
    contract = bound(algorithm.configured(catalogue), catalogue)
    numbers = 0  # of one device
    for field in (*contract.receives, *contract.keeps):
        sizes = tuple(size for size in field.axes.sizes if upper_bound(size) != "devices")
        shape = contract.shape(sizes)
        numbers += math.prod(shape)
    device_bytes = 8 * numbers + contract.most_bytes + contract.message_bytes
    nbytes = USERS * device_bytes
    if nbytes <= LARGEST:
        return {"bytes": str(nbytes)}
    return {}


def _for_one_process(protection: Protection) -> Protection:
    """Returns the protection as a simulation can repeat it: noise from the seed, no masks or
    groups, and no floors and lots, for which there are too few users.
    """
    one_sum = {"secure_sum": False, "people": 1, "parties": 1, "groups": 1, "noise_from": "seed"}
    of_everybody = {"sampling": "fixed", "answers": 0}
    return protection.model_copy(update={**one_sum, **of_everybody})


def _trained(algorithm: Any, data: Interactions, protection: Protection) -> dict[str, str]:
    """Returns digests after some rounds around a server."""
    recorder = Recorder()
    rounds = Rounds(algorithm, data, recorder=recorder, protection=protection)
    training = rounds.advance(rounds.start(), ROUNDS)
    return {
        RECEIVED: _each(seen.received for seen in recorder.rounds),
        SENT: _each({"users": seen.users, **seen.sent} for seen in recorder.rounds),
        KEPT: model_sha256(arrays_of(training.devices)),
        MODEL: model_sha256(_arrays(training.server)),
    }


def _gossiped(algorithm: Any, data: Interactions) -> dict[str, str]:
    """Returns digests after some rounds between peers."""
    recorder = NeighbourRecorder(np.arange(USERS))
    gossip = Gossip(algorithm, data, recorder=recorder)
    swarm = gossip.advance(gossip.start(), PUSHES)
    return {
        SENT: _each(_message(seen) for seen in recorder.rounds),
        KEPT: model_sha256(arrays_of(swarm.nodes)),
        MODEL: model_sha256({"models": swarm.pool.values[swarm.slot]}),
    }


def _message(seen: Seen) -> dict[str, Array]:
    return {"round": np.array([seen.round]), **seen.sent}


def _arrays(server: State) -> dict[str, Array]:
    """Returns the arrays of numbers in a server's state; nothing else of it counts."""
    arrays = arrays_of(server)
    return {name: array for name, array in arrays.items() if array.dtype.kind in "fiub"}


def _each(rounds: Iterable[Mapping[str, Array]]) -> str:
    """Returns one digest of the arrays of several rounds."""
    digests = [model_sha256(arrays) for arrays in rounds]
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()


def _made_up(scale: tuple[float, float]) -> Interactions:
    """Returns the data of the test round: by arithmetic alone, with ratings on a scale, times,
    places and, of every third row, two visits.
    """
    counts = FEWEST + np.arange(USERS) % MORE
    histories = []
    for user, count in enumerate(counts.tolist()):
        # 7 and the number of items have no divisor in common, so the items of a user differ.
        items = (5 * user + 7 * np.arange(count)) % ITEMS
        histories.append(np.sort(items))
    item = np.concatenate(histories).astype(np.int32)
    ptr = np.concatenate([[0], np.cumsum(counts)])
    row = np.arange(len(item))
    low, high = scale
    step = 7 * row % RATINGS
    value = low + (high - low) * step / (RATINGS - 1)
    time = BEGAN + APART * row
    place = np.arange(ITEMS)
    # Every third row was visited half a step before, too.
    twice = row[::3]
    visited = np.append(twice, row)
    visit_time = np.append(time[twice] - APART // 2, time)
    visit = np.arange(len(visited))
    return Interactions(
        ptr=ptr.astype(np.int64),
        item=item,
        value=value.astype(np.float32),
        time=time,
        row=row,
        users=Vocabulary(size=USERS, kind="user"),
        items=Vocabulary(size=ITEMS, kind="item"),
        features={
            "lat": 40 + place / 100,
            "lon": 3 - place / 100,
            "category": text_array(f"kind {number % KINDS}" for number in place),
        },
        name="test round",
        scale=scale,
        visits=grouped_visits(visited, visit_time, visit, len(row)),
    )
