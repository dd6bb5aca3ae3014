"""Records of the minimization of an action, and its result."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from ebm._frames import frame
from ebm._pictures import picture
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
    """A record in the history of a minimization; numbers that need validation rows may be NaN.

    Parameters
    ----------
    step : int
        Number of updates so far.
    epoch : float
        Number of passes over the rows so far.
    learning_rate : float
        Learning rate of the last update; at step 0 that of the first.
    batch_action : float
        Mean of S over the batches since the preceding record; NaN at the first.
    training_action, validation_action : float
        S_T and S_E in nats, without κ and λ.
    training_accuracy, validation_accuracy : float
        Fraction, by weight, of the rows whose label has the largest logit.
    gradient_product, gradient_cosine : float
        ∇S_T·∇S_E, and the cosine of the angle between the two gradients.
    update_product : float
        ∇S_E·Δθ with ∇S_E at the preceding record and Δθ the change of θ since then, cf. [ACT] eq 7;
        not negative where S_E no longer falls, NaN at the first record.
    series : tuple of float
        S_0 … S_K of the training rows along the ray through θ.
    terms : mapping of str to float
        Terms of S_1 … S_4 by name, as in :func:`ebm.networks.closed_forms`.
    """

    series: tuple[float, ...] = ()
    terms: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, repr=False)
class TrainingResult:
    """The result of a minimization.

    Parameters
    ----------
    theta : ndarray or Tensor, (d,)
        θ of the record with the lowest S_E; the last θ if there are no validation rows.
    last_theta : ndarray or Tensor, (d,)
        θ after the last update.
    message : str
        Reason of the end in a sentence.
    stopped_early : bool
        Whether training stopped because S_E no longer fell.
    n_steps, best_step : int
        Number of updates in all, and up to ``theta``.
    history : tuple of TrainingRecord
        Records in the order of the steps, from step 0.
    seconds, monitor_seconds : float
        Wall time of the minimization, and of its records alone.
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
        """One field of all records.

        Parameters
        ----------
        name : str
            Name of a field of :class:`TrainingRecord`, such as ``"validation_action"``.

        Returns
        -------
        ndarray, (n_records,) or (n_records, K+1) for the series
            In the order of the steps.

        Raises
        ------
        ModelError
            If records have no such field.
        """
        known = [column.name for column in fields(TrainingRecord) if column.name != "terms"]
        if name not in known:
            raise ModelError(f"name must be one of {', '.join(known)}, got {name!r}")
        return np.array([getattr(record, name) for record in self.history], dtype=np.float64)

    def to_frame(self) -> Any:
        """The history, a row for each record by its step, as a frame; needs the extra ``data``.

        Returns
        -------
        pandas.DataFrame
            The numbers of :class:`TrainingRecord` by name; S_0 … S_K as ``series_0`` and so on, and
            terms by their own names.
        """
        names = [column.name for column in fields(TrainingEntry)]
        columns: dict[str, Any] = {name: [getattr(r, name) for r in self.history] for name in names}
        for k in range(len(self.history[-1].series) if self.history else 0):
            columns[f"series_{k}"] = [record.series[k] for record in self.history]
        for term in self.history[-1].terms if self.history else ():
            columns[term] = [record.terms[term] for record in self.history]
        return frame(columns, "step")

    def plot(self, quantity: str | None = None, *, ax: Any = None) -> Any:
        """The actions against the steps, :func:`ebm.plotting.learning_curve`."""
        return picture("learning_curve", self, quantity, ax=ax)


@dataclass(frozen=True)
class Records:
    """Interval and rows of the records of a minimization.

    Parameters
    ----------
    every : int, optional
        Number of steps between records, an epoch by default; 0 for no records.
    n_rows : int
        Largest number of training rows, and of validation rows, that are measured. They are drawn
        once for all records.
    series_order : int, optional
        K of the power series in the records; by default there is no series.

    Examples
    --------
    >>> from ebm.networks import Records
    >>> Records(every=10, series_order=4)
    Records(every=10, n_rows=2000, series_order=4)
    """

    every: int | None = None
    n_rows: int = 2000
    series_order: int | None = None
