"""The facts of a run: algorithm, settings, data, protocol, seed, rounds, identity of the model."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from inspect import isfunction
from itertools import chain
from pathlib import PurePath
from typing import Any

from ..core.errors import InputError
from ..core.printed import summary_of
from ..core.registry.discover import in_folder, short
from ..data.reading import Reading
from ..evaluation.metric_kinds import metrics
from ..runs.store import protocol_of
from . import numbers
from .markup import Child, Html, facts, folded, join, table, tag
from .runs import Group, ShownRun, data_name, given_settings, in_order, kind, kind_of


def lead(groups: list[Group]) -> Html:
    """The opening paragraph of a report: a sentence for each group of runs."""
    sentences = [tag("p", _sentence(group), class_="lead") for group in groups]
    if len(groups) == 1:
        return join(sentences)
    apart = (
        "They differ in data, protocol or code: their numbers cannot be compared, and nothing is"
        " tested between them."
    )
    return join(sentences, tag("p", apart))


def _sentence(group: Group) -> Html:
    manifest = group.runs[0].manifest
    catalogue = manifest["catalogue"]
    runs = group.runs[0].label if len(group.runs) == 1 else f"{len(group.runs)} runs"
    size = (
        f"{catalogue['users']:,} users, {catalogue['items']:,} items,"
        f" {catalogue['interactions']:,} interactions"
    )
    seeds = sorted({shown.manifest["seed"] for shown in group.runs})
    word = "seeds" if len(seeds) > 1 else "seed"
    listed = ", ".join(map(str, seeds))
    return join(
        tag("b", runs),
        " on ",
        tag("b", data_name(manifest)),
        f" ({size}), protocol ",
        tag("b", protocol_of(manifest)),
        f", {word} {listed}.",
    )


def what_was_run(group: Group) -> Html:
    """The section on the runs side by side: the rows they share, and everything needed to run them
    again.
    """
    head = [
        "run",
        "algorithm",
        "settings given",
        "seed",
        "rounds",
        "training",
        "evaluation",
        "model sha256",
    ]
    rows = [_row(shown) for shown in group.runs]
    details = []
    for shown in group.runs:
        summary = join("Settings and identity of ", shown.named())
        content = (_identity(shown), settings(shown))
        details.append(folded(summary, *content))
    return join(
        table("The runs", head, rows, text=(1, 2, 7)),
        tag("h3", "Run it again"),
        _again(group),
        tag("h3", "Protocol"),
        _list(_union(shown.manifest["protocol_text"] for shown in group.runs)),
        tag("h3", "Data"),
        _data(group),
        details,
    )


def _row(shown: ShownRun) -> list[Child]:
    """The row of a run in the table of runs."""
    manifest = shown.manifest
    return [
        shown.named(),
        short(manifest["algorithm"]),
        given_settings(shown.run) or "none",
        str(manifest["seed"]),
        numbers.count(manifest["rounds"]) if manifest["rounds"] else "none",
        numbers.seconds(manifest["seconds"]["train"]),
        numbers.seconds(manifest["seconds"]["evaluate"]),
        tag("code", str(manifest["model_sha256"])[:12]),
    ]


def _again(group: Group) -> Html:
    """The command that repeats each run, without the folders of the machine that made it."""
    rows: list[list[Child]] = []
    for shown in group.runs:
        text = command(shown.manifest)
        rows.append([shown.named(), tag("code", text) if text else "made from rows in memory"])
    caption = (
        "The same command on the same rows ends with the same model. A file is named without its"
        " folder"
    )
    return table(caption, ["run", "command"], rows, text=(1,), label="Commands")


def command(manifest: Mapping[str, Any]) -> str | None:
    """The command that repeats a run, with names of files in place of paths; None for a run on rows
    in memory.

    >>> command({"algorithm": "pfpl+", "data": "/home/me/visits.csv", "protocol": "loo-99",
    ...     "seed": 1, "settings": {"pi": 0.5}})
    'entrenous run pfpl+ --data visits.csv --protocol loo-99 --seed 1 --set pi=0.5'
    """
    # Rows in memory have no name that a command could say.
    if not manifest.get("data_by_name", True):
        return None
    words = [
        "entrenous",
        "run",
        in_folder(str(manifest["algorithm"])),
        "--data",
        data_name(manifest),
        "--protocol",
        str(manifest["protocol"]),
    ]
    words += ["--seed", str(manifest["seed"])]
    if manifest.get("given"):
        words += ["--given", PurePath(manifest["given"]).name]
    numbers_asked = {"--rounds": "rounds_asked", "--every": "every", "--patience": "patience"}
    for option, name in numbers_asked.items():
        if manifest.get(name):
            words += [option, str(manifest[name])]
    if manifest.get("negatives") == "leaky":
        words += ["--negatives", "leaky"]
    assigned = {"--set": "settings", "--network": "network", "--load": "load"}
    for option, part in assigned.items():
        for name, value in (manifest.get(part) or {}).items():
            # `items` of --load is a file, whose folder is nobody's business.
            text = PurePath(str(value)).name if name == "items" else value
            words += [option, f"{name}={text}"]
    return shlex.join(words)


def without_folders(sentence: str) -> str:
    """A sentence with the folders of the machine removed from names of files.

    >>> without_folders("read /home/me/ml-100k/u.data: user = user_id; MAE / RMSE")
    'read u.data: user = user_id; MAE / RMSE'
    """
    return re.sub(r"(?<!\S)/(?=\S)(?:[^/\n:;,]*/)*(?=[^/\s])", "", sentence)


def _data(group: Group) -> Html:
    readings = dict.fromkeys(chain.from_iterable(map(_readings, group.runs)))
    tables = [_columns(reading) for reading in readings if reading.columns]
    notes = _list(_union(shown.manifest["notes"] for shown in group.runs))
    digest = tag("code", group.runs[0].manifest["data_sha256"])
    return join(tables, notes, tag("p", "sha256 of the rows: ", digest, class_="small"))


def _readings(shown: ShownRun) -> list[Reading]:
    """The reports of reading the parts of the data. Raises InputError for other values."""
    # Manifests of earlier versions have none.
    stored = shown.manifest.get("reading", [])
    try:
        return [Reading.parse(report) for report in stored]
    except (ValueError, TypeError):
        raise InputError(
            f"{shown.manifest['run']}/manifest.json",
            "'reading' has no reports of a reading",
            expected="source, columns, guesses, left_out and notes of each",
            fix="run it again",
        ) from None


def _columns(reading: Reading) -> Html:
    """The columns of a source: the role of each and the reason for it."""
    rows = [[use.name, use.role or "not read", use.why] for use in reading.columns]
    caption = f"Columns of {without_folders(reading.source)}"
    return table(caption, ["column", "role", "reason"], rows, text=(1,), prose=(2,))


def _union(texts: Iterable[Iterable[str]]) -> list[str]:
    """The distinct sentences of several texts, in the order of their first appearance."""
    # Runs of one group share most of their notes.
    return list(dict.fromkeys(chain.from_iterable(texts)))


def _list(sentences: list[str]) -> Html:
    if not sentences:
        return tag("p", "Nothing to note.", class_="small")
    return tag("ul", [tag("li", without_folders(sentence)) for sentence in sentences])


def _identity(shown: ShownRun) -> Html:
    manifest = shown.manifest
    versions = [f"{name} {version}" for name, version in manifest.get("versions", {}).items()]
    pairs: list[tuple[Child, Child]] = [
        ("run", manifest["run"]),
        ("started", manifest["started"]),
        ("versions", ", ".join(versions) or "not said"),
        ("rounds", _rounds(manifest)),
        ("users evaluated", f"{manifest['users_evaluated']:,}"),
        ("model sha256", tag("code", manifest["model_sha256"])),
    ]
    # Manifests of earlier versions do not say it.
    if "of_people" in manifest:
        held = ", ".join(manifest["of_people"]) or "nothing"
        pairs.append(("of single people the folder holds", held))
    return facts(pairs, class_="facts")


def _rounds(manifest: dict[str, Any]) -> str:
    rounds = manifest["rounds"]
    # A centralised algorithm has no rounds.
    if not rounds:
        return "none: trained in one place"
    every = manifest["every"]
    patience = manifest["patience"]
    looked = f"; looks at validation every {every} rounds" if every else ""
    if patience:
        return f"{rounds}, the best on validation{looked}, patience {patience}"
    origin = "the default" if manifest["rounds_asked"] is None else "as asked"
    return f"{rounds}, {origin}{looked}"


def settings(shown: ShownRun) -> Html:
    """The settings in force and their meaning; the given ones if another version made the run."""
    algorithm = shown.manifest["algorithm"]
    settings_class, preset = kind_of(algorithm)
    given: dict[str, Any] = shown.manifest["settings"]
    in_force: dict[str, Any] = shown.manifest.get("settings_in_force", {})
    # The meanings are those of today's class, so its settings must be those of the run.
    if settings_class is None or in_force.keys() != settings_class.model_fields.keys():
        caption = (
            "Settings that were given (the run is of another version, so their meanings are not"
            " shown)"
        )
        rows = [[name, _value(value)] for name, value in given.items()]
        return table(caption, ["setting", "value"], rows, text=(1,))
    if not in_force:
        return tag("p", "The algorithm has no settings.", class_="small")
    # A setting that was given counts, though a preset has it too.
    sources = dict.fromkeys(preset, f"preset of {algorithm}")
    sources |= dict.fromkeys(given, "given")
    rows = []
    for name, field in settings_class.model_fields.items():
        source = tag("small", sources.get(name, "default"))
        value = join(_value(in_force[name]), source)
        rows.append([tag("code", name), value, field.description or ""])
    return table("Settings", ["setting", "value", "meaning"], rows, text=(1,), prose=(2,))


def _value(value: Any) -> str:
    if value in (None, ""):
        return "none"
    return str(value)


def glossary(names: list[str]) -> Html:
    """The definitions of the metrics in a report, from the functions that compute them."""
    known = metrics()
    pairs = []
    for name in dict.fromkeys(map(kind, in_order(names))):
        # A metric of an installed package may be any callable, whose docstring is its class's.
        if name in known and isfunction(known[name].value):
            definition = summary_of(known[name].value.__doc__)
            pairs.append((tag("code", name), definition.replace("`", "")))
    return folded("What the metrics mean", facts(pairs, class_="facts"))
