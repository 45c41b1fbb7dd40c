"""The learning curve: the validation metric over rounds, and over the bytes that the rounds
cost.
"""

from __future__ import annotations

from typing import Any

from . import figures, numbers
from .markup import Child, Html, folded, join, table, tag
from .runs import ERRORS, FIRST, MAIN, Group, ShownRun, is_error
from .theme import figure, side_by_side

Line = dict[str, Any]  # of trace.jsonl
SHOWN = (*ERRORS, MAIN, "hr@10", "auc")  # in the tables of looks
SPREAD = 20  # an axis whose series end further apart than this is logarithmic


def learning(group: Group) -> Html:
    """Curves of the runs that looked at validation, and what is missing for the others."""
    looked = {shown: lines for shown in group.runs if (lines := looks(shown))}
    silent = [shown for shown in group.runs if shown not in looked]
    missing = (
        tag("ul", [tag("li", shown.named(), ": ", _why(shown)) for shown in silent], class_="small")
        if silent
        else None
    )
    if not looked:
        return join(missing)
    traces = folded("The curves in numbers", [_trace(*pair) for pair in looked.items()])
    return join(tag("p", _words(looked)), _curves(group, looked), missing, traces)


def looks(shown: ShownRun) -> list[Line]:
    """The validation metrics in the first phase of a run's trace: of the first fold, and of the
    search for the number of rounds if there was one."""
    return [
        line
        for line in shown.run.trace
        if line["phase"] == shown.run.trace[0]["phase"] and line["validation"]
    ]


def _why(shown: ShownRun) -> Html:
    if not shown.device_rounds:
        return join("trained in one place, without rounds.")
    return join(
        "no look at validation. ",
        tag("code", "--every ROUNDS"),
        " looks, unless the protocol trains on validation rows too.",
    )


def _words(looked: dict[ShownRun, list[Line]]) -> str:
    said = (
        "Measured on the validation rows while training; the test rows are opened once, at the end."
    )
    folds = any("folds" in shown.manifest for shown in looked)
    return f"{said} Shown is the first fold." if folds else said


def _curves(group: Group, looked: dict[ShownRun, list[Line]]) -> Html | None:
    metric = next(
        (
            name
            for name in FIRST
            if all(name in lines[0]["validation"] for lines in looked.values())
        ),
        next(iter(_first(looked))),
    )
    values = {
        shown: [line["validation"].get(metric, float("nan")) for line in lines]
        for shown, lines in looked.items()
    }
    most = max(_bytes(lines[-1]) for lines in looked.values())
    scale, unit = numbers.byte_unit(most)
    over_rounds = {
        shown.label: ([line["round"] for line in lines], values[shown])
        for shown, lines in looked.items()
    }
    over_bytes = {
        shown.label: ([_bytes(line) / scale for line in lines], values[shown])
        for shown, lines in looked.items()
    }
    return side_by_side(
        _curve(group, over_rounds, metric, "round", "rounds"),
        _curve(group, over_bytes, metric, f"{unit} up and down, all devices", "bytes"),
    )


def _curve(
    group: Group,
    series: dict[str, tuple[list[float], list[float]]],
    metric: str,
    x_label: str,
    what: str,
) -> Html | None:
    ends = [x[-1] for x, _ in series.values()]
    logarithmic = min(ends) > 0 and max(ends) / min(ends) > SPREAD
    svg = figures.lines(
        series,
        x_label=f"{x_label} (logarithmic)" if logarithmic else x_label,
        y_label=f"{metric} on validation",
        title=f"Learning over {what}",
        log_x=logarithmic,
        order=group.order,
        name=f"{group.slug}-{what}",
    )
    return figure(svg)


def _first(looked: dict[ShownRun, list[Line]]) -> dict[str, float]:
    return next(iter(looked.values()))[0]["validation"]


def _bytes(line: Line) -> float:
    return float(line["bytes_up"] + line["bytes_down"])


def _trace(shown: ShownRun, lines: list[Line]) -> Html:
    names = [name for name in SHOWN if name in lines[0]["validation"]] or list(
        lines[0]["validation"]
    )[:3]
    sign = -1 if is_error(names[0]) else 1
    best = max(
        lines, key=lambda line: (sign * line["validation"].get(names[0], 0.0), -line["round"])
    )
    rows: list[list[Child]] = [
        [
            join(tag("b", str(line["round"])), " best") if line is best else str(line["round"]),
            *(
                numbers.metric(line["validation"][name]) if name in line["validation"] else "none"
                for name in names
            ),
            numbers.size(line["bytes_up"]),
            numbers.size(line["bytes_down"]),
            numbers.seconds(line["seconds"]),
        ]
        for line in lines
    ]
    head: list[Child] = [
        "round",
        *(tag("code", name) for name in names),
        "bytes up",
        "bytes down",
        "seconds",
    ]
    said = join(shown.named(), f": looks at validation, {lines[0]['phase']}")
    return table(said, head, rows, label=f"{shown.label}, validation")
