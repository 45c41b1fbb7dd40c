"""The three countries of FPL's tables: their shapes (table 1), and the real rows where there are files."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from ..core.errors import InputError
from ..data.home import data_home
from ..data.interactions import Interactions
from ..data.load import load
from ..data.sets.foursquare_italy import read


class Country(NamedTuple):
    """Table 1: users, items and interactions (X+) of the training rows. data: the data set's name, which is also its folder."""

    name: str
    data: str
    users: int
    items: int
    interactions: int


COUNTRIES = {
    "Brazil": Country("Brazil", "foursquare-brazil", 17_473, 47_270, 599_958),
    "Canada": Country("Canada", "foursquare-canada", 1_340, 29_518, 63_514),
    "Italy": Country("Italy", "foursquare-italy", 1_353, 25_522, 54_088),
}
FILES = ("interactions.parquet", "items.parquet")  # laid out like those of foursquare-italy


def rows_of(country: Country) -> Interactions:
    """The users with at least 20 venues. Raises InputError if the files are not in the data folder."""
    if country.name == "Italy":
        return load(country.data)
    folder = data_home() / country.data
    if not present(country):
        fix = "the authors did not publish these rows; make the files from the TIST2015 check-ins"
        raise InputError(country.data, f"it is not in {folder}", expected=" and ".join(FILES), fix=fix)
    return replace(read(folder), name=country.data)


def present(country: Country) -> bool:
    """Whether the files of a country are in the data folder."""
    return all((data_home() / country.data / name).is_file() for name in FILES)
