"""One run as a function, from data to a stored result: split, train, evaluate, store."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, final

from ..core.contract.declared import is_central, predicts_ratings
from ..core.contract.protocols import Progress, silent
from ..core.errors import EntrenousError, EntrenousWarning, InputError, NonFiniteError
from ..core.keywords import at_least, called_with, values
from ..core.registry.discover import is_place, lasting, short
from ..core.registry.neighbours import engine
from ..core.types import Array
from ..data.dataset import in_any_folder
from ..data.interactions import Interactions
from ..data.load import load as load_rows
from ..data.load import load_arguments
from ..data.scales import cause_in_values
from ..data.split.protocol import is_given, is_stream, splits
from ..data.split.types import Split, refitted, refuse_mixed_parts
from ..evaluation.protocol import LENGTHS, Evaluation, evaluate
from ..evaluation.recommend import Recommended, list_of_each
from ..federation.crew import CrewOptions, HiredCrew
from ..federation.shard import Debug, Executor, Threads
from . import store
from .manifest import Fold, between, closing, gives_away, ignored, opening, pins
from .options import RunOptions, RunPlan, TrainingOptions
from .plan import (
    brought,
    check,
    check_parts,
    leaky,
    make,
    names_a_file,
    network_of,
    of_rows,
    usual_protocol,
    with_set,
)
from .recommenders import (
    Algorithm,
    CentralRecommender,
    FederatedRecommender,
    GossipRecommender,
)
from .stream import check_stream, stream
from .train import OnRound, Say, Trace, Watch, train
from .wanted import AS_USUAL, Wanted

LEAK = (
    "LEAKY NEGATIVES: no held-out item is ever drawn as a negative, which tells the model what was"
    " held out; these figures cannot stand beside honest ones"
)


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class RunResult:
    """A finished run. Recommender, rows, arrays and split are those of the first fold."""

    manifest: dict[str, Any]
    """As `entrenous run --json` prints it."""
    recommender: FederatedRecommender | GossipRecommender | CentralRecommender
    train: Interactions
    split: Split
    """The rows that the run was trained and evaluated on."""
    evaluations: tuple[Evaluation, ...]
    """One for each fold."""
    trace: tuple[dict[str, Any], ...] = ()
    """A line for each look at validation."""
    arrays: Mapping[str, Array] = field(default_factory=dict)
    """The trained state by name."""
    path: Path | None = None
    """The folder of the run, if it is stored."""

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics of the run's protocol by name, as means over users and folds."""
        return self.manifest["metrics"]

    def recommend(self, user: str, n: int = 10) -> list[Recommended]:
        """Recommendations for a user: the n best items by external ids, [{"item", "title",
        "score"}].
        """
        label = short(self.manifest["algorithm"])
        seed = self.manifest["seed"]
        lists = list_of_each(self.recommender, self.train, [user], n, label=label, seed=seed)
        return lists[user]


class Material(NamedTuple):
    """Rows and splits that a plan works on."""

    rows: Interactions
    """All rows, held-out ones too: the identity of the data."""
    parts: list[Split]
    """One split, or one for each fold."""
    whole: Interactions | None = None
    """The rows before they were split, where `rows` are those of the split."""


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class RunRequest(RunOptions, TrainingOptions):
    """Everything that `run` takes: the options of a run, and what only Python can hand in."""

    algorithm: str = field(kw_only=False)
    """A name of `entrenous algorithms`, or the place of the user's own class."""
    data: str | Interactions = field(default="ml-100k", kw_only=False)
    """The name of a data set, a file or folder, or rows in memory."""
    parts: Sequence[Split] = ()
    """The user's own split, or one for each fold, in place of a protocol; `data` is then its
    rows."""
    metrics: Wanted = AS_USUAL
    """The metrics of the evaluation."""
    progress: Progress = silent
    say: Say | None = None
    """Receives, before the first round, a line on the leak of a run without a protection, and on
    what a profile brings; None = nobody reads it."""
    on_round: OnRound | None = None
    """Called after each round of training with its number and the metrics on validation, or {} if
    there was no look."""


def carry_out(asked: RunRequest) -> RunResult:
    """Splits, trains, evaluates and, with `out`, stores.

    Raises InputError for anything that cannot be run, before anything is written.
    """
    plan = planned(asked)
    check(plan)
    # Options are checked in turn, the cheap ones first: nothing is loaded for a typing error.
    workers = workers_of(asked)
    # A file of delays may change during a run: it is read once, as the files of settings are.
    network = dict(network_of(plan)) if plan.network else {}
    at_least("--checkpoint-every", asked.checkpoint_every, 0)
    executor: Executor = Threads(asked.threads)
    if asked.parts:
        for part in asked.parts:
            refuse_mixed_parts(part)
        # The user's own splits bring their rows with them.
        what = Material(asked.parts[0].all_rows, parts_of(plan, asked.parts))
    else:
        rows_given = None if isinstance(asked.data, str) else asked.data
        what = material(plan, rows_given)
    # Settings and splits are checked before anything is written.
    plan = with_set(plan, len(what.rows.users))
    algorithm = make(plan, what.rows)
    check_parts(plan, what.parts, algorithm)
    for part in what.parts:
        if part.windows is not None:
            check_stream(plan, algorithm, part.name)
            _refuse_in_stream(asked, part.name)
    if asked.debug:
        executor = Debug(lambda user: what.rows.users[user])
    with hired_crew(workers, plan, what, algorithm, asked.debug) as hired:
        folder, begun = _opened(plan, what, algorithm, asked)
        watch = Watch(
            every=asked.every,
            patience=asked.patience,
            checkpoint_every=asked.checkpoint_every,
            folder=folder,
            executor=executor,
            progress=asked.progress,
            say=asked.say,
            crew=hired,
            metrics=asked.metrics,
            on_round=asked.on_round,
        )
        with _nothing_left_behind(folder):
            return execute(replace(plan, network=network), what, algorithm, begun, watch)


def _refuse_in_stream(asked: RunRequest, protocol: str) -> None:
    """Refuses workers, which are given their users once, where users come later; and list lengths
    that are not the usual ones, since each row of a stream is ranked once.
    """
    for option, given in (("--workers", asked.workers), ("--ray", asked.ray)):
        if given is not None:
            raise InputError(option, f"protocol {protocol} runs in one process", fix="leave it out")
    if set(asked.metrics.lengths) > set(LENGTHS):
        raise InputError(
            "metrics",
            f"protocol {protocol} has no others",
            expected=f"one of the list lengths {LENGTHS}",
        )


@called_with(RunRequest)
def run(asked: RunRequest) -> RunResult:
    """Makes a request of its keywords, and carries it out."""
    return carry_out(asked)


def planned(asked: RunRequest) -> RunPlan:
    """The plan of a request. The protocol is named, and paths are absolute, so that a stored run
    can be repeated from another folder.
    """
    options = values(asked, TrainingOptions)
    data = asked.data
    # The folder of a given split is the data, whichever of the two options names it.
    if isinstance(data, str) and asked.given is not None and is_given(asked.protocol):
        data = asked.given
        options["given"] = None
    if options["given"] is not None:
        options["given"] = in_any_folder(options["given"])
        if is_stream(asked.protocol):
            # The events of a stream are its data.
            data = options["given"]
    if asked.protocol is None:
        # The name of the user's own split stands where a protocol would.
        usual = asked.parts[0].name if asked.parts else usual_protocol(data, asked.algorithm)
        options["protocol"] = usual
    # The file of items is read again when the run is repeated.
    if "items" in asked.load:
        options["load"] = {**asked.load, "items": in_any_folder(str(asked.load["items"]))}
    algorithm = asked.algorithm
    if is_place(algorithm):
        algorithm = lasting(algorithm)
    name = in_any_folder(data) if isinstance(data, str) else data.name
    return RunPlan(algorithm=algorithm, data=name, **options)


def workers_of(options: RunOptions) -> CrewOptions | None:
    """The workers that are asked for, None without any. Raises InputError for numbers that make no
    sense, and where what brings them is not installed.
    """
    if options.workers is None and options.ray is None:
        return None
    simulation = engine("simulation", "--workers")
    made: CrewOptions = simulation(options.workers, options.ray, options.threads)
    return made


def material(plan: RunPlan, data: Interactions | None = None) -> Material:
    """Loads the rows of a plan, unless `data` has them, and splits them."""
    protocol = plan.protocol or usual_protocol(plan.data if data is None else data, plan.algorithm)
    if is_given(protocol) or (is_stream(protocol) and plan.given is not None):
        files = plan.given or plan.data
        load = load_arguments(plan.load)
        parts = splits(protocol, data, seed=plan.seed, given=files, load=load)
        return Material(parts[0].all_rows, parts_of(plan, parts))
    rows = load_rows(plan.data, **load_arguments(plan.load)) if data is None else data
    parts = splits(protocol, rows, seed=plan.seed)
    # A protocol such as pepper-given has users and items of its own, with numbers of their own; the
    # rows are then those of its split.
    first = parts[0]
    whole = rows
    if first.train.users is not rows.users or first.train.items is not rows.items:
        rows = first.all_rows
    return Material(rows, parts_of(plan, parts), whole)


def parts_of(plan: RunPlan, parts: Sequence[Split]) -> list[Split]:
    """The splits of a plan, with the `refit` that it asks for. Raises InputError where there are no
    validation rows to train on.
    """
    # A split knows what is usual for its protocol.
    if plan.refit is None:
        return list(parts)
    return [refitted(part, plan.refit) for part in parts]


@contextmanager
def hired_crew(
    workers: CrewOptions | None,
    plan: RunPlan,
    what: Material,
    made: Algorithm,
    debug: bool = False,
) -> Iterator[HiredCrew | None]:
    """The workers that were asked for, or None. Raises InputError for an algorithm whose devices
    they cannot share.
    """
    if workers is None:
        yield None
        return
    # Every worker needs a user in every fold.
    fewest = min(len(split.train.users) for split in what.parts)
    catalogue = what.parts[0].train.catalogue
    with workers.hired(made, catalogue, plan.algorithm, users=fewest, debug=debug) as hired:
        yield hired


def _opened(
    plan: RunPlan, what: Material, algorithm: Algorithm, asked: RunRequest
) -> tuple[Path | None, dict[str, Any]]:
    """The folder of a new run (None where runs are not stored), and the manifest that it has until
    training is done. Rows that were in memory alone are kept in the folder.
    """
    by_name = isinstance(asked.data, str) and not asked.parts
    manifest = opening(plan, what.rows, by_name) | pins(algorithm)
    manifest |= forgetting(asked, algorithm)
    if asked.out is None:
        return None, manifest
    # The folder's name warns too: leaky figures must not pass for honest ones.
    protocol = f"{plan.protocol}-leaky" if leaky(plan) else plan.protocol
    name = f"{short(plan.algorithm)}-{Path(plan.data).stem}-{protocol}-seed{plan.seed}"
    folder = store.new_folder(Path(asked.out), name)
    manifest["run"] = folder.name
    # The run keeps copies, so that it does not depend on files that may change.
    manifest["settings"] = _keep_files(manifest["settings"], folder)
    store.write_manifest(folder, manifest)
    return folder, manifest


def forgetting(options: RunOptions, algorithm: Algorithm) -> dict[str, bool]:
    """The entry of a manifest of a run that forgets its devices, {} of another. Raises InputError
    for a centralised algorithm.
    """
    if not options.forget_devices:
        return {}
    if is_central(algorithm):
        raise InputError(
            "--forget-devices",
            "a centralised algorithm has no devices: its model is made of everybody's rows",
            expected="an algorithm with devices",
            fix="leave it out",
        )
    return {"forget_devices": True}


@contextmanager
def _nothing_left_behind(folder: Path | None) -> Iterator[None]:
    """A context that removes the folder of a run that could not be trained at all (a library is
    missing, say), unless a checkpoint is there, from which the run can be resumed.
    """
    try:
        yield
    except (EntrenousError, OSError):
        if folder is not None and not store.has_checkpoint(folder):
            # Nothing in it could be continued.
            store.remove(folder)
        raise


def _keep_files(settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Copies the files that settings name (`@pi.csv`) into the run's folder, and returns the
    settings with the names of the copies.
    """
    kept = dict(settings)
    for name, value in settings.items():
        if names_a_file(value):
            copy = f"{name}.csv"
            content = Path(value.removeprefix("@")).read_bytes()
            store.write_atomically(folder / copy, content)
            kept[name] = f"@{copy}"
    return kept


def execute(
    plan: RunPlan, what: Material, algorithm: Algorithm, begun: dict[str, Any], watch: Watch
) -> RunResult:
    """Trains and evaluates every fold of a plan and, if `watch` has a folder, stores the run.
    begun: the manifest so far.
    """
    beforehand = brought(plan, len(what.rows.users))
    beforehand += of_rows(plan, what.parts[0].final_train)
    if watch.say is not None:
        for line in filter(None, [gives_away(plan, algorithm), *beforehand]):
            watch.say(line)
    leak = [LEAK] if leaky(plan) else []
    if leak:
        # A caller in Python sees no other line.
        warnings.warn(LEAK, EntrenousWarning, stacklevel=3)
    trace: Trace = []
    # Two processes that train into one folder would overwrite each other's checkpoints.
    locked = nullcontext() if watch.folder is None else store.at_work(watch.folder, plan.algorithm)
    with locked:
        folds = []
        for number, split in enumerate(what.parts):
            fold = _fold(plan, algorithm, split, watch, trace, f"fold{number}")
            folds.append(fold)
        notes = ignored(plan, algorithm) + between(begun["network"], algorithm, what.parts[0])
        notes += beforehand
        manifest = {**begun, **closing(what.parts, folds, leak, notes)}
        if watch.folder is not None:
            manifest = _write(watch.folder, manifest, what.parts[0], folds[0], trace)
    # A run of several folds keeps the model of the first.
    first = folds[0]
    return RunResult(
        manifest=manifest,
        recommender=first.fitted.recommender,
        train=first.train,
        evaluations=tuple(fold.evaluation for fold in folds),
        trace=tuple(trace),
        arrays=first.fitted.arrays,
        split=what.parts[0],
        path=watch.folder,
    )


def _fold(
    plan: RunPlan,
    algorithm: Algorithm,
    split: Split,
    watch: Watch,
    trace: Trace,
    fold: str,
) -> Fold:
    """Trains, and then opens the test rows once."""
    began = time.perf_counter()
    if split.windows is not None:
        # Testing and training alternate, so that their seconds are counted together.
        model, evaluation = stream(plan, algorithm, split, watch, trace)
        return Fold(model, evaluation, split.train, time.perf_counter() - began, 0.0)
    with _cause_if_it_diverges(algorithm, split.final_train):
        model = train(plan, algorithm, split, watch, trace, fold)
    # The clock of training stops before the test rows are opened.
    trained = time.perf_counter()
    evaluation = evaluate(
        model.recommender,
        split.final_train,
        split.test,
        label=short(plan.algorithm),
        n=watch.metrics.lengths,
        seed=plan.seed,
        also_mask=split.left_out,
        ratings=predicts_ratings(algorithm),
        further=watch.metrics.further,
        progress=watch.progress,
    )
    evaluated = time.perf_counter()
    return Fold(
        fitted=model,
        evaluation=evaluation,
        train=split.final_train,
        train_seconds=trained - began,
        evaluate_seconds=evaluated - trained,
    )


@contextmanager
def _cause_if_it_diverges(algorithm: Algorithm, rows: Interactions) -> Iterator[None]:
    """Names the cause in the ratings, if there is one, before the advice of a training that
    diverges in this context.
    """
    try:
        yield
    except NonFiniteError as diverged:
        cause = cause_in_values(rows) if predicts_ratings(algorithm) else ""
        if not cause:
            raise
        raise NonFiniteError(f"{cause}; {diverged}") from diverged


def _write(
    folder: Path, manifest: dict[str, Any], split: Split, first: Fold, trace: Trace
) -> dict[str, Any]:
    """Writes the files of a finished run. Returns its manifest."""
    users = {"user": first.evaluation.user, **first.evaluation.per_user}
    written = store.write_run(folder, manifest, first.fitted.arrays, users, trace, split)
    # Checkpoints are of no use from here on.
    store.clean(folder)
    return written
