"""Learning without a server, through the commands: --network, the usual protocol, recommending,
going on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import Command, Printed, write_shop

from entrenous.core.errors import Interrupted
from entrenous.federation.network import Network
from entrenous.runs import pipeline as experiment
from entrenous.runs import store
from entrenous.runs.plan import usual_protocol
from entrenous.systems.named import algorithms

USERS, VIEW = 30, 3
SMALL: list[object] = ["--set", "factors=4", "--set", f"view={VIEW}"]
SETTINGS = {"factors": "4", "view": str(VIEW)}
LOSSY = [
    word
    for setting in ("loss=0.3", "latency=uniform:0:2", "churn=0.2", "bad=0.2")
    for word in ("--network", setting)
]
GOSSIP = [
    name
    for name, make in algorithms().items()
    if hasattr(make, "on_message") and name.endswith("-gmf")
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """shop.csv: 30 users with 14 of 160 items each, so that 100 of them are always left to be
    candidates.
    """
    return write_shop(
        tmp_path_factory.mktemp("peers") / "shop.csv", users=USERS, items=160, rows=14
    ).parent


@pytest.fixture
def command(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Command:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "300")
    return Command(capsys)


def ran(command: Command, out: Path, *more: object) -> Printed:
    asked = ("run", "pepper-gmf", "--data", "shop.csv", "--rounds", 4, "--out", out)
    return command(*asked, *SMALL, *more)


# ---- the usual protocol --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "named", "protocol"),
    [
        ("ml-100k", ["pepper-gmf"], "pepper-given"),
        ("foursquare-nyc", ["gossip-age-gmf", "pepper-gmf"], "pepper-given"),
        ("gowalla-nyc-pepper", ["gossip-reptile-gmf"], "pepper-given"),
        ("ml-1m", ["pepper-gmf"], "pepper-85-15"),
        ("mine.csv", ["gossip-average-gmf"], "pepper-85-15"),
        ("ml-100k", ["pepper-gmf", "ials"], "loo-99"),
        ("ml-100k", ["fcf", "ials"], "loo-99"),
        ("ml-100k", ["fbalf", "pmf"], "kfold-5"),
    ],
)
def test_the_usual_protocol_is_that_of_the_algorithms_and_the_data(
    data: str, named: list[str], protocol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts that were published are taken where their files are."""
    monkeypatch.setenv("ENTRENOUS_DATA", str(tmp_path))
    assert usual_protocol(data, *named) == protocol.replace("given", "85-15")
    for name in ("ml-100k", "foursquare-nyc", "gowalla-nyc", "ml-1m"):
        (tmp_path / name).mkdir()
        for stem in ("pepper_splits", "pepper_negatives"):
            (tmp_path / name / f"{stem}.parquet").touch()
    assert usual_protocol(data, *named) == protocol


# ---- run -----------------------------------------------------------------------------------------


def test_a_run_says_what_was_between_the_nodes_and_what_became_of_messages(
    command: Command, tmp_path: Path
) -> None:
    clean, lossy = (ran(command, tmp_path, *network, "--json").json for network in ([], LOSSY))
    assert (clean["protocol"], clean["network"]) == ("pepper-85-15", {})
    assert clean["ledger"]["messages"] == 4 * USERS * VIEW
    at_once = "between the nodes: all nodes push at once, and every message arrives at once"
    assert at_once in clean["notes"]
    assert "nodes weigh the models they receive by the validation rows" in clean["notes"]
    assert "between the nodes: loss=0.3, latency=uniform:0:2, churn=0.2, bad=0.2" in lossy["notes"]
    assert min(lossy["ledger"]["lost"], lossy["ledger"]["refused"]) > 0
    assert lossy["bytes"]["down"] < lossy["bytes"]["up"] < clean["bytes"]["up"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["loss"], "--network: got 'loss'; expected name=value; for example --network loss=0.3"),
        (["los=1"], "--network los: unknown setting; did you mean 'loss'?"),
        (["loss=0", "--network", "loss=1"], "--network: loss is given twice"),
    ],
)
def test_words_that_are_no_network_are_one_line_and_nothing_is_written(
    words: list[str], said: str, command: Command, tmp_path: Path
) -> None:
    """Values that cannot be are refused as in tests/federation/test_network.py."""
    assert ran(command, tmp_path / "runs", "--network", *words).error.startswith(said)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("name", ["fcf", "popular"])
def test_where_there_are_no_peers_there_is_no_network(
    name: str, command: Command, tmp_path: Path
) -> None:
    said = command(
        "run", name, "--data", "shop.csv", "--network", "loss=0.1", "--out", tmp_path / "runs"
    ).error
    assert said.startswith(
        f"--network: {name} does not gossip; expected an algorithm whose peers do; leave it out, or"
        " choose "
    )
    assert not (tmp_path / "runs").exists()


# ---- stored runs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("leaky", [False, True])
@pytest.mark.parametrize("name", GOSSIP)
@pytest.mark.filterwarnings("ignore:LEAKY")
def test_a_stored_run_recommends_what_it_recommended(
    name: str, leaky: bool, command: Command, tmp_path: Path
) -> None:
    """Also where a node trains before it scores, and where it trained with negatives that leak."""
    settings = {**SETTINGS, **({"meta_epochs": "5"} if "reptile" in name else {})}
    made = experiment.run(
        name,
        "shop.csv",
        rounds=3,
        settings=settings,
        out=tmp_path,
        negatives="leaky" if leaky else "train",
        threads=1,
    )
    found = command("recommend", made.path, "--user", "u3", "--n", 8, "--scores", "--json").json[
        "recommendations"
    ]
    assert found == made.recommend("u3", 8) and len(found) == 8


def test_an_interrupted_run_goes_on_with_its_own_network(
    command: Command, folder: Path, tmp_path: Path
) -> None:
    network = {"clock": "random", "latency": "uniform:0:2"}
    options: dict[str, Any] = {"rounds": 8, "settings": SETTINGS, "network": network, "threads": 1}
    shop = str(folder / "shop.csv")
    expected = experiment.run("pepper-gmf", shop, **options).manifest

    def stop(done: int, total: int, what: str) -> None:
        if done == 5:
            raise KeyboardInterrupt

    runs = tmp_path / "runs"
    with pytest.raises(Interrupted):
        experiment.run("pepper-gmf", shop, out=runs, progress=stop, checkpoint_every=2, **options)
    (path,) = store.folders(runs)
    refused = command("run", "--resume", path, "--network", "loss=0.1").error
    assert "another network; expected its own" in refused
    finished = command("run", "--resume", path, "--json").json
    assert finished["network"] == network
    assert finished["model_sha256"] == expected["model_sha256"]


# ---- what there is -------------------------------------------------------------------------------


def test_explain_network_says_what_every_setting_is(command: Command) -> None:
    found = command("explain", "network", "--json").json["settings"]
    assert Network.read({one["name"]: one["default"] for one in found}) == Network()
    said = command("explain", "network").out
    helped = command("run", "--help").out
    for name in Network.model_fields:
        assert name in said and f"{name}=" in helped
    assert "explain network" in helped
