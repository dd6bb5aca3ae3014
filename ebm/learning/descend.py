"""From the arguments of :func:`ebm.fit` to a training loop."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

from ebm.ensembles import Ensemble, Moments
from ebm.ensembles.data import from_data
from ebm.ensembles.ensemble import require_units
from ebm.errors import FewSamplesWarning, ModelError, NoMaximumWarning, require_extra
from ebm.learning.averages import as_route
from ebm.learning.descent import Descent
from ebm.learning.existence import (
    empty_cells,
    missing_maximum,
    require_changing_units,
    require_possible,
)
from ebm.learning.progress import Plan
from ebm.learning.result import FitEpoch, FitResult
from ebm.learning.steps import GradientSteps, batch_size_for, default_optimizer
from ebm.models.pairwise import PairwiseModel
from ebm.randomness import RandomSource, generator

__all__ = ["descend"]


def descend(
    model: Any,
    data: Any,
    *,
    average: Any,
    steps: GradientSteps,
    l2: float,
    l2_biases: float,
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
    """
    _require_rows(model, data, steps.batch_size)
    as_route(average)
    batch_size = batch_size_for(steps, model, average)
    n_epochs = steps.n_epochs or (5000 if batch_size is None else 100)
    show, close = _bar(progress, n_epochs)
    plan = Plan(
        average=average,
        optimizer=steps.optimizer or default_optimizer(model),
        n_epochs=n_epochs,
        batch_size=batch_size,
        l1=steps.l1,
        centering=steps.centering,
        l2=l2,
        l2_biases=l2_biases,
        tolerance=tolerance,
        validation=_validation(model, validation),
        checkpoint=checkpoint,
        report=show,
    )
    notes = _warnings_of(model, data, held=l2_biases > 0, bounded=l2 > 0 or steps.l1 > 0)
    descent = Descent(model, data, plan, generator(rng))
    try:
        reason, sentence = descent.run()
    finally:
        close()
    if notes and reason == "converged":
        # The gradient goes to zero along a way to infinity, too.
        reason, sentence = "no maximum", f"{sentence}; the likelihood has no maximum"
    return descent.result(reason, sentence, notes)


def _require_rows(model: Any, data: Any, batch_size: Any) -> None:
    """Moments will do for pairwise families, all at once."""
    if not isinstance(data, Moments):
        require_units(data, model.space)
    elif not isinstance(model, PairwiseModel):
        raise ModelError(f"{type(model).__name__} does not learn from moments alone: give rows")
    elif batch_size is not None:
        raise ModelError("batch_size needs rows, these data are moments: give rows")


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
        bar.set_postfix({"moment error": f"{epoch.rms_moment_error:.3g}"}, refresh=False)
        bar.update(epoch.iteration - bar.n)

    return show, bar.close
