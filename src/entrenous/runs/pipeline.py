"""The arrows: data -> split -> federate -> recommend -> evaluate -> store. What `entrenous run` does, as one function."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from .. import __version__
from ..core.declared import declared
from ..core.errors import EntrenousError, EntrenousWarning, InputError, at_least
from ..core.gossip import GossipAlgorithm
from ..core.protocols import CentralAlgorithm, Progress, predicts_ratings, silent
from ..data.dataset import datasets
from ..data.interactions import Interactions
from ..evaluate.fairness import fairness
from ..evaluate.goal import goal_of
from ..evaluate.protocol import Evaluation, evaluate
from ..federation.executors import Debug, Executor, Threads
from ..federation.ledger import Ledger
from ..federation.workers.crew import Crew
from ..federation.workers.engine import Asked, crew
from ..federation.workers.rounds import refuse
from ..federation.workers.shards import ShardHand
from ..split.protocol import GIVEN
from ..split.types import Split
from . import store
from .plan import TRACE, Material, Plan, check, check_parts, leaky, make, material, network_of, usual_protocol
from .recommenders import (
    Algorithm,
    CentralRecommender,
    FederatedRecommender,
    Fitted,
    GossipRecommender,
    Trained,
    federated,
    fit_central,
)
from .reopen import material_of, plan_of, predictions, recommendations
from .train import Watch, best_round, train

LENGTHS = (5, 10, 20)  # list lengths n of the metrics
LEAK = (
    "LEAKY NEGATIVES: no held-out item is ever drawn as a negative, which tells the model what was held out; "
    "these figures cannot stand beside honest ones"
)


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Run:
    """A finished run. manifest: what `entrenous run --json` prints. evaluations: one a fold. path: where it is stored, if it is."""

    manifest: dict[str, Any]
    recommender: FederatedRecommender | GossipRecommender | CentralRecommender
    train: Interactions
    evaluations: tuple[Evaluation, ...]
    path: Path | None = None

    @property
    def metrics(self) -> dict[str, float]:
        """Mean over users (and folds) by name, under the run's protocol."""
        return self.manifest["metrics"]

    def recommend(self, user: str, n: int = 10) -> list[dict[str, Any]]:
        """The n best items for a user, by external ids: [{"item", "title", "score"}]."""
        label, seed = self.manifest["algorithm"], self.manifest["seed"]
        return recommendations(self.recommender, self.train, user, n, label=label, seed=seed)

    def predict(self, user: str, *items: str) -> list[dict[str, Any]]:
        """What a user would rate some items, by external ids: see `stored.predictions`."""
        return predictions(self.recommender, self.train, user, items, label=self.manifest["algorithm"])


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
    protocol: str | None = None,
    seed: int = 0,
    rounds: int | None = None,
    settings: Mapping[str, Any] | None = None,
    patience: int = 0,
    every: int = 0,
    given: str | None = None,
    load: Mapping[str, Any] | None = None,
    negatives: str = "train",
    network: Mapping[str, Any] | None = None,
    threads: int = 0,
    workers: int | None = None,
    ray: str | None = None,
    checkpoint_every: int | None = None,
    out: str | Path | None = None,
    debug: bool = False,
    progress: Progress = silent,
) -> Run:
    """Splits, trains, evaluates and, with `out`, stores. See `Plan` for what determines the result.

    protocol: None = the usual one: loo-99, kfold-5 for an algorithm that predicts ratings, PEPPER's for one that gossips.
    given: the folder of a given split; it is then the data. negatives: "leaky" shows what the field's leaky samplers do, with a
    warning (EntrenousWarning) and in every text about the run. threads: 0 = all cores; never changes a result.
    workers, ray: over so many processes of this machine, or of the Ray cluster at this address; they never change a result either.
    checkpoint_every: rounds, None = a tenth of the training, 0 = never. debug: one device at a time, so that an error names the device.
    Raises InputError for anything that cannot be run, before anything is written.
    """
    values = (*(settings or {}).values(), *(network or {}).values())
    by_name = isinstance(data, str) and all(isinstance(value, str | int | float) for value in values)
    if isinstance(data, str) and given is not None and protocol == GIVEN:
        data, given = given, None
    protocol = protocol or usual_protocol(data, algorithm)
    plan = Plan(
        algorithm=algorithm, data=_lasting(data) if isinstance(data, str) else data.name, protocol=protocol, seed=seed, rounds=rounds,
        settings=settings or {}, patience=patience, every=every, given=None if given is None else _lasting(given),
        load={name: _lasting(value) if name == "items" else value for name, value in (load or {}).items()},
        negatives=negatives, network=network or {},
    )  # fmt: skip
    check(plan)
    asked = Asked(workers, ray, threads)
    asked.check()
    between = dict(network_of(plan))  # read once, as settings are: a file of delays may change
    at_least("--checkpoint-every", checkpoint_every, 0)
    threads_executor = Threads(threads)
    what = material(plan, None if isinstance(data, str) else data)
    made = make(plan, what.rows)  # settings are checked before anything is written
    check_parts(plan, what.parts)
    executor: Executor = Debug(lambda user: what.rows.users[user]) if debug else threads_executor
    with _crew(asked, plan, what, made, debug) as hired:
        folder, opening = _opened(plan, what.rows, by_name, None if out is None else Path(out))
        watch = Watch(every=every, patience=patience, checkpoint_every=checkpoint_every, folder=folder, executor=executor,
                      progress=progress, crew=hired)  # fmt: skip
        with _nothing_left_behind(folder):
            return _execute(replace(plan, network=between), what, made, opening, watch)


def resume(
    run_name: str,
    *,
    root: Path = Path("runs"),
    threads: int = 0,
    workers: int | None = None,
    ray: str | None = None,
    checkpoint_every: int | None = None,
    progress: Progress = silent,
) -> Run:
    """Continues an interrupted run from its newest checkpoint to the model an uninterrupted run ends with. workers, ray: as of `run`,
    whatever the run was begun with."""
    at_least("--checkpoint-every", checkpoint_every, 0)
    asked = Asked(workers, ray, threads)
    asked.check()
    executor = Threads(threads)
    stored = store.unfinished(run_name, root)
    if stored.manifest["status"] == "finished":
        raise InputError(
            str(stored.path), "this run is finished", fix="there is nothing to resume; start another with `entrenous run`"
        )
    plan = plan_of(stored)
    what = material_of(stored, plan)
    made = make(plan, what.rows)
    with _crew(asked, plan, what, made) as hired:
        watch = Watch(every=plan.every, patience=plan.patience, checkpoint_every=checkpoint_every, folder=stored.path,
                      executor=executor, progress=progress, crew=hired)  # fmt: skip
        return _execute(plan, what, made, stored.manifest, watch)


@contextmanager
def _crew(asked: Asked, plan: Plan, what: Material, made: Algorithm, debug: bool = False) -> Iterator[Crew | None]:
    """The workers that were asked for, or None. Raises InputError for what they cannot share out."""
    if not asked:
        yield None
        return
    train, least = what.parts[0].train, min(len(split.train.users) for split in what.parts)
    refuse(made.configured(train.catalogue) if hasattr(made, "configured") else made, plan.algorithm, debug=debug)
    asked.check_users(least)
    with crew(asked, ShardHand, least) as hired:
        yield hired


def _lasting(name: str) -> str:
    """A path as it can be found again from another folder; the name of a data set as it is."""
    return str(Path(name).resolve()) if name not in datasets() and Path(name).exists() else name


def _opened(plan: Plan, rows: Interactions, by_name: bool, out: Path | None) -> tuple[Path | None, dict[str, Any]]:
    """The folder of a new run under `out`, and what its manifest says until training is done."""
    opening = _opening(plan, rows, by_name)
    if out is None:
        return None, opening
    folder = store.new_folder(
        out, f"{plan.algorithm}-{Path(plan.data).stem}-{plan.protocol}{'-leaky' if leaky(plan) else ''}-seed{plan.seed}"
    )
    kept = {"settings": _keep_files(opening["settings"], folder), "network": _keep_traces(opening["network"], folder)}
    opening |= {"run": folder.name, **kept}
    store.write_manifest(folder, opening)
    return folder, opening


@contextmanager
def _nothing_left_behind(folder: Path | None) -> Iterator[None]:
    """A run that could not be trained at all (a library is missing, say) leaves no folder; one with a checkpoint can be resumed."""
    try:
        yield
    except (EntrenousError, OSError):
        if folder is not None and not store.has_checkpoint(folder):
            store.remove(folder)
        raise


def _keep_files(settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Settings in which `@file` names a copy in the run's folder, so that the run does not depend on a file that may change."""
    kept = dict(settings)
    for name, value in settings.items():
        if isinstance(value, str) and value.startswith("@"):
            store.write_atomically(folder / f"{name}.csv", Path(value[1:]).read_bytes())
            kept[name] = f"@{name}.csv"
    return kept


def _keep_traces(network: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The same for `trace:file`."""
    kept = dict(network)
    for name, value in network.items():
        if isinstance(value, str) and value.startswith(TRACE):
            store.write_atomically(folder / f"network-{name}.txt", Path(value.removeprefix(TRACE)).read_bytes())
            kept[name] = f"{TRACE}network-{name}.txt"
    return kept


def _execute(plan: Plan, what: Material, algorithm: Algorithm, opening: dict[str, Any], watch: Watch) -> Run:
    if leaky(plan):
        warnings.warn(LEAK, EntrenousWarning, stacklevel=3)
    trace: list[dict[str, Any]] = []
    folds = [_fold(plan, algorithm, split, watch, trace, f"fold{number}") for number, split in enumerate(what.parts)]
    leak = [LEAK] if leaky(plan) else []
    said = [*_ignored(plan, algorithm), *_between(opening["network"], algorithm, what.parts[0])]
    manifest = {**opening, **_closing(what.parts, folds, leak, said)}
    if watch.folder is not None:
        _write(watch.folder, manifest, folds[0], trace)
    evaluations = tuple(fold.evaluation for fold in folds)
    return Run(
        manifest=manifest,
        recommender=folds[0].fitted.recommender,
        train=folds[0].train,
        evaluations=evaluations,
        path=watch.folder,
    )


def _fold(plan: Plan, algorithm: Algorithm, split: Split, watch: Watch, trace: list[dict[str, Any]], fold: str) -> Fold:
    """Train, then open the test rows once."""
    rows = split.final_train
    began = time.perf_counter()
    if isinstance(algorithm, CentralAlgorithm):
        model = fit_central(algorithm, rows, plan.seed, watch.progress)
    else:
        model = _federated(plan, algorithm, split, watch, trace, fold)
    trained = time.perf_counter()
    masked = split.validation.rows if split.validation is not None and not split.refit else None
    found = evaluate(
        model.recommender,
        rows,
        split.test,
        label=plan.algorithm,
        n=LENGTHS,
        seed=plan.seed,
        also_mask=masked,
        ratings=predicts_ratings(algorithm),
    )
    return Fold(model, found, rows, trained - began, time.perf_counter() - trained)


def _federated(plan: Plan, algorithm: Trained, split: Split, watch: Watch, trace: list[dict[str, Any]], fold: str) -> Fitted:
    """With patience: a first training finds the best round on validation, a second one ends there. Else one training to the end.

    Both start from round 0 with the same seed, so without refitting the second repeats the first, to the bit.
    """
    rows, until = split.final_train, plan.rounds or algorithm.default_rounds(split.final_train.catalogue)
    seen, avoid = split.validation if not split.refit else None, split.all_rows if leaky(plan) else None
    run_phase = partial(train, label=plan.algorithm, seed=plan.seed, avoid=avoid, network=network_of(plan),
                        weighting=split.weighting_sets, watch=watch, trace=trace)  # fmt: skip
    if plan.patience:
        run_phase(algorithm, split.train, until, phase=f"{fold}-select", validation=split.validation)
        until, seen = best_round(trace, f"{fold}-select", goal_of(algorithm)), None
    return run_phase(algorithm, rows, until, phase=f"{fold}-final", validation=seen)


# ---- manifests ------------------------------------------------------------------------------------------------------------------


def _opening(plan: Plan, rows: Interactions, by_name: bool) -> dict[str, Any]:
    """What is known before training. Settings that are not numbers or text (a Choice) are described, not stored."""
    asked = asdict(plan)
    return {
        "run": None,
        **{name: value for name, value in asked.items() if name != "rounds"},
        **{
            kind: {name: value if isinstance(value, str | int | float) else str(value) for name, value in given.items()}
            for kind, given in (("settings", plan.settings), ("network", plan.network))
        },
        "data_by_name": by_name,
        "rounds_asked": plan.rounds,
        "status": "running",
        "catalogue": rows.catalogue._asdict(),
        "data_sha256": rows.sha256(),
        "entrenous": __version__,
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def _ignored(plan: Plan, algorithm: Algorithm) -> list[str]:
    """What was asked for and means nothing to a centralised algorithm."""
    asked = [name for name, value in (("rounds", plan.rounds), ("every", plan.every), ("patience", plan.patience)) if value]
    if federated(algorithm) or not asked:
        return []
    return [f"{plan.algorithm} is trained in one place, without rounds; ignored: {', '.join(f'--{name}' for name in asked)}"]


def _between(network: Mapping[str, Any], algorithm: Algorithm, split: Split) -> list[str]:
    """What was between peers, and what they judge models by; nothing where there is a server, or one place."""
    if not isinstance(algorithm, GossipAlgorithm):
        return []
    given = ", ".join(f"{name}={value}" for name, value in network.items())
    said = [f"between the nodes: {given or 'all nodes push at once, and every message arrives at once'}"]
    if declared(algorithm).traits.holds_out_own:
        sets = "the validation rows" if split.weighting else "rows of their own that they do not train on"
        said.append(f"nodes weigh the models they receive by {sets}")
    return said


def _closing(parts: list[Split], folds: list[Fold], leak: list[str], said: list[str]) -> dict[str, Any]:
    """What is known at the end: means over folds, sums of bytes and seconds. leak: what comes first of all; said: further notes."""
    first, ledger = folds[0], Ledger()
    for fold in folds:
        ledger = ledger.plus(fold.fitted.ledger)
    sampled = [fold.evaluation.full_ranking for fold in folds if fold.evaluation.full_ranking is not None]
    seconds = {"train": sum(fold.train_seconds for fold in folds), "evaluate": sum(fold.evaluate_seconds for fold in folds)}
    return {
        "status": "finished",
        "rounds": first.fitted.rounds,
        "metrics": _mean([fold.evaluation.metrics for fold in folds]),
        **({"full_ranking": _mean(sampled)} if sampled else {}),
        **_fairness([fold.evaluation for fold in folds]),
        **({"folds": [fold.evaluation.metrics for fold in folds]} if len(folds) > 1 else {}),
        "by_category": first.evaluation.by_category,
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
        "bytes": {"up": ledger.bytes_up, "down": ledger.bytes_down},
        "ledger": ledger._asdict(),
        "model_sha256": store.model_sha256(first.fitted.arrays),
        "users_evaluated": len(first.evaluation.user),
        "protocol_text": [*leak, *first.evaluation.protocol],
        "notes": [*leak, *parts[0].train.notes, *parts[0].notes, *said],
    }


def _fairness(found: list[Evaluation]) -> dict[str, dict[str, float]]:
    """Of the ranking that `metrics` are of and, where that is the sampled one, of the full ranking too; means over folds."""
    full = [fairness(one.per_user_full, one.ranking).named() for one in found if one.per_user_full is not None]
    own = [
        fairness(one.per_user, one.ranking if one.candidates_ranking is None else one.candidates_ranking).named() for one in found
    ]
    return {"fairness": _mean(own), **({"fairness_full_ranking": _mean(full)} if full else {})}


def _mean(metrics: list[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([one[name] for one in metrics])) for name in metrics[0]}


def _write(folder: Path, manifest: dict[str, Any], first: Fold, trace: list[dict[str, Any]]) -> None:
    found = first.evaluation
    store.write_arrays(folder / "model.safetensors", first.fitted.arrays)
    store.write_arrays(folder / "users.safetensors", {"user": found.user, **found.per_user})
    store.write_trace(folder, trace)
    store.write_manifest(folder, manifest)
    store.clean(folder)
