"""What is recorded while an action is minimized, and what remains of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from ebm.errors import ModelError

__all__ = ["Records", "TrainingEntry", "TrainingRecord", "TrainingResult"]


@dataclass(frozen=True)
class TrainingEntry:
    """The numbers of a :class:`TrainingRecord`."""

    step: int
    epoch: float = math.nan
    learning_rate: float = math.nan
    batch_action: float = math.nan
    training_action: float = math.nan
    validation_action: float = math.nan
    training_accuracy: float = math.nan
    validation_accuracy: float = math.nan
    gradient_product: float = math.nan
    gradient_cosine: float = math.nan
    update_product: float = math.nan


@dataclass(frozen=True)
class TrainingRecord(TrainingEntry):
    """A line of the history of a minimization; NaN where there are no validation rows.

    Parameters
    ----------
    step : int
        Updates made so far.
    epoch : float
        The same in passes over the rows.
    learning_rate : float
        Of the last update, or of the first one at step 0.
    batch_action : float
        Mean of S over the batches since the record before; NaN at the first.
    training_action, validation_action : float
        S_T and S_E, nats, without κ and λ.
    training_accuracy, validation_accuracy : float
        Share of the weight of rows whose label has the largest logit.
    gradient_product, gradient_cosine : float
        ∇S_T·∇S_E, and the cosine of the angle between them.
    update_product : float
        ∇S_E·Δθ, eq 7: ∇S_E at the record before, Δθ all that θ has moved since then. Not negative
        where S_E no longer falls. NaN at the first.
    series : tuple of float
        S_0 … S_K of the training rows along the ray through θ.
    terms : mapping of str to float
        The parts of S_1 … S_4 by name, as :func:`ebm.networks.closed_forms` has them.
    """

    series: tuple[float, ...] = ()
    terms: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, repr=False)
class TrainingResult:
    """Where a minimization ended, and how it went.

    Parameters
    ----------
    theta : ndarray or Tensor, (d,)
        Where S_E was lowest among the records; the last θ if there are no validation rows.
    last_theta : ndarray or Tensor, (d,)
        θ after the last update.
    message : str
        Why the minimization ended, in a sentence.
    stopped_early : bool
        Whether S_E no longer fell.
    n_steps, best_step : int
        Updates made in all, and up to ``theta``.
    history : tuple of TrainingRecord
        A record every ``every`` steps, from step 0.
    seconds, monitor_seconds : float
        Wall time in all, and of the records.
    """

    theta: Any
    last_theta: Any
    message: str
    stopped_early: bool
    n_steps: int
    best_step: int
    history: tuple[TrainingRecord, ...] = field(default=())
    seconds: float = 0.0
    monitor_seconds: float = 0.0

    def __repr__(self) -> str:
        return f"TrainingResult({self.n_steps} steps, best at {self.best_step}: {self.message})"

    def curve(self, name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        """A number of each record.

        Parameters
        ----------
        name : str
            Of a field of :class:`TrainingRecord`, such as ``"validation_action"``.

        Returns
        -------
        ndarray, (n_records,) or (n_records, K+1) for the series
            In the order of the steps.

        Raises
        ------
        ModelError
            If records have no such field.
        """
        known = [entry.name for entry in fields(TrainingRecord) if entry.name != "terms"]
        if name not in known:
            raise ModelError(f"name must be one of {', '.join(known)}, got {name!r}")
        return np.array([getattr(record, name) for record in self.history], dtype=np.float64)


@dataclass(frozen=True)
class Records:
    """When the progress of a minimization is recorded, and from what.

    Parameters
    ----------
    every : int, optional
        Steps between records, an epoch by default; 0 for no records.
    n_rows : int
        Training rows, and validation rows, that records are made of: chosen once.
    series_order : int, optional
        K of the power series in the records; none by default.

    Examples
    --------
    >>> from ebm.networks import Records
    >>> Records(every=10, series_order=4)
    Records(every=10, n_rows=2000, series_order=4)
    """

    every: int | None = None
    n_rows: int = 2000
    series_order: int | None = None
