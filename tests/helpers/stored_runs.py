"""Tiny stored runs for the tests of the report, and a reader of its pages that knows what
well-formed means.
"""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
from small_data import random_data

from entrenous.report.html import write_report
from entrenous.runs import pipeline as experiment
from entrenous.runs import store

HOSTILE = "<script>alert(1)</script>"
VOID = {"meta", "br", "link"}


def tiny(title="Film"):
    """40 users, 30 items, with titles and with a category that means mischief."""
    data = random_data()
    items = len(data.items)
    features = {
        "title": np.array([f"{title} {n}" for n in range(items)]),
        "category": np.array(["drama", f"drama|{HOSTILE}", "war & peace"] * items)[:items],
    }
    return replace(data, features=features)


def stored(out: Path, algorithm: str, **options) -> store.StoredRun:
    """A run on `tiny` with little training, stored and read back."""
    if algorithm == "fpl":
        options = {
            "rounds": 6,
            **options,
            "settings": {"factors": 4, "triples": 10, **options.get("settings", {})},
        }
    made = experiment.run(
        algorithm, options.pop("data", None) or tiny(), out=out, threads=1, **options
    )
    return store.read(str(made.path), out)


def page(path: Path, *runs: store.StoredRun, **options) -> Page:
    """The report of some runs, read back."""
    return Page(write_report(runs, path / "report.html", **options).read_text(encoding="utf-8"))


class Page(HTMLParser):
    """What stands in a page. tags: [(name, attributes)]; tables: {name of the frame: [[cell, ...],
    ...]}; text: all words; wrong: tags that are closed in the wrong order or not at all."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.html, self.tags, self.tables, self.wrong, self.open = html, [], {}, [], []
        self.words: list[str] = []
        self.frame = ""
        self.feed(html)
        self.close()
        self.wrong += [f"<{name}> is not closed" for name in self.open]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        if tag not in VOID:
            self.open.append(tag)
        if attributes.get("class") == "scroll":
            self.frame = attributes["aria-label"]
            self.tables.setdefault(self.frame, [])
        if tag == "tr":
            self.tables[self.frame].append([])
        if tag in ("td", "th"):
            self.tables[self.frame][-1].append("")

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data):
        if "style" in self.open:
            return
        self.words.append(data)
        if {"td", "th"} & set(self.open):
            self.tables[self.frame][-1][-1] += data

    def row(self, frame: str, head: str) -> list[str]:
        """The row of a table that begins with `head`."""
        return next(row for row in self.tables[frame] if row[0] == head)

    def all(self, tag: str) -> list[dict]:
        """The attributes of every element of a kind."""
        return [attributes for name, attributes in self.tags if name == tag]
