"""`entrenous demo`: the main job on MovieLens-100K, from training to a report, in one command."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .ask import Shown, show_list
from .console import announce_compilation, progress_bar, say, table, tell
from .options import RUNS

# As much noise as the devices' shares have together; drawing one share is much faster.
BY_SERVER = {"noise_by": "server"}
# Of the audits of the demo: rounds, and devices whose messages are read one by one.
SEEN_ROUNDS = 10
WATCHED = 100
METRICS = ("hr@10", "ndcg@10", "mrr@10", "auc", "item_coverage@10", "gini@10")
LEAVES = """As published, the server reads each message by itself and can work the histories out, at
any pi. Private, it gets sums of everybody's messages, at most {clip} long each, with noise of
{multiple} times that on every number. {holds} One person's share: entrenous receipt latest
--user 196"""


def demo(*, user: str = "196", threads: int = 0, out: Path = RUNS) -> None:
    """Show the main job on real data: train FPL on MovieLens-100K, as published and private,
    evaluate and attack both, recommend, and write a report.

    Parameters
    ----------
    user:
        The user whose recommendations are shown.
    threads:
        Number of threads that train devices, 0 = all cores.
    out:
        The folder in which the runs are stored.
    """
    from ..core.registry.neighbours import neighbour
    from ..core.registry.plugins import plugged_in
    from ..data.load import load
    from ..privacy.protection import PRIVATE
    from ..privacy.told import HOLDS_AGAINST, said
    from ..report.html import write_report
    from ..runs import pipeline, store

    data = load("ml-100k")
    data.users.index(user)  # an unknown one is refused before training
    say(f"{data}: 943 simulated devices train together; each keeps its history and sends updates.")
    # The popular model comes first, so that `latest` is the federated one.
    popular = pipeline.run("popular", "ml-100k", out=out)
    announce_compilation("pfpl+")
    with progress_bar() as progress:
        private = pipeline.run(
            "pfpl+",
            "ml-100k",
            profile=PRIVATE,
            protect=BY_SERVER,
            threads=threads,
            out=out,
            progress=progress,
            say=say,
        )
        fpl = pipeline.run("pfpl+", "ml-100k", every=5, threads=threads, out=out, progress=progress)
        # As published, the server sees each device's message; under the masks only sums.
        plans: dict[str, Mapping[str, Any]] = {
            "paper": {"view": "individual", "watched": WATCHED},
            PRIVATE: {"view": "sum", "profile": PRIVATE, "protect": BY_SERVER},
        }
        every = {"algorithm": "pfpl+", "rounds": SEEN_ROUNDS, "quick": True}
        audited = plugged_in("engines", "audit")
        audits = {}
        known = []
        for run in (fpl, private):
            if audited is None:
                break
            profile = run.manifest["profile"]
            audit = audited(run.split.all_rows, **every, **plans[profile])
            audits[str(run.manifest["run"])] = audit
            known.append([profile, run.metrics["hr@10"], said(audit)])
    lines = [
        [name, fpl.metrics[name], private.metrics[name], popular.metrics[name]] for name in METRICS
    ]
    heads = ["metric", "pFPL+ as published", "pFPL+ private", "most popular (central)"]
    table(heads, lines, title="MovieLens-100K, loo-99, seed 0")
    heads = ["pFPL+", "hr@10", f"what a curious server knows after {SEEN_ROUNDS} rounds"]
    if known:
        table(heads, known, title="Measured by attacks, now")
    else:
        tell(f"What a curious server knows was not measured; {neighbour('audit').line}")
    for sentence in fpl.manifest["protocol_text"]:
        tell(f"- {sentence}")
    items = fpl.recommend(user)
    show_list(f"For user {user}", items, Shown())
    protect = private.manifest["protect"]
    tell(LEAVES.format(clip=protect["clip"], multiple=protect["multiple"], holds=HOLDS_AGAINST))
    stored = [store.read(str(run.path), out) for run in (fpl, private, popular)]
    page = write_report(
        stored,
        stored[0].path / "report.html",
        audits=audits,
        recommendations=items,
        user=user,
    )
    tell(f"report: {page.resolve()}")
