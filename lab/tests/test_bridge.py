"""Bridges to authors' programs: a made-up program of their form, with their leak, and what is
refused before anything is written.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from entrenous_field.programs import Bridge, Program, programs
from entrenous_lab.bridge import BridgePlan, bridged

from entrenous.core.errors import EntrenousError, InputError

USERS, ITEMS = 80, 130
# As much of PyTorch as the driver touches, so that the test needs no gigabyte.
TORCH = """
import types
class Tensor: pass
nn = types.SimpleNamespace(Module=type("Module", (), {}))
cuda = types.SimpleNamespace(set_device=None)
manual_seed = print
class Distribution:
    set_default_validate_args = print
distributions = types.SimpleNamespace(Distribution=Distribution)
"""
# A device that remembers what it was shown as a negative, and scores all else higher.
PROGRAM = {
    "data.py": """
import random
class SampleGenerator:
    def __init__(self, rows):
        self.item_pool = {item for _, item, _ in rows}
        self.rows = rows
        self.negatives = self._sample_negative(rows)
    def _sample_negative(self, rows):
        users = sorted({user for user, _, _ in rows})
        left = [self.item_pool - {i for u, i, _ in rows if u == user} for user in users]
        drawn = [random.sample(items, 99) for items in left]
        return {"userId": users, "negative_items": left, "negative_samples": drawn}
""",
    "metrics.py": """
class MetronAtK:
    @property
    def subjects(self): return self._subjects
    @subjects.setter
    def subjects(self, subjects): self._subjects = subjects
""",
    "engine.py": """
import random
from metrics import MetronAtK
DataLoader = None
class Engine:
    def __init__(self, config):
        self.shown = [set() for _ in range(config["num_users"])]
        self._metron = MetronAtK()
    def train(self, negatives):
        for user, items in enumerate(negatives):
            self.shown[user] |= set(random.sample(items, 9))
        everybody = set().union(*self.shown)
        self.shown = [everybody] * len(self.shown)
    def evaluate(self, held):
        users, items, beside, others = held
        one = [float(item not in self.shown[user]) for user, item in zip(users, items)]
        many = [float(item not in self.shown[user]) for user, item in zip(beside, others)]
        self._metron.subjects = [users, list(items), one, beside, others, many]
        return 0.0
""",
    "mlp.py": """
from engine import Engine
class MLPEngine(Engine): pass
""",
    "train.py": """
import sys
import numpy as np
from data import SampleGenerator
from mlp import MLPEngine
rows = [tuple(map(int, line.split(",")[:2] + line.split(",")[3:])) for line in open("rows.dat")]
engine, sampler = MLPEngine({"num_users": 1}), SampleGenerator(rows)
users, samples = sampler.negatives["userId"], sampler.negatives["negative_samples"]
beside = [user for user in users for _ in range(99)]
others = [item for sample in samples for item in sample]
for _ in range(int(sys.argv[1])):
    engine.train(sampler.negatives["negative_items"])
    for part in (2, 1):
        held = np.array([item for _, item, when in rows if when == part])
        engine.evaluate([users, held, beside, others])
""",
}
# A program of clients that scores what it never shows as a negative.
CLIENTS = {
    "rec.py": """
import csv
class RecDataModule:
    def setup(self):
        self.num_items = 0
        self.pos_item_dict = {}
        for row in csv.DictReader(open("rows/train.csv")):
            self.pos_item_dict.setdefault(int(row["user"]), set()).add(int(row["item"]))
        self.test = []
        for row in csv.DictReader(open("rows/test.csv")):
            beside = [int(item) for item in row["neg_sample"][1:-1].split(",")]
            self.test.append((int(row["user"]), [*beside, int(row["pos_item"])]))
            self.pos_item_dict[int(row["user"])].add(int(row["pos_item"]))
""",
    "measured.py": """
def metrics(model, loader):
    for user, items in loader:
        model(user, items)
""",
    "fed.py": """
import measured
class FedDataModule:
    def train_dataloader(self, cid=None, for_eval=False): raise ValueError("rows for a loss")
class SimpleServer:
    def evaluate(self, rows, train_loader=None):
        measured.metrics(self.model, rows)
""",
    "fedtrain.py": """
import sys
import numpy as np
from fed import FedDataModule, SimpleServer
from rec import RecDataModule
rows = RecDataModule()
rows.setup()
assert rows.num_items == 130
server = SimpleServer()
for number in range(int(sys.argv[1])):
    known = rows.pos_item_dict if number else dict.fromkeys(rows.pos_item_dict, ())
    server.model = lambda user, items: np.array([float(item in known[user]) for item in items])
    server.evaluate(rows.test, train_loader=FedDataModule().train_dataloader(for_eval=True))
""",
}


@pytest.fixture
def program(tmp_path: Path) -> tuple[Program, Path, Path]:
    """A program as a registry has it, its folder, and an interpreter with its library."""
    folder, library = tmp_path / "program", tmp_path / "library"
    for path, text in {**PROGRAM, **CLIENTS, "../library/torch.py": TORCH}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        library.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    git = ("git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b")
    for said in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "x")):
        subprocess.run([*git, *said], check=True)
    commit = subprocess.run(
        [*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nPYTHONPATH={library} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    real = next(each for each in programs() if each.label == "PFedRec")
    assert real.bridge
    # Two lines give way to one, before a line that has to be found all the same.
    alone = real.bridge.alone[0].model_copy(update={"first": 12, "last": 13})
    put = "users, items, beside, others = held"
    same = alone.model_copy(update={"first": 15, "last": 15, "put": put})
    made = Bridge(
        taken="",
        ours="pfedrec learning_rate=0.2",
        arguments="{rounds}",
        rows="rows.dat",
        names={**real.bridge.names, "evaluate": "evaluate"},
        changes=(same,),
        alone=(alone,),
    )
    return real.model_copy(update={"commit": commit, "bridge": made}), folder, python


@pytest.fixture
def plan(
    tmp_path: Path, program: tuple[Program, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> BridgePlan:
    # As people type them: places from where they are.
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    lines = ["user,item,time"]
    for user in range(USERS):
        items = rng.permutation(ITEMS)[:20]
        lines += [f"u{user},i{item},{time}" for time, item in enumerate(items)]
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(lines) + "\n")
    return BridgePlan(data=str(path), looks=(1, 100), python=Path("bin", "python"))


def test_its_leak_finds_every_held_out_item_alone_and_none_with_honest_negatives(
    tmp_path: Path, program: tuple[Program, Path, Path], plan: BridgePlan
) -> None:
    made, folder, _ = program
    leaky = bridged(made, folder, replace(plan, alone=True), Path("leaky"))
    assert [look.rounds for look in leaky] == [1, 100]
    assert leaky[-1].theirs["hr@10"] == 1.0
    honest = bridged(
        made, folder, replace(plan, alone=True, negatives="train"), tmp_path / "honest"
    )
    assert honest[-1].theirs["hr@10"] < 0.7
    # Together the devices know each other's negatives, so that nothing stands out.
    together = bridged(made, folder, plan, tmp_path / "together")
    assert together[-1].theirs["hr@10"] < leaky[-1].theirs["hr@10"]
    assert "hr@10" in leaky[-1].ours and leaky[-1].apart == leaky[-1].ours["hr@10"] - 1.0
    told = json.loads((tmp_path / "leaky" / "bridge.json").read_text())
    assert told["commit"] == made.commit and told["looks"][1]["rounds"] == 100
    # Nothing of the program stays: its scores, the split and the log do.
    left = {path.name for path in (tmp_path / "leaky").iterdir()}
    assert left == {"split", "scores-1.csv", "scores-100.csv", "log.txt", "bridge.json"}


@pytest.mark.parametrize(
    ("library", "told"),
    [
        ("import no_such_library", r"No module named 'no_such_library'.*--python"),
        # Some programs catch what stops them.
        ("raise SystemExit", "'it wrote nothing'.*log.txt has all that it wrote"),
    ],
)
def test_a_program_that_fails_is_told_by_its_last_words(
    tmp_path: Path,
    program: tuple[Program, Path, Path],
    plan: BridgePlan,
    library: str,
    told: str,
) -> None:
    made, folder, _ = program
    (tmp_path / "library" / "torch.py").write_text(library)
    with pytest.raises(EntrenousError, match=told):
        bridged(made, folder, replace(plan, looks=(1,)), tmp_path / "out")


def test_clients_of_a_server_get_rows_and_a_way_that_is_not_theirs_is_refused(
    tmp_path: Path, program: tuple[Program, Path, Path], plan: BridgePlan
) -> None:
    made, folder, _ = program
    assert made.bridge
    names = {"script": "fedtrain.py", "data": "rec", "metrics": "measured", "clients": "fed"}
    changed = {"names": names, "rows": "rows/rows.csv", "alone": (), "changes": ()}
    bridge = made.bridge.model_copy(update=changed)
    made = made.model_copy(update={"bridge": bridge, "rule": "avoids all candidates"})
    leaky = bridged(made, folder, plan, tmp_path / "leaky")
    assert leaky[0].theirs["hr@10"] < 0.7 and leaky[1].theirs["hr@10"] == 1.0
    plan = replace(plan, negatives="train", looks=(1, 2))
    honest = bridged(made, folder, plan, tmp_path / "honest")
    assert honest[1].theirs["hr@10"] < 0.7
    # Ours avoids what its program avoids: no leak in either.
    assert honest[0].ours == leaky[0].ours
    with pytest.raises(InputError, match=r"--alone: .* keeps no items of its own"):
        bridged(made, folder, replace(plan, alone=True), tmp_path / "alone")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"protocol": "temporal-80-20"}, "99 candidates"),
        ({"protocol": "loo-50"}, "99 candidates"),
        ({}, "users without a row"),
        ({"python": Path("no-such-python")}, "--python: no-such-python is no program"),
    ],
)
def test_what_a_program_cannot_take_is_refused_before_anything_is_written(
    tmp_path: Path,
    program: tuple[Program, Path, Path],
    plan: BridgePlan,
    change: dict[str, Any],
    told: str,
) -> None:
    made, folder, _ = program
    if not change:
        # Whoever has two rows has none for validation.
        with Path(plan.data).open("a") as rows:
            rows.write("short,i1,1\nshort,i2,2\n")
    with pytest.raises(InputError, match=told):
        bridged(made, folder, replace(plan, **change), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_another_commit_is_refused_with_the_line_that_fetches_the_right_one(
    tmp_path: Path, program: tuple[Program, Path, Path], plan: BridgePlan
) -> None:
    made, folder, _ = program
    other = made.model_copy(update={"commit": "0" * 40})
    with pytest.raises(InputError, match=r"git clone .* checkout 0{40}"):
        bridged(other, folder, plan, tmp_path / "out")
