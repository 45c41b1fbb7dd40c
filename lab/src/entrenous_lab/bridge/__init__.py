"""`bridged`: the authors' own training program on a split of ours, beside our system.

The program's folder is copied, and the copy is thrown away: nothing of the authors' is kept but the
scores that their models give. `driver.py` says what is changed.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
from entrenous_field.programs import Bridge, Change, Program, programs

import entrenous
from entrenous.core.contract.protocols import Progress, silent
from entrenous.core.contract.settings import parse_assignments
from entrenous.core.errors import EntrenousError, InputError
from entrenous.core.types import Int64Array
from entrenous.data.split.export import write
from entrenous.data.split.types import Split
from entrenous.evaluation.protocol import evaluate
from entrenous.federation.rounds import Rounds
from entrenous.runs.options import Negatives, RunPlan
from entrenous.runs.pipeline import Material, material
from entrenous.runs.plan import check, leaky, make
from entrenous.runs.recommenders import fitted

DRIVER = Path(__file__).with_name("driver.py")
COMPARED = ("hr@10", "ndcg@10")
FOLDERS = ("log", "logs", "sh_result", "results")  # that programs write into
AGREE = 0.02  # of HR@10, within which a system of ours is the program


@final
@dataclass(frozen=True, kw_only=True)
class BridgePlan:
    """How a program is trained, and ours beside it."""

    data: str = "ml-100k"
    protocol: str = "loo-99"
    # leaky: as the program draws negatives; ours with the leak if the program has it. train: any
    # item without a training row of the user.
    negatives: Negatives = "leaky"
    # True: devices learn from nobody.
    alone: bool = False
    # The rounds after which both are evaluated, ascending.
    looks: tuple[int, ...] = (1, 2, 5, 10, 20, 50, 100)
    seed: int = 0
    # The interpreter that has the program's libraries.
    python: Path = Path("python3")


class BridgeLook(NamedTuple):
    """The accuracy after some rounds: of the program, and of our system."""

    rounds: int
    theirs: Mapping[str, float]
    ours: Mapping[str, float]

    @property
    def apart(self) -> float:
        """The difference in HR@10, of ours to theirs."""
        return self.ours[COMPARED[0]] - self.theirs[COMPARED[0]]


class Numbered(NamedTuple):
    """The rows of a split by the numbers that a program gives: items as they first appear."""

    rows: Int64Array
    """int64 [n, 3]: user, item, and 0 for a training row, 1 for validation, 2 for test."""
    items: Int64Array
    """int64 [items], our number of each item."""
    candidates: Int64Array
    """int64 [users, 99], of each user's test row."""


def bridged(
    program: Program,
    folder: Path,
    how: BridgePlan,
    out: Path,
    progress: Progress = silent,
) -> list[BridgeLook]:
    """Returns the accuracy of a program and of our system after each of some rounds, both on one
    split, which is written into `out` beside the program's scores and `bridge.json`.

    folder: a checkout of the program's repository at the commit that was read. Raises InputError
    for another commit and for what the program cannot do, before anything is written;
    EntrenousError, with the program's last words, where it fails.
    """
    # The program runs in a folder of its own.
    out = out.absolute()
    bridge, taken = _bridge_of(program, folder)
    if how.alone and not bridge.alone:
        problem = f"a device of {program.label}'s program keeps no items of its own"
        raise InputError("--alone", problem, fix="leave it out")
    if shutil.which(how.python) is None:
        needed = "an interpreter with torch, pandas and scikit-learn"
        raise InputError("--python", f"{how.python} is no program", expected=needed)
    plan = _plan(bridge, how, taken.accused)
    given = material(plan)
    split = given.parts[0]
    numbered = numbered_of(split, program.label)
    ours = list(_curve(plan, given, how.looks))
    write(split, out / "split")
    with tempfile.TemporaryDirectory(dir=out) as work:
        home = Path(work) / "program"
        _copy(folder, home, bridge.changes + (bridge.alone if how.alone else ()))
        task = _prepared(bridge, home, numbered, split, how, out)
        _run(program.label, task, home, how, out, progress)
    files = [out / f"scores-{rounds}.csv" for rounds in how.looks]
    found = entrenous.evaluate_files(*files, split=out / "split").found["rows"]
    theirs = {(row["file"], row["metric"]): row["value"] for row in found}
    looks = [
        BridgeLook(rounds, {name: theirs[file.name, name] for name in COMPARED}, mine)
        for rounds, file, mine in zip(how.looks, files, ours, strict=True)
    ]
    about = {
        "commit": taken.commit,
        "ours": bridge.ours,
        **{name: str(value) for name, value in vars(how).items()},
        "looks": [look._asdict() for look in looks],
    }
    (out / "bridge.json").write_text(json.dumps(about, indent=1) + "\n")
    return looks


# ---- before anything is written ------------------------------------------------------------------


def _bridge_of(program: Program, folder: Path) -> tuple[Bridge, Program]:
    """The bridge of a system, and the program that it takes. Raises InputError without one, and for
    another version of the program.
    """
    bridge = program.bridge
    if bridge is None:
        raise InputError(
            program.label, "nobody has built a bridge to it", expected="a program that has one"
        )
    if bridge.taken:
        program = next(each for each in programs() if each.label == bridge.taken)
    get = f"git clone {program.repository} FOLDER && git -C FOLDER checkout {program.commit}"
    said = subprocess.run(
        ["git", "-C", str(folder), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    if said.stdout.strip() != program.commit:
        raise InputError(
            "--program",
            f"{folder} is not at the commit that was read",
            expected=f"a checkout of {program.commit}",
            fix=get,
        )
    return bridge, program


def numbered_of(split: Split, label: str) -> Numbered:
    """The rows of a split by a program's numbers. Raises InputError where a user lacks a row of one
    part, or a test row has other than 99 candidates: the programs count on both.
    """
    validation = split.validation
    candidates = split.test.candidates
    if validation is None or candidates is None or candidates.shape[1] != 99:
        problem = f"{split.name} has no validation rows, or does not draw 99 candidates"
        raise InputError("--protocol", problem, expected=f"what {label} needs", fix="loo-99")
    rows = []
    for number, part in enumerate((split.train, validation.rows, split.test.rows)):
        if len(np.unique(part.user)) != len(split.train.users):
            raise InputError(
                "--data",
                f"it has users without a row in one of the three parts of {split.name}",
                expected=f"training, validation and test rows of every user, as {label} needs",
                fix="leave out users with fewer than three rows",
            )
        rows.append(np.stack([part.user, part.item, np.full(len(part), number)], axis=1))
    together = np.concatenate(rows).astype(np.int64)
    together = together[np.lexsort((together[:, 2], together[:, 0]))]
    items, places = np.unique(together[:, 1], return_index=True)
    by_place = items[np.argsort(places, kind="stable")]
    numbers = np.zeros(len(split.train.items), np.int64)
    numbers[by_place] = np.arange(len(by_place))
    together[:, 1] = numbers[together[:, 1]]
    # A user has one test row, so that candidates by user are those of the row.
    by_user = numbers[candidates][np.argsort(split.test.rows.user, kind="stable")]
    return Numbered(together, by_place, by_user)


# ---- our system ----------------------------------------------------------------------------------


def _plan(bridge: Bridge, how: BridgePlan, accused: bool) -> RunPlan:
    """The plan of our system. Raises InputError for one that cannot be run."""
    name, *chosen = bridge.ours.split()
    if how.alone:
        chosen.append("aggregation=off")
    plan = RunPlan(
        algorithm=name,
        data=how.data,
        protocol=how.protocol,
        seed=how.seed,
        refit=False,
        negatives=how.negatives if accused else "train",
        settings=parse_assignments(chosen, "ours"),
    )
    check(plan)
    return plan


def _curve(plan: RunPlan, given: Material, looks: tuple[int, ...]) -> Iterator[dict[str, float]]:
    """The accuracy of our system after each of some rounds, of one training."""
    split = given.parts[0]
    avoid = split.all_rows if leaky(plan) else None
    # Every system with a bridge has a server.
    algorithm: Any = make(plan, given.rows)
    rounds = Rounds(algorithm, split.train, seed=plan.seed, avoid=avoid)
    training = rounds.start()
    for look in looks:
        training = rounds.advance(training, look)
        found = evaluate(
            fitted(rounds, training).recommender,
            split.train,
            split.test,
            label=plan.algorithm,
            seed=plan.seed,
            also_mask=split.left_out,
        )
        yield {name: found.metrics[name] for name in COMPARED}


# ---- the program ---------------------------------------------------------------------------------


def _copy(folder: Path, home: Path, changes: tuple[Change, ...]) -> None:
    """Copies the scripts of a program and their settings, with some changes."""
    for path in sorted((*folder.rglob("*.py"), *folder.rglob("*.yaml"))):
        copy = home / path.relative_to(folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    # From the end, since a change moves the lines after it.
    for change in sorted(changes, key=lambda change: change.first, reverse=True):
        path = home / change.file
        lines = path.read_text().splitlines()
        first = lines[change.first - 1]
        indentation = first[: len(first) - len(first.lstrip())]
        lines[change.first - 1 : change.last] = [indentation + change.put]
        path.write_text("\n".join(lines) + "\n")


def _prepared(
    bridge: Bridge, home: Path, numbered: Numbered, split: Split, how: BridgePlan, out: Path
) -> Path:
    """Writes the rows where the program reads them, and the task of the driver."""
    for folder in FOLDERS:
        (home / folder).mkdir(exist_ok=True)
    path = home / bridge.rows
    path.parent.mkdir(parents=True, exist_ok=True)
    # Everything consumed has the value 1, and the part stands for the time.
    path.write_text("".join(f"{user},{item},1,{part}\n" for user, item, part in numbered.rows))
    user, item, part = numbered.rows.T
    of_train = part == 0
    histories = [item[of_train & (user == one)].tolist() for one in range(len(split.train.users))]
    filled = {"rounds": how.looks[-1], "seed": how.seed}
    task = {
        "arguments": shlex.split(bridge.arguments.format(**filled)),
        "names": bridge.names,
        "rows": bridge.rows,
        "users": split.train.users.ids.tolist(),
        "items": split.train.items.ids[numbered.items].tolist(),
        "histories": histories,
        "test": item[part == 2].tolist(),
        "candidates": numbered.candidates.tolist(),
        "negatives": how.negatives,
        "looks": how.looks,
        "seed": how.seed,
        "out": str(out),
    }
    written = home / "task.json"
    written.write_text(json.dumps(task))
    return written


def _run(
    label: str, task: Path, home: Path, how: BridgePlan, out: Path, progress: Progress
) -> None:
    """Runs the driver in the copy. Raises EntrenousError with the last line that it wrote."""
    log = out / "log.txt"
    # A link to an interpreter is not followed: by its place it finds its libraries.
    python = Path(shutil.which(how.python) or how.python).absolute()
    command = [python, DRIVER, task]
    pipe = subprocess.PIPE
    with (
        log.open("w") as words,
        subprocess.Popen(command, cwd=home, stdout=pipe, stderr=words, text=True) as running,
    ):
        for rounds in _rounds(running):
            progress(rounds, how.looks[-1], f"round of {label}")
    # Some programs catch what stops them, and end as if they were done.
    if running.returncode or not (out / f"scores-{how.looks[-1]}.csv").exists():
        last = (log.read_text().strip().splitlines() or ["it wrote nothing"])[-1]
        raise EntrenousError(
            f"{label}: its program ended with {last!r}; {log} has all that it wrote."
            f" It needs torch, pandas, scikit-learn and what its README names in {how.python}"
            " (--python)"
        )


def _rounds(running: subprocess.Popen[str]) -> Iterator[int]:
    """The numbers of rounds that the driver prints among the program's own lines."""
    for line in running.stdout or ():
        word, _, number = line.strip().partition(" ")
        if word == "round" and number.isdigit():
            yield int(number)
