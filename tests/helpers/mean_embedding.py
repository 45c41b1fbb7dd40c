"""A federated algorithm of plain NumPy, small enough to be read at a glance, and what breaks each
rule of its declaration.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, NamedTuple, Self

import numpy as np
from pydantic import Field

from entrenous.core.contract.declarations import SentArray, Traits, axes, rows, weight
from entrenous.core.contract.settings import Settings
from entrenous.core.contract.update import Update, real
from entrenous.core.keys import folds, normals
from entrenous.core.types import Float32Array, Int32Array


class Server(NamedTuple):
    q: Annotated[Float32Array, axes("items", "factors")]
    kind: Annotated[Int32Array, axes("items", below="kinds")]


class Devices(NamedTuple):
    p: Annotated[Float32Array, axes("factors")]


class MeanEmbedding(Settings):
    """Each device moves the items that it consumed towards its own vector, and its vector towards
    their mean.
    """

    factors: int = Field(4, ge=1, description="length of the vectors")
    learning_rate: float = Field(0.1, gt=0, description="how far vectors move")

    holds: ClassVar[type] = Server
    receives: ClassVar[type] = Server
    keeps: ClassVar[type] = Devices
    sends: ClassVar[tuple[SentArray, ...]] = (
        rows(
            "q", "factors", when="each round, for every consumed item", reveals="what was consumed"
        ),
        weight(when="each round", reveals="how many items were consumed"),
    )
    traits: ClassVar[Traits] = Traits(draws_negatives=False)

    def sizes(self, catalogue: Any) -> dict[str, int]:
        return {"kinds": 3}

    def configured(self, catalogue: Any) -> Self:
        return self

    def default_rounds(self, catalogue: Any) -> int:
        return 3

    def init_server(self, catalogue: Any, key: Any) -> Server:
        q = normals(folds(key, np.arange(catalogue.items)), self.factors, 0.1)
        return Server(q, (np.arange(catalogue.items) % 3).astype(np.int32))

    def init_devices(self, users: Any, catalogue: Any, key: Any) -> Devices:
        return Devices(normals(folds(key, users), self.factors, 0.1))

    def select(self, server: Any, catalogue: Any, key: Any) -> Any:
        return np.arange(catalogue.users)

    def download(self, server: Server) -> Server:
        return server

    def local(
        self, download: Server, devices: Devices, histories: Any, users: Any, key: Any
    ) -> tuple[Devices, Update]:
        counts = np.diff(histories.ptr)
        device = np.repeat(np.arange(len(users)), counts)
        towards = download.q[histories.item] - devices.p[device]
        p = devices.p.copy()
        np.add.at(
            p,
            device,
            np.float32(self.learning_rate)
            * towards
            / np.maximum(counts, 1)[device][:, None].astype(np.float32),
        )
        sent = {"q": (-np.float32(self.learning_rate) * towards).astype(np.float32)}
        return Devices(p), Update(
            histories.ptr, histories.item, sent, {}, counts.astype(np.float32)
        )

    def aggregate(self, server: Server, total: Any) -> Server:
        return server._replace(
            q=(server.q + real(total.rows["q"]) / np.maximum(total.senders, 1)[:, None]).astype(
                np.float32
            )
        )

    def score(self, download: Server, devices: Devices, histories: Any) -> Float32Array:
        return (devices.p[:, None, :] * download.q).sum(axis=2).astype(np.float32)


class Changed(MeanEmbedding):
    """MeanEmbedding whose Update is changed by `change` before it is sent."""

    def change(self, update: Update, devices: Devices) -> Update:
        raise NotImplementedError

    def local(self, *arguments: Any) -> tuple[Devices, Update]:
        after, update = super().local(*arguments)
        return after, self.change(update, after)


class WritesDownload(MeanEmbedding):
    def local(self, download: Server, *others: Any) -> tuple[Devices, Update]:
        download.q[0] += 1
        return super().local(download, *others)


class WritesOwnState(MeanEmbedding):
    def local(self, download: Server, devices: Devices, *others: Any) -> tuple[Devices, Update]:
        devices.p[:] += 1
        return super().local(download, devices, *others)


class Undeclared(Changed):
    def change(self, update: Update, devices: Devices) -> Update:
        return update._replace(dense={"extra": devices.p * 2})


class SendsPrivate(Changed):
    sends: ClassVar[tuple[SentArray, ...]] = (
        *MeanEmbedding.sends,
        SentArray("dense", "taste", ("factors",), "float32", "each round", "the taste"),
    )

    def change(self, update: Update, devices: Devices) -> Update:
        return update._replace(dense={"taste": devices.p.copy()})


class RepeatsItems(Changed):
    def change(self, update: Update, devices: Devices) -> Update:
        item = update.item.copy()
        for d in range(update.devices):
            if update.ptr[d + 1] - update.ptr[d] > 1:
                item[update.ptr[d] + 1] = item[update.ptr[d]]
        return update._replace(item=item)


class Stateful(Changed):
    drawn: ClassVar[Any] = np.random.default_rng(0)

    def change(self, update: Update, devices: Devices) -> Update:
        return update._replace(
            rows={
                "q": update.rows["q"]
                + self.drawn.normal(size=update.rows["q"].shape).astype(np.float32)
            }
        )


class SendsFloat64(Changed):
    def change(self, update: Update, devices: Devices) -> Update:
        return update._replace(rows={"q": update.rows["q"].astype(np.float64)})


class SendsInt64Items(Changed):
    def change(self, update: Update, devices: Devices) -> Update:
        return update._replace(item=update.item.astype(np.int64))


class WrongShape(Changed):
    def change(self, update: Update, devices: Devices) -> Update:
        return update._replace(rows={"q": update.rows["q"][:, :-1].copy()})


class UnknownItem(Changed):
    def change(self, update: Update, devices: Devices) -> Update:
        item = update.item.copy()
        item[-1] = 40
        return update._replace(item=item)


class UndeclaredWeight(MeanEmbedding):
    sends: ClassVar[tuple[SentArray, ...]] = MeanEmbedding.sends[:1]


class NotSent(Changed):
    def change(self, update: Update, devices: Devices) -> Update:
        return update._replace(rows={})


class IndexBeyond(MeanEmbedding):
    def download(self, server: Server) -> Server:
        return server._replace(kind=server.kind + np.int32(1))


class NaNDownload(MeanEmbedding):
    def download(self, server: Server) -> Server:
        return server._replace(
            q=np.where(np.arange(len(server.q))[:, None] == 3, np.nan, server.q).astype(np.float32)
        )


class ShortDownload(MeanEmbedding):
    def download(self, server: Server) -> Server:
        return server._replace(q=server.q[:-1])


class Float64Download(MeanEmbedding):
    def download(self, server: Server) -> Server:
        return server._replace(q=server.q.astype(np.float64))  # type: ignore[arg-type]


class NoScore(MeanEmbedding):
    score: ClassVar[None] = None  # type: ignore[assignment]


HOSTILE: dict[str, tuple[type[MeanEmbedding], str]] = {
    "writes-download": (WritesDownload, "download 'q': `local` writes to it"),
    "writes-own-state": (WritesOwnState, "private state 'p': `local` writes to it"),
    "undeclared": (Undeclared, "dense 'extra': is not declared"),
    "sends-private": (SendsPrivate, "dense 'taste': is the private 'p'"),
    "repeats-items": (RepeatsItems, "item: an item twice within one device"),
    "stateful": (Stateful, "rows 'q': differs for the same key"),
    "float64": (SendsFloat64, "rows 'q': float64"),
    "int64-items": (SendsInt64Items, "item: int64"),
    "wrong-shape": (WrongShape, "rows 'q': float32 ("),
    "unknown-item": (UnknownItem, "item: items from"),
    "undeclared-weight": (UndeclaredWeight, "weight: devices that weigh other than 1"),
    "not-sent": (NotSent, "rows 'q': is declared and not sent"),
    "index-beyond": (IndexBeyond, "download 'kind': the number 3; expected below kinds = 3"),
    "nan-download": (NaNDownload, "download 'q': a value that is NaN or infinite"),
    "short-download": (
        ShortDownload,
        "download 'q': the shape (39, 4); expected items = 40, factors = 4",
    ),
    "float64-download": (
        Float64Download,
        "download 'q': float64 numbers; expected an array of float32 numbers",
    ),
}
