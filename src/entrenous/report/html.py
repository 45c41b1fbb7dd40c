"""The report: one HTML page that needs no network and no script, for one run or for several side by
side.
"""

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
from .runs import Group, groups
from .theme import style, without_figures
from .training import learning
from .users import significance, spread
from .verdict import verdict

NAMED = 3  # runs that the title names
# nothing may be loaded, whatever a title or an id contains
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

    Runs on the same rows under the same protocol share tables and figures; others get sections of
    their own. recommendations: the best items of one user by the first run, as
    `experiment.recommendations` returns them. user: who that is.

    Raises InputError if there is no run, a run is not finished, or the file cannot be written.
    """
    content = page(groups(runs), recommendations, user).encode()
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
    """A section of a report. listed: whether the index at the top links to it."""

    slug: str
    heading: str
    content: Html
    listed: bool = True


def page(
    found: list[Group], recommendations: Sequence[Mapping[str, Any]] | None, user: str | None
) -> Html:
    """The whole report as one HTML document. recommendations: of `user`, to be shown, or None."""
    title = f"Entrenous report: {'; '.join(group.title for group in found)}"
    sections = [section for group in found for section in _sections(group, len(found) > 1)]
    if recommendations:
        sections.append(
            Section("recommended", "Recommended", top(found[0].runs[0], recommendations, user))
        )
    links = [
        tag("a", section.heading, href=f"#{section.slug}") for section in sections if section.listed
    ]
    index = tag("nav", links, aria_label="Sections")
    top_line = tag("p", "Entrenous report", class_="mark")
    head = tag(
        "header",
        top_line,
        tag("h1", _heading(found)),
        lead(found),
        verdict(found),
        without_figures(),
        index,
    )
    main = tag("main", [_section(section) for section in sections], glossary(_metrics(found)))
    return join(
        Html("<!DOCTYPE html>\n"),
        tag("html", _head(title), tag("body", head, main, _footer(found)), lang="en"),
    )


def _metrics(found: list[Group]) -> list[str]:
    runs = [shown.manifest for group in found for shown in group.runs]
    return [name for manifest in runs for name in (*manifest["metrics"], *manifest["by_category"])]


def _heading(found: list[Group]) -> str:
    runs = [shown for group in found for shown in group.runs]
    return (
        ", ".join(shown.label for shown in runs)
        if len(runs) <= NAMED
        else f"{len(runs)} runs compared"
    )


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
    """The sections of a group; among several groups their headings name it, and the index leads to
    the first.
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
    return [
        Section(
            f"{group.slug}-{place}",
            f"{heading}: {group.title}" if several else heading,
            html,
            not several or place == 0,
        )
        for place, (heading, html) in enumerate(contents.items())
        if html
    ]


def _section(section: Section) -> Html:
    named = f"{section.slug}-h"
    return tag(
        "section",
        tag("h2", section.heading, id=named),
        section.content,
        id=section.slug,
        aria_labelledby=named,
    )


def _footer(found: list[Group]) -> Html:
    names = ", ".join(str(shown.manifest["run"]) for group in found for shown in group.runs)
    return tag(
        "footer",
        tag(
            "p",
            f"Written by entrenous {__version__} from the stored runs {names}. This page loads"
            " nothing and sends nothing.",
        ),
    )
