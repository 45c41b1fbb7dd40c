"""`entrenous recommend` and `predict`: recommended items of a stored run for some users, and
predicted ratings for one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from ..core.errors import InputError
from ..core.keywords import at_least
from ..evaluation.list_options import ListOptions
from ..runs.options import OpenOptions
from .console import emit_json, say, table
from .options import RUNS, Runs, taken, takes

# Columns of predictions: the parts that add up to a prediction, and the user's own rating.
COLUMNS = ("prediction", "user_bias", "item_bias", "interaction", "rated")

if TYPE_CHECKING:
    from ..runs import store


@final
@dataclass(frozen=True)
class Shown:
    """The options of a list that a command shows."""

    scores: bool = False
    """Show the scores too: whoever reads them learns more of a user's history."""


@takes(ListOptions, Shown, OpenOptions)
def recommend(
    run: str = "latest",
    /,
    *,
    user: list[str],
    n: int = 10,
    items: Path | None = None,
    without: Path | None = None,
    folder: Runs = RUNS,
    json: bool = False,
    **options: Any,
) -> None:
    """Recommend items to users of a stored run.

    Example: entrenous recommend latest --user 196 --items instock.txt --seen keep

    Parameters
    ----------
    run:
        A run's name or folder; default: the newest.
    user:
        The user's id, as in the data; may be repeated.
    n:
        How many items.
    items:
        A file of the items that may be recommended, one id a line; default: every item with a
        training row.
    without:
        A file of items that may not be recommended.
    folder:
        The folder that holds the stored runs.
    json:
        Print one JSON object on stdout.
    """
    from ..runs import store
    from ..runs.reopen import recommended

    at_least("--n", n, 1)
    if items is not None:
        options["items"] = _ids("--items", items)
    if without is not None:
        options["without"] = _ids("--without", without)
    how = taken(OpenOptions, options)
    shown = taken(Shown, options)
    stored = store.read(run, folder, how.data)
    lists = recommended(stored, user, n, ListOptions(**options), how)
    if not shown.scores:
        for row in chain(*lists.values()):
            row["score"] = None
    if json:
        emit_json({"run": stored.path.name, **_as_json(user, lists)})
        return
    _name_latest(run, stored)
    for name, rows in lists.items():
        show_list(f"For user {name}", rows, shown)


def _as_json(users: list[str], lists: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """Returns the list of one user, or the lists of several, for JSON."""
    if len(users) == 1:
        return {"user": users[0], "recommendations": lists.get(users[0], [])}
    each = [{"user": user, "recommendations": rows} for user, rows in lists.items()]
    return {"users": each}


def _ids(option: str, path: Path) -> list[str]:
    """Returns the ids in a file, one a line. Raises InputError for a file that is no text, and for
    one without an id.
    """
    expected = "a file of UTF-8 text, one id a line"
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise InputError(f"{option} {path}", "it is not UTF-8", expected=expected) from None
    except OSError as wrong:
        reason = (wrong.strerror or str(wrong)).lower()
        raise InputError(f"{option} {path}", reason, expected=expected) from None
    ids = [line.strip() for line in lines if line.strip()]
    if not ids:
        raise InputError(f"{option} {path}", "there is no id", expected=expected)
    return ids


@takes(OpenOptions)
def predict(
    run: str = "latest",
    /,
    *,
    user: str,
    item: list[str],
    folder: Runs = RUNS,
    json: bool = False,
    **options: Any,
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

    how = OpenOptions(**options)
    stored = store.read(run, folder, how.data)
    predictions = predicted(stored, user, item, how)
    if json:
        emit_json({"run": stored.path.name, "user": user, "predictions": predictions})
        return
    _name_latest(run, stored)
    # An algorithm that does not tell biases apart has no columns for them.
    names = [name for name in COLUMNS if any(row[name] is not None for row in predictions)]
    headers = ["item", "title", *(name.replace("_", " ") for name in names)]
    rows = [[row[name] for name in ("item", "title", *names)] for row in predictions]
    table(headers, rows, title=f"What user {user} would rate, by {stored.manifest['algorithm']}")


def _name_latest(asked: str, stored: store.StoredRun) -> None:
    """Says on stderr which run `latest` was, since the next run changes that."""
    if asked == "latest":
        say(f"run {stored.path.name}, of {stored.manifest.get('started', 'an unknown time')}")


def show_list(title: str, items: Sequence[Mapping[str, Any]], shown: Shown) -> None:
    """Prints the recommended items of one user as a table, best first."""
    heads = ["item", "title"]
    if shown.scores:
        heads.append("score")
    rows = [[rank, *(row[head] for head in heads)] for rank, row in enumerate(items, 1)]
    table(["#", *heads], rows, title=title)
