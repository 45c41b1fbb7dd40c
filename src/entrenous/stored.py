"""A stored run, used again: its plan, its data checked to be what it was, its model, its recommendations."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import store
from .core.errors import EntrenousError, InputError, at_least
from .core.protocols import Recommender
from .data.interactions import Interactions
from .fit import restore
from .plan import Material, Plan, make, material
from .recommend import recommend

KEPT = ("algorithm", "data", "protocol", "seed", "settings", "patience", "every", "given", "load")


def plan_of(run: store.StoredRun) -> Plan:
    """The plan a stored run was made by. Raises InputError for a manifest that does not say."""
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
    kept["settings"] = {name: _own_file(value, run) for name, value in kept["settings"].items()}
    return Plan(**kept, rounds=run.manifest["rounds_asked"])


def _own_file(value: Any, run: store.StoredRun) -> Any:
    """`@pi.csv` stands for the copy in the run's folder."""
    return f"@{run.path / value[1:]}" if isinstance(value, str) and value.startswith("@") else value


def material_of(run: store.StoredRun, plan: Plan) -> Material:
    """The rows and splits of a stored run. Raises EntrenousError when the data is not what it was."""
    found = material(plan)
    if found.rows.sha256() != run.manifest["data_sha256"]:
        raise EntrenousError(
            f"{run.path}: the data '{plan.data}' has changed since the run; expected the same rows; start a new run"
        )
    return found


def reopen(run: store.StoredRun) -> tuple[Recommender, Interactions]:
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


def recommended(run: store.StoredRun, user: str, n: int = 10) -> list[dict[str, Any]]:
    """`recommendations` of a stored run."""
    recommender, train = reopen(run)
    return recommendations(recommender, train, user, n, label=run.manifest["algorithm"], seed=run.manifest["seed"])


def recommendations(
    recommender: Recommender, train: Interactions, user: str, n: int, *, label: str, seed: int
) -> list[dict[str, Any]]:
    """The n best items for one user: [{"item", "title", "score"}], external ids, best first; fewer where fewer are left.

    Raises InputError for an unknown user, with the nearest known one.
    """
    at_least("--n", n, 1)
    n = min(n, len(train.items))
    best = recommend(recommender, train, np.array([train.users.index(user)]), n, label=label, seed=seed)
    titles = train.features.get("title")
    return [
        {"item": train.items[item], "title": "" if titles is None else str(titles[item]), "score": score}
        for item, score in zip(best.item[0].tolist(), best.score[0].tolist(), strict=True)
        if item >= 0
    ]
