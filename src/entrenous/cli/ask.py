"""`entrenous recommend` and `predict`: recommended items and predicted ratings of a stored run, for
one user.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.keywords import at_least
from .console import emit_json, say, table
from .options import RUNS, OwnPlace, Runs, TodaysCode

# Columns of predictions: the parts that add up to a prediction, and the user's own rating.
COLUMNS = ("prediction", "user_bias", "item_bias", "interaction", "rated")

if TYPE_CHECKING:
    from ..runs import store


def recommend(
    run: str = "latest",
    /,
    *,
    user: str,
    n: int = 10,
    algorithm: OwnPlace = None,
    todays_code: TodaysCode = False,
    folder: Runs = RUNS,
    json: bool = False,
) -> None:
    """Recommend items to one user of a stored run.

    Parameters
    ----------
    run:
        A run's name or folder; default: the newest.
    user:
        The user's id, as in the data.
    n:
        How many items.
    folder:
        The folder that holds the stored runs.
    json:
        Print one JSON object on stdout.
    """
    from ..runs import store
    from ..runs.reopen import recommended

    at_least("--n", n, 1)
    stored = store.read(run, folder)
    items = recommended(stored, user, n, algorithm=algorithm, todays_code=todays_code)
    if json:
        emit_json({"run": stored.path.name, "user": user, "recommendations": items})
        return
    _name_latest(run, stored)
    show_recommendations(user, items)


def predict(
    run: str = "latest",
    /,
    *,
    user: str,
    item: list[str],
    algorithm: OwnPlace = None,
    todays_code: TodaysCode = False,
    folder: Runs = RUNS,
    json: bool = False,
) -> None:
    """Predict the ratings that a user would give to items, and how far the biases of user and item
    explain them.

    Example: entrenous predict latest --user 196 --item 242 --item 302

    Parameters
    ----------
    run:
        A run's name or folder, of an algorithm that predicts ratings; default: the newest.
    user:
        The user's id, as in the data.
    item:
        An item's id; may be repeated.
    folder:
        The folder that holds the stored runs.
    json:
        Print one JSON object on stdout.
    """
    from ..runs import store
    from ..runs.reopen import predicted

    stored = store.read(run, folder)
    predictions = predicted(stored, user, item, algorithm=algorithm, todays_code=todays_code)
    if json:
        emit_json({"run": stored.path.name, "user": user, "predictions": predictions})
        return
    _name_latest(run, stored)
    # An algorithm that does not tell biases apart has no columns for them.
    names = [name for name in COLUMNS if any(row[name] is not None for row in predictions)]
    headers = ["item", "title", *(name.replace("_", " ") for name in names)]
    rows = []
    for row in predictions:
        values = [row[name] for name in ("item", "title", *names)]
        rows.append(["" if value is None else value for value in values])
    table(headers, rows, title=f"What user {user} would rate, by {stored.manifest['algorithm']}")


def _name_latest(asked: str, stored: store.StoredRun) -> None:
    """Says on stderr which run `latest` was, since the next run changes that."""
    if asked == "latest":
        say(f"run {stored.path.name}, of {stored.manifest.get('started', 'an unknown time')}")


def show_recommendations(user: str, items: list[dict[str, Any]]) -> None:
    """Prints the recommended items of one user as a table, best first."""
    rows = []
    for rank, row in enumerate(items, 1):
        rows.append([rank, row["item"], row["title"], row["score"]])
    table(["#", "item", "title", "score"], rows, title=f"For user {user}")
