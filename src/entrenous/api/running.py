"""`run` and `open`: a training from Python, and one that was stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from ..core.contract.protocols import Progress
from ..core.keywords import at_least, values
from ..runs import store
from ..runs.options import RunOptions, TrainingOptions, TuneFirst
from ..runs.pipeline import RunRequest, carry_out
from ..runs.train import OnRound
from .asked import SplitAsked, algorithm_asked, data_asked, metrics_asked, split_asked
from .progress import asked_progress
from .result import Run
from .words import in_python, public


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class RunKeywords(RunOptions, TuneFirst, TrainingOptions):
    """The keywords of `run`: the options of `entrenous run`, and what only Python can hand in."""

    algorithm: Any = field(kw_only=False)
    """A name of `entrenous algorithms`; the user's own class or an instance of it
    (`entrenous.Settings`); or its place, "./my_algo.py" or "my_module:MyAlgorithm"."""
    data: Any = field(default="ml-100k", kw_only=False)
    """The name of a data set, a file or folder; `Interactions`; a pandas, polars or Arrow frame; a
    list of (user, item, value, time); a SciPy sparse matrix, users by items."""
    split: SplitAsked | None = None
    """How rows are held out: the name of a protocol such as "loo-99" (None = the usual one), a
    `Split`, one for each fold, or a function (data, seed=...) that makes them."""
    metrics: Mapping[str, Any] | Sequence[Any] = ()
    """Further metrics: {name: metric}, or a list of functions (ranking, n) -> one value a query."""
    on_round: OnRound | None = None
    """Called after each round of training as on_round(round, metrics), with the metrics of a look
    at validation, else {}; of a first training too, which finds the best round on validation rows
    that the final model trains on."""
    progress: bool | Progress | None = None
    """True, False, or a function (done, total, what); None = on a terminal and in a notebook."""


@public(RunKeywords)
def run(asked: RunKeywords) -> Run:
    """Train an algorithm, evaluate it on held-out rows, and return the run.

    Raises InputError for anything that cannot be run, in one line, before anything is written.
    """
    with asked_progress(asked.progress) as progress:
        name, own = algorithm_asked(asked.algorithm)
        rows = data_asked(asked.data)
        protocol, parts = split_asked(asked.split, rows, asked.seed, asked.load)
        options = values(asked, TrainingOptions, RunOptions)
        options["settings"] = {**own, **asked.settings}
        options["protocol"] = asked.protocol or protocol
        # A place or a name stands for the class from here on, so that a stored run can name it.
        request = RunRequest(
            name,
            rows,
            parts=parts,
            metrics=metrics_asked(asked.metrics),
            progress=progress,
            on_round=asked.on_round,
            **options,
        )
        at_least("--tune", asked.tune, 0)
        if asked.tune:
            from ..runs.tuning.before import chosen_before

            request = chosen_before(request, asked.tune).request
        return Run.of(carry_out(request))


def open(
    run: str | Path = "latest",
    *,
    root: str | Path = "runs",
    algorithm: Any = None,
    todays_code: bool = False,
) -> Run:  # the name that notebooks know from other libraries
    """Open a stored run.

    run: its folder, its name under `root`, or "latest". root: where runs are stored. algorithm: the
    class, or its place, for a run of the user's own algorithm. todays_code: use the algorithm as it
    is now, although its code or a default has changed since the run.

    Raises InputError for a run that does not exist or is not finished, and where the code has
    changed.
    """
    with in_python():
        place = None if algorithm is None else algorithm_asked(algorithm)[0]
        return Run.stored(
            store.read(str(run), Path(root)), algorithm=place, todays_code=todays_code
        )
