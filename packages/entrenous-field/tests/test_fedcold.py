"""FedCold: the encoder's step is the gradient of a sum that it can be held against, a new item is what
its features say, and the features go the whole way: simulation, threads, Ray's shards, a network.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from entrenous_field.fedcold import FedCold, backward, encode
from entrenous_lab.memory_link import MemoryServerLink
from entrenous_network.agreement.growth import current_items
from entrenous_network.server.server import serve
from federation_links import answers_of, federation, nodes_of, ratings, server_sha256, simulated

import entrenous
from entrenous import conform
from entrenous.core.contract.item_features import ItemFeatures
from entrenous.core.errors import EntrenousWarning, InputError
from entrenous.core.keys import key
from entrenous.data.interactions import Interactions, text_array
from entrenous.federation.rounds import Rounds
from entrenous.federation.shard import Threads

KINDS = ("horror", "comedy|war", "war", "")


def described(data: Interactions) -> Interactions:
    """The same rows, of items of which something is known."""
    items = len(data.items)
    kinds = text_array(KINDS[item % len(KINDS)] for item in range(items))
    years = text_array(str(1980 + item) if item % 5 else "" for item in range(items))
    return replace(data, features={**data.features, "category": kinds, "year": years})


DATA = described(ratings())


def test_a_run_with_features_keeps_them() -> None:
    run = entrenous.run("fedcold", DATA, protocol="random-60-40", rounds=2, progress=False)
    assert len(run.recommend(DATA.users.ids[0], 2)) == 2
    assert "features" not in run.manifest["catalogue"]
    without = replace(DATA, features={})
    other = entrenous.run("popular", without, protocol="random-60-40", progress=False)
    assert other.manifest["catalogue"] == run.manifest["catalogue"]


def test_it_conforms() -> None:
    conform(FedCold(factors=4), DATA)


def test_encoder_and_its_step_are_matrix_products() -> None:
    rng = np.random.default_rng(0)
    x = (rng.random((30, 5)) < 0.3).astype(np.float32)
    x[:, 4] = 0
    encoder = rng.normal(size=(5, 3)).astype(np.float32)
    step = rng.normal(size=(30, 3))
    assert np.allclose(encode(x, encoder), x @ encoder, atol=1e-6)
    lengths = (x.astype(np.float64) ** 2).sum(axis=0)[:, None]
    plain = np.divide(
        x.T.astype(np.float64) @ step, lengths, where=lengths > 0, out=np.zeros((5, 3))
    )
    assert np.allclose(backward(x, step), plain)
    # Without compilation: the same bits.
    assert np.array_equal(backward.py_func(x, step), backward(x, step))
    assert np.array_equal(encode.py_func(x, encoder), encode(x, encoder))


def test_the_features_have_length_one_or_none() -> None:
    server = FedCold(factors=2).init_server(DATA.catalogue, key(0, "server"))
    lengths = np.sqrt((server.x.astype(np.float64) ** 2).sum(axis=1))
    assert set(np.round(lengths, 5)) <= {0.0, 1.0} and 1.0 in lengths.round(5)
    assert server.own.shape == (len(DATA.items), 3) and server.encoder.shape[1] == 3


def test_a_new_item_is_what_its_features_say() -> None:
    algorithm = FedCold(factors=3)
    rounds = Rounds(algorithm, DATA, seed=1)
    training = rounds.advance(rounds.start(), 2)
    texts = {
        name: np.append(column, column[:3]) for name, column in DATA.item_features.texts.items()
    }
    grown = rounds.algorithm.with_items(training.server, ItemFeatures(texts))
    assert np.array_equal(grown.own[: len(DATA.items)], training.server.own)
    assert not grown.own[len(DATA.items) :].any()
    q = rounds.algorithm.download(grown).q
    assert np.allclose(q[-3:], grown.x[:3] @ grown.encoder[:, :-1], atol=1e-6)
    everybody = DATA.histories(np.arange(len(DATA.users)))
    scores = rounds.algorithm.score(rounds.algorithm.download(grown), training.devices, everybody)
    assert scores.shape == (len(DATA.users), len(DATA.items) + 3)


@pytest.mark.parametrize(
    "texts",
    [{"category": text_array(["war"] * 3)}, {"category": text_array(["war", "x"] * 400)}],
)
def test_features_of_another_table_are_refused(texts: dict[str, np.ndarray]) -> None:
    algorithm = FedCold(factors=3)
    server = algorithm.init_server(DATA.catalogue, key(0, "server"))
    with pytest.raises(InputError, match=r"the features are of \d+ items and \d columns"):
        algorithm.with_items(server, ItemFeatures(texts))


def test_without_features_it_says_so() -> None:
    with pytest.warns(EntrenousWarning, match="nothing is known of the items but their ids"):
        server = FedCold(factors=2).init_server(ratings().catalogue, key(0, "server"))
    assert server.x.shape == (len(DATA.items), 0)


def test_a_simulation_and_a_federation_have_the_same_bytes(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        # Whoever loses the features on the way would warn, and have other bytes.
        warnings.simplefilter("error", EntrenousWarning)
        founded = federation(
            tmp_path, nodes=3, rounds=3, algorithm="fedcold", settings={"factors": 4}, data=DATA
        )
        nodes = nodes_of(founded)
        link = MemoryServerLink(answers_of(nodes))
        digest = serve(link, founded.server)
        assert digest == server_sha256(simulated(founded, data=DATA))
        assert digest == server_sha256(simulated(founded, data=DATA, executor=Threads(2)))
    histories = nodes["node-1"].shard.data.histories(np.array([0]))
    assert np.array_equal(histories.features.values, DATA.item_features.values)
    for node in nodes.values():
        node.close()
    # Other algorithms get no more than they need.
    plain = federation(tmp_path / "plain", nodes=2, rounds=1, data=DATA)
    terms = plain.terms
    assert not current_items(plain.server, terms).items.features
