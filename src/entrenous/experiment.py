"""The arrows: data -> split -> federate -> recommend -> evaluate -> store. What `entrenous run` does, as one function."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from . import __version__, store
from .core.discover import algorithms, pick
from .core.errors import EntrenousError, InputError
from .core.protocols import CentralAlgorithm, FederatedAlgorithm, Progress, Recommender, silent
from .core.settings import Settings
from .data.interactions import Interactions
from .data.load import load
from .evaluate.protocol import Evaluation, evaluate
from .federation.executors import Debug, Executor, Threads
from .federation.ledger import Ledger
from .fit import Fitted, check_trainable, federated, fit_central, restore
from .privacy.choice import read_choice
from .recommend import recommend
from .split.protocol import splits
from .split.types import Split
from .training import Watch, best_round, train

LENGTHS = (5, 10, 20)  # list lengths n of the metrics


@final
@dataclass(frozen=True, kw_only=True)
class Plan:
    """What determines a result. Two runs of one plan end with the same model bytes and the same metrics.

    algorithm: a name of `entrenous algorithms`. settings: its hyper-parameters where they differ from the defaults.
    data: a data set, file or folder. protocol: how rows are held out; `given`: the folder of a given split.
    rounds: None = the algorithm's own. patience: looks at validation (every `every` rounds) without an improvement after which
    training stops and the best round is used; 0 = train for `rounds`.
    """

    algorithm: str
    data: str = "ml-100k"
    protocol: str = "loo-99"
    seed: int = 0
    rounds: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    patience: int = 0
    every: int = 0
    given: str | None = None


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Run:
    """A finished run. manifest: what `entrenous run --json` prints. evaluations: one a fold. path: where it is stored, if it is."""

    manifest: dict[str, Any]
    recommender: Recommender
    train: Interactions
    evaluations: tuple[Evaluation, ...]
    path: Path | None = None

    @property
    def metrics(self) -> dict[str, float]:
        """Mean over users (and folds) by name, under the run's protocol."""
        return self.manifest["metrics"]

    def recommend(self, user: str, n: int = 10) -> list[dict[str, Any]]:
        """The n best items for a user, by external ids: [{"item", "title", "score"}]."""
        return recommendations(self.recommender, self.train, user, n, self.manifest["algorithm"], self.manifest["seed"])


class Fold(NamedTuple):
    """The result on one split."""

    fitted: Fitted
    evaluation: Evaluation
    train: Interactions
    train_seconds: float
    evaluate_seconds: float


def run(
    algorithm: str,
    data: str | Interactions = "ml-100k",
    *,
    protocol: str = "loo-99",
    seed: int = 0,
    rounds: int | None = None,
    settings: Mapping[str, Any] | None = None,
    patience: int = 0,
    every: int = 0,
    given: str | None = None,
    threads: int = 0,
    checkpoint_every: int | None = None,
    out: str | Path | None = None,
    debug: bool = False,
    progress: Progress = silent,
) -> Run:
    """Splits, trains, evaluates and, with `out`, stores. See `Plan` for what determines the result.

    threads: 0 = all cores; never changes a result. checkpoint_every: rounds, None = a tenth of the training.
    debug: one device at a time, so that an error names the device. Raises InputError for anything that cannot be run.
    """
    name = data if isinstance(data, str) else data.name
    plan = Plan(
        algorithm=algorithm,
        data=name,
        protocol=protocol,
        seed=seed,
        rounds=rounds,
        settings=settings or {},
        patience=patience,
        every=every,
        given=given,
    )
    check_plan(plan)
    rows = load(data) if isinstance(data, str) else data
    made = make(plan, rows)  # settings are checked before anything is written
    parts = splits(protocol, rows, seed=seed, given=given)
    folder = None
    if out is not None:
        folder = store.new_folder(Path(out), f"{algorithm}-{Path(name).stem}-{protocol}-seed{seed}")
        store.write_manifest(folder, _opening(plan, rows, folder, isinstance(data, str)))
    return _execute(plan, rows, made, parts, folder, [], threads, checkpoint_every, debug, progress)


def resume(run_name: str, *, root: Path = Path("runs"), threads: int = 0, progress: Progress = silent) -> Run:
    """Continues an interrupted run from its newest checkpoint to the model an uninterrupted run ends with."""
    stored = store.read(run_name, root)
    plan, rows = plan_of(stored), data_of(stored)
    if stored.manifest["status"] == "finished":
        raise InputError(
            str(stored.path), "this run is finished", fix="there is nothing to resume; start another with `entrenous run`"
        )
    parts = splits(plan.protocol, rows, seed=plan.seed, given=plan.given)
    return _execute(plan, rows, make(plan, rows), parts, stored.path, stored.trace, threads, None, False, progress)


def check_plan(plan: Plan) -> None:
    """Refuses numbers that make no sense, before anything is loaded."""
    for name, least in (("rounds", 1), ("seed", 0), ("patience", 0), ("every", 0)):
        value = getattr(plan, name)
        if value is not None and value < least:
            raise InputError(f"--{name}", f"got {value}", expected=f"a whole number from {least}")
    if plan.patience and not plan.every:
        raise InputError("--patience", "there are no looks at validation", fix="say how often to look with --every ROUNDS")


def make(plan: Plan, data: Interactions) -> FederatedAlgorithm | CentralAlgorithm:
    """The algorithm of a plan. `pi=@file.csv` is read here, where user and item ids are known."""
    maker = pick("algorithm", plan.algorithm, algorithms())
    preset: Mapping[str, Any] = maker.keywords if isinstance(maker, partial) else {}
    kind: type[Settings] = maker.func if isinstance(maker, partial) else maker
    values = {
        name: read_choice(value[1:], data) if isinstance(value, str) and value.startswith("@") else value
        for name, value in plan.settings.items()
    }
    made: Any = kind.parse({**preset, **values})
    cohort = getattr(made, "cohort", 0)
    if cohort > len(data.users):
        raise InputError("--set cohort", f"got {cohort}", expected=f"at most {len(data.users)}, the users of {data.name}")
    return made


def _execute(
    plan: Plan,
    data: Interactions,
    algorithm: FederatedAlgorithm | CentralAlgorithm,
    parts: list[Split],
    folder: Path | None,
    trace: list[dict[str, Any]],
    threads: int,
    checkpoint_every: int | None,
    debug: bool,
    progress: Progress,
) -> Run:
    executor: Executor = Debug(lambda user: data.users[user]) if debug else Threads(threads)
    folds = []
    for number, split in enumerate(parts):
        until = _until(plan, algorithm, split)
        checkpoints = max(1, until // 10) if checkpoint_every is None else checkpoint_every
        watch = Watch(
            every=plan.every,
            patience=plan.patience,
            checkpoint_every=checkpoints,
            folder=folder,
            executor=executor,
            progress=progress,
        )
        folds.append(_fold(plan, algorithm, split, until, watch, trace, f"fold{number}"))
    manifest = {**_opening(plan, data, folder, folder is not None), **_closing(parts, folds)}
    if folder is not None:
        _write(folder, manifest, folds, trace)
    first = folds[0]
    return Run(
        manifest=manifest,
        recommender=first.fitted.recommender,
        train=first.train,
        evaluations=tuple(f.evaluation for f in folds),
        path=folder,
    )


def _until(plan: Plan, algorithm: FederatedAlgorithm | CentralAlgorithm, split: Split) -> int:
    if not isinstance(algorithm, FederatedAlgorithm):
        return 0
    return plan.rounds or algorithm.default_rounds(split.final_train.catalogue)


def _fold(
    plan: Plan,
    algorithm: FederatedAlgorithm | CentralAlgorithm,
    split: Split,
    until: int,
    watch: Watch,
    trace: list[dict[str, Any]],
    fold: str,
) -> Fold:
    """Train (choosing the number of rounds on validation if asked), then open the test rows once."""
    rows = split.final_train
    check_trainable(rows)
    began = time.perf_counter()
    if isinstance(algorithm, FederatedAlgorithm):
        until = _chosen_rounds(plan, algorithm, split, until, watch, trace, fold) if plan.patience else until
        seen = split.validation if not split.refit and not plan.patience else None
        model = train(
            algorithm,
            rows,
            until,
            label=plan.algorithm,
            seed=plan.seed,
            phase=f"{fold} final",
            validation=seen,
            watch=watch,
            trace=trace,
        )
    else:
        model = fit_central(algorithm, rows, plan.seed, watch.progress)
    trained = time.perf_counter()
    masked = split.validation.rows if split.validation is not None and not split.refit else None
    found = evaluate(model.recommender, rows, split.test, label=plan.algorithm, n=LENGTHS, seed=plan.seed, also_mask=masked)
    return Fold(model, found, rows, trained - began, time.perf_counter() - trained)


def _chosen_rounds(
    plan: Plan, algorithm: FederatedAlgorithm, split: Split, until: int, watch: Watch, trace: list[dict[str, Any]], fold: str
) -> int:
    if split.validation is None:
        raise InputError("--patience", f"protocol {split.name} has no validation rows", fix="train for a fixed number of rounds")
    phase = f"{fold} select"
    train(
        algorithm,
        split.train,
        until,
        label=plan.algorithm,
        seed=plan.seed,
        phase=phase,
        validation=split.validation,
        watch=watch,
        trace=trace,
    )
    return best_round(trace, phase)


# ---- manifests ------------------------------------------------------------------------------------------------------------------


def _opening(plan: Plan, data: Interactions, folder: Path | None, by_name: bool) -> dict[str, Any]:
    source = str(Path(plan.data).resolve()) if by_name and Path(plan.data).exists() else plan.data
    return {
        "run": folder.name if folder is not None else None,
        **{name: value for name, value in asdict(plan).items() if name not in ("rounds", "data")},
        "data": source,
        "data_by_name": by_name,
        "rounds_asked": plan.rounds,
        "status": "running",
        "catalogue": data.catalogue._asdict(),
        "data_sha256": data.sha256(),
        "entrenous": __version__,
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def _closing(parts: list[Split], folds: list[Fold]) -> dict[str, Any]:
    """What is known at the end: means over folds, sums of bytes and seconds."""
    first = folds[0]
    ledger = Ledger()
    for fold in folds:
        ledger = ledger.plus(fold.fitted.ledger)
    sampled = [fold.evaluation.full_ranking for fold in folds if fold.evaluation.full_ranking is not None]
    return {
        "status": "finished",
        "rounds": first.fitted.rounds,
        "metrics": _mean([fold.evaluation.metrics for fold in folds]),
        **({"full_ranking": _mean(sampled)} if sampled else {}),
        **({"folds": [fold.evaluation.metrics for fold in folds]} if len(folds) > 1 else {}),
        "by_category": first.evaluation.by_category,
        "seconds": {
            "train": round(sum(f.train_seconds for f in folds), 3),
            "evaluate": round(sum(f.evaluate_seconds for f in folds), 3),
        },
        "bytes": {"up": ledger.bytes_up, "down": ledger.bytes_down},
        "ledger": ledger._asdict(),
        "model_sha256": store.model_sha256(first.fitted.arrays),
        "users_evaluated": len(first.evaluation.user),
        "protocol_text": list(first.evaluation.protocol),
        "notes": [*parts[0].train.notes, *parts[0].notes],
    }


def _mean(metrics: list[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([one[name] for one in metrics])) for name in metrics[0]}


def _write(folder: Path, manifest: dict[str, Any], folds: list[Fold], trace: list[dict[str, Any]]) -> None:
    first = folds[0].evaluation
    store.write_arrays(folder / "model.safetensors", folds[0].fitted.arrays)
    store.write_arrays(folder / "users.safetensors", {"user": first.user, **first.per_user})
    store.write_trace(folder, trace)
    store.write_manifest(folder, manifest)
    store.drop_checkpoints(folder)


# ---- a stored run, used again ---------------------------------------------------------------------------------------------------


def plan_of(stored: store.StoredRun) -> Plan:
    """The plan a stored run was made by."""
    m = stored.manifest
    kept = {name: m[name] for name in ("algorithm", "data", "protocol", "seed", "settings", "patience", "every", "given")}
    return Plan(**kept, rounds=m["rounds_asked"])


def data_of(stored: store.StoredRun) -> Interactions:
    """The data of a stored run, checked to be what it was."""
    manifest = stored.manifest
    if not manifest["data_by_name"]:
        raise InputError(str(stored.path), "this run was made from data in memory", fix="use the Run object in Python")
    data = load(manifest["data"])
    if data.sha256() != manifest["data_sha256"]:
        raise EntrenousError(
            f"{stored.path}: the data '{manifest['data']}' has changed since the run; expected the same rows; run it again"
        )
    return data


def reopen(stored: store.StoredRun) -> tuple[Recommender, Interactions]:
    """The trained recommender of a stored run (of its first fold), and the rows it was trained on."""
    if stored.manifest["status"] != "finished":
        raise InputError(
            str(stored.path), "this run is not finished", fix=f"continue it with `entrenous run --resume {stored.path}`"
        )
    plan, data = plan_of(stored), data_of(stored)
    split = splits(plan.protocol, data, seed=plan.seed, given=plan.given)[0]
    arrays, _ = store.read_arrays(stored.path / "model.safetensors")
    rows = split.final_train
    return restore(make(plan, data), arrays, rows), rows


def recommendations(
    recommender: Recommender, data: Interactions, user: str, n: int, label: str, seed: int
) -> list[dict[str, Any]]:
    """The n best items for one user: [{"item", "title", "score"}], external ids, best first."""
    index = data.users.index(user)
    best = recommend(recommender, data, np.array([index]), n, label=label, seed=seed)
    titles = data.features.get("title")
    found = []
    for item, score in zip(best.item[0].tolist(), best.score[0].tolist(), strict=True):
        if item >= 0:
            found.append({"item": data.items[item], "title": str(titles[item]) if titles is not None else "", "score": score})
    return found
