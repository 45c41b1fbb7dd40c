"""Bytes to plain UTF-8 text with LF line ends: what is not that is refused with its line, or
converted if it was declared.
"""

from __future__ import annotations

import codecs
import re
from typing import NoReturn

from ..core.errors import InputError

CONTROL = bytes(code for code in range(32) if code not in (9, 10, 13)) + b"\x7f"
WIDE = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


def plain_text(raw: bytes, source: str, encoding: str, notes: list[str]) -> bytes:
    """The same text as UTF-8 without byte order mark, CR or control characters. Adds to `notes`
    what it changed.

    Raises InputError for UTF-16 or other text that was not declared, bytes that are not in the
    declared encoding, NUL and other control characters, and line ends of CR alone."""
    return _line_ends(_to_utf8(raw, source, encoding, notes), source, notes)


def _to_utf8(raw: bytes, source: str, encoding: str, notes: list[str]) -> bytes:
    name = codecs.lookup(encoding).name
    if name in ("utf-8", "utf-8-sig"):
        return _checked_utf8(raw, source, notes)
    try:
        text = raw.decode(encoding).removeprefix("\ufeff").encode("utf-8")
    except (UnicodeError, ValueError) as wrong:
        line = raw.count(b"\n", 0, getattr(wrong, "start", 0)) + 1
        raise InputError(
            f"{source}:{line}",
            f"not valid {name}",
            expected=f"{name} text, as declared",
            fix="check the encoding",
        ) from None
    notes.append(f"read as {name}, as declared")
    _refuse_control(text, source)
    return text


def _checked_utf8(raw: bytes, source: str, notes: list[str]) -> bytes:
    for mark, name in WIDE:
        if raw.startswith(mark):
            _refuse_wide(source, name)
    if raw.startswith(codecs.BOM_UTF8):
        raw = raw[len(codecs.BOM_UTF8) :]
        notes.append("skipped a byte order mark")
    _refuse_control(raw, source)
    try:
        if not raw.isascii():
            raw.decode("utf-8")
    except UnicodeDecodeError as wrong:
        line, byte = raw.count(b"\n", 0, wrong.start) + 1, raw[wrong.start]
        fix = "declare what it is: encoding='latin-1' (--load encoding=latin-1)"
        raise InputError(
            f"{source}:{line}", f"byte 0x{byte:02x} is not UTF-8", expected="UTF-8 text", fix=fix
        ) from None
    return raw


def _refuse_wide(source: str, name: str) -> NoReturn:
    fix = (
        f"convert it to UTF-8, or declare it: encoding='{name.lower()}' (--load"
        f" encoding={name.lower()})"
    )
    raise InputError(f"{source}:1", f"the file is {name}", expected="UTF-8 text", fix=fix)


def _refuse_control(raw: bytes, source: str) -> None:
    if len(raw.translate(None, CONTROL)) == len(raw):
        return
    found = re.search(b"[" + re.escape(CONTROL) + b"]", raw)
    assert found is not None
    head = raw[:4096]
    if head.count(0) > len(head) // 4:
        _refuse_wide(source, "UTF-16")
    line, byte = raw.count(b"\n", 0, found.start()) + 1, raw[found.start()]
    problem = "a NUL byte" if byte == 0 else f"a control character (0x{byte:02x})"
    raise InputError(
        f"{source}:{line}",
        problem,
        expected="plain text",
        fix="the file is damaged or is not a text file; write it again",
    )


def _line_ends(text: bytes, source: str, notes: list[str]) -> bytes:
    if b"\r" not in text:
        return text
    if b"\n" not in text:
        fix = "convert the line ends, for example: tr '\\r' '\\n'"
        raise InputError(
            f"{source}:1",
            "lines end in a carriage return alone",
            expected="lines that end in LF or CR LF",
            fix=fix,
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
