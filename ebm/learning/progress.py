"""The settings of a training loop, and what changes while it runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ebm._checkpoints import fingerprint
from ebm._types import Array, Words
from ebm.ensembles import Ensemble, Moments
from ebm.learning.batches import Rows
from ebm.learning.monitor import RunningMean
from ebm.learning.optimizers import Optimizer
from ebm.learning.result import FitEpoch

__all__ = ["Plan", "Progress"]


@dataclass(frozen=True, eq=False)
class Plan:
    """The settings of a training loop.

    Parameters
    ----------
    average : callable or Route
        The model's side of the learning rule.
    optimizer : Optimizer
        How steps are made of gradients.
    n_epochs : int
        Most epochs.
    batch_size : int, optional
        Rows of a batch; None for all.
    l2, l2_biases, l1 : float
        Penalty ½ l2 Σ W² + l1 Σ|W| on couplings, ½ l2_biases Σ b² on all other parameters, in the
        gauge of the model as given.
    centering : bool
        Whether to learn in the centered gauge.
    tolerance : float
        Largest scaled gradient accepted where there is no noise.
    validation : Ensemble, optional
        Rows that are not learnt from.
    checkpoint : path-like, optional
        File written at the end of every epoch.
    report : callable
        Called with every epoch.
    """

    average: Any
    optimizer: Optimizer
    n_epochs: int
    batch_size: int | None
    l2: float
    l2_biases: float
    l1: float
    centering: bool
    tolerance: float
    validation: Ensemble | None
    checkpoint: str | os.PathLike[str] | None
    report: Callable[[FitEpoch], Any]


@dataclass(frozen=True, eq=False)
class Line:
    """What is collected for a line of history.

    Parameters
    ----------
    start : ndarray, (p,)
        Parameters before it.
    total : ndarray, (p,)
        Sum of the gradients, each times its share.
    shares : float
        Sum of the shares.
    updates : int
        How many.
    """

    start: Array
    total: Array
    shares: float
    updates: int

    @classmethod
    def at(cls, theta: Array) -> Line:
        """A new line."""
        return cls(theta, np.zeros_like(theta), 0.0, 0)

    def with_gradient(self, gradient: Array, share: float) -> Line:
        """The line after another update."""
        part = gradient if share == 1 else share * gradient
        return Line(self.start, self.total + part, self.shares + share, self.updates + 1)


@dataclass(frozen=True, eq=False)
class Progress:
    """All that changes, and all that a checkpoint holds but the history.

    Parameters
    ----------
    theta : ndarray, (p,)
        Parameters of the model in the centers it was given.
    center : ndarray
        What slides in the gauge.
    optimizer, route : Any
        States of the optimizer and of the average.
    rng : ndarray of uint64
        State of the generator that orders the rows.
    mean : RunningMean
        Of the gradient.
    epochs, updates : int
        Finished.
    calm : int
        Lines of history in a row with nothing but noise left.
    line : Line
        The next line of the history, so far.
    """

    theta: Array
    center: Array
    optimizer: Any
    route: Any
    rng: Words
    mean: RunningMean
    epochs: int
    updates: int
    calm: int
    line: Line


def held_by(now: Progress, history: Sequence[FitEpoch]) -> dict[str, Any]:
    """What a checkpoint holds.

    Parameters
    ----------
    now : Progress
        Where the loop stands.
    history : sequence of FitEpoch
        How it came there.

    Returns
    -------
    dict
        Nested arrays.
    """
    names = [field.name for field in fields(FitEpoch)]
    table = [[getattr(epoch, name) for name in names] for epoch in history]
    return {"now": now, "history": np.array(table, dtype=np.float64)}


def resumed(held: Any) -> tuple[Progress, list[FitEpoch]]:
    """The inverse of :func:`held_by`.

    Parameters
    ----------
    held : dict
        Nested arrays.

    Returns
    -------
    (Progress, list of FitEpoch)
        As they were.
    """
    kinds = {field.name: field.type for field in fields(FitEpoch)}
    history = []
    for row in held["history"].reshape(-1, len(kinds)):
        values = zip(kinds.items(), row.tolist(), strict=True)
        epoch: dict[str, Any] = {
            name: int(value) if kind == "int" else value for (name, kind), value in values
        }
        history.append(FitEpoch(**epoch))
    return held["now"], history


def settings_of(family: Any, data: Any, plan: Plan) -> dict[str, str]:
    """What a fit that resumes has in common with the one that was stopped.

    Parameters
    ----------
    family : ParametricModel
        The start.
    data : Rows or Moments
        What is learnt from.
    plan : Plan
        Settings.

    Returns
    -------
    dict of str to str
        By name, most telling first. The number of epochs is not among them, and neither is the
        seed, which is not known of ``rng=None``.
    """
    start = [np.asarray(family.parameters)]
    for name in ("feature_center", "visible_center", "hidden_center"):
        start.append(np.asarray(getattr(family, name, 0.0)).ravel())
    parts: tuple[Any, ...] = ()
    if isinstance(data, Rows):
        parts = data.states, data.index, data.weights
    elif isinstance(data, Moments):
        parts = data.mean, data.covariance
    return {
        "model": f"{type(family).__name__} over {family.space!r}",
        "number of parameters": str(len(family.parameters)),
        "start": fingerprint(np.concatenate(start)),
        "data": " ".join(fingerprint(np.asarray(part)) for part in parts),
        "validation": _rows_of(plan.validation),
        "average": fingerprint(plan.average),
        "optimizer": fingerprint(plan.optimizer),
        "batch_size": str(plan.batch_size),
        "l2": str(plan.l2),
        "l2_biases": str(plan.l2_biases),
        "l1": str(plan.l1),
        "centering": str(plan.centering),
    }


def _rows_of(validation: Ensemble | None) -> str:
    """Validation rows by a digest: what an epoch says of them would change in mid-history."""
    if validation is None:
        return "none"
    rows = Rows.of(validation)
    return " ".join(fingerprint(np.asarray(x)) for x in (rows.states, rows.index, rows.weights))


def words_of(generator: np.random.Generator) -> Words:
    """The state of a PCG64 generator as four words; draws of whole words leave nothing over."""
    state: Any = generator.bit_generator.state
    low = 2**64 - 1
    numbers = state["state"]["state"], state["state"]["inc"]
    words = [word for number in numbers for word in (number & low, number >> 64)]
    return np.array([*words, state["has_uint32"], state["uinteger"]], dtype=np.uint64)


def generator_of(words: Words) -> np.random.Generator:
    """The inverse of :func:`words_of`."""
    low, high, inc_low, inc_high, has, left = (int(word) for word in words)
    bits = np.random.PCG64(0)
    bits.state = {
        "bit_generator": "PCG64",
        "state": {"state": low | high << 64, "inc": inc_low | inc_high << 64},
        "has_uint32": has,
        "uinteger": left,
    }
    return np.random.Generator(bits)
