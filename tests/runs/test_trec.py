"""TREC files: another evaluator finds the figures that the run printed, whatever the protocol."""

from __future__ import annotations

from pathlib import Path

import ir_measures
import pytest
from command_line import shop
from ir_measures import RR, P, nDCG
from small_data import interactions

import entrenous
from entrenous.core.errors import EntrenousError, InputError


@pytest.mark.parametrize("protocol", ["random-80-20", "loo-20", "fpl-20-80"])
def test_another_evaluator_finds_the_same_figures(protocol: str, tmp_path: Path) -> None:
    """loo-20 keeps validation rows back, which do not compete in the full ranking; of fpl-20-80
    some items are in no list.
    """
    made = entrenous.run("popular", shop(tmp_path), protocol=protocol)
    files = made.trec(tmp_path / "trec")
    runs, qrels = (
        ir_measures.read_trec_run(str(files.run)),
        list(ir_measures.read_trec_qrels(str(files.qrels))),
    )
    found = ir_measures.calc_aggregate([nDCG @ 10, P @ 5, RR], qrels, list(runs))
    ours = made.manifest.get("full_ranking") or made.metrics
    assert found[nDCG @ 10] == pytest.approx(ours["ndcg@10"], abs=1e-9)
    assert found[P @ 5] == pytest.approx(ours["precision@5"], abs=1e-9)
    lines = files.run.read_text().splitlines()
    assert (
        lines[0].split()[1] == "Q0"
        and lines[0].split()[5] == "popular"
        and len({line.split()[0] for line in lines}) == 40
    )


def test_an_opened_run_writes_the_same(tmp_path: Path) -> None:
    made = entrenous.run("popular", str(_csv(tmp_path)), protocol="loo-20", out=tmp_path / "runs")
    first, again = (
        made.trec(tmp_path / "a", n=7),
        entrenous.open(root=tmp_path / "runs").trec(tmp_path / "b", n=7),
    )
    assert (
        first.run.read_bytes() == again.run.read_bytes()
        and first.qrels.read_bytes() == again.qrels.read_bytes()
    )


def _csv(folder: Path) -> Path:
    shop(folder)
    return folder / "shop.csv"


def test_an_id_with_a_blank_and_a_run_that_keeps_its_rows(tmp_path: Path) -> None:
    data = interactions([(f"u {u}", f"i{i}") for u in range(4) for i in range(7) if (i + u) % 5])
    with pytest.raises(InputError, match="user: the id 'u 0' has a blank in it"):
        entrenous.run("popular", data, protocol="random-80-20").trec(tmp_path / "trec")
    assert not (tmp_path / "trec").exists()
    made = entrenous.run("fcf", shop(tmp_path), protocol="loo-20", rounds=2)
    folder = made.save(tmp_path / "kept")
    again = entrenous.open(folder)
    assert (
        again.trec(tmp_path / "b").qrels.read_bytes()
        == made.trec(tmp_path / "a").qrels.read_bytes()
    )
    both = entrenous.evaluate_files(made, split=again.split, metrics=["ndcg@7"])
    other = entrenous.evaluate_files(again, split=made.split, metrics=["ndcg@7"])
    assert both.found["rows"] == other.found["rows"]
    alike = entrenous.audit(made), entrenous.audit(folder)
    assert alike[0].found["attacks"] == alike[1].found["attacks"]
    # A file of the split that another program has changed.
    train = folder / "split" / "train.csv"
    train.write_text(train.read_text().replace(",1.0,", ",2.0,", 1))
    with pytest.raises(EntrenousError, match="split: the rows are not those of the run; run it"):
        entrenous.open(folder)
