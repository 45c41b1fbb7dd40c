"""A federation of an algorithm of one's own: its terms name the source, each side is given the file by its own person."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from paths import ROOT

from entrenous.core.errors import InputError
from entrenous.data.synthetic import synthetic
from entrenous.deploy.enrolment import identity, join
from entrenous.deploy.founding import found
from entrenous.deploy.node import FederatedNode
from entrenous.deploy.terms import FederationTerms

EXAMPLE = ROOT / "docs" / "examples" / "my_algo.py"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(EXAMPLE.read_text())
    return path


def founded(folder: Path, algorithm: str):
    data = synthetic(users=6, items=20, interactions=60, seed=0)
    return found(folder, data, nodes=2, algorithm=algorithm, rounds=2, seed=0, profile="paper")


def test_terms_name_the_source_and_no_place(file: Path, tmp_path: Path) -> None:
    made = founded(tmp_path / "f", str(file))
    text = (made.server / "terms.json").read_text()
    assert made.terms.algorithm == "own:mine" and len(made.terms.algorithm_sha256) == 64 and str(tmp_path) not in text
    node = FederatedNode(made.nodes["node-1"])
    assert type(node.algorithm).__name__ == "MyAlgorithm"
    node.close()
    assert founded(tmp_path / "g", "fpl").terms.algorithm_sha256 != made.terms.algorithm_sha256


def test_another_file_is_refused_and_other_words_are_not(file: Path, tmp_path: Path) -> None:
    made = founded(tmp_path / "f", str(file))
    file.write_text(f"# a comment\n{file.read_text()}")
    FederatedNode(made.nodes["node-1"]).close()
    file.write_text(file.read_text().replace("self.weight * mean", "2 * self.weight * mean"))
    with pytest.raises(
        InputError, match="the source of mine here is not the one that the federation agreed on; expected sha256 "
    ):
        FederatedNode(made.nodes["node-1"])


def test_a_place_is_never_taken_from_an_invitation(file: Path, tmp_path: Path) -> None:
    """Terms that name a file of this machine, as a hostile operator would write them, do not make a node run it."""
    made = founded(tmp_path / "f", str(file))
    ran = tmp_path / "ran"
    (tmp_path / "evil.py").write_text(f"open({str(ran)!r}, 'w').close()\n")
    for name in (str(tmp_path / "evil.py"), f"{tmp_path}/evil.py:A", "evil:A", "own:evil"):
        terms = {**json.loads(made.terms.text()), "algorithm": name}
        with pytest.raises(InputError, match=r"is none of `entrenous algorithms`; expected its file; ask the operator for it"):
            FederationTerms.parse(terms, "terms").make()
    assert not ran.exists()


def test_a_node_joins_with_the_file_that_it_names(file: Path, tmp_path: Path) -> None:
    from entrenous.deploy.catalogue import Items
    from entrenous.deploy.founding import found_federation

    data = synthetic(users=4, items=20, interactions=40, seed=0)
    request = identity(tmp_path / "node", "node-1")
    made = found_federation(
        tmp_path / "f", Items.of(data), data.catalogue, [(request, 4)], algorithm=str(file), rounds=1, seed=0, profile="paper"
    )
    with pytest.raises(InputError, match="the federation's algorithm, mine, is none of"):
        join(tmp_path / "node", made.nodes["node-1"], data, public_draws=True)
    other = tmp_path / "other.py"
    other.write_text(file.read_text().replace("0.1, gt=0", "0.3, gt=0"))
    with pytest.raises(InputError, match="the source of mine here is not the one"):
        join(tmp_path / "node", made.nodes["node-1"], data, algorithm=str(other), public_draws=True)
    copy = tmp_path / "copy_of_mine.py"  # where it lies and what it is called makes no difference
    copy.write_text(file.read_text())
    assert np.array_equal(
        join(tmp_path / "node", made.nodes["node-1"], data, algorithm=str(copy), public_draws=True), np.arange(4)
    )
    FederatedNode(tmp_path / "node").close()


def test_code_of_the_package_that_differs_is_refused(tmp_path: Path) -> None:
    made = founded(tmp_path / "f", "fpl")
    path = made.nodes["node-1"] / "terms.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "algorithm_sha256": "0" * 64}))
    with pytest.raises(
        InputError, match=r"the source of fpl here is not the one .* use the same file and the same version of entrenous"
    ):
        FederatedNode(made.nodes["node-1"])
