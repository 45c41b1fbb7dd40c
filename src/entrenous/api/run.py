"""`run` and `open`: a training from Python, one that was stored, and `Run`, the result of both as
frames and pictures for a notebook.
"""

from __future__ import annotations

import html
import logging
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, SupportsIndex, TypeAlias, cast, final

import numpy as np

from ..core.errors import EntrenousWarning, InputError, did_you_mean
from ..core.keywords import at_least, values
from ..core.registry.discover import short
from ..core.types import Array, Int64Array
from ..data.interactions import Interactions
from ..data.split.types import Split
from ..evaluation.list_options import ListOptions, Seen, Unknown
from ..evaluation.predict import predictions
from ..evaluation.recommend import (
    best_but,
    competing_of,
    list_of_each,
    lists_of,
    scores_of_some,
    title_of,
)
from ..report import figures
from ..report.figures import FigureFormat
from ..report.training import STREAM, stream_figure
from ..runs import store
from ..runs.manifest import Look, Manifest, TrainedPart
from ..runs.newcomer import scores_for
from ..runs.options import RunOptions, TrainingOptions
from ..runs.pipeline import RunRequest, RunResult, carry_out
from ..runs.recommenders import (
    Algorithm,
    CentralRecommender,
    FederatedRecommender,
    GossipRecommender,
)
from ..runs.reopen import reopen
from ..runs.similar import similarities
from ..runs.train import OnRound
from ..runs.trec import TrecFiles, trec_files, write_trec
from ..runs.wanted import AS_USUAL, MetricsAsked, Wanted, metrics_asked
from .arguments import (
    AlgorithmAsked,
    Column,
    DataAsked,
    FrameT,
    Ids,
    ProgressAsked,
    SplitAsked,
    algorithm_asked,
    asked_progress,
    data_beside,
    frame_of,
    frame_of_records,
    id_asked,
    ids_asked,
    in_python,
    public,
    split_asked,
)
from .results import Figure

if TYPE_CHECKING:
    import polars as pl

LOG = logging.getLogger(__name__)
Trained: TypeAlias = FederatedRecommender | GossipRecommender | CentralRecommender


SHOWN = ("rmse", "mae", "hr@10", "ndcg@10", "recall@10", "auc")


class FoldValues(NamedTuple):
    """The evaluated users of a fold."""

    user: Int64Array
    """int64 [m]: their numbers."""
    per_user: Mapping[str, Array]
    """{metric: float64 [m]}."""


# Where nothing was evaluated.
NOBODY = FoldValues(np.zeros(0, np.int64), {})


class Served(Generic[FrameT]):
    """A trained algorithm with the rows it was trained on. Ids have the type that they had in the
    caller's frame.
    """

    manifest: TrainedPart
    """`algorithm`, `seed` and `rounds` of the training."""
    recommender: Trained
    train: Interactions[FrameT]

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm, with its settings made concrete for these rows."""
        return self.recommender.algorithm

    @property
    def name(self) -> str:
        """The algorithm's name in tables."""
        return short(self.manifest["algorithm"])

    def recommend(
        self,
        users: Ids | None = None,
        n: int = 10,
        *,
        items: Ids | None = None,
        without: Ids = (),
        seen: Seen = "hide",
        unknown: Unknown = "refuse",
    ) -> FrameT:
        """The n best items for one user, for several or (None) for all: a frame of `user`, `rank`,
        `item`, `title` (if the data has titles), `score`, best first. The columns of users and
        items have the names that they had in the caller's frame.

        users, items, without: an id, or a list of ids, as text or whole numbers. items: the
        candidates; None = all items with a training row. without: those that may not be
        recommended. seen: "hide" leaves out the items that a user has, "keep" lets them compete.
        unknown: "refuse" raises InputError that names the users and items which were not in
        training; "skip" warns of them and serves the others; "popular" gives such users the most
        popular items, whose score is null. Scores tell more of a history than the list: drop the
        column before somebody else is given the frame.
        """
        with in_python():
            options = ListOptions(
                items=None if items is None else ids_asked("items", items),
                without=ids_asked("without", without),
                seen=seen,
                unknown=unknown,
            )
            lists = lists_of(
                self.recommender,
                self.train,
                self._users(users),
                n,
                options,
                label=self.name,
                seed=self.manifest["seed"],
            )
        return self._lists(lists.users, lists.item, lists.score)

    def recommend_for(self, items: Ids, n: int = 10) -> FrameT:
        """The n best items for somebody who was not in training, from the items they have: a frame
        of `rank`, `item`, `title`, `score`.

        Their device trains on these items alone, as often as a device did on average, and sends
        nothing. Raises InputError for an unknown item, and for an algorithm that can do it for
        nobody but the users it was trained with.
        """
        with in_python():
            at_least("--n", n, 1)
            own = np.unique(self._items(items)).astype(np.int32)
            scores = scores_for(self.recommender, self.train, own, self.manifest, self.name)
        return self._best_but(own, scores, n)

    def similar_items(self, item: Ids, n: int = 10) -> FrameT:
        """The n items that are most like an item: a frame of `rank`, `item`, `title`, `score`, the
        cosine of the vectors that the model has learnt of both.

        It needs nobody's history. Raises InputError for an unknown item, and for an algorithm
        without vectors of items that all users share.
        """
        with in_python():
            at_least("--n", n, 1)
            own = self._items([id_asked("item", item)])
            cosines = similarities(self.recommender, self.train, own[0], self.name)
        return self._best_but(own, cosines, n)

    def _best_but(self, own: Array, scores: Array, n: int) -> FrameT:
        """A frame of the n best items. own: those that are left out."""
        best = best_but(self.train, own, scores, n, self.manifest["seed"])
        return self._lists(None, best[None, :], scores[best][None, :])

    def predict(self, user: Ids, *items: Ids) -> FrameT:
        """Predicted ratings of a user for some items, by their ids: a frame of what
        `evaluation.predict.predictions` describes.
        """
        with in_python():
            names = [name for each in items for name in ids_asked("items", each)]
            rows = predictions(
                self.recommender, self.train, id_asked("user", user), names, label=self.name
            )
        columns = {name: [row[name] for row in rows] for name in (rows[0] if rows else ("item",))}
        numbers = self.train.items.indices(columns["item"])
        return self._frame({**columns, "item": self.train.items.given[numbers]})

    def scores(self, users: Ids | None = None, items: Ids | None = None) -> FrameT:
        """The raw scores of items for users, the items that a user has too: a frame of `user`,
        `item`, `score`, with a row for each pair.

        users, items: ids; None = all in training. The scale is the algorithm's own; only the order
        of the scores of one user means something for all algorithms. Raises InputError for an
        unknown id.
        """
        with in_python():
            numbers = np.array([self.train.users.index(user) for user in self._users(users)], int)
            wanted = np.arange(len(self.train.items)) if items is None else self._items(items)
            scores = scores_of_some(self.recommender, self.train, numbers, wanted, self.name)
        columns = {
            "user": self.train.users.given[np.repeat(numbers, len(wanted))],
            "item": self.train.items.given[np.tile(wanted, len(numbers))],
            "score": scores.reshape(-1),
        }
        return self._frame(columns)

    def candidates(self, user: Ids, *, seen: Seen = "hide") -> FrameT:
        """The items that compete for the places in a user's list: a frame of `item`, `title`. seen:
        as of `recommend`. Raises InputError for an unknown user.
        """
        with in_python():
            number = self.train.users.index(id_asked("user", user))
            competing = competing_of(self.train, number, ListOptions(seen=seen))
        columns = {"item": self.train.items.given[competing], **self._titles(competing)}
        return self._frame(columns)

    def _users(self, users: Ids | None) -> list[str]:
        names: list[str] = self.train.users.ids.tolist()
        return names if users is None else ids_asked("users", users)

    def _items(self, items: Ids) -> Int64Array:
        """The numbers of items, int64. Raises InputError for an unknown id."""
        names = ids_asked("items", items)
        return np.array([self.train.items.index(name) for name in names], np.int64)

    def _lists(self, users: Sequence[str] | None, item: Array, score: Array) -> FrameT:
        """A frame of lists. item, score: [users, n]; item is -1 where a list is shorter. users:
        None = those of one person without an id.
        """
        # One line of the frame for each item of a list; lists may be shorter.
        row, place = np.nonzero(item >= 0)
        items = item[row, place]
        columns: dict[str, Column] = {
            "rank": place + 1,
            "item": self.train.items.given[items],
            **self._titles(items),
            "score": score[row, place],
        }
        if users is not None:
            columns = {"user": self.train.users.typed(users)[row], **columns}
        return self._frame(columns)

    def _titles(self, items: Array) -> dict[str, Column]:
        """The column of titles; none where the data has no titles."""
        if "title" not in self.train.features:
            return {}
        return {"title": [title_of(self.train, item) or None for item in items.tolist()]}

    def _frame(self, columns: Mapping[str, Column]) -> FrameT:
        """A frame of the caller's kind, with the caller's names of users and items."""
        names = self.train.reading.names
        named = {}
        for name, column in columns.items():
            given = names.get(name, name)
            # Another column of the result may have the caller's name.
            named[name if given in columns else given] = column
        frame: FrameT = frame_of(named, self.train.frames)
        return frame


@final
@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Run(Served[FrameT]):
    """A finished run. Frames are of the kind of the frame that the rows came in, polars frames
    where they came otherwise; ids have the type that they had there.
    """

    manifest: Manifest
    """All options and results, as `entrenous run --json` prints them."""
    recommender: Trained
    train: Interactions[FrameT]
    """The training rows, of the first fold."""
    folds: Sequence[FoldValues] = (NOBODY,)
    """The values of users in each fold; of a stored run in the first."""
    trace: Sequence[Look] = ()
    """A line for each look at validation."""
    arrays: Mapping[str, Array] = field(default_factory=dict)
    """The trained state by name."""
    split: Split[FrameT]
    """The rows that the run was trained and evaluated on, of the first fold."""
    path: Path | None = None
    """The folder of the run, if it is stored."""
    wanted: Wanted = AS_USUAL
    """The metrics that were asked for."""

    @property
    def users(self) -> dict[str, Array]:
        """{metric: one value for each evaluated user, "user": their numbers}, of the first fold."""
        user, per_user = self.folds[0]
        return {"user": user, **per_user}

    @property
    def metrics(self) -> dict[str, float]:
        """Metrics by name under the run's protocol, as means over users (and folds): those that
        were asked for by name, else all.
        """
        return self.wanted.shown(self.manifest["metrics"])

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
        names = self.metrics if self.wanted.names else SHOWN
        return [(name, f"{self.metrics[name]:.4f}") for name in names if name in self.metrics]

    def _title(self) -> str:
        data = Path(self.manifest["data"]).name
        protocol = store.protocol_of(self.manifest)
        return (
            f"{self.name} on {data}, {protocol}, seed {self.manifest['seed']},"
            f" {self.manifest['rounds']} rounds"
        )

    def per_user(self) -> FrameT:
        """A frame of accuracy by evaluated user: `user` (external id) and a column for each metric;
        of the first fold.
        """
        user, per_user = self.folds[0]
        metrics = self.wanted.shown(dict(sorted(per_user.items())))
        return self._frame({"user": self.train.users.given[user], **metrics})

    def curve(self) -> FrameT:
        """A frame of the learning curve: a row for each look at validation, with `phase`, `round`,
        `seconds`, bytes sent, and a column for each metric. Empty without looks: ask for them with
        every=ROUNDS. Of a stream: a row for each window, with the rows that were tested in it.
        """
        rows = []
        for line in self.trace:
            about = {name: value for name, value in line.items() if name != "validation"}
            rows.append({**about, **line["validation"]})
        first = ("phase", "round", "seconds", "bytes_up", "bytes_down")
        frame: FrameT = frame_of_records(rows, self.train.frames, first)
        return frame

    def plot(self, metric: str = "ndcg@10") -> Figure:
        """The learning curve: a metric on validation by round; of a stream by rows so far, with
        popularity so far on the same rows. Raises InputError for a run without looks, and for a
        metric that the looks do not have.
        """
        if self.trace and self.trace[0]["phase"] == STREAM:
            return Figure(stream_figure({self.name: self.trace}, self._title(), metric))
        lines = [(line["round"], line["validation"]) for line in self.trace]
        if not lines:
            raise InputError(
                "plot",
                "the run has no looks at validation",
                expected="a learning curve",
                fix="train with every=ROUNDS",
            )
        if metric not in lines[0][1]:
            raise InputError("plot", f"no '{metric}'", fix=did_you_mean(metric, lines[0][1]))
        values = [looked[metric] for _, looked in lines]
        look = FigureFormat(self._title(), "round", f"{metric} on validation")
        return Figure(figures.lines({self.name: ([number for number, _ in lines], values)}, look))

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
        manifest = {**self.manifest, "run": folder.name}
        store.write_run(folder, manifest, self.arrays, self.users, self.trace, self.split)
        return folder

    @contextmanager
    def in_folder(self) -> Iterator[Path]:
        """A context with the folder of the run, for what reads folders: a run that is not stored is
        saved in one for the moment.
        """
        with tempfile.TemporaryDirectory() as folder:
            yield self.path or self.save(Path(folder) / "run")

    def trec(self, folder: str | Path, n: int = 100) -> TrecFiles:
        """Write run.trec, the n best items of every evaluated user, and qrels.trec, the held-out
        rows, for trec_eval or ir-measures. Raises InputError for an id with a blank.
        """
        with in_python():
            contents = self.trec_files(n)
            return write_trec(Path(folder), contents)

    def trec_files(self, n: int = 100) -> dict[str, bytes]:
        """The contents of the files that `trec` writes, by name. Raises InputError as `trec`
        does.
        """
        return trec_files(
            self.recommender, self.split, n=n, label=self.name, seed=self.manifest["seed"]
        )

    def report(self, path: str | Path, *, user: str | SupportsIndex | None = None) -> Path:
        """Write the report of the run, one HTML file that needs no network, and return its path.

        user: a user whose list the report shows too.
        """
        from ..report.html import write_report

        with in_python(), self.in_folder() as folder:
            run = store.read(str(folder), folder.parent)
            if user is None:
                return write_report([run], Path(path))
            name = id_asked("user", user)
            lists = list_of_each(
                self.recommender,
                self.train,
                [name],
                10,
                label=self.name,
                seed=self.manifest["seed"],
            )
            return write_report([run], Path(path), recommendations=lists[name], user=name)


def run_of(result: RunResult, wanted: Wanted) -> Run[Any]:
    """The run of a training that has just ended. Warns of a metric that these rows do not have."""
    missing = wanted.missing(result.metrics)
    if missing:
        words = f"no metric {', '.join(missing)} of this algorithm on these rows"
        warnings.warn(words, EntrenousWarning, stacklevel=2)
    return Run(
        manifest=cast(Manifest, result.manifest),
        recommender=result.recommender,
        train=result.train,
        path=result.path,
        trace=cast("Sequence[Look]", result.trace),
        arrays=result.arrays,
        split=result.split,
        folds=[FoldValues(fold.user, fold.per_user) for fold in result.evaluations],
        wanted=wanted,
    )


def stored_run(
    run: store.StoredRun, *, algorithm: str | None = None, todays_code: bool = False
) -> Run[pl.DataFrame]:
    """A run in a folder. Raises InputError as `runs.reopen.reopen` does."""
    again = reopen(run, algorithm=algorithm, todays_code=todays_code)
    per_user = dict(run.users)
    return Run(
        manifest=cast(Manifest, run.manifest),
        folds=[FoldValues(per_user.pop("user"), per_user)],
        trace=cast("Sequence[Look]", run.trace),
        path=run.path,
        **again._asdict(),
    )


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class RunKeywords(RunOptions, TrainingOptions, Generic[FrameT]):
    """The keywords of `run`: the options of `entrenous run`, and what only Python can hand in."""

    algorithm: AlgorithmAsked = field(kw_only=False)
    """A name of `entrenous algorithms`; the user's own class or an instance of it
    (`entrenous.Settings`); or its place, "./my_algo.py" or "my_module:MyAlgorithm"."""
    data: DataAsked[FrameT] | None = field(default=None, kw_only=False)
    """The name of a data set, a file or folder; `Interactions`; a pandas, polars or Arrow frame; a
    list of (user, item, value, time); a SciPy sparse matrix, users by items. None = ml-100k, or the
    rows of the `Split` that is given."""
    split: SplitAsked[FrameT] | None = None
    """How rows are held out: the name of a protocol such as "loo-99" (None = the usual one), a
    `Split`, one for each fold, or a function (data, seed=...) that makes them."""
    metrics: MetricsAsked = ()
    """Names such as "ndcg@100" or "recall@7": the result has these alone, at any list length; ()
    = all of `entrenous.metrics()` at 5, 10 and 20. The caller's own besides: {name: metric}, or
    functions (ranking, n) -> one value a query."""
    on_round: OnRound | None = None
    """Called after each round of training with an `entrenous.Round`: its phase, its number, and
    the metrics of a look at validation, if there was one."""
    progress: ProgressAsked = None
    """True, False, or a function (done, total, what); None = on a terminal and in a notebook."""


@public(RunKeywords)
def run(asked: RunKeywords[FrameT]) -> Run[FrameT]:
    """Train an algorithm, evaluate it on held-out rows, and return the run.

    Raises InputError for anything that cannot be run, in one line, before anything is written.
    """
    with asked_progress(asked.progress) as progress:
        # Objects of Python become names, rows and splits: the words of a plan.
        name, own = algorithm_asked(asked.algorithm)
        rows = data_beside(asked.data, asked.split, asked.load)
        data, protocol, parts = split_asked(asked.split, rows, asked.seed, asked.load)
        options = values(asked, TrainingOptions, RunOptions)
        options["settings"] = {**own, **asked.settings}
        options["protocol"] = asked.protocol or protocol
        wanted = metrics_asked(asked.metrics)
        # A place or a name stands for the class from here on, so that a stored run can name it.
        request = RunRequest(
            name,
            data,
            parts=parts,
            metrics=wanted,
            progress=progress,
            # Nobody is told where nobody reads the log.
            say=LOG.info if LOG.isEnabledFor(logging.INFO) else None,
            on_round=asked.on_round,
            **options,
        )
        return run_of(carry_out(request), wanted)


def open(
    run: str | Path = "latest",
    *,
    root: str | Path = "runs",
    data: str | Path | None = None,
    algorithm: AlgorithmAsked | None = None,
    todays_code: bool = False,
) -> Run[pl.DataFrame]:  # the name that notebooks know from other libraries
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
        return stored_run(found, algorithm=place, todays_code=todays_code)
