"""Many peers: what keeps systems without a server below FedAvg on all 943 users of MovieLens-100K
(not in the paper).

Two differences have nothing to do with peers: how many factors a model has, and whether its
learning rates decay. Each is tried with and without the other, on rows that are set apart from
training, by which nobody weighs or tests; a system's row is the best look of its curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from .measures import ConvergencePace, paces
from .opened import pepper
from .pepper_accuracy import WHOLE_MOVIELENS
from .study import Study, System
from .table import PaperTable, Trained, Values
from .values import worded

PEERS = ("pepper-gmf", "gossip-average-gmf")
FACTORS, DECAYS = (8, 16), (0.0, 0.003)
SETTINGS = [{"factors": factors, "decay": decay} for factors, decay in product(FACTORS, DECAYS)]
USUAL = {
    "learning_rate": 0.02,
    "learning_rate_user": 0.3,
    "reg": 0.3,
}  # in place of what was searched with constant rates
AROUND_A_SERVER = System("fedavg-gmf")
METRICS, ROUND = ("hr@20", "hr@10", "hr@5", "ndcg@10"), "best round"
SYSTEMS = (
    AROUND_A_SERVER,
    *(
        System(
            name, called=f"{name}, {settings['factors']} factors, decay {settings['decay']:g}"
        ).replaced(**USUAL, **settings)
        for name, settings in product(PEERS, SETTINGS)
    ),
)


def on_rows_apart(study: Study, systems: list[System]) -> Trained:
    """Trains without the rows that are set apart, and looks at them on the way; `more` is {system:
    the pace of each seed}.
    """
    curves = study.curves(systems, study.seeds, part="apart")
    near = {system: paces(outcomes) for system, outcomes in curves.items()}
    return Trained(
        study=study,
        systems=systems,
        curves=curves,
        more=near,
        conditions="; on rows set apart, at the best look",
    )


def best_of(trained: Trained, system: System) -> Values:
    """The best look of each seed."""
    mine: Sequence[ConvergencePace] = trained.more[system]
    of = {metric: [pace.best.metrics[metric] for pace in mine] for metric in METRICS}
    return {**of, ROUND: [pace.best.rounds for pace in mine]}


def beside_the_server(trained: Trained) -> list[str]:
    """How far each is from FedAvg."""
    mean = {
        system: sum(values) / len(values)
        for system in trained.systems
        if (values := best_of(trained, system)["hr@10"])
    }
    server = mean.pop(AROUND_A_SERVER, None)
    if server is None:
        return []
    said = ", ".join(f"{system} {value - server:+.4f}" for system, value in mean.items())
    return [worded("pepper", "many", name=trained.name, server=server, said=said)]


EXPERIMENTS = {
    "pepper-many": PaperTable(
        title="many peers: factors and decaying learning rates beside FedAvg (not in the paper)",
        data=pepper(WHOLE_MOVIELENS),
        systems=SYSTEMS,
        train=on_rows_apart,
        metrics=best_of,
        findings=(beside_the_server,),
    )
}
