"""Runs the training program of some authors on rows of ours, without CUDA.

    PYTHON driver.py TASK.json

It runs in the interpreter that has the program's libraries, inside a copy of the program's folder,
and imports nothing of Entrenous. All changes are made in memory, before the program begins: no
CUDA, our candidates of the test rows, batches by index in place of one sample at a time, the seed,
and, if asked for, negatives that may be held-out items. The program's own loop then trains,
aggregates and scores. Scores of the test rows are written after some of its rounds.

Programs have one of two forms: an engine that trains all devices and a sampler of all rows, or
(CoLR) clients and a server, with rows in two files.
"""

from __future__ import annotations

import csv
import importlib
import json
import random
import runpy
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import torch

PARTS = ("data", "engine", "model", "metrics")  # modules of a program
PARTS_OF_CLIENTS = ("data", "clients", "metrics")
# Libraries that a program imports to log, to notify its author, and to solve what our change of it
# has solved: nothing of them is needed.
ASIDE = ("tensorboardX", "coloredlogs", "requests", "wandb", "cvxpy")


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
    scored = chain(zip(*lists[:3], strict=True), zip(*lists[3:], strict=True))
    named = ((users[user], items[item], repr(score)) for user, item, score in scored)
    write_rows(path, ("user", "item", "score"), named)


def write_rows(path: Path, names: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> None:
    """Writes a file of rows."""
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(chain([names], rows))


def sized(model: Any, task: dict[str, Any]) -> None:
    """Tells a program's engine how many users and items there are, which it knows by heart."""
    original = model.__init__
    size = {"num_users": len(task["users"]), "num_items": len(task["items"])}

    def init(self: Any, config: dict[str, Any]) -> None:
        config.update(size)
        original(self, config)

    model.__init__ = init


# ---- clients and a server ------------------------------------------------------------------------


def with_our_files(data: Any, clients: Any, task: dict[str, Any]) -> None:
    """Writes the rows where a program reads them, and lets it know all items. Rows for the loss on
    training rows, which it draws for each evaluation, are left out.
    """
    histories = task["histories"]
    folder = Path(task["rows"]).parent
    pairs = ((user, item, 1) for user, items in enumerate(histories) for item in items)
    write_rows(folder / "train.csv", ("user", "item", "rating"), pairs)
    held = zip(range(len(histories)), task["test"], task["candidates"], strict=True)
    write_rows(folder / "test.csv", ("user", "pos_item", "neg_sample"), held)
    original = data.RecDataModule.setup
    loader = clients.FedDataModule.train_dataloader

    def setup(self: Any) -> None:
        original(self)
        self.num_items = len(task["items"])
        if task["negatives"] == "train":
            self.pos_item_dict = dict(enumerate(map(set, histories)))

    def train_dataloader(self: Any, cid: Any = None, for_eval: bool = False) -> Any:
        return None if for_eval else loader(self, cid)

    data.RecDataModule.setup = setup
    clients.FedDataModule.train_dataloader = train_dataloader


def watched_server(clients: Any, metrics: Any, task: dict[str, Any]) -> None:
    """Writes the scores of the test rows after some rounds; other rounds are not evaluated."""
    evaluate = clients.SimpleServer.evaluate
    measure = metrics.metrics
    users = range(len(task["test"]))
    seen = {"round": 0}

    def evaluated(self: Any, *loaders: Any, **named: Any) -> Any:
        seen["round"] += 1
        print(f"round {seen['round']}", flush=True)
        return evaluate(self, *loaders, **named) if seen["round"] in task["looks"] else {}

    def measured(model: Any, *rest: Any, **named: Any) -> Any:
        scores: list[float] = []

        def scored(user: Any, item: Any) -> Any:
            found = model(user, item)
            scores.extend(found.tolist())
            return found

        found = measure(scored, *rest, **named)
        # A user's test item comes after the candidates.
        of_user = [scores[100 * user : 100 * user + 100] for user in users]
        one = [users, task["test"], [mine[-1] for mine in of_user]]
        beside = [user for user in users for _ in range(99)]
        others = [beside, [*chain(*task["candidates"])], [x for mine in of_user for x in mine[:-1]]]
        write_scores(Path(task["out"]) / f"scores-{seen['round']}.csv", one + others, task)
        return found

    clients.SimpleServer.evaluate = evaluated
    metrics.metrics = measured


# ---- any program ---------------------------------------------------------------------------------


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
    if "clients" in names:
        data, clients, metrics = map(importlib.import_module, map(names.get, PARTS_OF_CLIENTS))
        with_our_files(data, clients, task)
        watched_server(clients, metrics, task)
    else:
        data, engine, model, metrics = map(importlib.import_module, map(names.get, PARTS))
        with_our_candidates(data.SampleGenerator, task)
        engine.DataLoader = Batches  # type: ignore[attr-defined]
        sized(getattr(model, names["class"]), task)
        watched(engine.Engine, metrics.MetronAtK, task)
    # After the imports: a program may seed itself when it is imported.
    random.seed(task["seed"])
    np.random.seed(task["seed"])
    torch.manual_seed(task["seed"])
    sys.argv = [names["script"], *task["arguments"]]
    runpy.run_path(names["script"], run_name="__main__")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
