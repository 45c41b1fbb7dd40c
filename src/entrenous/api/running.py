"""`run` and `open`: a training from Python, and one that was stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..core.contract.protocols import Progress
from ..core.errors import at_least
from ..runs import pipeline, store
from ..runs.train import OnRound
from .asked import SplitAsked, algorithm_asked, data_asked, metrics_asked, split_asked
from .progress import asked_progress
from .result import Run
from .words import in_python


def run(
    algorithm: Any,
    data: Any = "ml-100k",
    *,
    split: SplitAsked | None = None,
    settings: Mapping[str, Any] | None = None,
    metrics: Mapping[str, Any] | Sequence[Any] | None = None,
    rounds: int | None = None,
    seed: int = 0,
    every: int = 0,
    patience: int = 0,
    on_round: OnRound | None = None,
    progress: bool | Progress | None = None,
    out: str | Path | None = None,
    protocol: str | None = None,
    load: Mapping[str, Any] | None = None,
    tune: int = 0,
    **further: Any,
) -> Run:
    """Train an algorithm, evaluate it on held-out rows, and return the run.

    Args: algorithm: a name of `entrenous algorithms`; a class or an instance of one's own
        (`entrenous.Settings`); or its place,
            "./my_algo.py" or "my_module:MyAlgorithm".
        data: a data set's name, a file or folder; `Interactions`; a pandas, polars or Arrow frame;
            a list of (user, item, value, time); a SciPy sparse matrix, users by items.
        split: how rows are held out: a protocol's name such as "loo-99" (None = the usual one), a
            `Split`, one for each fold, or a function (data, seed=...) that makes them. protocol: a
            name too.
        settings: hyper-parameters by name, on top of those of an instance. metrics: further ones,
        {name: metric} or a list of functions (ranking, n) -> one value a query. rounds: of
        training; None = the algorithm's own. seed: names all randomness: same seed, same model
        bytes. every: rounds between looks at validation. patience: looks without a better one after
        which training stops. on_round: called after each round as on_round(round, metrics), the
        metrics of a look at validation, else {}; of a first training
            too, where validation rows on which the final model trains are looked at.
        progress: True, False, or a function (done, total, what); None = on a terminal and in a
        notebook. out: a folder in which the run is stored; None = not at all. load: how a file is
        read, such as {"item": "venue"}. tune: trainings that choose settings on validation rows
        first, the defaults among them; 0 = none. What `settings` has stays. further: profile,
        protect, given, negatives, refit, network, threads, workers, ray, checkpoint_every, debug:
        as
            `runs.pipeline.run` describes them.

    Raises:
        InputError: for anything that cannot be run, in one line, before anything is written.
    """
    with in_python(), asked_progress(progress) as shown:
        name, own = algorithm_asked(algorithm)
        rows = data_asked(data)
        usual, parts = split_asked(split, rows, seed, load or {})
        chosen = {**own, **(settings or {})}
        at_least("--tune", tune, 0)
        if tune:
            from ..runs.tuning.before import chosen_before, refuse_beside

            refuse_beside(
                split=parts,
                patience=patience,
                profile=further.get("profile", "paper") != "paper",
                negatives=further.get("negatives", "train") != "train",
                **{
                    name: further.get(name)
                    for name in ("given", "network", "workers", "ray", "protect")
                },
            )
            chosen, rounds, _ = chosen_before(
                name,
                rows,
                protocol=protocol or usual,
                trials=tune,
                seed=seed,
                settings=chosen,
                rounds=rounds,
                load=load,
                threads=further.get("threads", 0),
                folder=None if out is None else Path(out),
                progress=shown,
            )
        result = pipeline.run(
            name,
            rows,
            protocol=protocol or usual,
            parts=parts,
            settings=chosen,
            metrics=metrics_asked(metrics),
            rounds=rounds,
            seed=seed,
            every=every,
            patience=patience,
            on_round=on_round,
            progress=shown,
            out=out,
            load=load,
            **further,
        )
        return Run.of(result)


def open(
    run: str | Path = "latest",
    *,
    root: str | Path = "runs",
    algorithm: Any = None,
    todays_code: bool = False,
) -> Run:  # the name that notebooks know from other libraries
    """Open a stored run.

    Args: run: its folder, its name under `root`, or "latest". root: where runs are stored.
        algorithm: the class, or its place, of a run that was trained by an algorithm of one's own.
        todays_code: use the algorithm as it is now, where its code or a default has changed since
        the run.

    Raises:
        InputError: for a run that is not there or not finished, and where the code has changed.
    """
    with in_python():
        place = None if algorithm is None else algorithm_asked(algorithm)[0]
        return Run.stored(
            store.read(str(run), Path(root)), algorithm=place, todays_code=todays_code
        )
