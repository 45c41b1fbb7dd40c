"""Bytes of a text file to plain UTF-8: encoding, control characters and line ends are checked
before anything else reads them.
"""

from __future__ import annotations

import codecs
import re
from typing import NoReturn

from ..core.errors import InputError

# All but tab and the line ends.
CONTROL = bytes(code for code in range(32) if code not in (9, 10, 13)) + b"\x7f"
END_OF_FILE = b"\x1a"
CLEAN = (
    "remove it, such as with: tr -d '\\000-\\010\\013\\014\\016-\\037\\177'; or get the file again"
)
# The longer marks first: one of UTF-16 begins one of UTF-32.
WIDE = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


def plain_text(raw: bytes, source: str, encoding: str, notes: list[str]) -> bytes:
    """Converts text to UTF-8 without byte order mark or CR, and adds to `notes` what it changed.

    Raises InputError for UTF-16 or other text that was not declared, bytes that are not in the
    declared encoding, and line ends of CR alone.
    """
    # The encoding first: bytes are line ends in UTF-8 alone.
    text = _line_ends(_to_utf8(raw, source, encoding, notes), source, notes)
    if text.endswith(END_OF_FILE):
        notes.append("the end-of-file character of DOS is left out")
        text = text.removesuffix(END_OF_FILE)
    return text


def _to_utf8(raw: bytes, source: str, encoding: str, notes: list[str]) -> bytes:
    """Returns the text in UTF-8 without byte order mark."""
    name = codecs.lookup(encoding).name
    if name in ("utf-8", "utf-8-sig"):
        return _checked_utf8(raw, source, notes)
    try:
        text = raw.decode(encoding).removeprefix("\ufeff").encode("utf-8")
    except (UnicodeError, ValueError) as wrong:
        # Not every codec says where it failed; the first line is as good a place as any then.
        line = raw.count(b"\n", 0, getattr(wrong, "start", 0)) + 1
        raise InputError(
            f"{source}:{line}",
            f"not valid {name}",
            expected=f"{name} text, as declared",
            fix="check the encoding",
        ) from None
    notes.append(f"read as {name}, as declared")
    return text


def _checked_utf8(raw: bytes, source: str, notes: list[str]) -> bytes:
    """Returns the bytes without byte order mark, if they are UTF-8."""
    for mark, name in WIDE:
        if raw.startswith(mark):
            _refuse_wide(source, name)
    if raw.startswith(codecs.BOM_UTF8):
        raw = raw[len(codecs.BOM_UTF8) :]
        notes.append("skipped a byte order mark")
    # Text in a Latin alphabet is full of NUL bytes in UTF-16, which may lack its mark.
    head = raw[:4096]
    if head.count(0) > len(head) // 4:
        _refuse_wide(source, "UTF-16")
    try:
        if not raw.isascii():
            raw.decode("utf-8")
    except UnicodeDecodeError as wrong:
        line = raw.count(b"\n", 0, wrong.start) + 1
        raise InputError(
            f"{source}:{line}",
            f"byte 0x{raw[wrong.start]:02x} is not UTF-8",
            expected="UTF-8 text",
            fix="declare what it is: encoding='latin-1' (--load encoding=latin-1)",
        ) from None
    return raw


def _refuse_wide(source: str, name: str) -> NoReturn:
    encoding = name.lower()
    fix = f"convert it to UTF-8, or declare it: encoding='{encoding}' (--load encoding={encoding})"
    raise InputError(f"{source}:1", f"the file is {name}", expected="UTF-8 text", fix=fix)


def has_control(text: bytes) -> bool:
    """Tells whether a text has control characters other than tabs and line ends."""
    # Removing them all is the fastest way to see that there are none.
    return len(text.translate(None, CONTROL)) < len(text)


def control_in(text: str) -> str:
    """Returns words for the first control character of a text; "" if there is none."""
    match = re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", text)
    if match is None:
        return ""
    if match[0] == "\0":
        return "a NUL byte"
    return f"a control character (0x{ord(match[0]):02x})"


def refuse_control(text: bytes, source: str, characters: bytes = CONTROL, *, line: int = 1) -> None:
    """Raises InputError for the first of some control characters. line: the number of the first
    line of the text.
    """
    control = re.search(b"[" + re.escape(characters) + b"]", text)
    if control is None:
        return
    line += text.count(b"\n", 0, control.start())
    raise InputError(
        f"{source}:{line}",
        control_in(control[0].decode("ascii")),
        expected="plain text",
        fix=CLEAN,
    )


def _line_ends(text: bytes, source: str, notes: list[str]) -> bytes:
    """Returns the text with LF at the end of each line, for LF or CR LF."""
    if b"\r" not in text:
        return text
    if b"\n" not in text:
        raise InputError(
            f"{source}:1",
            "lines end in a carriage return alone",
            expected="lines that end in LF or CR LF",
            fix="convert the line ends, for example: tr '\\r' '\\n'",
        )
    notes.append("line ends are CR LF")
    text = text.replace(b"\r\n", b"\n").removesuffix(b"\r")
    if b"\r" in text:
        line = text.count(b"\n", 0, text.index(b"\r")) + 1
        raise InputError(
            f"{source}:{line}",
            "a carriage return inside the line",
            expected="lines that end in LF or CR LF",
            fix="remove it",
        )
    return text


def refuse_long(where: str, size: int, limit: int) -> NoReturn:
    """Raises InputError for a line of `size` bytes, more than `limit`."""
    raise InputError(
        where,
        f"the line is {size:,} bytes long",
        expected=f"lines of at most {limit:,} bytes",
        fix="check the line ends and the format",
    )
