"""The model of a federation whose folders are all on this machine."""

from __future__ import annotations

from collections import namedtuple
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from entrenous_network.agreement.terms import TERMS, FederationTerms
from entrenous_network.node.node_store import STORE, NodeStore

from entrenous.core.contract.protocols import arrays_in, joined, model_sha256, state_of
from entrenous.core.types import Array
from entrenous.runs.store import read_arrays


class Gathered(NamedTuple):
    """The model of a whole federation, which only a holder of all its folders can assemble."""

    arrays: dict[str, Array]
    """The server's arrays, and those of all devices as `devices.NAME`, leading axis users."""

    @property
    def sha256(self) -> str:
        """The hash of these arrays, equal to `model_sha256` of a simulation that ended with
        them.
        """
        return model_sha256(self.arrays)


def fields_in(arrays: dict[str, Array]) -> dict[str, Any]:
    """The fields of a state whose class nobody has."""
    names = dict.fromkeys(name.partition(".")[0] for name in arrays)
    fields: dict[str, Any] = state_of(namedtuple("Fields", names), arrays)._asdict()
    return fields


def gathered(folder: Path) -> Gathered:
    """Returns the model of a federation whose folders are all on this machine: the server's model
    and the private vectors of all devices, as a simulation stores them. Only a trial can do this:
    otherwise nobody has all folders.
    """
    terms = FederationTerms.read(folder / "server" / TERMS)
    # The part of the server.
    arrays, _ = read_arrays(folder / "server" / "model.safetensors")
    parts: dict[int, dict[str, Any]] = {}
    for path in sorted((folder / "nodes").iterdir()):
        with closing(NodeStore(path / STORE)) as store:
            newest = store.newest_state()
            private = {} if newest is None else fields_in(newest[1])
            for place, user in enumerate(store.users.tolist()):
                parts[user] = {name: own[place : place + 1] for name, own in private.items()}
    # Every device keeps the same arrays; in the order of users, whichever node has them.
    names = list(parts[0]) if parts else []
    fields = {}
    for name in names:
        of_users = [parts[user][name] for user in range(terms.users)]
        fields[f"devices.{name}"] = joined(of_users)
    return Gathered({**arrays, **arrays_in(fields)})
