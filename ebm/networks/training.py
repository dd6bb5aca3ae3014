"""Minimization of the action of a softmax-MLP by any optimizer of torch."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ebm._arrays import as_integer
from ebm._checkpoints import checkpoint_path, fingerprint, read_checkpoint
from ebm._iterate import State, iterate
from ebm._progress import progress_bar
from ebm._randomness import RandomSource, generator
from ebm._types import Array
from ebm.errors import MEMORY_LIMIT, EbmError, ModelError, require_memory
from ebm.networks._labelled_rows import Batches, LabelledRows, RowSettings, rows_for_network, subset
from ebm.networks._tensors import like
from ebm.networks._updates import (
    Measurement,
    OptimizerFactory,
    Schedule,
    Updates,
    array_of,
    digest_of,
    series_of,
)
from ebm.networks.action._energy import MLPEnergy, require_action
from ebm.networks.records import Records, TrainingEntry, TrainingRecord, TrainingResult
from ebm.networks.series.power_series import checked_order

__all__ = ["TorchSteps", "initial_parameters", "minimize"]


@dataclass(frozen=True)
class TorchSteps:
    """Updates by an optimizer of torch.

    Parameters
    ----------
    optimizer : str or callable
        ``"sgd"``, ``"momentum"`` (0.9), ``"adam"``, ``"adamw"``, ``"rmsprop"`` or ``"lbfgs"``; or a
        function from the network, an ``nn.Sequential`` with layers ``hidden`` and ``logits``, to
        an optimizer: ``lambda network: torch.optim.SGD(network.parameters(), lr=0.1)``.
    lr : float or callable, optional
        Learning rate, or a function of the number of the step, from 0. By default that of the
        optimizer.
    n_epochs : int
        Number of passes over the rows.
    batch_size : int, optional
        Number of rows of a step, drawn without replacement in each epoch; by default all rows, in
        blocks. Rows of a DataLoader are not shuffled.
    patience : int, optional
        Number of consecutive records at which S_E no longer falls before training stops; by default
        it does not stop early. One record is enough where S_T falls at every step, without noise
        and below the edge of stability.
    records : Records
        Interval and rows of the records.
    mixed_precision : bool
        Whether matrix products run in bfloat16 (float32 only).
    compiled : bool
        Whether ``torch.compile`` compiles the network. This needs a C++ compiler and some seconds
        before the first step, and pays for long trainings of wide networks.

    Examples
    --------
    >>> from ebm.networks import Records, TorchSteps
    >>> TorchSteps("adam", lr=0.01, n_epochs=5, records=Records(every=10)).n_epochs
    5
    """

    optimizer: str | OptimizerFactory = "adam"
    lr: Schedule | None = None
    n_epochs: int = 10
    batch_size: int | None = None
    patience: int | None = None
    records: Records = field(default_factory=Records)
    mixed_precision: bool = False
    compiled: bool = False

    record_type = TrainingEntry

    def start(self, loss: Any, theta: Array, rng: Any) -> State:
        """The state before the first update."""
        state: State = loss.state
        return state

    def step(self, loss: Any, state: State) -> State:
        """The state after one more update."""
        following: State = loss.after(state)
        return following

    def record(self, loss: Any, state: State) -> TrainingEntry | None:
        """A record where one is due, of the step alone if ``records.every`` is 0; else None."""
        entry: TrainingEntry | None = loss.at(state).entry()
        return entry

    def verdict(self, loss: Any, state: State, history: Sequence[Any]) -> str:
        """``"stopped"`` if S_E no longer falls, ``"epochs"`` after the last epoch, else ``""``."""
        run: _Training = loss.at(state)
        if run.is_calm():
            return "stopped"
        return "epochs" if run.updates.step >= run.n_steps else ""

    def settings(self) -> Mapping[str, str]:
        """Settings that a run continued from a checkpoint must share."""
        return {
            "batch_size": str(self.batch_size),
            "every": str(self.records.every),
            "n_rows": str(self.records.n_rows),
            "series_order": str(self.records.series_order),
            "mixed_precision": str(self.mixed_precision),
            "compiled": str(self.compiled),
        }


#: Ten epochs of Adam on all rows at once.
DEFAULT_STEPS = TorchSteps()


def minimize(
    action: MLPEnergy,
    theta: Any = None,
    *,
    solver: TorchSteps = DEFAULT_STEPS,
    validation: tuple[Any, Any] | None = None,
    rng: RandomSource = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> TrainingResult:
    """Minimize E(θ)/κ = S(θ) + (λ/2κ)|θ|² by an optimizer of torch.

    S_E is the action of the validation rows, if given, and training can stop where it no longer
    falls:

        ∇S_E(θ_k)·(θ_l − θ_k) ≥ 0,   θ_k and θ_l the parameters at two consecutive records.

    With a record at every step this is the criterion of [ACT] eq 7 for the actual update of any
    optimizer, which for gradient descent is ∇S_T·∇S_E ≤ 0. With fewer records the update of all
    steps between them averages the noise of mini-batches.

    Parameters
    ----------
    action : SoftmaxMLPAction
        The action of the training rows, on whose device and in whose dtype the run takes place.
    theta : array_like or Tensor, (d,), optional
        Initial parameters, by default :func:`initial_parameters`.
    solver : TorchSteps
        Optimizer, learning rate, epochs, batches and records.
    validation : (inputs, labels), optional
        Validation rows, which are not used for learning.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
        Source of the initial parameters, of the order of the rows, and of the rows of the records.
    checkpoint : path-like, optional
        File that is written with every record (with every epoch if there are none) and at an
        interrupt. A run with the same arguments continues from an existing file, to the same bits
        as an uninterrupted run.
    progress : bool
        Whether to show a progress bar.

    Returns
    -------
    TrainingResult
        The history, and parameters in the kind of ``theta`` (arrays by default).

    Raises
    ------
    ModelError
        If a setting is out of range.
    ShapeError
        If a number of steps or rows is no integer, or ``theta`` or ``validation`` does not fit.
    DivergenceError
        At the first loss, record or parameter that is not finite. The message names the step and
        the learning rate; ``error.model`` is θ at the preceding record.
    FileFormatError
        If ``checkpoint`` is no file of this library, or damaged.
    EbmError
        If ``checkpoint`` belongs to a run with other settings.
    OSError
        If ``checkpoint`` cannot be written, which is tested before the first step.

    Examples
    --------
    >>> import ebm.networks
    >>> action = ebm.networks.SoftmaxMLPAction([[1.0], [2.0], [4.0]], [0, 1, 1], n_hidden=2)
    >>> steps = ebm.networks.TorchSteps("lbfgs", n_epochs=20)
    >>> result = ebm.networks.minimize(action, solver=steps, rng=1)
    >>> bool(action.action(result.theta) < 0.1)
    True
    """
    require_action(action)
    if not isinstance(solver, TorchSteps):
        raise EbmError(f"solver must be ebm.networks.TorchSteps(…), got {solver!r}")
    key = _key(rng, checkpoint)
    start = (
        initial_parameters(action, np.random.default_rng([key, 0, 3])) if theta is None else theta
    )
    vector = action.one_vector(start).detach()
    held_out = _validation(action, validation)
    training = _Training(action, vector, solver, held_out, key, is_seeded=rng is not None)
    with _shown(training, progress) as show:
        run = iterate(solver, training, array_of(vector), checkpoint=checkpoint, progress=show)
    training.at(run.state)
    return training.result(run.history if training.every else (), run.reason, start)


def initial_parameters(action: MLPEnergy, rng: RandomSource = None) -> Any:
    """Initial parameters as in torch: uniform in ±1/√E for W and b, in ±1/√H for U and c.

    Parameters
    ----------
    action : SoftmaxMLPAction
        The system, which sets the shapes.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
        Source of randomness.

    Returns
    -------
    ndarray, (d,)
        θ.

    Examples
    --------
    >>> import ebm.networks
    >>> action = ebm.networks.SoftmaxMLPAction([[1.0], [2.0]], [0, 1], n_hidden=4)
    >>> bool(abs(action.unflatten(ebm.networks.initial_parameters(action, 0)).U).max() <= 0.5)
    True
    """
    require_action(action)
    n = action.space.n
    require_memory(8.0 * n, f"{n} parameters", "take fewer hidden units", limit=2 * MEMORY_LIMIT)
    source, shapes = generator(rng), action.shapes
    bounds = dict.fromkeys("Uc", 1 / math.sqrt(action.n_hidden))
    bounds |= dict.fromkeys("Wb", 1 / math.sqrt(action.rows.n_inputs))
    blocks = {name: source.uniform(-bounds[name], bounds[name], shapes[name]) for name in shapes}
    return action.flatten(**blocks)


class _Training:
    """A run of updates of an action, with the rows of learning and of measurement.

    The state of :func:`ebm._iterate.iterate` is a view of this run, whose arrays are copied out of
    torch's tensors on access: at a checkpoint, not at every step.
    """

    def __init__(
        self,
        action: MLPEnergy,
        theta: Tensor,
        solver: TorchSteps,
        held_out: LabelledRows | None,
        key: int,
        is_seeded: bool,
    ) -> None:
        if solver.mixed_precision and action.dtype is not torch.float32:
            raise ModelError("mixed_precision needs an action with dtype=torch.float32")
        size, records = solver.batch_size, solver.records
        size = None if size is None else as_integer(size, "batch_size")
        batches = Batches(action.rows, size, key, action.block_size())
        self.per_epoch = batches.per_epoch()
        patience = solver.patience
        if patience is not None and (held_out is None or records.every == 0):
            raise ModelError("patience needs validation=(inputs, labels), and records")
        self.n_steps = as_integer(solver.n_epochs, "n_epochs", 0) * self.per_epoch
        self.patience = None if patience is None else as_integer(patience, "patience")
        every = records.every
        self.every = self.per_epoch if every is None else as_integer(every, "every", 0)
        most, order = as_integer(records.n_rows, "n_rows"), records.series_order
        self.order = None if order is None else checked_order(order)
        # Batches take the streams [key, epoch]; these are other streams of the same seed.
        chosen = [np.random.default_rng([key, 0, side]) for side in (1, 2)]
        self.measured = action.with_rows(subset(action.rows, most, chosen[0]))
        self.validation: MLPEnergy | None = None
        if held_out is not None:
            self.validation = action.with_rows(subset(held_out, most, chosen[1]))
        self.updates = Updates(action, theta, batches, solver.optimizer, solver.lr)
        self.updates.mixed_precision = solver.mixed_precision
        if solver.compiled:
            self.updates.forward = torch.compile(self.updates.network)
        self._action, self._held_out, self._key, self._is_seeded = action, held_out, key, is_seeded
        self._start = array_of(theta)
        self._best: Tensor | None = None
        self._best_step, self._best_action, self._calm = 0, math.inf, 0
        self._series: list[list[float]] = []
        self._terms: list[dict[str, float]] = []
        self._since, self.monitor_seconds = time.perf_counter(), 0.0
        self._parts = self._arrays()
        self.state: State = _View(self._parts)

    @property
    def seconds(self) -> float:
        """Wall time of the run so far, including the time before a checkpoint."""
        return time.perf_counter() - self._since

    def settings(self) -> Mapping[str, str]:
        """Rows, network and initial parameters as text that is the same in every process."""
        action = self._action
        shapes = ", ".join(f"{name} {shape}" for name, shape in action.shapes.items())
        words = {
            "start": fingerprint(self._start),
            "model": f"{shapes}, {action.activation.name}, scale {action.scale}, "
            f"prior_precision {action.prior_precision}, {action.dtype}",
            "rows": digest_of(action.rows),
            "validation": "none" if self._held_out is None else digest_of(self._held_out),
            **self.updates.settings(),
        }
        return {**words, "rng": str(self._key)} if self._is_seeded else words

    def at(self, state: State) -> _Training:
        """The run at a state, which is restored if it comes from a file."""
        if state is not self.state:
            device = self._action.device
            self.updates.load(state)
            best = torch.from_numpy(state["best"]).to(device)
            self._best = best if len(best) else None
            self._best_step, self._best_action = state["best_step"], state["best_action"]
            self._calm, self._series = state["calm"], state["series"].tolist()
            names = state["names"].tolist()
            self._terms = [dict(zip(names, row, strict=True)) for row in state["terms"].tolist()]
            seconds, self.monitor_seconds = state["seconds"].tolist()
            self._since = time.perf_counter() - seconds
            self.state = state
        return self

    def after(self, state: State) -> State:
        """The state after one more update."""
        self.at(state).updates.update()
        self.state = _View(self._parts)
        return self.state

    def is_calm(self) -> bool:
        """Whether S_E has not fallen in ``patience`` consecutive records."""
        return self.patience is not None and self._calm >= self.patience

    def entry(self) -> TrainingEntry | None:
        """A record where one is due, of the step alone if there are to be none; else None."""
        updates, step = self.updates, self.updates.step
        if step % (self.every or self.per_epoch) and step < self.n_steps:
            return None
        updates.check()
        if not self.every:
            return TrainingEntry(step)
        started, theta = time.perf_counter(), updates.theta
        measured = Measurement(self.measured, theta)
        updates.require_finite("S_T", measured.action)
        series, terms = series_of(self.measured, theta, self.order)
        numbers: dict[str, float] = {}
        gradient = torch.zeros_like(theta)
        if self.validation is not None:
            validated = Measurement(self.validation, theta)
            updates.require_finite("S_E", validated.action)
            gradient = validated.gradient
            product = float(measured.gradient @ gradient)
            lengths = float(measured.gradient.norm()) * float(gradient.norm())
            numbers = {
                "validation_action": validated.action,
                "validation_accuracy": validated.accuracy,
                "gradient_product": product,
                "gradient_cosine": product / lengths if lengths else math.nan,
            }
            if updates.anchor is not None:
                numbers["update_product"] = float(updates.anchor[1] @ (theta - updates.anchor[0]))
                self._calm = self._calm + 1 if numbers["update_product"] >= 0 else 0
            if validated.action < self._best_action:
                self._best, self._best_step, self._best_action = theta, step, validated.action
        updates.anchor, updates.anchor_step = (theta, gradient), step
        self._series.append(series)
        self._terms.append(terms)
        entry = TrainingEntry(
            step,
            step / self.per_epoch,
            updates.rate,
            updates.mean_loss(),
            measured.action,
            training_accuracy=measured.accuracy,
            **numbers,
        )
        self.monitor_seconds += time.perf_counter() - started
        return entry

    def result(self, history: Sequence[TrainingEntry], reason: str, start: Any) -> TrainingResult:
        """The result of the run, with parameters in the kind of the initial ones."""
        n, last, seconds = self.updates.step, self.updates.theta, self.seconds
        words = {
            "epochs": f"{n} steps done",
            "stopped": f"stopped after {n} steps: S_E no longer fell in {self._calm} records in a "
            "row",
            "interrupted": f"interrupted after {n} steps",
        }
        share = self.monitor_seconds / seconds if seconds else 0.0
        records = zip(history, self._series, self._terms, strict=True)
        return TrainingResult(
            like(last if self._best is None else self._best, start),
            like(last, start),
            f"{words[reason]}; records took {share:.0%} of {seconds:.3g} s",
            reason == "stopped",
            n,
            n if self._best is None else self._best_step,
            tuple(TrainingRecord(**vars(x), series=tuple(s), terms=t) for x, s, t in records),
            seconds,
            self.monitor_seconds,
        )

    def _arrays(self) -> dict[str, Callable[[], Any]]:
        return {
            **self.updates.arrays(),
            "key": lambda: self._key,
            "best": lambda: np.zeros(0) if self._best is None else array_of(self._best),
            "best_step": lambda: self._best_step,
            "best_action": lambda: self._best_action,
            "calm": lambda: self._calm,
            "series": lambda: np.array(self._series, dtype=np.float64),
            "names": lambda: np.array(list(self._terms[0]) if self._terms else [], dtype="U8"),
            "terms": lambda: np.array([list(x.values()) for x in self._terms], dtype=np.float64),
            "seconds": lambda: np.array([self.seconds, self.monitor_seconds]),
        }


class _View(Mapping[str, Any]):
    """The arrays of a run as it is now, each copied on access."""

    def __init__(self, arrays: Mapping[str, Callable[[], Any]]) -> None:
        self._arrays = arrays

    def __getitem__(self, name: str) -> Any:
        return self._arrays[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


@contextmanager
def _shown(training: _Training, wanted: bool) -> Iterator[Callable[[TrainingEntry], None] | None]:
    """A progress bar with the losses of the last record and the fraction of time for records."""
    if not wanted:
        yield None
        return
    bar = progress_bar(training.n_steps, "step")

    def show(entry: TrainingEntry) -> None:
        losses = {"S_T": entry.training_action, "S_E": entry.validation_action}
        shown = {name: f"{x:.4g}" for name, x in losses.items() if not math.isnan(x)}
        shown["records"] = f"{training.monitor_seconds / training.seconds:.0%}"
        bar.set_postfix(shown, refresh=False)
        bar.update(entry.step - bar.n)

    try:
        yield show
    finally:
        bar.close()


def _key(rng: RandomSource, checkpoint: Any) -> int:
    """Seed of a run, which a checkpoint holds."""
    if rng is None and checkpoint is not None and checkpoint_path(checkpoint).is_file():
        stored = read_checkpoint(checkpoint, {}, {"state": {"key": 0}})
        return int(stored["state"]["key"])
    return int(generator(rng).integers(2**63))


def _validation(action: MLPEnergy, validation: Any) -> LabelledRows | None:
    """Validation rows that fit the action; classes may be missing among them."""
    if validation is None:
        return None
    if not isinstance(validation, tuple | list) or len(validation) != 2:
        raise ModelError("validation must be a pair (inputs, labels)")
    settings = RowSettings(None, action.rows.n_classes, action.device, action.dtype)
    try:
        return rows_for_network(validation[0], validation[1], action.rows.n_inputs, settings)
    except EbmError as error:
        raise type(error)(f"validation {error}") from error
