"""What every algorithm promises, held against everything that is discovered: adding a file is
enough to be tested.
"""

from __future__ import annotations

import importlib.util
from typing import Any, NamedTuple

import numpy as np
import pytest
from small_federations import GOSSIP, same, when_and_where

from entrenous.core.contract.declared import (
    bound,
    declared,
    followed,
    is_central,
    is_federated,
    is_gossip,
    predicts_ratings,
    scores_of,
)
from entrenous.core.contract.gossip import (
    ACCEPTED,
    NOT_FINITE,
    TOO_LARGE,
    WRONG_LENGTH,
    Arrivals,
    DeviceData,
    Headers,
)
from entrenous.core.contract.gossip import NOBODY as NOBODY_THERE
from entrenous.core.contract.own_rows import OwnRows
from entrenous.core.contract.protocols import Histories, arrays_of
from entrenous.core.contract.settings import Settings
from entrenous.core.contract.update import Update, add_update, empty_total
from entrenous.core.errors import InputError
from entrenous.core.keys import fold_name, folds, key
from entrenous.core.printed import summary_of
from entrenous.data.interactions import Interactions, Vocabulary, build
from entrenous.federation.gossip import Gossip
from entrenous.federation.rounds import Rounds
from entrenous.runs.conformance import conform
from entrenous.runs.recommenders import checkpoint_arrays, fitted, restore, restore_training
from entrenous.runs.store import read_arrays, write_arrays
from entrenous.systems.named import algorithms

ALL = algorithms()
CENTRAL = [name for name, make in ALL.items() if is_central(make())]
FEDERATED = [name for name, make in ALL.items() if is_federated(make())]
RATING = [name for name, make in ALL.items() if predicts_ratings(make())]
NEEDS = {"vae": "torch", "ials": "implicit"}
SAME_FOR_EVERY_KEY = {"user-mean", "popular", "ease", "user-knn", "item-knn", "nearest-place"}
USERS = 40
NOBODY, EVERYTHING = 7, 11  # a user without rows, and one who consumed every item


def interactions(users: int = USERS, items: int = 24) -> Interactions:
    """Two tastes, popular items first, ratings 1 to 5, a user without rows and one with all of
    them; times and places at random.
    """
    rng = np.random.default_rng(5)
    taste = np.where(np.arange(items) % 2 == np.arange(users)[:, None] % 2, 1, 0.3)
    has = rng.random((users, items)) < taste * np.linspace(0.9, 0.2, items)
    has[NOBODY], has[EVERYTHING] = False, True
    user, item = np.nonzero(has)
    value = rng.integers(1, 6, len(user))
    names = {"users": Vocabulary(size=users), "items": Vocabulary(size=items)}
    tastes = np.array([f"taste {number % 2}" for number in range(items)], dtype=object)
    known = when_and_where(user, items)
    known["features"] = {**known.get("features", {}), "category": tastes}
    return build(user, item, value=value, **names, **known)


CATALOGUE = interactions().catalogue


@pytest.fixture(scope="module")
def data() -> Interactions:
    return interactions()


def make(name: str) -> Any:
    """The algorithm with its defaults; the test is skipped where its optional library is not
    installed.
    """
    if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed")
    return ALL[name]()


def copied(value: Any) -> Any:
    """A deep copy of a state."""
    if isinstance(value, dict):
        return {name: copied(part) for name, part in value.items()}
    if value is None:
        return None
    if isinstance(value, OwnRows):
        return value.copy()
    return type(value)(*map(copied, value)) if isinstance(value, tuple) else np.array(value)


# ---- every algorithm -----------------------------------------------------------------------------


def test_every_algorithm_is_of_one_kind():
    kinds = [*CENTRAL, *FEDERATED, *GOSSIP]
    assert CENTRAL and FEDERATED and GOSSIP
    assert sorted(kinds) == sorted(ALL)
    assert all(is_gossip(ALL[name]()) for name in GOSSIP)


@pytest.mark.parametrize("name", ALL)
def test_it_explains_itself(name):
    algorithm = ALL[name]()
    assert isinstance(algorithm, Settings)
    first = summary_of(type(algorithm).__doc__)
    assert first.endswith((".", ").", ":")) and len(first) > 20
    for field, info in type(algorithm).model_fields.items():
        assert info.description, f"{name}: setting '{field}' has no description"


@pytest.mark.parametrize("name", ALL)
def test_it_conforms_to_its_declaration(name, data):
    conform(make(name), data)


@pytest.mark.parametrize("name", ALL)
def test_settings_are_frozen_and_unknown_ones_are_refused(name):
    algorithm = ALL[name]()
    fields = list(type(algorithm).model_fields)
    wrong = f"{fields[0]}x" if fields else "factors"
    with pytest.raises(InputError, match=rf"--set {wrong}: unknown setting") as refused:
        type(algorithm).parse({wrong: 1})
    if fields:
        assert f"did you mean '{fields[0]}'?" in str(refused.value)
        with pytest.raises(Exception, match="frozen"):
            setattr(algorithm, fields[0], 1)


@pytest.mark.parametrize("name", ALL)
def test_settings_survive_as_text(name):
    algorithm = ALL[name]()
    again = type(algorithm).parse(algorithm.model_dump())
    assert again == algorithm
    numbers = {
        field: value
        for field, value in algorithm.model_dump().items()
        if isinstance(value, bool | int | float | str)
    }
    assert (
        type(algorithm).parse({field: str(value) for field, value in numbers.items()}) == algorithm
    )


@pytest.mark.parametrize("name", ALL)
def test_a_number_out_of_range_is_refused_in_one_line(name):
    cls = type(ALL[name]())
    numbers = [
        field
        for field, info in cls.model_fields.items()
        if info.annotation in (int, float) and info.metadata
    ]
    for field in numbers:
        for bad in (float("nan"), float("inf"), -1e9, "lots"):
            with pytest.raises(InputError, match=rf"^--set {field}: got ") as refused:
                cls.parse({field: bad})
            assert "\n" not in str(refused.value)


# ---- algorithms that predict ratings -------------------------------------------------------------


@pytest.mark.parametrize("name", RATING)
def test_a_predictor_of_ratings_refuses_data_without_any(name, data):
    """In one line that says what to do, before training: `fit`, or `configured` where there is a
    federation.
    """
    unrated = build(data.user, data.item, users=data.users, items=data.items)
    assert unrated.catalogue.scale == (1.0, 1.0)
    algorithm = make(name)
    with pytest.raises(InputError, match="rating") as refused:
        algorithm.fit(unrated, key(0, "fit")) if name in CENTRAL else algorithm.configured(
            unrated.catalogue
        )
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", [name for name in FEDERATED if name in RATING])
def test_a_predictor_of_ratings_draws_no_negatives(name, data):
    """It says so; and which items are never to be drawn (the leaky sampler's avoid list) changes no
    bit of what it learns.
    """
    assert declared(ALL[name]()).traits.draws_negatives is False
    everything = build(*np.nonzero(np.ones((USERS, 24))), users=data.users, items=data.items)
    found = []
    for avoid in (None, everything):
        rounds = Rounds(ALL[name]().configured(data.catalogue), data, seed=0, avoid=avoid)
        found.append(checkpoint_arrays(rounds.advance(rounds.start(), 2)))
    assert same(*found)


# ---- centralised algorithms ----------------------------------------------------------------------


class Fit(NamedTuple):
    name: str
    algorithm: Any
    model: Any


@pytest.fixture(scope="module", params=CENTRAL)
def fit(request, data) -> Fit:
    algorithm = make(request.param)
    return Fit(request.param, algorithm, algorithm.fit(data, key(0, "fit")))


def test_a_model_is_a_named_tuple_of_finite_arrays(fit):
    assert type(fit.model) is fit.algorithm.holds  # what a stored model is read back as
    for name, array in fit.model._asdict().items():
        assert isinstance(array, np.ndarray), name
        assert array.dtype.kind in "iuf" and np.isfinite(array).all(), name


def test_another_key_gives_another_model_where_chance_plays_a_part(fit, data):
    assert same(fit.algorithm.fit(data, key(1, "fit")), fit.model) is (
        fit.name in SAME_FOR_EVERY_KEY
    )


def test_fit_reports_progress_to_the_end_and_leaves_the_data_alone(fit):
    own, reports = interactions(), []
    before = [array.copy() for array in (own.ptr, own.item, own.value)]
    fit.algorithm.fit(
        own, key(0, "fit"), lambda done, total, what: reports.append((done, total, what))
    )
    assert all(map(same, before, (own.ptr, own.item, own.value)))
    assert reports == sorted(reports) and (not reports or reports[-1][0] == reports[-1][1])


def test_a_user_s_scores_do_not_depend_on_the_block(fit, data):
    whole = fit.algorithm.score(fit.model, data, np.arange(40))
    for users in ([0], [NOBODY], [39, 3, EVERYTHING], list(range(5, 22))):
        assert same(fit.algorithm.score(fit.model, data, np.array(users)), whole[users])


def test_scoring_leaves_the_model_alone_and_repeats(fit, data):
    before = copied(fit.model)
    first = fit.algorithm.score(fit.model, data, np.arange(40))
    first_again = fit.algorithm.score(fit.model, data, np.arange(40))
    assert same(first, first_again) and same(fit.model, before)
    first[...] = np.nan  # the block is the caller's own memory
    assert same(fit.algorithm.score(fit.model, data, np.arange(40)), first_again)


# ---- federated algorithms ------------------------------------------------------------------------


class Federation(NamedTuple):
    """A federation before its first round, made concrete for the data."""

    algorithm: Any
    server: Any
    devices: Any
    users: np.ndarray
    histories: Histories

    def local(self, users: np.ndarray, data: Interactions) -> tuple[Any, Update]:
        """A round's local part on the devices of `users`."""
        own = type(self.devices)(*(array[users] for array in self.devices))
        received = bound(self.algorithm, data.catalogue).delivered(
            self.algorithm.download(self.server), users
        )
        model = followed(self.algorithm, received)
        return self.algorithm.local(model, own, data.histories(users), users, key(0, "round", 1))


def received(federation: Federation, users: np.ndarray) -> Any:
    """What the devices of `users` get of the first model."""
    return bound(federation.algorithm, CATALOGUE).delivered(
        federation.algorithm.download(federation.server), users
    )


@pytest.fixture(scope="module", params=FEDERATED)
def federation(request, data) -> Federation:
    algorithm, users = make(request.param).configured(data.catalogue), np.arange(40)
    server = algorithm.init_server(data.catalogue, key(0, "server"))
    return Federation(
        algorithm,
        server,
        algorithm.init_devices(users, data.catalogue, key(0, "devices")),
        users,
        data.histories(users),
    )


def test_it_says_what_leaves_a_device(federation):
    contract = bound(federation.algorithm, CATALOGUE)
    assert contract.sends and all(sent.when and sent.reveals for sent in contract.sends)
    names = [sent.name for sent in contract.sends]
    assert len(set(names)) == len(names)


def test_the_first_states_come_from_the_key_and_the_user(federation, data):
    algorithm = federation.algorithm
    assert same(algorithm.init_server(data.catalogue, key(0, "server")), federation.server)
    assert not same(algorithm.init_server(data.catalogue, key(1, "server")), federation.server)
    few = np.array([3, 17, 30])
    expected = type(federation.devices)(*(array[few] for array in federation.devices))
    assert same(algorithm.init_devices(few, data.catalogue, key(0, "devices")), expected)
    for state in (federation.server, federation.devices):
        assert all(np.isfinite(array).all() for array in arrays_of(state).values())
    assert all(len(array) == 40 for array in federation.devices)


def test_the_cohort_is_distinct_ascending_users_named_by_the_key(federation, data):
    for round_number in range(20):
        own = fold_name(key(0, "select"), round_number)
        cohort = federation.algorithm.select(federation.server, data.catalogue, own)
        assert len(cohort) > 0 and cohort.min() >= 0 and cohort.max() < 40
        assert (np.diff(cohort) > 0).all()
        assert same(federation.algorithm.select(federation.server, data.catalogue, own), cohort)
    assert federation.algorithm.default_rounds(data.catalogue) >= 1


def test_a_device_sends_no_more_than_announced(federation, data):
    limit = bound(federation.algorithm, data.catalogue).most_bytes
    for user in range(40):
        assert federation.local(np.array([user]), data)[1].nbytes <= limit


def test_no_run_of_item_ids_is_the_history_of_a_device(federation, data):
    """Unless all who send are said to send the same rows, which gives the history away where one is
    seen singly.
    """
    if declared(federation.algorithm).traits.same_rows:
        pytest.skip("its declaration says that the rows are the history")
    _, update = federation.local(federation.users, data)
    # Of who consumed everything, any list of items is a part of the history.
    for u in set(range(USERS)) - {EVERYTHING}:
        history = data.item[data.ptr[u] : data.ptr[u + 1]]
        sent = update.item[update.ptr[u] : update.ptr[u + 1]]
        assert len(history) < 3 or history.tobytes() not in sent.tobytes()


def test_a_device_without_history_teaches_nobody(federation, data):
    """Its rows may be absent or zero, never informative."""
    _, update = federation.local(np.array([NOBODY]), data)
    assert all(not array.any() for array in (*update.rows.values(), *update.dense.values()))


def test_aggregate_leaves_its_input_alone_and_repeats(federation, data):
    _, update = federation.local(federation.users, data)
    total = add_update(empty_total(update, 24), update)
    before = tuple(map(copied, (federation.server, total.rows, total.dense)))
    after = federation.algorithm.aggregate(federation.server, total)
    assert same((federation.server, total.rows, total.dense), before)
    assert same(federation.algorithm.aggregate(federation.server, total), after)
    assert not same(after, federation.server)


def test_scores_on_devices_are_finite_and_independent_of_the_block(federation, data):
    def score(users: np.ndarray) -> np.ndarray:
        own = type(federation.devices)(*(array[users] for array in federation.devices))
        return scores_of(
            federation.algorithm,
            received(federation, users),
            own,
            data.histories(users),
            users,
            key(0, "score"),
        )

    whole = score(federation.users)
    assert whole.dtype == np.float32 and whole.shape == (40, 24) and np.isfinite(whole).all()
    for users in (np.array([0]), np.array([39, 3, EVERYTHING]), np.arange(5, 22)):
        assert same(score(users), whole[users])


def test_training_goes_on_from_a_file_as_if_it_had_not_stopped(federation, data, tmp_path):
    rounds = Rounds(federation.algorithm, data, seed=3)
    training = rounds.advance(rounds.start(), 2)
    write_arrays(tmp_path / "checkpoint.safetensors", checkpoint_arrays(training))
    arrays, _ = read_arrays(tmp_path / "checkpoint.safetensors")
    again, training = (
        rounds.one_round(restore_training(rounds, 2, arrays)),
        rounds.one_round(training),
    )
    assert same(
        (again.server, again.devices, again.ledger),
        (training.server, training.devices, training.ledger),
    )
    result, users = fitted(rounds, training), np.arange(40)
    assert same(
        restore(federation.algorithm, result.arrays, data, rounds.seed).scores(users),
        result.recommender.scores(users),
    )


# ---- algorithms without a server -----------------------------------------------------------------


class Peers(NamedTuple):
    """Nodes before their first training: the algorithm made concrete, their pool (a model each,
    then room for as many), their state.
    """

    algorithm: Any
    pool: np.ndarray
    nodes: Any
    private: DeviceData

    def copy(self) -> Peers:
        return self._replace(pool=self.pool.copy(), nodes=copied(self.nodes))

    def start(self, who: np.ndarray) -> Peers:
        """The first training of some nodes."""
        own = self.copy()
        own.algorithm.on_start(
            own.pool, who, own.nodes, who, self.private, folds(key(0, "start"), who)
        )
        return own

    def timer(self, who: np.ndarray) -> Any:
        """What some nodes push."""
        return self.algorithm.on_timer(self.nodes, who, self.private, folds(key(0, "timer"), who))

    def receive(
        self, who: np.ndarray, sender: np.ndarray, slot: np.ndarray | None = None, longer: int = 0
    ) -> np.ndarray:
        """Nodes `who` receive the models of `sender`, or of pool slots, and keep what comes of it
        in the slots behind.
        """
        peers = np.repeat((who[:, None] + 1) % USERS, 2, axis=1).astype(np.int32)
        headers = Headers(
            sender,
            np.full(len(who), 3),
            np.full(len(who), 5),
            peers,
            np.full(len(who), self.pool.shape[1] + longer),
        )
        slots = who, sender if slot is None else slot, USERS + who
        arrivals = Arrivals(self.pool, who, *slots, headers, folds(key(0, "message"), who))
        return np.asarray(self.algorithm.on_message(arrivals, self.nodes, self.private))


@pytest.fixture(scope="module", params=GOSSIP)
def peers(request, data) -> Peers:
    gossip = Gossip(make(request.param), data, seed=0)
    algorithm, everyone = gossip.algorithm, np.arange(USERS)
    model = algorithm.init_model(data.catalogue, key(0, "model"))
    known = np.array(
        [np.setdiff1d(everyone, [u])[(u * 7 + np.arange(9)) % (USERS - 1)] for u in everyone],
        np.int32,
    )
    nodes = algorithm.init_nodes(everyone, known, len(model), key(0, "nodes"))
    return Peers(
        algorithm,
        np.concatenate([np.tile(model, (USERS, 1)), np.zeros((USERS, len(model)), np.float32)]),
        nodes,
        gossip.private,
    )


def test_a_message_holds_what_is_declared_and_nothing_else(peers):
    """The model, and of its header all but how long it is, which the network shows anyway."""
    names = [sent.name for sent in peers.algorithm.sends]
    assert sorted(names) == sorted({"model", *Headers._fields} - {"length"})
    assert all(sent.when and sent.reveals for sent in peers.algorithm.sends)


def test_the_first_model_and_states_come_from_the_key_and_the_user(peers, data):
    algorithm, nodes = peers.algorithm, peers.nodes
    model = algorithm.init_model(data.catalogue, key(0, "model"))
    assert (
        model.dtype == np.float32
        and model.ndim == 1
        and np.isfinite(model).all()
        and same(model, peers.pool[0])
    )
    assert not same(algorithm.init_model(data.catalogue, key(1, "model")), model)
    assert type(nodes) is algorithm.keeps
    few = np.array([3, 17, 30])
    alone = algorithm.init_nodes(few, nodes.known[few], len(model), key(0, "nodes"))
    assert same(alone, type(nodes)(*(array[few] for array in nodes)))
    assert all(
        len(array) == USERS and np.isfinite(array).all() for array in arrays_of(nodes).values()
    )
    assert algorithm.default_rounds(data.catalogue) >= 1


def test_a_weighting_set_is_held_back_from_training(peers, data):
    """Every row is trained on or weighs, never both; a node that has a weighting set keeps it as it
    is.
    """
    own, sets = peers.private
    assert len(own.item) + len(sets.item) == len(data) and len(sets.item) == (
        sets.ptr[-1] if len(sets.item) else 0
    )
    for u in range(USERS):
        trained, weighs = (
            own.item[own.ptr[u] : own.ptr[u + 1]],
            sets.item[sets.ptr[u] : sets.ptr[u + 1]],
        )
        assert sorted([*trained, *weighs]) == data.item[data.ptr[u] : data.ptr[u + 1]].tolist()
        among = sets.candidates[sets.ptr[u] : sets.ptr[u + 1]]
        assert not np.isin(among[among >= 0], data.item[data.ptr[u] : data.ptr[u + 1]]).any()
    again = peers.algorithm.weighing(peers.private, folds(key(5, "weighing"), np.arange(USERS)))
    assert same(again, peers.private) or not len(sets.item)


def test_a_message_is_as_large_as_announced(peers, data):
    """The bytes of a real push: the model, and of its header all but the length, which the model
    itself has.
    """
    pushes = peers.copy().timer(np.arange(1))
    header = {name: array for name, array in pushes.headers._asdict().items() if name != "length"}
    contract = bound(peers.algorithm, data.catalogue)
    assert contract.way("pushed").keys() == {"model", *header} and header["sender"].nbytes == 8
    assert contract.message_bytes == peers.pool[0].nbytes + sum(
        array.nbytes for array in header.values()
    )


def test_starting_changes_the_nodes_that_start_and_nothing_else(peers):
    """Each as if it were alone; one without rows keeps the model that all have."""
    who, whole = np.array([2, NOBODY, 25]), peers.start(np.arange(USERS))
    some, others = peers.start(who), np.setdiff1d(np.arange(2 * USERS), who)
    assert same(some.pool[others], peers.pool[others]) and same(some.pool[who], whole.pool[who])
    assert (
        np.isfinite(whole.pool).all()
        and not same(some.pool[2], peers.pool[2])
        and same(some.pool[NOBODY], peers.pool[NOBODY])
    )
    for before, after, all_after in zip(peers.nodes, some.nodes, whole.nodes, strict=True):
        assert same(np.delete(after, who, axis=0), np.delete(before, who, axis=0)) and same(
            after[who], all_after[who]
        )


def test_a_push_goes_to_others_that_the_node_knows(peers):
    own, who = peers.copy(), np.array([0, 3, 17, 39])
    pushes = own.timer(who)
    assert (
        pushes.to.dtype == np.int32
        and pushes.to.shape[0] == len(who)
        and (pushes.to[:, 0] != NOBODY_THERE).all()
    )
    for node, to, named in zip(who, pushes.to, pushes.headers.peers, strict=True):
        for some in (to[to != NOBODY_THERE], named[named != NOBODY_THERE]):
            assert (
                node not in some
                and len(set(some)) == len(some)
                and set(some.tolist()) <= set(peers.nodes.known[node].tolist())
            )
    headers = pushes.headers
    assert (
        same(headers.sender, who)
        and same(headers.age, peers.nodes.age[who])
        and (headers.length == peers.pool.shape[1]).all()
    )
    assert headers.samples.tolist() == np.diff(peers.private.histories.ptr)[who].tolist()
    for before, after in zip(peers.nodes, own.nodes, strict=True):
        assert same(np.delete(after, who, axis=0), np.delete(before, who, axis=0))
    assert same(peers.copy().timer(who), pushes)
    assert not peers.timer(np.empty(0, np.int64)).to.size


def test_a_received_model_changes_its_receivers_and_nothing_else(peers):
    """It leaves what was received, and what the node had, to others that may need them; each
    receiver is as if it were alone.
    """
    start, who, sender = (
        peers.start(np.arange(USERS)),
        np.array([2, 9, EVERYTHING, 25]),
        np.array([5, 5, 30, 31]),
    )
    whole = start.copy()
    assert whole.receive(who, sender).tolist() == [ACCEPTED] * 4
    others = np.setdiff1d(np.arange(2 * USERS), USERS + who)
    assert (
        same(whole.pool[others], start.pool[others]) and np.isfinite(whole.pool[USERS + who]).all()
    )
    assert not any(same(whole.pool[USERS + u], start.pool[u]) for u in (2, 9, 25))
    for before, after in zip(start.nodes, whole.nodes, strict=True):
        assert same(np.delete(after, who, axis=0), np.delete(before, who, axis=0))
    assert (whole.nodes.age[who] >= np.maximum(start.nodes.age[who], 3)).all()
    one_by_one = start.copy()
    for u, v in zip(who[::-1], sender[::-1], strict=True):
        one_by_one.receive(np.array([u]), np.array([v]))
    assert same(one_by_one.pool, whole.pool) and same(one_by_one.nodes, whole.nodes)


@pytest.mark.parametrize(
    ("wrong", "longer", "said"),
    [
        (np.nan, 0, NOT_FINITE),
        (np.inf, 0, NOT_FINITE),
        (-np.inf, 0, NOT_FINITE),
        (1e30, 0, TOO_LARGE),
        (-1e30, 0, TOO_LARGE),
        (0, 1, WRONG_LENGTH),
    ],
)
def test_a_wrong_model_is_refused_and_changes_nothing(wrong: float, longer: int, said: int, peers):
    """A single number of it is enough, and those that come beside it are taken."""
    start = peers.start(np.arange(USERS))
    start.pool[5, 3] = wrong
    own, who = start.copy(), np.array([2, 9])
    assert own.receive(who, np.array([5, 30]), longer=longer).tolist() == [
        said,
        WRONG_LENGTH if longer else ACCEPTED,
    ]
    unharmed = [2, 9] if longer else [2]
    assert all(
        same(after[unharmed], before[unharmed])
        for before, after in zip(start.nodes, own.nodes, strict=True)
    )
    assert np.isfinite(own.pool[USERS + 9]).all() and same(own.pool[:USERS], start.pool[:USERS])


def test_private_state_and_history_never_reach_others(peers, data):
    """No vector of a node's own state stands in its model, and its header names no items that it
    has.
    """
    own = peers.start(np.arange(USERS))
    own.receive(np.arange(20), np.arange(20, 40))
    models, headers = own.pool[USERS : USERS + 20], own.timer(np.arange(20)).headers
    for u in set(range(20)) - {NOBODY, EVERYTHING}:
        sent = models[u].tobytes()
        for name, array in arrays_of(own.nodes).items():
            row = np.ascontiguousarray(array[u])
            assert (
                row.ndim == 0
                or row.dtype != np.float32
                or len(row) < 3
                or not row.any()
                or row.tobytes() not in sent
            ), name
        history = data.item[data.ptr[u] : data.ptr[u + 1]]
        assert len(history) < 3 or history.astype(np.float32).tobytes() not in sent
        assert len(history) < 3 or history.tobytes() not in headers.peers[u].tobytes()


def test_scores_on_nodes_are_finite_and_independent_of_the_block(peers):
    start, everyone = peers.start(np.arange(USERS)), np.arange(USERS)

    def score(users: np.ndarray) -> np.ndarray:
        return np.asarray(
            start.algorithm.score(start.pool, users, start.nodes, users, start.private)
        )

    before = start.copy()
    whole = score(everyone)
    assert whole.dtype == np.float32 and whole.shape == (USERS, 24) and np.isfinite(whole).all()
    for users in (np.array([0]), np.array([39, 3, EVERYTHING]), np.arange(5, 22)):
        assert same(score(users), whole[users])
    assert same(start.pool, before.pool) and same(start.nodes, before.nodes)


# ---- what is learnt ------------------------------------------------------------------------------


# Places are at random here.
LEARN = sorted({*CENTRAL, *GOSSIP} - {*RATING, "random", "nearest-place"})


@pytest.mark.parametrize("name", LEARN)
def test_a_model_knows_what_users_like(name):
    """A held-out item comes before an unconsumed one more often than not, in the mean over users
    (random: one half).
    """
    data = interactions(80)
    rng = np.random.default_rng(1)
    usual = np.setdiff1d(np.arange(80), [NOBODY, EVERYTHING])
    held = np.array([rng.integers(data.ptr[u], data.ptr[u + 1]) for u in usual])
    train = data.select(~np.isin(np.arange(len(data)), held))
    scores = scores_after(make(name), train)[usual]
    mine = scores[np.arange(len(usual)), data.item[held]][:, None]
    free = np.ones((80, 24), bool)
    free[data.user, data.item] = False
    wins = (mine > scores) + 0.5 * (mine == scores)
    assert wins[free[usual]].mean() > 0.6


def scores_after(algorithm: Any, train: Interactions) -> np.ndarray:
    """Everybody's scores after a fit, or after 60 rounds between peers."""
    users = np.arange(len(train.users))
    if is_central(algorithm):
        return algorithm.score(algorithm.fit(train, key(0, "fit")), train, users)
    gossip = Gossip(algorithm, train, seed=0)
    return fitted(gossip, gossip.advance(gossip.start(), 60)).recommender.scores(users)
