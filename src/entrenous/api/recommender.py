"""`Recommender`: an algorithm that is fitted to all rows of a frame, for those who know implicit
and scikit-learn; and `split`, the caller's own training and test rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn, Unpack, cast

import numpy as np

from ..core.errors import InputError
from ..core.keywords import at_least
from ..core.values import SettingValue
from ..data.frames import CallersFrame, Columns
from ..data.interactions import Interactions
from ..data.load import from_frame, load, load_part
from ..data.options import FrameKeywords
from ..data.split.given import Repeats, given
from ..data.split.types import Held, Split
from ..federation.shard import Threads
from ..runs.manifest import Manifest, TrainedPart, of_fit
from ..runs.options import Profile, RunPlan
from ..runs.plan import check, check_parts, make, with_set
from ..runs.train import Watch, train
from .arguments import (
    AlgorithmAsked,
    DataAsked,
    FitT,
    FrameT,
    algorithm_asked,
    asked_progress,
    in_python,
    pure,
)
from .run import Run, Served, open

# The name of the split in which nothing is held out.
ALL_ROWS = "all-rows"


class Recommender(Served[FrameT]):
    """An algorithm to be fitted: `Recommender("fcf").fit(frame).recommend(users, n)`. Nothing is
    held out and nothing is evaluated; `entrenous.run` does both.

    Args:
        algorithm: a name of `entrenous.algorithms()`, a class or an instance, as of
        `entrenous.run`. rounds, seed, settings, profile, protect, threads: as of `entrenous.run`.
    """

    def __init__(
        self,
        algorithm: AlgorithmAsked,
        *,
        rounds: int | None = None,
        seed: int = 0,
        settings: Mapping[str, SettingValue] | None = None,
        profile: Profile = "paper",
        protect: Mapping[str, SettingValue] | None = None,
        threads: int = 0,
    ) -> None:
        with in_python():
            name, own = algorithm_asked(algorithm)
            self.plan = RunPlan(
                algorithm=name,
                rounds=pure(rounds),
                seed=pure(seed),
                settings={**own, **pure(dict(settings or {}))},
                profile=profile,
                protect=pure(dict(protect or {})),
                protocol=ALL_ROWS,
            )
            self.threads = pure(threads)
            at_least("--threads", self.threads, 0)
            check(self.plan)
        self.manifest = TrainedPart(algorithm=name, seed=self.plan.seed, rounds=0)

    def __repr__(self) -> str:
        fitted = f"fitted to {self.train!r}" if "train" in vars(self) else "not fitted"
        return f"Recommender({self.name}, {fitted})"

    def __getattr__(self, name: str) -> NoReturn:
        if name in ("train", "recommender", "fitted"):
            raise InputError(
                "Recommender", f"{self.name} is not fitted", fix="call .fit(frame) first"
            )
        raise AttributeError(f"'Recommender' object has no attribute '{name}'")

    def fit(
        self,
        data: DataAsked[FitT],
        *,
        progress: bool | None = None,
        **load: Unpack[FrameKeywords],
    ) -> Recommender[FitT]:
        """Train on all rows, and return this recommender.

        data: as of `entrenous.run`. progress: True, False, or None = on a terminal and in a
        notebook. The other options are those of `entrenous.load`. Raises InputError, in one line,
        for rows that cannot be read and for settings that do not fit them; the recommender then
        stays as it was.
        """
        with in_python(), asked_progress(progress) as shown:
            rows = _rows(data, load)
            plan = with_set(self.plan, len(rows.users))
            algorithm = make(plan, rows)
            nothing = Held(rows.select(np.zeros(len(rows), bool)))
            split = Split(ALL_ROWS, rows, None, nothing, refit=False)
            check_parts(plan, [split], algorithm)
            watch = Watch(executor=Threads(self.threads), progress=shown)
            fitted = train(plan, algorithm, split, watch, [], ALL_ROWS)
        return self._by(
            Run(
                manifest=cast(Manifest, of_fit(plan, rows, algorithm, fitted)),
                recommender=fitted.recommender,
                train=rows,
                arrays=fitted.arrays,
                split=split,
            )
        )

    def _by(self, fitted: Run[Any]) -> Recommender[Any]:
        """This recommender, which recommends by a fitted run from now on."""
        self.fitted = fitted
        self.recommender = fitted.recommender
        self.train = fitted.train
        self.manifest = fitted.manifest
        return self

    def save(self, path: str | Path) -> Path:
        """Store the fitted recommender, with the rows that it was fitted to, in a new folder, and
        return its path. Raises InputError for a folder that exists.
        """
        return self.fitted.save(path)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        algorithm: AlgorithmAsked | None = None,
        todays_code: bool = False,
    ) -> Recommender[Any]:
        """Read a recommender, or a run, from its folder. algorithm, todays_code: as of
        `entrenous.open`. Raises InputError as `entrenous.open` does.
        """
        fitted = open(path, algorithm=algorithm, todays_code=todays_code)
        kept: Any = fitted.manifest
        plan = {name: kept[name] for name in ("seed", "settings", "profile", "protect")}
        return cls(algorithm or kept["algorithm"], rounds=kept["rounds_asked"], **plan)._by(fitted)


def split(
    *,
    train: DataAsked[FrameT],
    test: DataAsked[CallersFrame],
    validation: DataAsked[CallersFrame] | None = None,
    candidates: CallersFrame | Columns | None = None,
    name: str = "given",
    refit: bool = False,
    repeats: Repeats = "drop",
    **load: Unpack[FrameKeywords],
) -> Split[FrameT]:
    """The caller's own training and test rows as a split over one numbering of users and items.

    train, test, validation: frames, files, or what else `entrenous.run` takes. candidates: a frame
    or a mapping with the columns user, item, candidate: the items that each test row is ranked
    against; None = full ranking. name: of the split, in tables. refit: True if the final model
    trains on validation rows too. repeats: a test row that is a training row too is left out and
    counted ("drop"), refused ("refuse"), or counts, and the items of a user compete ("keep"). The
    other options are those of `entrenous.load`, for all parts.

    Raises InputError for a part that cannot be read, an empty part, ids that are whole numbers in
    one part and text in another, and parts that share no user or no item.
    """
    with in_python():
        parts = {"train": _rows(train, load)}
        for label, rows in (("validation", validation), ("test", test)):
            if rows is not None:
                parts[label] = _rows(rows, load, part=label)
                _refuse_strangers(parts["train"], parts[label], label)
        return given(
            parts["train"],
            parts["test"],
            parts.get("validation"),
            candidates,
            name=name,
            refit=refit,
            repeats=repeats,
        )


def _rows(data: DataAsked[Any], options: FrameKeywords, *, part: str = "") -> Interactions:
    """Rows from what a caller gives, read by the options. part: the name of a part of a whole, in
    which a single user is no error.
    """
    if isinstance(data, Interactions):
        if options:
            raise InputError(
                min(options), "the rows are read already", fix="give it to load or from_frame"
            )
        return data
    if isinstance(data, str | Path):
        return load_part(Path(data), **options) if part else load(data, **options)
    return from_frame(data, part=bool(part), name=part or "frame", **options)


def _refuse_strangers(train: Interactions, other: Interactions, label: str) -> None:
    """Raises InputError for rows that share no id with the training rows, or write ids
    otherwise."""
    pairs = ((train.users, other.users), (train.items, other.items))
    for mine, theirs in pairs:
        kinds = ["whole numbers" if names.whole else "text" for names in (mine, theirs)]
        if kinds[0] != kinds[1]:
            raise InputError(
                label,
                f"its {mine.kind} ids are {kinds[1]}, those of train are {kinds[0]}",
                expected="one type of ids",
                fix="convert the column",
            )
        if not set(mine.ids) & set(theirs.ids):
            raise InputError(
                label,
                f"none of its {len(theirs)} {mine.kind}s is in train, such as '{theirs[0]}'",
                expected=f"{mine.kind}s of the training rows, such as '{mine[0]}'",
                fix="check the columns of both",
            )
