"""Minimizing the action of a softmax-MLP, with any optimizer of torch."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ebm._arrays import as_integer
from ebm._randomness import RandomSource, generator
from ebm.errors import EbmError, ModelError, ShapeError
from ebm.networks._descent import Descent
from ebm.networks._plans import Plan
from ebm.networks._rows import Batches, LabelledRows, RowSettings, labelled_rows, subset
from ebm.networks._stored_runs import digest_of, seed_of
from ebm.networks._tensors import like
from ebm.networks._torch_optimizers import OptimizerFactory, Schedule
from ebm.networks.action._energy import MLPEnergy
from ebm.networks.series.power_series import checked_order
from ebm.networks.training_record import Monitor, TrainingRecord

__all__ = ["TrainingResult", "initial_parameters", "minimize"]


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
        A record every ``monitor_every`` steps, from step 0.
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


def minimize(
    action: MLPEnergy,
    theta: Any = None,
    *,
    optimizer: str | OptimizerFactory = "adam",
    lr: Schedule | None = None,
    n_epochs: int = 10,
    batch_size: int | None = None,
    validation: tuple[Any, Any] | None = None,
    patience: int | None = None,
    monitor_every: int | None = None,
    monitor_rows: int = 2000,
    series_order: int | None = None,
    mixed_precision: bool = False,
    compiled: bool = False,
    rng: RandomSource = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int | None = None,
    progress: bool = False,
) -> TrainingResult:
    """Minimize E(θ)/κ = S(θ) + (λ/2κ)|θ|² by an optimizer of torch.

    With validation rows, S_E is their action, and training can stop where it no longer falls:

        ∇S_E(θ_k)·(θ_l − θ_k) ≥ 0,   θ_k and θ_l the parameters at two records in a row.

    With a record at every step that is the criterion of eq 7 for the actual update of any
    optimizer, and for gradient descent ∇S_T·∇S_E ≤ 0. With fewer records the update is that of all
    steps between them, which averages the noise of mini-batches.

    Parameters
    ----------
    action : SoftmaxMLPAction
        With the training rows; its device and dtype are those of the arithmetic.
    theta : array_like or Tensor, (d,), optional
        Where to start, by default :func:`initial_parameters`.
    optimizer : str or callable
        ``"sgd"``, ``"momentum"`` (0.9), ``"adam"``, ``"adamw"``, ``"rmsprop"`` or ``"lbfgs"``; or a
        function from the network, an ``nn.Sequential`` with layers ``hidden`` and ``logits``, to
        an optimizer: ``lambda network: torch.optim.SGD(network.parameters(), lr=0.1)``.
    lr : float or callable, optional
        Learning rate, or a function of the number of the step, from 0. By default that of the
        optimizer.
    n_epochs : int
        Passes over the rows.
    batch_size : int, optional
        Rows of a step, drawn without replacement in each epoch; all rows if None, read in blocks.
        Rows of a DataLoader are not shuffled.
    validation : (inputs, labels), optional
        Rows that are not learnt from.
    patience : int, optional
        Stop after so many records in a row at which S_E no longer falls; None: never. 1 does where
        there is no noise and S_T falls at every step, not at rates at the edge of stability.
    monitor_every : int, optional
        Steps between records, an epoch by default; 0 for no records.
    monitor_rows : int
        Training rows, and validation rows, that records are made of: chosen once, by ``rng``.
    series_order : int, optional
        K of the power series in the records; none by default.
    mixed_precision : bool
        Whether products run in bfloat16 (float32 only).
    compiled : bool
        Whether the network goes through ``torch.compile``, which needs a C++ compiler, and some
        seconds before the first step: a gain for long trainings of wide networks.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
        Source of the start, of the order of the rows, and of the rows of the records.
    checkpoint : path-like, optional
        File that is written every ``checkpoint_every`` steps. If it is there the run goes on from
        it, to the same bits as if it had never stopped; give the same arguments.
    checkpoint_every : int, optional
        Steps, an epoch by default.
    progress : bool
        Show a progress bar.

    Returns
    -------
    TrainingResult
        Parameters in the kind of ``theta`` (arrays if not given), and the history.

    Raises
    ------
    ModelError
        If a setting is out of range.
    ShapeError
        If a number of steps or rows is no integer, or ``theta`` or ``validation`` does not fit.
    DivergenceError
        At the first loss, record or parameter that is not finite; the message names the step and
        the learning rate, ``error.model`` is θ at the record before.
    FileFormatError
        If ``checkpoint`` is another file, or damaged.
    EbmError
        If ``checkpoint`` belongs to a run with other settings.
    OSError
        If ``checkpoint`` cannot be written; found out before the first step.

    Examples
    --------
    >>> import ebm.networks
    >>> action = ebm.networks.SoftmaxMLPAction([[1.0], [2.0], [4.0]], [0, 1, 1], n_hidden=2)
    >>> result = ebm.networks.minimize(action, optimizer="lbfgs", n_epochs=20, rng=1)
    >>> bool(action.action(result.theta) < 0.1)
    True
    """
    key = _key(rng, checkpoint)
    start = (
        initial_parameters(action, np.random.default_rng([key, 0, 3])) if theta is None else theta
    )
    vector = action.one_vector(start).detach()
    if mixed_precision and action.dtype is not torch.float32:
        raise ModelError("mixed_precision needs an action with dtype=torch.float32")
    size = None if batch_size is None else as_integer(batch_size, "batch_size")
    batches = Batches(action.rows, size, key, action.block_size())
    per_epoch = batches.per_epoch()
    held_out = _validation(action, validation)
    if patience is not None and (held_out is None or monitor_every == 0):
        raise ModelError("patience needs validation=(inputs, labels), and records")
    plan = Plan(
        optimizer=optimizer,
        lr=lr,
        n_steps=as_integer(n_epochs, "n_epochs", 0) * per_epoch,
        per_epoch=per_epoch,
        patience=None if patience is None else as_integer(patience, "patience"),
        monitor_every=_steps(monitor_every, per_epoch, "monitor_every", 0),
        checkpoint=checkpoint,
        checkpoint_every=_steps(checkpoint_every, per_epoch, "checkpoint_every", 1),
        mixed_precision=mixed_precision,
        compiled=compiled,
    )
    monitor = _monitor(action, held_out, monitor_rows, series_order, key)

    def marks() -> dict[str, str]:
        found = {
            "batch_size": str(batch_size),
            "monitor_rows": str(monitor_rows),
            "series_order": str(series_order),
            "validation": "none" if held_out is None else digest_of(held_out),
        }
        # Without a seed every process draws another start.
        if rng is not None or theta is not None:
            found["start"] = digest_of(vector)
        return found if rng is None else {**found, "rng": str(key)}

    descent = Descent(action, vector, batches, monitor, plan, marks)
    reason = descent.run(progress)
    best, best_step = descent.best()
    return TrainingResult(
        like(best, start),
        like(descent.theta(), start),
        descent.sentence(reason),
        reason == "stopped",
        descent.step,
        best_step,
        tuple(descent.records),
        descent.seconds,
        descent.monitor_seconds,
    )


def initial_parameters(action: MLPEnergy, rng: RandomSource = None) -> Any:
    """Where torch starts linear layers: uniform in ±1/√E for W and b, in ±1/√H for U and c.

    Parameters
    ----------
    action : SoftmaxMLPAction
        The system.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
        Source of randomness.

    Returns
    -------
    ndarray, (d,)
        A start.

    Examples
    --------
    >>> import ebm.networks
    >>> action = ebm.networks.SoftmaxMLPAction([[1.0], [2.0]], [0, 1], n_hidden=4)
    >>> bool(abs(action.unflatten(ebm.networks.initial_parameters(action, 0)).U).max() <= 0.5)
    True
    """
    source, shapes = generator(rng), action.shapes
    bounds = dict.fromkeys("Uc", 1 / math.sqrt(action.n_hidden))
    bounds |= dict.fromkeys("Wb", 1 / math.sqrt(action.rows.n_inputs))
    blocks = {name: source.uniform(-bounds[name], bounds[name], shapes[name]) for name in shapes}
    return action.flatten(**blocks)


def _key(rng: RandomSource, checkpoint: str | os.PathLike[str] | None) -> int:
    """Seed of the start, the order of the rows and the rows of the records."""
    if rng is None and checkpoint is not None and Path(checkpoint).exists():
        return seed_of(checkpoint)
    return int(generator(rng).integers(2**63))


def _steps(every: int | None, per_epoch: int, name: str, least: int) -> int:
    return per_epoch if every is None else as_integer(every, name, least)


def _validation(action: MLPEnergy, validation: Any) -> LabelledRows | None:
    """Validation rows that fit the action; classes may be missing among them."""
    if validation is None:
        return None
    if not isinstance(validation, tuple | list) or len(validation) != 2:
        raise ModelError("validation must be a pair (inputs, labels)")
    try:
        rows = labelled_rows(
            *validation,
            RowSettings(None, action.rows.n_classes, action.device, action.dtype),
            classes_may_be_empty=True,
        )
    except EbmError as error:
        raise type(error)(f"validation {error}") from error
    if rows.n_inputs != action.rows.n_inputs:
        raise ShapeError(
            f"validation inputs must have {action.rows.n_inputs} columns, got {rows.n_inputs}"
        )
    return rows


def _monitor(
    action: MLPEnergy, held_out: LabelledRows | None, n_rows: int, order: int | None, key: int
) -> Monitor:
    """What makes records, on rows that the seed chooses."""
    most = as_integer(n_rows, "monitor_rows")
    # Epochs are numbered from 0; these are other streams of the same seed.
    chosen = [np.random.default_rng([key, 0, side]) for side in (1, 2)]
    training = action.with_rows(subset(action.rows, most, chosen[0]))
    validation = None
    if held_out is not None:
        validation = action.with_rows(subset(held_out, most, chosen[1]))
    return Monitor(training, validation, None if order is None else checked_order(order))
