"""Several algorithms, or several settings of one, over several seeds on one protocol, compared user
by user.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, final

from ..core.contract.protocols import Progress, silent
from ..core.errors import InputError, at_least, did_you_mean
from ..data.interactions import Interactions
from ..data.load import load as read
from ..data.options import load_arguments
from ..data.split.protocol import GIVEN
from ..evaluate.ratings import ERRORS
from ..federation.executors import Threads
from ..privacy.protection import PAPER
from ..runs.options import Profile, RunPlan
from ..runs.pipeline import run
from ..runs.plan import check, make, usual_protocol
from . import tables
from .asked import SplitAsked, data_asked, metrics_asked, split_asked
from .budgets import spent_on_all
from .contestants import Contestant, contestants, judged, same_rows
from .progress import asked_progress
from .statistics import Runs, loss_win, paired_tests, row, spread_tests
from .words import in_python

TESTED = ("hr@10", "ndcg@10")


@final
@dataclass(frozen=True, eq=False, repr=False)
class ComparedAlgorithms:
    """A comparison of algorithms. found: all of it, as `entrenous compare --json` prints it."""

    found: dict[str, Any]

    def __repr__(self) -> str:
        return tables.plain(self.found)

    def _repr_html_(self) -> str:
        return tables.html(self.found)

    def rows(self) -> Any:
        """A frame with a row for each algorithm: `algorithm`, and the mean and the standard
        deviation over seeds of each metric.
        """
        import polars as pl

        return pl.DataFrame(tables.records(self.found))

    def tests(self) -> Any:
        """A frame of the paired tests over users against the reference: difference, 95 % interval,
        p, and p after Holm.
        """
        import polars as pl

        return pl.DataFrame(self.found["tests"])

    def latex(self, metrics: Sequence[str] = ()) -> str:
        """A LaTeX table (booktabs) with its protocol as caption: the best in bold, and a dagger
        where an algorithm differs from the reference (p < .05 after Holm). metrics: () = the usual
        ones.
        """
        return tables.latex(self.found, metrics)

    def csv(self) -> str:
        """The rows as CSV text."""
        return tables.csv_text(self.found)


def compare(
    algorithms: Sequence[Any],
    data: Any = "ml-100k",
    *,
    split: SplitAsked | None = None,
    metrics: Mapping[str, Any] | Sequence[Any] | None = None,
    progress: bool | Progress | None = None,
    **further: Any,
) -> ComparedAlgorithms:
    """Train several algorithms over several seeds, or take runs that are there, and compare them
    user by user.

    Args: algorithms: two or more names, places, classes, instances (those of one class are told
        apart by their settings), or `Run`s. data, split, metrics, progress: as of `entrenous.run`.
        further: settings, seeds, reference, out, rounds, protocol, given, load, refit, network,
        profile, protect, threads: as of
            `compared`.

    Raises:
        InputError: for what cannot be compared, before anything is trained.
    """
    with in_python(), asked_progress(progress) as shown:
        rows = data_asked(data)
        if split is not None and not isinstance(split, str):
            further["splitter"] = lambda seed: split_asked(
                split, rows, seed, further.get("load") or {}
            )[1]
        usual = {"protocol": split} if isinstance(split, str) else {}
        return ComparedAlgorithms(
            compared(
                algorithms,
                rows,
                metrics=metrics_asked(metrics),
                progress=shown,
                **{**usual, **further},
            )
        )


def compared(
    algorithms: Sequence[Any],
    data: str | Interactions = "ml-100k",
    *,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    reference: str | None = None,
    protocol: str | None = None,
    seeds: int = 5,
    rounds: int | None = None,
    given: str | None = None,
    load: Mapping[str, Any] | None = None,
    refit: bool | None = None,
    network: Mapping[str, Any] | None = None,
    profile: Profile = PAPER,
    protect: Mapping[str, Any] | None = None,
    out: Path | None = None,
    metrics: Mapping[str, Any] | None = None,
    splitter: Any = None,
    threads: int = 0,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Runs every algorithm with seeds 0 .. seeds - 1.

    Args: algorithms: names, `LABEL=NAME` for a second choice of settings, places, classes,
        instances, or finished runs. settings: {label: {setting: value}}. reference: the label that
        the others are tested against; None = the first. protocol: None = the usual one. rounds: of
        those that train in rounds. given: the folder of a given split, for the protocol `given`.
        refit: whether final models train on validation rows; network: what is between peers that
        gossip; profile, protect: what limits the
            data that leaves devices; as of `run`.
        out: where every run is stored; None = nowhere. splitter: seed -> splits of one's own, in
            place of a protocol.

    Returns: rows: mean and standard deviation (n - 1) over seeds, and each seed's metrics. tests:
        the reference against each other one, paired over users, each user's value being their mean
        over seeds: mean difference with its 95 % interval, p, and p after Holm's correction over
        all tests of one metric. loss_win, ranks: where all predict ratings, over all cells of seed,
        fold and error, as in FBALF's table 3. privacy: where trainings had a budget of differential
        privacy, what each has spent and what all of them together, on the same people
        (`api.budgets`). fairness_tests: the same pairs, on the standard deviation of NDCG@10 over
        users; none of fewer than three users.
    """
    found = contestants(algorithms, settings or {})
    at_least("--seeds", seeds, 1)
    Threads(threads)
    first = _reference(reference, [one.label for one in found])
    new, done = [one for one in found if not one.runs], [one for one in found if one.runs]
    if isinstance(data, str) and protocol == GIVEN:
        data, given = given or data, None
    own = protocol or (
        "" if splitter or not new else usual_protocol(data, *(one.name for one in new))
    )
    common = RunPlan(
        algorithm="",
        protocol=own or "own",
        rounds=rounds,
        given=given,
        load=load or {},
        refit=refit,
        network=network or {},
        profile=profile,
        protect=protect or {},
    )
    _check(new, common)
    rows = _rows(data, own, load or {}) if new else data
    if isinstance(rows, Interactions) and own != GIVEN:
        for one in new:
            make(replace(common, algorithm=one.name, settings=one.settings), rows)
    numbers = [int(run.manifest["seed"]) for run in done[0].runs] if done else list(range(seeds))
    named = (
        isinstance(data, str) and out is not None
    )  # so that a stored run can be repeated by its name
    train = partial(
        run,
        data=data if named else rows,
        protocol=own or None,
        rounds=rounds,
        given=given,
        threads=threads,
        out=out,
        load=(load or {}) if named and own != GIVEN else {},
        metrics=metrics or {},
        refit=refit,
        network=network or {},
        profile=profile,
        protect=protect or {},
    )
    runs: dict[str, list[Any]] = {one.label: [judged(each) for each in one.runs] for one in found}
    for number, (one, seed) in enumerate(product(new, numbers)):
        progress(number, len(new) * len(numbers), one.label)
        runs[one.label].append(
            train(
                one.name, seed=seed, settings=one.settings, parts=splitter(seed) if splitter else ()
            )
        )
    progress(len(new) * len(numbers), len(new) * len(numbers), "done")
    same_rows([of[0].manifest for of in runs.values()])
    return _summed_up(
        found, runs, first, len(numbers), str(data) if isinstance(data, str) and new else ""
    )


def _reference(asked: str | None, labels: Sequence[str]) -> str:
    """The label that the others are tested against."""
    if asked is not None and asked not in labels:
        raise InputError(
            "--reference", f"'{asked}' is none of what is compared", fix=did_you_mean(asked, labels)
        )
    return labels[0] if asked is None else asked


def _check(new: Sequence[Contestant], plan: RunPlan) -> None:
    """All of them before any is trained. plan: what they have in common."""
    for one in new:
        check(replace(plan, algorithm=one.name, settings=one.settings))


def _rows(data: str | Interactions, protocol: str, load: Mapping[str, Any]) -> str | Interactions:
    """The rows, read once; the name of a folder where each run reads a split in files."""
    return (
        data
        if not isinstance(data, str) or protocol == GIVEN
        else read(data, **load_arguments(load))
    )


def _summed_up(
    found: Sequence[Contestant], runs: Runs, first: str, seeds: int, data: str
) -> dict[str, Any]:
    rated = all(set(ERRORS) <= of[0].metrics.keys() for of in runs.values())
    manifest = runs[first][0].manifest
    spent = spent_on_all({label: [one.manifest for one in of] for label, of in runs.items()})
    return {
        "data": data or manifest["data"],
        "protocol": manifest["protocol"],
        "seeds": seeds,
        "reference": first,
        "rows": [row(one.label, runs[one.label], one.settings) for one in found],
        "tests": [
            test
            for metric in (ERRORS if rated else TESTED)
            for test in paired_tests(metric, runs, first)
        ],
        **(loss_win(runs, first) if rated else {}),
        "fairness_tests": spread_tests(runs, first),
        **({"privacy": spent} if spent else {}),
        "protocol_text": manifest["protocol_text"],
        "notes": list(
            dict.fromkeys(note for of in runs.values() for note in of[0].manifest["notes"])
        ),
        "versions": manifest.get("versions", {}),
    }
