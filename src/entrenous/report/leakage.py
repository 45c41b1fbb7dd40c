"""Accuracy against leakage: a point for each run, one sentence, and what each person gave away.

The leakage of a run is the share of a person's history that the best attack of an audit guesses
right (R-precision). The knowledge that it owes to people's taking part is shown where the audit
measured it. The server of a centralised run holds every history, so nothing is to be guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..core.printed import counted
from ..privacy.evidence import best, by_part, seen
from ..privacy.told import verdict_of
from . import figures, numbers
from .axes import Axis, text_width
from .markup import Child, Html, join, tag
from .results import interval_of
from .runs import Group, ShownRun, is_error, leading
from .theme import figure

# {name of a run: the report of an audit of it, as `entrenous audit --json` prints it}
Audits = Mapping[str, Mapping[str, Any]]

HIT = "hr@10"
SERVER = ("individual", "sum", "difference")
VERDICTS = {
    "EXPOSED": ("bad", "Exposed: histories can be read off."),
    "LEAKS": ("warn", "Leaks: attacks learn more than popularity tells."),
    "NO ADVANTAGE FOUND BY THESE ATTACKS": (
        "fair",
        "These attacks found no more than popularity tells.",
    ),
}
CENTRAL = ("bad", "Not attacked: its server holds every history.")
UNKNOWN = ("", "Not measured.")
LIMITS = (
    "These are findings of this version’s attacks on this data and on what they saw, not a"
    " guarantee: other attacks, or more rounds, may find more."
)
UNTRIED = "Not tried on people who never took part, from whom much may be guessable too."
# Of the percentage axes.
WHOLE = 104.0


class Point(NamedTuple):
    """A run between accuracy and leakage."""

    shown: ShownRun
    metric: str
    accuracy: float
    leak: float
    """The share of a history that the best attack guesses right; 1 for a centralised run."""
    entry: Mapping[str, Any] | None
    """The audit; None for a centralised run."""
    attack: Mapping[str, Any] | None
    """Its best attack."""

    @property
    def guess(self) -> float:
        """The share of a history that popularity alone guesses right."""
        return 0.0 if self.attack is None else float(self.attack["popularity_r_precision"])

    @property
    def part(self) -> Mapping[str, Any] | None:
        """The figures of the attack on people whom a training left out; None if it was not tried on
        them.
        """
        return None if self.attack is None else by_part(self.attack)

    @property
    def verdict(self) -> tuple[str, str]:
        """The class of the verdict in the style sheet, and its words."""
        if self.entry is None:
            return CENTRAL
        return VERDICTS.get(verdict_of(self.entry), UNKNOWN)


def points_of(group: Group, audits: Audits) -> list[Point]:
    """The runs of a group whose accuracy and leakage are both known, in order; [] unless an attack
    was tried on one of them.
    """
    points = []
    metric = _metric(group)
    for shown in group.runs:
        entry = audits.get(str(shown.manifest["run"]))
        attack = None if entry is None else best(entry)
        measured = shown.manifest["metrics"]
        if metric not in measured:
            continue
        if attack is not None:
            leak = float(attack["r_precision"])
            points.append(Point(shown, metric, measured[metric], leak, entry, attack))
        elif not shown.device_rounds:
            points.append(Point(shown, metric, measured[metric], 1.0, None, None))
    if all(point.attack is None for point in points):
        return []
    return points


def _metric(group: Group) -> str:
    """The metric of accuracy: the share of people with a hit if all runs have it."""
    if all(HIT in shown.manifest["metrics"] for shown in group.runs):
        return HIT
    names = leading(group)
    return names[0] if names else ""


# ---- the sentence and the points -----------------------------------------------------------------


def sentence(points: Sequence[Point]) -> Html:
    """One sentence: the run that gives least away, and compared with it the one that gives most."""
    attacked = [point for point in points if point.attack is not None]
    least = min(attacked, key=lambda point: point.leak)
    most = max(points, key=lambda point: (point.attack is not None, point.leak))
    words = join(
        "With ",
        tag("b", least.shown.label),
        ", ",
        _reached(least),
        f" while {_who(attacked)} guesses ",
        _share(least.leak),
        " of a person’s history right (from popularity alone: ",
        _share(least.guess),
        ")",
    )
    if most is least:
        return join(words, ".")
    other = ("; with ", tag("b", most.shown.label), " it is ", _number(most), " and ")
    return join(words, other, _share(most.leak), ".")


def _who(attacked: Sequence[Point]) -> str:
    """The onlooker of the audits, and how long it looked on."""
    entries = [point.entry for point in attacked if point.entry is not None]
    who = "an onlooker"
    if all(entry["view"] in SERVER for entry in entries):
        who = "a curious server"
    rounds = {int(entry["rounds"]) for entry in entries}
    # Audits of the final model see no rounds.
    if len(rounds) == 1 and rounds != {0}:
        (seen_rounds,) = rounds
        who += f", after {counted(seen_rounds, 'round')},"
    return who


def _reached(point: Point) -> Html:
    """The accuracy of a point in words."""
    if point.metric != HIT:
        return join(point.metric, " is ", _number(point))
    return join(_number(point), " people find a held-out item among their ten best")


def _number(point: Point) -> Html:
    """The accuracy of a point as a number of people, if it is one."""
    if point.metric != HIT:
        return numbers.metric(point.accuracy)
    return numbers.exact(point.accuracy, f"{100 * point.accuracy:.0f} of 100")


def _share(value: float) -> Html:
    """A share in percent. A share that is neither nothing nor all is shown as neither."""
    text = f"{100 * value:.0f}"
    if text in ("0", "100") and 0 < value < 1:
        text = f"{100 * value:.1f}"
    return numbers.exact(value, f"{text}\N{NO-BREAK SPACE}%")


def plane(points: Sequence[Point], slug: str) -> Html:
    """The figure of accuracy against leakage, and a card for each point."""
    metric = points[0].metric
    scale = 100.0 if metric == HIT else 1.0
    name = "people with a hit in their ten best, %" if metric == HIT else metric
    look = figures.FigureFormat(
        "Accuracy against leakage",
        x_label="share of a person’s history that is guessed right, %",
        y_label=name,
        height=320.0,
        name=f"{slug}-plane",
    )
    most = WHOLE if metric == HIT else 1.2 * max(point.accuracy for point in points)
    frame = figures.Canvas(look, Axis(0.0, WHOLE), Axis(0.0, most))
    guess = min(point.guess for point in points if point.attack is not None)
    shapes = [*_floor(frame, 100 * guess), *_corner(frame, is_error(metric))]
    rows: list[tuple[float, float, float]] = []
    for point in points:
        shapes += _spans(frame, point, scale)
        (place,) = frame.places(100 * point.leak, scale * point.accuracy)
        shapes.append(figures.mark(point.shown.number, place, 1.6))
        shapes.append(_label(point.shown.label, place, rows))
    drawn = figure(frame.drawn(shapes, []), _caption(points))
    return tag("div", drawn, tag("div", map(_card, points), class_="cards"), class_="plane")


def _floor(frame: figures.Canvas, guess: float) -> list[Html]:
    """A dashed line where popularity alone guesses."""
    x = frame.x.at(guess)
    line = figures.path([(x, figures.TOP), (x, frame.floor)], figures.MUTED, "4 4", width=1.2)
    muted = f"fill:{figures.MUTED}"
    return [
        line,
        figures.text("popularity", x + 6, frame.floor - 22, style=muted),
        figures.text("alone", x + 6, frame.floor - 8, style=muted),
    ]


def _corner(frame: figures.Canvas, lower: bool) -> list[Html]:
    """Says where the better corner is. lower: less of the metric is better."""
    words, y = ("↙ better", frame.floor - 8) if lower else ("↖ better", figures.TOP + 14)
    return [figures.text(words, frame.left + 6, y, style=f"fill:{figures.MUTED}")]


def _spans(frame: figures.Canvas, point: Point, scale: float) -> list[Html]:
    """The 95 % intervals over users of a point: of its accuracy, and of its leakage."""
    line = figures.colour(point.shown.number)
    shapes = []
    span = interval_of(point.shown, point.metric)
    if span is not None:
        ends = frame.places([100 * point.leak] * 2, [scale * end for end in span])
        shapes.append(figures.path(ends, line, "", width=1.4))
    if point.attack is not None and point.attack["low"] is not None:
        leaks = [100 * (point.guess + point.attack[end]) for end in ("low", "high")]
        ends = frame.places(leaks, [scale * point.accuracy] * 2)
        shapes.append(figures.path(ends, line, "", width=1.4))
    return shapes


def _label(name: str, place: figures.Point, rows: list[tuple[float, float, float]]) -> Html:
    """The name of a point, on the side that has room; below names that are there already.

    rows: left end, right end and height of these; gets those of this one.
    """
    x, y = place
    wide = text_width(name, figures.TEXT)
    right = x < 250
    left = x + 12 if right else x - 12 - wide
    y += 4
    while any(left < end and start < left + wide and abs(y - at) < 14 for start, end, at in rows):
        y += 15
    rows.append((left, left + wide, y))
    edge = left if right else left + wide
    style = f"fill:{figures.INK};font-weight:600"
    return figures.text(name, edge, y, anchor="start" if right else "end", style=style)


def _caption(points: Sequence[Point]) -> str:
    words = "Lines through a point: 95 % intervals, users alone, one seed. Attacked were "
    materials = "; ".join(
        f"{seen(point.entry)} ({point.shown.label})" for point in points if point.entry is not None
    )
    return f"{words}{materials}."


def _card(point: Point) -> Html:
    """The two numbers of a point, large, and the verdict in words."""
    tone, words = point.verdict
    unit = "people with a hit among their ten best" if point.metric == HIT else point.metric
    if point.attack is None:
        known = "of a history is on the server"
    else:
        known = join("of a history guessed right (popularity: ", _share(point.guess), ")")
    return tag(
        "article",
        tag("h3", point.shown.named()),
        tag("p", tag("b", _number(point)), tag("span", unit)),
        tag("p", tag("b", _share(point.leak)), tag("span", known)),
        _because(point),
        tag("p", words, class_=f"verdict-{tone}"),
    )


def _because(point: Point) -> Child:
    """The share that is known because people took part, and the two shares behind it."""
    if point.attack is None:
        return ""
    if point.part is None:
        return tag("p", UNTRIED)
    words = join(
        f"because they took part: of {point.part['people']} people ",
        _share(point.part["guessable"]),
        " by a model without them, ",
        _share(point.part["took_part"]),
        " by the same with them",
    )
    return tag("p", tag("b", _difference(point.part["because"])), tag("span", words))


def _difference(value: float) -> Html:
    """The difference of two shares, in percentage points."""
    return numbers.exact(value, f"{100 * value:+.1f}\N{NO-BREAK SPACE}points")


# ---- what each person gave away ------------------------------------------------------------------


def given_away(points: Sequence[Point], slug: str) -> Html:
    """The share of a history that is guessed, from the person known least to the one known
    best.
    """
    shares = [10.0 * place for place in range(11)]
    series: dict[str, tuple[list[float], list[float]]] = {}
    for point in points:
        if point.attack is not None and point.attack.get("spread"):
            percents = [100 * value for value in point.attack["spread"]]
            series[point.shown.label] = (shares, percents)
        elif point.attack is None:
            series[point.shown.label] = (shares, [100.0] * len(shares))
    spreads = [point.attack.get("popularity_spread") for point in points if point.attack]
    known = [spread for spread in spreads if spread]
    if known:
        series["popularity alone"] = (shares, [100 * value for value in known[0]])
    look = figures.FigureFormat(
        "Person by person",
        x_label="people, from those known least to those known best, %",
        y_label="history guessed right, %",
        name=f"{slug}-people",
    )
    order = [point.shown.label for point in points]
    drawn = figure(
        figures.lines(series, look, marks=False, order=order),
        "A point tells: so many percent of the people have at most so much of their history"
        " guessed right.",
    )
    return tag("div", drawn, tag("p", LIMITS, class_="small"), class_="plane")
