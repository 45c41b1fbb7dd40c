"""A clip that moves: its rule by hand, and no more epsilon than of a clip that stays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from entrenous.core.errors import InputError
from entrenous.data.synthetic import synthetic
from entrenous.federation.recorder import Recorder
from entrenous.federation.rounds import Rounds
from entrenous.privacy.adaptive_clip import AdaptiveClip, counting_clip
from entrenous.privacy.clip import clip, lengths
from entrenous.privacy.protection import PROFILES, Protection
from entrenous.runs.recommenders import checkpoint_arrays, restore_training
from entrenous.systems.fpl import FPL
from tests.privacy.test_limits import keys, message

DATA = synthetic(users=200, items=100, interactions=2000, seed=1)


def moving(**changed: Any) -> Protection:
    given = {
        "people": 1,
        "epsilon": None,
        "noise": 0.02,
        "noise_from": "seed",
        "clip_quantile": 0.3,
        "clip": 0.5,
    }
    return Protection.parse({**PROFILES["dp"], **given, **changed})


def test_the_rule_by_hand() -> None:
    rule = AdaptiveClip(quantile=0.5, multiplier=1.0, cohort=100)
    assert rule.moved(2.0, 0.0) == 2.0, "half are within"
    assert rule.moved(2.0, 50.0) == pytest.approx(2 * math.exp(-0.1)), "all are: the clip shrinks"
    assert rule.moved(2.0, -500.0) == pytest.approx(2 * math.exp(0.1)), (
        "noise may say fewer than none"
    )
    assert rule.of_bits == 5 and rule.of_numbers == pytest.approx((1 - 1 / 100) ** -0.5)


@pytest.mark.parametrize(("multiplier", "cohort"), [(1.25, 100), (0.6, 600), (4.0, 20)])
def test_numbers_and_bits_together_spend_what_one_gaussian_does(
    multiplier: float, cohort: int
) -> None:
    dpa: Any = pytest.importorskip("dp_accounting")

    rule = AdaptiveClip(0.5, multiplier, cohort)
    both = dpa.ComposedDpEvent(
        [dpa.GaussianDpEvent(rule.of_numbers), dpa.GaussianDpEvent(2 * rule.of_bits)]
    )
    spent = []
    for event in (both, dpa.GaussianDpEvent(multiplier)):
        accountant = dpa.rdp.RdpAccountant()
        accountant.compose(dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(0.1, event), 40))
        spent.append(accountant.get_epsilon(1e-5))
    assert abs(spent[0] - spent[1]) < 1e-9


def test_messages_are_cut_as_by_a_clip_that_stays_and_say_whether_they_were() -> None:
    update, own = message(9), keys(9)
    bound = float(np.median(lengths(update)))
    cut, plain = counting_clip(bound)(update, own), clip(bound)(update, own)
    assert all(np.array_equal(cut.rows[name], plain.rows[name]) for name in plain.rows)
    assert cut.weight.tolist() == np.where(lengths(update) <= bound, 0.5, -0.5).tolist()


def test_the_noise_follows_the_clip_and_weights_say_nothing() -> None:
    wide = synthetic(users=60, items=5000, interactions=300, seed=2)
    recorder = Recorder("sum")
    rounds = Rounds(
        FPL(factors=6, triples=1, cohort=30),
        wide,
        protection=moving(clip=8.0, noise=16.0),
        recorder=recorder,
    )
    training = rounds.start()
    for _ in range(3):
        before = training.clip
        training = rounds.one_round(training)
        drawn = recorder.rounds[-1].sent["q"].ravel()
        rule = rounds.protected.adaptive
        assert rule is not None and abs(drawn.std() / (rule.of_numbers * before) - 1) < 0.03
        assert recorder.rounds[-1].sent["weight"].tolist() == [30.0]
    assert training.clip < 8


def test_a_checkpoint_keeps_the_clip() -> None:
    def federation() -> Rounds:
        return Rounds(FPL(factors=4, triples=5, cohort=50), DATA, protection=moving())

    whole, first = federation(), federation()
    kept = {
        name: array.copy()
        for name, array in checkpoint_arrays(first.advance(first.start(), 3)).items()
    }
    again: Any = restore_training(federation(), 3, kept)
    expected = whole.advance(whole.start(), 6)
    assert again.clip == kept["clip"][0] != 0.5
    assert federation().advance(again, 6).clip == expected.clip


def test_what_a_moving_clip_needs() -> None:
    for wrong in ({"clip": 0}, {"noise": 0}, {"noise_by": "devices", "sampling": "fixed"}):
        with pytest.raises(InputError, match="do not go together"):
            moving(**wrong)
