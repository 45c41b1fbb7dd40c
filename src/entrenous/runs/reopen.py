"""A stored run, used again: its plan, its data checked to be the same as then, its model, its recommendations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.declared import predicts_ratings
from ..core.errors import EntrenousError, InputError, at_least
from ..core.protocols import Recommender
from ..data.interactions import Interactions
from ..evaluate.recommend import recommend, score_blocks
from . import store
from .plan import TRACE, Material, RunPlan, make, material
from .recommenders import CentralRecommender, FederatedRecommender, GossipRecommender, restore

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
    """Predicted ratings of a stored run: see `predictions`."""
    recommender, train = reopen(run)
    return predictions(recommender, train, user, items, label=run.manifest["algorithm"])


def predictions(
    recommender: FederatedRecommender | GossipRecommender | CentralRecommender,
    train: Interactions,
    user: str,
    items: Sequence[str],
    *,
    label: str,
) -> list[dict[str, Any]]:
    """Predicted ratings of a user for some items, by external ids, clipped to the scale of the data.

    [{"item", "title", "prediction", "unclipped", "user_bias", "item_bias", "interaction", "rated"}]: `unclipped` is the sum of the three
    before the last, which are None where the algorithm does not tell them apart; `rated`: the rating in the training rows, or None.
    Raises InputError for an unknown id, with the nearest known one, and for an algorithm that does not predict ratings.
    """
    if not predicts_ratings(recommender.algorithm):
        fix = "use entrenous recommend, or a run of an algorithm that predicts ratings, such as fbalf"
        raise InputError("entrenous predict", f"{label} ranks items, it does not predict ratings", fix=fix)
    who, which = train.users.index(user), [train.items.index(item) for item in items]
    one, (low, high) = np.array([who]), train.rating_scale
    _, (scores,) = next(score_blocks(recommender, train.users, len(train.items), one, label=label))
    parts = recommender.biases(one)
    own = slice(*train.ptr[who : who + 2])
    rated = dict(zip(train.item[own].tolist(), train.value[own].tolist(), strict=True))

    def told(item: int) -> dict[str, Any]:
        score = float(scores[item])
        user_bias, item_bias = (None, None) if parts is None else (float(parts.user[0]), float(parts.item[item]))
        rest = None if user_bias is None or item_bias is None else score - user_bias - item_bias
        return {
            "item": train.items[item],
            "title": _title(train, item),
            "prediction": min(max(score, low), high),
            "unclipped": score,
            "user_bias": user_bias,
            "item_bias": item_bias,
            "interaction": rest,
            "rated": rated.get(item),
        }

    return [told(item) for item in which]


def recommended(run: store.StoredRun, user: str, n: int = 10) -> list[dict[str, Any]]:
    """Recommendations of a stored run for one user: see `recommendations`."""
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
    return [
        {"item": train.items[item], "title": _title(train, item), "score": score}
        for item, score in zip(best.item[0].tolist(), best.score[0].tolist(), strict=True)
        if item >= 0
    ]


def _title(train: Interactions, item: int) -> str:
    """What an item is called, "" if that is not known."""
    titles = train.features.get("title")
    return "" if titles is None else str(titles[item])
