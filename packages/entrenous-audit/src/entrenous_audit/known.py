"""The attacks on histories: every file of `entrenous_audit/attacks/` that defines `ATTACK`."""

from __future__ import annotations

from entrenous.core.errors import InputError, did_you_mean
from entrenous.core.registry.discover import modules

from .claims import Attack
from .transcript import Transcript


def known() -> dict[str, Attack]:
    """Every attack by its name, in alphabetical order."""
    declared = [vars(m).get("ATTACK") for m in modules("entrenous_audit.attacks").values()]
    return {attack.name: attack for attack in declared if isinstance(attack, Attack)}


def applying(transcript: Transcript) -> list[Attack]:
    """The attacks that have something to read in a transcript."""
    view = transcript.about["view"]
    return [
        attack for attack in known().values() if view in attack.views and attack.applies(transcript)
    ]


def check_names(names: tuple[str, ...]) -> None:
    """Refuses the name of an attack that does not exist."""
    for name in names:
        if name not in known():
            raise InputError(
                "--attack", f"unknown attack '{name}'", fix=did_you_mean(name, known())
            )
