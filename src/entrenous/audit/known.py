"""The attacks that there are: every file of `audit/attacks/` that says `ATTACK`."""

from __future__ import annotations

from ..core.errors import InputError, did_you_mean
from ..core.registry.discover import modules
from .claims import Attack
from .transcript import Transcript


def known() -> dict[str, Attack]:
    """Every attack by its name, in alphabetical order."""
    found = (vars(module).get("ATTACK") for module in modules("entrenous.audit.attacks").values())
    return {attack.name: attack for attack in found if isinstance(attack, Attack)}


def applying(transcript: Transcript) -> list[Attack]:
    """The attacks that have something to read in a transcript."""
    return [
        one
        for one in known().values()
        if transcript.about["view"] in one.views and one.applies(transcript)
    ]


def check_names(names: tuple[str, ...]) -> None:
    """Refuses the name of an attack that there is not."""
    for name in names:
        if name not in known():
            raise InputError(
                "--attack", f"unknown attack '{name}'", fix=did_you_mean(name, known())
            )
