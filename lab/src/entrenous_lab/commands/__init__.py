"""The commands that the laboratory brings to `entrenous`: experiment, papers, bridge and bench."""

from __future__ import annotations

from collections.abc import Iterable

from entrenous.cli.brought import Commands

from .bridge import bridge
from .lab import bench, bench_names, experiment
from .papers import papers


def commands() -> Commands:
    """Returns the commands, and the lists that their help names; for the entry point
    `entrenous.commands`.
    """
    return Commands(
        {"Research": [experiment, papers, bridge, bench]},
        {"benches": bench_names, "bridges": _bridges, "experiments": _experiments},
    )


def _experiments() -> Iterable[str]:
    from ..papers.runner import experiments

    return experiments()


def _bridges() -> Iterable[str]:
    from entrenous_field.programs import programs

    return [each.label.lower() for each in programs() if each.bridge]
