"""How a fit by gradient steps goes: frozen settings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ebm._arrays import as_flag, as_integer, as_number
from ebm.errors import EbmError
from ebm.learning.optimizers import Adam, Decay, GradientDescent, Optimizer
from ebm.models.pairwise import PairwiseModel
from ebm.models.restricted import RestrictedBoltzmannMachine as LayeredModel

__all__ = ["GradientSteps"]

#: Rows of a batch, where not all are taken at once.
BATCH_SIZE = 100


@dataclass(frozen=True)
class GradientSteps:
    """Learning by steps along the gradient of [EBM] eq 7 and eq 11.

    θ ← optimizer(θ, E_D[∂E/∂θ] − E_model[∂E/∂θ] + l1 sign W + …), one update for each batch.

    Parameters
    ----------
    optimizer : Optimizer, optional
        ``ebm.Adam(0.001)``, ``ebm.GradientDescent(0.05)``, ``ebm.learning.NaturalGradient(0.5)``,
        or any object with their two members;
        if not given one that suits the model, with a falling rate.
    n_epochs : int, optional
        Most passes over the rows; 100 with batches, 5000 where all rows are one batch.
    batch_size : int, optional
        Rows for each update. If not given, all rows for pairwise families, which need only their
        moments, and for averages without memory; 100 elsewhere.
    l1 : float
        Penalty l1 Σ|W| on couplings, by its subgradient, so that they come near to zero, not to
        it.
    centering : bool
        Whether steps are taken in the gauge centered at the means of data and model, which do not
        depend on the coding of a unit. The model comes back in its own center.

    Raises
    ------
    EbmError
        If a setting is out of range.

    Examples
    --------
    >>> import ebm
    >>> rows = [[0, 0], [0, 1], [1, 0], [1, 1], [1, 1], [0, 0]]
    >>> family = ebm.BoltzmannMachine([[0, 0], [0, 0]], [0, 0])
    >>> result = ebm.fit(family, rows, steps=ebm.GradientSteps(ebm.GradientDescent(2.0)))
    >>> result.model.weights.round(4)
    array([[0.    , 1.3863],
           [1.3863, 0.    ]])
    """

    optimizer: Optimizer | None = None
    n_epochs: int | None = None
    batch_size: int | None = None
    l1: float = 0.0
    centering: bool = True

    def __post_init__(self) -> None:
        if self.optimizer is not None:
            _require_optimizer(self.optimizer)
        for name in ("n_epochs", "batch_size"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, as_integer(getattr(self, name), name))
        l1 = as_number(self.l1, "l1")
        if not (math.isfinite(l1) and l1 >= 0):
            raise EbmError(f"l1 must be a finite number ≥ 0, got {self.l1!r}")
        object.__setattr__(self, "l1", l1)
        object.__setattr__(self, "centering", as_flag(self.centering, "centering"))


def batch_size_for(steps: GradientSteps, model: Any, average: Any) -> int | None:
    """Rows for each update.

    Parameters
    ----------
    steps : GradientSteps
        Whose ``batch_size`` decides where it is given.
    model : ParametricModel
        The family.
    average : callable or Route
        The model's side of the learning rule.

    Returns
    -------
    int or None
        None for all rows.
    """
    with_memory = hasattr(average, "step")
    starts_at_rows = not getattr(average, "follows_model", True)
    by_moments = isinstance(model, PairwiseModel) and not starts_at_rows
    if steps.batch_size is None and with_memory and not by_moments:
        return BATCH_SIZE
    return steps.batch_size


def default_optimizer(model: Any) -> Optimizer:
    """An optimizer that suits most data.

    Parameters
    ----------
    model : ParametricModel
        The family.

    Returns
    -------
    Optimizer
        With a falling rate: Adam for pairwise and other families, plain steps with momentum for
        machines with hidden units.
    """
    if isinstance(model, LayeredModel):
        return GradientDescent(Decay(0.05, 10_000), momentum=0.5)
    # A unit's log-odds move by the sum over its couplings.
    n = getattr(model.space, "n", 1)
    return Adam(Decay(min(0.02, 0.5 / n), 500))


def _require_optimizer(optimizer: Any) -> None:
    if isinstance(optimizer, type):
        raise EbmError(f"optimizer must be an object: write {optimizer.__name__}(rate)")
    if not (callable(getattr(optimizer, "start", None)) and hasattr(optimizer, "step")):
        raise EbmError(
            "optimizer must have start and step, as ebm.Adam(0.001) or "
            f"ebm.GradientDescent(0.05); got {optimizer!r}"
        )
