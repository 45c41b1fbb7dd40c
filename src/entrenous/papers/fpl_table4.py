"""FPL, table 4: the total communication cost (TCC) of each configuration and pi on Brazil, beside its precision.

The printed TCCs are arithmetic over Brazil's shape, and only rounds per epoch that ignore T give them with whole epochs.
What runs really send is counted on data of that shape; cost against precision is measured on the rows there are.
"""

from __future__ import annotations

from ..core.errors import InputError
from ..data.interactions import Interactions
from ..data.load import load
from ..federation.rounds import Rounds
from ..report.figures import scatter
from ..runs.train import advance
from .cell import Cell
from .countries import COUNTRIES, Country
from .grid import CONFIGURATIONS, PRINTED, RUN
from .pi_points import lines_of, point_row, points_of
from .result import Context, Experiment, Found, Row, row
from .studies import studies
from .study import Study

# printed: TCC x 10^-12 and P@10 for pi = 0.1, 0.2, ..., 1.0
TCC = {
    "sfpl": (1.27623, 1.27623, 1.27624, 1.27624, 1.27624, 1.27624, 1.27625, 1.27625, 1.27625, 1.27625),
    "sfpl+": (1.41913, 1.41924, 1.41934, 1.41944, 1.41955, 1.41965, 1.41975, 1.41985, 1.41996, 1.42006),
    "pfpl": (1.27623, 1.27623, 1.27624, 1.27624, 1.27624, 1.27624, 1.27625, 1.27625, 1.27625, 1.27625),
    "pfpl+": (0.99339, 0.99347, 0.99354, 0.99361, 0.99368, 0.99375, 0.99383, 0.99390, 0.99397, 0.99404),
}
PRECISION = {
    "sfpl": (0.06961, 0.07327, 0.07551, 0.07686, 0.07757, 0.07733, 0.07714, 0.07730, 0.07724, 0.07702),
    "sfpl+": (0.03347, 0.05241, 0.06269, 0.06949, 0.07298, 0.08121, 0.08506, 0.08660, 0.08682, 0.08523),
    "pfpl": (0.07026, 0.07366, 0.07497, 0.07582, 0.07671, 0.07723, 0.07758, 0.07771, 0.07726, 0.07703),
    "pfpl+": (0.04358, 0.05022, 0.05598, 0.06382, 0.07648, 0.08247, 0.08590, 0.08733, 0.08699, 0.08582),
}
PI = tuple(n / 10 for n in range(1, 11))
EPOCHS = {"sfpl": 45, "sfpl+": 50, "pfpl": 45, "pfpl+": 35}  # not printed: the only whole numbers that give TCC
UNIT = 1e12
COST, COUNTED, PRECISION_AT = "tcc (1e12 vectors)", "vectors counted (1e12)", "precision@10"
BRAZIL = COUNTRIES["Brazil"]
PAPER = {
    ("foursquare-brazil", f"{system} pi {pi:g}", metric): table[system][n]
    for metric, table in ((COST, TCC), (PRECISION_AT, PRECISION))
    for system in CONFIGURATIONS
    for n, pi in enumerate(PI)
}


SHAPE, ROUNDS = "synthetic-fpl-brazil", {"sfpl": 2000, "sfpl+": 500, "pfpl": 1, "pfpl+": 1}


def tcc(country: Country, system: str, pi: float, epochs: float, reading: str) -> float:
    """TCC = epochs rpe |U-| (|I| + T (1 + pi)), in vectors. T of FPL+ is X+ / |U| and not rounded, as the printed figures show.

    rpe |U-| is X+ as run, X+ / T as printed (section 5.2: |U-| T rpe = X+).

    >>> round(tcc(COUNTRIES["Brazil"], "sfpl", 0.1, 45, "run") / 1e12, 5)      # 45 * 599,958 * (47,270 + 1.1)
    1.27623
    """
    t = country.interactions / country.users if system.endswith("+") else 1.0
    exchanges = country.interactions if reading == RUN else country.interactions / t
    return epochs * exchanges * (country.items + t * (1 + pi))


def run(context: Context) -> Found:
    """The arithmetic for Brazil, what runs of its shape send, and cost against precision on the rows there are, if any."""
    found = Found(rows=arithmetic(), notes=[arithmetic_note()])
    found.add(counted(load(SHAPE), context.seed))
    try:
        every = studies(context)
    except InputError as missing:
        found.notes.append(f"Precision is not measured, and the arithmetic needs no data. {missing}")
        return found
    for study in every:
        found.add(measured(study))
    return found


# ---- the printed figures -------------------------------------------------------------------------------------------------------


def arithmetic() -> list[Row]:
    """TCC for Brazil by formula, under both readings."""
    return [
        row(
            BRAZIL.data,
            system,
            COST,
            paper=TCC[system][n],
            obtained=tcc(BRAZIL, system, pi, EPOCHS[system], reading) / UNIT,
            protocol=f"by formula over Brazil's shape, {EPOCHS[system]} epochs, rounds per epoch as {reading}",
            reading=reading,
            pi=pi,
            epochs=EPOCHS[system],
        )
        for system in CONFIGURATIONS
        for reading in (RUN, PRINTED)
        for n, pi in enumerate(PI)
    ]


def arithmetic_note() -> str:
    """How well either reading gives the printed figures."""
    off = max(abs(row["obtained"] - row["paper"]) for row in arithmetic() if row["reading"] == RUN)
    needed = [TCC[name][0] * UNIT / tcc(BRAZIL, name, PI[0], 1, PRINTED) for name in ("sfpl+", "pfpl+")]
    return (
        "Brazil, arithmetic: with 45, 50, 45 and 35 epochs and X+ / |U-| rounds an epoch whatever T, the formula of section "
        "6.3 gives "
        f"all {4 * len(PI)} printed TCCs (largest difference {off:.1e}; half a printed digit is 5e-06). With the rounds per "
        "epoch of "
        f"section 5.2 the '+' rows would need {needed[0]:,.0f} and {needed[1]:,.0f} epochs, and 10 to 50 were explored. So "
        "the printed "
        "'+' figures rest on 34 times the triples of an epoch as printed."
    )


# ---- what runs really send -----------------------------------------------------------------------------------------------------


def counted(data: Interactions, seed: int) -> Found:
    """Rows that a device sends in a round at pi = 0.5, counted by the ledger, of T (1 + pi) by formula."""
    rows, said = [], []
    for system, rounds in ROUNDS.items():
        federation = Rounds(Cell(algorithm=system, settings={"pi": 0.5, "factors": 2}, part="test").made(data), data, seed=seed)
        ledger = advance(federation, federation.start(), rounds).ledger
        t, sent = int(federation.algorithm.triples), ledger.rows_up / ledger.device_rounds  # type: ignore[attr-defined]
        protocol = f"synthetic shape, not the paper's data; {rounds} rounds, T = {t}, by formula {1.5 * t:g}"
        name = f"{data.name} (synthetic shape, not the paper's data)"
        rows.append(row(name, system, "rows sent a device and round", paper=None, obtained=sent, protocol=protocol, pi=0.5))
        said.append(f"{system} {sent:.2f} of {1.5 * t:g}")
    return Found(
        rows=rows,
        notes=[
            f"{data.name} (synthetic shape, not the paper's data): rows that a device sends in a round at pi = 0.5, of T (1 "
            "+ pi) by "
            f"formula: {', '.join(said)}. An item drawn twice is sent once. The download of |I| = {len(data.items):,} rows "
            "dwarfs both, "
            "which is why table 4 hardly depends on pi."
        ],
    )


# ---- cost against precision, as in figure 4 ------------------------------------------------------------------------------------


def measured(study: Study) -> Found:
    """Precision of each configuration and pi beside its cost, by formula and as counted."""
    catalogue, points = study.parts["test"].rows.catalogue, points_of(study)
    shape = Country(study.country, study.data.name, catalogue.users, catalogue.items, catalogue.interactions)
    rows = []
    for system, mine in points.items():
        for point in mine:
            formula = tcc(shape, system.name, point.pi, point.chosen.epochs, system.reading)
            values = {
                COST: formula / UNIT,
                COUNTED: point.look.ledger["vectors"] / UNIT,
                PRECISION_AT: point.look.metrics[PRECISION_AT],
            }
            rows += [point_row(study, system, point, metric, value, PAPER) for metric, value in values.items()]
    best = {name: max(mine, key=lambda point: point.chosen.validation) for name, mine in lines_of(points).items()}
    series = {name: ([at.look.ledger["vectors"] / UNIT], [at.look.metrics[PRECISION_AT]]) for name, at in best.items()}
    figure = scatter(series, x_label=COUNTED, y_label="P@10", title=f"Figure 4: {study.data.name}, best pi")
    return Found(rows=rows, figures={f"cost-precision-{study.data.name}": figure})


EXPERIMENTS = {"fpl-table4": Experiment("communication cost against precision (FPL, table 4)", PAPER, run)}
