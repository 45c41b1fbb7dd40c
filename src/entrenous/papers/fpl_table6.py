"""FPL, tables 5 and 6: how biased users are towards categories of venues, and how far recommendations move that bias (eq. 10)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..evaluate.metrics.bias_disparity import source_bias
from ..evaluate.protocol import categories
from ..evaluate.ranking import Lists
from ..report.figures import bars
from .cell import Look
from .findings import absent, protocol_note
from .result import Experiment, Found, Row, row
from .studies import over_studies
from .study import Study, System
from .system_rows import why_absent

CATEGORIES = {
    "A&E": "Arts & Entertainment",
    "C&U": "College & University",
    "Food": "Food",
    "NS": "Nightlife Spot",
    "O&R": "Outdoors & Recreation",
    "P&OP": "Professional & Other Places",
    "Res": "Residence",
    "S&S": "Shop & Service",
    "T&T": "Travel & Transport",
}
SOURCE = "source bias"
# table 5, B_T by country, in the order of CATEGORIES
BIAS = {
    "Brazil": (1.4949, 0.6289, 1.1024, 1.3286, 1.1340, 0.6424, 0.5202, 0.8314, 1.3699),
    "Canada": (1.7224, 0.8310, 1.0879, 1.6594, 0.9719, 0.6610, 0.4134, 0.8087, 1.2328),
    "Italy": (1.4130, 0.8221, 0.9317, 1.3559, 1.3292, 0.7868, 0.4171, 0.8482, 1.2678),
}
# table 6, BD on Brazil
DISPARITY = {
    "random": (-0.325, 0.559, -0.080, -0.245, -0.143, 0.549, 0.911, 0.203, -0.273),
    "popular": (-1.000, -1.000, -0.302, -1.000, -0.999, -1.000, -1.000, -1.000, 6.660),
    "user-knn": (0.445, -0.832, 0.261, -0.213, 0.162, -0.842, -0.969, -0.431, 0.621),
    "item-knn": (0.346, 0.140, 0.068, -0.102, 0.153, -0.347, -0.381, -0.227, 0.083),
    "vae": (0.393, -0.723, 0.223, -0.315, 0.194, -0.776, -0.911, -0.310, 0.572),
    "bpr-mf": (0.301, -0.712, 0.232, -0.710, 0.142, -0.758, -0.992, -0.434, 1.165),
    "fcf": (-0.464, -0.968, 0.687, -0.910, 0.135, -0.960, -0.994, -0.946, 1.239),
    "sfpl": (0.272, -0.738, 0.263, -0.756, 0.161, -0.814, -0.997, -0.368, 1.072),
    "sfpl+": (0.311, -0.675, 0.160, -0.396, 0.278, -0.806, -0.903, -0.291, 0.812),
    "pfpl": (0.253, -0.813, 0.218, -0.613, 0.143, -0.739, -0.992, -0.479, 1.239),
    "pfpl+": (0.154, -0.566, 0.190, -0.351, 0.345, -0.764, -0.913, -0.410, 0.778),
}
PAPER = {
    (f"foursquare-{country.lower()}", SOURCE, f"B_T {short}"): value
    for country, values in BIAS.items()
    for short, value in zip(CATEGORIES, values, strict=True)
} | {
    ("foursquare-brazil", system, f"BD {short}"): value
    for system, values in DISPARITY.items()
    for short, value in zip(CATEGORIES, values, strict=True)
}


SHOWN = (System("popular"), System("bpr-mf"), System("pfpl+", "run"))  # in the figure


def one(study: Study) -> Found:
    """B_T of the training rows, and BD of every system of table 2."""
    bias = source_rows(study)
    if not bias:
        return Found(notes=[f"{study.data.name} has no item categories, so there is no bias to measure."])
    looks = study.tested()
    return Found(
        rows=[*bias, *disparity_rows(study, looks, bias)],
        notes=[*protocol_note(study), *absent(study, looks), *_notes(study, bias, looks)],
        figures={f"bias-disparity-{study.data.name}": _figure(study, looks)},
    )


def source_rows(study: Study) -> list[Row]:
    """B_T of each category; none without categories. A category that the paper has no short name for keeps its own."""
    rows = study.parts["test"].rows
    nobody = np.empty(0, np.int64)
    lists = Lists(np.empty((0, 1), np.int32), nobody, rows.popularity > 0, rows.popularity, *categories(rows))
    said = f"{study.data.name}: share of training rows in the category / its share of the items with a training row (eq. 10)"
    named = {f"B_T {short(name)}": value for name, value in (source_bias(lists) or {}).items()}
    data = study.data.name
    return [
        row(data, SOURCE, metric, paper=PAPER.get((data, SOURCE, metric)), obtained=value, protocol=said)
        for metric, value in named.items()
    ]


def disparity_rows(study: Study, looks: Mapping[System, Look | None], bias: list[Row]) -> list[Row]:
    """BD@10 of every system and category. Table 6 is of Brazil, so only Brazil's rows have a paper's number."""
    metrics, data = [row["metric"].replace("B_T", "BD") for row in bias], study.data.name
    rows = []
    for system, look in looks.items():
        of = {f"BD {short(name)}": value for name, value in disparity(look).items()}
        said = study.protocol(system, study.chosen[system]) + ("" if look is not None else f"; {why_absent(study, system)}")
        for metric in metrics:
            paper = PAPER.get((data, system.printed_as, metric))
            rows.append(
                row(data, system.name, metric, paper=paper, obtained=of.get(metric), protocol=said, reading=system.reading)
            )
    return rows


def disparity(look: Look | None) -> dict[str, float]:
    """BD@10 by category."""
    return {} if look is None else look.by_category["bias_disparity@10"]


def short(name: str) -> str:
    """The paper's short name of a category.

    >>> short("Nightlife Spot"), short("Event")
    ('NS', 'Event')
    """
    return next((abbreviation for abbreviation, long in CATEGORIES.items() if long == name), name)


def _notes(study: Study, bias: list[Row], looks: Mapping[System, Look | None]) -> list[str]:
    said = []
    both = [(row["paper"], row["obtained"]) for row in bias if row["paper"] is not None]
    if both:
        sides = sum((paper > 1) == (ours > 1) for paper, ours in both)
        off = float(np.mean([abs(paper - ours) for paper, ours in both]))
        said.append(
            f"{study.data.name}, B_T against table 5: {sides} of {len(both)} categories on the same side of 1, mean absolute "
            f"difference {off:.3f}."
        )
    size = {str(system): _mean_size(look) for system, look in looks.items() if look is not None and not system.twin}
    listed = ", ".join(f"{name} {value:.2f}" for name, value in sorted(size.items(), key=lambda entry: entry[1]))
    return [*said, f"{study.data.name}, mean |BD| over categories, least biased first: {listed}. (Table 6 prints Brazil only.)"]


def _mean_size(look: Look) -> float:
    return float(np.mean(np.abs(list(disparity(look).values()))))


def _figure(study: Study, looks: Mapping[System, Look | None]) -> str:
    of = {str(system): disparity(looks[system]) for system in SHOWN if looks[system] is not None}
    names = list(of[str(SHOWN[0])])
    series = {system: [values[name] for name in names] for system, values in of.items()}
    return bars([short(name) for name in names], series, x_label="BD@10", y_label="", title=f"Table 6: {study.data.name}")


EXPERIMENTS = {"fpl-table6": Experiment("bias disparity by category (FPL, tables 5 and 6)", PAPER, over_studies(one))}
