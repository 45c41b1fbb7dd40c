"""Valid, signed, hostile values: 20,000 messages each way, from a server to its nodes and from
nodes to their server.

A message is right but for one to three values, and signed by the right key: indices out of range by
one, shapes of nothing, NaN, 1e30, users of others, rounds of the past, counts that lie. It is
refused by a code and changes no byte, or what it says is legal: then all that is kept is finite and
as declared. A correct message does afterwards. Here a few hundred; all of them, where compiled
loops check every index, in the slow tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from entrenous_network.frames.request import read_download, write_download
from entrenous_network.wire.tensors import Malformed
from hostile_rounds import lying_nodes, lying_server
from paths import HELPERS, PYTHONPATH

from entrenous.core.contract.declared import bound
from entrenous.core.contract.protocols import Catalogue
from entrenous.core.keys import key
from entrenous.systems.fcf import FCF

FULL = 20_000
COVERED = 12  # codes that some hundreds of messages bring about


@pytest.fixture(autouse=True)
def quiet() -> Any:
    """Numbers that overflow are what is sent."""
    with np.errstate(all="ignore"):
        yield


@pytest.mark.parametrize(("seed", "name"), [*enumerate(("fpl", "cali3f-gmf", "rfrec"))])
def test_a_server_that_lies_in_its_values_changes_nothing_on_a_node(seed: int, name: str) -> None:
    counts = lying_server(name, 120, seed)
    assert len(counts) >= COVERED and counts["malformed"] > 20, counts


@pytest.mark.parametrize(("seed", "name"), [*enumerate(("fpl", "cali3f-gmf", "rfrec"))])
def test_a_node_that_lies_in_its_values_changes_nothing_at_its_server(seed: int, name: str) -> None:
    counts = lying_nodes(name, 200, seed)
    assert len(counts) >= COVERED and 20 < counts["accepted"] < 120, counts


def test_a_download_that_carries_a_gram_matrix_is_refused() -> None:
    """With a matrix of its own a server chooses who answers with anything but 0."""
    catalogue = Catalogue(users=4, items=5, interactions=9)
    algorithm = FCF(factors=3).configured(catalogue)
    contract = bound(algorithm, catalogue)
    download = algorithm.download(algorithm.init_server(catalogue, key(0, "server")))
    honest = b"".join(write_download(download, {}))
    assert read_download(honest, contract, 1, {})[0].y.shape == (5, 3)
    carried = b"".join(write_download(download, {"gram": np.eye(3)}))
    with pytest.raises(Malformed):
        read_download(carried, contract, 1, {})


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("to", ["nodes", "server"])
def test_20000_hostile_messages_of_all_algorithms_with_every_index_checked(
    to: str, tmp_path: Path, record_property: Any
) -> None:
    """In a process of its own, whose compiled loops check every index and are kept apart from those
    that do not.
    """
    environment = {
        **os.environ,
        "PYTHONPATH": PYTHONPATH,
        "NUMBA_BOUNDSCHECK": "1",
        "NUMBA_CACHE_DIR": str(tmp_path),
    }
    command = [sys.executable, str(HELPERS / "hostile.py"), to, str(FULL)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    said = done.stdout.splitlines()[-1]
    assert said.startswith(f"to {to}: {FULL} messages"), said
    record_property("measured", said)
