"""FPL, tables 2 and 3: accuracy (P@10, R@10) and diversity (IC@10, Gini@10: higher = more equal) of
every system on three countries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from entrenous.data.interactions import Interactions
from entrenous.data.split.protocol import splits
from entrenous.evaluation.chance import Difference, difference

from .cell import Cell, CurvePoint, parts_of
from .effort import FCF, PRINTED, RUN
from .findings import POPULAR, SIGNIFICANT, agrees, bars_beside_paper, tested_pairs, users_of
from .fpl_search import (
    CHOSEN_BY,
    FPL_SYSTEMS,
    Chosen,
    Search,
    computed_as,
    rows_of_metrics,
    searched,
    twin,
)
from .measures import each, mean
from .opened import countries
from .result import Found, Row
from .study import Study, System
from .table import PaperTable, Trained, system_of
from .values import printed, worded

ACCURACY, DIVERSITY = ("precision@10", "recall@10"), ("item_coverage@10", "gini@10")
TABLE_2, TABLE_3 = printed("fpl", "table2"), printed("fpl", "table3")
BEST_PI = {
    (data, system): pi for (data, system, _), pi in printed("fpl", "best-pi").items()
}  # of each FPL row
AS_RUN = System("pfpl+", reading=RUN)


def protocol_note(trained: Trained) -> list[str]:
    """How the figures came about, once; which systems have no figure of ours, and why."""
    study, search = trained.study, trained.more
    absent = [system for system, looks in trained.looks.items() if not looks]
    seeds = f"seeds {study.seeds[0]} to {study.seeds[-1]}" if len(study.seeds) > 1 else "that seed"
    return [
        worded(
            "fpl",
            "protocol",
            study=study,
            sizes=study.sizes,
            by=CHOSEN_BY,
            tried=search.grid.sentence(),
            seeds=seeds,
        ),
        *(f"{study.name}: no {system} here: {search.why_absent(system)}." for system in absent),
    ]


# ---- table 2 -------------------------------------------------------------------------------------


def accuracy_rows(trained: Trained) -> list[Row]:
    """Every system with the settings that validation chose, and systems on equal numbers of
    triples.
    """
    return [*rows_of_metrics(trained, ACCURACY, TABLE_2), *training_gain(trained).rows]


def pairwise_tests(trained: Trained) -> list[dict[str, Any]]:
    """Tests over users and seeds of each pair of systems and metric, with Holm's
    correction over the pairs of a metric.

    sfpl and pfpl appear once, since both readings are one training.
    """
    once = [system for system, looks in trained.looks.items() if looks and not twin(system)]
    return tested_pairs(trained, list(combinations(once, 2)), ACCURACY)


def _accuracy_figure(trained: Trained) -> dict[str, str]:
    own = [
        row
        for row in trained.rows[: len(trained.systems) * len(ACCURACY)]
        if not twin(system_of(row))
    ]
    return {
        f"precision-{trained.name}": bars_beside_paper(
            own, ACCURACY[0], "P@10", f"Table 2: {trained.name}"
        )
    }


def fcf_note(trained: Trained) -> list[str]:
    """FCF as published against what the paper compared with."""
    of = {
        str(system_of(row)): row["obtained"] for row in trained.rows if row["metric"] == CHOSEN_BY
    }
    published, compared, plus = (of.get(name) for name in ("fcf", "fcf-huawei", str(AS_RUN)))
    if published is None or compared is None or plus is None:
        return []
    claim = worded("fpl", "fcf-ahead" if published > plus else "fcf-behind")
    return [
        worded(
            "fpl",
            "fcf",
            name=trained.name,
            claim=claim,
            published=published,
            compared=compared,
            plus=plus,
        )
    ]


def significance_note(trained: Trained) -> list[str]:
    """Which systems differ from BPR-MF."""
    of: dict[str, list[str]] = {"above:": [], "below:": [], "no difference:": []}
    for test in trained.tests:
        if test["metric"] == CHOSEN_BY and "bpr-mf" in (test["a"], test["b"]):
            other = test["b"] if test["a"] == "bpr-mf" else test["a"]
            above = (test["difference"] > 0) is (other == test["a"])
            of[
                "no difference:"
                if test["p_holm"] >= SIGNIFICANT
                else "above:"
                if above
                else "below:"
            ].append(other)
    said = "; ".join(f"{what} {', '.join(names) or 'none'}" for what, names in of.items())
    return [worded("fpl", "significance", name=trained.name, level=SIGNIFICANT, said=said)]


def epochs_note(trained: Trained) -> list[str]:
    """Which factor models were trained for the most epochs that were tried: they might gain from
    more.
    """
    search: Search = trained.more
    said = []
    for system, choice in search.chosen.items():
        if choice is not None and not twin(system):
            epochs = (
                choice.settings.get("epochs", choice.epochs)
                if system.algorithm == "bpr-mf"
                else choice.epochs
            )
            tried = (
                search.grid.fcf_rounds
                if system.algorithm in FCF
                else search.grid.epochs_of(computed_as(system))
            )
            said += [f"{system} {epochs}"] if epochs == max(tried) else []
    return [worded("fpl", "epochs", name=trained.name, said=", ".join(said) or "none")]


def pi_note(trained: Trained) -> list[str]:
    """The pi that validation chose, and how much it matters."""
    search: Search = trained.more
    said = []
    for system in FPL_SYSTEMS:
        best, sharing = (
            search.chosen[system],
            {pi: choice.validation for pi, choice in search.sweeps[system].items()},
        )
        nothing = f", {sharing.pop(0.0):.4f} at 0" if 0.0 in sharing else ""
        if best is not None and sharing and not twin(system):
            reach = f"{min(sharing.values()):.4f} to {max(sharing.values()):.4f} over pi > 0"
            said.append(f"{system} {best.settings['pi']:g} ({reach}{nothing})")
    return [worded("fpl", "pi", name=trained.name, said="; ".join(said))] if said else []


# ---- how much of the gain of FPL+ is more training: as many triples without the local computation

SHORT, SHORT_PLUS, LONG, LONG_BPR = "pfpl, short", "pfpl+, short", "pfpl, long", "bpr-mf, long"
Budgets = dict[
    str, tuple[str, Chosen]
]  # trainings with a given number of triples: in words, and their settings


def training_gain(trained: Trained) -> Found:
    """pFPL, pFPL+ and BPR-MF on equal numbers of triples, at the pi and epochs that validation
    chose for pFPL+ as run.
    """
    search: Search = trained.more
    plus, bpr, reference = (
        search.chosen[AS_RUN],
        search.chosen[System("bpr-mf")],
        trained.looks[AS_RUN],
    )
    if plus is None or bpr is None or not reference:
        return Found()
    t = triples(trained.study)
    budgets = budgets_of(plus, bpr, t)
    looks = search.test_looks([chosen for _, chosen in budgets.values()])
    found = {name: some for name, some in zip(budgets, looks, strict=True) if some}
    rows = []
    for name, some in found.items():
        words, chosen = budgets[name]
        said = f"; not a row of the paper: {words}"
        rows += [
            search.row(System(name), chosen, metric, each(some, metric), words=said)
            for metric in ACCURACY
        ]
    about = {"name": trained.name, "pi": plus.settings["pi"], "epochs": plus.epochs, "t": t}
    return Found(
        rows=rows, notes=[gain_note(reference, found, about)] if len(found) == len(budgets) else []
    )


def triples(study: Study) -> int:
    """T of FPL+ on all training rows."""
    rows = study.part("test").rows
    return int(
        Cell(algorithm="pfpl+", settings={}, part="test")
        .made(rows)
        .configured(rows.catalogue)
        .triples
    )


def budgets_of(plus: Chosen, bpr: Chosen, t: int) -> Budgets:
    """Trainings with E epochs of X+ triples, and with E T of them, which is what pFPL+ as run takes
    in E epochs.
    """
    few, many, settings = (
        plus.epochs,
        plus.epochs * t,
        {**plus.settings, "rounds_per_epoch": PRINTED},
    )
    return {
        SHORT: (f"{few} X+ triples, T = 1", Chosen("pfpl", settings, few)),
        SHORT_PLUS: (f"{few} X+ triples, T = {t}", Chosen("pfpl+", settings, few)),
        LONG: (f"{many} X+ triples, T = 1: as many as pfpl+ (run)", Chosen("pfpl", settings, many)),
        LONG_BPR: (
            f"{many} X+ triples: as many as pfpl+ (run)",
            Chosen("bpr-mf", {**bpr.settings, "epochs": many}),
        ),
    }


def gain_note(
    run: Sequence[CurvePoint], found: Mapping[str, Sequence[CurvePoint]], about: dict[str, Any]
) -> str:
    """What the local computation is worth, and how much of the gain of pFPL+ as run a pFPL with as
    many triples has.
    """
    names = {"short": SHORT, "short_plus": SHORT_PLUS, "long": LONG, "bpr": LONG_BPR}
    looks = {"run": run, **{short: found[name] for short, name in names.items()}}
    of = {name: mean(some, CHOSEN_BY) for name, some in looks.items()}

    def test(a: str, b: str) -> Difference:
        return difference(*(users_of(looks[name], CHOSEN_BY) for name in (a, b)))

    pairs = {
        "alone": ("short_plus", "short"),
        "gain": ("run", "short"),
        "over_long": ("run", "long"),
        "over_bpr": ("run", "bpr"),
    }
    tests = {name: test(*pair) for name, pair in pairs.items()}
    sure = of["run"] > of["short"] and tests["gain"].p() < SIGNIFICANT
    share = (of["long"] - of["short"]) / (of["run"] - of["short"]) if sure else 0.0
    explained = worded("fpl", "gain-explained", share) if sure else worded("fpl", "gain-absent")
    said = {
        name: f"{test.mean:+.5f} (over {test.holds}, p = {test.p():.2g})"
        for name, test in tests.items()
    }
    return worded("fpl", "gain", share=explained, **about, **of, **said)


# ---- why the level differs from the paper's: a system without settings, when other rows of the sam


def order_note(trained: Trained) -> list[str]:
    """`order_control` against the P@10 of Top-Pop in table 2."""
    return order_control(trained.study, TABLE_2.get((trained.name, POPULAR, CHOSEN_BY)))


def order_control(study: Study, printed: float | None) -> list[str]:
    """P@10 of Top-Pop with the newest, random and oldest rows held out, against the printed one;
    Italy only.
    """
    if study.name != "foursquare-italy" or printed is None:
        return []
    turned = replace(study.data, time=None if study.data.time is None else -study.data.time)
    newest, oldest = (top_pop(study, data, study.source.protocol) for data in (study.data, turned))
    random = top_pop(study, study.data, "random-80-20")
    cause = worded("fpl", "order-rises" if newest < random < oldest else "order-other")
    of = {"printed": printed, "newest": newest, "random": random, "oldest": oldest}
    return [worded("fpl", "order", name=study.name, cause=cause, **of)]


def top_pop(study: Study, data: Interactions, protocol: str) -> float:
    """P@10 of Top-Pop under a protocol."""
    part = parts_of(splits(protocol, data, seed=study.seed)[0])["test"]
    cell = Cell(algorithm=POPULAR, settings={}, part="test", seed=study.seed)
    return study.cells.outcomes_of([(part, cell)])[0].looks[0].metrics[CHOSEN_BY]


# ---- table 3 -------------------------------------------------------------------------------------


def computation_note(trained: Trained) -> list[str]:
    """Section 6.2: "an increase in IC and Gini in accord with the increase of local
    computation".
    """
    systems = (System("pfpl", reading=PRINTED), System("pfpl+", reading=PRINTED), AS_RUN)
    if not all(trained.looks.get(system) for system in systems):
        return []
    single, plus, run = (mean(trained.looks[system], DIVERSITY[0]) for system in systems)
    cause = "training" if run - plus > plus - single else "local"
    cause = worded("fpl", f"computation-{cause if run > single else 'not'}")
    return [
        worded(
            "fpl", "computation", name=trained.name, single=single, plus=plus, run=run, cause=cause
        )
    ]


EXPERIMENTS = {
    "fpl-table2": PaperTable(
        title="accuracy of the baselines and of FPL (FPL, table 2)",
        data=countries,
        train=searched,
        metrics=ACCURACY,
        printed=TABLE_2,
        rows=accuracy_rows,
        tests=pairwise_tests,
        findings=(
            protocol_note,
            agrees(ACCURACY[0], over_top_pop=True),
            order_note,
            lambda trained: training_gain(trained).notes,
            fcf_note,
            significance_note,
            pi_note,
            epochs_note,
        ),
        figures=_accuracy_figure,
    ),
    "fpl-table3": PaperTable(
        title="diversity of the baselines and of FPL (FPL, table 3)",
        data=countries,
        train=searched,
        metrics=DIVERSITY,
        printed=TABLE_3,
        rows=lambda trained: rows_of_metrics(trained, DIVERSITY, TABLE_3),
        findings=(protocol_note, agrees(*DIVERSITY), computation_note),
    ),
}
