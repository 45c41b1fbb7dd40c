"""`entrenous compare`: compares several algorithms, or several settings of one, over several
seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from ..core.errors import InputError
from ..runs.options import CompareOptions
from .console import advice_if_it_diverges, emit_json, progress_bar, say, tell
from .console import table as show_table
from .options import takes
from .run import CHANCE, SHOWN

if TYPE_CHECKING:
    from ..api.tables import ComparisonFound

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
        LABEL=NAME for the same algorithm with other settings.
    data:
        A data set, file or folder.
    table:
        Also write the table to this file: .csv (numbers in full) or .tex (LaTeX with booktabs); may
        be repeated.
    json:
        Print one JSON object on stdout.
    """
    from ..api.compare import CompareKeywords, compared

    # Refused before hours of training, not after.
    for path in table or []:
        if path.suffix not in ENDINGS:
            expected = f"a file that ends in {' or '.join(ENDINGS)}"
            raise InputError("--table", f"got {path}", expected=expected)
    with progress_bar() as progress, advice_if_it_diverges():
        asked = CompareKeywords(algorithms, data, progress=progress, **options)
        comparison = compared(asked, say=say)
    for path in table or []:
        say(f"table written to {comparison.save(path)}")
    if json:
        emit_json(comparison.found)
    else:
        _show(comparison.found)


def _show(comparison: ComparisonFound) -> None:
    """Prints a comparison: metrics, fairness, and tests of the differences."""
    from ..api.budgets import in_full
    from ..api.tables import caption, cells
    from ..evaluation.metric_kinds import arrowed

    names = [name for name in SHOWN if name in comparison["rows"][0]["metrics"]]
    headers = ["algorithm", *map(arrowed, names)]
    show_table(headers, cells(comparison, names), title=caption(comparison))
    _show_fairness(comparison["rows"])
    show_tests(comparison["tests"])
    _show_spreads(comparison["fairness_tests"])
    tell(f"- {CHANCE}")
    if "privacy" in comparison:
        for sentence in in_full(comparison["privacy"]):
            tell(f"- {sentence}")
    for sentence in comparison["protocol_text"]:
        tell(f"- {sentence}")


def _show_fairness(rows: Sequence[Mapping[str, Any]]) -> None:
    names = list(rows[0]["fairness"])
    body = []
    for row in rows:
        means = row["fairness"]
        spreads = row["fairness_std"]
        cells = [f"{means[name]:.4f} ±{spreads[name]:.4f}" for name in names]
        body.append([row["algorithm"], *cells])
    title = "Fairness between users, mean ± sample standard deviation over seeds"
    show_table(["algorithm", *names], body, title=title)


def show_tests(tests: Sequence[Mapping[str, Any]]) -> None:
    """Prints paired tests, and what they hold."""
    from ..api.tables import p_text

    headers = [
        "metric",
        "pair",
        "mean difference",
        "95 % interval",
        "p",
        "p (Holm)",
    ]
    body = []
    for test in tests:
        pair = f"{test['a']} - {test['b']}"
        interval = f"{test['low']:.4f} to {test['high']:.4f}"
        ps = [p_text(test[name]) for name in ("p", "holm_p")]
        body.append([test["metric"], pair, test["difference"], interval, *ps])
    title = f"Paired tests over {tests[0]['holds']}; Holm over the tests of one metric"
    show_table(headers, body, title=title)


def _show_spreads(tests: Sequence[Mapping[str, Any]]) -> None:
    from ..api.tables import p_text

    headers = ["pair", "std of the first", "std of the second", "difference", "p", "p (Holm)"]
    body = []
    for test in tests:
        pair = f"{test['a']} - {test['b']}"
        figures = [test["std_a"], test["std_b"], test["difference"]]
        body.append([pair, *figures, p_text(test["p"]), p_text(test["holm_p"])])
    # Of fewer than three users there are none.
    if not tests:
        return
    title = f"Paired tests of the std of ndcg@10 between users, over {tests[0]['holds']}"
    show_table(headers, body, title=title)
