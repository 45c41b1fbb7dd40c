"""A comparison as text, HTML, CSV and LaTeX."""

from __future__ import annotations

import csv
import html as escaping
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..core.cells import harmless
from ..evaluate.metric_kinds import ARROWS, arrowed
from ..report.latex import booktabs, escaped
from .budgets import in_short

USUAL = ("rmse", "mae", "hr@10", "ndcg@10", "recall@10", "auc")
LEVEL = 0.05  # below which a corrected p is marked


def p_text(p: float) -> str:
    """A p-value as it is printed: one below 0.0001 as that.

    >>> p_text(0.00001), p_text(0.0312)
    ('<0.0001', '0.0312')
    """
    return "<0.0001" if p < 0.0001 else f"{p:.4f}"


def records(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A dictionary for each algorithm: its label, and mean and standard deviation over seeds of
    each metric.
    """
    rows = []
    for row in found["rows"]:
        record = {"algorithm": row["algorithm"]}
        for name, mean in row["metrics"].items():
            record[name] = mean
            record[f"{name} std"] = row["std"][name]
        rows.append(record)
    return rows


def shown(found: Mapping[str, Any], asked: Sequence[str] = ()) -> list[str]:
    """The metrics that a table shows: those asked for, or the usual ones that there are."""
    return [name for name in asked or USUAL if name in found["rows"][0]["metrics"]]


def caption(found: Mapping[str, Any]) -> str:
    """The conditions of the figures: data, protocol, seeds, spread, and the spent differential
    privacy.
    """
    seeds = "seed 0"
    if found["seeds"] > 1:
        seeds = f"mean ± sample standard deviation over seeds 0-{found['seeds'] - 1}"
    spent = f", {in_short(found['privacy'])}" if found.get("privacy") else ""
    return f"{Path(found['data']).name}, {found['protocol']}, {seeds}{spent}"


def cells(found: Mapping[str, Any], names: Sequence[str]) -> list[list[str]]:
    """The table's body: a label and a text for each metric."""
    body = []
    for row in found["rows"]:
        line = [row["algorithm"]]
        for name in names:
            spread = f" ±{row['std'][name]:.4f}" if found["seeds"] > 1 else ""
            line.append(f"{row['metrics'][name]:.4f}{spread}")
        body.append(line)
    return body


def plain(found: Mapping[str, Any]) -> str:
    """The table as lines of text."""
    names = shown(found)
    lines = [["algorithm", *names], *cells(found, names)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    body = "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
    return f"{caption(found)}\n{body}"


def html(found: Mapping[str, Any]) -> str:
    """The table as HTML."""
    names = shown(found)
    head = "".join(f"<th>{escaping.escape(name)}</th>" for name in ("algorithm", *names))
    body = "".join(
        f"<tr>{''.join(f'<td>{escaping.escape(text)}</td>' for text in line)}</tr>"
        for line in cells(found, names)
    )
    return (
        f"<table><caption>{escaping.escape(caption(found))}</caption><tr>{head}</tr>{body}</table>"
    )


def csv_text(found: Mapping[str, Any]) -> str:
    """The rows as CSV, numbers in full."""
    text, rows = io.StringIO(), records(found)
    writer = csv.DictWriter(text, rows[0].keys(), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        texts = {name: harmless(cell) for name, cell in row.items() if isinstance(cell, str)}
        writer.writerow({**row, **texts})
    return text.getvalue()


def latex(found: Mapping[str, Any], asked: Sequence[str] = ()) -> str:
    """The table for LaTeX with booktabs: the best of each metric in bold, a dagger where p < 0.05
    after Holm against the reference.
    """
    names = shown(found, asked)
    best = {name: _best(found, name) for name in names}
    body = [_latex_row(row, names, best, found) for row in found["rows"]]
    note = (
        rf"\textdagger: differs from {escaped(found['reference'])}, p $<$ 0.05"
        r" (paired t over users, Holm)"
    )
    header = ["algorithm", *(_headed(name) for name in names)]
    return booktabs(header, body, f"{escaped(caption(found))}. {note}.") + "\n"


def _headed(name: str) -> str:
    """A metric's name with an arrow to where it is better."""
    higher = not arrowed(name).endswith(ARROWS["lower"])
    return rf"{escaped(name.upper())} ${chr(92)}{'up' if higher else 'down'}arrow$"


def _best(found: Mapping[str, Any], name: str) -> float:
    values = [row["metrics"][name] for row in found["rows"]]
    return min(values) if arrowed(name).endswith(ARROWS["lower"]) else max(values)


def _latex_row(
    row: Mapping[str, Any],
    names: Sequence[str],
    best: Mapping[str, float],
    found: Mapping[str, Any],
) -> list[str]:
    texts = [escaped(row["algorithm"])]
    for name in names:
        value = f"{row['metrics'][name]:.4f}"
        value = rf"\textbf{{{value}}}" if row["metrics"][name] == best[name] else value
        differs = any(
            t["metric"] == name and t["b"] == row["algorithm"] and t["holm_p"] < LEVEL
            for t in found["tests"]
        )
        spread = rf" $\pm$ {row['std'][name]:.4f}" if found["seeds"] > 1 else ""
        texts.append(value + spread + (r"\textsuperscript{\textdagger}" if differs else ""))
    return texts
