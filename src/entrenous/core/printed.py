"""`plain`: what came from outside, as it may be shown on a terminal. The one filter between a name,
a title or an address and a screen."""

from __future__ import annotations

import unicodedata

# categories: control characters (C0, DEL, C1), halves of surrogate pairs, separators of lines
OBEYED = ("Cc", "Cs", "Zl", "Zp")
# marks of the direction of text
TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
UNSEEN = range(0xE0000, 0xE0080)  # tags: letters that nobody sees


def plain(text: str, keep: str = "") -> str:
    r"""A text in which each character that a terminal obeys, or that turns the text around it, is
    written out. keep: characters that stay.

    Such a character can erase the line above, set the window's title, or show a name backwards.
    It becomes `\u` and its number, so that who reads sees that it was there; inside the strings of
    JSON that means the same character.

    >>> print(plain("WITHOUT TLS\x1b[2K\x9b1A"), plain("a\u202eb"), plain("naïve 日本"))
    WITHOUT TLS\u001b[2K\u009b1A a\u202eb naïve 日本
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(one if one in keep or not _is_obeyed(one) else _written_out(one) for one in text)


def summary_of(docstring: str | None) -> str:
    """Returns the first paragraph of a docstring as one line, "" where there is none."""
    first = (docstring or "").strip().split("\n\n")[0]
    return " ".join(first.split())


def _is_obeyed(one: str) -> bool:
    return one in TURNING or ord(one) in UNSEEN or unicodedata.category(one) in OBEYED


def _written_out(one: str) -> str:
    """A character as `\\u` and four digits, or as two of these."""
    units = one.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
