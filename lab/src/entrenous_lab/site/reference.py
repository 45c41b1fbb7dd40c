"""The pages of reference that follow from the code: metrics, protocols, algorithms, commands, the
wire. `PAGES` has a function for each, which returns its Markdown.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import entrenous
from entrenous.cli import _app, main
from entrenous.core.printed import summary_of
from entrenous.core.registry.discover import modules, offers
from entrenous.data.dataset import datasets
from entrenous.data.home import data_home
from entrenous.data.split.protocol import GIVEN
from entrenous.evaluation.metric_kinds import ListMetric, QueryMetric, RatingMetric
from entrenous.systems.named import algorithms, kind_of

from .cells import Cell, executed
from .prose import cell, markdown, table

GENERATED = "*Written by `python -m entrenous_lab.site` from the code; do not edit.*"
BOOKS = Path("docs") / "tutorials" / "books.csv"
COMMANDS = Path("docs") / "reference" / "commands.md"
WIDTH = "100"


def page(title: str, purpose: str, parts: list[str]) -> str:
    """Returns a page: title, what the reader will be able to do, and its parts."""
    return "\n\n".join([f"# {title}", purpose, GENERATED, *parts]) + "\n"


# ---- Python --------------------------------------------------------------------------------------


def python() -> str:
    """Each public name, for mkdocstrings to document from its docstring and annotations."""
    parts = []
    for name, place in entrenous.LAZY.items():
        parts.append(f"::: {place}.{name}")
    return page(
        "Python, name by name",
        "After this page you can look up every public name, its arguments, its results and its"
        " errors. `import entrenous` offers them all; the site shows what their docstrings say, and"
        " so does `help(entrenous.run)`.",
        parts,
    )


# ---- metrics -------------------------------------------------------------------------------------


def metrics() -> str:
    """Each metric with its formula, its name in trec_eval, if any, and a worked example."""
    parts = [markdown(module) for module in modules("entrenous.evaluation.metrics").values()]
    kinds = {"Accuracy": QueryMetric, "Lists": ListMetric, "Errors": RatingMetric}
    known = sorted(offers("entrenous.evaluation.metrics", "METRICS").items())
    for title, kind in kinds.items():
        parts.append(f"## {title}")
        for name, metric in known:
            if isinstance(metric, kind):
                parts.append(f"### `{name}`")
                parts.append(markdown(_function(metric)))
    return page(
        "Metrics",
        "After this page you can say what each figure of a run is, and recompute it by hand. The"
        " tests compare all of them with `ir-measures` or with a direct computation.",
        parts,
    )


def _function(metric: Any) -> Callable[..., Any]:
    """Returns the function inside a metric."""
    return next(part for part in metric if callable(part))


# ---- protocols -----------------------------------------------------------------------------------


def protocols() -> str:
    """Each protocol with what it holds out."""
    from entrenous.data.split.given import given

    rows: dict[str, Any] = {**offers("entrenous.data.split", "PROTOCOLS"), GIVEN: given}
    parts = []
    for name in sorted(rows):
        parts.append(f"### `{name}`")
        parts.append(markdown(rows[name]))
    return page(
        "Protocols",
        "After this page you can name how rows are held out and ranked. A number in a name may be"
        " replaced by another one (`loo-50`); options follow the name (`given,repeats=keep`). [Your"
        " own data](../data.md) says how times are read.",
        parts,
    )


# ---- algorithms ----------------------------------------------------------------------------------


def declarations() -> str:
    """The declaration of each algorithm: what its devices receive, keep and send, and its settings.

    Names that share a class are one entry.
    """
    classes: dict[Any, list[str]] = {}
    for name in algorithms():
        classes.setdefault(kind_of(name)[0], []).append(name)
    parts: list[str] = []
    for kind, names in sorted(classes.items(), key=lambda entry: entry[1][0]):
        parts += _declaration(kind, names)
    return page(
        "Algorithms, as they declare themselves",
        "After this page you can tell what crosses the boundary of a device under each algorithm,"
        " and name its settings. The program holds every run to these declarations;"
        " `entrenous explain NAME` adds what attacks made of them"
        " ([measured](../results/measured.md)).",
        parts,
    )


def _declaration(kind: Any, names: list[str]) -> Iterator[str]:
    from entrenous.core.contract.declared import declared, fields_of

    declaration = declared(algorithms()[names[0]]())
    yield f"## {', '.join(f'`{name}`' for name in names)}"
    yield f"{summary_of(kind.__doc__)} Kind: {declaration.kind}."
    rows = []
    for part, state in (("receives", declaration.receives), ("keeps", declaration.keeps)):
        if state is not None:
            for field in fields_of(state, part):
                rows.append([part, f"`{field.name}`", cell(field.said), ""])
    for sent in declaration.sends:
        reveals = f"{sent.when}: {sent.reveals}"
        rows.append(["sends", f"`{sent.name}`", cell(sent.said), cell(reveals)])
    if rows:
        yield table(["", "array", "shape", "when, and what it reveals"], rows)
    settings = []
    for name, field in kind.model_fields.items():
        settings.append([f"`{name}`", f"`{field.default}`", cell(field.description or "")])
    if settings:
        yield "<details markdown><summary>Settings</summary>"
        yield table(["setting", "default", "meaning"], settings)
        yield "</details>"


# ---- commands ------------------------------------------------------------------------------------

# Real output of each command, on the book club of the tutorials. What needs a network, hours or the
# reader's own keys has its help alone. The demo is run where its data is.
DEMO = "entrenous demo 2>/dev/null | head -19"
EXAMPLES = {
    "algorithms": "entrenous algorithms | head -12",
    "data": "entrenous data check books.csv",
    "split": "entrenous split books.csv --protocol loo-99 --out held-out",
    "run": "entrenous run fcf --data books.csv --rounds 20 2>/dev/null | head -12",
    "runs": "entrenous runs 2>/dev/null | grep -o 'fcf-books[^ ]*'",
    "recommend": "entrenous recommend latest --user r007 --n 3",
    "compare": "entrenous compare fcf popular --data books.csv --seeds 2 --rounds 20 2>/dev/null"
    " | head -6",
    "tune": "entrenous tune fcf --data books.csv --grid factors=8,16 --rounds 20 2>/dev/null",
    "export": "entrenous export latest --format csv --out files 2>/dev/null\nls files",
    "report": "entrenous report latest --out page.html",
    "check": "entrenous check fcf",
    "leakcheck": "entrenous leakcheck fcf --data books.csv --protocol loo-99 2>/dev/null | head -8",
    "explain": "entrenous explain popular",
    "audit": "entrenous audit fcf --data books.csv --quick 2>/dev/null | head -7",
    "receipt": "entrenous run fcf --data books.csv --rounds 20 >/dev/null 2>&1\n"
    "entrenous receipt latest --user r007 2>/dev/null | grep -E '^- |:$' | head -12",
    "predict": "entrenous run fbalf --data books.csv --protocol random-80-20 >/dev/null 2>&1\n"
    "entrenous predict latest --user r007 --item 'Iron Oath' 2>/dev/null",
    # `try` runs a server; what it writes is in its folder. Later lines follow the clock.
    "server": "entrenous federation try club --data books.csv --rounds 2"
    " >/dev/null 2>&1\n"
    "grep -o 'round 0: .*devices' club/server/server.log",
}


def commands() -> str:
    """Every command: its help, and what it prints on the book club of the tutorials."""
    demo = demo_output()
    examples = {"demo": DEMO, **EXAMPLES} if demo else EXAMPLES
    outputs = {"demo": demo, **example_outputs()}
    parts = []
    for name in names_of_commands():
        parts.append(f"## `{name}`")
        if name in examples:
            parts.append(f"```bash\n{examples[name]}\n```")
            parts.append(f"```text\n{outputs[name]}\n```")
        for words in ([name], *([name, sub] for sub in subcommands(name))):
            parts.append(f"<details><summary>entrenous {' '.join(words)} --help</summary>")
            parts.append(f"```text\n{help_of(words)}\n```\n\n</details>")
    return page(
        "Every command",
        "After this page you can look up each command, its options, and what it prints. [The"
        " command line](../command-line.md) says what options mean that several commands share.",
        parts,
    )


def names_of_commands() -> list[str]:
    """Returns the commands of `entrenous`, those of other distributions left out."""
    others = {"experiment", "papers", "bench"}
    return [name for name in _app() if not name.startswith("-") and name not in others]


def subcommands(name: str) -> list[str]:
    """Returns the commands below a command, such as those of `federation`."""
    return [sub for sub in _app()[name] if not sub.startswith("-")]


def help_of(words: list[str]) -> str:
    """Returns what `entrenous WORDS --help` prints, without colours."""
    printed = io.StringIO()
    was = {name: os.environ.get(name) for name in ("COLUMNS", "NO_COLOR")}
    os.environ.update(COLUMNS=WIDTH, NO_COLOR="1")
    try:
        with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
            main([*words, "--help"])
    finally:
        for name, value in was.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    return "\n".join(line.rstrip() for line in printed.getvalue().strip().splitlines())


def example_outputs() -> Mapping[str, str]:
    """Runs the examples in order, in one folder, and returns what each prints."""
    cells = [Cell("bash", command) for command in EXAMPLES.values()]
    outputs = executed(cells, [BOOKS])
    return {name: said.text for name, said in zip(EXAMPLES, outputs, strict=True)}


def demo_output() -> str:
    """Returns what the demo prints: run here, or as the page has it where its data is not here."""
    if datasets()["ml-100k"].present():
        return executed([Cell("bash", DEMO)], data=data_home())[0].text
    stored = COMMANDS.read_text(encoding="utf-8")
    said = re.search(rf"```bash\n{re.escape(DEMO)}\n```\n\n```text\n(.*?)\n```", stored, re.S)
    return said[1] if said else ""


# ---- the wire ------------------------------------------------------------------------------------


def wire() -> str:
    """The formats between processes, as their modules describe them."""
    parts = []
    for package, title in (
        ("entrenous_network.frames", "Frames: signed messages"),
        ("entrenous_network.wire", "Arrays as bytes"),
        ("entrenous_network.links", "HTTPS"),
    ):
        parts.append(f"## {title}")
        for name, module in sorted(modules(package).items()):
            if re.search(r"_|^port$", name):
                continue
            parts.append(f"### `{module.__name__.removeprefix('entrenous_network.')}`")
            parts.append(markdown(module))
    return page(
        "The wire",
        "After this page you can read a message between a server and its nodes. Every array on the"
        " wire is one that the algorithm [declares](declarations.md).",
        parts,
    )


# ---- files ---------------------------------------------------------------------------------------

# The modules that write folders, and the title of each.
WRITERS = {
    "A run": "entrenous.runs.store",
    "A server": "entrenous_network.server.server_folder",
    "The journal of a round": "entrenous_network.server.journal",
    "A node": "entrenous_network.node.node_store",
    "A peer": "entrenous_network.peers.folder",
    "Parties of a federation": "entrenous_network.agreement.files",
    "The items of a federation": "entrenous_network.agreement.catalogue",
}


def files() -> str:
    """The folders that the package writes, as the modules that write them describe them."""
    parts = []
    for title, module in WRITERS.items():
        parts.append(f"## {title}")
        parts.append(markdown(importlib.import_module(module)))
    return page(
        "Files",
        "After this page you can say what each file in a folder of ours holds. [Options and"
        " files](../command-line.md#files) says which files are read.",
        parts,
    )


PAGES: Mapping[str, Callable[[], str]] = {
    "python": python,
    "metrics": metrics,
    "protocols": protocols,
    "declarations": declarations,
    "wire": wire,
    "files": files,
    "commands": commands,
}
