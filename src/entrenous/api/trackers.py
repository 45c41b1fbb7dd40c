"""Callbacks that hand each look at validation to an experiment tracker: `entrenous.run(...,
every=10, on_round=to_mlflow(mlflow))`.

The tracker's own object is passed in, so that nothing is imported here and any version of it will
do.
"""

from __future__ import annotations

from typing import Any

from ..runs.train import OnRound


def to_mlflow(mlflow: Any) -> OnRound:
    """A callback for MLflow. mlflow: the module, or anything with `log_metric(key, value,
    step=...)`. `hr@10` is called `hr_at_10`, since MLflow has no @ in names."""

    def on_round(number: int, metrics: dict[str, float]) -> None:
        for name, value in metrics.items():
            mlflow.log_metric(name.replace("@", "_at_"), value, step=number)

    return on_round


def to_tensorboard(writer: Any) -> OnRound:
    """A callback for TensorBoard. writer: a `SummaryWriter` of torch.utils.tensorboard or
    tensorboardX.
    """

    def on_round(number: int, metrics: dict[str, float]) -> None:
        for name, value in metrics.items():
            writer.add_scalar(f"validation/{name}", value, number)

    return on_round


def to_wandb(run: Any) -> OnRound:
    """A callback for Weights & Biases. run: what `wandb.init` returns."""

    def on_round(number: int, metrics: dict[str, float]) -> None:
        if metrics:
            run.log(metrics, step=number)

    return on_round
