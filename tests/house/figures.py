"""The figures of the house, each with its bound."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from entrenous.systems.named import algorithms
from tests.house import bounds
from tests.house.budgets import budgets
from tests.house.english import avoided_words, weak_openings
from tests.house.readers import files_of
from tests.house.source import every_file, packages, signatures, source_of
from tests.house.traced import from_csv_to_recommendation, from_device_to_model


class Figure(NamedTuple):
    """One line of the table."""

    name: str
    value: str
    bound: str


def figures(folder: Path) -> list[Figure]:
    """Measures everything. folder: where files of a traced run may be written."""
    source = source_of(every_file())
    counts = [one.parameters for one in signatures()]
    many = sum(count > 8 for count in counts)
    csv = from_csv_to_recommendation(folder)
    https = from_device_to_model(folder)
    systems = {name: len(files_of(name)) for name in algorithms()}
    most = max(systems, key=lambda name: systems[name])
    rows = [
        Figure("files", f"{source.files}", ""),
        Figure("code lines", f"{source.code:,}", ""),
        Figure("syntax nodes", f"{source.nodes:,}", ""),
        *_plainness(),
        Figure(
            "docstrings that open with What, Whether, How",
            f"{len(weak_openings())}",
            f"at most {bounds.WEAK_OPENINGS}",
        ),
        Figure(
            "words to avoid in docstrings",
            f"{len(avoided_words())}",
            f"at most {bounds.AVOIDED_WORDS}",
        ),
        Figure("functions of more than 8 parameters", f"{many}", f"at most {bounds.MORE_THAN_8}"),
        Figure(
            "parameters of one function, most",
            f"{max(counts)}",
            f"at most {bounds.MOST_PARAMETERS}",
        ),
        Figure(
            "files from a CSV to a recommendation",
            f"{len(csv)}",
            f"at most {bounds.CSV_TO_RECOMMENDATION}",
        ),
        Figure(
            "files of one HTTPS round, device to model",
            f"{len(https)}",
            f"at most {bounds.HTTPS_ROUND}",
        ),
        Figure(
            f"files of an algorithm, most ({most})",
            f"{systems[most]}",
            f"at most {bounds.FILES_OF_AN_ALGORITHM}",
        ),
    ]
    sized = [Figure(one.name, f"{one.value:,}", f"at most {one.most:,}") for one in budgets()]
    read = [Figure(f"  files of {name}", f"{systems[name]}", "") for name in systems]
    return [*rows, *sized, *read]


def _plainness() -> Iterator[Figure]:
    """Density and comments of each distribution."""
    for name, files in packages().items():
        counted = source_of(files)
        dense = f"{counted.nodes_a_line:.2f}"
        told = f"{counted.comment_share:.2%}"
        yield Figure(f"nodes per code line, {name}", dense, f"at most {bounds.NODES_A_LINE[name]}")
        yield Figure(
            f"lines with a comment, {name}", told, f"at least {bounds.LEAST_COMMENTS[name]:.1%}"
        )
