"""The commands that the laboratory brings to `entrenous`: experiment, papers and bench."""

from __future__ import annotations

from collections.abc import Iterable

from entrenous.cli.brought import Commands

from .lab import bench, experiment
from .papers import papers


def commands() -> Commands:
    """Returns the commands, and the lists that their help names; for the entry point
    `entrenous.commands`.
    """
    return Commands(
        {"Research": [experiment, papers, bench]},
        {"benches": _benches, "experiments": _experiments},
    )


def _benches() -> Iterable[str]:
    from entrenous.core.registry.discover import all_names_offered

    return all_names_offered("entrenous_lab.benches", "BENCHES")


def _experiments() -> Iterable[str]:
    from ..papers.runner import experiments

    return experiments()
