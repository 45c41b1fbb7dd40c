"""`entrenous compare`: several algorithms, or several settings of one, over several seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ..core.errors import InputError
from ..runs.options import CompareOptions
from .console import advice_if_it_diverges, emit_json, progress_bar, say, tell
from .console import table as show_table
from .options import takes
from .run import CHANCE, SHOWN

ENDINGS = (".csv", ".tex")


@takes(CompareOptions)
def compare(
    *algorithms: str,
    data: str = "ml-100k",
    table: Annotated[list[Path] | None, Parameter(negative="")] = None,
    json: bool = False,
    **options: Any,
) -> None:
    """Train several algorithms over several seeds and compare them user by user.

    Example: entrenous compare fcf fpl half=fpl --set half:pi=0.5 --seeds 5 --table table.tex

    Parameters
    ----------
    algorithms:
        Two or more: names of `entrenous algorithms`, places of your own classes (./my_algo.py), or
        LABEL=NAME for a second choice of settings.
    data:
        A data set, file or folder.
    table:
        Also write the table to this file: .csv (numbers in full) or .tex (LaTeX with booktabs); may
        be repeated.
    json:
        Print one JSON object on stdout.
    """
    from ..api import tables
    from ..api.compare import CompareKeywords, compared

    for path in table or []:
        if path.suffix not in ENDINGS:
            expected = f"a file that ends in {' or '.join(ENDINGS)}"
            raise InputError("--table", f"got {path}", expected=expected)
    with progress_bar() as progress, advice_if_it_diverges():
        found = compared(CompareKeywords(algorithms, data, progress=progress, **options))
    for path in table or []:
        text = tables.csv_text(found) if path.suffix == ".csv" else tables.latex(found)
        path.write_text(text, encoding="utf-8")
        say(f"table written to {path}")
    if json:
        emit_json(found)
    else:
        _show(found)


def _show(found: dict[str, Any]) -> None:
    from ..api.budgets import in_full
    from ..api.tables import caption, cells
    from ..evaluate.metric_kinds import arrowed

    names = [name for name in SHOWN if name in found["rows"][0]["metrics"]]
    show_table(["algorithm", *map(arrowed, names)], cells(found, names), title=caption(found))
    _show_fairness(found["rows"])
    _show_tests(found["tests"])
    if "loss_win" in found:
        _show_loss_win(found)
    _show_spreads(found["fairness_tests"])
    sentences = [CHANCE, *found["protocol_text"]]
    if "privacy" in found:
        sentences[1:1] = in_full(found["privacy"])
    for sentence in sentences:
        tell(f"- {sentence}")


def _show_fairness(rows: list[dict[str, Any]]) -> None:
    names = list(rows[0]["fairness"])
    body = []
    for row in rows:
        spreads = [
            f"{row['fairness'][name]:.4f} ±{row['fairness_std'][name]:.4f}" for name in names
        ]
        body.append([row["algorithm"], *spreads])
    title = "Fairness between users, mean ± sample standard deviation over seeds"
    show_table(["algorithm", *names], body, title=title)


def _show_tests(tests: list[dict[str, Any]]) -> None:
    from ..api.tables import p_text

    headers = [
        "metric",
        "pair",
        "mean difference",
        "95 % interval",
        "p (paired t)",
        "p (Wilcoxon)",
        "p (t, Holm)",
    ]
    body = [
        [
            test["metric"],
            f"{test['a']} - {test['b']}",
            test["difference"],
            f"{test['low']:.4f} to {test['high']:.4f}",
            p_text(test["t_p"]),
            p_text(test["wilcoxon_p"]),
            p_text(test["holm_p"]),
        ]
        for test in tests
    ]
    show_table(headers, body, title="Paired tests over users; Holm over the tests of one metric")


def _show_spreads(tests: list[dict[str, Any]]) -> None:
    from ..api.tables import p_text

    headers = ["pair", "std of the first", "std of the second", "difference", "p", "p (Holm)"]
    body = [
        [
            f"{test['a']} - {test['b']}",
            test["std_a"],
            test["std_b"],
            test["difference"],
            p_text(test["p"]),
            p_text(test["holm_p"]),
        ]
        for test in tests
    ]
    title = "Paired tests of the std of ndcg@10 over users, each user's mean over seeds"
    show_table(headers, body, title=title)


def _show_loss_win(found: dict[str, Any]) -> None:
    """FBALF's statistics of rating prediction."""
    from ..api.tables import p_text

    first, ranks = found["reference"], found["ranks"]
    headers = [
        "algorithm",
        f"loss/win of {first}",
        "p (Wilcoxon, less)",
        "p (two-sided)",
        "p (Holm)",
        "F-rank",
    ]
    body = [[first, "", "", "", "", ranks[first]]]
    for row in found["loss_win"]:
        ps = [p_text(row[name]) for name in ("p_less", "p_two_sided", "holm")]
        body.append([row["other"], f"{row['losses']}/{row['wins']}", *ps, ranks[row["other"]]])
    title = "Over the cells of seed, fold and error (mae, rmse)"
    show_table(headers, body, title=title)
