"""The part of FedRec that FedRec++ shares: settings, states, a device's rows with made-up ratings, rounds of one device, predictions."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self

import numpy as np
from numba import njit
from pydantic import Field

from ..core.errors import NonFiniteError
from ..core.keys import fold, fold_name, folds, local_key
from ..core.protocols import Catalogue, Histories
from ..core.ratings import rated
from ..core.types import Float32Array, Int64Array, UInt64Array
from ..kernels import bpr_mf
from ..privacy.decoys import Mixed, with_decoys
from ._decoys import InTurn
from ._filling import (
    Temporary,
    average_one,
    batch_gradients,
    fill_average,
    fill_predicted,
    implicit_part,
    known_one,
    predict_one,
    step_one,
    uniforms,
    visit_one,
    with_implicit,
)

SPREAD = 0.01  # first values are even in +-0.005


class Server(NamedTuple):
    """v: V, float32 [items, F]; with SVD++ V and O, [items, 2 F]. step: int64 [1], rounds done. epoch: int64 [1], rounds in an iteration.
    A device receives all of it."""

    v: Float32Array
    step: Int64Array
    epoch: Int64Array


class Received(Protocol):
    """What the shared part needs of a download; FedRec++'s has more."""

    @property
    def v(self) -> Float32Array: ...
    @property
    def step(self) -> Int64Array: ...
    @property
    def epoch(self) -> Int64Array: ...


class Devices(NamedTuple):
    """u: U, float32 [m, F]. key: uint64 [m], from which a device draws its decoys. Neither leaves."""

    u: Float32Array
    key: UInt64Array


class FilledFactorisation(InTurn):
    """What FedRec and FedRec++ share: the settings, the model, the rows of a device with made-up ratings filled in."""

    factors: int = Field(20, ge=1, le=1024, description="d, the length of U_u and V_i")
    filling: Literal["average", "hybrid"] = Field(
        "hybrid", description="a made-up rating is the user's mean, or that at first and a prediction later on"
    )
    predict_after: int = Field(
        10, ge=0, description="T_predict: iterations (passes) before hybrid filling predicts; 5 for rho 2, 3"
    )
    local_iterations: int = Field(
        10, ge=0, le=1000, description="T_local: steps that the temporary U'_u takes before it predicts"
    )
    learning_rate: float | None = Field(
        None, gt=0, le=10, description="gamma; default 0.8 in batch style, 0.01 in stochastic style"
    )
    decay: float = Field(0.9, gt=0, le=1, description="what gamma is multiplied by after every iteration (pass over the users)")
    reg: float = Field(0.001, ge=0, description="lambda of U, V and O")

    decoys_move_u: ClassVar[bool]  # whether U's own step takes made-up ratings in
    decoys_count: ClassVar[bool]  # whether the server's step does

    # ---- the federation ----------------------------------------------------------------------------------------------------

    def configured(self, catalogue: Catalogue) -> Self:
        """The same settings. Raises InputError if the catalogue has no ratings."""
        rated(catalogue.scale, type(self).__name__)
        return self

    @property
    def width(self) -> int:
        """Numbers that the server keeps of an item."""
        return self.factors

    @property
    def row_bytes(self) -> int:
        """Item id and gradient."""
        return 4 + 4 * self.width

    def first_items(self, catalogue: Catalogue, key: np.uint64) -> Float32Array:
        """V (and O), even in +-0.005."""
        return uniforms(folds(key, np.arange(catalogue.items)), self.width, SPREAD)

    def init_devices(self, users: Int64Array, key: np.uint64) -> Devices:
        """U, even in +-0.005, and the key of the decoys."""
        return Devices(uniforms(folds(key, users), self.factors, SPREAD), folds(fold_name(key, "decoys"), users))

    def rate(self, iteration: int) -> np.float32:
        """gamma in an iteration, which counts from 0."""
        first = self.learning_rate or (0.8 if self.style == "batch" else 0.01)
        return np.float32(first * self.decay**iteration)

    # ---- on the device -----------------------------------------------------------------------------------------------------

    def temporary(self, iteration: int) -> Temporary:
        """How U' is trained in an iteration."""
        return Temporary(self.local_iterations, self.rate(iteration), np.float32(self.reg), self.style == "stochastic")

    def predicts_by(self, iteration: int) -> bool:
        """Whether made-up ratings are predictions by then."""
        return self.filling == "hybrid" and iteration >= self.predict_after

    def filled(self, mixed: Mixed, v: Float32Array, devices: Devices, iteration: int) -> Mixed:
        """The rows of some devices, made-up ratings filled in."""
        if not self.rho or not self.predicts_by(iteration):
            return fill_average(mixed)
        known, x = np.zeros(len(mixed.item), np.float32), np.empty_like(devices.u)
        with_implicit(mixed, v, devices.u, x, known)
        return fill_predicted(mixed, v, devices.u, self.temporary(iteration), known)

    def gradients(
        self, download: Received, devices: Devices, histories: Histories, key: np.uint64
    ) -> tuple[Devices, Mixed, Float32Array]:
        """What some devices do: their new state, their rows, and the gradients of those, float32 [n, w]."""
        v, iteration = download.v, int(download.step[0] // download.epoch[0])
        filled = self.filled(self.mixed(devices.key, histories, len(v), key), v, devices, iteration)
        u, g = devices.u.copy(), np.zeros((len(filled.item), self.width), np.float32)
        make = batch_gradients if self.style == "batch" else _visits
        make(filled, v, u, self.rate(iteration), np.float32(self.reg), self.decoys_move_u, g)
        return devices._replace(u=u), filled, g

    def score(self, download: Received, devices: Devices, histories: Histories) -> Float32Array:
        """r_ui for every item, not clipped: float32 [m, items]."""
        v, rated = download.v, np.ones(len(histories.item), np.bool_)
        x, known = np.empty_like(devices.u), np.empty(len(histories.item), np.float32)
        with_implicit(Mixed(histories.ptr, histories.item, histories.value, rated), v, devices.u, x, known)
        return bpr_mf.scores(x, v[:, : self.factors], np.zeros(len(v), np.float32))

    # ---- a run of rounds with one device each, compiled ------------------------------------------------------------------------

    def solo_rounds(
        self, server: Any, devices: Devices, histories: Histories, rounds: range, key: np.uint64
    ) -> tuple[Any, Devices, int, int]:
        """`rounds` of the stochastic style over all users' devices; the same bits as one round at a time.

        Returns the new server, the new devices, and how many rows and bytes were sent.
        """
        v, u, sent, users = server.v.copy(), devices.u.copy(), 0, len(devices.u)
        mixed, number = self.mixed(devices.key, histories, len(v), key), rounds.start
        while number < rounds.stop:
            iteration, first = divmod(number, users)
            last = min(users, first + rounds.stop - number)
            if self.redraw:
                keys = redrawn(key, iteration * users, devices.key)
                mixed = with_decoys(histories, self.rho, keys, len(v))
            self._pass(mixed, v, u, iteration, first, last)
            number, sent = number + last - first, sent + int(mixed.ptr[last] - mixed.ptr[first])
        return server._replace(v=v, step=server.step + len(rounds)), devices._replace(u=u), sent, sent * self.row_bytes

    def _pass(self, mixed: Mixed, v: Float32Array, u: Float32Array, iteration: int, first: int, last: int) -> None:
        """Devices `first` to `last` of an iteration, one after the other; v and u move in place."""
        filled = mixed._replace(value=mixed.value.copy())
        numbers = self.rate(iteration), np.float32(self.reg), self.decoys_move_u, self.decoys_count
        longest = int(np.diff(mixed.ptr).max(initial=0))
        known, g = np.empty(len(mixed.item), np.float32), np.zeros((longest, v.shape[1]), np.float32)
        predicts = bool(self.rho) and self.predicts_by(iteration)
        if not _solo(mixed, filled, v, u, first, last, predicts, self.temporary(iteration), *numbers, known, g):
            raise NonFiniteError("update: a value is not finite or beyond +-32768; the model is unchanged")


# ---- the stochastic style, compiled ----------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _visits(
    filled: Mixed, v: Float32Array, u: Float32Array, rate: np.float32, reg: np.float32, decoys_move_u: bool, g: Float32Array
) -> None:
    """Every device by itself, all from the same v: `batch_gradients` in the stochastic style."""
    y, h = np.empty(u.shape[1], np.float32), np.empty(u.shape[1], np.float32)
    for d in range(len(u)):
        visit_one(filled, d, v, u, rate, reg, decoys_move_u, y, h, g, 0)


@njit(cache=True, nogil=True)
def _solo(
    mixed: Mixed, filled: Mixed, v: Float32Array, u: Float32Array, first: int, last: int, predicts: bool, temporary: Temporary,
    rate: np.float32, reg: np.float32, decoys_move_u: bool, decoys_count: bool, known: Float32Array, g: Float32Array,
) -> bool:  # fmt: skip
    """Devices first .. last - 1 one after the other, each followed by the server's step; False if a value cannot be sent."""
    ok, factors = True, u.shape[1]
    x, y, h = np.empty(factors, np.float32), np.empty(factors, np.float32), np.empty(factors, np.float32)
    for d in range(first, last):
        if predicts:
            implicit_part(mixed, d, v, y)
            known_one(mixed, d, v, y, known)
            predict_one(mixed, d, v, u, temporary, known, x, h, filled.value)
        else:
            average_one(mixed, d, filled.value)
        visit_one(filled, d, v, u, rate, reg, decoys_move_u, y, h, g, mixed.ptr[d])
        ok &= step_one(filled, d, v, g, np.float64(rate), decoys_count)
    return ok


@njit(cache=True, nogil=True)
def redrawn(rounds: np.uint64, first: int, keys: UInt64Array) -> UInt64Array:
    """The keys of decoys drawn anew, of devices whose turn is in rounds first, first + 1, ..."""
    out = np.empty(len(keys), np.uint64)
    for d in range(len(keys)):
        out[d] = fold(local_key(rounds, first + d), keys[d])
    return out
