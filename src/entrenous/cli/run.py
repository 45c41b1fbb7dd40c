"""`entrenous run`: trains an algorithm, evaluates it, and stores the run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import InputError
from ..core.keywords import names_of
from ..runs.options import RunOptions, RunPlan
from .console import advice_if_it_diverges, emit_json, progress_bar, say, table, tell
from .options import RUNS, option_name, takes

if TYPE_CHECKING:
    from ..core.contract.protocols import Progress
    from ..runs.pipeline import RunResult

SHOWN = (
    "mae",
    "rmse",
    "hr@10",
    "ndcg@10",
    "precision@10",
    "recall@10",
    "mrr@10",
    "auc",
    "item_coverage@10",
    "gini@10",
)
CHANCE = (
    "a std over users tells how unevenly they are served only when compared with std_by_chance,"
    " luck at the same hit rate: it follows hr@10"
)
# Lines on the privacy of a run's folder.
OF_PEOPLE = "of single people the folder holds {}; --forget-devices leaves arrays out"
FORGOTTEN = "the devices were forgotten: of single people the folder holds {}"
COUNTS = "epsilon covers no such arrays, nor the counts of messages and bytes, which are exact"


@takes(RunPlan, RunOptions)
def run(
    algorithm: str | None = None,
    /,
    *,
    out: Path = RUNS,
    resume: str | None = None,
    todays_code: bool = False,
    json: bool = False,
    **options: Any,
) -> None:
    """Train an algorithm, evaluate it on held-out rows, and store the run.

    Metrics: {metrics}.

    Example: entrenous run pfpl+ --data ml-100k --protocol loo-99 --set pi=0.5

    Parameters
    ----------
    algorithm:
        A name of `entrenous algorithms`, or the place of your own class: ./my_algo.py,
        ./my_algo.py:MyAlgorithm or my_module:MyAlgorithm. Names: {algorithms}.
    out:
        The folder in which runs are stored.
    resume:
        Continue this interrupted run, by its name in `entrenous runs`. The options that determine
        its result come from its manifest. For a run of your own algorithm, name its place too:
        entrenous run ./my_algo.py --resume RUN.
    todays_code:
        With --resume: continue although the code or a library has changed since the run began.
    json:
        Print one JSON object on stdout.
    """
    with progress_bar(algorithm or "") as progress, advice_if_it_diverges():
        if resume is not None:
            # Options that were typed are compared with the manifest; the others come from it.
            asked = {name: options.pop(name) for name in names_of(RunPlan) if name in options}
            if algorithm is not None:
                asked["algorithm"] = algorithm
            # The options left over never change a result, so they may differ from the run's.
            how = RunOptions(out=out, **options)
            finished = _resumed(resume, asked, how, todays_code, progress)
        elif algorithm is None:
            raise InputError(
                "entrenous run",
                "no algorithm was named",
                expected="a name of `entrenous algorithms`",
                fix="try: entrenous run pfpl+",
            )
        else:
            from ..runs.pipeline import RunRequest, carry_out

            request = RunRequest(algorithm, out=out, progress=progress, say=say, **options)
            finished = carry_out(request)
    if json:
        emit_json(finished.manifest)
        return
    # Commands find a run of the usual folder by its name, others by their path.
    usual = finished.path is None or finished.path.parent == RUNS
    show_run(finished.manifest, finished.manifest["run"] if usual else str(finished.path))


def _resumed(
    run_name: str, asked: dict[str, Any], how: RunOptions, todays_code: bool, progress: Progress
) -> RunResult:
    """Continues a run as it was begun. Raises InputError for an option that differs from the
    run's.
    """
    from ..core.registry.discover import is_place
    from ..runs import reopen, store

    root = Path(how.out or RUNS)
    # The manifest names the user's own class alone; its place may have changed since.
    place = None
    if is_place(asked.get("algorithm", "")):
        place = asked.pop("algorithm")
    # The data may lie elsewhere today; the run knows it by its rows.
    data = asked.pop("data", None)
    begun = store.unfinished(run_name, root, data)
    _refuse_change(asked, reopen.plan_of(begun, place), begun.manifest["run"])
    return reopen.resume(
        run_name,
        root=root,
        data=data,
        algorithm=place,
        todays_code=todays_code,
        options=how,
        progress=progress,
        say=say,
    )


def _refuse_change(asked: Mapping[str, Any], begun: RunPlan, run_name: str) -> None:
    """Raises InputError for an option that differs from what the run began with."""
    for name, value in asked.items():
        own = getattr(begun, name)
        # The manifest has absolute paths.
        if value == own or str(Path(str(value)).resolve()) == own:
            continue
        word = option_name(name).removeprefix("--")
        raise InputError(
            "--resume",
            f"the run {run_name} cannot be continued with another {word}",
            expected="its own" if isinstance(own, dict) else f"{word} = {own}",
            fix="leave it out, or start a new run without --resume",
        )


def show_run(manifest: dict[str, Any], name: str) -> None:
    """Prints one run as a table, with its protocol. name: the one by which other commands find the
    run.
    """
    from ..core.registry.discover import short
    from ..evaluation.metric_kinds import arrowed
    from ..runs.store import protocol_of

    metrics = manifest["metrics"]
    full = manifest.get("full_ranking")
    headers = ["metric", protocol_of(manifest)]
    if full:
        headers.append("full ranking")
    rows = []
    for metric in SHOWN:
        # A protocol has metrics of lists or of ratings, rarely both.
        if metric not in metrics:
            continue
        # Metrics of ratings, such as mae, have no value over a full ranking.
        of_full = [full.get(metric, "")] if full else []
        rows.append([arrowed(metric), metrics[metric], *of_full])
    data = Path(manifest["data"]).name
    about = f"{short(manifest['algorithm'])} on {data}, seed {manifest['seed']}"
    table(headers, rows, title=f"{about}, {manifest['rounds']} rounds")
    sentences = [
        *fair_sentences(manifest["fairness"]),
        *manifest["protocol_text"],
        *manifest["notes"],
    ]
    sentences += _of_people(manifest)
    # A note may be in the text of the protocol too.
    for sentence in dict.fromkeys(sentences):
        tell(f"- {sentence}")
    sent = manifest["bytes"]
    seconds = manifest["seconds"]
    tell(
        f"train {seconds['train']} s, evaluate {seconds['evaluate']} s; {sent['up']:,} bytes up,"
        f" {sent['down']:,} down"
    )
    if manifest["ledger"]["messages"]:
        tell(_messages(manifest["ledger"]))
    tell(f"model {manifest['model_sha256']}")
    tell(f"stored as {name}: entrenous recommend {name} --user ID, entrenous report {name}")


def _of_people(manifest: dict[str, Any]) -> list[str]:
    """Returns a line on what a run's folder holds of single people."""
    line = FORGOTTEN if manifest.get("forget_devices") else OF_PEOPLE
    said = line.format(", ".join(manifest["of_people"]) or "nothing")
    return [f"{said}; {COUNTS}" if manifest.get("privacy") else said]


def _messages(ledger: dict[str, int]) -> str:
    """Returns a line on the messages between peers: sent, lost and refused."""
    return (
        f"{ledger['messages']:,} messages between peers: {ledger['lost']:,} reached nobody,"
        f" {ledger['refused']:,} were refused by their receivers"
    )


def fair_sentences(fairness: dict[str, float]) -> list[str]:
    """Returns the fairness metrics of a manifest as sentences."""
    # Users with few held-out rows differ by luck alone: the spread means nothing without this.
    chance = f"{fairness['std_by_chance']:.4f} by chance at this hr@10, if nobody were favoured"
    spread = (
        f"std of ndcg@10 over users {fairness['std_ndcg@10']:.4f} (less is fairer); {chance}; of"
        f" hr@10 {fairness['std_hr@10']:.4f}"
    )
    of_worst = ", ".join(
        f"{name.removeprefix('worst_decile_')} {value:.4f}"
        for name, value in fairness.items()
        if name.startswith("worst_decile_")
    )
    return [f"fairness: {spread}", f"fairness: the worst tenth of users by each metric: {of_worst}"]
