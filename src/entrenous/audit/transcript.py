"""`Transcript`: exactly what one onlooker has seen of a training, in one file; an attack reads it
and nothing else.

What an onlooker knows beside what crosses the boundary is public: the algorithm and its settings,
the size of the catalogue, and how often each item was consumed over all users (a published chart),
which is the honest baseline of every attack.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

from ..core.types import Array, Int64Array
from ..federation.recorder import Seen


class Transcript(NamedTuple):
    """What one onlooker has seen.

    about: {"algorithm": name, "settings": in force, as configured, "view", "profile", "users",
    "items", "interactions", "scale", "step": of the fixed-point grid, "sends": declared arrays as
    {"way", "name", "shape"}, "same_rows": whether a device's rows are of the same items in every
    round, "cohort": users in a round, "fixed": the same in every round, "people": users of a party,
    "watched": how many users' (or peers') messages were kept, None = all, "protect": settings of
    the protection, "rate": the probability with which Poisson sampling has a user in a round, 1
    without it, "same_model": whether the two sums of a difference are of one model, "seed": of what
    devices draw where that is public, else None, "replayed", "chosen": whether devices were shown
    one model, and among how many they were asked (0 = all); between peers "neighbours": who looks
    on}. popularity: int64 [items], how many users consumed each item. rounds: as they were seen (of
    a neighbour: one a message, `users` the sender and `sent` the parts of the message). model:
    {name: array}, the final model, of the view `model`; and what is known beside it, or beside
    single messages (`side_knowledge`).
    """

    about: Mapping[str, Any]
    popularity: Int64Array
    rounds: tuple[Seen, ...]
    model: Mapping[str, Array] = {}

    @property
    def users(self) -> int:
        """The users of the federation."""
        return int(self.about["users"])

    @property
    def items(self) -> int:
        """The items of the catalogue."""
        return int(self.about["items"])

    def setting(self, name: str) -> Any:
        """A setting of the algorithm, as it was in force."""
        return self.about["settings"][name]


def write_transcript(path: Path, transcript: Transcript) -> None:
    """Write a transcript to one safetensors file: arrays alone, nothing that could run when it is
    read.
    """
    arrays: dict[str, Array] = {"popularity": transcript.popularity}
    arrays |= {f"model/{name}": array for name, array in transcript.model.items()}
    for number, seen in enumerate(transcript.rounds):
        arrays[f"{number}/users"] = seen.users
        for part, named in (("received", seen.received), ("sent", seen.sent)):
            arrays |= {f"{number}/{part}/{name}": array for name, array in named.items()}
    about = {**transcript.about, "rounds_seen": [seen.round for seen in transcript.rounds]}
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    save_file(whole, path, metadata={"about": json.dumps(about)})


def read_transcript(path: Path) -> Transcript:
    """Read a transcript that `write_transcript` wrote."""
    with safe_open(path, "numpy") as file:
        about = json.loads(file.metadata()["about"])
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # no mapping
    rounds = tuple(
        _seen(arrays, place, number) for place, number in enumerate(about.pop("rounds_seen"))
    )
    return Transcript(about, arrays["popularity"], rounds, dict(_below(arrays, "model/")))


def _seen(arrays: Mapping[str, Array], place: int, number: int) -> Seen:
    received, sent = (dict(_below(arrays, f"{place}/{part}/")) for part in ("received", "sent"))
    return Seen(number, received, arrays[f"{place}/users"], sent)


def _below(arrays: Mapping[str, Array], start: str) -> Iterator[tuple[str, Array]]:
    return (
        (name.removeprefix(start), array)
        for name, array in arrays.items()
        if name.startswith(start)
    )
