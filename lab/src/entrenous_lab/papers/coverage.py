"""Coverage of a paper: every table, figure and numbered claim of it, and where it stands here.

`covered/<paper>.toml` lists the items. No state is typed where it can be computed:

- an item with `by` (stored results), `test` (a test, `file::name`) or `page` (a page of docs/) is
  *done* if all of these are there. With `data`, a stored result must have these data sets; with
  `printed`, sections of `printed/<paper>.toml`, each printed figure of these data sets must have
  one of ours. One of the results must have as many seeds or folds on each of these data
  sets as SEEDS asks for, unless the item is `once`: nothing of it is drawn;
- what is missing of it makes it *open*, and so does `open = "why"`;
- `impossible = "why"` is for what nobody can do with what is public.

`claims` are the openings of texts in `claims/<paper>.toml`; the page shows their verdicts.
Each claim belongs to one item.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .stored import StoredResult
from .values import printed, stored
from .verdicts import counted_verdicts, in_short

PAPERS = ("fpl", "cali3f", "fbalf", "pepper")
DONE, OPEN, IMPOSSIBLE = STATES = ("done", "open", "impossible here")
ABOUT = {"where", "what", "claims"}
EVIDENCE = {"by", "test", "page", "data", "printed", "once"}
KEYS = ABOUT | EVIDENCE | {"open", "impossible"}
SEEDS = {"ml-100k": 5, "foursquare-italy": 5}  # of data sets of MovieLens-100K's size
SEEDS_OF_LARGER = 3

Item = Mapping[str, Any]


class CoveredItem(NamedTuple):
    """A table, figure or claim of a paper, and its state."""

    where: str
    what: str
    state: str
    why: str
    """Why it is open or impossible; "" if it is done."""
    there: str
    """The stored results, tests and pages, in Markdown."""
    verdicts: Mapping[str, int]
    """How many judgements of the item's claims are of each kind."""


def items_of(paper: str) -> list[Item]:
    """Returns the items of a paper as its file has them."""
    items: list[Item] = stored("covered", paper)["items"]
    return items


def covered(paper: str, results: Mapping[str, StoredResult], root: Path) -> list[CoveredItem]:
    """Returns every item of a paper with its state; `root` is the checkout with tests and docs."""
    verdicts = {line.says: line.verdicts for line in in_short(paper, results)}
    lines = list[CoveredItem]()
    for item in items_of(paper):
        state, why = _state(paper, item, results, root)
        mine = [verdict for says in claims_in(item, verdicts) for verdict in verdicts[says]]
        counts = {kind: n for kind, n in counted_verdicts(mine).items() if n}
        lines.append(CoveredItem(item["where"], item["what"], state, why, _there(item), counts))
    return lines


def claims_in(item: Item, texts: Sequence[str] | Mapping[str, Any]) -> list[str]:
    """Returns the texts of claims that an item names, by how they begin."""
    openings = tuple(item.get("claims", ()))
    return [text for text in texts if openings and text.startswith(openings)]


def share_done(items: Sequence[CoveredItem]) -> float:
    """Returns the share of the items that are done, of those that are possible here."""
    possible = [item for item in items if item.state != IMPOSSIBLE]
    done = [item for item in possible if item.state == DONE]
    return len(done) / len(possible) if possible else 1.0


# ---- the state of an item ------------------------------------------------------------------------


def _state(
    paper: str, item: Item, results: Mapping[str, StoredResult], root: Path
) -> tuple[str, str]:
    """The state of an item, and why it is not done."""
    if "impossible" in item:
        return IMPOSSIBLE, item["impossible"]
    if "open" in item:
        return OPEN, item["open"]
    missing = [*_missing_results(item, results), *_missing_files(item, root)]
    missing += [*_missing_figures(paper, item, results), *_missing_seeds(item, results)]
    return (OPEN, "; ".join(missing)) if missing else (DONE, "")


def _missing_results(item: Item, results: Mapping[str, StoredResult]) -> list[str]:
    missing = list[str]()
    of_data = set[str]()
    for name in item.get("by", ()):
        if name not in results:
            missing.append(f"{name} is not run yet")
        elif results[name].quick:
            missing.append(f"{name} is an excerpt")
        else:
            of_data |= {row["data"] for row in results[name].content["rows"]}
    absent = [data for data in item.get("data", ()) if data not in of_data]
    if absent and not missing:
        missing.append(f"no rows of {', '.join(absent)} are stored")
    return missing


def _missing_files(item: Item, root: Path) -> list[str]:
    missing = list[str]()
    for test in item.get("test", ()):
        file, _, name = test.partition("::")
        path = root / file
        if not path.is_file() or f"def {name}(" not in path.read_text(encoding="utf-8"):
            missing.append(f"there is no test {test}")
    for page in item.get("page", ()):
        if not (root / page).is_file():
            missing.append(f"there is no page {page}")
    return missing


def _missing_figures(paper: str, item: Item, results: Mapping[str, StoredResult]) -> list[str]:
    """The printed figures of an item's data sets for which no figure of ours is stored."""
    if "printed" not in item:
        return []
    wanted = {
        place: value
        for place, value in printed(paper, *item["printed"]).items()
        if place[0] in item["data"]
    }
    rows = [row for name in item["by"] if name in results for row in results[name].content["rows"]]
    answered = {
        (row["data"], row["metric"], row["paper"]) for row in rows if row["obtained"] is not None
    }
    without = [
        f"{system} {metric} of {data}"
        for (data, system, metric), value in wanted.items()
        if (data, metric, value) not in answered
    ]
    if not without:
        return []
    return [f"{len(without)} of {len(wanted)} printed figures have none of ours: {without[0]}"]


def _missing_seeds(item: Item, results: Mapping[str, StoredResult]) -> list[str]:
    """The data sets of an item on which every result has fewer seeds than are asked for."""
    if item.get("once"):
        return []
    missing = list[str]()
    for data in item.get("data", ()):
        counts = [results[name].seeds_of(data) for name in item["by"] if name in results]
        wanted = SEEDS.get(data.partition(",")[0], SEEDS_OF_LARGER)
        if counts and 0 < max(counts) < wanted:
            missing.append(f"{max(counts)} seeds on {data}, {wanted} are wanted")
    return missing


def _there(item: Item) -> str:
    """The places of an item in Markdown, from a page in lab/notes/."""
    results = [f"[{name}](../results/{name}.md)" for name in item.get("by", ())]
    tests = [f"`{test}`" for test in item.get("test", ())]
    pages = [f"[{Path(page).name}](../../{page})" for page in item.get("page", ())]
    return ", ".join([*results, *tests, *pages])
