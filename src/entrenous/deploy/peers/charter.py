"""`Charter`: the settings that all peers of a federation share. Their hash precedes every model, so that two federations never
mix."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

from ...core.discover import kind_of
from ...core.errors import InputError
from ...core.gossip_learning import GossipLearning
from ...core.own import is_place, short
from ...core.program import source_sha256
from ...core.protocols import Catalogue
from ...wire.pushed import packed_bytes

FORMAT = 1  # of the protocol between peers, and of what is in the charter
LARGEST = 16 << 20  # bytes of a model on the wire


@final
@dataclass(frozen=True, kw_only=True)
class Charter:
    """The settings that all peers of a federation share, fixed before they meet.

    algorithm, settings: its name and all of its settings. users: peers are numbered 0 to users - 1. items, items_sha256: the
    number of items, and the hash of their ids. interactions: rows of all peers together, 0 = unknown. seed: gives the base model,
    and also all random draws if draws is "public", as in a simulation. With "secret" each peer draws from a number that never
    leaves it, since whoever knows a peer's draws can tell its negatives, and so its rows, from what it sends. period: seconds
    between two pushes. operator: the public key that signs which number belongs to which peer.
    algorithm_sha256: of the algorithm's source, which every peer must have; an empty one is not checked.
    """

    name: str
    algorithm: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    users: int
    items: int
    items_sha256: str
    interactions: int = 0
    seed: int = 0
    draws: str = "secret"
    period: float = 10.0
    operator: str
    algorithm_sha256: str = ""
    format: int = FORMAT

    @cached_property
    def schema(self) -> bytes:
        """The identity of the federation, 16 bytes: a hash of all its shared settings."""
        said = json.dumps({**vars_of(self), "period": float(self.period)}, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(b"entrenous charter\0" + said.encode()).digest()[:16]

    @property
    def catalogue(self) -> Catalogue:
        """The sizes of the federation: users, items, interactions."""
        return Catalogue(self.users, self.items, self.interactions)

    @cached_property
    def made(self) -> GossipLearning:
        """The algorithm, configured. Raises InputError for one that cannot be used between peers."""
        if is_place(self.algorithm):
            fix = "install the package that brings it, as an entry point of entrenous.algorithms"
            raise InputError("invitation algorithm", f"{short(self.algorithm)} is none of `entrenous algorithms`", fix=fix)
        kind, preset = kind_of(self.algorithm)
        if self.algorithm_sha256 and source_sha256(kind) != self.algorithm_sha256:
            problem = f"the source of {self.algorithm} here is not the one that the federation agreed on"
            raise InputError("invitation algorithm", problem, fix="use the same version of entrenous as the other peers")
        found = kind.parse({**preset, **self.settings}, where="invitation settings")
        if not isinstance(found, GossipLearning):
            raise InputError(
                "--algorithm", f"{self.algorithm} needs a server", expected="one that gossips", fix="try --algorithm pepper-gmf"
            )
        own = found.configured(self.catalogue)
        _check(own, self)
        return own

    @property
    def body_bytes(self) -> int:
        """The bytes of one model on the wire."""
        return packed_bytes(self.made.width)


def vars_of(charter: Charter) -> dict[str, Any]:
    """The shared settings of a federation as a JSON object."""
    return {
        name: getattr(charter, name)
        for name in Charter.__dataclass_fields__
        if name != "algorithm_sha256" or charter.algorithm_sha256
    }


def _check(algorithm: GossipLearning, charter: Charter) -> None:
    """One place of the view must stay random for ever: else those who once looked good are all that a peer ever hears from."""
    if algorithm.exploited >= algorithm.view and charter.users > 2:
        fix = "use a larger view, or more exploration (alpha)"
        raise InputError(
            "--set alpha", f"all {algorithm.view} places of the view go to the best", expected="one at random", fix=fix
        )
    size = packed_bytes(algorithm.width)
    if size > LARGEST:
        raise InputError("--set factors", f"a model has {size >> 20} MB", expected=f"at most {LARGEST >> 20} MB")
    if charter.draws not in ("public", "secret"):
        raise InputError("--draws", f"got '{charter.draws}'", expected="public or secret")
