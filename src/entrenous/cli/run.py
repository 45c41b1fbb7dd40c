"""`entrenous run` and `compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ..core.errors import InputError, at_least
from .console import advice_if_it_diverges, emit_json, goes_on, progress_bar, say, table, tell
from .options import RUNS, Load, Negatives, Profile, Protect, Refit, Set, assignments

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
    "a std over users says how unevenly they are served only beside std_by_chance, luck at the same"
    " hit rate: it follows hr@10"
)

FOLDER = (
    "epsilon does not cover the folder of the run: its model.safetensors holds every device's own"
    " arrays (devices.*), and its counts of messages and bytes are exact; give away neither"
)


def run(
    algorithm: str | None = None,
    /,
    *,
    data: str = "ml-100k",
    protocol: str | None = None,
    rounds: int | None = None,
    seed: int = 0,
    threads: int = 0,
    workers: int | None = None,
    ray: str | None = None,
    settings: Set = None,
    every: int = 0,
    patience: int = 0,
    tune: int = 0,
    checkpoint_every: int | None = None,
    given: Path | None = None,
    load: Load = None,
    negatives: Negatives = "train",
    refit: Refit = None,
    network: Annotated[list[str] | None, Parameter(negative="")] = None,
    profile: Profile = "paper",
    protect: Protect = None,
    out: Path = RUNS,
    resume: str | None = None,
    todays_code: bool = False,
    debug: bool = False,
    json: bool = False,
) -> None:
    """Train an algorithm, evaluate it on held-out rows, and store the run.

    Metrics: {metrics}.

    Example: entrenous run pfpl+ --data ml-100k --protocol loo-99 --set pi=0.5

    Parameters
    ----------
    algorithm:
        A name of `entrenous algorithms`, or a class of one's own: ./my_algo.py,
        ./my_algo.py:MyAlgorithm or my_module:MyAlgorithm. Names: {algorithms}.
    data:
        A file or folder, or a data set of `entrenous data list`: {datasets}.
    protocol:
        How rows are held out: {protocols}. Numbers may differ, as in loo-50; X-given and ncf-99
        need a data set beside which X published its own parts; given reads a split from files.
        Default: loo-99; kfold-5 for an algorithm that predicts ratings; for one that gossips
        pepper-given where the parts are beside the data, else pepper-85-15.
    rounds:
        Rounds of training; default: the algorithm's own. Between peers a round is the time from one
        push of a node to its next.
    seed:
        Names all randomness: the split, the candidates and the training. Same seed, same model
        bytes.
    threads:
        Threads over devices, 0 = all cores; with --workers of each of them, 0 = the cores shared
        out. Never changes a result.
    workers:
        Processes among which the users are shared out, for an algorithm with a server; they end
        with the run. Needs the extra `cluster` (Ray). Never changes a result. With --ray the
        default is a worker for each CPU of the cluster.
    ray:
        A Ray cluster that is running, HOST:PORT or auto; this machine must be one of it. Trusted
        machines on a private network only: `export RAY_AUTH_MODE=token` and the token of `ray
        get-auth-token --generate` on each keep others out, and RAY_USE_TLS=1 encrypts.
    settings:
        A hyper-parameter, name=value; may be repeated. `entrenous explain ALGORITHM` lists them.
        pi=@file.csv reads a choice per user or per (user, item).
    every:
        Rounds between looks at validation (a learning curve in the report), of a first training
        where the final model trains on these rows.
    patience:
        Stop after this many looks without improvement and use the best round. Needs --every.
    tune:
        Choose settings on validation rows first, in so many trainings: the defaults, then a search
        of what the algorithm declares (the extra `tune`). What --set names stays; --rounds is the
        most. Finished trials stay in a file under --out: the same command goes on.
    checkpoint_every:
        Rounds between checkpoints; default: a tenth of the training.
    given:
        The folder of a given split, for --protocol given: it is then the data, as if --data named
        it.
    negatives:
        What devices draw as negatives: train = what is not among their training rows; leaky = nor
        among held-out rows, the leak behind many published tables, to see what it does. Such a run
        warns, and says so wherever its figures are shown.
    refit:
        Whether the final model trains on training and validation rows, once the latter have chosen
        (--patience, `entrenous tune`), as NCF and those after it do; --no-refit: on the training
        rows alone. Default: on both, but between peers, which weigh models by validation rows, and
        in a given split that does not say so.
    network:
        What is between peers that gossip, name=value; may be repeated, such as loss=0.3 or
        latency=uniform:0:5. Names: {network}; `entrenous explain network` says what each is.
    profile:
        What limits the data that leaves devices: paper = what is published and no more; private =
        sums alone, with noise, of at least 100 people; dp = differential privacy for each user;
        robust. docs/privacy.md says what each does not protect, and what it costs.
    protect:
        A setting of the protection where it differs from the profile's, name=value; may be
        repeated, such as noise=0.2. Names: {protect}.
    out:
        Where runs are stored.
    resume:
        Continue this interrupted run, named as `entrenous runs` lists it; what determines its
        result comes from its manifest. One of an algorithm of one's own needs its place beside:
        entrenous run ./my_algo.py --resume RUN.
    todays_code:
        With --resume: go on though the code or a library is no longer what the run began with.
    debug:
        One device at a time; an error then names the round, the stage and the device.
    json:
        Print one JSON object on stdout.
    """
    from ..core.registry.own import is_place
    from ..runs import pipeline, reopen, store

    told, said = dict[str, Any](), list[str]()
    at_least("--tune", tune, 0)
    with progress_bar(algorithm or "") as progress, advice_if_it_diverges():
        if resume is not None:
            if tune:
                raise InputError(
                    "--tune", "a run that goes on has its settings", fix="leave --tune out"
                )
            place = algorithm if algorithm is not None and is_place(algorithm) else None
            asked = {
                "algorithm": None if place else algorithm,
                "data": data,
                "protocol": protocol,
                "rounds": rounds,
                "seed": seed,
                "every": every,
                "patience": patience,
                "set": settings,
                "given": given,
                "load": load,
                "negatives": negatives,
                "refit": refit,
                "network": network,
                "profile": profile,
                "protect": protect,
            }
            _refuse_change(asked, store.unfinished(resume, out).manifest)
            finished = reopen.resume(
                resume,
                root=out,
                threads=threads,
                workers=workers,
                ray=ray,
                algorithm=place,
                checkpoint_every=checkpoint_every,
                todays_code=todays_code,
                progress=progress,
                say=say,
            )
        elif algorithm is None:
            raise InputError(
                "entrenous run",
                "no algorithm was named",
                expected="a name of `entrenous algorithms`",
                fix="try: entrenous run pfpl+",
            )
        else:
            fixed = assignments(settings)
            if tune:
                from ..runs.tuning.before import chosen_before, refuse_beside, sentences

                refuse_beside(
                    given=given,
                    patience=patience,
                    network=network,
                    profile=profile != "paper",
                    protect=protect,
                    negatives=negatives != "train",
                    workers=workers,
                    ray=ray,
                )
                with goes_on("go on with the same command: what is finished is kept"):
                    fixed, rounds, told = chosen_before(
                        algorithm,
                        data,
                        protocol=protocol,
                        trials=tune,
                        seed=seed,
                        settings=fixed,
                        rounds=rounds,
                        load=assignments(load, "--load"),
                        threads=threads,
                        folder=out,
                        progress=progress,
                    )
                said = sentences(told)
            finished = pipeline.run(
                algorithm,
                data,
                protocol=protocol,
                seed=seed,
                rounds=rounds,
                settings=fixed,
                patience=patience,
                every=every,
                given=None if given is None else str(given),
                load=assignments(load, "--load"),
                negatives=negatives,
                refit=refit,
                network=assignments(network, "--network"),
                profile=profile,
                protect=assignments(protect, "--protect"),
                threads=threads,
                workers=workers,
                ray=ray,
                checkpoint_every=checkpoint_every,
                out=out,
                debug=debug,
                progress=progress,
                say=say,
            )
    if json:
        emit_json({**finished.manifest, **({"tuned": told} if told else {})})
    else:
        for sentence in said:
            tell(f"- {sentence}")
        usual = finished.path is None or finished.path.parent == RUNS
        show_run(finished.manifest, finished.manifest["run"] if usual else str(finished.path))


def _refuse_change(asked: dict[str, Any], manifest: dict[str, Any]) -> None:
    """A run is continued as it was begun: an option beside --resume may repeat what the run has,
    but not change it.
    """
    usual = {
        "data": "ml-100k",
        "protocol": None,
        "seed": 0,
        "every": 0,
        "patience": 0,
        "negatives": "train",
        "profile": "paper",
    }
    never = dict.fromkeys(("set", "load", "given", "network", "protect"))
    own = {
        "negatives": "train",
        "refit": None,
        "profile": "paper",
        **manifest,
        "rounds": manifest.get("rounds_asked"),
        **never,
    }
    for name, value in asked.items():
        same = own[name] in (value, str(Path(value).resolve()) if name == "data" else value)
        if value != usual.get(name) and not same:
            problem = f"the run {manifest['run']} cannot be continued with another {name}"
            expected = (
                f"{name} = {own[name]}"
                if name in usual or name in ("algorithm", "rounds")
                else "its own"
            )
            raise InputError(
                "--resume",
                problem,
                expected=expected,
                fix="leave it out, or start a new run without --resume",
            )


def show_run(manifest: dict[str, Any], name: str) -> None:
    """One run as a table, with its protocol. name: what other commands find it by."""
    from ..core.registry.own import short
    from ..evaluate.metric_kinds import arrowed
    from ..runs.store import protocol_of

    full = manifest.get("full_ranking")
    headers = ["metric", protocol_of(manifest), *(["full ranking"] if full else [])]
    rows = [
        [
            arrowed(name),
            manifest["metrics"][name],
            *([full[name]] if full and name in full else [""] if full else []),
        ]
        for name in SHOWN
        if name in manifest["metrics"]
    ]
    table(
        headers,
        rows,
        title=(
            f"{short(manifest['algorithm'])} on {manifest['data']}, seed {manifest['seed']},"
            f" {manifest['rounds']} rounds"
        ),
    )
    folder = [FOLDER] if manifest.get("privacy") else []
    for sentence in dict.fromkeys(
        [
            *fair_sentences(manifest["fairness"]),
            *manifest["protocol_text"],
            *manifest["notes"],
            *folder,
        ]
    ):
        tell(f"- {sentence}")
    sent, seconds = manifest["bytes"], manifest["seconds"]
    tell(
        f"train {seconds['train']} s, evaluate {seconds['evaluate']} s; {sent['up']:,} bytes up,"
        f" {sent['down']:,} down"
    )
    if manifest["ledger"]["messages"]:
        tell(_messages(manifest["ledger"]))
    tell(f"model {manifest['model_sha256']}")
    tell(f"stored as {name}: entrenous recommend {name} --user ID, entrenous report {name}")


def _messages(ledger: dict[str, int]) -> str:
    """What became of the messages between peers."""
    sent, lost, refused = (ledger[name] for name in ("messages", "lost", "refused"))
    return (
        f"{sent:,} messages between peers: {lost:,} reached nobody, {refused:,} were refused by who"
        " received them"
    )


def fair_sentences(of: dict[str, float]) -> list[str]:
    """The fairness metrics of a manifest as sentences."""
    chance = f"{of['std_by_chance']:.4f} by chance at this hr@10, if nobody were favoured"
    spread = (
        f"std of ndcg@10 over users {of['std_ndcg@10']:.4f} (less is fairer); {chance}; of hr@10"
        f" {of['std_hr@10']:.4f}"
    )
    worst = ", ".join(
        f"{name.removeprefix('worst_decile_')} {of[name]:.4f}"
        for name in of
        if name.startswith("worst_decile_")
    )
    return [f"fairness: {spread}", f"fairness: the worst tenth of users by each metric: {worst}"]
