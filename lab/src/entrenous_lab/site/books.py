"""The made-up book club of the tutorials, whose readers have tastes that can be learnt."""

from __future__ import annotations

import numpy as np

READERS = 240
FIRST = ("Salt", "Glass", "Winter", "Paper", "Iron", "River", "Amber", "Hollow", "Silver", "Quiet")
LAST = {
    "crime": ("Alibi", "Witness", "Verdict"),
    "history": ("Crown", "Letters", "Bridge"),
    "nature": ("Orchard", "Tides", "Meadow"),
    "science": ("Atlas", "Theorem", "Orbit"),
    "fantasy": ("Dragon", "Oath", "Tower"),
    "cooking": ("Kitchen", "Bread", "Spice"),
}
BOOKS = len(FIRST) * sum(len(words) for words in LAST.values())
DAY = np.datetime64("2024-01-01")


def books_csv(seed: int = 7) -> str:
    """Returns the file of the club: a row for each book that a reader finished, with stars and the
    day.

    Nobody is in it: each reader is drawn with two genres of preference, and each genre has books
    that are read more than others.
    """
    rng = np.random.default_rng(seed)
    titles: list[str] = []
    genres: list[str] = []
    for name, words in LAST.items():
        for word in words:
            titles += [f"{first} {word}" for first in FIRST]
            genres += [name] * len(FIRST)
    genre = np.array(genres)
    popularity = 1.0 / (1 + rng.permutation(BOOKS) % 30)
    lines = ["user,item,rating,time"]
    for reader in range(READERS):
        favourite, second = rng.choice(list(LAST), 2, replace=False)
        taste = np.full(BOOKS, 0.05)
        taste[genre == second] = 0.4
        taste[genre == favourite] = 1.0
        weight = popularity * taste
        count = int(rng.integers(8, 25))
        chosen = rng.choice(BOOKS, count, replace=False, p=weight / weight.sum())
        days = np.sort(rng.choice(700, count, replace=False))
        for book, day in zip(chosen.tolist(), days.tolist(), strict=True):
            liked = 4 if taste[book] >= 0.4 else 3
            stars = int(np.clip(liked + rng.integers(-1, 2), 1, 5))
            lines.append(f"r{reader:03d},{titles[book]},{stars},{DAY + day}")
    return "\n".join(lines) + "\n"
