"""Runs the training program of some authors on rows of ours, without CUDA.

    PYTHON driver.py TASK.json

It runs in the interpreter that has the program's libraries, inside a copy of the program's folder,
and imports nothing of Entrenous. All changes are made in memory, before the program begins: no
CUDA, our candidates of the test rows, batches by index in place of one sample at a time, the seed,
and, if asked for, negatives that may be held-out items. The program's own loop then trains,
aggregates and scores. Scores of the test rows are written after some of its rounds.
"""

from __future__ import annotations

import csv
import importlib
import json
import random
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import torch

SCRIPT = "train.py"
PARTS = ("data", "engine", "model", "metrics")  # modules of a program
# Libraries that a program imports to log, and to notify its author: nothing of them is needed.
ASIDE = ("tensorboardX", "coloredlogs", "requests")


class Batches:
    """The batches of a data set of three tensors, in the place of PyTorch's `DataLoader`, which
    takes one sample at a time: the same batches, drawn by other numbers.
    """

    def __init__(self, dataset: Any, batch_size: int, shuffle: bool) -> None:
        """Keeps the tensors of a program's own data set of users, items and targets."""
        self.tensors = (dataset.user_tensor, dataset.item_tensor, dataset.target_tensor)
        self.size = batch_size
        self.shuffle = shuffle

    def __iter__(self) -> Iterator[list[torch.Tensor]]:
        many = len(self.tensors[0])
        order = torch.randperm(many) if self.shuffle else torch.arange(many)
        for place in order.split(self.size):
            yield [tensor[place] for tensor in self.tensors]


def without_cuda() -> None:
    """Keeps all tensors and models where they are, whatever a program asks for."""
    torch.Tensor.cuda = _as_it_is
    torch.nn.Module.cuda = _as_it_is
    torch.cuda.set_device = _as_it_is


def _as_it_is(thing: Any, *_: Any, **__: Any) -> Any:
    return thing


def sample_of_sets() -> None:
    """Lets `random.sample` take sets again, as it did before Python 3.11."""
    original = random.sample
    listed: dict[int, tuple[Any, list[Any]]] = {}

    def sample(population: Any, k: int) -> list[Any]:
        if not isinstance(population, set):
            return original(population, k)
        # A user's set is asked for once a row: it is listed once, and kept so that its id stays.
        known, items = listed.setdefault(id(population), (population, []))
        if not items:
            items += sorted(known)
        return original(items, k)

    random.sample = sample  # type: ignore[assignment]


def with_our_candidates(sampler: Any, task: dict[str, Any]) -> None:
    """Gives a program's `SampleGenerator` our candidates of the test rows, and honest negatives."""
    original = sampler._sample_negative
    histories = [set(history) for history in task["histories"]]

    def sample_negative(self: Any, ratings: Any) -> Any:
        table = original(self, ratings)
        drawn = zip(table["userId"], table["negative_samples"], strict=True)
        # Those of validation rows stay the program's own, where it has two halves.
        ours = [own[: len(own) - 99] + task["candidates"][user] for user, own in drawn]
        table["negative_samples"] = ours
        if task["negatives"] == "train":
            table["negative_items"] = [self.item_pool - histories[user] for user in table["userId"]]
        return table

    sampler._sample_negative = sample_negative


def watched(engine: Any, metrics: Any, task: dict[str, Any]) -> None:
    """Writes the scores of the test rows after some rounds; other rounds are not evaluated."""
    evaluate = getattr(engine, task["names"]["evaluate"])
    keep = metrics.subjects.fset
    seen: dict[str, Any] = {"round": 0, "found": None}

    def subjects(self: Any, lists: Any) -> None:
        seen["scores"] = lists
        keep(self, lists)

    def evaluated(self: Any, held: Any) -> Any:
        of_test = held[1].tolist() == task["test"]
        seen["round"] += of_test
        if seen["found"] is None or seen["round"] in task["looks"]:
            seen["found"] = evaluate(self, held)
        if of_test:
            print(f"round {seen['round']}", flush=True)
        if of_test and seen["round"] in task["looks"]:
            write_scores(Path(task["out"]) / f"scores-{seen['round']}.csv", seen["scores"], task)
        return seen["found"]

    metrics.subjects = metrics.subjects.setter(subjects)
    setattr(engine, task["names"]["evaluate"], evaluated)


def write_scores(path: Path, lists: list[list[Any]], task: dict[str, Any]) -> None:
    """Writes the scores of each test row and its candidates, by the ids of the exported split."""
    users, items = task["users"], task["items"]
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(("user", "item", "score"))
        for user, item, score in (*zip(*lists[:3], strict=True), *zip(*lists[3:], strict=True)):
            out.writerow((users[user], items[item], repr(score)))


def sized(model: Any, task: dict[str, Any]) -> None:
    """Tells a program's engine how many users and items there are, which it knows by heart."""
    original: Callable[..., None] = model.__init__
    size = {"num_users": len(task["users"]), "num_items": len(task["items"])}

    def init(self: Any, config: dict[str, Any]) -> None:
        config.update(size)
        original(self, config)

    model.__init__ = init


def main(path: Path) -> None:
    """Prepares a program as its task says, and runs it."""
    task = json.loads(path.read_text())
    sys.path.insert(0, str(Path.cwd()))
    for name in ASIDE:
        sys.modules.setdefault(name, MagicMock())
    # NumPy 2.4 has this function no more, and PyTorch today refuses noise of scale 0.
    np.in1d = np.isin  # type: ignore[attr-defined]
    torch.distributions.Distribution.set_default_validate_args(False)
    without_cuda()
    sample_of_sets()
    names = task["names"]
    data, engine, model, metrics = map(importlib.import_module, map(names.get, PARTS))
    with_our_candidates(data.SampleGenerator, task)
    engine.DataLoader = Batches  # type: ignore[attr-defined]
    sized(getattr(model, names["class"]), task)
    watched(engine.Engine, metrics.MetronAtK, task)
    # After the imports: a program may seed itself when it is imported.
    random.seed(task["seed"])
    np.random.seed(task["seed"])
    torch.manual_seed(task["seed"])
    sys.argv = [SCRIPT, *task["arguments"]]
    runpy.run_path(SCRIPT, run_name="__main__")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
