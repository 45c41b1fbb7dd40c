"""One node of a federation, and what its server would ask it."""

from __future__ import annotations

from typing import Any

import numpy as np
from entrenous_network.agreement.files import read_identity
from entrenous_network.frames.frames import opened, seal
from entrenous_network.frames.request import write_download
from entrenous_network.node.node import FederatedNode
from entrenous_network.operate.founding import FoundedFederation
from entrenous_network.wire import tensors

from entrenous.core.contract.protocols import arrays_of, model_sha256
from entrenous.core.keys import key


class Asked:
    """The first node of a federation, which is asked in its server's name."""

    def __init__(self, founded: FoundedFederation) -> None:
        self.founded = founded
        self.node = FederatedNode(founded.nodes["node-1"])
        self.key = read_identity(founded.server / "identity.key")
        self.algorithm = founded.terms.make()
        self.catalogue = founded.terms.catalogue

    def download(self, seed: int = 1) -> Any:
        """The first model that all receive."""
        return self.algorithm.download(
            self.algorithm.init_server(self.catalogue, key(seed, "server"))
        )

    def model(self, seed: int = 1) -> Any:
        """The arrays of a first model."""
        return arrays_of(self.download(seed))

    def request(
        self,
        number: int,
        *,
        seed: int = 1,
        start: int = 5,
        users: Any = None,
        signer: Any = None,
        download: Any = None,
        **changed: Any,
    ) -> bytes:
        """A request of a round. download: what is sent instead of the arrays of a first model.
        changed: other fields of its head."""
        users = self.node.shard.users if users is None else np.asarray(users, np.int64)
        body = tensors.write({**self.model(seed), "users": users})
        if download is not None:
            body = b"".join(write_download(download, {"users": users}))
        said = {
            "run": self.founded.terms.run,
            "node": "server",
            "round": number,
            "items": self.catalogue.items,
            "model": bytes.fromhex(model_sha256(self.model(seed))),
            "about": {"users": len(users), "start": start},
            **changed,
        }
        return seal(signer or self.key, said.pop("kind", "work"), body, **said)

    def said(self, request: bytes) -> tuple[str, str]:
        """The kind of the answer, and the code of a refusal."""
        frame = opened(self.node.answer(request))
        refused = frame.head.kind == "refused"
        return frame.head.kind, bytes(frame.body).decode().split("\n")[0] if refused else ""

    def private(self) -> Any:
        """The round of the node's private state, and its bytes."""
        number, state = self.node.store.newest_state()
        return number, {name: array.tobytes() for name, array in state.items()}
