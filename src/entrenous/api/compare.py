"""Several algorithms, or several settings of one, over several seeds on one protocol, compared user
by user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, TypeAlias, final

import numpy as np

from ..core.errors import InputError, did_you_mean
from ..core.keywords import at_least, values
from ..core.types import Float64Array
from ..data.interactions import POLARS, Interactions
from ..data.load import load as read
from ..data.load import load_arguments
from ..data.split.protocol import is_given
from ..evaluation.metric_kinds import arrowed
from ..evaluation.paired import PairedDifference, paired_tests, spread_tests
from ..evaluation.ratings import ERRORS
from ..report import figures
from ..report.figures import FigureFormat
from ..runs.options import CommonOptions, CompareOptions, RunPlan
from ..runs.pipeline import RunRequest, carry_out
from ..runs.plan import check, make, usual_protocol, with_set
from ..runs.train import Say
from ..runs.wanted import MetricsAsked, Wanted, metrics_asked
from . import tables
from .arguments import (
    AlgorithmAsked,
    DataAsked,
    FrameT,
    ProgressAsked,
    SplitAsked,
    asked_progress,
    data_beside,
    kind_of,
    public,
    split_asked,
)
from .budgets import spent_on_all
from .contestants import Contestant, contestants, same_rows
from .results import Figure, Report, Table, refuse_unknown
from .run import Run, run_of
from .statistics import Runs, by_seed, drawn_of, row
from .tables import ComparisonFound

TESTED = ("hr@10", "ndcg@10")
# The standard deviation of this metric over users is fairness.
SPREAD = "ndcg@10"


@final
@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Report[ComparisonFound, FrameT]):
    """A comparison of algorithms. `table()` has a row for each: `algorithm`, and the mean and the
    standard deviation over seeds of each metric.
    """

    runs: Mapping[str, Run[FrameT]] = field(default_factory=dict)
    """The run of each label on the first seed, to recommend with and to save."""

    def tests(self) -> FrameT:
        """A frame of the paired tests against the reference: difference, 95 % interval, what it
        holds (users and seeds; users alone of one seed), p, and p after Holm.
        """
        return self._frame(self.found["tests"])

    def latex(self, metrics: Sequence[str] = ()) -> str:
        """A LaTeX table (booktabs) with its protocol as caption: the best in bold, and a dagger
        where an algorithm differs from the reference (p < 0.05 after Holm). metrics: () = the usual
        ones.
        """
        for metric in metrics:
            refuse_unknown("metrics", metric, tables.common(self.found["rows"]))
        return tables.latex(self.found, metrics)

    def plot(self, metric: str = "ndcg@10") -> Figure:
        """A bar of a metric for each algorithm: the mean over seeds, and with several seeds the
        sample standard deviation on both sides of it.
        """
        refuse_unknown("plot", metric, tables.common(self.found["rows"]))
        rows = self.found["rows"]
        means = np.array([row["metrics"][metric] for row in rows])
        spread = np.array([row["std"][metric] for row in rows])
        look = FigureFormat(tables.caption(self.found), arrowed(metric), "")
        ends = np.stack([means - spread, means + spread], axis=1)
        intervals = {metric: ends} if self.found["seeds"] > 1 else None
        labels = [row["algorithm"] for row in rows]
        return Figure(figures.bars(labels, {metric: means}, look, intervals=intervals))

    def _records(self) -> list[dict[str, str | float]]:
        return tables.records(self.found)

    def _shown(self) -> Table:
        names = tables.shown(self.found)
        body = tables.cells(self.found, names)
        return Table(tables.caption(self.found), ["algorithm", *names], body)


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class CompareKeywords(CompareOptions, Generic[FrameT]):
    """The keywords of `compare`: the options of `entrenous compare`, and what only Python can hand
    in.
    """

    algorithms: Sequence[AlgorithmAsked | Run[FrameT]] = field(kw_only=False)
    """Two or more names, `LABEL=NAME` for a second choice of settings, places, classes, instances
    (those of one class are told apart by their settings), or finished `Run`s."""
    data: DataAsked[FrameT] | None = field(default=None, kw_only=False)
    """As of `entrenous.run`."""
    split: SplitAsked[FrameT] | None = None
    """As of `entrenous.run`."""
    metrics: MetricsAsked = ()
    """As of `entrenous.run`."""
    progress: ProgressAsked = None
    """As of `entrenous.run`."""


@public(CompareKeywords)
def compare(asked: CompareKeywords[FrameT]) -> Comparison[FrameT]:
    """Train several algorithms over several seeds, or take finished runs, and compare them user by
    user.

    Raises InputError for what cannot be compared, before anything is trained.
    """
    # Finished runs and splits bring their rows with them.
    data = asked.data
    if data is None:
        runs = [each.train for each in asked.algorithms if isinstance(each, Run)]
        data = runs[0] if runs else data_beside(None, asked.split, asked.load)
    return compared(asked, kind_of(data))


def compared(
    asked: CompareKeywords[Any], frames: str = POLARS, say: Say | None = None
) -> Comparison[Any]:
    """Runs every algorithm with seeds 0 .. seeds - 1.

    frames: as of `Report`. say: as of `runs.pipeline.RunRequest`, for the first training of each
    algorithm.

    Returns the comparison, in whose report are: rows: mean and standard deviation (n - 1) over
        seeds, and each seed's metrics. tests: the reference against each other one, paired over
        users and seeds: mean difference with its 95 % interval, what it holds, p, and p after
        Holm's correction over all tests of one metric (`evaluation.chance`). privacy: where
        trainings had a budget of differential privacy, what each has spent and what all of them
        together, on the same people (`api.budgets`). fairness_tests: the same pairs, on the
        standard deviation of NDCG@10 over users; none of fewer than three users.

    Raises InputError for what cannot be compared, before anything is trained.
    """
    asked = _plain(asked)
    wanted = metrics_asked(asked.metrics)
    every = contestants(asked.algorithms, asked.settings)
    # All that can be refused is refused before the first training.
    seeds = _seeds(asked.seeds)
    at_least("--threads", asked.threads, 0)
    reference = _reference(asked.reference, [contestant.label for contestant in every])
    new = [contestant for contestant in every if not contestant.runs]
    done = [contestant for contestant in every if contestant.runs]
    # Finished runs decide the seeds: a seed names the split, which all of them must share.
    if done:
        seeds = [int(run.manifest["seed"]) for run in done[0].runs]
    results: dict[str, list[Run[Any]]] = {}
    for contestant in every:
        results[contestant.label] = [_asked_of(run, wanted) for run in contestant.runs]
    with asked_progress(asked.progress) as progress:
        trainings = _requests(asked, new, seeds, wanted, say) if new else []
        for number, (label, request) in enumerate(trainings):
            progress(number, len(trainings), label)
            results[label].append(run_of(carry_out(request()), wanted))
        progress(len(trainings), len(trainings), "done")
    # Runs that were trained here and finished ones meet in one table.
    same_rows([runs[0].manifest for runs in results.values()])
    # A path as it was typed; the user's own splits say themselves which rows they have.
    by_name = isinstance(asked.data, str) and new and asked.split is None
    data = str(asked.data) if by_name else ""
    found = _summed_up(every, results, reference, seeds, wanted, data)
    return Comparison(found, frames, {label: runs[0] for label, runs in results.items()})


def _seeds(asked: int | Sequence[int]) -> list[int]:
    """The seeds by their number or by name. Raises InputError for none, and for one twice."""
    if isinstance(asked, int):
        at_least("--seeds", asked, 1)
        return list(range(asked))
    # A list, a tuple, or an array of NumPy; anything else is one seed that is none.
    seeds: list[int] = np.atleast_1d(asked).tolist()
    for seed in seeds:
        at_least("seeds", seed, 0)
    if not seeds or len({*seeds}) < len(seeds):
        raise InputError("seeds", f"got {seeds}", expected="one or more seeds, each once")
    return seeds


def _asked_of(run: Run[Any], wanted: Wanted) -> Run[Any]:
    """A finished run with the metrics that are asked for. Raises InputError for one that it does
    not have.
    """
    missing = wanted.missing(run.manifest["metrics"])
    if missing:
        raise InputError(
            "metrics",
            f"{run!r} has no {missing[0]}",
            expected="metrics that each run has",
            fix="give the runs to evaluate_files, which takes any list length",
        )
    return replace(run, wanted=wanted)


def _plain(asked: CompareKeywords[Any]) -> CompareKeywords[Any]:
    """The same request with the name of a protocol in `protocol` alone, and the folder of a given
    split in `data`.
    """
    if isinstance(asked.split, str):
        asked = replace(asked, protocol=asked.protocol or asked.split, split=None)
    if isinstance(asked.data, str) and is_given(asked.protocol):
        asked = replace(asked, data=asked.given or asked.data, given=None)
    return asked


Training: TypeAlias = tuple[str, Callable[[], RunRequest]]


def _requests(
    asked: CompareKeywords[Any],
    new: Sequence[Contestant],
    seeds: Sequence[int],
    wanted: Wanted,
    say: Say | None,
) -> list[Training]:
    """The trainings of a comparison with their labels, all of them checked. Rows are read once; a
    split in files is read by each run.
    """
    data = data_beside(asked.data, asked.split, asked.load)
    protocol = asked.protocol
    common = values(asked, CommonOptions)
    if protocol is None and asked.split is None:
        protocol = usual_protocol(data, *(contestant.name for contestant in new))
    common["protocol"] = protocol
    # The user's own splits have no protocol; their name stands in the plan for messages alone.
    plan = RunPlan(algorithm="", **{**common, "protocol": protocol or "own"})
    plans = []
    for contestant in new:
        of_contestant = replace(plan, algorithm=contestant.name, settings=contestant.settings)
        check(of_contestant)
        plans.append(of_contestant)
    # Rows are read once for all runs. A given split is read by each run, in which it is checked.
    rows = data
    if isinstance(data, str) and not is_given(protocol):
        rows = read(data, **load_arguments(asked.load))
    # Settings that do not fit the rows are found here, not after hours of training.
    if isinstance(rows, Interactions) and not is_given(protocol):
        for each in plans:
            make(with_set(each, len(rows.users)), rows)
    # A run that is stored names its data, so that it can be repeated.
    by_name = isinstance(data, str) and asked.out is not None
    if not by_name and not is_given(protocol):
        common["load"] = {}

    def request(contestant: Contestant, seed: int) -> RunRequest:
        split = split_asked(asked.split, data if by_name else rows, seed, asked.load)
        return RunRequest(
            contestant.name,
            split.data,
            seed=seed,
            settings=contestant.settings,
            parts=split.parts,
            metrics=wanted,
            threads=asked.threads,
            out=asked.out,
            # The lines are the same for every seed.
            say=say if seed == seeds[0] else None,
            **common,
        )

    # A split is made when its training begins, so that only one is in memory.
    trainings: list[Training] = []
    for contestant in new:
        for seed in seeds:
            trainings.append((contestant.label, partial(request, contestant, seed)))
    return trainings


def _reference(asked: str | None, labels: Sequence[str]) -> str:
    """The label that the others are tested against."""
    if asked is not None and asked not in labels:
        raise InputError(
            "--reference", f"'{asked}' is none of what is compared", fix=did_you_mean(asked, labels)
        )
    return labels[0] if asked is None else asked


def _summed_up(
    every: Sequence[Contestant],
    results: Runs,
    reference: str,
    seeds: Sequence[int],
    wanted: Wanted,
    data: str,
) -> ComparisonFound:
    """The tables, tests and notes of a comparison: see `compared`."""
    # Errors of ratings are tested where everybody predicts ratings, else the metrics of rankings.
    rated = all(set(ERRORS) <= runs[0].metrics.keys() for runs in results.values())
    tested: Iterable[str] = ERRORS if rated else TESTED
    rows = [
        row(contestant.label, results[contestant.label], contestant.settings)
        for contestant in every
    ]
    if wanted.names:
        # Metrics of all lists together have no value for each user.
        of_users = results[reference][0].folds[0].per_user
        tested = [name for name in tables.common(rows) if name in of_users]
    manifests = {label: [run.manifest for run in runs] for label, runs in results.items()}
    manifest = manifests[reference][0]
    spent = spent_on_all(manifests)
    # Most notes are the same for all; each is said once, in the order of the algorithms.
    notes = [note for of_label in manifests.values() for note in of_label[0]["notes"]]
    pairs = [(reference, other) for other in results if other != reference]
    drawn = drawn_of(results[reference])
    tests: list[PairedDifference] = []
    for metric in tested:
        tests += paired_tests(metric, _by_label(metric, results), pairs, drawn)
    found: ComparisonFound = {
        "data": data or manifest["data"],
        "protocol": manifest["protocol"],
        "seeds": len(seeds),
        "seed_numbers": list(seeds),
        "reference": reference,
        "metrics": list(wanted.names),
        "rows": rows,
        "tests": tests,
        "fairness_tests": spread_tests(SPREAD, _by_label(SPREAD, results), pairs, drawn),
        "protocol_text": manifest["protocol_text"],
        "notes": list(dict.fromkeys(notes)),
        "versions": manifest.get("versions", {}),
    }
    if spent:
        found["privacy"] = spent
    return found


def _by_label(metric: str, results: Runs) -> dict[str, Float64Array]:
    return {label: by_seed(metric, runs) for label, runs in results.items()}
