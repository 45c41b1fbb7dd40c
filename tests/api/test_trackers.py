"""Trackers are told of every look at validation, by the calls that their libraries have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from command_line import shop

import entrenous
from entrenous.api.trackers import to_mlflow, to_tensorboard, to_wandb

Call = tuple[Any, ...]


class Library:
    """What the three libraries offer, by their own signatures."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def log_metric(self, key: str, value: float, step: int | None = None) -> None:  # mlflow
        assert "@" not in key
        self.calls.append((key, value, step))

    def add_scalar(
        self, tag: str, scalar_value: float, global_step: int | None = None
    ) -> None:  # SummaryWriter
        self.calls.append((tag, scalar_value, global_step))

    def log(self, data: dict[str, Any], step: int | None = None) -> None:  # wandb
        self.calls.append((data, step))


def test_every_look_reaches_each_tracker(tmp_path: Path) -> None:
    data = shop(tmp_path)
    kinds = {to_mlflow: "hr_at_10", to_tensorboard: "validation/hr@10", to_wandb: None}
    for adapter, name in kinds.items():
        library = Library()
        run = entrenous.run(
            "fpl", data, protocol="loo-20", rounds=4, every=2, on_round=adapter(library)
        )
        expected = run.curve()["hr@10"].to_list()
        if name is None:
            assert [(step, said["hr@10"]) for said, step in library.calls] == list(
                zip([2, 4], expected, strict=True)
            )
        else:
            assert [call[1:] for call in library.calls if call[0] == name] == list(
                zip(expected, [2, 4], strict=True)
            )
