"""A result as text, as Markdown, and as a folder."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from entrenous.report.figures import DrawnFigure, can_print
from entrenous.report.latex import booktabs, escaped
from entrenous.runs.store import write_atomically

from .result import ExperimentResult, Row

ABSENT = "-"
TEST_COLUMNS = {
    "data": "data",
    "a": "a",
    "b": "b",
    "metric": "metric",
    "difference": "a - b",
    "low": "95 % from",
    "high": "to",
    "holds": "over",
    "t": "t",
    "p": "p",
    "p_holm": "p (Holm)",
}


class RenderedTable(NamedTuple):
    """A table as text. lines: the header first."""

    name: str
    lines: list[list[str]]


def text(result: ExperimentResult) -> str:
    """Tables with aligned columns, then the findings."""
    shown = ["\n".join([table.name, *_aligned(table.lines)]) for table in tables(result.rows)]
    return "\n\n".join(
        [_title(result), *shown, *(f"* {note}" for note in result.notes), _footer(result)]
    )


def markdown(result: ExperimentResult) -> str:
    """Tables, findings, figures, the protocol of every row, tests."""
    parts = [f"# {_title(result)}"]
    parts += [
        f"**{table.name}**\n\n" + "\n".join(piped(table.lines)) for table in tables(result.rows)
    ]
    parts += ["\n".join(f"* {note}" for note in result.notes)]
    parts += [f"![{name}]({name}.svg)" for name in result.figures]
    parts += ["## Protocol of each row\n\n" + "\n".join(_protocols(result.rows))]
    if result.tests:
        lines = [[_cell(test[column]) for column in TEST_COLUMNS] for test in result.tests]
        parts += [
            "## Paired tests, and what their intervals hold\n\n"
            + "\n".join(piped([list(TEST_COLUMNS.values()), *lines]))
        ]
    return "\n\n".join([*filter(None, parts), _footer(result)]) + "\n"


def write(result: ExperimentResult, folder: Path) -> None:
    """result.json, table.md, table.tex, rows.csv and the figures (SVG, PDF); each file is whole or
    not there. Figures that are no longer drawn go."""
    for old in {*folder.glob("*.svg"), *folder.glob("*.pdf")}:
        if old.stem not in result.figures:
            old.unlink()
    for name, figure in result.figures.items():
        write_atomically(folder / f"{name}.svg", standalone(figure).encode())
        if isinstance(figure, DrawnFigure) and can_print():
            write_atomically(folder / f"{name}.pdf", figure.pdf())
    write_atomically(folder / "table.md", markdown(result).encode())
    write_atomically(folder / "table.tex", latex(result).encode())
    write_atomically(folder / "rows.csv", csv_text(result.rows).encode())
    write_atomically(
        folder / "result.json",
        (json.dumps(result.as_json(), indent=1, allow_nan=False) + "\n").encode(),
    )


def latex(result: ExperimentResult) -> str:
    """Each table for LaTeX with booktabs; the caption names the experiment, the data and the
    protocols.
    """
    said = escaped("; ".join(line.removeprefix("* ") for line in _protocols(result.rows)))
    shown = [
        booktabs(
            [escaped(cell) for cell in table.lines[0]],
            [[escaped(cell) for cell in line] for line in table.lines[1:]],
            f"{escaped(_title(result))}. {escaped(table.name)}. {said}.",
        )
        for table in tables(result.rows)
    ]
    return "\n\n".join(["% needs \\usepackage{booktabs}", *shown]) + "\n"


def csv_text(rows: Sequence[Row]) -> str:
    """Every row as CSV, numbers in full; lists of values as JSON."""
    text, names = io.StringIO(), list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {
            name: json.dumps(value) if isinstance(value, list | dict) else value
            for name, value in row.items()
        }
        for row in rows
    )
    return text.getvalue()


def standalone(svg: str) -> str:
    """An <svg> element as a file of its own, which needs its namespace.

    >>> standalone("<svg width='1'></svg>")
    "<svg xmlns='http://www.w3.org/2000/svg' width='1'></svg>"
    """
    return (
        svg
        if "xmlns=" in svg.split(">", 1)[0]
        else svg.replace("<svg ", "<svg xmlns='http://www.w3.org/2000/svg' ", 1)
    )


def _title(result: ExperimentResult) -> str:
    return f"{result.name}: {result.title}" + (" (quick: an excerpt)" if result.quick else "")


def _footer(result: ExperimentResult) -> str:
    """How long it took, how many trainings were remembered (some tables remember none), and where
    it is.
    """
    trained = f"; trained now: {result.computed}, remembered from before: {result.remembered}"
    where = f"; written to {result.folder}" if result.folder else ""
    return f"{result.seconds:.0f} s{trained if result.computed + result.remembered else ''}{where}"


# ---- rows to tables ------------------------------------------------------------------------------


def tables(rows: Sequence[Row]) -> Iterator[RenderedTable]:
    """One table for each data set and set of metrics, a line for each system, the paper's column
    beside ours.
    """
    for data in dict.fromkeys(row["data"] for row in rows):
        systems: dict[Label, dict[str, Row]] = {}
        for row in rows:
            if row["data"] == data:
                systems.setdefault(_label(row), {})[row["metric"]] = row
        for metrics, group in groupby(systems.items(), key=lambda entry: tuple(entry[1])):
            yield _table(data, metrics, dict(group))


Label = tuple[str, str, str]  # system, reading, pi


def _label(row: Row) -> Label:
    pi = row.get("pi")
    return row["system"], row.get("reading", ""), "" if pi is None else f"{pi:g}"


def _table(
    data: str, metrics: Sequence[str], systems: Mapping[Label, Mapping[str, Row]]
) -> RenderedTable:
    if len(systems) == 1 and len(metrics) > 2:  # one system: a line for each metric
        ((label, rows),) = systems.items()
        lines = [[metric, *_pair(rows[metric], False)] for metric in metrics]
        return RenderedTable(f"{data}: {label[0]}", [["metric", "paper", "ours"], *lines])
    named = [column for column in (1, 2) if any(label[column] for label in systems)]
    printed = [
        metric
        for metric in metrics
        if any(rows[metric]["paper"] is not None for rows in systems.values())
    ]
    whole = {
        metric: all(_is_whole(rows[metric]) for rows in systems.values()) for metric in metrics
    }
    header = ["system", *(("", "epoch", "pi")[column] for column in named)]
    for metric in metrics:
        header += [f"{metric}: paper", "ours"] if metric in printed else [metric]
    lines = [header]
    for label, rows in systems.items():
        cells = [_pair(rows[metric], whole[metric])[metric not in printed :] for metric in metrics]
        lines.append(
            [
                label[0],
                *(label[column] or ABSENT for column in named),
                *(cell for pair in cells for cell in pair),
            ]
        )
    return RenderedTable(data, lines)


def _pair(row: Row, whole: bool) -> list[str]:
    """The paper's number and ours; of a mean over seeds with its spread, and with as many digits as
    that leaves sense in.
    """
    decimals = 0 if whole else 5
    if row.get("values") is not None and not whole:
        decimals = 1 if abs(row["obtained"] or 0.0) >= 10 else 4
    paper, ours, spread = (
        ABSENT if value is None else f"{value:.{decimals}f}"
        for value in (row["paper"], row["obtained"], row.get("spread"))
    )
    return [paper, ours if spread == ABSENT or whole else f"{ours} ± {spread}"]


def _is_whole(row: Row) -> bool:
    return all(
        value is None or float(value).is_integer() for value in (row["paper"], row["obtained"])
    )


def _cell(value: Any) -> str:
    return ABSENT if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as their widest cell: the first to the left, the others to the right."""
    width = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            [
                f"{line[0]:<{width[0]}}",
                *(f"{cell:>{w}}" for cell, w in zip(line[1:], width[1:], strict=True)),
            ]
        )
        for line in lines
    ]


def piped(lines: Sequence[Sequence[str]], numbers: bool = True) -> list[str]:
    """Lines of a table in Markdown: the header first; with numbers, all columns but the first to
    the right.
    """
    header, *rest = [
        "| " + " | ".join(cell.replace("|", "/") for cell in line) + " |" for line in lines
    ]
    return [
        header,
        "| " + " | ".join(["---", *["---:" if numbers else "---"] * (len(lines[0]) - 1)]) + " |",
        *rest,
    ]


def _protocols(rows: Sequence[Row]) -> list[str]:
    """A line for each system, with what its figures were made by."""
    labelled = (
        f"* {' '.join(filter(None, (row['system'], row.get('reading', ''))))}: {row['protocol']}"
        for row in rows
    )
    return list(dict.fromkeys(labelled))


# ---- figures in a sentence or a cell -------------------------------------------------------------


def figure(row: Row, digits: int = 3) -> str:
    """What was obtained, with its standard deviation over seeds, to the same digit.

    >>> figure({"obtained": 0.65432, "spread": 0.01}), figure({"obtained": None}), figure({
    ...     "obtained": 1234.5})
    ('0.654 ± 0.010', '-', '1234.5')
    >>> figure({"obtained": 98.0, "spread": 4.583}), figure({"obtained": 1500.0, "spread": 0.0})
    ('98.0 ± 4.6', '1500 ± 0')
    """
    mean, spread = row["obtained"], row.get("spread")
    if mean is None:
        return ABSENT
    if spread is None or not spread or abs(mean) < 10:
        return number(mean, digits) + ("" if spread is None else f" ± {number(spread, digits)}")
    return f"{mean:.1f} ± {spread:.1f}"


def number(value: float, digits: int = 3) -> str:
    """A figure as tables have it: whole ones whole, from 10 on with one digit after the point.

    >>> number(0.65), number(-0.02), number(3.0), number(12.345), number(1.5)
    ('0.650', '-0.020', '3', '12.3', '1.500')
    """
    if abs(value) >= 10 or float(value).is_integer():
        return f"{value:.{0 if float(value).is_integer() else 1}f}"
    return f"{value:.{digits}f}"


def difference(test: Mapping[str, Any], digits: int = 3) -> str:
    """A difference, its interval and its p in words.

    >>> difference({"difference": -0.02, "low": -0.03, "high": -0.01, "p_holm": 0.0021,
    ...     "holds": "users and seeds"})
    '-0.020 (95 % over users and seeds -0.030 to -0.010, p = 0.002)'
    """
    low, high = (number(test[end], digits) for end in ("low", "high"))
    sign = "+" if test["difference"] > 0 else ""
    ends = f"95 % over {test['holds']} {low} to {high}"
    return f"{sign}{number(test['difference'], digits)} ({ends}, {p_text(test['p_holm'])})"


def p_text(p: float) -> str:
    """A p-value in words.

    >>> p_text(0.0004), p_text(0.0212)
    ('p < 0.001', 'p = 0.021')
    """
    return "p < 0.001" if p < 0.001 else f"p = {number(p)}"
