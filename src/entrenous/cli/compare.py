"""`entrenous compare`: several algorithms, or several settings of one, over several seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ..core.errors import InputError
from .console import advice_if_it_diverges, emit_json, progress_bar, say, tell
from .console import table as show_table
from .options import Load, Profile, Protect, Refit, Set, assignments
from .run import CHANCE, SHOWN

ENDINGS = (".csv", ".tex")


def compare(
    *algorithms: str,
    data: str = "ml-100k",
    protocol: str | None = None,
    seeds: int = 5,
    rounds: int | None = None,
    settings: Set = None,
    reference: str | None = None,
    given: Path | None = None,
    load: Load = None,
    refit: Refit = None,
    network: Annotated[list[str] | None, Parameter(negative="")] = None,
    profile: Profile = "paper",
    protect: Protect = None,
    threads: int = 0,
    out: Path | None = None,
    table: Annotated[list[Path] | None, Parameter(negative="")] = None,
    json: bool = False,
) -> None:
    """Train several algorithms over several seeds and compare them user by user.

    Example: entrenous compare fcf fpl half=fpl --set half:pi=0.5 --seeds 5 --table table.tex

    Parameters
    ----------
    algorithms:
        Two or more: names of `entrenous algorithms`, classes of one's own (./my_algo.py), or
        LABEL=NAME for a second choice of settings.
    data:
        A data set, file or folder.
    protocol:
        As for `entrenous run`.
    seeds:
        Seeds 0 .. N - 1; each names split, candidates and training.
    rounds:
        Rounds of training for all; default: each algorithm's own.
    settings:
        LABEL:name=value, a hyper-parameter of one of them; may be repeated.
    reference:
        The label that the others are tested against; default: the first.
    given:
        The folder of a given split, for --protocol given; default: DATA.
    refit:
        Whether the final models train on training and validation rows, as for `entrenous run`;
        --no-refit: on the training rows alone.
    network:
        What is between peers that gossip, name=value, as for `entrenous run`; may be repeated.
    profile:
        What limits the data that leaves devices, as for `entrenous run`; of all that are compared.
    protect:
        A setting of the protection, name=value, as for `entrenous run`; may be repeated.
    threads:
        Threads over devices, 0 = all cores.
    out:
        Store every run under this folder; default: none is stored.
    table:
        Also write the table to this file: .csv (numbers in full) or .tex (LaTeX with booktabs); may
        be repeated.
    json:
        Print one JSON object on stdout.
    """
    from ..api import tables
    from ..api.compare import compared

    for path in table or []:
        if path.suffix not in ENDINGS:
            raise InputError(
                "--table", f"got {path}", expected=f"a file that ends in {' or '.join(ENDINGS)}"
            )
    with progress_bar() as progress, advice_if_it_diverges():
        found = compared(
            algorithms,
            data,
            protocol=protocol,
            seeds=seeds,
            rounds=rounds,
            settings=_by_label(settings or []),
            reference=reference,
            given=None if given is None else str(given),
            load=assignments(load, "--load"),
            refit=refit,
            network=assignments(network, "--network"),
            profile=profile,
            protect=assignments(protect, "--protect"),
            threads=threads,
            out=out,
            progress=progress,
        )
    for path in table or []:
        path.write_text(
            tables.csv_text(found) if path.suffix == ".csv" else tables.latex(found),
            encoding="utf-8",
        )
        say(f"table written to {path}")
    emit_json(found) if json else _show(found)


def _by_label(pairs: list[str]) -> dict[str, dict[str, str]]:
    """`["half:pi=0.5"]` as {label: {setting: value}}. Raises InputError for a text without a
    label.
    """
    found: dict[str, list[str]] = {}
    for pair in pairs:
        label, colon, rest = pair.partition("=")[0].rpartition(":")
        if not colon:
            raise InputError(
                "--set",
                f"got {pair!r}",
                expected="LABEL:name=value",
                fix="for example --set fpl:pi=0.5",
            )
        found.setdefault(label, []).append(f"{rest}={pair.partition('=')[2]}")
    return {label: assignments(own) for label, own in found.items()}


def _show(found: dict[str, Any]) -> None:
    from ..api.budgets import in_full
    from ..api.tables import caption, cells, p_text
    from ..evaluate.metric_kinds import arrowed

    names = [name for name in SHOWN if name in found["rows"][0]["metrics"]]
    show_table(["algorithm", *map(arrowed, names)], cells(found, names), title=caption(found))
    fair = list(found["rows"][0]["fairness"])
    rows = [
        [
            row["algorithm"],
            *(f"{row['fairness'][name]:.4f} ±{row['fairness_std'][name]:.4f}" for name in fair),
        ]
        for row in found["rows"]
    ]
    show_table(
        ["algorithm", *fair],
        rows,
        title="Fairness between users, mean ± sample standard deviation over seeds",
    )
    tests = [
        [
            t["metric"],
            f"{t['a']} - {t['b']}",
            t["difference"],
            f"{t['low']:.4f} to {t['high']:.4f}",
            p_text(t["t_p"]),
            p_text(t["wilcoxon_p"]),
            p_text(t["holm_p"]),
        ]
        for t in found["tests"]
    ]
    headers = [
        "metric",
        "pair",
        "mean difference",
        "95 % interval",
        "p (paired t)",
        "p (Wilcoxon)",
        "p (t, Holm)",
    ]
    show_table(headers, tests, title="Paired tests over users; Holm over the tests of one metric")
    if "loss_win" in found:
        _show_loss_win(found)
    spreads = [
        [
            f"{t['a']} - {t['b']}",
            t["std_a"],
            t["std_b"],
            t["difference"],
            p_text(t["p"]),
            p_text(t["holm_p"]),
        ]
        for t in found["fairness_tests"]
    ]
    headers = ["pair", "std of the first", "std of the second", "difference", "p", "p (Holm)"]
    show_table(
        headers,
        spreads,
        title="Paired tests of the std of ndcg@10 over users, each user's mean over seeds",
    )
    tell(f"- {CHANCE}")
    for sentence in in_full(found["privacy"]) if "privacy" in found else []:
        tell(f"- {sentence}")
    for sentence in found["protocol_text"]:
        tell(f"- {sentence}")


def _show_loss_win(found: dict[str, Any]) -> None:
    """FBALF's statistics of rating prediction."""
    from ..api.tables import p_text

    first = found["reference"]
    rows = [[first, "", "", "", "", found["ranks"][first]]]
    rows += [
        [
            row["other"],
            f"{row['losses']}/{row['wins']}",
            p_text(row["p_less"]),
            p_text(row["p_two_sided"]),
            p_text(row["holm"]),
            found["ranks"][row["other"]],
        ]
        for row in found["loss_win"]
    ]
    headers = [
        "algorithm",
        f"loss/win of {first}",
        "p (Wilcoxon, less)",
        "p (two-sided)",
        "p (Holm)",
        "F-rank",
    ]
    show_table(headers, rows, title="Over the cells of seed, fold and error (mae, rmse)")
