"""Files that a test writes, and what reading them says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from entrenous.core.errors import InputError
from entrenous.data.interactions import Interactions
from entrenous.data.load import load


def put(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def refused(path: Path, **options: Any) -> str:
    with pytest.raises(InputError) as refusal:
        load(path, **options)
    message = str(refusal.value)
    assert "\n" not in message
    return message


def pairs(data: Interactions) -> list[tuple[str, str]]:
    items = data.items.ids[data.item]
    return list(zip(data.users.ids[data.user].tolist(), items.tolist(), strict=True))


def said(data: Interactions, words: str) -> bool:
    return any(words in note for note in data.notes)
