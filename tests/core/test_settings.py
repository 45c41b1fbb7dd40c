"""Hyper-parameters: typed, frozen, and refused in one line that names the setting, what was
expected and what it means.
"""

from __future__ import annotations

from typing import Any, Literal, Self, final

import pytest
from pydantic import Field, model_validator

from entrenous.core.contract.settings import Settings, parse_assignments
from entrenous.core.errors import InputError


@final
class Example(Settings):
    """For the tests."""

    factors: int = Field(20, ge=1, le=64, description="the length of a vector")
    rate: float = Field(0.1, gt=0, description="how far a step goes")
    optimiser: Literal["adam", "sgd"] = Field("adam", description="who steps")
    ratings: bool = Field(False, description="whether values count")
    reg: float | None = Field(None, ge=0, description="how much is forgotten; default rate / 20")
    bare: int = 1


@final
class Span(Settings):
    """Two numbers of which neither is wrong by itself."""

    low: int = Field(1, description="where it begins")
    high: int = Field(3, description="where it ends")

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        if self.low > self.high:
            raise ValueError("low at most high")
        return self


def test_text_becomes_what_the_setting_is() -> None:
    made = Example.parse(
        {"factors": "32", "rate": "1e-3", "optimiser": "sgd", "ratings": "true", "reg": "0"}
    )
    assert made == Example(factors=32, rate=0.001, optimiser="sgd", ratings=True, reg=0.0)
    assert Example.parse({}) == Example()
    assert [type(value) for value in (made.factors, made.rate, made.ratings)] == [int, float, bool]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"factor": "3"}, "--set factor: unknown setting; did you mean 'factors'?"),
        (
            {"zzz": "3"},
            "--set zzz: unknown setting; known: bare, factors, optimiser, rate, ratings, reg",
        ),
        (
            {"factors": "many"},
            (
                "--set factors: got 'many'; expected a valid integer, unable to parse string as an"
                " integer; factors is: the length of a vector"
            ),
        ),
        ({"factors": "2.5"}, "--set factors: got '2.5'; expected a valid integer"),
        ({"factors": ""}, "--set factors: got ''; expected a valid integer"),
        (
            {"factors": 0},
            (
                "--set factors: got '0'; expected greater than or equal to 1; factors is: the"
                " length of a vector"
            ),
        ),
        ({"factors": 65}, "--set factors: got '65'; expected less than or equal to 64"),
        ({"rate": 0}, "--set rate: got '0'; expected greater than 0; rate is: how far a step goes"),
        ({"rate": "nan"}, "--set rate: got 'nan'; expected a finite number"),
        ({"rate": "-inf"}, "--set rate: got '-inf'; expected "),
        (
            {"optimiser": "Adam"},
            "--set optimiser: got 'Adam'; expected 'adam' or 'sgd'; optimiser is: who steps",
        ),
        ({"ratings": "perhaps"}, "--set ratings: got 'perhaps'; expected a valid boolean"),
        ({"reg": "-1"}, "--set reg: got '-1'; expected greater than or equal to 0"),
        ({"bare": "x"}, "--set bare: got 'x'; expected a valid integer"),
        ({"factors": "9" * 5000}, "--set factors: got '999"),
        ({"factors": "1\n2\x1b[31m"}, "--set factors: got '1"),
    ],
)
def test_42_a_wrong_setting_is_one_line(values: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as refused:
        Example.parse(values)
    text = str(refused.value)
    assert text.startswith(said)
    assert text.isprintable() and len(text) <= 600


def test_the_first_of_several_is_named_and_the_place_can_be_another() -> None:
    with pytest.raises(InputError, match=r"^config\.toml:3 factors: got '0'"):
        Example.parse({"factors": 0, "rate": -1}, where="config.toml:3")


def test_settings_that_do_not_go_together_are_one_line_that_names_none() -> None:
    with pytest.raises(InputError) as refused:
        Span.parse({"low": "4"})
    assert (
        str(refused.value) == "--set: these settings do not go together; expected low at most high"
    )
    with pytest.raises(
        InputError,
        match=r"^config\.toml:3: these settings do not go together; expected low at most high$",
    ):
        Span.parse({"low": 2, "high": 1}, where="config.toml:3")
    with pytest.raises(
        InputError, match=r"^--set high: got 'x'; expected a valid integer"
    ):  # one that is wrong by itself comes first
        Span.parse({"low": 4, "high": "x"})


def test_settings_cannot_be_changed_afterwards() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Example().factors = 3  # type: ignore[misc]


def test_assignments() -> None:
    assert parse_assignments(["pi=0.5", " factors = 20 ", "note=a=b", "empty="]) == {
        "pi": "0.5",
        "factors": "20",
        "note": "a=b",
        "empty": "",
    }
    assert parse_assignments([]) == {}


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        (["pi"], "--set: got 'pi'; expected name=value; for example --set pi=0.5"),
        (["=3"], "--set: got '=3'; expected name=value"),
        ([" =3"], "--set: got ' =3'; expected name=value"),
        ([""], "--set: got ''; expected name=value"),
        (["pi=1", "pi =1"], "--set: pi is given twice; expected each setting once"),
    ],
)
def test_what_is_no_assignment(pairs: list[str], said: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_assignments(pairs)
    assert str(refused.value).startswith(said)


def test_an_assignment_of_another_option_names_it() -> None:
    with pytest.raises(InputError, match=r"^--load: got 'x'; expected name=value$"):
        parse_assignments(["x"], "--load")
