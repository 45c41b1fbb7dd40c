"""The report of one run or of several: one HTML page that needs no network and no script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .. import __version__
from ..core.errors import InputError
from ..runs.store import StoredRun, write_atomically
from .about import glossary, lead, what_was_run
from .fairness import between_users
from .leakage import Audits, Point, given_away, plane, points_of, sentence
from .lists import by_category, top
from .markup import Html, folded, join, tag
from .privacy import what_left
from .results import results
from .runs import Group, ShownRun, groups
from .theme import style
from .training import learning
from .users import significance, spread
from .verdict import verdict

# Runs that the title names.
NAMED = 3
# Sections that are not folded: the first two with a story, the others without one.
OPEN = (
    "Where each run stands",
    "What each person gave away",
    "Results",
    "What left the devices",
)
# The page may load nothing, whatever a title or an id contains.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def write_report(
    runs: Sequence[StoredRun],
    path: Path,
    *,
    audits: Audits | None = None,
    recommendations: Sequence[Mapping[str, Any]] | None = None,
    user: str | None = None,
) -> Path:
    """Writes the report of one run, or of several, and returns `path`. The same runs give the same
    bytes.

    Runs on the same rows under the same protocol share tables and figures; others get separate
    sections. With audits the page begins with accuracy against leakage, and the rest is folded.

    audits: {name of a run: the report of an audit of it}. recommendations: the best items for
    `user` by the first run, as `evaluation.recommend.recommendations` returns them.

    Raises InputError if there is no run, a run is not finished, or the file cannot be written.
    """
    content = page(groups(runs), audits or {}, recommendations, user).encode()
    # A folder in its place is a likely mistake, and gets words of its own.
    if path.is_dir():
        raise InputError(str(path), "is a folder", expected="a file to write the report to")
    try:
        write_atomically(path, content)
    except OSError as cause:
        raise InputError(
            str(path),
            f"cannot be written ({cause.strerror})",
            expected="a file in a writable folder",
        ) from None
    return path


class Section(NamedTuple):
    """A section of a report."""

    slug: str
    heading: str
    content: Html
    folded: bool


def page(
    grouped: list[Group],
    audits: Audits,
    recommendations: Sequence[Mapping[str, Any]] | None,
    user: str | None,
) -> Html:
    """The whole report as one HTML document. recommendations: for `user`, or None."""
    runs = [shown for group in grouped for shown in group.runs]
    title = f"Entrenous report: {'; '.join(group.title for group in grouped)}"
    sections = []
    stories = []
    for group in grouped:
        points = points_of(group, audits)
        sections += _sections(group, points, len(grouped) > 1)
        if points:
            stories.append(tag("p", sentence(points), class_="story"))
    if recommendations:
        content = top(runs[0], recommendations, user)
        sections.append(Section("recommended", "Recommended", content, True))
    head = tag(
        "header",
        tag("p", "Entrenous report", class_="mark"),
        tag("h1", "Accuracy against leakage" if stories else _heading(runs)),
        stories,
        lead(grouped),
        # With a story these findings stand in the results.
        None if stories else verdict(grouped),
    )
    main = tag("main", [_section(section) for section in sections], glossary(_metrics(runs)))
    body = tag("body", head, main, _footer(runs))
    return join(Html("<!DOCTYPE html>\n"), tag("html", page_head(title), body, lang="en"))


def _metrics(runs: list[ShownRun]) -> list[str]:
    """The names of all metrics in a report, some of them repeatedly."""
    names: list[str] = []
    for shown in runs:
        names += [*shown.manifest["metrics"], *shown.manifest["by_category"]]
    return names


def _heading(runs: list[ShownRun]) -> str:
    if len(runs) > NAMED:
        return f"{len(runs)} runs compared"
    return ", ".join(shown.label for shown in runs)


def page_head(title: str) -> Html:
    """The head of a page."""
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("title", title),
        style(),
    )


def _sections(group: Group, points: Sequence[Point], several: bool) -> list[Section]:
    """The sections of a group. Among several groups their headings name the group. points: the
    runs between accuracy and leakage, if they were audited; all other sections are folded then.
    """
    first = verdict([group]) if points else None
    contents = {
        "Where each run stands": plane(points, group.slug) if points else None,
        "What each person gave away": given_away(points, group.slug) if points else None,
        "Results": join(first, results(group)),
        "What left the devices": what_left(group),
        "User by user": spread(group),
        "Fairness": between_users(group),
        "Significance": significance(group),
        "Learning": learning(group),
        "Categories": by_category(group),
        "What was run": what_was_run(group),
    }
    shown = OPEN[:2] if points else OPEN
    sections = []
    for place, (heading, html) in enumerate(contents.items()):
        if html:
            title = f"{heading}: {group.title}" if several else heading
            slug = f"{group.slug}-{place}"
            sections.append(Section(slug, title, html, heading not in shown))
    return sections


def _section(section: Section) -> Html:
    heading_id = f"{section.slug}-h"
    heading = tag("h2", section.heading, id=heading_id)
    if section.folded:
        content = folded(heading, tag("div", section.content))
    else:
        content = join(heading, section.content)
    return tag("section", content, id=section.slug, aria_labelledby=heading_id)


def _footer(runs: list[ShownRun]) -> Html:
    names = ", ".join(str(shown.manifest["run"]) for shown in runs)
    words = (
        f"Written by entrenous {__version__} from the stored runs {names}. This page loads nothing"
        " and sends nothing."
    )
    return tag("footer", tag("p", words))
