"""FPL, table 4: the total communication cost (TCC) of each configuration and pi on Brazil, beside
its precision.

The printed TCCs are arithmetic over Brazil's shape, and only rounds per epoch that ignore T give
them with whole epochs. What runs really send is counted on data of that shape; cost against
precision is measured on the rows there are.
"""

from __future__ import annotations

import numpy as np

from entrenous.core.errors import InputError
from entrenous.data.interactions import Interactions
from entrenous.data.load import load
from entrenous.federation.rounds import Rounds
from entrenous.report.figures import FigureFormat, scatter
from entrenous.runs.train import advance

from .cell import Cell, CurvePoint
from .effort import CONFIGURATIONS, PRINTED, RUN
from .fpl_pi import Point, lines_of, point_rows, swept
from .opened import COUNTRIES, Country, countries
from .result import Context, Found, Row, row
from .study import Study, System
from .table import PaperTable, Trained
from .values import printed, worded

PI = tuple(n / 10 for n in range(1, 11))
EPOCHS = {
    "sfpl": 45,
    "sfpl+": 50,
    "pfpl": 45,
    "pfpl+": 35,
}  # not printed: the only whole numbers that give TCC
UNIT = 1e12
COST, COUNTED, PRECISION_AT = "tcc (1e12 vectors)", "vectors counted (1e12)", "precision@10"
BRAZIL = COUNTRIES["Brazil"]
PAPER = printed("fpl", "table4")
TCC = {
    system: tuple(PAPER[BRAZIL.data, f"{system} pi {pi:g}", COST] for pi in PI)
    for system in CONFIGURATIONS
}
SHAPE, ROUNDS = "synthetic-fpl-brazil", {"sfpl": 2000, "sfpl+": 500, "pfpl": 1, "pfpl+": 1}


def tcc(country: Country, system: str, pi: float, epochs: float, reading: str) -> float:
    """TCC = epochs rpe |U-| (|I| + T (1 + pi)), in vectors. T of FPL+ is X+ / |U| and not rounded,
    as the printed figures show.

    rpe |U-| is X+ as run, X+ / T as printed (section 5.2: |U-| T rpe = X+).

    >>> round(tcc(COUNTRIES["Brazil"], "sfpl", 0.1, 45, "run") / 1e12, 5)
    1.27623
    """
    t = country.interactions / country.users if system.endswith("+") else 1.0
    exchanges = country.interactions if reading == RUN else country.interactions / t
    return epochs * exchanges * (country.items + t * (1 + pi))


def without_rows(context: Context) -> Found:
    """The arithmetic for Brazil, and what runs of its shape send."""
    found = Found(rows=arithmetic(), notes=[arithmetic_note()])
    found.add(counted(load(SHAPE), context.seed))
    return found


def if_present(context: Context, notes: list[str]) -> list[Study]:
    """The countries that there are; a note if there is none."""
    try:
        return countries(context)
    except InputError as missing:
        notes.append(f"Precision is not measured, and the arithmetic needs no data. {missing}")
        return []


# ---- the printed figures -------------------------------------------------------------------------


def arithmetic() -> list[Row]:
    """TCC for Brazil by formula, under both readings."""
    rows = []
    for system, epochs in EPOCHS.items():
        for reading in (RUN, PRINTED):
            said = f"by formula over Brazil's shape, {epochs} epochs, rounds per epoch as {reading}"
            for pi, paper in zip(PI, TCC[system], strict=True):
                ours, more = (
                    tcc(BRAZIL, system, pi, epochs, reading) / UNIT,
                    {"reading": reading, "pi": pi, "epochs": epochs},
                )
                rows.append(
                    row(
                        BRAZIL.data, system, COST, paper=paper, obtained=ours, protocol=said, **more
                    )
                )
    return rows


def arithmetic_note() -> str:
    """How well either reading gives the printed figures."""
    as_run = [row for row in arithmetic() if row["reading"] == RUN]
    off = max(abs(row["obtained"] - row["paper"]) for row in as_run)
    given = sum(round(row["obtained"], 5) == row["paper"] for row in as_run)
    needed = [
        TCC[name][0] * UNIT / tcc(BRAZIL, name, PI[0], 1, PRINTED) for name in ("sfpl+", "pfpl+")
    ]
    epochs, t = ", ".join(map(str, EPOCHS.values())), BRAZIL.interactions / BRAZIL.users
    return worded(
        "fpl",
        "arithmetic",
        epochs=epochs,
        given=given,
        several=len(as_run),
        off=off,
        needed=needed,
        t=t,
    )


# ---- what runs really send -----------------------------------------------------------------------


def counted(data: Interactions, seed: int) -> Found:
    """Rows that a device sends in a round at pi = 0.5, counted by the ledger, of T (1 + pi) by
    formula.
    """
    rows, said, name = [], [], f"{data.name} (synthetic shape, not the paper's data)"
    for system, rounds in ROUNDS.items():
        federation = Rounds(
            Cell(algorithm=system, settings={"pi": 0.5, "factors": 2}, part="test").made(data),
            data,
            seed=seed,
        )
        ledger = advance(federation, federation.start(), rounds).ledger
        t, sent = int(federation.algorithm.triples), ledger.rows_up / ledger.device_rounds  # type: ignore[attr-defined]
        protocol = (
            f"synthetic shape, not the paper's data; {rounds} rounds, T = {t}, by formula"
            f" {1.5 * t:g}"
        )
        rows.append(
            row(
                name,
                system,
                "rows sent a device and round",
                paper=None,
                obtained=sent,
                protocol=protocol,
                pi=0.5,
            )
        )
        said.append(f"{system} {sent:.2f} of {1.5 * t:g}")
    return Found(
        rows=rows,
        notes=[worded("fpl", "counted", name=name, said=", ".join(said), items=len(data.items))],
    )


# ---- cost against precision, as in figure 4 ------------------------------------------------------


def cost_rows(trained: Trained) -> list[Row]:
    """Precision of each configuration and pi beside its cost, by formula and as counted."""
    catalogue = trained.study.part("test").trained.catalogue
    shape = Country(
        trained.name, trained.name, catalogue.users, catalogue.items, catalogue.interactions
    )

    def values(system: System, point: Point, look: CurvePoint) -> dict[str, float]:
        formula = tcc(shape, system.algorithm, point.pi, point.chosen.epochs, system.reading)
        return {
            COST: formula / UNIT,
            COUNTED: look.ledger["vectors"] / UNIT,
            PRECISION_AT: look.metrics[PRECISION_AT],
        }

    return point_rows(trained, values, PAPER)


def _figure(trained: Trained) -> dict[str, str]:
    best = {
        name: max(mine, key=lambda point: point.chosen.validation)
        for name, mine in lines_of(trained).items()
    }
    sent = {
        name: float(np.mean([look.ledger["vectors"] for look in point.looks])) / UNIT
        for name, point in best.items()
    }
    series = {name: ([sent[name]], [point.mean(PRECISION_AT)]) for name, point in best.items()}
    drawn = scatter(
        series,
        FigureFormat(title=f"Figure 4: {trained.name}, best pi", x_label=COUNTED, y_label="P@10"),
    )
    return {f"cost-precision-{trained.name}": drawn}


EXPERIMENTS = {
    "fpl-table4": PaperTable(
        title="communication cost against precision (FPL, table 4)",
        before=without_rows,
        data=if_present,
        train=swept,
        metrics=(COST, COUNTED, PRECISION_AT),
        printed=PAPER,
        rows=cost_rows,
        figures=_figure,
    )
}
