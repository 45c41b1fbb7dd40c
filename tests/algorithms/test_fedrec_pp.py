"""FedRec++ is FedRec with rho = 0, whatever rho; what its devices send does not tell decoys from
rated items.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_data import few_ratings

from entrenous.core.contract.update import Update, add_update, empty_total, fixed, real
from entrenous.core.errors import NonFiniteError
from entrenous.core.keys import folds, key
from entrenous.core.types import BoolArray, Int64Array
from entrenous.data.interactions import Interactions
from entrenous.federation.rounds import Rounds, Training
from entrenous.systems.fedrec import FedRec
from entrenous.systems.fedrec_pp import FedRecPP, padded, without_pads

USERS, ITEMS = 12, 20
EVERYONE = np.arange(USERS)
BASE: dict[str, Any] = {
    "factors": 3,
    "filling": "hybrid",
    "predict_after": 2,
    "local_iterations": 3,
    "reg": 0.01,
    "decay": 0.95,
}
STYLES = [("batch", 0.8, 15), ("stochastic", 0.05, 10 * USERS)]


@pytest.fixture
def data() -> Interactions:
    return few_ratings(USERS, ITEMS)


def sent(system: FedRecPP, data: Interactions) -> tuple[Training, Update]:
    """The first round's Update of everybody."""
    start = Rounds(system, data).start()
    return start, system.local(
        start.server, start.devices, data.histories(EVERYONE), EVERYONE, key(1)
    )[1]


def parts(system: FedRecPP, update: Update) -> list[Int64Array]:
    """v - noise of each row, in fixed point [n, F + 1]: what the rows come to when both parts are
    put together.
    """
    difference = fixed(update.rows["v"]) - fixed(update.rows["noise"])
    return [*(without_pads(difference) if system.pads else difference[..., 0])]


def rated(data: Interactions, update: Update) -> BoolArray:
    owner = np.repeat(EVERYONE, np.diff(update.ptr))
    has = np.zeros((USERS, ITEMS), bool)
    has[data.user, data.item] = True
    return has[owner, update.item]


@pytest.mark.parametrize("rho", [0.0, 0.5, 1.0, 3.0])
@pytest.mark.parametrize(("style", "rate", "until"), STYLES)
@pytest.mark.parametrize("pads", [False, True])
def test_with_any_rho_it_is_fedrec_with_rho_0(
    style: str, rate: float, until: int, rho: float, pads: bool, data: Interactions
) -> None:
    """To the bit: the decoys' gradients cancel in fixed point, and U moves by rated items alone in
    both.
    """
    one = Rounds(FedRec(**BASE, style=style, learning_rate=rate, rho=0.0), data, seed=4)
    other = Rounds(
        FedRecPP(**BASE, style=style, learning_rate=rate, rho=rho, denoisers=3, pads=pads),
        data,
        seed=4,
    )
    first, second, start = (
        one.advance(one.start(), until),
        other.advance(other.start(), until),
        one.start(),
    )
    assert np.abs(first.server.v - start.server.v).max() > 0.1
    assert np.allclose(first.server.v, second.server.v, atol=1e-6, rtol=0)
    assert first.server.v.tobytes() == second.server.v.tobytes()
    assert first.devices.u.tobytes() == second.devices.u.tobytes()


@pytest.mark.parametrize("pads", [False, True])
def test_both_parts_together_are_the_rated_gradients_and_their_count(
    pads: bool, data: Interactions
) -> None:
    system = FedRecPP(**BASE, style="batch", learning_rate=0.8, rho=1.0, denoisers=3, pads=pads)
    start, update = sent(system, data)
    plain = FedRec(**BASE, style="batch", learning_rate=0.8, rho=1.0)
    g = plain.local(start.server, start.devices, data.histories(EVERYONE), EVERYONE, key(1))[
        1
    ].rows["v"]  # type: ignore[arg-type]
    is_rated, together = rated(data, update), np.array(parts(system, update))
    assert 0 < is_rated.sum() < len(is_rated)
    assert (together[is_rated, :3] == fixed(g[is_rated])).all() and (
        together[is_rated, 3] == 1 << 16
    ).all()
    assert (together[~is_rated] == 0).all()
    total = add_update(empty_total(update, ITEMS), update)
    assert total.senders.sum() == len(is_rated)


def test_without_pads_ordinary_devices_send_noise_and_denoisers_do_not(data: Interactions) -> None:
    system = FedRecPP(**BASE, style="batch", learning_rate=0.8, rho=1.0, denoisers=3, pads=False)
    start, update = sent(system, data)
    assert len(start.server.denoiser) == 3
    denoises = np.isin(np.repeat(EVERYONE, np.diff(update.ptr)), start.server.denoiser)
    decoy, v, noise = ~rated(data, update), update.rows["v"], update.rows["noise"]
    assert (v[decoy & ~denoises] == noise[decoy & ~denoises]).all() and noise[
        decoy & ~denoises
    ].any(axis=1).all()
    assert not noise[denoises].any() and not noise[~decoy].any() and not v[decoy & denoises].any()


def test_with_pads_neither_part_tells_decoys_from_rated_items(data: Interactions) -> None:
    """Over many rounds every number of either part is spread evenly, for rated items as for decoys,
    and depends on the round.
    """
    system = FedRecPP(**BASE, style="batch", learning_rate=0.8, rho=1.0, denoisers=3, pads=True)
    start = Rounds(system, data).start()
    history = data.histories(EVERYONE)
    updates = [
        system.local(start.server, start.devices, history, EVERYONE, key(0, "round", n))[1]
        for n in range(200)
    ]
    is_rated = rated(data, updates[0])
    for name in ("v", "noise"):
        units = np.array([fixed(update.rows[name]) for update in updates])
        assert units.min() >= 0 and units.max() < 1 << 24
        assert len(np.unique(units)) > 0.99 * units.size * (1 - units.size / 2**25)
        for which in (is_rated, ~is_rated):
            share = units[:, which] / (1 << 24)  # mean 1/2, variance 1/12 if even
            wide = 5 / np.sqrt(share.size)
            assert (
                abs(share.mean() - 0.5) < wide
                and abs((share < 0.1).mean() - 0.1) < wide
                and abs(share.var() - 1 / 12) < wide
            )


def test_pads_cancel_exactly_in_sums_beyond_a_limb() -> None:
    values = np.array([[0.25, -32000.0, 1e-5], [3.0, 31999.5, -2.0]], np.float32)
    ptr, keys = np.array([0, 1, 2]), folds(key(3), np.arange(2))
    shares, pads = padded(ptr, values, keys), padded(ptr, np.zeros_like(values), keys)
    total = (fixed(shares) - fixed(pads)).sum(axis=0) * 50_000  # as if 100,000 devices had sent
    assert (real(without_pads(total)) == real(fixed(values).sum(axis=0) * 50_000)).all()
    with pytest.raises(NonFiniteError, match="the model is unchanged"):
        padded(ptr, np.array([[np.nan], [0.0]], np.float32), keys)


@pytest.mark.parametrize(
    ("denoisers", "many"), [(1.0, 1), (0.25, 3), (0.5, 6), (0.01, 1), (5.0, 5), (100.0, USERS)]
)
def test_denoisers_are_a_share_or_a_number(denoisers: float, many: int, data: Interactions) -> None:
    chosen = Rounds(FedRecPP(denoisers=denoisers), data).start().server.denoiser
    assert len(chosen) == many and (np.diff(chosen) > 0).all() and chosen.max(initial=0) < USERS
