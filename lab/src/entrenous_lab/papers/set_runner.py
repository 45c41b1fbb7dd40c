"""Trainings and attacks for the choice of settings by accuracy and by what models tell, each figure
remembered with the program that computed it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias, final

from entrenous_audit.apart import attempts
from entrenous_audit.endings import trained_to_end, without_some
from entrenous_audit.left_out import in_training
from entrenous_audit.participation import PartFigures, by_taking_part, never_took_part
from entrenous_audit.plan import AuditPlan
from entrenous_audit.side_knowledge import known_share
from entrenous_audit.subject import subject_of

from entrenous.core.contract.protocols import silent
from entrenous.core.errors import InputError
from entrenous.core.registry.program import program_sha256
from entrenous.core.values import SettingValue
from entrenous.data.interactions import Interactions
from entrenous.data.split.protocol import splits
from entrenous.evaluation.protocol import evaluate
from entrenous.federation.shard import Threads
from entrenous.privacy.protection import PRIVATE, Protection
from entrenous.runs import pipeline
from entrenous.runs.options import Profile, RunPlan
from entrenous.runs.plan import make, protection_in, with_set
from entrenous.runs.train import Phase, Setup, Watch, train_phase
from entrenous.systems.named import kind_of

from .remember import trained_once

FORMAT: Final = 3
"""Of what is remembered: another one after a change of this file that alters an outcome."""
VALIDATION: Final = "validation hr@10"
TEST: Final = "hr@10"
KNOWN: Final = {"half of each history known": 0.5, "a tenth known": 0.1}
ATTACK: Final = "membership"
BY_SERVER: Final = {"noise_by": "server"}
"""A sum has the same noise whoever draws it, and a server draws it in a tenth of the time."""
Settings: TypeAlias = Mapping[str, Any]


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class SetRunner:
    """Trains and attacks on one data set.

    profile: of candidates; `test` is told its own. protect: settings of the protection that differ
    from the profile's. folder: where finished figures are remembered, None = nowhere. counts: how
    many figures were computed now, and how many were remembered.
    """

    data: Interactions
    protocol: str
    folder: Path | None
    profile: Profile = PRIVATE
    protect: Mapping[str, SettingValue] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=lambda: {"computed": 0, "remembered": 0})

    def validation(self, algorithm: str, settings: Settings, seed: int) -> float:
        """HR@10 on the validation rows of a model that never saw them."""
        return self._once("validation", algorithm, settings, seed, self._validated)[VALIDATION]

    def tells(self, algorithm: str, settings: Settings, seed: int) -> dict[float, float]:
        """What the final model tells of people because they took part, by the share of each history
        that the attacker knows beforehand: the attack's R-precision by a model of them, less that
        by a model that they are not in. No test rows choose anything.
        """

        def attacked(algorithm: str, settings: Settings, seed: int) -> dict[str, float]:
            own, protect = self._parted(settings)
            plan = AuditPlan(
                algorithm=algorithm,
                data=self.data.name,
                view="model",
                profile=self.profile,
                settings=own,
                protect=protect,
                protocol=self.protocol,
                seed=seed,
                refit=False,
                attacks=(ATTACK,),
            )
            figures = {}
            told = told_by_model(plan, self.data, ATTACK, tuple(KNOWN.values()))
            for share, participation in told.items():
                because = participation["because"]
                if because is None:
                    raise InputError(algorithm, f"{ATTACK}: {participation['reason']}")
                figures[f"{share:g}"] = because
            return figures

        found = self._once("tells", algorithm, settings, seed, attacked)
        return {share: found[f"{share:g}"] for share in KNOWN.values()}

    def test(self, algorithm: str, settings: Settings, seed: int, profile: Profile) -> float:
        """HR@10 on the test rows."""

        def run(algorithm: str, settings: Settings, seed: int) -> dict[str, float]:
            own, protect = self._parted(settings)
            protect |= BY_SERVER
            done = pipeline.run(
                algorithm,
                self.data,
                protocol=self.protocol,
                seed=seed,
                settings=own,
                profile=profile,
                protect=protect if profile == PRIVATE else {},
            )
            return {TEST: done.metrics[TEST]}

        return self._once(f"test, {profile}", algorithm, settings, seed, run)[TEST]

    def _validated(self, algorithm: str, settings: Settings, seed: int) -> dict[str, float]:
        (split,) = splits(self.protocol, self.data, seed=seed)[:1]
        assert split.validation is not None
        own, protect = self._parted(settings)
        if self.profile == PRIVATE:
            protect |= BY_SERVER
        asked = RunPlan(
            algorithm=algorithm, settings=own, profile=self.profile, protect=protect, seed=seed
        )
        plan = with_set(asked, len(split.train.users))
        made: Any = make(plan, split.train)
        setup = Setup(seed=seed, executor=Threads(0), protection=protection_in(plan, made))
        rounds = made.default_rounds(split.train.catalogue)
        phase = Phase("final", algorithm, [])
        model = train_phase(made, split.train, rounds, setup, Watch(), phase)
        found = evaluate(
            model.recommender, split.train, split.validation, label=algorithm, n=(10,), seed=seed
        )
        return {VALIDATION: found.metrics[TEST]}

    def _parted(self, settings: Settings) -> tuple[dict[str, Any], dict[str, Any]]:
        """The settings of the algorithm, and those of the protection."""
        protects = Protection.model_fields
        own = {name: value for name, value in settings.items() if name not in protects}
        protect = {name: value for name, value in settings.items() if name in protects}
        return own, {**self.protect, **protect}

    def _once(
        self,
        what: str,
        algorithm: str,
        settings: Settings,
        seed: int,
        compute: Callable[[str, Settings, int], dict[str, float]],
    ) -> dict[str, float]:
        """Figures by name, computed if no file has them."""
        program = program_sha256(kind_of(algorithm)[0].__module__, __name__)
        about = {
            "what": what,
            "algorithm": algorithm,
            "profile": self.profile,
            "settings": dict(settings),
            "protect": dict(self.protect),
            "seed": seed,
            "protocol": self.protocol,
            "rows": self.data.sha256(),
            "program": program,
            "format": FORMAT,
        }
        cell = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:40]
        path = None if self.folder is None else self.folder / f"set-{cell}.json"
        found, computed = trained_once(
            path,
            {**about, "cell": cell},
            lambda: {"figures": compute(algorithm, settings, seed)},
        )
        self.counts["computed" if computed else "remembered"] += 1
        figures: dict[str, float] = found["figures"]
        return figures


def told_by_model(
    plan: AuditPlan,
    rows: Interactions,
    attack: str,
    shares: Sequence[float],
) -> dict[float, PartFigures]:
    """Returns what an attack on the final model knows of people because they took part, by the
    share of each history that it knew beforehand.

    plan: of the trainings, one with everybody and one without some people; they serve all shares.
    attack: the name of an attack on histories in final models.
    """
    subject = subject_of(plan, rows, None)
    final = trained_to_end(subject, False, silent).final
    if final is None:
        raise InputError(plan.algorithm, "has no final model that all devices share")
    without, _ = without_some(subject, silent)
    inside = in_training(plan.seed, len(subject.train.users))
    learned = {name: array for name, array in final.model.items() if "/" not in name}
    figures = {}
    for share in shares:
        known_now = known_share(subject.train, share)
        took = final._replace(model={**learned, **known_now})
        (by_took,) = attempts(took, (attack,), progress=silent)
        (by_never,) = attempts(never_took_part(took, without), (attack,), progress=silent)
        figures[share] = by_taking_part(
            by_took.claims, by_never.claims, inside, took, subject.train
        )
    return figures
