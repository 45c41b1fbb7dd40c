"""Cells: remembered by what determines them, shared, resumed after a kill, independent of
threads.
"""

import sys
from dataclasses import replace
from threading import Event

import numpy as np
import pytest
from entrenous_lab.papers import remember as cells_module
from entrenous_lab.papers.cell import COMPUTED_BY, Cell, identity, measuring, parts_of, program_of
from entrenous_lab.papers.compute import compute
from entrenous_lab.papers.remember import Cells, read
from small_data import random_data
from small_federations import shop

from entrenous.core.registry import program
from entrenous.core.registry.program import closure, program_sha256, without_docstrings
from entrenous.data.split.protocol import splits
from entrenous.systems.named import kind_of
from tests.house.traced import tracing

DATA = random_data(users=30, items=40, rows=700)
PARTS = parts_of(splits("temporal-80-20", DATA)[0])


def with_parts(cells):
    return [(PARTS[one.part], one) for one in cells]


def cell(algorithm="pfpl", part="validation", looks=(1, 2), seed=0, **settings):
    return Cell(algorithm=algorithm, settings=settings, part=part, looks=looks, seed=seed)


def without_seconds(outcomes):
    return [
        outcome._replace(seconds=0, looks=[untimed(look) for look in outcome.looks])
        for outcome in outcomes
    ]


def untimed(look):
    return look._replace(seconds=0, cpu_seconds=0)


def test_a_cell_is_computed_once_and_then_remembered(tmp_path):
    first, again = Cells(tmp_path), Cells(tmp_path)
    found = first.outcomes_of(with_parts([cell(factors=3), cell("popular", looks=(0,))]))
    assert first.computed == 2 and len(list(tmp_path.glob("*.json"))) == 2
    assert (
        again.outcomes_of(with_parts([cell(factors=3), cell("popular", looks=(0,))])) == found
        and again.computed == 0
    )


def test_a_killed_run_computes_only_what_is_missing(tmp_path, monkeypatch):
    several = [cell(factors=factors) for factors in (2, 3, 4, 5)]

    def killed(cell, *more, compute=cells_module.compute):
        if cell.settings["factors"] == 4:
            raise KeyboardInterrupt
        return compute(cell, *more)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(cells_module, "compute", killed)
        Cells(tmp_path, threads=1).outcomes_of(with_parts(several))
    kept = len(list(tmp_path.glob("*.json")))
    assert 0 < kept < 4
    resumed = Cells(tmp_path)
    found = without_seconds(resumed.outcomes_of(with_parts(several)))
    assert resumed.computed == 4 - kept
    assert found == without_seconds(Cells(None).outcomes_of(with_parts(several)))


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"format": 0}'])
def test_a_damaged_file_is_computed_again(tmp_path, damage):
    found = Cells(tmp_path).outcomes_of(with_parts([cell(factors=3)]))
    (path,) = tmp_path.glob("*.json")
    path.write_bytes(damage)
    again = Cells(tmp_path)
    assert (
        without_seconds(again.outcomes_of(with_parts([cell(factors=3)]))) == without_seconds(found)
        and again.computed == 1
    )
    assert read(path, path.stem) is not None


def test_a_training_that_diverges_says_so_and_is_remembered(tmp_path):
    several = [
        cell("bpr-mf", looks=(0,), learning_rate=1e30, epochs=3),
        cell("popular", looks=(0,)),
    ]
    diverged, popular = Cells(tmp_path).outcomes_of(with_parts(several))
    assert diverged.looks == [] and "diverged" in diverged.failed and popular.looks
    again = Cells(tmp_path)
    assert (
        again.outcomes_of(with_parts(several))[0].failed == diverged.failed and again.computed == 0
    )


def test_identity_depends_on_settings_seed_looks_part_and_rows():
    base = identity(cell(factors=3), PARTS["validation"])
    other = parts_of(splits("temporal-80-20", random_data(users=30, items=40, rows=700, seed=1))[0])
    changed = [
        identity(cell(factors=4), PARTS["validation"]),
        identity(cell(factors=3, seed=1), PARTS["validation"]),
        identity(cell(factors=3, looks=(1,)), PARTS["validation"]),
        identity(cell(factors=3, part="test"), PARTS["test"]),
        identity(cell("pfpl+", factors=3), PARTS["validation"]),
        identity(cell(factors=3), other["validation"]),
    ]
    assert len({base, *changed}) == 7
    # a setting that has its default value is the same training
    assert base == identity(cell(factors=3, learning_rate=0.05), PARTS["validation"])


def test_the_program_counts_without_its_comments_and_docstrings():
    import ast

    one, two = (
        ast.parse('def f():\n    "doc"\n    return 1'),
        ast.parse("def f():\n    return 1  # why"),
    )
    assert (
        ast.dump(without_docstrings(one))
        == ast.dump(without_docstrings(two))
        != ast.dump(without_docstrings(ast.parse("def f():\n    return 2")))
    )
    assert program_sha256("entrenous.systems.fpl") != program_sha256("entrenous.systems.fcf")


FPL = "entrenous.systems.fpl"


@pytest.mark.parametrize(
    ("algorithm", "module"),
    [
        (FPL, "entrenous.privacy.choice"),
        (FPL, "entrenous.runs.train"),
        (FPL, "entrenous.runs.recommenders"),
        (FPL, "entrenous.federation.rounds"),
        (FPL, "entrenous.evaluation.recommend"),
        (FPL, "entrenous_lab.papers.compute"),
        (FPL, "entrenous.core.keys"),
        ("entrenous.systems.pepper", "entrenous.systems._gossip_gmf"),
        ("entrenous.systems.pepper", "entrenous.federation.gossip"),
    ],
)
def test_a_change_in_what_a_training_imports_changes_its_identity(algorithm, module, monkeypatch):
    assert module in closure(algorithm, COMPUTED_BY)
    before, path = program_sha256(algorithm, COMPUTED_BY), program.path_of(module)
    source = program.source_of

    def changed(of):
        return source(of) + "\nCHANGED = 1\n" if of == path else source(of)

    monkeypatch.setattr(program, "source_of", changed)
    forget()
    assert program_sha256(algorithm, COMPUTED_BY) != before
    monkeypatch.undo()
    forget()
    assert program_sha256(algorithm, COMPUTED_BY) == before


def forget():
    for cached in (program.program_sha256, program.imported, program._read):
        cached.cache_clear()


def test_what_a_training_does_not_import_is_not_part_of_its_program():
    reached = closure(FPL, COMPUTED_BY)
    for name in (
        "entrenous.systems.fcf",
        "entrenous_lab.papers.fpl_accuracy",
        "entrenous.report",
        "entrenous.cli",
    ):
        assert name not in reached


def test_what_moves_models_between_peers_counts_for_those_that_gossip_alone(monkeypatch):
    ours = [kind_of(name)[0] for name in ("pfpl", "bpr-mf", "pepper-gmf")]
    before, path = (
        [program_of(kind) for kind in ours],
        program.path_of("entrenous.federation.timeline"),
    )
    source = program.source_of
    monkeypatch.setattr(
        program,
        "source_of",
        lambda of: source(of) + "\nCHANGED = 1\n" if of == path else source(of),
    )
    forget()
    assert [program_of(kind) == was for kind, was in zip(ours, before, strict=True)] == [
        True,
        True,
        False,
    ]
    monkeypatch.undo()
    forget()


def test_metrics_are_part_of_a_program_though_they_are_found_by_name(monkeypatch):
    base, path = (
        identity(cell(factors=3), PARTS["validation"]),
        program.path_of("entrenous.evaluation.metrics.defined"),
    )
    source = program.source_of
    monkeypatch.setattr(
        program,
        "source_of",
        lambda of: source(of) + "\nCHANGED = 1\n" if of == path else source(of),
    )
    forget()
    assert identity(cell(factors=3), PARTS["validation"]) != base
    monkeypatch.undo()
    forget()


@pytest.mark.parametrize(
    "algorithm",
    ["pfpl+", "fcf", "cali3f-gmf", "fedrec", "pepper-gmf", "bpr-mf", "pmf", "nearest-place"],
)
def test_whatever_runs_in_a_training_is_part_of_its_identity(algorithm):
    """Every function of the package that is called while a cell is computed is in a module that the
    identity covers.
    """
    data = shop(users=24, items=240)
    data = replace(data, value=(1 + np.arange(len(data)) % 5).astype(np.float32))
    parts = parts_of(
        splits("pepper-85-15" if algorithm == "pepper-gmf" else "temporal-80-20", data)[0]
    )
    looks = (0,) if algorithm in ("bpr-mf", "pmf", "nearest-place") else (1,)
    one = Cell(algorithm=algorithm, settings={}, part="test", looks=looks)
    compute(one, parts["test"], lambda *told: None, Event())  # what is imported on the way is
    with tracing() as trace:
        compute(one, parts["test"], lambda *told: None, Event())
    called = trace.called["start-up"]
    run = {
        name
        for name, module in list(sys.modules.items())
        if name.startswith("entrenous") and getattr(module, "__file__", None) in called
    }
    covered = closure(type(one.made(data)).__module__, COMPUTED_BY, *measuring())
    assert {"entrenous_lab.papers.compute", type(one.made(data)).__module__} <= run and len(
        run
    ) > 12
    assert run - covered == set()


def test_training_may_know_the_items_with_training_rows_alone():
    """What is never recommended changes no ranking of a system that draws nothing; FPL sends and
    draws among the others alone.
    """
    rare = random_data(users=30, items=400, rows=500)
    part = parts_of(splits("temporal-80-20", rare)[0])["test"]
    known = replace(part, trained_items=True)
    items = int((part.rows.popularity > 0).sum())
    assert len(known.trained.items) == items < 400 and len(known.trained) == len(part.rows)
    titles = [known.trained.items[int(i)] for i in known.trained.item]
    assert titles == [part.rows.items[int(i)] for i in part.rows.item]
    pairs = [
        (one, cell(name, part="test", looks=looks, **more))
        for one in (part, known)
        for name, looks, more in (("item-knn", (0,), {"k": 5}), ("pfpl", (3,), {"factors": 3}))
    ]
    knn, fpl, knn_known, fpl_known = (
        outcome.looks[0] for outcome in Cells(None).outcomes_of(pairs)
    )
    assert knn.metrics == knn_known.metrics and knn.metrics["recall@10"] > 0
    assert fpl.metrics != fpl_known.metrics
    assert 400 * fpl_known.ledger["bytes_down"] == items * fpl.ledger["bytes_down"]
    assert identity(pairs[0][1], part) != identity(pairs[0][1], known)
