"""`plain` makes text from outside fit to be shown on a terminal. It is the one filter between a
name, a title or an address and a screen.
"""

from __future__ import annotations

import unicodedata

# Categories: control characters (C0, DEL, C1), halves of surrogate pairs, separators of lines.
OBEYED = ("Cc", "Cs", "Zl", "Zp")
# Marks of the direction of text.
TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
# Tags: letters that nobody sees.
UNSEEN = range(0xE0000, 0xE0080)


def plain(text: str, keep: str = "") -> str:
    r"""Returns a text in which each character that a terminal obeys, or that turns the text around
    it, is written out. keep: characters that stay.

    Such a character can erase the line above, set the window's title, or show a name backwards.
    It becomes `\u` and its number, so that a reader sees that it was there; inside the strings of
    JSON that means the same character.

    >>> print(plain("WITHOUT TLS\x1b[2K\x9b1A"), plain("a\u202eb"), plain("naïve 日本"))
    WITHOUT TLS\u001b[2K\u009b1A a\u202eb naïve 日本
    """
    # Nearly every text is plain already.
    if text.isascii() and text.isprintable():
        return text
    letters = []
    for letter in text:
        if letter not in keep and _is_obeyed(letter):
            letter = _written_out(letter)
        letters.append(letter)
    return "".join(letters)


def counted(number: int, noun: str) -> str:
    """Returns a number with its noun: 1 user, 20 users."""
    return f"{number} {noun}{'s' if number != 1 else ''}"


def summary_of(docstring: str | None) -> str:
    """Returns the first paragraph of a docstring as one line, "" where there is none."""
    first = (docstring or "").strip().split("\n\n")[0]
    return " ".join(first.split())


def _is_obeyed(letter: str) -> bool:
    """Tells whether a terminal obeys a character, or hides it, instead of showing it."""
    return letter in TURNING or ord(letter) in UNSEEN or unicodedata.category(letter) in OBEYED


def _written_out(letter: str) -> str:
    """Returns a character as `\\u` and four digits, or as two of these."""
    units = letter.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
