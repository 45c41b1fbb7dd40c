"""What was run: algorithm, settings, data, protocol, seed, rounds, identity of the model."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any

from ..core.printed import summary_of
from ..core.registry.discover import modules
from ..core.registry.own import in_folder, short
from ..runs.store import protocol_of
from . import numbers
from .markup import Child, Html, facts, folded, join, table, tag
from .runs import Group, ShownRun, data_name, given_settings, in_order, kind, kind_of


def lead(found: list[Group]) -> Html:
    """The opening paragraph of a report: a sentence for each group of runs."""
    apart = (
        "They differ in data, protocol or code: their numbers cannot be compared, and nothing is"
        " tested between them."
    )
    return join(
        [tag("p", _sentence(group), class_="lead") for group in found],
        tag("p", apart) if len(found) > 1 else None,
    )


def _sentence(group: Group) -> Html:
    first, rows = group.runs[0], group.runs[0].manifest["catalogue"]
    who = (
        join(tag("b", first.label))
        if len(group.runs) == 1
        else join(tag("b", f"{len(group.runs)} runs"))
    )
    size = (
        f"{rows['users']:,} users, {rows['items']:,} items, {rows['interactions']:,} interactions"
    )
    protocol = tag("b", protocol_of(first.manifest))
    return join(
        who,
        " on ",
        tag("b", data_name(first.manifest)),
        f" ({size}), protocol ",
        protocol,
        f", {_seeds(group)}.",
    )


def _seeds(group: Group) -> str:
    seeds = sorted({shown.manifest["seed"] for shown in group.runs})
    return f"{'seeds' if len(seeds) > 1 else 'seed'} {', '.join(map(str, seeds))}"


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
    return join(
        table("The runs", head, rows, text=(1, 2, 7)),
        tag("h3", "Run it again"),
        _again(group),
        tag("h3", "Protocol"),
        _list(_union(shown.manifest["protocol_text"] for shown in group.runs)),
        tag("h3", "Data"),
        _data(group),
        [
            folded(
                join("Settings and identity of ", shown.named()),
                _identity(shown),
                settings(shown),
                network(shown),
            )
            for shown in group.runs
        ],
    )


def _row(shown: ShownRun) -> list[Child]:
    m = shown.manifest
    rounds = numbers.count(m["rounds"]) if m["rounds"] else "none"
    took = m["seconds"]
    digest = tag("code", str(m["model_sha256"])[:12])
    spent = [numbers.seconds(took["train"]), numbers.seconds(took["evaluate"])]
    return [
        shown.named(),
        short(m["algorithm"]),
        given_settings(shown.run) or "none",
        str(m["seed"]),
        rounds,
        *spent,
        digest,
    ]


def _again(group: Group) -> Html:
    """The command that repeats each run, without the folders of the machine that it was made on."""
    commands = {shown: command(shown.manifest) for shown in group.runs}
    rows = [
        [shown.named(), tag("code", text) if text else "made from rows in memory"]
        for shown, text in commands.items()
    ]
    said = (
        "The same command on the same rows ends with the same model. A file is named without its"
        " folder"
    )
    return table(said, ["run", "command"], rows, text=(1,), label="Commands")


def command(manifest: Mapping[str, Any]) -> str | None:
    """The command that repeats a run, with names of files in place of paths; None for one that was
    made from rows in memory.

    >>> command({"algorithm": "pfpl+", "data": "/home/me/visits.csv", "protocol": "loo-99",
    ...     "seed": 1, "settings": {"pi": 0.5}})
    'entrenous run pfpl+ --data visits.csv --protocol loo-99 --seed 1 --set pi=0.5'
    """
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
    for option, name in (
        ("--rounds", "rounds_asked"),
        ("--every", "every"),
        ("--patience", "patience"),
    ):
        words += [option, str(manifest[name])] if manifest.get(name) else []
    words += ["--negatives", "leaky"] if manifest.get("negatives") == "leaky" else []
    for option, part in (("--set", "settings"), ("--network", "network"), ("--load", "load")):
        for name, value in (manifest.get(part) or {}).items():
            words += [option, f"{name}={PurePath(str(value)).name if name == 'items' else value}"]
    return shlex.join(words)


def without_folders(sentence: str) -> str:
    """A sentence in which files of the machine are named without their folders.

    >>> without_folders("read /home/me/ml-100k/u.data: user = user_id; MAE / RMSE")
    'read u.data: user = user_id; MAE / RMSE'
    """
    return re.sub(r"(?<!\S)/(?=\S)(?:[^/\n:;,]*/)*(?=[^/\s])", "", sentence)


def _data(group: Group) -> Html:
    first = group.runs[0].manifest
    said = _list(_union(shown.manifest["notes"] for shown in group.runs))
    digest = tag("p", "sha256 of the rows: ", tag("code", first["data_sha256"]), class_="small")
    return join(said, digest)


def _union(sentences: Iterable[Iterable[str]]) -> list[str]:
    return list(dict.fromkeys(one for some in sentences for one in some))


def _list(sentences: list[str]) -> Html:
    return (
        tag("ul", [tag("li", without_folders(sentence)) for sentence in sentences])
        if sentences
        else tag("p", "Nothing to note.", class_="small")
    )


def _identity(shown: ShownRun) -> Html:
    m = shown.manifest
    pairs: list[tuple[Child, Child]] = [
        ("run", m["run"]),
        ("started", m["started"]),
        (
            "versions",
            ", ".join(f"{name} {one}" for name, one in m.get("versions", {}).items()) or "not said",
        ),
        ("rounds", _rounds(m)),
        ("users evaluated", f"{m['users_evaluated']:,}"),
        ("model sha256", tag("code", m["model_sha256"])),
    ]
    return facts(pairs, class_="facts")


def _rounds(m: dict[str, Any]) -> str:
    if not m["rounds"]:
        return "none: trained in one place"
    looked = f"; looks at validation every {m['every']} rounds" if m["every"] else ""
    if m["patience"]:
        return f"{m['rounds']}, the best on validation{looked}, patience {m['patience']}"
    return (
        f"{m['rounds']}, {'as asked' if m['rounds_asked'] is not None else 'the default'}{looked}"
    )


def settings(shown: ShownRun) -> Html:
    """Every setting that was in force, and what it means. Defaults are known if this version made
    the run.
    """
    own, preset = kind_of(shown.manifest["algorithm"])
    given: dict[str, Any] = shown.manifest["settings"]
    in_force: dict[str, Any] = shown.manifest.get("settings_in_force", {})
    if own is None or in_force.keys() != own.model_fields.keys():
        said = (
            "Settings that were given (the run is of another version, so their meanings are not"
            " shown)"
        )
        return table(
            said,
            ["setting", "value"],
            [[name, _value(value)] for name, value in given.items()],
            text=(1,),
        )
    rows: list[list[Child]] = []
    for name, field in own.model_fields.items():
        source = _source(name, given, preset, shown.manifest["algorithm"])
        value = in_force[name]
        rows.append(
            [tag("code", name), join(_value(value), tag("small", source)), field.description or ""]
        )
    if not rows:
        return tag("p", "The algorithm has no settings.", class_="small")
    return table("Settings", ["setting", "value", "meaning"], rows, text=(1,), prose=(2,))


def network(shown: ShownRun) -> Html | None:
    """The settings of the simulated network of a run, as HTML; None where there is a server, or one
    place.
    """
    if not shown.gossips:
        return None
    from ..federation.network import Network

    given, usual = shown.manifest.get("network", {}), Network().model_dump(mode="json")
    rows: list[list[Child]] = [
        [
            tag("code", name),
            join(_value(given.get(name, usual[name])), tag("small", _source(name, given))),
            field.description or "",
        ]
        for name, field in Network.model_fields.items()
    ]
    return table("Between the nodes", ["setting", "value", "meaning"], rows, text=(1,), prose=(2,))


def _source(name: str, given: dict[str, Any], preset: Iterable[str] = (), of: str = "") -> str:
    """Where a value comes from."""
    return "given" if name in given else f"preset of {of}" if name in preset else "default"


def _value(value: Any) -> str:
    return "none" if value in (None, "") else str(value)


def glossary(names: list[str]) -> Html:
    """The definitions of the metrics in a report, from the files that compute them."""
    known = modules("entrenous.evaluate.metrics")
    kinds = dict.fromkeys(kind(name) for name in in_order(names))
    pairs = [
        (tag("code", one), summary_of(known[one].__doc__).replace("`", ""))
        for one in kinds
        if one in known
    ]
    return folded("What the metrics mean", facts(pairs, class_="facts"))
