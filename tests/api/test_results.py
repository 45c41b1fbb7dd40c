"""Results of comparisons, audits and their like: tables for people, programs and papers, and plots."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any, get_args

import pandas as pd
import pytest
from pydantic import ConfigDict, TypeAdapter, ValidationError

import entrenous
from entrenous.api.results import Report
from entrenous.core.errors import InputError
from entrenous.report.figures import can_print
from entrenous.runs.manifest import Look, Manifest

pytestmark = pytest.mark.beside  # audits, attacks and receipts are among the results

FRAME = pd.DataFrame(
    [
        (100 + user, (user * 5 + 3 * place) % 23, 1.0 + place % 5, 1000 * place + user)
        for user in range(14)
        for place in range(7)
    ],
    columns=["user", "item", "rating", "timestamp"],
)
OPTIONS: dict[str, Any] = {"protocol": "loo-10", "rounds": 2, "threads": 1}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stored")
    FRAME.to_csv(folder / "shop.csv", index=False)
    path = entrenous.run("fcf", folder / "shop.csv", out=folder / "runs", **OPTIONS).path
    assert path is not None
    return path


@pytest.fixture(scope="module")
def results(stored: Path) -> dict[str, Report[Any, Any]]:
    return {
        "compare": entrenous.compare(["fcf", "popular"], FRAME, seeds=2, **OPTIONS),
        "audit": entrenous.audit("fcf", FRAME, quick=True, **OPTIONS),
        "attack": entrenous.attack(
            "fedavg-gmf",
            FRAME,
            target=(3,),
            share=0.2,
            rounds=2,
            protocol="loo-10",  # type: ignore[arg-type]
        ),
        "tune": entrenous.tune("fcf", FRAME, grid={"factors": [2, 4]}, **OPTIONS),
        "leakcheck": entrenous.leakcheck("fcf", FRAME, protocol="loo-10", rounds=2),
        "explain": entrenous.explain("fcf"),
        "receipt": entrenous.receipt(stored, user=100, threads=1),
    }


NAMES = ("compare", "audit", "attack", "tune", "leakcheck", "explain", "receipt")


@pytest.mark.parametrize("name", NAMES)
def test_a_result_is_a_frame_and_texts_with_the_same_rows(
    name: str, results: dict[str, Report[Any, Any]], tmp_path: Path
) -> None:
    result = results[name]
    table = result.table()
    # What came in a pandas frame comes out in one.
    of_frame = name not in ("explain", "receipt")
    assert isinstance(table, pd.DataFrame) == of_frame
    lines = list(csv.reader(io.StringIO(result.csv())))
    assert lines[0] == list(table.columns) and len(lines) - 1 == len(table) > 0
    shown = repr(result)
    latex = result.latex()
    html = result._repr_html_()
    assert html.startswith("<table><caption>") and html.count("<tr>") == len(table) + 1
    assert latex.startswith("\\begin{table}\n\\caption{") and latex.count(r" \\") == len(table) + 1
    # Every result says under which conditions it was obtained.
    said = {"explain": "fcf (federated)", "receipt": "profile paper"}.get(name, " on frame")
    if name == "compare":
        said = "frame, loo-10, mean ± sample standard deviation over seeds 0-1"
    assert said in shown.splitlines()[0] and len(shown.splitlines()) == len(table) + 2
    kept = {
        ending: result.save(tmp_path / f"table{ending}") for ending in (".csv", ".tex", ".html")
    }
    assert kept[".csv"].read_text() == result.csv() and kept[".tex"].read_text() == latex
    with pytest.raises(InputError, match=r"expected a file that ends in \.csv, \.tex or \.html"):
        result.save(tmp_path / "table.xlsx")
    with pytest.raises(InputError, match="cannot be written"):
        result.save(tmp_path / "table.csv" / "again.csv")


def closed(kind: Any) -> TypeAdapter[Any]:
    """A check of lists of dictionaries, which also refuses keys that are not declared."""
    return TypeAdapter(list[kind], config=ConfigDict(extra="forbid"))


@pytest.mark.parametrize("name", NAMES)
def test_a_report_has_the_keys_and_types_that_are_declared(
    name: str, results: dict[str, Report[Any, Any]]
) -> None:
    result = results[name]
    # The first argument of `Report` in the class of the result.
    (base,) = type(result).__orig_bases__  # type: ignore[attr-defined]
    closed(get_args(base)[0]).validate_python([result.found], strict=True)


def test_a_manifest_and_a_trace_have_the_keys_and_types_that_are_declared(stored: Path) -> None:
    manifests = closed(Manifest)
    manifests.validate_python([entrenous.open(stored).manifest], strict=True)
    options: dict[str, Any] = {"split": "kfold-2", "rounds": 2, "every": 1, "threads": 1}
    run = entrenous.run("fbalf", FRAME, **options)
    manifests.validate_json(json.dumps([run.manifest]), strict=True)
    closed(Look).validate_python(list(run.trace), strict=True)
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        manifests.validate_python([{**run.manifest, "other": 1}])


def test_cells_that_a_spreadsheet_would_run_are_harmless() -> None:
    odd = entrenous.compare(["@cmd=popular", "random"], FRAME, seeds=1, protocol="loo-10")
    assert odd.csv().splitlines()[1].startswith("'@cmd,")


@pytest.mark.parametrize("name", ["compare", "audit", "attack"])
def test_a_plot_is_a_drawing_that_can_be_kept(
    name: str, results: dict[str, Any], tmp_path: Path
) -> None:
    figure = results[name].plot()
    assert figure.svg.startswith("<svg ") and figure._repr_svg_() == figure.svg
    assert figure.save(tmp_path / "figure.svg").read_text() == figure.svg
    with pytest.raises(InputError, match=r"ends in \.svg, \.pdf or \.png"):
        figure.save(tmp_path / "figure.jpg")
    for ending, start in (("pdf", b"%PDF-"), ("png", b"\x89PNG\r\n")):
        if can_print():
            assert figure.save(tmp_path / f"figure.{ending}").read_bytes().startswith(start)
        else:
            with pytest.raises(InputError, match=r"pip install 'entrenous\[plots\]'"):
                figure.save(tmp_path / f"figure.{ending}")
    shown = {"compare": "popular", "audit": "popularity alone", "attack": "none"}[name]
    assert shown in figure.svg


def test_a_plot_of_a_metric_that_is_not_there(results: dict[str, Any]) -> None:
    assert "hr@10" in results["compare"].plot("hr@10").svg
    with pytest.raises(InputError, match=r"plot: no 'hr@7'; did you mean 'hr@"):
        results["compare"].plot("hr@7")
    with pytest.raises(InputError, match="metrics: no 'nope'"):
        results["compare"].latex(["nope"])
    run = entrenous.run("fcf", FRAME, every=1, **OPTIONS)
    assert run.plot("auc").svg.startswith("<svg ")
    with pytest.raises(InputError, match="plot: no 'recal@10'; did you mean 'recall@10'"):
        run.plot("recal@10")
    with pytest.raises(InputError, match=r"no looks at validation.*train with every=ROUNDS"):
        entrenous.run("fcf", FRAME, **OPTIONS).plot()


def test_an_audit_says_what_its_figures_rest_on(results: dict[str, Any]) -> None:
    audit = results["audit"]
    table = audit.table().set_index("name")
    guess = audit.found["popularity"]["r_precision"]
    assert table.loc["popularity alone", "r_precision"] == guess
    assert table.loc["gradient", "verdict"] == "EXPOSED"
    # Nobody has a history long enough to be the target of a community.
    assert table.loc["communities", "verdict"] == "NOT TRIED"
    assert audit.notes[0].startswith("seen: ") and "a verdict is about" in audit.notes[-1]


def test_the_receipt_and_the_leak_check_say_what_was_found(results: dict[str, Any]) -> None:
    receipt = results["receipt"]
    assert receipt.found["user"] == "100" and len(receipt.table()) == 2
    assert any("differential privacy" in note for note in receipt.notes)
    assert len(receipt.expected()) == len(receipt.found["expected"])
    assert results["leakcheck"].passed is results["leakcheck"].found["passed"]
    with pytest.raises(InputError, match="user: got 2 users; expected one"):
        entrenous.receipt(user=[100, 101])


def test_what_is_installed_is_listed() -> None:
    algorithms = {entry.name: entry for entry in entrenous.algorithms()}
    assert algorithms["fcf"].kind == "federated" and algorithms["popular"].kind == "central"
    assert algorithms["pepper-gmf"].kind == "gossip" and algorithms["fpl"].summary
    metrics = {entry.name: entry for entry in entrenous.metrics()}
    assert metrics["ndcg"].better == "higher" and metrics["rmse"].better == "lower"
    assert all(entry.summary for entry in metrics.values())
    assert any(entry.name == "ml-100k" for entry in entrenous.datasets())
    with pytest.raises(InputError, match="unknown algorithm 'fcff'; did you mean 'fcf'"):
        entrenous.explain("fcff")
