"""Functions whose keywords are the fields of a dataclass."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field

import pytest

from entrenous.core.errors import InputError
from entrenous.core.keywords import called_with, field_texts, names_of, values


@dataclass(frozen=True, kw_only=True)
class Size:
    width: int = 3
    """In metres,
    measured outside."""
    height: int | None = None


@dataclass(frozen=True, kw_only=True)
class House(Size):
    name: str = field(kw_only=False)
    """Over the door."""
    rooms: dict[str, int] = field(default_factory=dict)


@called_with(House)
def build(asked: House) -> str:
    """Builds."""
    return f"{asked.name} {asked.width} {asked.height} {asked.rooms}"


def test_a_function_is_called_with_the_fields_of_its_dataclass() -> None:
    assert build("hut") == "hut 3 None {}"
    assert build(name="hut", width=4, rooms={"attic": 1}) == "hut 4 None {'attic': 1}"
    parameters = inspect.signature(build).parameters
    assert list(parameters) == ["name", "width", "height", "rooms"]
    assert parameters["width"].kind is inspect.Parameter.KEYWORD_ONLY
    assert inspect.signature(build).return_annotation == "str"
    assert build.__doc__ == "Builds."


def test_none_is_the_default() -> None:
    assert build("hut", width=None, rooms=None) == build("hut")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "keywords", "said"),
    [
        (("hut",), {"widht": 4}, "build: unknown option 'widht'; did you mean 'width'?"),
        ((), {}, "build: missing a required argument: 'name'"),
        (("hut", 4), {}, "build: too many positional arguments"),
        (("hut",), {"name": "shed"}, "build: multiple values for argument 'name'"),
    ],
)
def test_a_wrong_call_is_one_line(
    arguments: tuple[object, ...], keywords: dict[str, object], said: str
) -> None:
    with pytest.raises(InputError) as bad:
        build(*arguments, **keywords)  # type: ignore[arg-type]
    assert str(bad.value) == said


def test_texts_and_values_of_fields() -> None:
    assert field_texts(House) == {"width": "In metres, measured outside.", "name": "Over the door."}
    assert names_of(Size) == ["width", "height"]
    rooms = {"attic": 1}
    house = House("hut", rooms=rooms)
    assert values(house)["rooms"] is rooms and values(house, Size) == {"width": 3, "height": None}
    assert field_texts(dataclass(type("Bare", (), {"__annotations__": {}}))) == {}
