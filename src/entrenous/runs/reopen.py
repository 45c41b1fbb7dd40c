"""A stored run, used again: continued, or opened for its plan, data (checked to be the same as
then), model and recommendations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ..core.contract.protocols import Progress, model_sha256, silent
from ..core.errors import EntrenousError, InputError
from ..core.keywords import at_least, names_of
from ..core.registry.discover import is_place, short
from ..core.types import Array
from ..data.interactions import Interactions
from ..data.split.protocol import without_candidates
from ..data.split.read import read as read_split
from ..data.split.types import Split
from ..evaluation.list_options import ListOptions
from ..evaluation.predict import predictions
from ..evaluation.recommend import Recommended, check_options, list_of_each
from ..federation.shard import Threads
from . import store
from .manifest import check_algorithm, check_program
from .options import OpenOptions, RunOptions, RunPlan
from .pipeline import Material, RunResult, execute, forgetting, hired_crew, material, workers_of
from .plan import make, names_a_file
from .recommenders import CentralRecommender, FederatedRecommender, GossipRecommender, restore
from .train import Say, Watch

# Options that the manifest has by another name.
STORED_AS = {"rounds": "rounds_asked"}
# Options that the manifests of the first versions do not have.
LATER = {"negatives", "refit", "network", "profile", "protect"}


def plan_of(run: store.StoredRun, algorithm: str | None = None) -> RunPlan:
    """The plan by which a stored run was made.

    algorithm: the place of the class, for a run of the user's own algorithm: a file runs when it is
    loaded, so its name in the run's folder is not enough. Raises InputError for a manifest without
    an option, and for a user's own algorithm that is not named.
    """
    objects = run.manifest.get("settings_in_memory")
    if objects:
        problem = f"its setting {objects[0]} was an object in memory, which is not stored"
        raise InputError(
            str(run.path),
            problem,
            expected="a number, a text or @file",
            fix="use the Run object in Python",
        )
    entries = {name: STORED_AS.get(name, name) for name in names_of(RunPlan)}
    needed = [entry for name, entry in entries.items() if name not in LATER]
    for entry in (*needed, "data_sha256"):
        if entry not in run.manifest:
            raise InputError(
                f"{run.path}/manifest.json",
                f"'{entry}' is missing",
                expected="a manifest written by entrenous",
                fix="run it again",
            )
    options = {}
    for name, entry in entries.items():
        if entry in run.manifest:
            options[name] = run.manifest[entry]
    # The run has copies of the files that its settings name.
    options["settings"] = _with_files(options["settings"], run)
    options["algorithm"] = _algorithm(run, algorithm)
    _check_place(run, options)
    return RunPlan(**options)


def _check_place(run: store.StoredRun, options: Mapping[str, Any]) -> None:
    """Raises InputError if the data of a run is no longer where the run found it."""
    data = Path(options["data"])
    # A relative path is the name of a data set, or of rows that were in memory.
    if data.is_absolute() and not data.exists():
        raise InputError(
            str(run.path),
            f"its data is no longer at {data}",
            expected="the file or folder of the run, moved with it",
            fix=f"say where it is now: --data=FOLDER/{data.name}",
        )
    items = options["load"].get("items")
    if items is not None and not Path(items).exists():
        raise InputError(
            str(run.path),
            f"its file of items is no longer at {items}",
            expected="the file of the run, moved with it",
            fix=f"put it there, beside {data.name} as it was",
        )


def _algorithm(run: store.StoredRun, named: str | None) -> str:
    """The name of the run's algorithm, or the place that was named for it."""
    trained = str(run.manifest["algorithm"])
    if named is None:
        if is_place(trained):
            raise InputError(
                str(run.path),
                f"it was trained by the user's own algorithm {short(trained)}, whose code runs"
                " when it is loaded",
                expected="its place",
                fix=f"name it, if you trust it: --algorithm {trained}",
            )
        return trained
    # Another name would be another model; a file may lie elsewhere today.
    if short(named) != short(trained) and not named.endswith(".py"):
        expected = f"{trained}, as the run was trained by it"
        raise InputError("--algorithm", f"got {named}", expected=expected)
    return named


def _with_files(settings: Mapping[str, Any], run: store.StoredRun) -> dict[str, Any]:
    """Settings in which `@pi.csv` names the copy in the run's folder."""
    with_files = dict(settings)
    for name, value in settings.items():
        if names_a_file(value):
            copy = run.path / value.removeprefix("@")
            with_files[name] = f"@{copy}"
    return with_files


def material_of(run: store.StoredRun, plan: RunPlan) -> Material:
    """The rows and splits of a stored run: by its plan, or as it has kept them. Raises
    EntrenousError when the data has changed since.
    """
    if not run.manifest.get("data_by_name", True):
        return _kept(run)
    what = material(plan)
    # Other rows would have other numbers for users and items, and the model would mix them up.
    if what.rows.sha256() != run.manifest["data_sha256"]:
        raise EntrenousError(
            f"{run.path}: the data '{plan.data}' has changed since the run; expected the same rows;"
            " name a file that has them with --data FILE, or start a new run"
        )
    return what


def _kept(run: store.StoredRun) -> Material:
    """The split of a run whose data was in memory alone."""
    split = read_split(run.path / store.SPLIT)
    if store.sha256_of(split) != run.manifest.get("split_sha256"):
        raise EntrenousError(
            f"{run.path / store.SPLIT}: the rows are not those of the run; run it again"
        )
    return Material(split.all_rows, [split])


class ReopenedRun(NamedTuple):
    """A stored run, loaded: the recommender, training rows and model of its first fold."""

    recommender: FederatedRecommender | GossipRecommender | CentralRecommender
    train: Interactions
    split: Split
    arrays: dict[str, Array]


def reopen(
    run: store.StoredRun,
    *,
    algorithm: str | None = None,
    todays_code: bool = False,
    candidates: bool = True,
) -> ReopenedRun:
    """Loads a finished run.

    algorithm: as of `plan_of`. todays_code: use the algorithm as it is now, although its code or a
    default has changed. candidates: draw the candidates of held-out rows too, which nobody needs to
    recommend. Raises InputError for changed code without `todays_code`, and for a run that is not
    finished.
    """
    if run.manifest["status"] != "finished":
        raise InputError(
            str(run.path),
            "this run is not finished",
            fix=f"continue it with `entrenous run --resume {run.path}`",
        )
    refuse_forgotten(run)
    plan = plan_of(run, algorithm)
    # Candidates take longer to draw than everything else here.
    if not candidates:
        plan = replace(plan, protocol=without_candidates(run.manifest["protocol"]))
    what = material_of(run, plan)
    split = what.parts[0]
    train = split.final_train
    made = make(plan, what.rows)
    check_algorithm(run.manifest, made, str(run.path), todays_code)
    arrays, _ = store.read_arrays(run.path / store.MODEL)
    # The file's own seal holds for any model; the manifest names this one.
    if model_sha256(arrays) != run.manifest["model_sha256"]:
        raise EntrenousError(f"{run.path}: the model is not the one in the manifest; run it again")
    return ReopenedRun(restore(made, arrays, train, plan.seed), train, split, arrays)


def refuse_forgotten(run: store.StoredRun) -> None:
    """Raises InputError for a run whose devices were forgotten."""
    if run.manifest.get("forget_devices"):
        raise InputError(
            str(run.path),
            "its devices were forgotten, and its model is not whole without them",
            expected="a run that has its devices",
            fix="train again without --forget-devices",
        )


def predicted(
    run: store.StoredRun,
    user: str,
    items: Sequence[str],
    how: OpenOptions = OpenOptions(),  # noqa: B008  # it is frozen
) -> list[dict[str, Any]]:
    """Predicted ratings of a stored run: see `evaluation.predict.predictions`."""
    again = _for_lists(run, how)
    label = short(run.manifest["algorithm"])
    return predictions(again.recommender, again.train, user, items, label=label)


def recommended(
    run: store.StoredRun,
    users: Sequence[str],
    n: int = 10,
    options: ListOptions | None = None,
    how: OpenOptions = OpenOptions(),  # noqa: B008  # it is frozen
) -> dict[str, list[Recommended]]:
    """Recommendations of a stored run for some users: see `evaluation.recommend.list_of_each`."""
    if options is not None:
        check_options(options)
    again = _for_lists(run, how)
    label = short(run.manifest["algorithm"])
    seed = run.manifest["seed"]
    return list_of_each(again.recommender, again.train, users, n, options, label=label, seed=seed)


def _for_lists(run: store.StoredRun, how: OpenOptions) -> ReopenedRun:
    # `store.read` has put the data of today into the run.
    return reopen(run, algorithm=how.algorithm, todays_code=how.todays_code, candidates=False)


def resume(
    run_name: str,
    *,
    root: Path = Path("runs"),
    data: str | None = None,
    algorithm: str | None = None,
    todays_code: bool = False,
    options: RunOptions = RunOptions(),  # noqa: B008  # it is frozen
    progress: Progress = silent,
    say: Say | None = None,
) -> RunResult:
    """Continues an interrupted run from its newest checkpoint to the model that an uninterrupted
    run ends with.

    data: as of `store.read`. algorithm: as of `plan_of`. todays_code: continue although the code or
    a library is not what the run began with. options: threads, workers, ray and checkpoint_every,
    whatever the run began with. Raises InputError for a run that is finished.
    """
    at_least("--checkpoint-every", options.checkpoint_every, 0)
    workers = workers_of(options)
    executor = Threads(options.threads)
    stored = store.unfinished(run_name, root, data)
    if stored.manifest["status"] == "finished":
        raise InputError(
            str(stored.path),
            "this run is finished",
            fix="there is nothing to resume; start another with `entrenous run`",
        )
    if not stored.manifest.get("data_by_name", True):
        raise InputError(
            str(stored.path),
            "its rows and split were objects in memory; a run keeps them when it ends",
            fix="train again in Python",
        )
    plan = plan_of(stored, algorithm)
    what = material_of(stored, plan)
    made = make(plan, what.rows)
    check_algorithm(stored.manifest, made, str(stored.path), todays_code)
    check_program(stored.manifest, str(stored.path), todays_code)
    begun = {**stored.manifest, **forgetting(options, made)}
    # All checks are done: from here on the run is continued.
    with hired_crew(workers, plan, what, made) as hired:
        watch = Watch(
            every=plan.every,
            patience=plan.patience,
            checkpoint_every=options.checkpoint_every,
            folder=stored.path,
            executor=executor,
            progress=progress,
            say=say,
            crew=hired,
        )
        return execute(plan, what, made, begun, watch)
