"""From the arguments of :func:`ebm.fit` to a training loop."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable
from typing import Any

from ebm.ensembles import Ensemble, Moments
from ebm.ensembles.data import from_data
from ebm.ensembles.ensemble import require_units
from ebm.errors import EbmError, FewSamplesWarning, ModelError, NoMaximumWarning, require_extra
from ebm.learning.averages import as_route
from ebm.learning.batches import positive_integer
from ebm.learning.descent import Descent
from ebm.learning.existence import (
    empty_cells,
    missing_maximum,
    require_changing_units,
    require_possible,
)
from ebm.learning.optimizers import Adam, Decay, GradientDescent, Optimizer
from ebm.learning.progress import Plan
from ebm.learning.result import FitEpoch, FitResult
from ebm.models.layered import LayeredModel
from ebm.models.pairwise import PairwiseModel
from ebm.randomness import RandomSource, generator

__all__ = ["descend"]

#: Rows of a batch, where not all are taken at once.
BATCH_SIZE = 100


def descend(
    model: Any,
    data: Any,
    *,
    average: Any,
    optimizer: Optimizer | None,
    n_epochs: int | None,
    batch_size: int | None,
    l2: float,
    l2_biases: float,
    l1: float,
    centering: bool,
    tolerance: float,
    validation: Any,
    rng: RandomSource,
    checkpoint: str | os.PathLike[str] | None,
    progress: bool,
) -> FitResult:
    """Fit by gradient steps; the arguments are those of :func:`ebm.fit`, data an ensemble.

    Returns
    -------
    FitResult
        The model as the last update left it.

    Raises
    ------
    ModelError
        If data have no rows and the model or the batches need some.
    EbmError
        If a setting is out of range.
    """
    if not (math.isfinite(l1) and l1 >= 0):
        raise EbmError(f"l1 must be a finite number ≥ 0, got {l1!r}")
    if not isinstance(centering, bool):
        raise EbmError(f"centering must be True or False, got {centering!r}")
    _require_rows(model, data, batch_size)
    as_route(average)
    chosen = default_optimizer(model) if optimizer is None else _checked_optimizer(optimizer)
    size = _batch_size(model, average, data, batch_size)
    if n_epochs is None:
        n_epochs = 5000 if size is None else 100
    show, close = _bar(progress, positive_integer(n_epochs, "n_epochs"))
    plan = Plan(
        average=average,
        optimizer=chosen,
        n_epochs=n_epochs,
        batch_size=size,
        l2=l2,
        l2_biases=l2_biases,
        l1=l1,
        centering=centering,
        tolerance=tolerance,
        validation=_validation(model, validation),
        checkpoint=checkpoint,
        report=show,
    )
    notes = _warnings_of(model, data, held=l2_biases > 0, bounded=l2 > 0 or l1 > 0)
    descent = Descent(model, data, plan, generator(rng))
    try:
        reason, sentence = descent.run()
    finally:
        close()
    return descent.result(reason, sentence, notes)


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


def _checked_optimizer(optimizer: Any) -> Optimizer:
    if isinstance(optimizer, type):
        raise EbmError(f"optimizer must be an object: write {optimizer.__name__}(rate)")
    if not (callable(getattr(optimizer, "start", None)) and hasattr(optimizer, "step")):
        raise EbmError(
            "optimizer must have start and step, as ebm.Adam(0.001) or "
            f"ebm.GradientDescent(0.05); got {optimizer!r}"
        )
    checked: Optimizer = optimizer
    return checked


def _require_rows(model: Any, data: Any, batch_size: Any) -> None:
    """Moments will do for pairwise families, all at once."""
    if not isinstance(data, Moments):
        require_units(data, model.space)
    elif not isinstance(model, PairwiseModel):
        raise ModelError(f"{type(model).__name__} does not learn from moments alone: give rows")
    elif batch_size is not None:
        raise ModelError("batch_size needs rows, these data are moments: give rows")


def _batch_size(model: Any, average: Any, data: Any, batch_size: Any) -> int | None:
    if batch_size is not None:
        return positive_integer(batch_size, "batch_size")
    with_memory = hasattr(average, "step")
    starts_at_rows = not getattr(average, "follows_model", True)
    by_moments = isinstance(model, PairwiseModel) and not starts_at_rows
    return BATCH_SIZE if with_memory and not by_moments else None


def _validation(model: Any, validation: Any) -> Ensemble | None:
    if validation is None:
        return None
    if isinstance(validation, Ensemble):
        require_units(validation, model.space)
        return validation
    with warnings.catch_warnings():
        # Means of energies need no more rows than units.
        warnings.simplefilter("ignore", FewSamplesWarning)
        return from_data(validation, space=model.space)


def _warnings_of(model: Any, data: Any, *, held: bool, bounded: bool) -> tuple[str, ...]:
    """Where a pairwise likelihood has no maximum: errors, and what must be said beforehand."""
    if not isinstance(model, PairwiseModel):
        return ()
    target = data.moments().to(model.space).two_valued()
    require_possible(target, model.pairs)
    if not held:
        require_changing_units(target)
    cells = [] if bounded else empty_cells(target, model.pairs)
    if not cells:
        return ()
    message = missing_maximum(cells, [], target.sample_size)
    warnings.warn(message, NoMaximumWarning, stacklevel=4)
    return (message,)


def _bar(progress: bool, n_epochs: int) -> tuple[Callable[[FitEpoch], object], Callable[[], None]]:
    """What to call after each epoch, and at the end."""
    if not progress:
        return (lambda epoch: None), (lambda: None)
    bar = require_extra("tqdm", "progress").tqdm(total=n_epochs, unit="epoch")

    def show(epoch: FitEpoch) -> None:
        bar.set_postfix({"moment error": f"{epoch.moment_error:.3g}"}, refresh=False)
        bar.update(epoch.iteration - bar.n)

    return show, bar.close
