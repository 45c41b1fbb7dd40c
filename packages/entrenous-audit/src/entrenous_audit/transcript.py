"""`Transcript`: exactly what one onlooker has seen of a training, in one file; an attack reads it
and nothing else.

Besides what crosses the boundary, an onlooker knows what is public: the algorithm and its settings,
the size of the catalogue, and how often each item was consumed over all users (a published chart),
which is the honest baseline of every attack.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

from entrenous.core.types import Array, Int64Array
from entrenous.federation.recorder import Seen


class Transcript(NamedTuple):
    """The material that one onlooker has seen."""

    about: Mapping[str, Any]
    """Public facts and the behaviour of the onlooker, by name.

    Of the training: `algorithm`, `settings` (as configured), `view`, `profile`, `protect` (settings
    of the protection); `users`, `items`, `interactions`, `scale` (of ratings); `step` (of the
    fixed-point grid).

    Of messages: `sends`, the declared arrays as {"way", "name", "shape", "usual"}, where `usual` is
    the weight of every device if all weigh alike, else None.

    Of rounds: `cohort`, users in one; `people`, users of a party; `rate`, the probability with
    which Poisson sampling has a user in a round, 1 without it.

    Of the onlooker: `watched`, the number of users, or of looking peers, whose messages were kept
    (None = all); `new_row`, true if two sums are of the same people, one of whom has one row fewer
    in the second; between peers `neighbours`, the peers that look on."""
    popularity: Int64Array
    """[items], the number of users who consumed each item."""
    rounds: tuple[Seen, ...]
    """The rounds as they were seen; of a neighbour the messages, with `users` the sender and `sent`
    the parts."""
    model: Mapping[str, Array] = {}
    """The final model by name, in the view `model`; and the onlooker's further knowledge
    (`side_knowledge`)."""

    @property
    def users(self) -> int:
        """The users of the federation."""
        return int(self.about["users"])

    @property
    def items(self) -> int:
        """The items of the catalogue."""
        return int(self.about["items"])

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings of the algorithm, as they were in force."""
        return self.about["settings"]  # type: ignore[no-any-return]

    def setting(self, name: str) -> Any:
        """A setting of the algorithm, as it was in force."""
        return self.settings[name]


def bytes_of(seen: Seen) -> int:
    """The bytes of all arrays of a round."""
    return sum(array.nbytes for array in (*seen.received.values(), *seen.sent.values()))


def write_arrays(path: Path, arrays: Mapping[str, Array], about: Mapping[str, Any]) -> None:
    """Writes arrays to one safetensors file: arrays alone, nothing that could run when it is read.
    about: what JSON can say of them.
    """
    # safetensors writes the memory of an array as it lies.
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    save_file(contiguous, path, metadata={"about": json.dumps(about)})


def read_arrays(path: Path) -> tuple[dict[str, Array], dict[str, Any]]:
    """Reads arrays that `write_arrays` wrote, and what it says about them."""
    with safe_open(path, "numpy") as file:
        about = json.loads(file.metadata()["about"])
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # no mapping
    return arrays, about


def write_transcript(path: Path, transcript: Transcript) -> None:
    """Writes a transcript to one file."""
    # Names in the file are paths: what, or the place of a round, and then what.
    arrays = {"popularity": transcript.popularity}
    arrays |= {f"model/{name}": array for name, array in transcript.model.items()}
    for place, seen in enumerate(transcript.rounds):
        arrays[f"{place}/users"] = seen.users
        arrays |= {f"{place}/received/{name}": array for name, array in seen.received.items()}
        arrays |= {f"{place}/sent/{name}": array for name, array in seen.sent.items()}
    # A place in the file is not the number of a round, which is kept apart.
    about = {**transcript.about, "rounds_seen": [seen.round for seen in transcript.rounds]}
    write_arrays(path, arrays, about)


def read_transcript(path: Path) -> Transcript:
    """Reads a transcript that `write_transcript` wrote."""
    arrays, about = read_arrays(path)
    rounds = []
    for place, number in enumerate(about.pop("rounds_seen")):
        # Round by round, as the names of the arrays say.
        received = _below(arrays, f"{place}/received/")
        sent = _below(arrays, f"{place}/sent/")
        rounds.append(Seen(number, received, arrays[f"{place}/users"], sent))
    return Transcript(about, arrays["popularity"], tuple(rounds), _below(arrays, "model/"))


def _below(arrays: Mapping[str, Array], start: str) -> dict[str, Array]:
    """The arrays whose names begin with `start`, by the rest of their names."""
    return {
        name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)
    }
