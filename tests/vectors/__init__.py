"""Test vectors of the protocol (docs/protocol.md), made by the Python sources for clients in other
languages.

Bytes are hexadecimal, integers that may lie beyond 2^53 are text, and all else is plain JSON. Every
random number comes from SHA-256 of a name and a counter, so that the files are the same each time.
"""

from __future__ import annotations

import hashlib
import json
from base64 import urlsafe_b64encode
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from entrenous_network.agreement import tickets
from entrenous_network.agreement.members import Member, Members
from entrenous_network.agreement.terms import FederationTerms
from entrenous_network.frames import contribution, frames
from entrenous_network.frames.request import announced, write_download
from entrenous_network.frames.secure import frame_of
from entrenous_network.links.admission import SCHEME
from entrenous_network.secure_sum import client, messages, primitives, shamir
from entrenous_network.secure_sum.client import SecureSumClient
from entrenous_network.secure_sum.merkle import Leaf, MerkleTree
from entrenous_network.secure_sum.quorum import faults, quorum
from entrenous_network.secure_sum.server import SecureSumServer
from entrenous_network.secure_sum.statements import commitment
from entrenous_network.secure_sum.terms import Floors, SumTerms
from entrenous_network.secure_sum.vector import SumRows, pack
from entrenous_network.wire import tensors

from entrenous.core import keys
from entrenous.core.contract.declared import bound
from entrenous.core.contract.protocols import arrays_of, model_sha256
from entrenous.core.contract.update import Update, add_update
from entrenous.core.types import Array, Int64Array
from entrenous.data.interactions import Interactions, Vocabulary, build
from entrenous.federation.shard import Shard
from entrenous.kernels.sampling import below_low, cohort, shuffle, shuffle_places
from entrenous.privacy.clip import clip
from entrenous.privacy.discrete_gaussian import SEEDED, gaussian_table, integers
from entrenous.privacy.protection import Protection
from entrenous.runs.plan import algorithm_of

FOLDER = Path(__file__).parent
RUN = "00112233445566778899aabbccddeeff"
SEED = 7
USERS = 3
ITEMS = 11
# The consumed items of each of the three devices.
HISTORIES = ((0, 3, 4, 9), (1, 3), (2, 3, 5, 6, 7, 8, 10))
# Below the length of any message of these devices.
CLIP = 0.01
NOISE = 0.5
# More factors than one vector of lanes holds, and no multiple of the terms that are added at once.
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "fcf": {"factors": 6, "alpha": 2.0, "reg": 0.5},
    "fpl": {"factors": 18, "triples": 9, "pi": 0.6},
}


class Named:
    """A generator of random bytes that depends on its name alone. It stands for the module
    `secrets` and for the class of X25519 keys. drawn: all that it gave, in order."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.drawn: list[bytes] = []

    def token_bytes(self, size: int) -> bytes:
        """Returns the next bytes, at most 32."""
        text = f"{self._name} {len(self.drawn)}".encode()
        drawn = hashlib.sha256(text).digest()[:size]
        self.drawn.append(drawn)
        return drawn

    def randbelow(self, most: int) -> int:
        """Returns the next number below `most`."""
        return int.from_bytes(self.token_bytes(32), "big") % most

    def generate(self) -> X25519PrivateKey:
        """Returns the next X25519 key."""
        return X25519PrivateKey.from_private_bytes(self.token_bytes(32))


def secret(name: str) -> bytes:
    """Returns 32 bytes that depend on a name."""
    return Named(name).token_bytes(32)


def identity(name: str) -> Ed25519PrivateKey:
    """Returns the Ed25519 key of a name."""
    return Ed25519PrivateKey.from_private_bytes(secret(name))


def vectors() -> dict[str, str]:
    """Returns the text of every file, by its name."""
    made = {
        "keys": of_keys(),
        "draws": of_draws(),
        "frames": of_frames(),
        "masks": of_masks(),
        "round": {name: of_round(name, settings) for name, settings in SETTINGS.items()},
    }
    return {f"{name}.json": text_of(part) for name, part in made.items()}


def text_of(part: dict[str, Any]) -> str:
    """Returns vectors as JSON, bytes in hexadecimal."""
    return json.dumps(part, indent=1, default=bytes.hex) + "\n"


# ---- keys ----------------------------------------------------------------------------------------


def of_keys() -> dict[str, Any]:
    """Returns keys, signatures, and the texts that are signed for joining."""
    key = identity("server")
    message = b"entrenous"
    one = secret("x25519 one")
    other = secret("x25519 other")
    public = primitives.public_of(other)
    common = primitives.agree(X25519PrivateKey.from_private_bytes(one), public)
    terms = FederationTerms(
        algorithm="fcf",
        users=USERS,
        items=ITEMS,
        rounds=2,
        operator=_public(key).hex(),
        draws="public",
    )
    number, until = 3, 2_000_000_000
    peer = _public(identity("peer"))
    ticket = tickets.Ticket.sign(key, bytes.fromhex(RUN), number, peer, until)
    return {
        "ed25519": {
            "private": secret("server"),
            "public": _public(key),
            "message": message,
            "signature": key.sign(message),
        },
        "x25519": {
            "private": one,
            "other_private": other,
            "other_public": public,
            "secret": common,
        },
        "derive": {
            "secret": common,
            "purpose": ["pair", secret("view"), 0, 300],
            "info": messages.encode(("pair", secret("view"), 0, 300)),
            "key": primitives.derive(common, "pair", secret("view"), 0, 300),
        },
        "terms": {"text": terms.text(), "run": terms.run},
        "ticket": {
            "run": RUN,
            "number": number,
            "until": until,
            "key": peer,
            "signature": ticket.signature,
        },
    }


def _public(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes_raw()


# ---- draws ---------------------------------------------------------------------------------------


def of_draws() -> dict[str, Any]:
    """Returns words of names, keys, and what is drawn from them."""
    names: list[list[int | str]] = [
        ["server"],
        ["devices"],
        ["rounds"],
        ["rounds", 3],
        ["a", -1, "b"],
    ]
    key = keys.key(SEED, "rounds")
    drawn = [np.uint64(keys.draw(key, c)) for c in range(6)]
    order = np.empty(10, np.int64)
    shuffle(order, 0, 10, key)
    place = shuffle_places(10, key)
    words = ["server", "devices", "rounds", "select", "poisson", "local", "score", "a", "b"]
    # Of noise: what keys are for, and the arrays of FCF and FPL.
    words += ["limits", "noise", "tests", "f", "q"]
    return {
        "words": {name: str(keys._word(name)) for name in words},
        "keys": [
            {"seed": SEED, "names": part, "key": str(keys.key(SEED, *part))} for part in names
        ],
        "select": {"rounds": str(key), "round": 5, "key": str(keys.select_key(key, 5))},
        "local": {"rounds": str(key), "round": 5, "key": str(keys.local_key(key, 5))},
        "of": str(key),
        "draw": [str(bits) for bits in drawn],
        "below_1000": [int(keys.below(bits, 1000)) for bits in drawn],
        "below_low_1000": [int(below_low(bits, 1000)) for bits in drawn],
        "uniform": [float(keys.uniform(bits)) for bits in drawn],
        "normal": [float(keys.normal(key, c)) for c in range(40)],
        "permutation_10": np.argsort(place).tolist(),
        "shuffle_10": order.tolist(),
        "cohort_4_of_20": cohort(key, 4, 20).tolist(),
        # Of one table, of two and of three.
        "noise": {str(sigma): _noise(sigma, key) for sigma in (1.5, 300.0, 62000.0)},
    }


def _noise(sigma: float, key: np.uint64) -> list[int]:
    """Returns the first numbers of noise of a key."""
    return integers(gaussian_table(sigma), 6, key, SEEDED).tolist()


# ---- frames --------------------------------------------------------------------------------------


def of_frames() -> dict[str, Any]:
    """Returns frames with their heads, arrays, and the digest of a model."""
    arrays: dict[str, Array] = {
        "y": np.arange(6, dtype=np.float32).reshape(3, 2) / 4,
        "users": np.array([2, 5], np.int64),
        "item": np.empty(0, np.int32),
        "flag": np.array([1, 0, 1], np.uint8),
    }
    body = tensors.write(arrays)
    made = []
    fields: dict[str, Any] = {
        "round": 300,
        "attempt": 1,
        "model": secret("model"),
        "items": 70_000,
        "about": {"users": 2, "start": 4},
    }
    nothing: dict[str, Any] = {}
    for kind, node, about in (("work", "server", fields), ("taken", "shop-1", nothing)):
        content = body if kind == "work" else b""
        frame = frames.seal(identity(node), kind, content, run=RUN, node=node, **about)
        opened = frames.opened(frame)
        made.append(
            {
                "private": secret(node),
                "fields": msgspec.structs.asdict(opened.head),
                "head": opened.said,
                "signature": opened.signature,
                "frame": frame,
            }
        )
    return {
        "frames": made,
        "arrays": {
            "values": {name: array.tolist() for name, array in arrays.items()},
            "types": {name: [array.dtype.str, *array.shape] for name, array in arrays.items()},
            "body": body,
            "model_sha256": model_sha256(arrays),
        },
        "here": here(),
    }


def here() -> dict[str, Any]:
    """Returns the header by which a node shows its key at a given second."""
    about = {"time": 1_800_000_000}
    frame = frames.seal(identity("shop-1"), "here", run=RUN, node="shop-1", about=about)
    return {
        "private": secret("shop-1"),
        "run": RUN,
        "node": "shop-1",
        "time": 1_800_000_000,
        "header": SCHEME + urlsafe_b64encode(frame).decode(),
    }


# ---- one round -----------------------------------------------------------------------------------


def histories() -> Interactions:
    """Returns the rows of the three devices."""
    user = np.repeat(np.arange(USERS), [len(own) for own in HISTORIES])
    item = np.concatenate([np.array(own) for own in HISTORIES])
    return build(
        user,
        item,
        users=Vocabulary(size=USERS, kind="user"),
        items=Vocabulary(size=ITEMS, kind="item"),
    )


def of_round(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns round 0 of an algorithm: the download, what each device computes and sends, and the
    sum of the messages in fixed point.
    """
    data = histories()
    made: Any = algorithm_of(name, settings)
    algorithm = made.configured(data.catalogue)
    contract = bound(algorithm, data.catalogue)
    download = algorithm.download(algorithm.init_server(data.catalogue, keys.key(SEED, "server")))
    users = np.arange(USERS)
    everybody = Shard(algorithm, data.catalogue, data, users)
    first = keys.key(SEED, "devices")
    private = everybody.init_devices(first)
    local = np.uint64(keys.local_key(keys.key(SEED, "rounds"), 0))
    total = contract.empty_total()

    def vector_of(user: int, noise: float) -> Int64Array:
        """Returns what a device masks."""
        limits = Protection(clip=CLIP, noise=noise, rows="all", secure_sum=True)
        shard = Shard(algorithm, data.catalogue, data, users, protection=limits)
        own = shard.init_devices(first)
        sent, _ = shard.work(download, own, np.array([user]), local, delivered=True)
        return pack(sent)

    devices = []
    for user, own in enumerate(HISTORIES):
        before = _of_user(private, user)
        update: Update = everybody.update(download, private, np.array([user]), local)
        total = add_update(total, update)
        noised = vector_of(user, NOISE)
        devices.append(
            {
                "user": user,
                "history": own,
                "key": str(keys.fold_name(local, user)),
                "before": before,
                "after": _of_user(private, user),
                "body": contribution.of_update(update),
                "clipped": contribution.of_update(clip(CLIP)(update, np.empty(0, np.uint64))),
                "noise": (noised - vector_of(user, 0)).tolist(),
                "vector": noised.tolist(),
            }
        )
    return {
        "settings": {**settings, "seed": SEED, "users": USERS, "items": ITEMS},
        "download": b"".join(write_download(download, {})),
        "model": announced(contract, download),
        "clip": CLIP,
        "devices": devices,
        "sum": contribution.of_total(total),
    }


def _of_user(private: Any, user: int) -> dict[str, bytes]:
    """Returns the private arrays of one user, as bytes."""
    arrays = arrays_of(private)
    return {name: array[user].tobytes() for name, array in arrays.items()}


# ---- a secure sum --------------------------------------------------------------------------------

NAMES = ("ada", "bo", "cy", "di")
GONE = "bo"  # vanishes after it has shared its secrets
LENGTH = 5
FLOORS = Floors(people=3, noise=True)


@contextmanager
def drawing(source: Named) -> Iterator[None]:
    """Has a party of a secure sum draw its secrets from `source` meanwhile."""
    with ExitStack() as patches:
        for module in (client, shamir, primitives):
            patches.enter_context(patch.object(module, "secrets", source))
        made = SimpleNamespace(generate=source.generate)
        patches.enter_context(patch.object(client, "X25519PrivateKey", made))
        yield


def of_masks() -> dict[str, Any]:
    """Returns a secure sum of four parties, of which one vanishes before its vector, and what
    follows from numbers of parties.
    """
    return {
        **of_sum(NAMES, GONE),
        "quorums": [
            {"parties": n, "members": of, "faults": faults(n, of), "quorum": quorum(n, of)}
            for n, of in ((4, 4), (10, 11), (100, 100), (100, 943), (360, 943), (1000, 1000))
        ],
        "tree": _tree(),
        "mask": _mask(),
    }


def of_sum(names: Sequence[str], gone: str) -> dict[str, Any]:
    """Returns a secure sum in which party `gone` vanishes before its vector: the secrets that each
    party draws, every message, and the sum.
    """
    items = secret("items").hex()
    terms = SumTerms(RUN, 2, 1, secret("model"), LENGTH, people=3, noise=0.25, items=items)
    # One bears the mark of a shop, and one takes no part.
    shops = {names[0]: _public(identity("shop")).hex()}
    keys = enumerate((name, _public(identity(name)).hex()) for name in (*names, "absent"))
    come = [Member(name, key, n, n, shops.get(name, "")) for n, (name, key) in keys]
    members = Members(len(come), come)
    log = members.head
    sources = {name: Named(f"secrets of {name}") for name in names}
    parties = {}
    for name in names:
        with drawing(sources[name]):
            parties[name] = SecureSumClient(terms, log, name, secret(name), FLOORS)
    vectors = {name: _vector(place) for place, name in enumerate(names)}
    left = [name for name in names if name != gone]
    server = SecureSumServer(terms, members)
    said: dict[str, dict[str, bytes]] = defaultdict(dict)
    brought: dict[str, dict[str, bytes]] = defaultdict(dict)

    def tell(message: messages.Signed) -> None:
        said[message.sender][messages.STAGES[message.stage]] = frame_of(message)
        server.add(message)

    for party in parties.values():
        tell(party.advertise())
    roster = server.roster()
    for name, party in parties.items():
        with drawing(sources[name]):
            tell(party.share(roster))
    for name in left:
        inbox = server.inbox(name)
        brought[name]["inbox"] = inbox
        tell(parties[name].mask(inbox, vectors[name], SumRows(0, 0)))
    for name in left:
        tell(parties[name].consent(server.survivors()))
    consents = server.consents()
    for name in left:
        tell(parties[name].unmask(consents))
    total = server.total()
    # The sum is the one of the vectors that were sent: otherwise the vectors prove nothing.
    assert np.array_equal(total, np.sum([vectors[name] for name in left], axis=0))
    return {
        "terms": asdict(terms),
        "digest": terms.digest(log),
        "log": log._asdict(),
        "roster": roster,
        "survivors": server.survivors(),
        "consents": consents,
        "gone": gone,
        "parties": [
            {
                "name": name,
                "identity": secret(name),
                "public": members.nodes[name].key,
                "drawn": sources[name].drawn,
                "commitment": commitment(sources[name].drawn[2]),
                "vector": vectors[name].astype(str).tolist(),
                "brought": brought[name],
                "said": said[name],
            }
            for name in names
        ],
        "sum": total.astype(str).tolist(),
    }


def _tree() -> dict[str, Any]:
    """Returns the log of seven members: its roots by size, the proof of each member in it, and that
    it begins as it was with fewer.
    """
    tree = MerkleTree()
    keys = [secret(f"key {n}") for n in range(7)]
    leaves = [messages.encode(Leaf(f"node-{n}", k, n, 2 * n, b"")) for n, k in enumerate(keys)]
    roots = []
    for leaf in leaves:
        tree.append(leaf)
        roots.append(tree.head.root)
    return {
        "leaves": leaves,
        "roots": roots,
        "inclusion": list(map(tree.inclusion, range(7))),
        "consistency": list(map(tree.consistency, range(1, 8))),
    }


def _vector(place: int) -> Int64Array:
    """Returns the vector of a party, with numbers beyond 2^53 in it."""
    return np.array([place, -place, 1 << 54, -(1 << 60) + place, 65_536], np.int64)


def _mask() -> dict[str, Any]:
    """Returns the first words of a mask."""
    words = np.zeros(4, np.uint64)
    primitives.add_masks(words, [secret("mask")])
    return {"key": secret("mask"), "words": words.astype(str).tolist()}
