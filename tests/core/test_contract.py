"""Declarations: what follows from one, and what an algorithm that breaks its own is told, by a run
and by `testing.conform`.
"""

from __future__ import annotations

import inspect
import warnings
from typing import Annotated, Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import pytest
from command_line import Command, write_shop
from mean_embedding import HOSTILE, Devices, MeanEmbedding, NoScore, Server
from typing_extensions import TypeAliasType

from entrenous.core.contract.declarations import (
    Axes,
    UpTo,
    axes,
    dense,
    rows,
    shown,
)
from entrenous.core.contract.declared import ABILITIES, ContractError, bound, declared, fields_of
from entrenous.core.contract.enforce import check_arrays, check_received
from entrenous.core.contract.protocols import Abilities, Catalogue
from entrenous.core.contract.settings import Settings
from entrenous.core.errors import EntrenousWarning
from entrenous.core.types import Float32Array, Int32Array
from entrenous.data.synthetic import synthetic
from entrenous.federation.rounds import Rounds
from entrenous.federation.shard import Debug, Threads
from entrenous.runs.conformance import conform
from entrenous.systems import fcf
from entrenous.systems.fpl import FPL
from entrenous.systems.named import algorithms, kind_of

CATALOGUE = Catalogue(users=30, items=40, interactions=300)


@pytest.fixture(scope="module")
def data() -> Any:
    return synthetic(users=30, items=40, interactions=300, seed=0)


# ---- abilities -----------------------------------------------------------------------------------


@pytest.mark.beside
def test_abilities_have_the_signatures_of_the_protocol() -> None:
    """Parameters by name and order, of every federated algorithm that has the method."""
    assert {name for name in vars(Abilities) if not name.startswith("_")} == set(ABILITIES)
    met = set()
    for name in algorithms():
        kind, _ = kind_of(name)
        for ability in ABILITIES if hasattr(kind, "local") else ():
            if hasattr(kind, ability):
                wanted = list(inspect.signature(getattr(Abilities, ability)).parameters)
                assert list(inspect.signature(getattr(kind, ability)).parameters) == wanted, name
                met.add(ability)
    assert met == set(ABILITIES)


# ---- what follows from a declaration -------------------------------------------------------------


def test_an_honest_algorithm_conforms(data: Any) -> None:
    conform(MeanEmbedding())
    conform(MeanEmbedding(), data)


def test_sizes_bytes_and_the_empty_sum_follow() -> None:
    contract = bound(MeanEmbedding(factors=5), CATALOGUE)
    assert contract.way("rows") == {"q": (5,)} and contract.way("dense") == {} and contract.weighs
    assert contract.row_bytes == 4 + 4 * 5 and contract.most_bytes == 40 * 24
    total = contract.empty_total()
    assert (
        total.rows["q"].shape == (40, 5)
        and total.weight.shape == (1,)
        and not total.rows["q"].any()
    )
    assert [field.name for field in contract.receives] == ["q", "kind"] and contract.cohort == 30


def test_fields_say_type_shape_and_range() -> None:
    q, kind = fields_of(Server, "Server")
    assert (q.name, q.dtype, q.axes) == ("q", "float32", Axes(("items", "factors")))
    assert (kind.dtype, kind.axes.below, kind.axes.least) == ("int32", "kinds", 0)


Scalar = TypeVar("Scalar", bound=np.generic)
LATER = TypeAliasType(
    "LATER", np.ndarray[Any, np.dtype[Scalar]], type_params=(Scalar,)
)  # what NDArray is from NumPy 2.5 on


class Aliased(NamedTuple):
    q: Annotated[LATER[np.float32], axes("items")]


class AliasedAny(NamedTuple):
    q: Annotated[LATER[Any], axes("items")]


def test_fields_of_numpy_2_5_say_type_too() -> None:
    (q,) = fields_of(Aliased, "Aliased")
    assert q.dtype == "float32"
    with pytest.raises(ContractError, match="'q': says no type of its numbers"):
        fields_of(AliasedAny, "AliasedAny")


class Delivered(NamedTuple):
    local: Annotated[Float32Array, axes(UpTo("among", "devices"), "factors")]
    at: Annotated[Int32Array, axes("devices", below="among")]


@pytest.mark.parametrize(
    ("among", "at", "said"),
    [
        (2, [0, 1, 1], ""),
        (4, [0, 1, 1], "the shape (4, 2)"),
        (2, [0, 2, 1], "the number 2; expected below among = 2"),
        (2, [0, -1, 1], "the number -1; expected at least 0"),
        (2, [0, 1], "the shape (2,); expected devices = 3"),
    ],
)
def test_a_free_size_is_decided_by_the_first_array(among: int, at: list[int], said: str) -> None:
    contract, fields = bound(MeanEmbedding(factors=2), CATALOGUE), fields_of(Delivered, "Delivered")
    arrays = {"local": np.zeros((among, 2), np.float32), "at": np.array(at, np.int32)}
    if not said:
        check_arrays(contract, "download", fields, arrays, {"devices": 3})
        return
    with pytest.raises(ContractError) as refused:
        check_arrays(contract, "download", fields, arrays, {"devices": 3})
    assert said in str(refused.value)


def test_an_infinite_number_is_fine_only_where_it_is_declared_so() -> None:
    contract = bound(MeanEmbedding(), CATALOGUE)
    hints = {"q": np.full(40, np.inf, np.float32)}
    loose = fields_of(Server, "Server")[0]._replace(axes=Axes(("items",), finite=False))
    strict = loose._replace(axes=Axes(("items",)))
    check_arrays(contract, "download", (loose,), hints, {})
    with pytest.raises(ContractError, match="NaN or infinite"):
        check_arrays(contract, "download", (strict,), hints, {})


# ---- declarations that do not hold together ------------------------------------------------------


def altered(**members: Any) -> Any:
    """MeanEmbedding with other members, as an instance."""
    return type(
        "Altered",
        (MeanEmbedding,),
        {
            "__module__": __name__,
            "__annotations__": dict.fromkeys(members, ClassVar[Any]),
            **members,
        },
    )()


def nothing(**members: Any) -> Any:
    return type(
        "Half",
        (Settings,),
        {
            "__module__": __name__,
            "__annotations__": dict.fromkeys(members, ClassVar[Any]),
            **members,
        },
    )()


class NoShape(NamedTuple):
    p: Float32Array


class NoType(NamedTuple):
    p: Annotated[np.ndarray, axes("factors")]


@pytest.mark.parametrize(
    ("algorithm", "said"),
    [
        (lambda: nothing(), "Half: is no algorithm"),
        (lambda: nothing(local=lambda: 0), "Half: a federated algorithm without `holds`"),
        (lambda: nothing(fit=lambda: 0), "Half: a central algorithm without `holds`"),
        (lambda: nothing(on_message=lambda: 0), "Half: a gossip algorithm without `keeps`"),
        (lambda: NoScore(), "a federated algorithm without `score`"),
        (
            lambda: altered(init_devices=lambda self, users, key: None),
            "Altered: `init_devices` cannot be called with users, catalogue and key; expected def"
            " init_devices(self, users, catalogue, key); add `catalogue` before `key`",
        ),
        (lambda: altered(keeps=NoShape), "Altered.keeps 'p': says no shape"),
        (lambda: altered(receives=NoType), "Altered.receives 'p': says no type"),
        (lambda: altered(receives=dict), "is no NamedTuple class"),
        (
            lambda: altered(
                sends=(rows("q", when="a", reveals="b"), dense("q", when="a", reveals="b"))
            ),
            "'q' is sent twice",
        ),
        (lambda: altered(sends=(rows("p", when="a", reveals="b"),)), "'p' is both kept and sent"),
        (lambda: altered(sends=(rows("q", when="", reveals="b"),)), "does not say when 'q' leaves"),
        (lambda: altered(sends=("q",)), "`sends` lists something else"),
        (lambda: altered(traits={"predicts_ratings": True}), "`traits` is something else"),
    ],
)
def test_what_is_missing_or_does_not_go_together_is_said_in_one_line(
    algorithm: Any, said: str
) -> None:
    with pytest.raises(ContractError) as refused:
        declared(algorithm())
    assert said in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("algorithm", "said"),
    [
        (
            lambda: altered(sends=(rows("q", "lengths", when="a", reveals="b"),)),
            "nothing says how much 'lengths' is",
        ),
        (
            lambda: altered(sends=(shown("q", when="a", reveals="b", only_if="often"),)),
            "`only_if` names 'often'",
        ),
    ],
)
def test_a_size_or_a_setting_that_is_not_there(algorithm: Any, said: str) -> None:
    with pytest.raises(ContractError) as refused:
        bound(algorithm(), CATALOGUE)
    assert said in str(refused.value)


# ---- algorithms that do not do what they declare -------------------------------------------------


@pytest.mark.parametrize("name", HOSTILE)
def test_conform_refuses_it_in_one_line(name: str, data: Any) -> None:
    hostile, said = HOSTILE[name]
    with pytest.raises(
        Exception
    ) as refused:  # one device at a time, the error names the device first
        conform(hostile(), data)
    assert (
        said in str(refused.value)
        and hostile.__name__ in str(refused.value)
        and "\n" not in str(refused.value)
    )


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("executor", [Threads(1), Threads(2), Debug()], ids=["one", "two", "debug"])
def test_the_first_round_refuses_it_and_changes_nothing(
    name: str, executor: Any, data: Any
) -> None:
    hostile, said = HOSTILE[name]
    rounds = Rounds(hostile(), data, executor=executor)
    training = rounds.start()
    before = training.devices.p.tobytes(), training.server.q.tobytes()
    with pytest.raises(Exception) as refused:
        rounds.advance(training, 1)
    assert said in str(refused.value)
    assert (training.devices.p.tobytes(), training.server.q.tobytes()) == before


@pytest.mark.parametrize("name", ["writes-download", "float64", "nan-download", "index-beyond"])
def test_a_run_ends_with_one_line_and_exit_code_2(
    name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile, said = HOSTILE[name]
    monkeypatch.setitem(fcf.ALGORITHMS, "hostile", hostile)
    monkeypatch.chdir(tmp_path)
    found = Command(capsys)(
        "run", "hostile", "--data", write_shop(tmp_path / "shop.csv"), "--protocol", "random-80-20"
    )
    assert hostile.__name__ in found.error and said.split("; expected")[0] in found.error
    assert not list(tmp_path.glob("runs/*"))


@pytest.mark.parametrize("executor", [Threads(1, strict=True), Debug()], ids=["strict", "debug"])
def test_a_later_round_is_checked_by_a_strict_executor_alone(executor: Any, data: Any) -> None:
    class LaterNaN(MeanEmbedding):
        """Honest at first."""

        def aggregate(self, server: Server, total: Any) -> Server:
            return super().aggregate(server, total)._replace(kind=np.full_like(server.kind, 9))

    assert Rounds(LaterNaN(), data).advance(Rounds(LaterNaN(), data).start(), 2).round == 2
    with pytest.raises(Exception, match="download 'kind': the number 9"):
        rounds = Rounds(LaterNaN(), data, executor=executor)
        rounds.advance(rounds.start(), 2)


def test_conform_sees_what_depends_on_company(data: Any) -> None:
    class Sociable(MeanEmbedding):
        """Its devices learn more in company."""

        def local(
            self, download: Server, devices: Devices, histories: Any, users: Any, key: Any
        ) -> Any:
            after, update = super().local(download, devices, histories, users, key)
            return Devices(after.p * np.float32(len(users))), update

    with pytest.raises(
        ContractError, match=r"Sociable: .* depends on which devices train together"
    ):
        conform(Sociable(), data)


def test_conform_sees_rounds_of_one_device_that_end_elsewhere_if_compiled_as_a_whole(
    monkeypatch: pytest.MonkeyPatch, data: Any
) -> None:
    honest = FPL.solo_rounds

    def further(
        self: FPL, server: Any, devices: Any, histories: Any, rounds: range, *rest: Any
    ) -> Any:
        return honest(self, server, devices, histories, range(rounds.start, rounds.stop + 1), *rest)

    conform(FPL(cohort=1, triples=2), data)
    monkeypatch.setattr(FPL, "solo_rounds", further)
    with pytest.raises(ContractError, match=r"FPL: .* depends on which devices train together"):
        conform(FPL(cohort=1, triples=2), data)


def test_an_update_that_rounds_to_zero_is_warned_of(data: Any) -> None:
    rounds = Rounds(MeanEmbedding(learning_rate=1e-6), data)
    with pytest.warns(
        EntrenousWarning,
        match=(
            r"MeanEmbedding: all that \d of the 4 devices tried out send becomes 0 in fixed point"
        ),
    ):
        rounds.advance(rounds.start(), 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rounds = Rounds(MeanEmbedding(learning_rate=1e-2), data)
        rounds.advance(rounds.start(), 1)


def test_a_download_is_read_only(data: Any) -> None:
    contract = bound(MeanEmbedding(), CATALOGUE)
    server = MeanEmbedding().init_server(CATALOGUE, np.uint64(1))
    received = contract.delivered(server, np.arange(2))
    check_received(contract, received, 2)
    with pytest.raises(ValueError, match="read-only"):
        received.q[0] = 1
    server.q[0] = 1  # the server's own is its own
