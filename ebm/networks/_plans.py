"""The settings of a minimization, and the bar that shows how far it is."""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass
from typing import Any

from ebm._progress import progress_bar
from ebm.networks._torch_optimizers import OptimizerFactory, Schedule
from ebm.networks.training_record import TrainingRecord

__all__ = ["Bar", "Plan"]


@dataclass(frozen=True, eq=False)
class Plan:
    """The settings of the loop; see :func:`ebm.networks.minimize`."""

    optimizer: str | OptimizerFactory
    lr: Schedule | None
    n_steps: int
    per_epoch: int
    patience: int | None
    monitor_every: int
    checkpoint: str | os.PathLike[str] | None
    checkpoint_every: int
    mixed_precision: bool
    compiled: bool


class Bar:
    """A bar of steps, or nothing."""

    def __init__(self, wanted: bool, total: int, done: int, seconds: float) -> None:
        self._bar: Any = None
        # As if all of it had been done in one go.
        self._since = time.perf_counter() - seconds
        if wanted:
            self._bar = progress_bar(total, "step", done)

    def tick(self) -> None:
        """One step more."""
        if self._bar is not None:
            self._bar.update(1)

    def show(self, record: TrainingRecord, seconds: float) -> None:
        """The losses of a record, and the share of the time that records took."""
        if self._bar is not None:
            values = {"S_T": record.training_action, "S_E": record.validation_action}
            shown = {name: f"{x:.4g}" for name, x in values.items() if not math.isnan(x)}
            shown["records"] = f"{seconds / (time.perf_counter() - self._since):.0%}"
            self._bar.set_postfix(shown, refresh=False)

    def close(self) -> None:
        """Leave the bar as it is."""
        if self._bar is not None:
            self._bar.close()
