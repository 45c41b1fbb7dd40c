"""`entrenous bridge`: authors' own programs on our split."""

from __future__ import annotations

from pathlib import Path

from entrenous.cli.console import emit_json, progress_bar, say, table
from entrenous.core.errors import InputError
from entrenous.core.keywords import at_least
from entrenous.runs.options import Negatives


def bridge(
    name: str,
    /,
    *,
    program: Path,
    data: str = "ml-100k",
    protocol: str = "loo-99",
    negatives: Negatives = "leaky",
    alone: bool = False,
    looks: tuple[int, ...] = (1, 2, 5, 10, 20, 50, 100),
    seed: int = 0,
    python: Path = Path("python3"),
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Train the authors' own program on a split of ours, and our system beside it, and say how far
    apart they are.

    Fetch the program yourself; its code is copied, changed (no CUDA, whole batches, our
    candidates), and thrown away. Example: entrenous bridge pfedrec --program IJCAI-23-PFedRec
    --python torch/bin/python

    Parameters
    ----------
    name:
        One of {bridges}.
    program:
        A checkout of the authors' repository, at the commit that was read; for fedncf, whose
        authors published none, of FedCA's.
    data:
        A data set, file or folder, whose users have three rows or more.
    protocol:
        How rows are held out: loo-99, or a seeded one with 99 candidates.
    negatives:
        leaky: as the program draws them (ours leaks where it does). train: any item without a
        training row of the user.
    alone:
        Devices learn from nobody: neither theirs nor ours gets what the server makes. CoLR's
        cannot.
    looks:
        Rounds after which both are evaluated; the last one ends the training.
    seed:
        Of the split, the program and our system.
    python:
        The interpreter that has the program's libraries: torch, pandas, scikit-learn; for colr
        hydra-core, hydra-colorlog and tqdm too.
    out:
        A new folder for the split, the scores and bridge.json. Default: bridge-NAME.
    json:
        Print one JSON object on stdout.
    """
    from entrenous_field.programs import programs

    from entrenous.core.registry.discover import pick

    from ..bridge import AGREE, COMPARED, BridgePlan, bridged

    known = {each.label.lower(): each for each in programs() if each.bridge}
    each = pick("bridge", name, known)
    if not looks or list(looks) != sorted({*looks}):
        raise InputError("--looks", f"they are {looks}", expected="ascending numbers of rounds")
    at_least("--looks", looks[0], 1)
    folder = out or Path(f"bridge-{name}")
    if folder.exists():
        raise InputError("--out", f"{folder} exists", fix="remove it, or name another")
    how = BridgePlan(
        data=data,
        protocol=protocol,
        negatives=negatives,
        alone=alone,
        looks=looks,
        seed=seed,
        python=python,
    )
    with progress_bar() as progress:
        found = bridged(each, program, how, folder, progress)
    if json:
        emit_json({"bridge": name, "looks": [look._asdict() for look in found]})
        return
    heads = [f"{whose} {metric}" for metric in COMPARED for whose in ("theirs", "ours")]
    rows = []
    for look in found:
        values = [value[metric] for metric in COMPARED for value in (look.theirs, look.ours)]
        rows.append([str(look.rounds), *(f"{value:.4f}" for value in values)])
    table(["rounds", *heads], rows)
    last = found[-1]
    agrees = "agrees" if abs(last.apart) <= AGREE else "does not agree"
    say(
        f"after {last.rounds} rounds ours {agrees}: {last.apart:+.4f} of HR@10 (at most {AGREE});"
        f" {folder} has the split, all scores and bridge.json"
    )
