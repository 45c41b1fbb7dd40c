"""A federation of an algorithm of one's own: its terms name the source, each side is given the file
by its own person.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from entrenous_network.agreement.terms import FederationTerms
from entrenous_network.node.node import FederatedNode
from entrenous_network.operate.enrolment import identity, join
from entrenous_network.operate.founding import found
from entrenous_network.operate.plans import FoundingPlan, JoinPlan
from paths import ROOT

from entrenous.core.errors import InputError
from entrenous.data.synthetic import synthetic

OWNER = JoinPlan(profile="paper", public_draws=True)
EXAMPLE = ROOT / "docs" / "examples" / "my_algo.py"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(EXAMPLE.read_text())
    return path


def founded(folder: Path, algorithm: str):
    data = synthetic(users=6, items=20, interactions=60, seed=0)
    return found(
        folder, data, FoundingPlan(algorithm=algorithm, rounds=2, profile="paper"), nodes=2
    )


def test_terms_name_the_source_and_no_place(file: Path, tmp_path: Path) -> None:
    made = founded(tmp_path / "f", str(file))
    text = (made.server / "terms.json").read_text()
    assert (
        made.terms.algorithm == "own:mine"
        and len(made.terms.algorithm_sha256) == 64
        and str(tmp_path) not in text
    )
    node = FederatedNode(made.nodes["node-1"])
    assert type(node.algorithm).__name__ == "MyAlgorithm"
    node.close()
    assert founded(tmp_path / "g", "fpl").terms.algorithm_sha256 != made.terms.algorithm_sha256


AGREED = "the source of mine here is not the one that the federation agreed on, and it differs: "


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        (
            "self.weight * mean",
            "2 * self.weight * mean",
            f"{AGREED}in the fixed test round what devices send comes out otherwise",
        ),
        (
            "p[d] += (pull",
            "p[d] += (1.5 * pull",
            f"{AGREED}in the fixed test round what devices send comes out otherwise",
        ),
        (
            "negatives(generator(fold_name(key, user))",
            "negatives(generator(fold_name(key, user + 1))",
            f"{AGREED}in the fixed test round what",
        ),
        (
            "Field(1.0, gt=0, description",
            "Field(1.1, gt=0, description",
            f"{AGREED}the setting 'weight' is 1.1, and 1.0 was agreed",
        ),
        ("weight", "share", f"{AGREED}there is no setting 'weight', which was 1.0"),
        (
            'axes("factors")',
            'axes("factors", finite=False)',
            f"{AGREED}what devices keep, as declared, is something else",
        ),
        ("def aggregate", "def aggregates", "a federated algorithm without `aggregate`"),
        (
            "own = histories.item",
            "assert False\n            own = histories.item",
            f"{AGREED}the fixed test round cannot be run",
        ),
        (
            "def select",
            "traits = Traits(same_rows=True)\n\n    def select",
            f"{AGREED}how it works, as declared, is something else",
        ),
    ],
    ids=[
        "server",
        "private state",
        "draws",
        "default",
        "setting",
        "declaration",
        "member",
        "fails",
        "traits",
    ],
)
def test_a_file_that_declares_or_computes_otherwise_is_refused(
    before: str, after: str, what: str, file: Path, tmp_path: Path
) -> None:
    made = founded(tmp_path / "f", str(file))
    text = file.read_text().replace("import Float32Array", "import Traits, Float32Array")
    assert before in text
    file.write_text(text.replace(before, after))
    with pytest.raises(InputError, match=what):
        FederatedNode(made.nodes["node-1"])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "p, ptr, item, row = devices.p.copy(), [0], [], []",
            "p = devices.p.copy()\n        ptr, item, row = [0], [], []",
        ),
        (
            "    holds = receives",
            '    unused: int = Field(7, description="nothing reads it")\n    holds = receives',
        ),
        ("the items that the user has", "which items the user has"),
    ],
    ids=["layout", "a setting more", "prose of a declaration"],
)
def test_a_file_that_declares_and_computes_the_same_is_taken_with_a_warning(
    before: str, after: str, file: Path, tmp_path: Path
) -> None:
    made = founded(tmp_path / "f", str(file))
    file.write_text(f"# a comment\n{file.read_text()}")
    assert made.terms.other_source(str(file)) == ""
    assert before in file.read_text()
    file.write_text(file.read_text().replace(before, after))
    FederatedNode(made.nodes["node-1"]).close()
    line = made.terms.other_source(str(file))
    assert line.startswith("the source of mine here (sha256 ") and line.endswith(
        "computes the same, so this goes on"
    )


def test_a_place_is_never_taken_from_an_invitation(file: Path, tmp_path: Path) -> None:
    """Terms that name a file of this machine, as a hostile operator would write them, do not make a
    node run it.
    """
    made = founded(tmp_path / "f", str(file))
    ran = tmp_path / "ran"
    (tmp_path / "evil.py").write_text(f"open({str(ran)!r}, 'w').close()\n")
    for name in (str(tmp_path / "evil.py"), f"{tmp_path}/evil.py:A", "evil:A", "own:evil"):
        terms = {**json.loads(made.terms.text()), "algorithm": name}
        with pytest.raises(
            InputError,
            match=r"is none of `entrenous algorithms`; expected its file; ask the operator for it",
        ):
            FederationTerms.parse(terms, "terms").make()
    assert not ran.exists()


def test_a_node_joins_with_the_file_that_it_names(file: Path, tmp_path: Path) -> None:
    from entrenous_network.agreement.catalogue import Items
    from entrenous_network.operate.founding import found_federation

    data = synthetic(users=4, items=20, interactions=40, seed=0)
    request = identity(tmp_path / "node", "node-1")
    made = found_federation(
        tmp_path / "f",
        Items.of(data),
        [(request, 4)],
        FoundingPlan(algorithm=str(file), rounds=1, profile="paper"),
    )
    with pytest.raises(InputError, match="the federation's algorithm, mine, is none of"):
        join(tmp_path / "node", made.nodes["node-1"], data, OWNER)
    other = tmp_path / "other.py"
    other.write_text(file.read_text().replace("0.1, gt=0", "0.3, gt=0"))
    with pytest.raises(
        InputError, match=r"differs: the setting 'learning_rate' is 0\.3, and 0\.1 was agreed"
    ):
        join(
            tmp_path / "node",
            made.nodes["node-1"],
            data,
            replace(OWNER, algorithm=str(other)),
        )
    copy = tmp_path / "copy_of_mine.py"  # where it lies and what it is called makes no difference
    copy.write_text(file.read_text())
    assert np.array_equal(
        join(
            tmp_path / "node",
            made.nodes["node-1"],
            data,
            replace(OWNER, algorithm=str(copy)),
        ),
        np.arange(4),
    )
    FederatedNode(tmp_path / "node").close()


def test_terms_that_lie_about_pins_are_refused_in_one_line(file: Path, tmp_path: Path) -> None:
    """An operator's text is shown without control characters, and settings that would fill the
    memory are not tried.
    """
    made = founded(tmp_path / "f", str(file))
    path = made.nodes["node-1"] / "terms.json"
    said = json.loads(path.read_text())
    escape = "\x1b]0;x\x07\x9b2J"
    for part, value in (
        ("version", escape),
        ("settings", {escape: escape}),
        ("contract", {escape: escape}),
        ("test_round", {escape: escape}),
    ):
        lying = {**said, "algorithm_sha256": escape, "pins": {**said["pins"], part: value}}
        path.write_text(json.dumps(lying))
        if part == "version":
            assert FederationTerms.read(path).other_source(str(file)).isprintable()
            continue
        with pytest.raises(InputError) as why:
            FederatedNode(made.nodes["node-1"])
        assert str(why.value).isprintable() and "it differs" in str(why.value)
    path.write_text(
        json.dumps({**said, "algorithm_sha256": "0" * 64, "settings": {"factors": 10**9}})
    )
    with pytest.raises(InputError, match="the setting 'factors' is 1000000000, and 10 was agreed"):
        FederatedNode(made.nodes["node-1"])
    for part in ("version", "settings", "contract", "test_round"):
        path.write_text(json.dumps({**said, "pins": {**said["pins"], part: 5}}))
        with pytest.raises(InputError, match="pins"):
            FederatedNode(made.nodes["node-1"])
