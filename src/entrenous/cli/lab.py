"""`entrenous experiment`, `bench`, `leakcheck` and `demo`."""

from __future__ import annotations

from pathlib import Path

from ..api.progress import progress_bar
from ..core.discover import offers, pick
from ..core.errors import at_least
from ..core.settings import parse_assignments
from .ask import show_recommendations
from .console import announce_compilation, emit_json, say, table
from .options import Load
from .run import RUNS

LEAVES = """What left the devices: updates of item vectors, not the histories. Whoever sees them one by one can work the histories out,
at any pi; sums over a cohort hide who sent what, and guarantee nothing without noise. `entrenous explain pfpl+` says more."""


def experiment(
    name: str, /, *, quick: bool = False, threads: int = 0, out: Path = Path("experiments"), json: bool = False
) -> None:
    """Rerun a table or figure of a paper: ours beside the paper's numbers.

    Parameters
    ----------
    name:
        fpl-table2, fpl-table3, fpl-table4, fpl-table6, fpl-fig2, fpl-fig3, cali3f-table2, cali3f-table3, cali3f-fig3, cali3f-fig4,
        cali3f-fig5, fbalf-table3, fbalf-bias, fbalf-rho, pepper-table2, pepper-table3, pepper-table4, pepper-table5, pepper-table6,
        pepper-table7, pepper-table8, pepper-fig4, pepper-fig5, pepper-fig6, pepper-fig7, pepper-fig8, pepper-fig9, pepper-churn,
        pepper-loss, pepper-bad, pepper-heterogeneity, decentralisation-cost.
    quick:
        A smaller grid, in about two minutes; the rows say so.
    threads:
        Threads over devices, 0 = all cores.
    out:
        Where tables and figures go.
    json:
        Print one JSON object on stdout.
    """
    from ..papers.render import text
    from ..papers.runner import run_experiment

    at_least("--threads", threads, 0)
    with progress_bar() as progress:
        result = run_experiment(name, quick=quick, out=out, threads=threads, progress=progress)
    if json:
        emit_json(result.as_json())
    else:
        print(text(result))


def bench(name: str, /, *, threads: int = 0, json: bool = False) -> None:
    """Measure speed or memory against a named peer or limit, in this run on this machine.

    Parameters
    ----------
    name:
        fpl-epoch, fpl-round, sfpl-epoch, ncf-round, cali3f-ml-1m, rating-round, gossip, federation, federation-nodes, peers, peers-soak,
        cluster, secure-sum, fedmf-paillier, scale, evaluate, contract.
    threads:
        Threads, 0 = all cores.
    json:
        Print one JSON object on stdout.
    """
    measure = pick("bench", name, offers("benches", "BENCHES"))
    at_least("--threads", threads, 0)
    with progress_bar() as progress:
        found = {"bench": name, **measure(threads, progress)}
    if json:
        emit_json(found)
    else:
        table(
            ["figure", "value"],
            [[key, str(round(value, 4) if isinstance(value, float) else value)] for key, value in found.items()],
        )


def leakcheck(
    data: str,
    protocol: str = "loo-99",
    /,
    *,
    seed: int = 0,
    rounds: int = 30,
    given: Path | None = None,
    load: Load = None,
    leaky_negatives: bool = False,
    json: bool = False,
) -> int:
    """Check that an experiment does not tell the model the answer: purely local models must score like chance.

    Exit code 1 if they do not.

    Parameters
    ----------
    data:
        A data set, file or folder.
    protocol:
        As for `entrenous run`.
    seed:
        Of split, candidates and training.
    rounds:
        Rounds of local training; a leak grows with them.
    given:
        The folder of a given split, for the protocol `given`.
    leaky_negatives:
        Draw negatives as the field's leaky samplers do, to see the check fail.
    json:
        Print one JSON object on stdout.
    """
    from ..papers.leakcheck import leakcheck as check

    if leaky_negatives:
        say("warning: negatives avoid held-out items too; figures made in this way mean nothing")
    with progress_bar() as progress:
        found = check(
            data,
            protocol,
            seed=seed,
            rounds=rounds,
            given=None if given is None else str(given),
            load=parse_assignments(load or [], "--load"),
            leaky_negatives=leaky_negatives,
            progress=progress,
        )
    if json:
        emit_json(found)
    else:
        rows = [
            [c["metric"], c["obtained"], c["chance"], c["standard_errors"], "ok" if c["passed"] else "LEAK"]
            for c in found["checks"]
        ]
        title = f"purely local models on {data}, {protocol}, negatives: {found['negatives']}"
        table(["metric", "obtained", "chance", "standard errors from chance", "verdict"], rows, title=title)
    return 0 if found["passed"] else 1


def demo(*, user: str = "196", threads: int = 0, out: Path = RUNS) -> None:
    """The main job on real data: train FPL over the users of MovieLens-100K, evaluate it beside popularity, recommend, report.

    Parameters
    ----------
    user:
        Whose recommendations to show.
    threads:
        Threads over devices, 0 = all cores.
    out:
        Where the runs are stored.
    """
    from ..data.load import load
    from ..report.html import write_report
    from ..runs import pipeline, store

    data = load("ml-100k")
    data.users.index(user)  # an unknown one is refused before training
    say(f"{data}: 943 simulated devices train together; each keeps its history and sends updates.")
    popular = pipeline.run("popular", "ml-100k", out=out)  # first, so that `latest` is the federated model
    announce_compilation("pfpl+")
    with progress_bar() as progress:
        fpl = pipeline.run("pfpl+", "ml-100k", every=5, threads=threads, out=out, progress=progress)
    names = [name for name in ("hr@10", "ndcg@10", "mrr@10", "auc", "item_coverage@10", "gini@10") if name in fpl.metrics]
    rows = [[name, fpl.metrics[name], popular.metrics[name]] for name in names]
    table(["metric", "pFPL+ (federated)", "most popular (central)"], rows, title="MovieLens-100K, loo-99, seed 0")
    for sentence in fpl.manifest["protocol_text"]:
        print(f"- {sentence}")
    items = fpl.recommend(user)
    show_recommendations(user, items)
    print(LEAVES)
    stored = [store.read(str(run.path), out) for run in (fpl, popular)]
    print(f"report: {write_report(stored, stored[0].path / 'report.html', recommendations=items, user=user).resolve()}")
