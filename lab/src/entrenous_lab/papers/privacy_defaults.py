"""Default settings by accuracy and by what the final model tells: each algorithm as it comes, with
its settings, and with fewer factors or rounds. Nothing protects sums here: what is seen is the
model, which everybody has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count

import numpy as np

from entrenous.data.load import load
from entrenous.privacy.protection import PAPER
from entrenous.runs.plan import in_words

from .result import Context, Found
from .set_runner import SetRunner
from .set_trials import Tried, candidates, fronts, tried_by, tried_rows
from .table import PaperTable

GRIDS: Mapping[str, Mapping[str, Sequence[float]]] = {
    "pfpl+": {"factors": (8, 16, 32, 80), "epochs": (46, 100)},
    "fcf": {"factors": (16, 32), "rounds": (40, 100)},
    "fcf-newton": {"factors": (16, 32, 64, 128)},
    "fedncf": {"factors": (16, 32, 64)},
    "fedmf": {"factors": (16, 32, 64)},
}
"""{algorithm: {setting: values}}; the last of each is what the algorithm comes with."""
DATA = {"ml-100k": "loo-99", "gowalla-nyc": "loo-99", "ml-1m": "ncf-99"}
SEEDS = {"ml-100k": (0, 4)}
"""Seeds of the choice, where they are not 0 alone: what few people tell varies."""
OF_TESTS = {"fcf": {"alpha": (3.0, 1.0), "rounds": (2,)}}
NO_LOSS = 0.01
"""HR@10 on validation rows, below the best candidate, that counts as no loss."""
WHY = "as defaults"


def best_default(tried: Mapping[str, Sequence[Tried]]) -> int:
    """Returns the place of the candidate to be the default. tried: {data set: its candidates, in
    one order}.

    The one that tells least, on the data set where it tells most, among those that lose at most
    `NO_LOSS` on every data set compared with the best there; if there is none, the one that loses
    least on the data set where it loses most.

    >>> of = lambda accuracy, told: Tried({}, [accuracy], {0.5: [told]})
    >>> best_default({"x": [of(0.600, 0.10), of(0.595, 0.03), of(0.5, 0.01)]})
    1
    """
    losses = []
    for mine in tried.values():
        accuracy = np.array([one.accuracy for one in mine])
        losses.append(accuracy.max() - accuracy)
    loss = np.max(losses, axis=0)
    most = np.max([[one.most for one in mine] for mine in tried.values()], axis=0)
    no_loss = loss <= NO_LOSS
    if not no_loss.any():
        return int(np.argmin(loss))
    return int(np.argmin(np.where(no_loss, most, np.inf)))


def found(context: Context) -> Found:
    """Tries every candidate of every algorithm on every data set, and names the best default."""
    whole = Found()
    runners = [*_runners(context)]
    grids = OF_TESTS if context.data is not None else GRIDS
    total = len(runners) * sum(len(candidates(grid)) for grid in grids.values())
    steps = count(1)

    def tell(what: str) -> None:
        context.cells._progress(next(steps), total, what)

    for algorithm, grid in grids.items():
        several = candidates(grid)
        tried = {}
        for runner in runners:
            name = runner.data.name
            seeds = SEEDS.get(name, (0,))
            context.uses(algorithm, runner.data)
            tried[name] = [
                tried_by(runner, algorithm, settings, seeds, tell) for settings in several
            ]
            whole.add(Found(rows=list(tried_rows(algorithm, runner, tried[name], WHY, seeds))))
        note = _in_words(algorithm, several, tried)
        whole.add(Found(notes=[note], figures=dict(fronts(algorithm, tried))))
    for runner in runners:
        context.cells.computed += runner.counts["computed"]
    return whole


def _runners(context: Context) -> Iterable[SetRunner]:
    """One for each data set that is asked for, or for given rows."""
    folder = context.cells.folder
    if context.data is not None:
        yield SetRunner(data=context.data, protocol="loo-20", folder=folder, profile=PAPER)
        return
    names = [name for name in DATA if context.wants(name)]
    for name in names[:1] if context.quick else names:
        yield SetRunner(data=load(name), protocol=DATA[name], folder=folder, profile=PAPER)


def _in_words(
    algorithm: str, several: Sequence[Mapping[str, float]], tried: Mapping[str, Sequence[Tried]]
) -> str:
    """What the figures choose, and how it compares with what the algorithm comes with."""
    place = best_default(tried)
    compared = []
    for name, mine in tried.items():
        chosen, comes_with = mine[place], mine[-1]
        compared.append(
            f"{name} {comes_with.accuracy:.3f} -> {chosen.accuracy:.3f}, tells"
            f" {comes_with.most:.3f} -> {chosen.most:.3f}"
        )
    return (
        f"{algorithm}: of {len(several)} settings {in_words(several[place])} is the best default;"
        f" compared with {in_words(several[-1])}, HR@10 on validation rows, and what the model"
        f" tells: {'; '.join(compared)}."
    )


EXPERIMENTS = {
    "privacy-defaults": PaperTable(
        title="default settings by accuracy on validation rows and by what the model tells of those"
        " who took part",
        data=lambda context, notes: (),
        before=found,
    )
}
