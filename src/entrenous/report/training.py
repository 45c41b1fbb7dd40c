"""The learning curve: the validation metric over rounds, and over the bytes of the rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from ..core.errors import InputError, did_you_mean
from . import figures, numbers
from .markup import Child, Html, folded, join, table, tag
from .runs import ERRORS, FIRST, MAIN, Group, ShownRun, is_error
from .theme import figure, side_by_side

# A line of trace.jsonl.
Line = Mapping[str, Any]
# The phase of the windows of a stream, which have the figures of popularity on the same rows too.
STREAM = "stream"
POPULAR = "popular"
# The metrics in the tables of looks.
SHOWN = (*ERRORS, MAIN, "hr@10", "auc")
# An axis is logarithmic if its series end further apart than this factor.
SPREAD = 20


def learning(group: Group) -> Html:
    """Curves of the runs that looked at validation, and the reason why others have none."""
    looked: dict[ShownRun, list[Line]] = {}
    reasons = []
    for shown in group.runs:
        lines = looks(shown)
        if lines:
            looked[shown] = lines
        else:
            reasons.append(tag("li", shown.named(), ": ", _why(shown)))
    missing = tag("ul", reasons, class_="small") if reasons else None
    # No curve to draw: the reasons are enough.
    if not looked:
        return join(missing)
    traces = folded("The curves in numbers", [_trace(*pair) for pair in looked.items()])
    return join(tag("p", _words(looked)), _curves(group, looked), missing, traces)


def looks(shown: ShownRun) -> list[Line]:
    """The looks at validation in the first phase of a run's trace: of the first fold, and of the
    search for the number of rounds if there was one.
    """
    trace = shown.run.trace
    if not trace:
        return []
    first = trace[0]["phase"]
    return [line for line in trace if line["phase"] == first and line["validation"]]


def _why(shown: ShownRun) -> Html:
    if not shown.device_rounds:
        return join("trained in one place, without rounds.")
    return join(
        "no look at validation. ",
        tag("code", "--every ROUNDS"),
        " looks, unless the protocol trains on validation rows too.",
    )


def _words(looked: dict[ShownRun, list[Line]]) -> str:
    if any(lines[0]["phase"] == STREAM for lines in looked.values()):
        return (
            "Each row is predicted before it is learnt. A point is the mean over the rows of a"
            " window, which the algorithm then learns; popularity so far recommends the items with"
            " the most rows at that moment, for the same rows."
        )
    words = (
        "Measured on the validation rows while training; the test rows are opened once, at the end."
    )
    if any("folds" in shown.manifest for shown in looked):
        words += " Shown is the first fold."
    return words


def _curves(group: Group, looked: dict[ShownRun, list[Line]]) -> Html | None:
    """The best known metric that all runs looked at, over rounds and over bytes; of a stream, over
    the rows so far.
    """
    streams = {shown.label: lines for shown, lines in looked.items() if _is_stream(lines)}
    if streams:
        return figure(stream_figure(streams, "Prequential accuracy", MAIN, group.slug))
    first_looks = [lines[0]["validation"] for lines in looked.values()]
    common = [name for name in FIRST if all(name in metrics for metrics in first_looks)]
    # Runs that share no metric are drawn by one of the first.
    metric = common[0] if common else next(iter(first_looks[0]))
    most_bytes = max(_bytes(lines[-1]) for lines in looked.values())
    scale, unit = numbers.byte_unit(most_bytes)
    over_rounds = {}
    over_bytes = {}
    for shown, lines in looked.items():
        values = [line["validation"].get(metric, float("nan")) for line in lines]
        rounds = [line["round"] for line in lines]
        sent = [_bytes(line) / scale for line in lines]
        over_rounds[shown.label] = rounds, values
        over_bytes[shown.label] = sent, values
    return side_by_side(
        _curve(group, over_rounds, metric, "round", "rounds"),
        _curve(group, over_bytes, metric, f"{unit} up and down, all devices", "bytes"),
    )


def _is_stream(lines: Sequence[Line]) -> bool:
    return lines[0]["phase"] == STREAM


def stream_figure(
    streams: Mapping[str, Sequence[Line]], title: str, metric: str, name: str = ""
) -> str:
    """A metric of each window of some streams by name, over the rows so far, with popularity so
    far. Raises InputError for a metric that windows do not have.
    """
    series = {}
    for label, lines in streams.items():
        tested = [line for line in lines if line["validation"]]
        known = tested[0]["validation"]
        if f"{POPULAR} {metric}" not in known:
            raise InputError("plot", f"no '{metric}'", fix=did_you_mean(metric, known))
        rows = list(accumulate(line["rows"] for line in tested))
        for words, column in ((label, metric), ("popularity so far", f"{POPULAR} {metric}")):
            series[words] = rows, [line["validation"][column] for line in tested]
    look = figures.FigureFormat(
        title=title, x_label="rows so far", y_label=f"{metric} of a window", name=f"{name}-stream"
    )
    return figures.lines(series, look, marks=False)


def _curve(
    group: Group,
    series: dict[str, tuple[list[float], list[float]]],
    metric: str,
    x_label: str,
    what: str,
) -> Html | None:
    ends = [x[-1] for x, _ in series.values()]
    # Curves of very different lengths would be squeezed on a linear axis.
    logarithmic = min(ends) > 0 and max(ends) / min(ends) > SPREAD
    svg = figures.lines(
        series,
        figures.FigureFormat(
            title=f"Learning over {what}",
            x_label=f"{x_label} (logarithmic)" if logarithmic else x_label,
            y_label=f"{metric} on validation",
            name=f"{group.slug}-{what}",
        ),
        log_x=logarithmic,
        order=group.order,
    )
    return figure(svg)


def _bytes(line: Line) -> float:
    """The bytes that all devices have sent and received until a look."""
    return float(line["bytes_up"] + line["bytes_down"])


def _trace(shown: ShownRun, lines: list[Line]) -> Html:
    """A table of the looks of one run, the best of them marked."""
    measured = list(lines[0]["validation"])
    names = [name for name in SHOWN if name in measured] or measured[:3]
    main = names[0]
    sign = -1 if is_error(main) else 1

    def goodness(line: Line) -> tuple[float, int]:
        # The earliest of equals is the best: it took the fewest rounds.
        return sign * line["validation"].get(main, 0.0), -line["round"]

    best = max(lines, key=goodness)
    head: list[Child] = ["round", *(tag("code", name) for name in names)]
    head += ["bytes up", "bytes down", "seconds"]
    rows: list[list[Child]] = []
    for line in lines:
        number = str(line["round"])
        row: list[Child] = [join(tag("b", number), " best") if line is best else number]
        metrics = line["validation"]
        for name in names:
            row.append(numbers.metric(metrics[name]) if name in metrics else "none")
        row += [numbers.size(line["bytes_up"]), numbers.size(line["bytes_down"])]
        row.append(numbers.seconds(line["seconds"]))
        rows.append(row)
    caption = join(shown.named(), f": looks at validation, {lines[0]['phase']}")
    return table(caption, head, rows, label=f"{shown.label}, validation")
