"""The options of a run. Each is said here once: the fields are the options of `entrenous run` and
the keywords of `entrenous.run`, and the text under a field is its help.

The classes load nothing, so that `entrenous --help` is quick.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias, final

from ..core.values import SettingValue

Profile: TypeAlias = Literal["paper", "private", "dp", "robust"]
Negatives: TypeAlias = Literal["train", "leaky"]


@dataclass(frozen=True, kw_only=True)
class BasicOptions:
    """The options of everything that trains: runs, comparisons and the choice of settings."""

    protocol: str | None = None
    """How rows are held out: {protocols}. Numbers may differ, as in loo-50. X-given and ncf-99 need
    a data set that comes with the parts which X published; given reads a split from files.
    It leaves out held-out rows that are training rows too; given,repeats=keep lets the items that
    a user has be recommended. stream tests each row and then learns
    it, once a day, or as in stream-week or stream-100 (rows). Default: loo-99; kfold-5
    for an algorithm that predicts ratings; for one that gossips pepper-given where the data set has
    those parts, else pepper-85-15."""
    rounds: int | None = None
    """Rounds of training; default: the algorithm's own. Of a stream: after each window; default: 1.
    Between peers a round is the time from one
    push of a node to its next."""
    load: Mapping[str, SettingValue] = field(default_factory=dict)
    """How to read a file, such as item=venue. `entrenous data check --help` lists the names."""


@dataclass(frozen=True, kw_only=True)
class CommonOptions(BasicOptions):
    """The options that a run and a comparison of runs share, without algorithms and data."""

    given: str | None = None
    """The folder of a given split, for --protocol given; default: the data. Or a file of events,
    for --protocol stream; default: the rows of the data in the order of time."""
    refit: bool | None = None
    """Train the final model on training and validation rows, once the latter have chosen
    (--patience, `entrenous tune`), as NCF and its successors do; --no-refit: on the training rows
    alone. Default: on both, except between peers, which weigh models by validation rows, and in a
    given split that does not say so."""
    network: Mapping[str, SettingValue] = field(default_factory=dict)
    """The network between peers that gossip, such as loss=0.3 or latency=uniform:0:5; default:
    rounds in lock step. Names: {network}. `entrenous explain network` explains each."""
    profile: Profile = "paper"
    """The limits on the data that leaves devices: paper = what is published and no more; private =
    sums alone, with noise, of at least 300 people, and the settings that were tested with it
    (`entrenous explain ALGORITHM`); dp = differential privacy for each user; robust.
    docs/privacy.md says what each does not protect, and what it costs."""
    protect: Mapping[str, SettingValue] = field(default_factory=dict)
    """Settings of the protection that differ from the profile's, such as noise=0.2. Names:
    {protect}."""


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(CommonOptions):
    """The options of a run that determine its result, without the algorithm and the data."""

    seed: int = 0
    """Names all randomness: the split, the candidates and the training. Same seed, same model
    bytes."""
    settings: Mapping[str, SettingValue] = field(default_factory=dict)
    """Hyper-parameters by name. `entrenous explain ALGORITHM` lists them. pi=@file.csv reads a
    choice per user or per (user, item)."""
    patience: int = 0
    """Stop after this many looks without improvement and use the best round. Needs --every."""
    every: int = 0
    """Rounds between looks at validation (a learning curve in the report). Where the final model
    trains on validation rows too, the looks are of a first training without them."""
    negatives: Negatives = "train"
    """The items that devices draw as negatives: train = any without a training row of the user;
    leaky = not the held-out ones either, the leak behind many published tables, to see what it
    does. Such a run warns, and says so wherever its figures are shown."""


@dataclass(frozen=True, kw_only=True)
class CompareOptions(CommonOptions):
    """The options of a comparison, without algorithms and data."""

    seeds: int | Sequence[int] = 5
    """Seeds 0 .. N - 1; given several times, or as a list, the seeds themselves. Each names split,
    candidates and training."""
    settings: Mapping[str, Mapping[str, SettingValue]] = field(default_factory=dict)
    """Hyper-parameters of one algorithm, by its label; on the command line LABEL:name=value, which
    may be repeated."""
    reference: str | None = None
    """The label that the others are tested against; default: the first."""
    threads: int = 0
    """Threads over devices, 0 = all cores. Never changes a result."""
    out: str | Path | None = None
    """The folder in which every run is stored; default: none is stored."""


@final
@dataclass(frozen=True, kw_only=True)
class RunPlan(TrainingOptions):
    """The options that determine a result. Two runs of one plan end with the same model bytes and
    the same metrics.
    """

    algorithm: str
    """A name of `entrenous algorithms`, or the place of the user's own class: ./my_algo.py,
    ./my_algo.py:MyAlgorithm or my_module:MyAlgorithm. Names: {algorithms}."""
    data: str = "ml-100k"
    """A file or folder, or a data set of `entrenous data list`: {datasets}."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of a run that never change its result: its machines, and the files it keeps."""

    threads: int = 0
    """Threads over devices, 0 = all cores; with --workers of each of them, 0 = the cores shared
    out. Never changes a result."""
    workers: int | None = None
    """Processes that share the users, for an algorithm with a server; they end with the run. Needs
    the extra `ray`. Never changes a result. With --ray the default is a worker for each CPU of the
    cluster."""
    ray: str | None = None
    """A running Ray cluster, HOST:PORT or auto, of which this machine is a part. Trusted machines
    on a private network only: `export RAY_AUTH_MODE=token` and the token of `ray get-auth-token
    --generate` on each keep others out, and RAY_USE_TLS=1 encrypts."""
    checkpoint_every: int | None = None
    """Rounds between checkpoints, 0 = none; default: a tenth of the training."""
    out: str | Path | None = None
    """The folder in which runs are stored."""
    forget_devices: bool = False
    """Leave out of the stored run what is of single people: the arrays of each device, every other
    array with a row for each user, the accuracy of each user, and training rows that were in
    memory. Such a run can be reported and repeated, and nobody can recommend from it. Checkpoints
    have these arrays until training ends."""
    debug: bool = False
    """One device at a time; an error then names the round, the stage and the device."""


@final
@dataclass(frozen=True, kw_only=True)
class OpenOptions:
    """The options by which a stored run is opened."""

    data: str | None = None
    """The file or folder that has the rows of the run today, if it was moved without the run, or
    has changed since."""
    algorithm: str | None = None
    """For a run of the user's own algorithm: the place of its class, ./my_algo.py or
    my_module:MyAlgorithm."""
    todays_code: bool = False
    """Continue although the algorithm's code or a default has changed since the run was made."""


@dataclass(frozen=True, kw_only=True)
class TuneOptions(BasicOptions):
    """The options of a choice of settings on validation rows, without algorithm and data."""

    grid: Mapping[str, Sequence[SettingValue]] = field(default_factory=dict)
    """The values to try of each setting: every combination is tried. On the command line
    name=value,value,...; may be repeated."""
    settings: Mapping[str, SettingValue] = field(default_factory=dict)
    """Settings that are the same for all."""
    metric: str = ""
    """The metric that chooses, such as ndcg@100 or mae; default: ndcg@10, of ratings rmse."""
    seeds: int = 1
    """Seeds 0 .. N - 1, averaged."""
    every: int = 0
    """Rounds between looks at validation, so that the number of rounds is chosen too; 0 = at the
    end of training alone."""
    threads: int = 0
    """Threads over devices, 0 = all cores; with --workers of each of them, 0 = the cores shared
    out."""
    workers: int | None = None
    """Settings tried at once, each in a process of its own. Never changes a result."""


@dataclass(frozen=True, kw_only=True)
class LeakcheckTraining:
    """The options of a leak check, without algorithm and data."""

    protocol: str = "loo-99"
    """How rows are held out: {protocols}."""
    settings: Mapping[str, SettingValue] = field(default_factory=dict)
    """Settings of the algorithm."""
    seed: int = 0
    """Names the split, the candidates and the training."""
    rounds: int = 30
    """Rounds of local training; a leak grows with them."""
    given: str | None = None
    """The folder of a given split, for --protocol given."""
    load: Mapping[str, SettingValue] = field(default_factory=dict)
    """How to read a file, such as item=venue. `entrenous data check --help` lists the names."""
    negatives: Negatives = "train"
    """The items that devices draw as negatives: train = any without a training row of the user;
    leaky = not the held-out ones either, as the field's leaky samplers do, to see the check
    fail."""


@dataclass(frozen=True, kw_only=True)
class LeakcheckOptions(LeakcheckTraining):
    """The options of a leak check, without the algorithm."""

    data: str = "ml-100k"
    """A data set, file or folder."""
