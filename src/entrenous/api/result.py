"""`Run`: what a training found, as frames and pictures for a notebook."""

from __future__ import annotations

import html
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import numpy as np

from ..core.contract.declared import Declaration, declared
from ..core.errors import InputError, at_least
from ..core.registry.own import short
from ..core.types import Array
from ..data.interactions import Interactions
from ..data.kept import arrays_of_rows
from ..data.split.types import Split
from ..evaluate.predict import predictions
from ..evaluate.recommend import recommend, title_of
from ..runs import store
from ..runs.newcomer import scores_for
from ..runs.pipeline import RunResult
from ..runs.reopen import reopen
from ..runs.trec import TrecFiles, write_trec
from .words import in_python

SHOWN = ("rmse", "mae", "hr@10", "ndcg@10", "recall@10", "auc")


@final
@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Run:
    """A finished run. Frames are polars frames; `.to_pandas()` makes a pandas frame of one.

    manifest: all that was asked and found, as `entrenous run --json` prints it. train: the training
    rows, of the first fold. users: {metric: one value for each evaluated user, "user": their
    numbers}. trace: a line for each look at validation. arrays: the trained state by name. split:
    what it was trained and evaluated on, None where that is not known. path: where the run is
    stored, if it is."""

    manifest: dict[str, Any]
    recommender: Any
    train: Interactions
    users: Mapping[str, Array]
    trace: Sequence[dict[str, Any]] = ()
    arrays: Mapping[str, Array] = field(default_factory=dict)
    split: Split | None = None
    path: Path | None = None

    @staticmethod
    def of(result: RunResult) -> Run:
        """The run of a training that has just ended."""
        found = result.evaluations[0]
        return Run(
            manifest=result.manifest,
            recommender=result.recommender,
            train=result.train,
            path=result.path,
            trace=result.trace,
            arrays=result.arrays,
            split=result.split,
            users={"user": found.user, **found.per_user},
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
        found: dict[str, float] = self.manifest["metrics"]
        return found

    def __repr__(self) -> str:
        best = ", ".join(
            f"{name} {self.metrics[name]:.4f}" for name in SHOWN if name in self.metrics
        )
        return f"Run({self._said}: {best})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{self.metrics[name]:.4f}</td></tr>"
            for name in SHOWN
            if name in self.metrics
        )
        return f"<table><caption>{html.escape(self._said)}</caption>{rows}</table>"

    @property
    def _said(self) -> str:
        m = self.manifest
        return (
            f"{self.name} on {Path(m['data']).name}, {store.protocol_of(m)}, seed {m['seed']},"
            f" {m['rounds']} rounds"
        )

    def per_user(self) -> Any:
        """A frame of accuracy by evaluated user: `user` (external id) and a column for each metric;
        of the first fold.
        """
        import polars as pl

        names = [self.train.users[int(user)] for user in self.users["user"]]
        return pl.DataFrame(
            {
                "user": names,
                **{name: self.users[name] for name in sorted(self.users) if name != "user"},
            }
        )

    def curve(self) -> Any:
        """A frame of the learning curve: a row for each look at validation, with `phase`, `round`,
        `seconds`, bytes sent, and a column for each metric. Empty without looks: ask for them with
        every=ROUNDS.
        """
        import polars as pl

        return pl.DataFrame(
            [
                {
                    **{name: line[name] for name in line if name != "validation"},
                    **line["validation"],
                }
                for line in self.trace
            ]
        )

    def recommend(self, users: str | Sequence[str] | None = None, n: int = 10) -> Any:
        """The n best items for one user, for several or (None) for all: a frame of `user`, `rank`,
        `item`, `title`, `score`.

        External ids, best first; items that a user has are left out. Raises InputError for a user
        who was not in training.
        """
        with in_python():
            at_least("--n", n, 1)
            asked = (
                list(self.train.users.ids)
                if users is None
                else [users]
                if isinstance(users, str)
                else list(users)
            )
            which = np.array([self.train.users.index(user) for user in asked], np.int64)
            n = min(n, len(self.train.items))
            best = recommend(
                self.recommender, self.train, which, n, label=self.name, seed=self.manifest["seed"]
            )
        return self._lists([str(user) for user in asked], best.item, best.score)

    def recommend_for(self, items: Sequence[str], n: int = 10) -> Any:
        """The n best items for somebody who was not in training, from the items they have: a frame
        of `rank`, `item`, `title`, `score`.

        Their device trains on these items alone, as often as a device did on average, and sends
        nothing. Raises InputError for an unknown item, and for an algorithm that can do it for
        nobody but the users it was trained with.
        """
        with in_python():
            at_least("--n", n, 1)
            own = np.unique([self.train.items.index(item) for item in items]).astype(np.int32)
            scores = scores_for(self.recommender, self.train, own, self.manifest, self.name)
        scores[own] = -np.inf
        scores[self.train.popularity == 0] = -np.inf
        order = np.argsort(-scores, kind="stable")[: min(n, int(np.isfinite(scores).sum()))]
        return self._lists([""], order[None, :], scores[order][None, :]).drop("user")

    def predict(self, user: str, *items: str) -> Any:
        """Predicted ratings of a user for some items: a frame of what
        `evaluate.predict.predictions` describes.
        """
        import polars as pl

        with in_python():
            return pl.DataFrame(
                predictions(self.recommender, self.train, user, items, label=self.name)
            )

    def _lists(self, users: Sequence[str], item: Array, score: Array) -> Any:
        import polars as pl

        row, place = np.nonzero(item >= 0)
        which = item[row, place]
        return pl.DataFrame(
            {
                "user": np.array(users, object)[row].astype(str).tolist(),
                "rank": place + 1,
                "item": [self.train.items[int(one)] for one in which],
                "title": [title_of(self.train, int(one)) for one in which],
                "score": score[row, place],
            }
        )

    def declaration(self) -> Declaration:
        """What crosses the boundary of a device under the run's algorithm."""
        return declared(self.algorithm)

    def save(self, path: str | Path) -> Path:
        """Store the run in a new folder, which `entrenous.open` and every command reads. Raises
        InputError for a folder that is there.
        """
        folder = Path(path)
        if folder.exists():
            raise InputError(
                "path",
                f"{folder} is there already",
                expected="a new folder",
                fix="choose another, or remove it",
            )
        if self.path is not None:
            shutil.copytree(self.path, folder)
            return folder
        folder.mkdir(parents=True)
        store.write_arrays(folder / "model.safetensors", self.arrays)
        store.write_arrays(folder / "users.safetensors", self.users)
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
            if self.split is None:
                raise InputError(
                    "trec",
                    "the held-out rows were in memory alone",
                    fix="write them from the Run that trained",
                )
            return write_trec(
                Path(folder),
                self.recommender,
                self.split,
                n=n,
                label=self.name,
                seed=self.manifest["seed"],
            )

    def report(self, path: str | Path, *, user: str | None = None) -> Path:
        """Write the report of the run, one HTML file that needs no network, and return its path.
        user: whose list it shows too.
        """
        from ..report.html import write_report

        items = (
            None
            if user is None
            else self.recommend(user).select("item", "title", "score").to_dicts()
        )
        with in_python(), tempfile.TemporaryDirectory() as folder:
            kept = self.path or self.save(Path(folder) / "run")
            return write_report(
                [store.read(str(kept), Path(folder))], Path(path), recommendations=items, user=user
            )
