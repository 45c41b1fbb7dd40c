"""A stored run, used again: continued, or opened for its plan, data (checked to be the same as then), model and recommendations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..core.errors import EntrenousError, InputError, at_least
from ..core.protocols import Progress, silent
from ..data.interactions import Interactions
from ..evaluate.predict import predictions
from ..evaluate.recommend import recommendations
from ..federation.executors import Threads
from ..federation.workers.engine import EngineOptions
from . import store
from .pipeline import Material, Run, execute, hired_crew, material
from .plan import TRACE, RunPlan, make
from .recommenders import CentralRecommender, FederatedRecommender, GossipRecommender, restore
from .train import Watch

KEPT = ("algorithm", "data", "protocol", "seed", "settings", "patience", "every", "given", "load")


def plan_of(run: store.StoredRun) -> RunPlan:
    """The plan by which a stored run was made. Raises InputError for a manifest that does not say."""
    if not run.manifest.get("data_by_name", True):
        raise InputError(str(run.path), "this run was made from objects in memory", fix="use the Run object in Python")
    missing = [name for name in (*KEPT, "rounds_asked", "data_sha256") if name not in run.manifest]
    if missing:
        raise InputError(
            f"{run.path}/manifest.json",
            f"'{missing[0]}' is missing",
            expected="a manifest written by entrenous",
            fix="run it again",
        )
    kept = {name: run.manifest[name] for name in KEPT}
    kept["negatives"] = run.manifest.get("negatives", "train")  # runs of earlier versions had no choice
    kept["settings"] = {name: _own_file(value, "@", run) for name, value in kept["settings"].items()}
    kept["network"] = {name: _own_file(value, TRACE, run) for name, value in run.manifest.get("network", {}).items()}
    return RunPlan(**kept, rounds=run.manifest["rounds_asked"])


def _own_file(value: Any, mark: str, run: store.StoredRun) -> Any:
    """`@pi.csv` stands for the copy in the run's folder, and so does `trace:network-latency.txt`."""
    own = isinstance(value, str) and value.startswith(mark)
    return f"{mark}{run.path / value.removeprefix(mark)}" if own else value


def material_of(run: store.StoredRun, plan: RunPlan) -> Material:
    """The rows and splits of a stored run. Raises EntrenousError when the data has changed since."""
    found = material(plan)
    if found.rows.sha256() != run.manifest["data_sha256"]:
        raise EntrenousError(
            f"{run.path}: the data '{plan.data}' has changed since the run; expected the same rows; start a new run"
        )
    return found


def reopen(run: store.StoredRun) -> tuple[FederatedRecommender | GossipRecommender | CentralRecommender, Interactions]:
    """The trained recommender of a stored run (of its first fold), and the rows it was trained on."""
    if run.manifest["status"] != "finished":
        raise InputError(str(run.path), "this run is not finished", fix=f"continue it with `entrenous run --resume {run.path}`")
    plan = plan_of(run)
    found = material_of(run, plan)
    arrays, _ = store.read_arrays(run.path / "model.safetensors")
    if store.model_sha256(arrays) != run.manifest["model_sha256"]:
        raise EntrenousError(f"{run.path}: the model is not the one in the manifest; run it again")
    train = found.parts[0].final_train
    return restore(make(plan, found.rows), arrays, train), train


def predicted(run: store.StoredRun, user: str, items: Sequence[str]) -> list[dict[str, Any]]:
    """Predicted ratings of a stored run: see `evaluate.predict.predictions`."""
    recommender, train = reopen(run)
    return predictions(recommender, train, user, items, label=run.manifest["algorithm"])


def recommended(run: store.StoredRun, user: str, n: int = 10) -> list[dict[str, Any]]:
    """Recommendations of a stored run for one user: see `evaluate.recommend.recommendations`."""
    recommender, train = reopen(run)
    return recommendations(recommender, train, user, n, label=run.manifest["algorithm"], seed=run.manifest["seed"])


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
    asked = EngineOptions(workers, ray, threads)
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
    with hired_crew(asked, plan, what, made) as hired:
        watch = Watch(every=plan.every, patience=plan.patience, checkpoint_every=checkpoint_every, folder=stored.path,
                      executor=executor, progress=progress, crew=hired)  # fmt: skip
        return execute(plan, what, made, stored.manifest, watch)
