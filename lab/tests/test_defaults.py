"""The table of default settings: what is drawn lies where the algorithm says, and what is shown as
searched is what validation chose.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from entrenous_lab.papers import defaults
from entrenous_lab.papers.cell import Outcome
from entrenous_lab.papers.study import System
from entrenous_lab.search.before import space_of
from entrenous_lab.search.space import Choices, read_space

from entrenous.systems.named import kind_of
from lab.tests.test_cali3f import look

EVERY = (*defaults.CENTRAL, *defaults.WITH_SERVER, *defaults.BETWEEN_PEERS)


@pytest.mark.parametrize("algorithm", EVERY)
def test_drawn_settings_are_in_the_declared_space_and_differ(algorithm: str) -> None:
    drawn = defaults.settings_drawn(algorithm, 0)
    if algorithm in ("popular", *defaults.BETWEEN_PEERS):
        assert drawn == []
        return
    space = read_space(algorithm, space_of(algorithm, {}), {})
    assert len(drawn) == defaults.DRAWN and len({repr(one) for one in drawn}) == defaults.DRAWN
    for settings in drawn:
        kind_of(algorithm)[0].parse({**kind_of(algorithm)[1], **settings})
        for name, choice in space.items():
            low_high = choice.values if isinstance(choice, Choices) else choice.ends
            assert (
                settings[name] in low_high
                if isinstance(choice, Choices)
                else low_high[0] <= settings[name] <= low_high[1]
            )
    assert drawn == defaults.settings_drawn(algorithm, 0) != defaults.settings_drawn(algorithm, 1)


def study_with(curves: dict[str, list[float]]) -> SimpleNamespace:
    """A study whose trainings have these validation figures, by what their settings say."""
    seen: list[str] = []

    def outcomes_of(pairs: list[tuple[str, tuple[int, ...]]]) -> list[Outcome]:
        seen.extend(name for name, _ in pairs)
        assert {part for name, _ in pairs for part in [name.partition(":")[0]]} == {"validation"}
        return [
            Outcome(
                [
                    look(at, value)
                    for at, value in zip(looks, curves[name.partition(":")[2]], strict=False)
                ],
                "",
                1.0,
            )
            for name, looks in pairs
        ]

    return SimpleNamespace(
        seed=0,
        seen=seen,
        cells=SimpleNamespace(outcomes_of=outcomes_of),
        pair=lambda system, part, seed, looks: (
            f"{part}:{dict(system.more).get('n', 'default')}",
            looks,
        ),
        fitting=lambda systems, notes: systems,
        usual_epochs=lambda system: 30,
    )


@pytest.mark.parametrize(
    ("curves", "chosen", "rounds"),
    [
        ({"default": [0.1, 0.3, 0.2], "1": [0.2, 0.2, 0.25]}, {}, 20),
        ({"default": [0.1, 0.3, 0.2], "1": [0.2, 0.2, 0.35]}, {"n": "1"}, 30),
        (
            {"default": [0.3, 0.3, 0.2], "1": [0.3, 0.2, 0.1]},
            {},
            10,
        ),  # of equals the defaults, and the fewest rounds
        ({"default": [], "1": [0.1]}, {"n": "1"}, 10),  # the defaults diverged
        ({"default": [], "1": []}, {}, 30),
    ],
)
def test_the_best_on_validation_is_chosen(
    monkeypatch: pytest.MonkeyPatch,
    curves: dict[str, list[float]],
    chosen: dict[str, str],
    rounds: int,
) -> None:
    monkeypatch.setattr(defaults, "LOOKS", 3)
    monkeypatch.setattr(defaults, "settings_drawn", lambda algorithm, seed: [{"n": "1"}])
    study = study_with(curves)
    best, epochs = defaults.searched(study, System("fcf"))  # type: ignore[arg-type]
    assert (
        dict(best.more) == chosen
        and epochs == rounds
        and study.seen == ["validation:default", "validation:1"]
    )
    assert str(best) == ("fcf, searched" if any(curves.values()) else "fcf")


def test_what_is_level_with_popular_is_named() -> None:
    tests = [
        {"a": a, "b": b, "metric": "ndcg@10", "difference": difference, "p_holm": p}
        for a, b, difference, p in (
            ("fcf", "popular", 0.1, 0.001),
            ("pfpl+", "popular", 0.01, 0.2),
            ("cali3f-gmf", "popular", -0.1, 0.001),
            ("fcf, searched", "fcf", 0.02, 0.4),
            ("cali3f-neumf, searched", "fedavg-neumf, searched", 0.02, 0.04),
        )
    ]
    study = SimpleNamespace(
        name="d",
        source=SimpleNamespace(protocol="loo-99"),
        seeds=(0,),
        sizes={"users": 1, "training": 1, "validation": 1, "test": 1},
    )
    for test in tests:
        test |= {"low": 0.0, "high": 0.1, "holds": "users alone, one seed"}
    _, level, gains, equal = defaults.notes_of(SimpleNamespace(name="d", study=study, tests=tests))  # type: ignore[arg-type]
    assert (
        "pfpl+ (ndcg@10 +0.010, p = 0.2), cali3f-gmf (ndcg@10 -0.100" in level
        and "fcf" not in level
    )
    assert "fcf +0.020." in gains and "cali3f" not in gains
    assert "cali3f-neumf, searched is above fedavg-neumf, searched by 0.0200" in equal
