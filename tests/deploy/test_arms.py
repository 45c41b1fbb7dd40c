"""Arms: federations that compare models on disjoint people. How they are founded, who is in which, one
link to all, and what their tests of new rows tell together.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import Command
from federation_links import FaultyLink, quick_pauses, ratings, until
from running_by_lot import PLAN, ROOM, Running, first_of_free_ports

from entrenous.core.errors import InputError
from entrenous.deploy.agreement.catalogue import Items
from entrenous.deploy.agreement.files import read_json
from entrenous.deploy.agreement.growth import NEXT, read_items
from entrenous.deploy.agreement.join_link import JoinLink, arm_of
from entrenous.deploy.agreement.terms import FederationTerms
from entrenous.deploy.frames.row_tests import SummedTests
from entrenous.deploy.links import knocking
from entrenous.deploy.node.node import FederatedNode
from entrenous.deploy.operate.arms import (
    ARMS,
    arms_of,
    compared,
    found_arms,
    make_links,
    parse_arms,
)
from entrenous.deploy.operate.device import Device
from entrenous.deploy.operate.enrolment import EnrolmentRequest, identity, join
from entrenous.deploy.operate.founding import Place, found_federation
from entrenous.deploy.operate.joining import join_by_link
from entrenous.deploy.operate.newcomers import links_of
from entrenous.deploy.operate.plans import FoundingPlan, JoinPlan
from entrenous.deploy.server.accuracy import Arm, difference_of, note_tests
from entrenous.deploy.server.server import serve

DATA = ratings(ROOM, items=50)
ITEMS = Items.of(DATA)
QUIET = 0.01  # noise that hides nothing
CHANGED = ("b:learning_rate=0.003",)
LOTS = replace(PLAN, accuracy=QUIET, arms=CHANGED)
OWNER = JoinPlan(people=3, parties=3)
# Everybody is in each round, and all draws can be repeated.
AT_ONCE = FoundingPlan(
    algorithm="fcf",
    rounds=3,
    settings={"factors": "4"},
    profile="paper",
    protect={"noise": 0.2, "rows": "all", "secure_sum": True, "people": 4, "parties": 3},
    accuracy=QUIET,
    arms=CHANGED,
    draws="public",
    seed=1,
)
CROWD = ratings(24)


def of_keys(folder: Path, wanted: str) -> list[tuple[EnrolmentRequest, int]]:
    """Requests whose keys draw these arms of two, such as "aab"."""
    found = []
    for number, name in enumerate(wanted):
        while True:
            request = identity(folder / f"person-{number}", f"person-{number}")
            if "ab"[arm_of(bytes.fromhex(request.key), 2)] == name:
                break
            shutil.rmtree(folder / f"person-{number}")
        found.append((request, 1))
    return found


# ---- founding ------------------------------------------------------------------------------------


def test_the_arms_differ_in_the_changed_settings_and_in_their_people(tmp_path: Path) -> None:
    requests = of_keys(tmp_path, "ababbaabba")
    made = found_arms(tmp_path / "f", Items.of(CROWD), requests, AT_ONCE, Place(port=9000))
    a, b = made["a"], made["b"]
    assert (a.server, b.server) == (tmp_path / "f" / "server", tmp_path / "f-b" / "server")
    one, two = (each.terms.model_dump() for each in (a, b))
    differ = {name for name in one if one[name] != two[name]}
    assert differ == {"settings", "nonce", "operator", "pins"}
    assert two["settings"] == {**one["settings"], "learning_rate": two["settings"]["learning_rate"]}
    # Whom a key sends where, no operator says; nobody is in both.
    assert [name in a.nodes for name in map("person-{}".format, range(10))] == [
        letter == "a" for letter in "ababbaabba"
    ]
    assert not a.nodes.keys() & b.nodes.keys() and len(a.nodes) + len(b.nodes) == 10
    ports = [read_json(each.server / "place.json")["port"] for each in (a, b)]
    assert ports == [9000, 9001]
    assert arms_of(tmp_path / "f") == {"a": tmp_path / "f", "b": tmp_path / "f-b"}
    assert read_json(tmp_path / "f" / ARMS)["arms"] == {"b": "f-b"}


def test_the_first_arm_has_the_bytes_of_a_federation_of_its_people_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick_pauses(monkeypatch)
    requests = of_keys(tmp_path / "d", "aaabbbabababba")
    shutil.copytree(tmp_path / "d", tmp_path / "copies")
    items = Items.of(CROWD)
    made = found_arms(tmp_path / "f", items, requests, AT_ONCE, Place())
    theirs = [asked for asked in requests if asked[0].name in made["a"].nodes]
    alone = found_federation(tmp_path / "alone", items, theirs, replace(AT_ONCE, arms=()))
    with_arms = trained(made["a"], tmp_path / "d")
    assert with_arms == trained(alone, tmp_path / "copies")
    assert with_arms != trained(made["b"], tmp_path / "d")


def trained(made: Any, devices: Path) -> str | None:
    """The model after all rounds of a federation whose nodes have not joined yet."""
    owner = JoinPlan(people=4, parties=3, occupancy=0.0, public_draws=True)
    nodes = {}
    for name, invitation in made.nodes.items():
        rows = CROWD.of_users([int(name.rpartition("-")[2])])
        join(devices / name, invitation, rows, owner)
        nodes[name] = FederatedNode(devices / name)
    ended = serve(FaultyLink({name: node.answer for name, node in nodes.items()}), made.server)
    for node in nodes.values():
        node.close()
    return ended


def test_an_arm_with_too_few_people_is_said_before_anything_is_written(tmp_path: Path) -> None:
    requests = of_keys(tmp_path, "aaaaaaaa")
    with pytest.raises(InputError) as refused:
        found_arms(tmp_path / "f", Items.of(CROWD), requests, AT_ONCE, Place())
    assert str(refused.value).startswith("arm b with 0 of 8 nodes: --node: nobody has asked")
    assert not (tmp_path / "f").exists() and not (tmp_path / "f-b").exists()


def test_arms_that_a_profile_would_make_unlike_are_refused(tmp_path: Path) -> None:
    """A profile brings more noise to fewer than a thousand people, and the lot deals nodes."""
    requests = of_keys(tmp_path, "aaabbb")
    sizes = [300, 300, 300, 400, 400, 400]
    crowds = [(asked[0], count) for asked, count in zip(requests, sizes, strict=True)]
    plan = FoundingPlan(algorithm="fpl", accuracy=3.0, arms=("b:pi=0.5",))
    with pytest.raises(InputError, match=r"would be .* in arm a; say .* for all arms") as refused:
        found_arms(tmp_path / "f", Items.of(CROWD), crowds, plan, Place())
    assert "\n" not in str(refused.value) and not (tmp_path / "f").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["b"], "got 'b'; expected NAME:name=value"),
        (["b:"], "got 'b:'; expected NAME:name=value"),
        (["B:x=1"], "got 'B:x=1'"),
        (["../b:x=1"], "got '../b:x=1'"),
        (["abcdefghi:x=1"], "a name of 1 to 8 of a-z and 0-9"),
        (["a:x=1"], "'a' is an arm already; expected another than a"),
        (["b:x=1", "b:y=1"], "'b' is an arm already; expected another than a, b"),
        (["b:x"], "--arm b: got 'x'; expected name=value"),
        (["b:x=1,x=2"], "--arm b: x is given twice"),
        ([f"n{number}:x=1" for number in range(8)], "9 arms with the first; expected at most 8"),
    ],
)
def test_an_arm_that_is_none_gets_one_line(given: list[str], said: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_arms(given)
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_a_comma_in_a_value_ends_no_setting() -> None:
    assert parse_arms(["b:layers=64,32,factors=8"]) == {"b": {"layers": "64,32", "factors": "8"}}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"accuracy": 0.0}, "nothing to compare; add --accuracy 3"),
        ({"peers": True}, "peers have no sums that could be compared"),
        ({"arms": ("b:no_such=1",)}, "arm b: --set no_such: unknown setting"),
        ({"arms": ("b:cohort=3",)}, "--arm b:cohort: people in one arm would answer more often"),
        ({"arms": ("b:rounds=3",)}, "--arm b:rounds: people in one arm would answer more often"),
        ({"algorithm": "no-such"}, "no-such"),
    ],
)
def test_a_plan_that_can_have_no_arms_writes_nothing(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError) as refused:
        found_arms(tmp_path / "f", ITEMS, [], replace(LOTS, **changes), Place())
    assert said in str(refused.value) and "\n" not in str(refused.value)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_taken_and_ports_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="each of 2 arms has a port; expected at most 65534"):
        found_arms(tmp_path / "f", ITEMS, [], LOTS, Place(port=65535))
    found_federation(tmp_path / "f-b", ITEMS, [], LOTS)
    with pytest.raises(InputError, match="there is a federation already"):
        found_arms(tmp_path / "f", ITEMS, [], LOTS, Place())
    assert not (tmp_path / "f").exists()


# ---- one link ------------------------------------------------------------------------------------


class BothArms:
    """Two arms, founded with nobody, that run in threads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "f"
        place = Place(port=first_of_free_ports(2))
        made = found_arms(self.folder, ITEMS, [], LOTS, place)
        self.running = [Running(each.server.parent, made=each) for each in made.values()]

    def close(self) -> None:
        for each in self.running:
            each.close()

    def members(self) -> list[int]:
        return [len(each.members().nodes) for each in self.running]


@pytest.fixture
def both(tmp_path: Path) -> Iterator[BothArms]:
    with closing(BothArms(tmp_path)) as own:
        yield own


def test_people_come_by_one_link_and_their_tests_are_compared(
    both: BothArms, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = Command(capsys)
    for each in both.running:
        each.start(0.05)
    linked = command("federation", "link", both.folder, "--arms", "--uses", 20, "--an-hour", 100)
    text = linked.out.strip()
    assert len(text.split()) == 1 and "20 may join each of 2 arms by it" in linked.err
    devices: list[list[Path]] = [[], []]
    for number, (asked, _) in enumerate(of_keys(tmp_path, "ab" * (ROOM // 2))):
        device = tmp_path / asked.name
        told: list[str] = []
        join_by_link(device, text, DATA.of_users([number]), OWNER, told.append)
        arm = number % 2
        assert told[0] == f"by lot, from its own key, this device is in arm {arm + 1} of 2"
        # Its server, and no other, has it.
        assert told[1].startswith(f"run {both.running[arm].made.terms.run}")
        devices[arm].append(device)
        both.running[arm].run(device)
    assert both.members() == [len(some) for some in devices]
    # In a program it is the same link.
    with Device.join(tmp_path / "program", text, people=3, parties=3) as opened:
        assert opened.users == ["me"]
    assert sum(both.members()) == ROOM + 1
    compare(both, devices, command)


def compare(both: BothArms, devices: list[list[Path]], command: Command) -> None:
    """In the first arm everybody takes what is best, in the second what is last."""
    asked = ("federation", "status", both.folder, "--accuracy", "--against", both.running[1].folder)
    waiting = [(device, arm == 0) for arm, some in enumerate(devices) for device in some]

    def worse() -> bool:
        time.sleep(0.5)  # for the servers, which are threads of this process
        # Whoever has no model yet has no list, and takes something later.
        waiting[:] = [(device, best) for device, best in waiting if not consumed(device, best)]
        found = command(*asked, "--json").json
        return found["compared"]["verdict"] == "worse"

    until(worse)
    shown = command(*asked)
    assert "f-b is worse than" in " ".join(shown.err.split())
    assert shown.out.count("HR@10") == 2
    found = command(*asked, "--json").json
    assert found["compared"]["difference"] < -0.5
    assert found["accuracy"] and found["against"]


def consumed(device: Path, best: bool) -> bool:
    with Device(device) as one, suppress(InputError):
        items = [each["item"] for each in one.recommend(50).items]
        one.consumed(items[0] if best else items[-1])
        return True
    return False


def test_who_tries_again_gets_the_same_arm_and_only_its_server_is_asked(
    both: BothArms, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No server is there yet: a device does not go over to the one that answers first."""
    text = make_links(both.folder, 5, 1, 10)
    asked: list[str] = []
    of = knocking.authority

    def authority(link: JoinLink) -> str:
        asked.append(link.run)
        return of(link)

    monkeypatch.setattr(knocking, "authority", authority)
    monkeypatch.setattr(knocking, "PAUSE", 0.01)
    for _ in range(3):
        with pytest.raises(InputError, match="does not answer"):
            join_by_link(tmp_path / "x", text, None, OWNER)
    assert len(set(asked)) == 1 and len(asked) == 3
    runs = [each.made.terms.run for each in both.running]
    for name in "ab":
        (other,) = of_keys(tmp_path / name, name)
        with pytest.raises(InputError, match="does not answer"):
            join_by_link(tmp_path / name / other[0].name, text, None, OWNER)
        assert asked.pop() == runs["ab".index(name)]
    arm = runs.index(asked[0])
    # The other one's server alone does not help it.
    both.running[1 - arm].start(3600.0)
    with pytest.raises(InputError, match="does not answer"):
        join_by_link(tmp_path / "x", text, None, OWNER)
    both.running[arm].start(3600.0)
    join_by_link(tmp_path / "x", text, None, OWNER)
    assert set(asked) == {both.running[arm].made.terms.run}
    assert both.members()[arm] == 1 and sum(both.members()) == 1


def test_lots_deal_evenly_and_by_the_key_alone() -> None:
    draws = np.random.default_rng(3)
    counts = np.bincount([arm_of(draws.bytes(32), 3) for _ in range(3000)])
    assert np.abs(counts - 1000).max() < 100
    assert [arm_of(bytes(32), arms) for arms in (2, 3, 8)] == [
        arm_of(bytes(32), arms) for arms in (2, 3, 8)
    ]


def link(run: str = "01", server: str = "127.0.0.1:1") -> str:
    return str(JoinLink(server, True, run * 16, "23" * 16, "ab" * 32))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (",".join([link()] * 1000), "1000 links with commas between them; expected at most 8"),
        (f"{link()},{link()}", "two of its parts lead to the same federation"),
        (f"{link()},{link('02')[:-1]}", "part 2 of 2: this is no link to join by; expected https"),
        (f"{link()},", "part 2 of 2: this is no link to join by"),
        (f",{link()}", "part 1 of 2: this is no link to join by"),
        (f"{link()},{link('02', 'a,b:1')}", "part 2 of 3: this is no link to join by"),
        (f"{link()},{link('02', 'h:99999')}", "part 2 of 2"),
        ("," * 7, "part 1 of 8: this is no link to join by"),
    ],
)
def test_a_link_that_is_broken_gets_one_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        join_by_link(tmp_path / "x", text, None, OWNER)
    assert "--link" in str(refused.value) and said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "x").exists()


def test_rows_of_several_people_are_refused_before_a_key_is_made(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a link is for one device"):
        join_by_link(tmp_path / "x", f"{link()},{link('02')}", DATA.of_users([1, 2]), OWNER)
    assert not (tmp_path / "x").exists()


def test_a_folder_without_arms_or_with_a_broken_list_makes_no_link(
    both: BothArms, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = Command(capsys)
    refused = command("federation", "link", both.running[1].folder, "--arms")
    assert "f-b: has no arms; name the folder that" in refused.error
    listed = both.folder / ARMS
    whole = listed.read_text()
    listed.write_text(whole.replace('"f-b"', "7"))
    assert "no list of arms" in command("federation", "link", both.folder, "--arms").error
    listed.write_text(whole.replace('"f-b"', '"gone"'))
    assert "gone" in command("federation", "link", both.folder, "--arms").error
    assert not links_of(both.folder)
    listed.write_text(whole)
    for _ in range(2):
        assert command("federation", "link", both.folder, "--arms").code == 0
    assert command("federation", "link", both.folder, "--arms", "--show").out.count("UTC") == 4
    ended = command("federation", "link", both.folder, "--arms", "--end")
    assert ended.err.startswith("4 links ended")


# ---- statistics ----------------------------------------------------------------------------------


def told(rates: Any, share: float, rounds: int, draws: np.random.Generator) -> Arm:
    """An arm in which some people have new rows always, and hit with the rate of each; ten times as
    many members have none.
    """
    sums = []
    for number in range(rounds):
        there = draws.random(len(rates)) < share
        hits = (draws.random(len(rates)) < rates)[there].sum()
        noise = draws.normal(0, 3, 2)
        sums.append(
            SummedTests(number, there.sum() + noise[0], hits + noise[1], 0.0, 3.0, len(rates))
        )
    return Arm(sums, 11 * len(rates), share, 1000)


@pytest.mark.parametrize(("share", "rounds"), [(0.1, 20), (1.0, 20), (0.02, 200)])
def test_the_interval_has_the_difference_though_answers_of_a_person_are_alike(
    share: float, rounds: int
) -> None:
    """Everybody always hits, or never: the binomial of answers would be too short by far."""
    draws = np.random.default_rng(6)
    inside = 0
    for _ in range(200):
        first, second = ((draws.random(300) < rate).astype(float) for rate in (0.3, 0.4))
        arms = [told(rates, share, rounds, draws) for rates in (first, second)]
        found = difference_of(*arms)
        assert found.low is not None and found.high is not None
        inside += found.low <= 0.1 <= found.high
    assert 0.90 <= inside / 200 <= 0.99


def test_where_answers_are_not_alike_the_interval_is_longer_and_still_sees_much() -> None:
    draws = np.random.default_rng(7)
    verdicts = []
    for _ in range(50):
        arms = [told(np.full(300, rate), 0.1, 20, draws) for rate in (0.3, 0.6)]
        found = difference_of(*arms)
        assert found.low is not None and found.high is not None
        assert found.low <= 0.3 <= found.high
        verdicts.append(found.verdict)
    assert verdicts.count("better") >= 48


def test_a_rate_of_nothing_among_few_is_not_certain() -> None:
    arms = [Arm([SummedTests(0, 40, 0, 0, 0.01, 50)], 50, 0.1, 100)] * 2
    found = difference_of(*arms)
    assert found.difference == 0
    assert found.high is not None and 0.05 < found.high < 0.1


def test_rounds_without_people_make_no_interval_longer() -> None:
    some = [SummedTests(number, 100, 30, 0, 0.01, 300) for number in range(5)]
    empty = [SummedTests(number, 0.001, 0, 0, 0.01, 300) for number in range(5, 200)]
    few = difference_of(*[Arm(some, 10_000, 0.3, 100)] * 2)
    many = difference_of(*[Arm(some + empty, 10_000, 0.3, 100)] * 2)
    assert few.high is not None and many.high == pytest.approx(few.high, rel=0.02)
    # Of 500 tests, each has those of 1 + 4 x 0.3 / 2 x 2 from its person.
    counted = 500 / 2.2
    careful = (0.3 * counted + 1) / (counted + 2)
    assert few.high == pytest.approx(
        1.96 * np.sqrt(2 * careful * (1 - careful) / counted), rel=0.01
    )


def test_however_many_rounds_there_are_people_are_no_more() -> None:
    """Of 50 people who hit 15 and 20 of 50 times nobody can tell."""
    arms = []
    for hits in (15, 20):
        sums = [SummedTests(number, 50, hits, 0, 0.01, 50) for number in range(2000)]
        arms.append(Arm(sums, 50, 0.001, 10_000))
    found = difference_of(*arms)
    assert found.verdict == "none"
    assert found.high is not None and found.high - 0.1 > 0.17
    # A budget of answers is a bound too: whoever answers twice stands behind two answers.
    few = [Arm(arm.sums, 10**6, 1.0, 2) for arm in arms]
    assert difference_of(*few).verdict == "better"
    assert difference_of(*reversed(few)).verdict == "worse"


def test_only_rounds_that_both_have_done_are_compared() -> None:
    """A model that has trained longer is no better arm."""
    early = [SummedTests(number, 100, 10, 0, 3.0, 300) for number in range(20)]
    late = [SummedTests(number, 100, 90, 0, 3.0, 300) for number in range(20, 40)]
    found = difference_of(Arm(early, 300, 0.1, 100), Arm(early + late, 300, 0.1, 100))
    assert found.last == 19 and found.difference == 0
    assert difference_of(Arm(early, 1, 1, 1), Arm(late, 1, 1, 1)).verdict == "too few"


def test_of_an_arm_in_which_too_few_tested_no_figure_is_told() -> None:
    many = Arm([SummedTests(0, 100, 10, 0, 3.0, 300)], 300, 0.1, 100)
    few = Arm([SummedTests(0, 11, 10, 0, 3.0, 300)], 300, 0.1, 100)
    none = Arm([], 300, 0.1, 100)
    for pair in ((many, few), (few, many), (many, none), (none, many)):
        found = difference_of(*pair)
        assert found.verdict == "too few" and found.difference is None and found.low is None


# ---- the operator --------------------------------------------------------------------------------


def test_the_operator_founds_arms_and_compares_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = Command(capsys)
    (tmp_path / "items.csv").write_text("item\n" + "".join(f"i{n}\n" for n in range(20)))
    lots = [
        *("--algorithm", "fcf", "--endless", "--users", 1000, "--accuracy", 3),
        *("--protect", "sampling=poisson", "--protect", "answers=100", "--set", "cohort=300"),
    ]
    folder = tmp_path / "reads"
    base = ("federation", "new", folder, "--items", tmp_path / "items.csv", *lots)
    made = command(*base, "--arm", "b:learning_rate=0.003,reg=0.5", "--arm", "c:factors=3")
    assert made.code == 0, made.err
    words = " ".join(made.err.split())
    assert re.search("arm a: 0 nodes by lot; run [0-9a-f]+; start it with: entrenous server", words)
    assert "arm c: 0 nodes by lot" in words
    assert f"one link to all arms: entrenous federation link {folder} --arms" in words
    assert list(arms_of(folder)) == ["a", "b", "c"]
    several = command("federation", "link", folder, "--arms").out.strip()
    assert [each.run for each in JoinLink.several(several)] == [
        FederationTerms.read(each / "server" / "terms.json").run
        for each in arms_of(folder).values()
    ]
    asked = ("federation", "status", folder, "--accuracy", "--against", f"{folder}-b")
    nothing = command(*asked)
    assert "too few people have tested new rows in one of the arms" in nothing.err
    assert nothing.err.count("no round has brought tests yet") == 2
    for name, hits in (("", 30), ("-b", 60)):
        for number in range(20):
            note_tests(
                Path(f"{folder}{name}") / "server", SummedTests(number, 100, hits, 20, 3.0, 200)
            )
    # One member stands behind all of it: nothing is seen.
    assert "no difference is seen between" in command(*asked).err
    found = command(*asked, "--json").json["compared"]
    assert found["difference"] == pytest.approx(0.3) and found["verdict"] == "none"


def test_items_of_all_arms_are_changed_together_or_not_at_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = Command(capsys)
    folder = tmp_path / "f"
    made = found_arms(folder, ITEMS, [], LOTS, Place())
    new = tmp_path / "new.csv"
    new.write_text("item,lat,lon\nnew-1,40,40\nnew-2,41,41\n")
    words = ("federation", "items", folder, "--add", new, "--retire", ITEMS.ids[3])
    changed = command(*words, "--arms")
    assert changed.code == 0, changed.err
    for name, each in made.items():
        assert f"arm {name}: 52 items, 2 of them new, 1 retired in all" in changed.err
        assert read_items(each.server / NEXT).ids[-2:] == ["new-1", "new-2"]
    # One arm gets an item by itself. Then all refuse it, and the first, which lacks it, too.
    more = tmp_path / "more.csv"
    more.write_text("item,lat,lon\nnew-3,40,40\n")
    assert command("federation", "items", f"{folder}-b", "--add", more).code == 0
    before = [(each.server / NEXT).read_bytes() for each in made.values()]
    refused = command("federation", "items", folder, "--add", more, "--arms")
    assert "arm b: --add: 'new-3' is on the list; expected new items alone" in refused.error
    unknown = command("federation", "items", folder, "--retire", "nothing", "--arms")
    assert "arm a: --retire: 'nothing' is not on the list" in unknown.error
    assert before == [(each.server / NEXT).read_bytes() for each in made.values()]
    assert (
        "has no arms"
        in command("federation", "items", f"{folder}-b", "--add", more, "--arms").error
    )
    # The first by itself, as the message asks: from then on they are alike again.
    assert command("federation", "items", folder, "--add", more).code == 0
    again = command("federation", "items", folder, "--retire", "new-3", "--arms")
    assert again.err.count("53 items, 0 of them new, 2 retired in all") == 2


def test_the_terms_and_the_members_say_how_often_one_person_may_count(tmp_path: Path) -> None:
    made = found_arms(tmp_path / "f", ITEMS, of_keys(tmp_path, "aaaabbb"), LOTS, Place())
    sums = [SummedTests(number, 1, 0, 0, QUIET, 5) for number in range(40)]
    for each in made.values():
        for one in sums:
            note_tests(each.server, one)
    found = compared(made["a"].server, made["b"].server)
    # A cohort of 5 among at most 20.
    assert found == difference_of(Arm(sums, 4, 0.25, 1000), Arm(sums, 3, 0.25, 1000))
    assert found != difference_of(Arm(sums, 4, 0.1, 1000), Arm(sums, 3, 0.1, 1000))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["f", "--against", "f-b"], "tests of new rows are compared; add --accuracy"),
        (["f", "--accuracy", "--against", "f"], "--against: is the same federation"),
        (["f", "--accuracy", "--against", "nowhere"], "--against: sums of tests are at a server"),
        (["f", "--accuracy", "--against", "other"], "has another list of items"),
        (["f", "--accuracy", "--against", "quiet"], "test no new rows"),
    ],
)
def test_what_cannot_be_compared_gets_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    found_arms(Path("f"), ITEMS, [], LOTS, Place())
    found_federation(Path("other"), Items.of(ratings(items=12)), [], LOTS)
    found_federation(Path("quiet"), ITEMS, [], PLAN)
    assert said in Command(capsys)("federation", "status", *arguments).error
