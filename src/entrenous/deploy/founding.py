"""Founding a federation: its terms, its server's folder, and a folder for each node with an identity, and rows if there are any yet.

Of a data set at hand, as for trying it out, every node gets the training rows of its users; in earnest each brings its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ..core.errors import InputError, at_least
from ..data.interactions import Interactions
from ..privacy.secure_sum.terms import Floors
from .node_store import NodeStore
from .terms import FORMAT, Member, Roll, Terms, write_text


class Founded(NamedTuple):
    """The folders of a federation."""

    terms: Terms
    server: Path
    nodes: dict[str, Path]


def found(
    folder: Path,
    train: Interactions,
    *,
    algorithm: str,
    rounds: int,
    nodes: int,
    settings: Mapping[str, Any] | None = None,
    floors: Floors | None = None,
    **more: Any,
) -> Founded:
    """A federation under `folder` in which `nodes` nodes share the users of `train` in order. more: the other `Terms`; floors: what the
    nodes insist on in secure sums.

    Raises InputError for terms that make no sense, before anything is written, and for a folder that is there already.
    """
    at_least("--nodes", nodes, 1)
    if nodes > len(train.users):
        raise InputError("--nodes", f"got {nodes}", expected=f"at most {len(train.users)}, the users of {train.name}")
    key, items, catalogue = Ed25519PrivateKey.generate(), items_text(train), train.catalogue
    terms = Terms.parse(
        {"algorithm": algorithm, "settings": dict(settings or {}), "rounds": rounds, **catalogue._asdict(),
         "items_sha256": hashlib.sha256(items.encode()).hexdigest(), "server": key.public_key().public_bytes_raw().hex(),
         "nonce": secrets.token_hex(8), **more}, "terms",
    )  # fmt: skip
    terms.make()
    if folder.exists() and any(folder.iterdir()):
        raise InputError(str(folder), "is not empty", expected="a new folder", fix="choose another, or remove it")
    shares = dict(zip(node_names(nodes), np.array_split(np.arange(len(train.users)), nodes), strict=True))
    keys = {name: Ed25519PrivateKey.generate() for name in shares}
    for name, users in shares.items():
        own = folder / "nodes" / name
        write_node(own, name, keys[name], terms, items, floors)
        NodeStore.create(own / "store.sqlite", train.of_users(users), users).close()
    roll = Roll({name: Member(keys[name].public_key(), users) for name, users in shares.items()}, terms.users)
    server = folder / "server"
    write_text(server / "terms.json", terms.text())
    for own in (server, *(folder / "nodes" / name for name in shares)):
        write_text(own / "roll.json", roll.text())
    (server / "items.json").write_text(items, encoding="utf-8")
    write_identity(server / "identity.key", key)
    return Founded(terms, server, {name: folder / "nodes" / name for name in shares})


def write_node(folder: Path, name: str, key: Ed25519PrivateKey, terms: Terms, items: str, floors: Floors | None) -> None:
    """A node's folder, but for its store and the roll."""
    write_text(folder / "terms.json", terms.text())
    write_text(folder / "node.json", json.dumps({"format": FORMAT, "name": name, "floors": asdict(floors or Floors())}, indent=1))
    (folder / "items.json").write_text(items, encoding="utf-8")
    write_identity(folder / "identity.key", key)


def node_names(nodes: int) -> list[str]:
    """node-1, node-2, ... as wide as the last."""
    return [f"node-{number:0{len(str(nodes))}d}" for number in range(1, nodes + 1)]


def items_text(rows: Interactions) -> str:
    """The list of items as all nodes get it: ids in order, and places where these are known."""
    places = None if rows.places is None else rows.places.tolist()
    titles = rows.features["title"].tolist() if "title" in rows.features else None
    return json.dumps({"ids": rows.items.ids.tolist(), "titles": titles, "places": places})


def write_identity(path: Path, key: Ed25519PrivateKey) -> None:
    """A private key, readable by its owner alone; never over one that is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        raise InputError(str(path), "there is a key already", fix="remove it if it is not needed any more") from None
    with open(handle, "w", encoding="ascii") as file:
        file.write(key.private_bytes_raw().hex() + "\n")
