"""`run` and `open`: a training from Python, one that was stored, and `Run`, the result of both as
frames and pictures for a notebook.
"""

from __future__ import annotations

import html
import logging
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import numpy as np

from ..core.contract.declared import Declaration, declared
from ..core.contract.protocols import Progress
from ..core.errors import InputError
from ..core.keywords import at_least, values
from ..core.registry.discover import short
from ..core.types import Array
from ..data.interactions import Interactions
from ..data.kept import arrays_of_rows
from ..data.split.types import Split
from ..evaluate.list_options import ListOptions, Seen, Unknown
from ..evaluate.predict import predictions
from ..evaluate.recommend import lists_of, title_of
from ..runs import store
from ..runs.newcomer import scores_for
from ..runs.options import RunOptions, TrainingOptions, TuneFirst
from ..runs.pipeline import RunRequest, RunResult, carry_out
from ..runs.reopen import reopen
from ..runs.train import OnRound
from ..runs.trec import TrecFiles, trec_files, write_trec
from .arguments import (
    SplitAsked,
    algorithm_asked,
    asked_progress,
    data_asked,
    ids_asked,
    in_python,
    metrics_asked,
    public,
    split_asked,
)

LOG = logging.getLogger(__name__)
SHOWN = ("rmse", "mae", "hr@10", "ndcg@10", "recall@10", "auc")


@final
@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Run:
    """A finished run. Frames are polars frames; `.to_pandas()` makes a pandas frame of one."""

    manifest: dict[str, Any]
    """All options and results, as `entrenous run --json` prints them."""
    recommender: Any
    train: Interactions
    """The training rows, of the first fold."""
    users: Mapping[str, Array]
    """{metric: one value for each evaluated user, "user": their numbers}."""
    trace: Sequence[dict[str, Any]] = ()
    """A line for each look at validation."""
    arrays: Mapping[str, Array] = field(default_factory=dict)
    """The trained state by name."""
    split: Split | None = None
    """The rows that the run was trained and evaluated on; None where they are not known."""
    path: Path | None = None
    """The folder of the run, if it is stored."""

    @staticmethod
    def of(result: RunResult) -> Run:
        """The run of a training that has just ended."""
        first = result.evaluations[0]
        return Run(
            manifest=result.manifest,
            recommender=result.recommender,
            train=result.train,
            path=result.path,
            trace=result.trace,
            arrays=result.arrays,
            split=result.split,
            users={"user": first.user, **first.per_user},
        )

    @staticmethod
    def stored(
        run: store.StoredRun, *, algorithm: str | None = None, todays_code: bool = False
    ) -> Run:
        """A run in a folder. Raises InputError as `runs.reopen.reopen` does."""
        again = reopen(run, algorithm=algorithm, todays_code=todays_code)
        return Run(
            manifest=run.manifest,
            users=run.users,
            trace=run.trace,
            path=run.path,
            **again._asdict(),
        )

    @property
    def algorithm(self) -> Any:
        """The algorithm, with its settings made concrete for these rows."""
        return self.recommender.algorithm

    @property
    def name(self) -> str:
        """The algorithm's name in tables."""
        return short(self.manifest["algorithm"])

    @property
    def metrics(self) -> dict[str, float]:
        """Metrics by name under the run's protocol, as means over users (and folds)."""
        metrics: dict[str, float] = self.manifest["metrics"]
        return metrics

    def __repr__(self) -> str:
        shown = ", ".join(f"{name} {value}" for name, value in self._shown())
        return f"Run({self._title()}: {shown})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{value}</td></tr>"
            for name, value in self._shown()
        )
        return f"<table><caption>{html.escape(self._title())}</caption>{rows}</table>"

    def _shown(self) -> list[tuple[str, str]]:
        return [(name, f"{self.metrics[name]:.4f}") for name in SHOWN if name in self.metrics]

    def _title(self) -> str:
        data = Path(self.manifest["data"]).name
        protocol = store.protocol_of(self.manifest)
        return (
            f"{self.name} on {data}, {protocol}, seed {self.manifest['seed']},"
            f" {self.manifest['rounds']} rounds"
        )

    def per_user(self) -> Any:
        """A frame of accuracy by evaluated user: `user` (external id) and a column for each metric;
        of the first fold.
        """
        import polars as pl

        names = [self.train.users[int(user)] for user in self.users["user"]]
        # `user` holds the numbers of users, which names replace.
        metrics = {name: self.users[name] for name in sorted(self.users) if name != "user"}
        return pl.DataFrame({"user": names, **metrics})

    def curve(self) -> Any:
        """A frame of the learning curve: a row for each look at validation, with `phase`, `round`,
        `seconds`, bytes sent, and a column for each metric. Empty without looks: ask for them with
        every=ROUNDS.
        """
        import polars as pl

        rows = []
        for line in self.trace:
            about = {name: value for name, value in line.items() if name != "validation"}
            rows.append({**about, **line["validation"]})
        return pl.DataFrame(rows)

    def recommend(
        self,
        users: Any = None,
        n: int = 10,
        *,
        items: Any = None,
        without: Any = (),
        seen: Seen = "hide",
        unknown: Unknown = "refuse",
    ) -> Any:
        """The n best items for one user, for several or (None) for all: a frame of `user`, `rank`,
        `item`, `title`, `score`, best first.

        users, items, without: an id, or a list of ids, as text or whole numbers. items: those that
        may be recommended; None = all with a training row. without: those that may not. seen:
        "hide" leaves out the items that a user has, "keep" lets them compete. unknown: "refuse"
        raises InputError that names the users and items which were not in training; "skip" warns
        of them and serves the others; "popular" gives such users the most popular items, whose
        score is null.
        """
        with in_python():
            names = self.train.users.ids.tolist() if users is None else ids_asked("users", users)
            options = ListOptions(
                items=None if items is None else ids_asked("items", items),
                without=ids_asked("without", without),
                seen=seen,
                unknown=unknown,
            )
            seed = self.manifest["seed"]
            lists = lists_of(
                self.recommender, self.train, names, n, options, label=self.name, seed=seed
            )
        return self._lists(*lists)

    def recommend_for(self, items: Any, n: int = 10) -> Any:
        """The n best items for somebody who was not in training, from the items they have: a frame
        of `rank`, `item`, `title`, `score`.

        Their device trains on these items alone, as often as a device did on average, and sends
        nothing. Raises InputError for an unknown item, and for an algorithm that can do it for
        nobody but the users it was trained with.
        """
        with in_python():
            at_least("--n", n, 1)
            numbers = [self.train.items.index(item) for item in ids_asked("items", items)]
            own = np.unique(numbers).astype(np.int32)
            scores = scores_for(self.recommender, self.train, own, self.manifest, self.name)
        # Nobody is recommended the items that they have, nor an item of which nothing was learnt.
        scores[own] = -np.inf
        scores[self.train.popularity == 0] = -np.inf
        left = int(np.isfinite(scores).sum())
        best = np.argsort(-scores, kind="stable")[: min(n, left)]
        return self._lists(None, best[None, :], scores[best][None, :])

    def predict(self, user: str | int, *items: str | int) -> Any:
        """Predicted ratings of a user for some items, by their ids: a frame of what
        `evaluate.predict.predictions` describes.
        """
        import polars as pl

        with in_python():
            names = [str(item) for item in items]
            rows = predictions(self.recommender, self.train, str(user), names, label=self.name)
        return pl.DataFrame(rows)

    def _lists(self, users: Sequence[str] | None, item: Array, score: Array) -> Any:
        """A frame of lists. users: None = the list is nobody's. item, score: [users, n]; item is -1
        where a list is shorter.
        """
        import polars as pl

        # One line of the frame for each item of a list; lists may be shorter.
        row, place = np.nonzero(item >= 0)
        items = [int(number) for number in item[row, place]]
        columns: dict[str, Any] = {}
        if users is not None:
            columns["user"] = np.array(users, object)[row].astype(str).tolist()
        columns["rank"] = place + 1
        columns["item"] = [self.train.items[number] for number in items]
        columns["title"] = [title_of(self.train, number) for number in items]
        # No expression of polars, whose threads a forked process lacks.
        columns["score"] = pl.Series(score[row, place], nan_to_null=True)
        return pl.DataFrame(columns)

    def declaration(self) -> Declaration:
        """The declaration of the run's algorithm: all that crosses the boundary of a device."""
        return declared(self.algorithm)

    def save(self, path: str | Path) -> Path:
        """Store the run in a new folder, which `entrenous.open` and every command reads. Raises
        InputError for a folder that exists.
        """
        folder = Path(path)
        if folder.exists():
            raise InputError(
                "path",
                f"{folder} is there already",
                expected="a new folder",
                fix="choose another, or remove it",
            )
        # The folder of a stored run has files that this object does not hold: it is copied whole.
        if self.path is not None:
            shutil.copytree(self.path, folder)
            # The way to the data is another one from there.
            store.write_manifest(folder, store.read_manifest(self.path))
            return folder
        folder.mkdir(parents=True)
        store.write_arrays(folder / "model.safetensors", self.arrays)
        store.write_arrays(folder / "users.safetensors", self.users)
        # Rows in memory alone cannot be loaded again.
        if not self.manifest["data_by_name"]:
            store.write_arrays(folder / store.ROWS, arrays_of_rows(self.train))
        store.write_trace(folder, list(self.trace))
        store.write_manifest(folder, {**self.manifest, "run": folder.name})
        return folder

    def trec(self, folder: str | Path, n: int = 100) -> TrecFiles:
        """Write run.trec, the n best items of every evaluated user, and qrels.trec, the held-out
        rows, for trec_eval or ir-measures.

        Raises InputError for an id with a blank, and for a run opened from a folder whose data was
        in memory alone.
        """
        with in_python():
            contents = self.trec_files(n)
            return write_trec(Path(folder), contents)

    def trec_files(self, n: int = 100) -> dict[str, bytes]:
        """The contents of the files that `trec` writes, by name. Raises InputError as `trec`
        does.
        """
        if self.split is None:
            raise InputError(
                "trec",
                "the held-out rows were in memory alone",
                expected="a run whose split is known, for run.trec and qrels.trec",
                fix="write them from the Run that trained, or `entrenous export --format csv`",
            )
        seed = self.manifest["seed"]
        return trec_files(self.recommender, self.split, n=n, label=self.name, seed=seed)

    def report(self, path: str | Path, *, user: str | int | None = None) -> Path:
        """Write the report of the run, one HTML file that needs no network, and return its path.

        user: a user whose list the report shows too.
        """
        from ..report.html import write_report

        # The list of one user, as text for the page.
        items = None
        if user is not None:
            # No expression of polars: see `_lists`.
            items = self.recommend(user)[["item", "title", "score"]].to_dicts()
        # The report reads folders: a run that is not stored is saved in one for the moment.
        with in_python(), tempfile.TemporaryDirectory() as folder:
            kept = self.path or self.save(Path(folder) / "run")
            run = store.read(str(kept), Path(folder))
            name = None if user is None else str(user)
            return write_report([run], Path(path), recommendations=items, user=name)


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
        # Objects of Python become names, rows and splits: the words of a plan.
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
            say=LOG.info if LOG.isEnabledFor(logging.INFO) else None,
            on_round=asked.on_round,
            **options,
        )
        at_least("--tune", asked.tune, 0)
        if asked.tune:
            # Loaded here, since few runs are tuned first.
            from ..runs.tuning.before import chosen_before

            request = chosen_before(request, asked.tune).request
        return Run.of(carry_out(request))


def open(
    run: str | Path = "latest",
    *,
    root: str | Path = "runs",
    data: str | Path | None = None,
    algorithm: Any = None,
    todays_code: bool = False,
) -> Run:  # the name that notebooks know from other libraries
    """Open a stored run.

    run: its folder, its name under `root`, or "latest". root: where runs are stored. data: the file
    or folder that has the rows of the run today, if it was moved without the run. algorithm: the
    class, or its place, for a run of the user's own algorithm. todays_code: use the algorithm as it
    is now, although its code or a default has changed since the run.

    Raises InputError for a run that does not exist or is not finished, and where the code has
    changed.
    """
    with in_python():
        place = None if algorithm is None else algorithm_asked(algorithm)[0]
        found = store.read(str(run), Path(root), None if data is None else str(data))
        return Run.stored(found, algorithm=place, todays_code=todays_code)
