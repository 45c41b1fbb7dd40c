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
from .lists import by_category, top
from .markup import Html, join, tag
from .privacy import what_left
from .results import results
from .runs import Group, ShownRun, groups
from .theme import style, without_figures
from .training import learning
from .users import significance, spread
from .verdict import verdict

# Runs that the title names.
NAMED = 3
# The page may load nothing, whatever a title or an id contains.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def write_report(
    runs: Sequence[StoredRun],
    path: Path,
    *,
    recommendations: Sequence[Mapping[str, Any]] | None = None,
    user: str | None = None,
) -> Path:
    """Writes the report of one run, or of several, and returns `path`. The same runs give the same
    bytes.

    Runs on the same rows under the same protocol share tables and figures; others get separate
    sections. recommendations: the best items for `user` by the first run, as
    `evaluate.recommend.recommendations` returns them.

    Raises InputError if there is no run, a run is not finished, or the file cannot be written.
    """
    content = page(groups(runs), recommendations, user).encode()
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
    listed: bool = True
    """True if the index at the top links to it."""


def page(
    grouped: list[Group], recommendations: Sequence[Mapping[str, Any]] | None, user: str | None
) -> Html:
    """The whole report as one HTML document. recommendations: for `user`, or None."""
    runs = [shown for group in grouped for shown in group.runs]
    title = f"Entrenous report: {'; '.join(group.title for group in grouped)}"
    sections = [section for group in grouped for section in _sections(group, len(grouped) > 1)]
    if recommendations:
        content = top(runs[0], recommendations, user)
        sections.append(Section("recommended", "Recommended", content))
    links = []
    for section in sections:
        if section.listed:
            links.append(tag("a", section.heading, href=f"#{section.slug}"))
    head = tag(
        "header",
        tag("p", "Entrenous report", class_="mark"),
        tag("h1", _heading(runs)),
        lead(grouped),
        verdict(grouped),
        without_figures(),
        tag("nav", links, aria_label="Sections"),
    )
    main = tag("main", [_section(section) for section in sections], glossary(_metrics(runs)))
    body = tag("body", head, main, _footer(runs))
    return join(Html("<!DOCTYPE html>\n"), tag("html", _head(title), body, lang="en"))


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


def _head(title: str) -> Html:
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("title", title),
        style(),
    )


def _sections(group: Group, several: bool) -> list[Section]:
    """The sections of a group. Among several groups their headings name the group, and the index
    links to the first section alone.
    """
    contents = {
        "Results": results(group),
        "What left the devices": what_left(group),
        "User by user": spread(group),
        "Fairness": between_users(group),
        "Significance": significance(group),
        "Learning": learning(group),
        "Categories": by_category(group),
        "What was run": what_was_run(group),
    }
    sections = []
    for place, (heading, html) in enumerate(contents.items()):
        if not html:
            continue
        slug = f"{group.slug}-{place}"
        if several:
            sections.append(Section(slug, f"{heading}: {group.title}", html, place == 0))
        else:
            sections.append(Section(slug, heading, html))
    return sections


def _section(section: Section) -> Html:
    heading_id = f"{section.slug}-h"
    heading = tag("h2", section.heading, id=heading_id)
    return tag("section", heading, section.content, id=section.slug, aria_labelledby=heading_id)


def _footer(runs: list[ShownRun]) -> Html:
    names = ", ".join(str(shown.manifest["run"]) for shown in runs)
    words = (
        f"Written by entrenous {__version__} from the stored runs {names}. This page loads nothing"
        " and sends nothing."
    )
    return tag("footer", tag("p", words))
